"""Tables in hostile answers: a few bytes that stand for many are refused before they are read."""

# once: the caller's rights make no difference

from __future__ import annotations

import json
import pathlib
import resource
import struct
import sys
import time
from typing import Any

import msgpack
import pytest

from pysbx.calls.decode import decode
from pysbx.errors import SerializationError
from pysbx.inside import frames
from pysbx.inside.encode import encode
from pysbx.inside.wire import Code

numpy, pandas, polars, pyarrow = map(pytest.importorskip, ("numpy", "pandas", "polars", "pyarrow"))

TABLES = (Code.TABLE, Code.DATAFRAME, Code.POLARS_FRAME)
MANY = 300_000_000


def answer(code: Code, table: Any, **options: Any) -> bytes:
    """Return the answer with a table as a sandbox may write it."""
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema, options=pyarrow.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return bytes(msgpack.packb(msgpack.ExtType(code, bytes(sink.getvalue()))))


def peak() -> int:
    """Return the most memory that this process has held, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
@pytest.mark.parametrize("code", TABLES)
def test_a_compressed_table_is_refused(code: Code, compression: str) -> None:
    table = pyarrow.table({"a": pyarrow.array(bytes(1 << 20) for _ in range(4))})
    data = answer(code, table, compression=compression)
    assert len(data) < 1 << 16
    with pytest.raises(SerializationError, match="compressed"):
        decode(data)
    dictionary = pyarrow.table({"a": pyarrow.array(["x" * 1000]).dictionary_encode()})
    with pytest.raises(SerializationError, match="compressed"):
        decode(answer(code, dictionary, compression=compression))


@pytest.mark.parametrize("code", TABLES)
def test_a_table_whose_columns_share_their_bytes_is_refused(code: Code) -> None:
    numbers = pyarrow.array(range(1 << 16))
    data = bytearray(answer(code, pyarrow.table({"a": numbers, "b": numbers})))
    # Where the second column begins, and its length: now it has all that there is, the first column included.
    size = numbers.nbytes.to_bytes(8, "little")
    second = data.rindex(size * 2)
    data[second : second + 16] = bytes(8) + (2 * numbers.nbytes).to_bytes(8, "little")
    with pytest.raises(SerializationError, match="larger than its bytes"):
        decode(bytes(data))


def empty_texts(number: int) -> Any:
    """Return texts that are not even an offset each."""
    return pyarrow.FixedSizeBinaryArray.from_buffers(pyarrow.binary(0), number, [None, pyarrow.py_buffer(b"")])


def empty_lists(number: int) -> Any:
    """Return lists that are not even an offset each."""
    kind = pyarrow.list_(pyarrow.int8(), 0)
    return pyarrow.FixedSizeListArray.from_buffers(kind, number, [None], children=[pyarrow.array([], pyarrow.int8())])


def empty_dicts(number: int) -> Any:
    """Return structures that have no fields."""
    return pyarrow.StructArray.from_buffers(pyarrow.struct([]), number, [None], children=[])


@pytest.mark.parametrize("make", [pyarrow.nulls, empty_texts, empty_lists, empty_dicts])
def test_many_rows_of_nothing_do_not_fill_the_memory(make: Any) -> None:
    data = answer(Code.DATAFRAME, pyarrow.table({"a": make(MANY)}))
    assert len(data) < 1000
    before = peak()
    with pytest.raises(SerializationError, match="more than 1024 MiB"):
        decode(data)
    assert peak() - before < 100
    assert decode(answer(Code.DATAFRAME, pyarrow.table({"a": make(1000)}))).shape == (1000, 1)


def test_dicts_that_are_a_bit_each_do_not_fill_the_memory() -> None:
    number = 1 << 24
    bits = pyarrow.BooleanArray.from_buffers(pyarrow.bool_(), number, [None, pyarrow.py_buffer(bytes(number >> 3))])
    table = pyarrow.table({"a": pyarrow.StructArray.from_arrays([bits], ["bit"])})
    with pytest.raises(SerializationError, match="return a pyarrow table"):
        decode(answer(Code.DATAFRAME, table))
    assert decode(answer(Code.TABLE, table)).num_rows == number


def test_pandas_gets_no_elements_that_share_their_content() -> None:
    ends = pyarrow.array([1000], pyarrow.int32())
    for array in (
        pyarrow.RunEndEncodedArray.from_arrays(ends, pyarrow.array(["x" * 1000])),
        pyarrow.ListArray.from_arrays([0, 2], pyarrow.array(["x" * 1000] * 2).dictionary_encode()),
        pyarrow.array(["x" * 1000], pyarrow.string_view()),
    ):
        with pytest.raises(SerializationError, match="a column of type"):
            decode(answer(Code.DATAFRAME, pyarrow.table({"a": array})))


def test_polars_gets_no_dictionary_of_lists() -> None:
    dictionary = pyarrow.array([[0] * 1000])
    indices = pyarrow.array([0] * 1000, pyarrow.int8())
    lists = pyarrow.DictionaryArray.from_arrays(indices, dictionary)
    for array in (lists, pyarrow.ListArray.from_arrays([0, 1000], lists)):
        with pytest.raises(SerializationError, match="a column of type"):
            decode(answer(Code.POLARS_FRAME, pyarrow.table({"a": array})))


def test_a_panic_of_polars_is_an_error_like_others() -> None:
    table = pyarrow.table({"a": pyarrow.array([1], pyarrow.timestamp("us", "Europe/Berlin"))})
    data = answer(Code.POLARS_FRAME, table).replace(b"Europe/Berlin", b"\xff" * 13)
    with pytest.raises(SerializationError):  # which a Rust library ends by what is no Exception
        decode(data)


DAY = 86_400_000_000


@pytest.mark.parametrize(
    ("kind", "day"),
    [
        (pyarrow.date32(), 1),
        (pyarrow.date64(), DAY // 1000),
        (pyarrow.timestamp("s"), DAY // 1_000_000),
        (pyarrow.timestamp("ms"), DAY // 1000),
        (pyarrow.timestamp("us", "Europe/Berlin"), DAY),
    ],
)
@pytest.mark.parametrize("within", ["", "list", "struct", "map", "large_list"])
def test_polars_gets_no_dates_that_are_panic_when_they_are_printed(kind: Any, day: int, within: str) -> None:
    def table(*numbers: int | None) -> bytes:
        width = pyarrow.int32() if kind == pyarrow.date32() else pyarrow.int64()
        array = pyarrow.array(numbers, width).view(kind)
        wrapped = {
            "": lambda: array,
            "list": lambda: pyarrow.ListArray.from_arrays([0, len(array)], array),
            "large_list": lambda: pyarrow.LargeListArray.from_arrays([0, len(array)], array),
            "struct": lambda: pyarrow.StructArray.from_arrays([array], ["field"]),
            "map": lambda: pyarrow.MapArray.from_arrays([0, len(array)], list("abc"[: len(array)]), array),
        }
        return answer(Code.POLARS_FRAME, pyarrow.table({"when": wrapped[within]()}))

    for most in (95_000_000, -95_000_000):
        found = decode(table(0, most * day, None))
        assert str(found)
        assert ("262071" if most > 0 else "-258132") in found.write_json()
        with pytest.raises(SerializationError, match=r"date out of range.*column 'when'"):
            decode(table(0, None, (most + most // abs(most)) * day))
    assert decode(table()).shape == (0 if not within or within == "struct" else 1, 1)


def test_a_name_that_is_no_unicode_is_an_error() -> None:
    for code in TABLES[1:]:
        data = answer(code, pyarrow.table({"name": ["x"]})).replace(b"name", b"\xff\xfe\xfd\xfc")
        with pytest.raises(SerializationError):
            decode(data)


def test_what_pandas_says_about_its_tables_does_not_multiply_them() -> None:
    table = pyarrow.table({"a": range(1000), "b": range(1000)})
    about = {"index_columns": ["a"] * 1000, "column_indexes": [], "columns": []}
    with pytest.raises(SerializationError):
        decode(answer(Code.DATAFRAME, table.replace_schema_metadata({"pandas": json.dumps(about)})))


def described(**about: Any) -> bytes:
    """Return the answer with a table of pandas that says something about itself."""
    known: dict[str, Any] = {"index_columns": [], "column_indexes": [], "columns": []}
    table = pyarrow.table({"a": [1]}).replace_schema_metadata({"pandas": json.dumps(known | about)})
    return answer(Code.DATAFRAME, table)


def extended(name: str, about: str, kind: Any = None) -> bytes:
    """Return the answer with a column of a type of pandas, or with lists of it."""
    metadata = {"ARROW:extension:name": name, "ARROW:extension:metadata": about}
    field = pyarrow.field("a", pyarrow.int64(), metadata=metadata)
    if kind is not None:
        field = pyarrow.field("a", kind(field))
    return answer(Code.DATAFRAME, pyarrow.table([pyarrow.nulls(1, field.type)], schema=pyarrow.schema([field])))


LABEL = {"name": None, "field_name": None, "pandas_type": "unicode", "numpy_type": "object", "metadata": None}


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: described(columns=[LABEL | {"name": "a", "numpy_type": "interval" + "[" * 200_000}]), "unknown type"),
        (lambda: described(column_indexes=[LABEL | {"numpy_type": "datetime64[ns, dateutil//f]"}]), "unknown type"),
        (lambda: described(column_indexes=[LABEL] * 2), "several levels"),
        (lambda: extended("pandas.period", json.dumps({"freq": "1" * 200_000})), "too many parameters"),
        (lambda: extended("pandas.period", json.dumps({"freq": "1" * 200_000}), pyarrow.list_), "too many parameters"),
    ],
)
def test_what_pandas_says_about_its_tables_takes_no_time(make: Any, match: str) -> None:
    data = make()
    began = time.thread_time()
    with pytest.raises(SerializationError, match=match):
        decode(data)
    assert time.thread_time() - began < 5


def test_strings_that_share_their_bytes_are_not_validated_each() -> None:
    text = b"x" * 2_000_000
    views = struct.pack("<i4sii", len(text), text[:4], 0, 0) * 20_000
    array = pyarrow.Array.from_buffers(pyarrow.string_view(), 20_000, [None, *map(pyarrow.py_buffer, (views, text))])
    for column in (array, pyarrow.ListArray.from_arrays([0, 20_000], array)):
        for code in (Code.TABLE, Code.POLARS_FRAME):
            data = answer(code, pyarrow.table({"a": column}))
            began = time.thread_time()
            with pytest.raises(SerializationError, match=r"share their bytes|a column of type"):
                decode(data)
            assert time.thread_time() - began < 1
    few = pyarrow.array(["x" * 100, None, "y"], pyarrow.string_view())
    assert decode(answer(Code.TABLE, pyarrow.table({"a": few}))).column(0).to_pylist() == ["x" * 100, None, "y"]


def test_a_time_zone_names_no_file_of_the_host(tmp_path: Any) -> None:
    zone = tmp_path / "zone"
    zone.write_bytes(pathlib.Path("/usr/share/zoneinfo/Europe/Berlin").read_bytes())
    for text in (f"dateutil/{zone}", "Europe/Berlin"):
        content = ["zone", [numpy.array([0, 1], "M8[ns]"), text]]
        labels = [msgpack.unpackb(encode(part)) for part in (0, [None], *content, pandas.DataFrame({"a": [1, 2]}))]
        for code, parts in ((Code.PANDAS, ["Timestamp", 0, "s", text, 0]), (Code.LABELS, labels)):
            with pytest.raises(SerializationError, match="time zone"):
                decode(msgpack.packb([msgpack.ExtType(code, b""), *parts]))


def test_labels_that_are_few_bytes_do_not_fill_the_memory() -> None:
    frame = msgpack.unpackb(encode(pandas.DataFrame({"a": [1]})))
    before = peak()
    for code, parts in (
        (Code.LABELS, [0, [None] * 2, "levels", ["range", [0, 1 << 29, 1]] * 2, frame]),
        (Code.LABELS, [0, [None], "categories", [b"\0", False, "range", [0, 1 << 29, 1]], frame]),
        (Code.COLUMNS, [1 << 29, "range", [0, 1 << 29, 1]]),
        (Code.COLUMNS, [-1]),
    ):
        with pytest.raises(SerializationError):
            decode(msgpack.packb([msgpack.ExtType(code, b""), *parts]))
    assert peak() - before < 1000


def test_labels_of_chosen_hashes_do_not_keep_the_host_busy() -> None:
    number = 40_000
    labels = [msgpack.unpackb(encode(factor * sys.hash_info.modulus + 1)) for factor in range(number)]
    frame = msgpack.unpackb(encode(pandas.DataFrame({"a": numpy.zeros(number, "i1")})))
    began = time.thread_time()
    with pytest.raises(SerializationError, match="hash"):
        decode(msgpack.packb([msgpack.ExtType(Code.LABELS, b""), 0, [None], "levels", ["object", labels], frame]))
    assert time.thread_time() - began < 5


def test_a_frequency_is_not_computed_for_many_rows() -> None:
    number = 1 << 19
    times = numpy.arange(number).astype("M8[s]")
    frame = pandas.DataFrame({"a": numpy.zeros(number, "i1")}, index=pandas.DatetimeIndex(times))
    data = msgpack.packb([msgpack.ExtType(Code.FREQUENCY, b""), 0, "cbh", msgpack.unpackb(encode(frame))])
    with pytest.raises(SerializationError, match=r"table\.index\.freq = None"):
        decode(data)
    frame.index.freq = "s"
    assert decode(encode(frame)).index.freqstr == "s"


def test_a_table_counts_as_hundreds_of_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pysbx.calls.decode.MAX_ELEMENTS", 100_000)
    table, series = pandas.DataFrame({"a": [1]}), pandas.Series([1])
    assert len(decode(encode([table] * 150))) == 150
    for many in ([table] * 250, [series] * 150):
        with pytest.raises(SerializationError, match="elements"):
            decode(encode(many))


def test_intervals_of_a_hostile_answer_are_few_numbers() -> None:
    frame = msgpack.unpackb(encode(pandas.DataFrame({"a": [1]})))
    many = [msgpack.unpackb(encode(numpy.zeros(frames.MAX_INTERVALS + 1))) for _ in range(2)]
    for ends in (
        ["array", many[0], "array", many[1]],
        ["object", ["a"], "object", ["b"]],
        ["range", [0, 1 << 29, 1]] * 2,
    ):
        labels = [0, [None], "categories", [b"\0", False, "intervals", ["right", *ends]], frame]
        with pytest.raises(SerializationError):
            decode(msgpack.packb([msgpack.ExtType(Code.LABELS, b""), *labels]))


def test_malformed_parts_of_a_table_are_refused() -> None:
    table = pyarrow.Table.from_pydict({"a": [1, 2]})
    frame = msgpack.unpackb(answer(Code.DATAFRAME, table))
    given = (pandas.CategoricalIndex(["a"]), pandas.Index(["a", "b"]), numpy.zeros((2, 2), int))
    short, texts, square = (msgpack.unpackb(encode(one)) for one in given)
    for code, parts in (
        (Code.CELLS, [0, [1, 2], 5]),
        (Code.CELLS, [0, [1, 2], frame, frame]),
        (Code.CELLS, [0, [1], frame]),
        (Code.CELLS, [1, [1, 2], frame]),
        (Code.CELLS, ["a", [1, 2], frame]),
        (Code.CELLS, [0, [1, 2], 0, [1, 2], frame]),
        (Code.STRINGS, [*[0, "python", "nan"] * 2, frame]),
        (Code.CELLS, [0, "xy", frame]),
        (Code.CELLS, [0, short, frame]),
        (Code.CELLS, [0, texts, frame]),
        (Code.LABELS, [2, [None], "object", [1, 2], frame]),
        (Code.LABELS, [0, [None], "object", [1], frame]),
        (Code.LABELS, [0, [None], "object", "xy", frame]),
        (Code.LABELS, [0, [None], "range", [0, 1 << 40, 1], frame]),
        (Code.LABELS, [0, [None], "other", [1, 2], frame]),
        (Code.LABELS, [0, [None], [], [1, 2], frame]),
        (Code.LABELS, [0, [], "object", [1, 2], frame]),
        (Code.FREQUENCY, [0, "D", frame]),
        (Code.FREQUENCY, [0, "D" * 1000, frame]),
        (Code.FREQUENCY, [0, 1, frame]),
        (Code.FREQUENCY, [0, "D", 1]),
        (Code.FREQUENCY, [2, "D", frame]),
        (Code.LABELS, [1, [None], "periods", [b"\0", "D" * 1000], frame]),
        (Code.LABELS, [0, [None], "periods", [square, "D"], frame]),
        (Code.SERIES, [None, 1]),
    ):
        with pytest.raises(SerializationError):
            decode(msgpack.packb([msgpack.ExtType(code, b""), *parts]))
