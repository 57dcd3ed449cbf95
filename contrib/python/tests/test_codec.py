"""The values that may leave a sandbox, and the refusal of bytes that no encoder wrote."""

# once: the caller's rights make no difference

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import fractions
import functools
import ipaddress
import pathlib
import pickle
import random
import signal
import sys
import time
import tracemalloc
import uuid
import zoneinfo
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import attrs
import msgpack
import pydantic
import pytest

from pysbx import SerializationError, sandbox
from pysbx.calls.call import find_class_for
from pysbx.calls.decode import decode
from pysbx.inside.encode import encode
from pysbx.inside.refusal import Unserializable
from pysbx.inside.wire import Code

UTC = datetime.timezone.utc
EAST = datetime.timezone(datetime.timedelta(hours=5, minutes=30), "east")


class Colour(enum.Enum):
    """An enumeration of this module."""

    RED = "r"


class Flag(enum.IntFlag):
    """One whose members are numbers, too."""

    A = 1
    B = 2


class Right(enum.Flag):
    """One with a named combination."""

    READ = 1
    WRITE = 2
    BOTH = 3
    RUN = 4


class OwnPath(pathlib.PurePosixPath):
    """A path that may contain more than its text."""


@dataclass
class Point:
    """A dataclass whose own code must not run when it is read."""

    x: int
    tags: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Leave a trace."""
        CREATED.append(self)


CREATED: list[Point] = []
VALUES: list[Any] = [
    None, True, False, 0, -1, 2**63, -(2**63), 2**64, -(2**64), 10**500, -(10**500), 0.0, -0.0, 1.5, float("inf"),
    1 + 2j,
    "", "é\n\0", "\ud800", b"", b"\xff", [], [1, [2, [3]]], (), (1, (2,)), {}, {"a": 1, 2: "b", (1, 2): None}, {1, 2},
    frozenset({(1, 2), "x"}), bytearray(b"ab"), datetime.date(1, 1, 1), datetime.time(1, 2, 3, 4),
    datetime.time(1, 2, tzinfo=EAST), datetime.datetime(2024, 2, 29, 12, 0, 0, 1),
    datetime.datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin")),
    datetime.datetime(2024, 1, 1, tzinfo=EAST), datetime.timedelta(-5, 3, 1), UTC, EAST, decimal.Decimal("1.10"),
    decimal.Decimal("-Infinity"), fractions.Fraction(-3, 7), uuid.UUID(int=7), pathlib.Path("/a/b"),
    pathlib.PurePosixPath("a"), Colour.RED, Flag.B,
    Flag.A | Flag.B, Flag(0), Right.READ | Right.RUN, Right.BOTH, Right(0), {Right.RUN | Right.WRITE: 1},
    range(3), range(0, -(10**30), -7), collections.deque([1, (2,)], 5), collections.deque(),
    collections.Counter("aab"), collections.OrderedDict({(1, 2): 3, "a": None}),
    collections.defaultdict(list, {"a": [1]}), collections.defaultdict(None, {1: 2}), zoneinfo.ZoneInfo("Asia/Tokyo"),
    {(10**5000, "x"): [1]}, {frozenset({-(10**5000)}): None}, {10**4400: {10**4400: 2}},
    Point(1, ["x"]), [Point(2), {Colour.RED: 1, uuid.UUID(int=1): 2}],
]  # fmt: skip


def shown(value: object) -> str:
    """Return the repr() of a value, of integers with any number of digits."""
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        return repr(value)
    finally:
        sys.set_int_max_str_digits(before)


def expected_classes() -> Any:
    """Return the finder that a function of this module would have."""
    return find_class_for(expected_classes, ())


@pytest.mark.parametrize("value", VALUES, ids=lambda value: f"{type(value).__name__}-{shown(value)[:20]!a}")
def test_there_and_back(value: Any) -> None:
    found = decode(encode(value), expected_classes())
    assert found == value
    assert type(found) is type(value)
    assert isinstance(value, (set, frozenset)) or shown(found) == shown(value)


def test_nan_and_fold_survive() -> None:
    found = decode(encode([float("nan"), datetime.time(1, fold=1)]))
    assert found[0] != found[0]
    assert found[1].fold == 1


def test_all_of_it_through_a_sandbox() -> None:
    @sandbox
    def echo(values: list[Any]) -> list[Any]:
        return values

    assert echo(VALUES) == VALUES


def test_reading_a_dataclass_runs_none_of_its_code() -> None:
    data = encode(Point(1))
    CREATED.clear()
    assert decode(data, expected_classes()).x == 1
    assert CREATED == []


def test_a_class_that_is_not_expected_is_refused() -> None:
    with pytest.raises(SerializationError, match="does not expect"):
        decode(encode(Point(1)))


@pytest.mark.parametrize("content", [["m" * 10**6, "n" * 10**6, "x"], ["tests.test_codec", "Colour", "x" * 10**6]])
def test_an_error_repeats_no_name_of_any_length(content: list[Any]) -> None:
    with pytest.raises(SerializationError) as caught:
        decode(hostile(Code.ENUM, content), expected_classes())
    assert len(str(caught.value)) + len(caught.value.type_name) < 2000


def test_a_class_of_the_module_of_a_wrapped_function_is_expected() -> None:
    elsewhere: dict[str, Any] = {"__name__": "elsewhere", "wraps": functools.wraps}
    exec("def decorate(function):\n    return wraps(function)(lambda *given: function(*given))", elsewhere)

    def make() -> Point:
        return Point(1)

    wrapped = elsewhere["decorate"](make)
    for function in (wrapped, functools.partial(wrapped), functools.cache(make)):
        assert decode(encode(Point(1)), find_class_for(function, ())) == Point(1)
    ring = elsewhere["decorate"](make)
    ring.__wrapped__ = ring
    with pytest.raises(SerializationError, match="does not expect"):
        decode(encode(Point(1)), find_class_for(ring, ()))


def test_a_class_of_a_module_that_is_merely_loaded_is_refused() -> None:
    with pytest.raises(SerializationError, match="HTTPStatus"):
        decode(hostile(Code.ENUM, ["http", "HTTPStatus", "OK"]), expected_classes())


class Text(str):
    """A subclass, which may carry more than its base."""


def endless() -> list[Any]:
    """Return a list that contains itself."""
    found: list[Any] = []
    found.append(found)
    return found


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (object(), "result"),
        ([{"a": {1, (2, lambda: None)}}], "result[0]['a'][0][1]"),
        (Text("x"), "result"),
        (Point(1, [open]), "result.tags[0]"),  # type: ignore[list-item]
        (collections.defaultdict(lambda: 0), "result"),
        ({object(): 1}, "key <object"),
        ([pathlib.PureWindowsPath("C:\\x")], "result[0]"),
        ([OwnPath("x")], "result[0]"),
    ],
)
def test_what_cannot_leave_is_named_with_its_place(value: Any, path: str) -> None:
    if path.startswith("result[0]['a']"):  # the order of a set is its own
        value = [{"a": [(2, lambda: None)]}]
        path = "result[0]['a'][0][1]"
    with pytest.raises(Unserializable) as caught:
        encode(value)
    assert caught.value.path.startswith(path)


@pytest.mark.parametrize(
    ("value", "write"),
    [
        ({1: 2}.keys(), r"set\(…\)"),
        ({1: 2}.values(), r"list\(…\)"),
        (iter([1]), r"list\(…\)"),
        (collections.ChainMap({}), r"dict\(…\)"),
        (collections.defaultdict(lambda: 0), r"dict\(…\)"),
        (time.gmtime(0), r"tuple\(…\)"),
        (Text("x"), r"str\(…\)"),
        (ValueError("x"), r"repr\(…\)"),
        (memoryview(b"x"), r"bytes\(…\)"),
        (pydantic.create_model("Model", a=(int, ...))(a=1), r"its model_dump\(\)"),
        (attrs.make_class("Attrs", ["a"])(1), r"attrs\.asdict\(…\)"),
        (ipaddress.ip_address("::1"), r"str\(…\)"),
        (ipaddress.ip_network("10.0.0.0/8"), r"str\(…\)"),
    ],
)
def test_a_refusal_says_what_to_write(value: Any, write: str) -> None:
    with pytest.raises(Unserializable, match=f"return {write}"):
        encode(value)


def test_flags_that_a_class_does_not_have_are_refused() -> None:
    data = encode(Right.READ | Right.RUN)
    assert data.endswith(b"\x05")
    with pytest.raises(SerializationError, match="combination of flags"):
        decode(data[:-1] + b"\x0f", expected_classes())


def test_scalars_of_numpy_keep_each_nul_at_their_end() -> None:
    numpy = pytest.importorskip("numpy")
    for value in (numpy.bytes_(b"a\0\0"), numpy.str_("a\0"), numpy.str_("\0"), numpy.array(["b"], dtype=">U3")[0]):
        found = decode(encode(value))
        assert found == value
        assert type(found) is type(value)
    with pytest.raises(Unserializable, match=r"return str\(…\)"):
        encode(numpy.dtype("i4"))


def test_a_value_that_contains_itself() -> None:
    with pytest.raises(Unserializable, match="contains itself"):
        encode(endless())


def test_numpy_arrays(virtualenv: str) -> None:
    numpy = pytest.importorskip("numpy")
    for array in (
        numpy.arange(6).reshape(2, 3).T,
        numpy.array(1.5),
        numpy.zeros((0, 3), dtype="f4"),
        numpy.array(["a", "bé"]),
        numpy.array(["2024-01-01"], dtype="M8[ns]"),
        numpy.array([1 + 2j]),
        numpy.array([True]),
        numpy.array(["\U0010ffff", "\ud800"]),
        numpy.array(["é"], dtype=">U3"),
        numpy.array([1], dtype=">i2"),
    ):
        found = decode(encode(array))
        assert found.dtype == array.dtype
        assert found.shape == array.shape
        assert (found == array).all()
        assert found.flags.writeable
    assert decode(encode(numpy.float32(1.5))) == numpy.float32(1.5)
    for empty in (numpy.str_(""), numpy.bytes_(b"")):
        found = decode(encode([empty]))[0]
        assert (type(found), found) == (type(empty), empty)
    with pytest.raises(Unserializable, match=r"dtype object cannot leave the sandbox: return its tolist\(\)"):
        encode(numpy.array([object()]))


def hostile(code: int, content: Any) -> bytes:
    """Return a value of an extension type that no encoder makes: with bytes, or with a list for its elements."""
    if isinstance(content, bytes):
        return bytes(msgpack.packb(msgpack.ExtType(code, content)))
    return bytes(msgpack.packb([msgpack.ExtType(code, b""), *content]))


def nested(depth: int) -> bytes:
    """Return tuples within tuples."""
    return (b"\x92" + msgpack.packb(msgpack.ExtType(Code.TUPLE, b""))) * depth + b"\x01"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"\x91",
        b"\xdd\xff\xff\xff\xff",
        b"\x01\x01",
        pickle.dumps([1]),
        hostile(99, b"x"),
        hostile(Code.PATH, b""),
        hostile(Code.TUPLE, b"x"),
        b"\x92\x01" + hostile(Code.TUPLE, b""),
        b"\x81" + hostile(Code.TUPLE, b"") + b"\x01",
        b"\x81" + b"\x90" + b"\x01",
        hostile(Code.COMPLEX, b"1"),
        hostile(Code.UUID, b"1"),
        hostile(Code.DECIMAL, b"x"),
        hostile(Code.SET, [[1]]),
        hostile(Code.DATE, [0, 0, 0]),
        hostile(Code.DATETIME, [1]),
        hostile(Code.TIMEZONE, ["../../etc/passwd"]),
        hostile(Code.TIMEZONE, ["/etc/passwd"]),
        hostile(Code.TIMEZONE, ["os.path/x"]),
        hostile(Code.TIMEZONE, ["No/Such"]),
        hostile(Code.TIMEZONE, [1]),
        hostile(Code.TIMEZONE, [10**18, None]),
        hostile(Code.FRACTION, [1, 0]),
        hostile(Code.ENUM, ["tests.test_codec", "Colour", "__class__"]),
        hostile(Code.ENUM, [[], {}, 1]),
        hostile(Code.DATACLASS, ["tests.test_codec", "Point", {"x": 1}]),
        hostile(Code.DATACLASS, ["tests.test_codec", "Point", {"x": 1, "tags": 1, "__class__": 1}]),
        hostile(Code.DATACLASS, ["tests.test_codec", "Colour", {}]),
        hostile(Code.ARRAY, ["O", [1], b"12345678"]),
        hostile(Code.ARRAY, ["<i8", [10**9], b"12345678"]),
        hostile(Code.ARRAY, [[["a", "O"]], [1], b"12345678"]),
        hostile(Code.ARRAY, ["U999999999", [0], b""]) + b"x",
        hostile(Code.ARRAY, ["|b1", [3], b"\x00\x01\x02"]),
        hostile(Code.SCALAR, ["|b1", b"\xff"]),
        hostile(Code.ARRAY, ["<U2", [1], b"a\0\0\0\0\0\x11\0"]),
        hostile(Code.ARRAY, [">U1", [1], b"\0\x11\0\0"]),
        hostile(Code.SCALAR, ["<U1", b"\0\0\0\xff"]),
        hostile(Code.DATAFRAME, b"ARROW1"),
        hostile(Code.POLARS_FRAME, b"ARROW1"),
        hostile(Code.POLARS_SERIES, b""),
        hostile(Code.ROWS, []),
        hostile(Code.ROWS, ["name", 1]),
        b"\x91" * 100_000,
        nested(5000),
        hostile(Code.DICT, [1]),
        hostile(Code.DICT, [[], 1]),
    ],
)
def test_hostile_bytes_are_an_error_and_nothing_else(data: bytes) -> None:
    with pytest.raises(SerializationError):
        decode(data, expected_classes())


@pytest.mark.parametrize("data", [b"\xd6\xff" + bytes(4), b"\xd7\xff" + bytes(8), b"\xc7\x0c\xff" + bytes(12)])
def test_a_timestamp_of_messagepack_is_a_datetime(data: bytes) -> None:
    found = decode(data)
    assert type(found) is datetime.datetime
    assert found == datetime.datetime(1970, 1, 1, tzinfo=UTC)
    with pytest.raises(SerializationError):
        decode(b"\xc7\x0c\xff" + bytes(4) + b"\x7f" * 8)


def test_an_answer_cannot_grow_without_bound() -> None:
    many = msgpack.packb([[]] * 1000)
    bomb = b"\xdd" + (12_000).to_bytes(4, "big") + many * 12_000
    with pytest.raises(SerializationError, match="elements"):
        decode(bomb)


def alike(make: Callable[[int], Any], number: int = 20_000) -> list[Any]:
    """Return values that differ and have one hash, as the elements of an answer: multiples of the modulus of hashes."""
    values = [make(factor * sys.hash_info.modulus + 1) for factor in range(number)]
    assert len(set(map(hash, values))) == 1
    return [msgpack.unpackb(encode(value), strict_map_key=False) for value in values]


@pytest.mark.parametrize(
    ("code", "make"),
    [
        (Code.SET, int),
        (Code.FROZENSET, fractions.Fraction),
        (Code.DICT, decimal.Decimal),
        (None, lambda number: (number,)),
    ],
)
def test_hashes_that_were_chosen_do_not_keep_the_host_busy(code: Code | None, make: Callable[[int], Any]) -> None:
    items = alike(make)
    if code is None:
        pairs = b"".join(msgpack.packb(item) + b"\x01" for item in items)
        data = b"\xdf" + len(items).to_bytes(4, "big") + pairs
    else:
        data = hostile(code, [part for item in items for part in (item, item)] if code is Code.DICT else items)
    began = time.thread_time()
    with pytest.raises(SerializationError, match="hash"):
        decode(data)
    assert time.thread_time() - began < 5


def test_hashes_that_were_chosen_add_up_over_many_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    # One takes some milliseconds, and how many a second's worth is depends on the machine.
    monkeypatch.setattr("pysbx.calls.decode.HASHING_SEC", 0.1)
    monkeypatch.setattr("pysbx.calls.decode.HASHING_SEC_EACH", 0)
    one = [msgpack.ExtType(Code.SET, b""), *alike(int, 1000)]
    assert len(decode(msgpack.packb([one]))[0]) == 1000
    data = msgpack.packb([one] * 500)
    with pytest.raises(SerializationError, match="hash"):
        decode(data)


def test_large_sets_and_dicts_pass() -> None:
    powers = {2**number for number in range(5000)}
    assert decode(encode([powers, frozenset(powers)])) == [powers, powers]
    numbers = dict.fromkeys(random.Random(1).sample(range(1 << 60), 300_000))
    assert decode(encode([numbers, set(numbers)])) == [numbers, set(numbers)]
    assert list(decode(encode(numbers))) == list(numbers)


@pytest.mark.parametrize("wrap", [lambda value: value, lambda value: (value,)])
def test_a_decimal_is_not_compared_with_a_long_integer(wrap: Callable[[Any], Any]) -> None:
    number = 1 << 3_000_000
    with pytest.raises(SerializationError, match="as bytes"):
        decode(encode([{wrap(number)}, {wrap(decimal.Decimal(1)): 2}, {wrap(2)}]))
    assert decode(encode([number, decimal.Decimal(1), {"a": 1}])) == [number, 1, {"a": 1}]
    assert decode(encode({wrap(number)})) == {wrap(number)}


def test_decimals_in_many_small_sets_do_not_keep_the_host_busy() -> None:
    # Integers and Decimals of one hash. To compare two takes a millisecond.
    numbers = [(factor << 60_000) - (factor << 60_000) % sys.hash_info.modulus + 5 for factor in range(1, 9)]
    items = [msgpack.unpackb(encode(value)) for value in (*numbers, decimal.Decimal(5))]
    data = msgpack.packb([[msgpack.ExtType(Code.SET, b""), *items]] * 300)
    began = time.thread_time()
    with pytest.raises(SerializationError, match="hash"):
        decode(data)
    assert time.thread_time() - began < 10


def test_a_range_of_long_integers_is_refused_before_it_is_divided() -> None:
    long = [msgpack.unpackb(encode(number)) for number in (1 << 800_000, (1 << 400_000) + 1)]
    began = time.thread_time()
    with pytest.raises(SerializationError, match="range of integers"):
        decode(hostile(Code.RANGE, [0, *long]))
    assert time.thread_time() - began < 0.1
    with pytest.raises(SerializationError, match="malformed range"):
        decode(hostile(Code.RANGE, [0, "1", 2]))


def test_the_exception_of_a_signal_stays_what_it_is() -> None:
    def handle(*_: object) -> None:
        raise RuntimeError("the time is over")

    seen: list[str] = []

    def find(_: str, name: str) -> type:
        seen.append(name)
        if len(seen) == 1:
            signal.raise_signal(signal.SIGUSR1)
        return Colour

    before = signal.signal(signal.SIGUSR1, handle)
    try:
        with pytest.raises(RuntimeError, match="the time is over"):
            decode(encode(Colour.RED), find)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert decode(encode(Colour.RED), find) is Colour.RED


def test_random_damage_never_escapes_as_another_exception() -> None:
    source = random.Random(7)
    whole = encode(VALUES)
    survived = 0
    for _ in range(3000):
        data = bytearray(whole)
        for _ in range(source.randrange(1, 4)):
            data[source.randrange(len(data))] = source.randrange(256)
        try:
            decode(bytes(data[: source.randrange(len(data) // 2, len(data) + 1)]), expected_classes())
            survived += 1
        except SerializationError:
            pass
    assert survived < 3000


@pytest.mark.timeout(20)
def test_shared_parts_are_counted_as_often_as_they_occur() -> None:
    shared: Any = [0]
    for _ in range(10):
        shared = [shared, {"a": shared}]
    assert decode(encode(shared)) == shared
    for kind in (lambda part: [part, part], lambda part: (part, part), lambda part: {1: part, 2: part}):
        large: Any = 0
        for _ in range(100):
            large = kind(large)
        with pytest.raises(Unserializable, match="10000000 elements"):
            encode(large)
    itself: list[Any] = []
    itself.append([itself, itself])
    with pytest.raises(Unserializable, match="contains itself"):
        encode(itself)


def test_a_list_takes_no_room_before_its_elements_are_there() -> None:
    tracemalloc.start()
    try:
        with pytest.raises(SerializationError):
            decode(b"\xdd\x00\x98\x96\x80" * 100)  # lists of ten million elements, each in the one before
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
