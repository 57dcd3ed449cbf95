"""Tables in answers: what comes back, and that a few bytes that stand for many are refused before they are read."""

# once: the caller's rights make no difference

from __future__ import annotations

import datetime
import json
import pathlib
import pickle
import re
import resource
import struct
import subprocess
import sys
import time
from typing import Any

import msgpack
import pytest

from pysbx import inside, sandbox
from pysbx.calls import pack
from pysbx.calls.decode import decode
from pysbx.calls.tool_calls import encode_answer
from pysbx.container.payload import MODULE
from pysbx.errors import SerializationError
from pysbx.inside import frames
from pysbx.inside.encode import encode
from pysbx.inside.refusal import Unserializable
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


def test_every_kind_of_table_that_leaves_a_sandbox_comes_back() -> None:
    frame = pandas.DataFrame(
        {
            "number": [1, 2],
            "flag": [True, None],
            "text": ["x", None],
            "bytes": [b"x", None],
            "nothing": [None, None],
            "list": [[1, 2], []],
            "dict": [{"a": [1]}, {"a": None}],
            "category": pandas.Categorical(["x", "y"]),
            "number category": pandas.Categorical([1, 2]),
            "period": pandas.period_range("2024-01", periods=2, freq="M"),
            "interval": pandas.interval_range(0, 2),
            "moment": pandas.to_datetime(["2024-02-29", None], utc=True),
            "time": pandas.to_timedelta([1, 2], unit="s"),
            "date": [pandas.Timestamp("2024-02-29").date()] * 2,
        }
    )
    found = decode(encode(frame))
    assert list(found.dtypes) == list(frame.dtypes)
    assert found.drop(columns=["list", "dict"]).equals(frame.drop(columns=["list", "dict"]))
    assert [list(item) for item in found["list"]] == [[1, 2], []]


def test_tables_through_a_sandbox(virtualenv: str) -> None:
    @sandbox(virtualenv=virtualenv, memory_mb=2048, timeout_sec=120, max_processes=200)
    def echo(value: Any) -> Any:
        return value

    frame = pandas.DataFrame({"a": [1, 2], "b": ["x", None]}, index=["p", "q"])
    pandas.testing.assert_frame_equal(echo(frame), frame)
    frame.index.name = 0
    pandas.testing.assert_frame_equal(echo(frame), frame)
    for name in ("s", None, 0, ("a", 1)):  # of frame["s"], frame.iloc[0], a grouped frame's
        series = pandas.Series([1.5, 2.5], name=name)
        pandas.testing.assert_series_equal(echo(series), series)
    table = pyarrow.table({"a": [1, 2, None]})
    assert echo(table).equals(table)


@pytest.mark.parametrize(
    "columns",
    [
        ["a", "b"],
        [1, 2],
        [1.5, 2.5],
        [("a", 1), ("a", 2)],
        ["a", None],
        [False, True],
        [1, "a"],
        ["a", "a"],
        range(2),
        [datetime.datetime(2024, 2, 29), datetime.datetime(2024, 3, 1)],
        [("a", 1), ("b", "x")],
        "categories",
    ],
)
def test_labels_of_columns_survive(columns: Any) -> None:
    labels = pandas.CategoricalIndex(["x", "y"]) if columns == "categories" else pandas.Index(columns)
    frame = pandas.DataFrame([[1, 2]], columns=labels)
    frame.columns.names = [f"level {number}" for number in range(frame.columns.nlevels)]
    pandas.testing.assert_frame_equal(decode(encode(frame)), frame, check_column_type="exact")


def test_labels_of_columns_that_would_be_others_are_refused() -> None:
    labels = pandas.Index(pandas.array([1, None], dtype="Int64"))
    with pytest.raises(Unserializable, match="labels of its columns") as caught:
        encode([pandas.DataFrame([range(len(labels))], columns=labels)])
    assert caught.value.path == "result[0]"


def test_attributes_flags_and_storage_come_back() -> None:
    frame = pandas.DataFrame({"a": pandas.array(["x", None], dtype="string[python]"), "b": ["y", "z"]})
    frame.attrs = {("a", 1): (datetime.date(2024, 2, 29), {1})}
    series = frame["a"].set_flags(allows_duplicate_labels=False)
    for value in (frame, series):
        found = decode(encode(value))
        assert found.equals(value)
        assert found.attrs == value.attrs
        assert found.flags.allows_duplicate_labels == value.flags.allows_duplicate_labels
    found = decode(encode(frame))
    assert list(map(repr, found.dtypes)) == list(map(repr, frame.dtypes))
    assert found["a"].dtype.storage == "python"
    labels = pandas.Index(["x", None], dtype="string[python]")
    assert decode(encode(pandas.Series([1, 2], index=labels))).index.dtype == labels.dtype


def test_categories_come_back_without_rows() -> None:
    kinds = pandas.CategoricalDtype(["a", "b", "c"], ordered=True)
    frame = pandas.DataFrame({"kind": pandas.Series(["a", "b"], dtype=kinds), "n": [1, 2]})
    assert decode(encode(frame[frame.n > 5]))["kind"].dtype == kinds
    series = polars.Series(["a"], dtype=polars.Enum(["a", "b"]))
    assert decode(encode(series.clear())).dtype == series.dtype


@pytest.mark.parametrize("labels", [[1, 2, 3], [3, 1, 1], [9, None, 2], []])
def test_groups_of_numbers_and_times_come_back(labels: list[Any]) -> None:
    ages, days = pandas.Series([20, 31.5, 40]), pandas.Series(pandas.date_range("2024", periods=3, tz="UTC"))
    frame = pandas.DataFrame({"x": [{1}, 2, ""], "age": pandas.cut(ages, 2), "day": pandas.cut(days, 2, right=False)})
    frame["quarter"] = pandas.qcut(ages, 4, duplicates="drop").cat.as_unordered()
    frame = frame.assign(n=1).reindex(labels)
    pandas.testing.assert_frame_equal(decode(encode(frame)), frame, check_categorical=True)
    for name in ("age", "day", "quarter"):
        found = decode(encode(frame[name]))
        assert found.dtype == frame[name].dtype
        pandas.testing.assert_series_equal(found, frame[name])


def test_an_index_of_one_level_comes_back() -> None:
    index = pandas.MultiIndex.from_arrays([["a", "b"]], names=["k"])
    for frame in (pandas.DataFrame({"n": [1, 2]}, index=index), pandas.DataFrame([[1, 2]], columns=index)):
        pandas.testing.assert_frame_equal(decode(encode(frame)), frame, check_index_type="exact")


def test_a_polars_column_without_a_name_comes_back() -> None:
    frame = polars.DataFrame({"": [1], "column_0": ["x"], "s": [{"": 1}]})
    found = decode(encode(frame))
    assert found.equals(frame)
    assert found.schema == frame.schema
    assert decode(encode(polars.Series([1]))).name == ""


def values_of_pandas() -> list[Any]:
    """Return what expressions with a table often are, besides tables."""
    stamp = pandas.Timestamp("2024-01-02 03:04:05.123456789")
    frame = pandas.DataFrame({"t": [stamp, None], "n": [1, 2]}, index=pandas.Index(["x", "y"], name="k"))
    return [
        stamp,
        stamp.tz_localize("Europe/Berlin"),
        pandas.Timestamp("2024-10-27 00:30", tz="Europe/Berlin") + pandas.Timedelta("2h"),
        pandas.Timestamp("2024-10-27 02:30").replace(fold=1),
        pandas.NaT,
        pandas.NA,
        pandas.Timedelta("1D 1ns"),
        pandas.Period("2024-03", "M"),
        pandas.Interval(stamp, pandas.Timestamp("2025"), closed="both"),
        frame.to_dict("records"),
        [*frame.columns, frame.columns, frame.index, frame.set_index(["n", "t"]).index, pandas.RangeIndex(1, 9, 2)],
        pandas.date_range("2024", periods=3, freq="MS"),
        frame["n"].astype("Int64").array,
        pandas.Categorical(["a", None]),
    ]


def test_values_of_pandas_come_back() -> None:
    for value in values_of_pandas():
        found = decode(encode(value))
        assert type(found) is type(value)
        assert repr(found) == repr(value)


def test_a_time_of_pandas_that_would_be_another_is_refused() -> None:
    days = pandas.offsets.CustomBusinessDay(holidays=["2024-03-01"])
    with pytest.raises(Unserializable, match="frequency"):
        encode(pandas.date_range("2024-02-29", periods=2, freq=days))
    with pytest.raises(SerializationError):
        decode(encode(pandas.Timedelta("1s").as_unit("ms")).replace(b"\xa2ms", b"\xa2xs"))


# Tables as everyday code has them.
EVERYDAY = """
import pandas, polars
times = pandas.to_datetime(["2024-01-01"] * 3).tz_localize("Europe/Berlin")
frame = pandas.DataFrame({"g": ["a", "b", None], "h": [1, 1, 2], "n": [1.5, 2, 3], "t": times})
frame["c"], frame["o"] = pandas.Categorical(["x", None, "y"]), [[1], {"a": 2}, None]
summed = frame.groupby(["g", "h"])["n"].sum()
pivot = frame.pivot_table(index="g", columns=["h"], values="n")
named = polars.DataFrame({"": [1], "b": ["x"]})
tables = [frame, frame[["h", "n"]].describe(), summed, pivot, frame.iloc[:0], named]
"""
# A sandbox whose only dependency is pandas has no pyarrow.
WITHOUT_ARROW = f"""
import sys
sys.modules["pyarrow"] = None
from pysbx.inside.encode import encode
{EVERYDAY}
sys.stdout.buffer.write(encode(tables))
"""


def test_tables_come_back_from_a_sandbox_without_pyarrow() -> None:
    made = subprocess.run([sys.executable, "-c", WITHOUT_ARROW], capture_output=True, check=True).stdout
    *found, last = decode(made)
    names: dict[str, Any] = {}
    exec(EVERYDAY, names)
    *wanted, polars = names["tables"]
    for one, other in zip(found, wanted, strict=True):
        equal = pandas.testing.assert_frame_equal if one.ndim == 2 else pandas.testing.assert_series_equal
        equal(one, other)
    assert last.equals(polars)


STRINGS: list[list[str | None]] = [["a", None, "é", "", "x\0y", "\U0001f40d"], [None], ["abc"] * 20]

# The first argument is what a tool answers, the second an argument of a function.
INTO_ONE_WITHOUT_ARROW = f"""
import pickle, sys
sys.modules["pyarrow"] = None
from pysbx import inside
from pysbx.calls.decode import decode
sys.modules["{MODULE}"] = inside
{EVERYDAY}
tables[-1:] = map(pandas.Series, {STRINGS})
for found in decode(bytes.fromhex(sys.argv[1])), pickle.loads(bytes.fromhex(sys.argv[2])):
    for one, other in zip(found, tables, strict=True):
        equal = pandas.testing.assert_frame_equal if one.ndim == 2 else pandas.testing.assert_series_equal
        equal(one, other)
"""


def test_tables_go_into_a_sandbox_without_pyarrow() -> None:
    names: dict[str, Any] = {}
    exec(EVERYDAY, names)
    *wanted, _ = names["tables"]
    wanted += map(pandas.Series, STRINGS)
    given = (encode_answer(wanted, "answer"), pack._dump(wanted))
    subprocess.run([sys.executable, "-c", INTO_ONE_WITHOUT_ARROW, *(one.hex() for one in given)], check=True)
    nullable = names["pandas"].DataFrame({"a": names["pandas"].array([1, None], dtype="Int64")})
    names["pandas"].testing.assert_frame_equal(decode(encode_answer(nullable, "answer")), nullable)


def test_strings_go_into_a_sandbox_without_an_object_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, MODULE, inside)
    whole = pandas.concat([pandas.Series(one, dtype="str") for one in (*STRINGS, [])], ignore_index=True)
    for series in (whole, whole[2:20], whole[::3], whole[:0], whole[:1]):
        packed = pack._dump(series)
        pandas.testing.assert_series_equal(pickle.loads(packed), series)
        assert "".join(series.dropna()).encode() in packed
    index = pandas.Index(["x", "y"])
    pandas.testing.assert_index_equal(pickle.loads(pack._dump(index)), index)


@pytest.mark.parametrize("name", [0, True, ("a", 1), 1.5, "__index_level_0__", datetime.date(2024, 2, 29)])
@pytest.mark.filterwarnings("error")
def test_names_of_rows_that_are_no_texts_survive(name: Any) -> None:
    levels = pandas.MultiIndex.from_arrays([["x", "y"], [1, 2]], names=["text", name])
    for index in (pandas.Index(["x", "y"], name=name), pandas.RangeIndex(2, name=name), levels):
        frame = pandas.DataFrame({"a": [1, 2]}, index=index)
        pandas.testing.assert_frame_equal(decode(encode(frame)), frame)
        pandas.testing.assert_series_equal(decode(encode([frame["a"]]))[0], frame["a"])
        assert list(frame.index.names) == list(index.names)


def test_labels_of_rows_come_back() -> None:
    for index in (
        pandas.MultiIndex.from_product([range(1), pandas.to_datetime(["2024-02-29", "2024-03-01"], utc=True)]),
        pandas.CategoricalIndex(["x", "y"]),
        pandas.period_range("2024-01", periods=2, freq="M"),
        pandas.to_timedelta([1, 2], unit="s"),
    ):
        series = pandas.Series([1, 2], index=index)
        pandas.testing.assert_series_equal(decode(encode(series)), series)


def test_labels_that_are_intervals_come_back() -> None:
    values = pandas.DataFrame(
        {"a": [1.5, 2, None], "c": list("xyx"), "t": pandas.date_range("2024", periods=3, tz="UTC")}
    )
    cut, times = pandas.cut(values["a"], 2), pandas.cut(values["t"], 2)
    left = pandas.IntervalIndex.from_arrays([0, float("nan")], [1, float("nan")], closed="left", name="n")
    for found in (
        cut.value_counts(dropna=False).to_frame(),
        values.groupby(["c", cut], observed=False)[["a"]].mean(),
        values.groupby(times, observed=False)[["a"]].agg(["mean", "size"]),
        pandas.crosstab(values["c"], cut),
        *(pandas.DataFrame({"a": [1, 2]}, index=one) for one in (left, pandas.MultiIndex.from_arrays([left, [1, 2]]))),
    ):
        pandas.testing.assert_frame_equal(decode(encode([found]))[0], found)
    many = pandas.CategoricalIndex(pandas.interval_range(0, frames.MAX_INTERVALS + 1))
    with pytest.raises(Unserializable, match="labels of its rows") as caught:
        encode([pandas.DataFrame({"a": 1}, index=many)])
    assert caught.value.path == "result[0]"


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


@pytest.mark.parametrize("labels", [[1, "a"], ["x", None], [("a", 1), "b"], [datetime.date(2024, 2, 29), 1.5]])
def test_labels_of_rows_of_any_type_come_back(labels: list[Any]) -> None:
    series = pandas.Series([1, 2], index=pandas.Index(labels, dtype=object, tupleize_cols=False, name="n"))
    found = decode(encode(series))
    pandas.testing.assert_series_equal(found, series)
    assert list(map(type, found.index)) == list(map(type, labels))


@pytest.mark.parametrize("frequency", ["D", "2W-TUE", "QS-NOV", "90min"])
def test_the_frequency_of_rows_comes_back(frequency: str) -> None:
    for index in (
        pandas.date_range("2024-02-29", periods=3, freq=frequency, name=("a", 1)),
        pandas.timedelta_range("1h", periods=3, freq="90min"),
    ):
        frame = pandas.DataFrame({"a": [1, 2, 3]}, index=index)
        for value in (frame, frame["a"]):
            assert decode(encode(value)).index.freq == index.freq


@pytest.mark.parametrize("plainly", [False, True])
def test_times_and_periods_as_labels_of_columns_come_back(plainly: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames.writing, "plainly", plainly, raising=False)
    for labels in (
        pandas.date_range("2024-02-29", periods=3, freq="MS"),
        pandas.date_range("2024-02-29", periods=3, freq="D", tz="Europe/Berlin", name="day"),
        pandas.timedelta_range("1h", periods=3, freq="90min"),
        pandas.period_range("2024-02", periods=3, freq="M", name="month"),
        pandas.period_range("2024-02-29", periods=3, freq="2W-SUN"),
        pandas.PeriodIndex(["2024Q1", None, "2023Q4"], freq="Q"),
    ):
        wide = pandas.DataFrame([[1, 2, 3]], columns=labels)
        for value in (wide, wide.T):
            found = decode(encode(value))
            pandas.testing.assert_frame_equal(found, value, check_freq=True)
            assert [getattr(axis, "freq", None) for axis in found.axes] == [
                getattr(axis, "freq", None) for axis in value.axes
            ]


def test_a_frequency_that_a_string_does_not_say_is_refused() -> None:
    days = pandas.offsets.CustomBusinessDay(holidays=["2024-03-01"])
    frame = pandas.DataFrame({"a": [1, 2]}, index=pandas.date_range("2024-02-29", periods=2, freq=days))
    with pytest.raises(Unserializable, match="the frequency of its rows"):
        encode(frame)
    with pytest.raises(Unserializable, match=r"the frequency of its columns.*frame\.columns\.freq = None"):
        encode(frame.T)
    frame.index.freq = None
    pandas.testing.assert_frame_equal(decode(encode(frame)), frame)


def test_the_time_zone_utc_is_that_of_pandas() -> None:
    times = pandas.date_range("2024-02-29", periods=2, tz="UTC")
    rows = pandas.MultiIndex.from_arrays([["x", "y"], times])
    for index in (times, rows):
        found = decode(encode(pandas.DataFrame({"a": times}, index=index)))
        for column in (found["a"].array, found.index.get_level_values(-1)):
            assert column.dtype.tz is times.dtype.tz


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_each_nan_comes_back_with_its_sign(kind: str) -> None:
    numbers = numpy.array([1.5, numpy.nan, -numpy.nan, -0.0], dtype=kind)
    frame = pandas.DataFrame({"text": ["a", "b", "c", "d"], "number": numbers}, index=pandas.Index(numbers))
    labels = pandas.DataFrame([[1, 2, 3, 4]], columns=pandas.Index(numbers))
    levels = frame["number"].set_axis(pandas.MultiIndex.from_arrays([[1, 2, 3, 4], numbers]))
    found, found_labels, found_levels = decode(encode([frame, labels, levels]))
    arrays = (found["number"], found.index, found_labels.columns, found_levels)
    assert [array.to_numpy().tobytes() for array in arrays] == [numbers.tobytes()] * 4
    pandas.testing.assert_index_equal(found_levels.index, levels.index)


def test_cells_of_objects_come_back() -> None:
    frame = pandas.DataFrame(
        {
            "record": [{"a": 1}, {"b": 2}],
            "pair": [(1, 2), (3, 4)],
            "list": [[1], [1, None]],
            "set": [{1}, frozenset({2})],
            "text": pandas.Series(["x", "y"], dtype=object),
            "missing": pandas.Series(["x", float("nan")], dtype=object),
            "mixed": [1, "x"],
            "large": [10**30, 1],
            "moment": pandas.Series([datetime.datetime(2024, 2, 29)] * 2, dtype=object),
        },
        index=["p", "q"],
    )
    found = decode(encode(frame))
    pandas.testing.assert_frame_equal(found, frame)
    for name in frame.columns:
        assert repr(list(found[name])) == repr(list(frame[name]))
        assert repr(list(decode(encode(frame[name])))) == repr(list(frame[name]))


def test_a_cell_that_has_no_form_is_named() -> None:
    for value, path in (
        (pandas.DataFrame({"a": [1, 2], "b": [1, object()]}), "result['b'][1]"),
        (pandas.Series([1, object()]), "result[1]"),
    ):
        with pytest.raises(Unserializable, match="type object") as caught:
            encode(value)
        assert caught.value.path == path


def test_a_column_that_arrow_cannot_hold_is_named() -> None:
    for content in (pandas.arrays.SparseArray([0]), [1j]):
        frame = pandas.DataFrame({"number": 1, "group": content})
        with pytest.raises(Unserializable, match=f"its values of dtype {frame['group'].dtype!s:.6}") as caught:
            encode({"a": frame})
        assert caught.value.path == "result['a']['group']"


def test_periods_and_intervals_come_back_to_a_program_that_has_none() -> None:
    # pandas registers these types at their first use, so this process knows them already.
    program = "import sys; from pysbx.calls.decode import decode; print(repr(decode(sys.stdin.buffer.read()).index[0]))"
    for index in (pandas.period_range("2024-01", periods=1, freq="M"), pandas.interval_range(0, 1)):
        data = encode(pandas.Series([1], index=index))
        done = subprocess.run([sys.executable, "-c", program], input=data, capture_output=True, check=True)
        assert done.stdout.decode().strip() == repr(index[0])


def test_malformed_parts_of_a_table_are_refused() -> None:
    table = pyarrow.Table.from_pydict({"a": [1, 2]})
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    frame = msgpack.ExtType(Code.DATAFRAME, bytes(sink.getvalue()))
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


def test_polars_tables_through_a_sandbox(virtualenv: str) -> None:
    @sandbox(virtualenv=virtualenv, memory_mb=4096, timeout_sec=120, max_processes=200, preload=["polars"])
    def echo(value: Any) -> Any:
        return value

    frame = polars.DataFrame(
        {
            "number": [1, None, 3],
            "text": ["x", "é", None],
            "list": [[1.5], [], None],
            "day": [datetime.date(2024, 2, 29)] * 3,
            "moment": [datetime.datetime(2024, 2, 29, 1, 2, 3, 4, datetime.timezone.utc)] * 3,
            "category": polars.Series(["a", "b", "a"], dtype=polars.Categorical),
        }
    )
    found = echo(frame)
    assert (type(found), found.schema) == (polars.DataFrame, frame.schema)
    assert found.equals(frame)
    series = polars.Series("s", [1.5, None])
    assert echo(series).equals(series, check_names=True)
    assert echo(polars.DataFrame()).shape == (0, 0)
    assert echo({"rows": [frame.head(1)]})["rows"][0].equals(frame.head(1))


def test_a_polars_table_of_objects_is_named() -> None:
    with pytest.raises(Unserializable, match="dtype Object") as caught:
        encode([polars.DataFrame({"a": [object()]})])
    assert caught.value.path == "result[0]"


@pytest.mark.parametrize(
    ("missing", "made", "wanted"),
    [
        (
            "pandas",
            "import pandas; value = pandas.DataFrame({'a': [1]})",
            "install the wheel of pysbx with the extra 'arrow'",
        ),
        (
            "pyarrow",
            "import pyarrow; value = pyarrow.table({'a': [1]})",
            "install the wheel of pysbx with the extra 'arrow'",
        ),
        (
            "polars",
            "import polars; value = polars.DataFrame({'a': [1]})",
            "install it beside pysbx: pip install polars",
        ),
    ],
)
def test_a_table_that_cannot_be_read_here_names_what_to_install(
    missing: str, made: str, wanted: str, virtualenv: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program often has the packages in its sandboxes only."""

    def table(source: str) -> Any:
        names: dict[str, Any] = {}
        exec(source, names)
        return names["value"]

    monkeypatch.setitem(sys.modules, missing, None)
    advice = rf"and {missing} is not installed here: {re.escape(wanted)}$"
    with pytest.raises(SerializationError, match=advice):
        sandbox(virtualenv=virtualenv, memory_mb=1024)(table)(made)
