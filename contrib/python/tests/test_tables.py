"""Tables in answers: what comes back."""

# once: the caller's rights make no difference

from __future__ import annotations

import datetime
import pickle
import re
import subprocess
import sys
from typing import Any

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

numpy, pandas, polars, pyarrow = map(pytest.importorskip, ("numpy", "pandas", "polars", "pyarrow"))


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
