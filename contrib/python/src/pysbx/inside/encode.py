"""Turns a value into MessagePack with extension types; refuses, by type and place, what has no such form.

Types are exact: a subclass may contain more than its base, and the rest would be lost silently.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import fractions
import pathlib
import re
import struct
import sys
import uuid
from collections.abc import Callable
from typing import Any

import msgpack

from .wire import MAX_DEPTH, Code

ARRAY_KINDS = "biufcSUMm"
# Arrow's name for a level of an index that has no name.
UNNAMED = re.compile(r"__index_level_\d+__")
TABLES = {"pandas": ("DataFrame", "Series"), "polars": ("DataFrame", "Series"), "pyarrow": ("Table",)}
Packer = msgpack.Packer  # msgpack is ours: code in the sandbox may import another version of it
Ext = msgpack.ExtType


class Unserializable(Exception):
    """A value that cannot leave the sandbox."""

    def __init__(self, value: object, path: str, reason: str = "") -> None:
        self.type_name = type_name(type(value))
        self.path = path
        self.reason = reason or f"a value of type {self.type_name} cannot leave the sandbox"
        super().__init__(self.reason)


def type_name(kind: type) -> str:
    """Return the name of a type as one writes it in code."""
    module = kind.__module__
    return kind.__qualname__ if module in ("builtins", "__main__") else f"{module}.{kind.__qualname__}"


def encode(value: object, path: str = "result") -> bytes:
    """Return a value as bytes.

    Raises:
        Unserializable: it, or something in it, has no form in the codec.
    """
    # A packer that is kept would keep memory for the largest value that it has packed.
    packed: bytes = Packer(use_bin_type=True, strict_types=True, unicode_errors="surrogatepass").pack(
        _convert(value, path, 0)
    )
    return packed


def _ext(code: Code, content: list[Any]) -> Any:
    return [Ext(int(code), b""), *content]


def _sequence(code: Code | None) -> Callable[[Any, str, int], Any]:
    def convert(value: Any, path: str, depth: int) -> Any:
        items = [_convert(item, f"{path}[{index}]", depth) for index, item in enumerate(value)]
        return items if code is None else _ext(code, items)

    return convert


def _integer(value: int, path: str, depth: int) -> Any:
    if -(1 << 63) <= value < 1 << 64:
        return value
    return Ext(int(Code.INTEGER), value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True))


def _mapping(value: dict[Any, Any], path: str, depth: int) -> Any:
    keys = [_convert(key, f"key {key!r:.80} of {path}", depth) for key in value]
    items = [_convert(item, f"{path}[{key!r:.80}]", depth) for key, item in value.items()]
    if any(isinstance(key, list) for key in keys):
        return _ext(Code.DICT, [part for pair in zip(keys, items, strict=True) for part in pair])
    return dict(zip(keys, items, strict=True))


def _zone(value: datetime.tzinfo | None, path: str) -> Any:
    if value is None:
        return None
    if type(value) is datetime.timezone:
        offset = value.utcoffset(None) // datetime.timedelta(microseconds=1)
        default = datetime.timezone(value.utcoffset(None)).tzname(None)
        name = value.tzname(None)
        return _ext(Code.TIMEZONE, [offset, None if name == default else name])
    key = getattr(value, "key", None)
    if type(value).__name__ == "ZoneInfo" and isinstance(key, str):
        return _ext(Code.TIMEZONE, [key])
    raise Unserializable(value, f"{path}.tzinfo")


def _datetime(value: datetime.datetime, path: str, depth: int) -> Any:
    fields = [value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond]
    return _ext(Code.DATETIME, [*fields, value.fold, _zone(value.tzinfo, path)])


def _time(value: datetime.time, path: str, depth: int) -> Any:
    fields = [value.hour, value.minute, value.second, value.microsecond, value.fold]
    return _ext(Code.TIME, [*fields, _zone(value.tzinfo, path)])


def _fraction(value: fractions.Fraction, path: str, depth: int) -> Any:
    return _ext(Code.FRACTION, [_integer(value.numerator, path, depth), _integer(value.denominator, path, depth)])


EXACT: dict[type, Callable[[Any, str, int], Any]] = {
    type(None): lambda value, path, depth: value,
    bool: lambda value, path, depth: value,
    int: _integer,
    float: lambda value, path, depth: value,
    str: lambda value, path, depth: value,
    bytes: lambda value, path, depth: value,
    list: _sequence(None),
    dict: _mapping,
    tuple: _sequence(Code.TUPLE),
    set: _sequence(Code.SET),
    frozenset: _sequence(Code.FROZENSET),
    bytearray: lambda value, path, depth: Ext(int(Code.BYTEARRAY), bytes(value)),
    complex: lambda value, path, depth: Ext(int(Code.COMPLEX), struct.pack("<dd", value.real, value.imag)),
    datetime.datetime: _datetime,
    datetime.date: lambda value, path, depth: _ext(Code.DATE, [value.year, value.month, value.day]),
    datetime.time: _time,
    datetime.timedelta: lambda value, path, depth: _ext(
        Code.TIMEDELTA, [value.days, value.seconds, value.microseconds]
    ),
    datetime.timezone: lambda value, path, depth: _zone(value, path),
    decimal.Decimal: lambda value, path, depth: Ext(int(Code.DECIMAL), str(value).encode()),
    fractions.Fraction: _fraction,
    uuid.UUID: lambda value, path, depth: Ext(int(Code.UUID), value.bytes),
}


def _enum(value: enum.Enum, path: str) -> Any:
    kind = type(value)
    if value.name is None or value.name not in kind.__members__:
        raise Unserializable(value, path, f"{value!r:.80} is a combination of flags without a name of its own")
    return _ext(Code.ENUM, [kind.__module__, kind.__qualname__, value.name])


def _dataclass(value: Any, path: str, depth: int) -> Any:
    kind = type(value)
    content = {
        field.name: _convert(getattr(value, field.name), f"{path}.{field.name}", depth)
        for field in dataclasses.fields(value)
    }
    return _ext(Code.DATACLASS, [kind.__module__, kind.__qualname__, content])


def _numpy(value: Any, path: str) -> Any:
    numpy = sys.modules["numpy"]
    kind = value.dtype.kind
    if kind not in ARRAY_KINDS:
        raise Unserializable(value, path, f"a numpy array of dtype {value.dtype} cannot leave the sandbox")
    if isinstance(value, numpy.generic):
        return _ext(Code.SCALAR, [value.dtype.str, value.tobytes()])
    if type(value) is not numpy.ndarray:
        raise Unserializable(value, path)
    return _ext(Code.ARRAY, [value.dtype.str, list(value.shape), value.tobytes()])


def _stream(table: Any) -> bytes:
    import pyarrow

    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _frame(value: Any, path: str) -> bytes:
    """Return a pandas table as an Arrow stream.

    Raises:
        Unserializable: the other side would see other labels of columns.
    """
    import pyarrow

    table = pyarrow.Table.from_pandas(value)
    # Arrow keeps them as strings, and pandas may read these as other values: False and True as two Trues.
    try:
        found = table.slice(0, 0).to_pandas().columns
        same = bool(found.equals(value.columns)) and list(found.names) == list(value.columns.names)
    except Exception:  # pandas cannot make such labels of strings: categories, for example
        same = False
    if not same:
        advice = "make them strings first: frame.columns = frame.columns.map(str)"
        raise Unserializable(value, path, f"the labels of its columns, {value.columns!r:.200}, would be lost: {advice}")
    return _stream(table)


def _without_names(value: Any) -> tuple[Any, list[Any] | None]:
    """Return a pandas table with an index that Arrow can hold, and the names of its levels if these are not in it."""
    names = list(value.index.names)
    if all(name is None or (type(name) is str and not UNNAMED.fullmatch(name)) for name in names):
        return value, None
    plain = value.copy(deep=False)
    plain.index = value.index.set_names([None] * len(names))
    return plain, names


def _kinds(index: Any) -> list[str]:
    """Return the kinds of the levels of an index; numbers of any size are one kind."""
    levels = [index.get_level_values(number) for number in range(index.nlevels)]
    return ["number" if level.dtype.kind in "biuf" else type(level).__name__ for level in levels]


def _check_rows(index: Any, path: str) -> None:
    """Refuse an index that the other side would read as another kind: dicts of intervals, for example.

    Raises:
        Unserializable: it would.
    """
    import pyarrow

    if type(index).__name__ not in ("CategoricalIndex", "IntervalIndex", "MultiIndex"):
        return
    frame = sys.modules["pandas"].DataFrame(index=index[:0])
    try:
        same = _kinds(pyarrow.Table.from_pandas(frame).to_pandas().index) == _kinds(index)
    except Exception:  # pandas cannot make it of Arrow's values: categories that are intervals, for example
        same = False
    if not same:
        advice = "make them strings first: table.index = table.index.map(str)"
        raise Unserializable(index, path, f"the labels of its rows, {index!r:.200}, would be lost: {advice}")


def _pandas(value: Any, path: str, depth: int) -> Any:
    import pyarrow

    plain, names = _without_names(value)
    _check_rows(plain.index, path)
    if type(value) is sys.modules["pandas"].DataFrame:
        found: Any = Ext(int(Code.DATAFRAME), _frame(plain, path))
    else:
        # Arrow would make a string of a column's name.
        name = _convert(value.name, f"{path}.name", depth)
        found = _ext(Code.SERIES, [name, _stream(pyarrow.Table.from_pandas(plain.to_frame(name="")))])
    if names is None:
        return found
    return _ext(Code.ROWS, [*(_convert(name, f"{path}.index.names", depth) for name in names), found])


def _table(value: Any, path: str, depth: int) -> Any:
    try:
        import pyarrow  # noqa: F401 (that it can be)
    except ImportError:
        raise Unserializable(value, path, "tables travel as Arrow: add pyarrow to the dependencies") from None
    pandas = sys.modules.get("pandas")
    try:
        if pandas is not None and type(value) in (pandas.DataFrame, pandas.Series):
            return _pandas(value, path, depth)
        if type(value).__module__.startswith("polars."):
            return _polars(value, path)
        return Ext(int(Code.TABLE), _stream(value))
    except (Unserializable, MemoryError):
        raise
    except Exception as error:  # not only Arrow's own: a ValueError for two columns of one name, and others
        raise Unserializable(value, path, f"Arrow has no form for this table: {error}") from None


def _polars(value: Any, path: str) -> Any:
    polars = sys.modules["polars"]
    code = Code.POLARS_FRAME if type(value) is polars.DataFrame else Code.POLARS_SERIES
    frame = value if code is Code.POLARS_FRAME else value.to_frame()
    if any(dtype == polars.Object for dtype in frame.dtypes):
        raise Unserializable(value, path, "a polars table with a column of dtype Object cannot leave the sandbox")
    # The other side may have an older pyarrow, which does not know views of text; neither does polars before 1.1.
    form = {"compat_level": polars.CompatLevel.oldest()} if hasattr(polars, "CompatLevel") else {}
    return Ext(int(code), _stream(frame.to_arrow(**form)))


def _is_table(value: object) -> bool:
    for module, names in TABLES.items():
        loaded = sys.modules.get(module)
        if loaded is not None and type(value) in tuple(getattr(loaded, name, None) for name in names):
            return True
    return False


def _convert(value: Any, path: str, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise Unserializable(value, path[:200], "nested too deeply, or contains itself")
    convert = EXACT.get(type(value))
    if convert is not None:
        return convert(value, path, depth + 1)
    if isinstance(value, enum.Enum):
        return _enum(value, path)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _dataclass(value, path, depth + 1)
    if isinstance(value, pathlib.PurePosixPath):  # a path of Windows would be another path on the other side
        return _ext(Code.PATH, [str(value)])
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        return _numpy(value, path)
    if _is_table(value):
        return _table(value, path, depth + 1)
    raise Unserializable(value, path)
