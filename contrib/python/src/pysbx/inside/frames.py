"""Tables of pandas as streams of Arrow, with the parts that Arrow does not bring back beside them.

Both sides read a stream with to_pandas() here. The sandbox does so before it answers, and compares what the other side
will see with what there is. Cells of dtype object then travel by themselves, and everything else that would be another
label, type or value is refused.
"""

from __future__ import annotations

import datetime
import itertools
import re
import sys
from _thread import _local
from collections.abc import Callable
from typing import Any

import msgpack

from .refusal import Unserializable, shown
from .wire import Code

# Arrow's name for a level of an index that has no name.
UNNAMED = re.compile(r"__index_level_\d+__")
# Kinds of numpy's dtypes whose values Arrow keeps as they are.
PLAIN = "biufMm"
# Cells that are compared as such. Of two equal values of another type one may still be unlike the other.
CELLS = (type(None), bool, int, float, str, bytes, datetime.date)
# The labels of each axis, and where a program finds them.
AXES = (("rows", "table.index"), ("columns", "frame.columns"))
# A frequency is a few characters: "D", "2W-SUN", "QS-DEC".
MAX_FREQUENCY = 40
# pandas compares intervals as Python's objects, whose hashes can be chosen.
MAX_INTERVALS = 2048
Ext = msgpack.ExtType
# Of each thread: `plainly` is true while it writes tables for a reader that may have no pyarrow.
writing = _local()
# Converts a value that is a part of another one, which is at the path: see encode._convert.
Convert = Callable[[Any, str], Any]


def stream(table: Any) -> bytes:
    """Return a table of pyarrow as an Arrow stream, which has a batch also if there are no rows.

    Without a batch, the stream would not have the categories.
    """
    import pyarrow

    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
        if not table.num_rows:
            columns = [column.combine_chunks() for column in table.columns]
            arrays = [one.chunk(0) if isinstance(one, pyarrow.ChunkedArray) else one for one in columns]
            writer.write_batch(pyarrow.RecordBatch.from_arrays(arrays, schema=table.schema))
    return bytes(sink.getvalue())


def register_types() -> None:
    """Let pyarrow know the types of pandas for periods and intervals.

    pandas registers them when it first converts a column of its own, and not when it is imported.
    """
    import pandas
    import pyarrow

    pyarrow.array(pandas.arrays.IntervalArray.from_breaks([0, 1]))


def to_pandas(table: Any) -> Any:
    """Return a table of pyarrow as one of pandas; call register_types() before the table is read.

    pyarrow makes ZoneInfo("UTC") of the time zone UTC, for which pandas has datetime.timezone.utc.
    """
    frame = table.to_pandas()
    for number, dtype in enumerate(frame.dtypes):
        if _is_other_utc(dtype):
            frame.isetitem(number, frame.iloc[:, number].dt.tz_convert(datetime.timezone.utc))
    frame.index = _with_utc(frame.index)
    frame.columns = _with_utc(frame.columns)
    return frame


def _of_pandas(frame: Any) -> Any:
    """Return a table of pandas as one of pyarrow, with each NaN as it is.

    pyarrow makes a missing value of each. Its sign and its other bits, which a program can see, would be lost.
    """
    import pyarrow

    table = pyarrow.Table.from_pandas(frame)
    levels = range(frame.index.nlevels)
    columns = [frame.iloc[:, number] for number in range(frame.shape[1])]
    # The levels of the index come last, if they are not in the metadata.
    columns += [frame.index.get_level_values(number) for number in levels]
    for number, (field, column) in enumerate(zip(table.schema, columns)):  # noqa: B905
        if _is_plain(column.dtype) and column.dtype.kind == "f" and table.column(number).null_count:
            table = table.set_column(number, field, pyarrow.array(column.to_numpy(), from_pandas=False))
    return table


def _is_other_utc(dtype: Any) -> bool:
    zone = getattr(dtype, "tz", None)
    return str(zone) == "UTC" and zone is not datetime.timezone.utc


def _with_utc(index: Any) -> Any:
    """Return an index whose times in UTC have the time zone that pandas has for it."""
    if index.nlevels > 1:
        for number, level in enumerate(index.levels):
            if _is_other_utc(level.dtype):
                index = index.set_levels(level.tz_convert(datetime.timezone.utc), level=number)
        return index
    return index.tz_convert(datetime.timezone.utc) if _is_other_utc(index.dtype) else index


def _is_plain(dtype: Any) -> bool:
    return isinstance(dtype, sys.modules["numpy"].dtype) and dtype.kind in PLAIN


def _same_dtypes(found: Any, wanted: Any) -> bool:
    if type(found) is not type(wanted):
        return False
    if hasattr(wanted, "categories"):
        return bool(found.ordered == wanted.ordered) and same_indexes(found.categories, wanted.categories)
    if hasattr(wanted, "tz"):
        return bool(found.unit == wanted.unit and str(found.tz) == str(wanted.tz))
    if type(wanted).__name__ == "StringDtype":
        return [found.storage, _missing(found)] == [wanted.storage, _missing(wanted)]
    return bool(found == wanted)


def _missing(dtype: Any) -> str:
    return "nan" if str(getattr(dtype, "na_value", "NA")) == "nan" else "NA"


def _string_form(dtype: Any) -> list[str]:
    """Return the arguments of string_dtype() for a dtype."""
    usual = string_dtype("", _missing(dtype)).storage
    return ["" if dtype.storage == usual else dtype.storage, _missing(dtype)]


def string_dtype(storage: str, missing: str) -> Any:
    """Return a dtype of strings.

    Args:
        storage: how pandas stores them: "python", "pyarrow"; "" as it does by default, which depends on pyarrow.
        missing: "nan" or "NA".
    """
    import pandas

    options = {"na_value": float("nan")} if missing == "nan" else {}
    return pandas.StringDtype(storage or None, **options)


def strings(data: bytes, sizes: Any, missing: Any, dtype: Any) -> Any:
    """Return an array of strings of pandas: see pack.py.

    Args:
        data: all of them, in UTF-8.
        sizes: the bytes of each one, as an array of numpy.
        missing: a bit for each one, the lowest first, whether there is none; or None. An array of bytes.
        dtype: of pandas.
    """
    import numpy
    import pandas

    ends = numpy.concatenate([[0], numpy.cumsum(sizes, dtype="<i8")])
    if dtype.storage == "pyarrow":
        import pyarrow

        present = None if missing is None else pyarrow.py_buffer(~missing)
        buffers = [present, pyarrow.py_buffer(ends), pyarrow.py_buffer(data)]
        return pandas.array(pyarrow.Array.from_buffers(pyarrow.large_string(), len(sizes), buffers), dtype=dtype)
    found = numpy.empty(len(sizes), dtype=object)
    found[:] = [str(data[begin:end], "utf-8") for begin, end in itertools.pairwise(ends.tolist())]
    if missing is not None:
        found[numpy.unpackbits(missing, count=len(sizes), bitorder="little").astype(bool)] = dtype.na_value
    return pandas.array(found, dtype=dtype)


def _same_cells(found: Any, wanted: Any) -> bool:
    return all(
        type(one) is type(other) and type(one) in CELLS and (one == other or repr(one) == repr(other) == "nan")
        for one, other in zip(found, wanted, strict=True)
    )


def _same_values(found: Any, wanted: Any) -> bool:
    """Tell whether two arrays are alike, given as series or as indexes."""
    if not _same_dtypes(found.dtype, wanted.dtype):
        return False
    if wanted.dtype == object:
        return _same_cells(list(found), list(wanted))
    if _is_plain(wanted.dtype):  # all bits: equals() tells neither signs of zero apart nor those of NaN
        return bool(found.to_numpy().tobytes() == wanted.to_numpy().tobytes())
    return bool(found.equals(wanted))


def _same_names(found: Any, wanted: Any) -> bool:
    return all(type(one) is type(other) and one == other for one, other in zip(found, wanted, strict=True))


def same_indexes(found: Any, wanted: Any) -> bool:
    """Tell whether two indexes have the same names, types and labels."""
    if type(found) is not type(wanted) or found.nlevels != wanted.nlevels or len(found) != len(wanted):
        return False
    if not _same_names(found.names, wanted.names):
        return False
    if wanted.nlevels == 1:
        return _same_values(found, wanted)
    levels = range(wanted.nlevels)
    return all(_same_values(found.get_level_values(n), wanted.get_level_values(n)) for n in levels)


def _lost(value: Any, path: str, what: str, labels: object, advice: str) -> Unserializable:
    return Unserializable(value, path, f"{what}, {shown(labels, 200)}, would be lost: {advice}")


def _returned(frame: Any) -> Any:
    """Return a table as the other side will see it."""
    import warnings

    with warnings.catch_warnings():  # about what the comparison finds
        warnings.simplefilter("ignore")
        return to_pandas(_of_pandas(frame))


def _labels(index: Any) -> tuple[str, Any] | None:  # noqa: PLR0911 (one for each kind)
    """Return the kind and the content of an index for make_index(), or None if it has no such form."""
    if type(index).__name__ == "MultiIndex":
        return _together("levels", [_labels(index.get_level_values(number)) for number in range(index.nlevels)])
    if type(index).__name__ == "RangeIndex":
        return "range", [index.start, index.stop, index.step]
    if _is_plain(index.dtype):
        return "array", index.to_numpy()
    if index.dtype == object:
        return "object", list(index)
    if type(index.dtype).__name__ == "StringDtype":
        return "string", [*_string_form(index.dtype), index.isna(), [str(label) for label in index.fillna("")]]
    if hasattr(index.dtype, "tz"):
        return "zone", [index.tz_convert(None).to_numpy(), index.tz]
    if type(index).__name__ == "PeriodIndex":
        return "periods", [index.asi8, index.freqstr]
    if type(index).__name__ == "IntervalIndex" and len(index) <= MAX_INTERVALS:
        return _together("intervals", [_labels(index.left), _labels(index.right)], index.closed)
    if hasattr(index.dtype, "categories"):
        return _together("categories", [_labels(index.categories)], index.codes, bool(index.ordered))
    return None


def _together(kind: str, parts: list[tuple[str, Any] | None], *others: Any) -> tuple[str, Any] | None:
    """Return labels that are made of others, or None if these have no form."""
    return (kind, [*others, *(item for part in parts for item in part or ())]) if all(parts) else None


def make_index(kind: str, content: Any) -> Any:  # noqa: PLR0911 (one for each kind)
    """Return an index that Arrow does not bring back.

    Args:
        kind: "range"; "array" for a numpy array; "object" for a list; "string"; "zone" for times in a time zone;
            "periods"; "categories"; "intervals"; "levels" for several.
        content: the result of _labels().

    Raises:
        Exception: they do not fit together.
    """
    import numpy
    import pandas

    if kind == "range":
        return pandas.RangeIndex(*content)
    if kind == "array":
        return pandas.Index(content)
    if kind == "zone":
        times, zone = content
        return pandas.DatetimeIndex(times).tz_localize("UTC").tz_convert(zone)
    if kind == "periods":
        ordinals, frequency = content
        return pandas.PeriodIndex(pandas.arrays.PeriodArray(ordinals, dtype=pandas.PeriodDtype(frequency)))
    if kind == "categories":
        codes, ordered, inner, labels = content
        made = pandas.Categorical.from_codes(codes, make_index(inner, labels), ordered=ordered)
        return pandas.CategoricalIndex(made)
    if kind == "intervals":
        closed, *ends = content
        return pandas.IntervalIndex.from_arrays(make_index(*ends[:2]), make_index(*ends[2:]), closed=closed)
    if kind == "levels":
        return pandas.MultiIndex.from_arrays([make_index(*pair) for pair in zip(content[::2], content[1::2])])  # noqa: B905
    if kind == "string":
        storage, missing, gaps, strings = content
        cells = numpy.array(strings, dtype=object)
        cells[gaps] = None
        return pandas.Index(pandas.array(cells, dtype=string_dtype(storage, missing)))
    if kind != "object":
        raise ValueError("unknown labels")
    labels = numpy.empty(len(content), dtype=object)
    for number, label in enumerate(content):  # an array of tuples would be one of more dimensions
        labels[number] = label
    return pandas.Index(labels, dtype=object, tupleize_cols=False)


def _comes_back_as_columns(index: Any) -> bool:
    """Tell whether labels of columns come back: Arrow keeps them as strings, which pandas may read as other values.

    pandas evaluates those of several levels, so the other side does not take them.
    """
    if index.nlevels > 1:
        return False
    try:
        found = _returned(sys.modules["pandas"].DataFrame([[0] * len(index)], columns=index)).columns
        return same_indexes(found, index)
    except Exception:  # two columns of one name; or pandas cannot make such labels of strings
        return False


def _comes_back_as_rows(index: Any) -> bool:
    if index.nlevels == 1 and _is_plain(index.dtype):
        return True
    try:
        return same_indexes(_returned(sys.modules["pandas"].DataFrame(index=index)).index, index)
    except Exception:  # pandas cannot make it of Arrow's values: categories that are intervals, for example
        return False


def _labels_apart(value: Any, path: str, axis: int, convert: Convert, *, arrow: bool) -> tuple[Any, list[Any] | None]:
    """Return a table whose labels come back, and those that it had before if they do not.

    Args:
        value: the table.
        path: where it is.
        axis: 0 for the labels of rows, 1 for those of columns.
        convert: see convert_pandas.
        arrow: whether pyarrow is here.

    Raises:
        Unserializable: there is no form for the labels.
    """
    index = value.axes[axis]
    if arrow and (_comes_back_as_rows, _comes_back_as_columns)[axis](index):
        return value, None
    what, name = AXES[axis]
    kind, content = _labels(index) or ("", None)
    if not kind:
        advice = f"make them strings first: {name} = {name}.map(str)" + ("" if arrow else ", or add pyarrow")
        raise _lost(value, path, f"the labels of its {what}", index, advice)
    parts = [axis, convert(list(index.names), f"{path}.{name.partition('.')[2]}.name"), kind]
    plain = value.set_axis([str(number) for number in range(len(index))] if axis else range(len(index)), axis=axis)
    return plain, [*parts, convert(content, f"{path}.{name.partition('.')[2]}")]


def _comes_back(column: Any) -> bool:
    column = column.reset_index(drop=True)
    try:
        found = _returned(column.to_frame(name="")).iloc[:, 0]
    except MemoryError:
        raise
    except Exception:  # Arrow cannot hold its cells, or pandas cannot make them of Arrow's
        return False
    return _same_values(found, column)


def _apart(value: Any, path: str, convert: Convert) -> tuple[Any, list[Any], list[Any]]:
    """Return a table that Arrow can hold, and the parts of its other columns.

    These are cells as [position, cells, …], where an index has categories that Arrow cannot hold, and dtypes of strings
    as [position, storage, missing value, …].

    Raises:
        Unserializable: a cell has no form, or the other side would see a column changed.
    """
    plain, cells, strings = value, [], []
    for number, dtype in enumerate(value.dtypes):
        column = value.iloc[:, number]
        if _is_plain(dtype) or _comes_back(column):
            continue
        label = value.columns[number]
        called = f"{path}[{shown(label)}]" if type(label) is not str or label else path
        if type(dtype).__name__ == "StringDtype" and _comes_back(column.astype("str")):
            strings += [number, *_string_form(dtype)]
            continue
        if dtype.name == "object":
            cells += [number, [convert(cell, f"{called}[{row}]") for row, cell in enumerate(column)]]
        elif hasattr(dtype, "categories") and _labels(index := sys.modules["pandas"].Index(column)):
            cells += [number, convert(index, called)]
        else:
            advice = "make them strings first, with astype(str), or values of a plainer dtype"
            raise _lost(value, called, f"its values of dtype {dtype!s:.80}", list(column.head(3)), advice)
        if plain is value:
            plain = value.copy(deep=False)
        plain.isetitem(number, False)
    return plain, cells, strings


def _columns(value: Any, path: str, convert: Convert) -> Any:
    """Return the columns of a table without their labels, for a sandbox that has no pyarrow."""
    pandas = sys.modules["pandas"]
    parts: list[Any] = []
    for number, dtype in enumerate(value.dtypes):
        column = value.iloc[:, number]
        found = ("array", column.to_numpy()) if _is_plain(dtype) else _labels(pandas.Index(column, dtype=dtype))
        if found is None:
            reason = f"a column of dtype {dtype!s:.80} travels as Arrow: add pyarrow to the dependencies"
            raise Unserializable(value, path, reason)
        parts += [found[0], convert(found[1], path)]
    return _ext(Code.COLUMNS, [len(value), *parts])


def make_columns(rows: int, parts: list[Any]) -> Any:
    """Return a table of columns.

    Raises:
        Exception: they do not fit together.
    """
    import pandas

    columns = [
        pandas.Series(content if kind == "array" else make_index(kind, content))
        for kind, content in zip(parts[::2], parts[1::2])  # noqa: B905
    ]
    if any(len(column) != rows for column in columns):
        raise ValueError("columns of different lengths")
    return pandas.DataFrame(dict(enumerate(columns)), index=range(rows))


def _without_marks(value: Any, path: str, convert: Convert) -> tuple[Any, list[Any] | None]:
    """Return a table without attrs and flags, and these, if it has any."""
    attributes, twice = value.attrs, value.flags.allows_duplicate_labels
    if not attributes and twice:
        return value, None
    plain = value.set_flags(allows_duplicate_labels=True)
    plain.attrs = {}
    return plain, [convert(dict(attributes), f"{path}.attrs"), twice]


def _without_names(value: Any) -> tuple[Any, list[Any] | None]:
    """Return a pandas table with an index that Arrow can hold, and the names of its levels if these are not in it."""
    names = list(value.index.names)
    if all(name is None or (type(name) is str and not UNNAMED.fullmatch(name)) for name in names):
        return value, None
    plain = value.copy(deep=False)
    plain.index = value.index.set_names([None] * len(names))
    return plain, names


def _frequency(value: Any, path: str, axis: int) -> str:
    """Return the frequency of the labels of rows or columns, if these are times, as a string; "" if they have none.

    Raises:
        Unserializable: a string does not say all of it, such as the holidays of a calendar.
    """
    index, what = value.axes[axis], AXES[axis]
    frequency = getattr(index, "freq", None)
    if frequency is None or type(index).__name__ == "PeriodIndex":
        return ""
    text = str(frequency.freqstr)
    try:
        same = sys.modules["pandas"].tseries.frequencies.to_offset(text) == frequency
    except ValueError:
        same = False
    if not same or len(text) > MAX_FREQUENCY:
        advice = f"remove it first: {what[1]}.freq = None"
        raise _lost(index, path, f"the frequency of its {what[0]}", frequency, advice)
    return text


def _ext(code: Code, content: list[Any]) -> Any:
    return [Ext(int(code), b""), *content]


def convert_pandas(value: Any, path: str, convert: Convert) -> Any:
    """Return a table or series of pandas in the form of an answer.

    Args:
        value: the table.
        path: where it is in the result.
        convert: for the values in it that are not Arrow's.

    Raises:
        Unserializable: a part of it has no form, or would be another one on the other side.
        Exception: Arrow has no form for it.
    """
    arrow = not getattr(writing, "plainly", False)
    try:
        if arrow:
            register_types()
    except ImportError:
        arrow = False
    value, marks = _without_marks(value, path, convert)
    frequencies = [_frequency(value, path, axis) for axis in range(value.ndim)]
    plain, names = _without_names(value)
    whole = type(value) is sys.modules["pandas"].DataFrame
    # Arrow would make a string of a column's name.
    plain = plain if whole else plain.to_frame(name="")
    plain, cells, strings = _apart(plain, path, convert) if arrow else (plain, [], [])
    plain, rows = _labels_apart(plain, path, 0, convert, arrow=arrow)
    plain, columns = _labels_apart(plain, path, 1, convert, arrow=arrow)
    found = Ext(int(Code.DATAFRAME), stream(_of_pandas(plain))) if arrow else _columns(plain, path, convert)
    if strings:
        found = _ext(Code.STRINGS, [*strings, found])
    if cells:
        found = _ext(Code.CELLS, [*cells, found])
    for labels in (rows, columns):
        if labels:
            found = _ext(Code.LABELS, [*labels, found])
    if not whole:
        found = _ext(Code.SERIES, [convert(value.name, f"{path}.name"), found])
    for axis, frequency in enumerate(frequencies):
        if frequency:
            found = _ext(Code.FREQUENCY, [axis, frequency, found])
    if names is not None:
        found = _ext(Code.ROWS, [*(convert(name, f"{path}.index.names") for name in names), found])
    if marks:
        found = _ext(Code.MARKS, [*marks, found])
    return found
