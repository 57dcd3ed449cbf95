"""Turns a value into MessagePack with extension types; refuses, by type and place, what has no such form.

Types are exact: a subclass may contain more than its base, and the rest would be lost silently.
"""

from __future__ import annotations

import collections
import copyreg
import dataclasses
import datetime
import decimal
import enum
import fractions
import pathlib
import struct
import sys
import uuid
from collections.abc import Callable
from typing import Any

import msgpack

from .frames import convert_pandas, stream
from .refusal import Unserializable, shown
from .scalars import convert_scalar, kind_of
from .wire import DEFAULTS, MAPPINGS, MAX_DEPTH, MAX_ELEMENTS, MAX_FLAGS, Code

CONTAINERS = (list, tuple, dict, set, frozenset, collections.deque, *MAPPINGS)
ARRAY_KINDS = "biufcSUMm"
TABLES = {"pandas": ("DataFrame", "Series"), "polars": ("DataFrame", "Series"), "pyarrow": ("Table",)}
Packer = msgpack.Packer  # msgpack is ours: code in the sandbox may import another version of it
Ext = msgpack.ExtType


def encode(value: object, path: str = "result") -> bytes:
    """Return a value as bytes.

    Raises:
        Unserializable: it, or something in it, has no form in the codec.
    """
    if _written_out(value, {}, 0) > MAX_ELEMENTS:
        reason = f"more than {MAX_ELEMENTS} elements, with each part as often as it occurs: return an array or a table"
        raise Unserializable(value, path, reason)
    # A packer that is kept would keep memory for the largest value that it has packed.
    packed: bytes = Packer(use_bin_type=True, strict_types=True, unicode_errors="surrogatepass").pack(
        _convert(value, path, 0)
    )
    return packed


def _written_out(value: Any, known: dict[int, int], depth: int) -> int:
    """Return the number of elements that a value has when each shared part is written out as often as it occurs.

    Args:
        value: it.
        known: the numbers of its parts that have been counted; 0 for those that contain themselves.
        depth: how deep it is. What is too deep is refused later, and counts as nothing.
    """
    kind = type(value)
    if kind not in CONTAINERS or depth > MAX_DEPTH:
        return 1
    if id(value) not in known:
        known[id(value)] = 0
        inner = [part for part in value if type(part) in CONTAINERS]
        if issubclass(kind, dict):
            inner += [part for part in value.values() if type(part) in CONTAINERS]
        plain = len(value) * (1 + issubclass(kind, dict)) - len(inner)
        known[id(value)] = 1 + plain + sum(_written_out(part, known, depth + 1) for part in inner)
    return known[id(value)]


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
    keys, items = _pairs(value, path, depth)
    if any(isinstance(key, list) for key in keys):
        return _ext(Code.DICT, [part for pair in zip(keys, items, strict=True) for part in pair])
    return dict(zip(keys, items, strict=True))


def _pairs(value: dict[Any, Any], path: str, depth: int) -> tuple[list[Any], list[Any]]:
    keys = [_convert(key, f"key {shown(key)} of {path}", depth) for key in value]
    return keys, [_convert(item, f"{path}[{shown(key)}]", depth) for key, item in value.items()]


def _collection(value: Any, path: str, depth: int) -> Any:
    """Convert a dictionary of module collections."""
    default = getattr(value, "default_factory", None)
    if getattr(value, "__dict__", None) or (default is not None and default not in DEFAULTS):
        raise Unserializable(value, path)
    keys, items = _pairs(value, path, depth)
    content = [part for pair in zip(keys, items, strict=True) for part in pair]
    return _ext(Code.MAPPING, [type(value).__name__, default and default.__name__, *content])


def _deque(value: collections.deque[Any], path: str, depth: int) -> Any:
    return _ext(Code.DEQUE, [value.maxlen, *_sequence(None)(value, path, depth)])


def _range(value: range, path: str, depth: int) -> Any:
    return _ext(Code.RANGE, [_integer(part, path, depth) for part in (value.start, value.stop, value.step)])


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
    **dict.fromkeys(MAPPINGS, _collection),
    collections.deque: _deque,
    range: _range,
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
    # A path of Windows would be another path on the other side.
    pathlib.PosixPath: lambda value, path, depth: _ext(Code.PATH, [str(value)]),
    pathlib.PurePosixPath: lambda value, path, depth: _ext(Code.PURE_PATH, [str(value)]),
    uuid.UUID: lambda value, path, depth: Ext(int(Code.UUID), value.bytes),
}


def _enum(value: enum.Enum, path: str) -> Any:
    kind = type(value)
    if value.name in kind.__members__:
        return _ext(Code.ENUM, [kind.__module__, kind.__qualname__, value.name])
    number = value.value
    if not isinstance(value, enum.Flag) or type(number) is not int or len(kind.__members__) > MAX_FLAGS:
        reason = f"{shown(value)} is a combination of flags without a name of its own: return its value"
        raise Unserializable(value, path, reason)
    return _ext(Code.ENUM, [kind.__module__, kind.__qualname__, _integer(number, path, 0)])


def _dataclass(value: Any, path: str, depth: int) -> Any:
    """Convert the fields, and all other attributes of the instance, such as __post_init__ sets."""
    kind = type(value)
    try:
        object.__new__(kind)
    except TypeError:  # it is a list, or an exception, as well
        raise Unserializable(value, path) from None
    names = [*(field.name for field in dataclasses.fields(value)), *getattr(value, "__dict__", ())]
    names += [name for name in copyreg._slotnames(kind) if hasattr(value, name)]  # type: ignore[attr-defined]
    content = {}
    for name in dict.fromkeys(names):
        if name == "__orig_class__":  # of a generic class: no attribute that the code has set
            continue
        try:
            item = vars(value)[name] if name in getattr(value, "__dict__", ()) else getattr(value, name)
        except AttributeError:
            raise Unserializable(value, f"{path}.{name}", f"field '{name}' has no value") from None
        content[name] = _convert(item, f"{path}.{name}", depth)
    return _ext(Code.DATACLASS, [kind.__module__, kind.__qualname__, content])


def _numpy(value: Any, path: str) -> Any:
    numpy = sys.modules["numpy"]
    kind = value.dtype.kind
    if kind not in ARRAY_KINDS:
        reason = f"a numpy array of dtype {value.dtype} cannot leave the sandbox: return its tolist()"
        raise Unserializable(value, path, reason)
    if isinstance(value, numpy.generic):
        return _ext(Code.SCALAR, [value.dtype.str, value.tobytes()])
    if type(value) is not numpy.ndarray:
        raise Unserializable(value, path)
    return _ext(Code.ARRAY, [value.dtype.str, list(value.shape), value.tobytes()])


def _table(value: Any, path: str, depth: int) -> Any:
    pandas = sys.modules.get("pandas")
    try:
        if pandas is not None and type(value) in (pandas.DataFrame, pandas.Series):
            return convert_pandas(value, path, lambda part, place: _convert(part, place, depth))
        if type(value).__module__.startswith("polars."):
            return _polars(value, path)
        return Ext(int(Code.TABLE), stream(value))
    except (Unserializable, MemoryError):
        raise
    except Exception as error:  # not only Arrow's own: a ValueError for two columns of one name, and others
        raise Unserializable(value, path, f"Arrow has no form for this table: {error}") from None


def _polars(value: Any, path: str) -> Any:
    polars = sys.modules["polars"]
    code = Code.POLARS_FRAME if type(value) is polars.DataFrame else Code.POLARS_SERIES
    frame = value if code is Code.POLARS_FRAME else value.to_frame()
    for dtype in frame.dtypes:
        if dtype == polars.Object or "Int128" in str(dtype):  # of the latter, pyarrow has no form
            raise Unserializable(value, path, f"a polars table with a column of dtype {dtype} cannot leave the sandbox")
    # The other side may have an older pyarrow, which does not know views of text; neither does polars before 1.1.
    form = {"compat_level": polars.CompatLevel.oldest()} if hasattr(polars, "CompatLevel") else {}
    written = frame.write_ipc_stream(None, **form).getvalue()  # by polars itself, also without pyarrow
    found = polars.read_ipc_stream(written)
    if found.schema != frame.schema:
        raise Unserializable(value, path, f"Arrow has no form for columns of {frame.schema!s:.200}")
    return Ext(int(code), written)


def _is_table(value: object) -> bool:
    for module, names in TABLES.items():
        loaded = sys.modules.get(module)
        if loaded is not None and type(value) in tuple(getattr(loaded, name, None) for name in names):
            return True
    return False


def _convert(value: Any, path: str, depth: int) -> Any:  # noqa: PLR0911 (one for each kind)
    if depth > MAX_DEPTH:
        raise Unserializable(value, path[:200], "nested too deeply, or contains itself")
    convert = EXACT.get(type(value))
    if convert is not None:
        return convert(value, path, depth + 1)
    if isinstance(value, enum.Enum):
        return _enum(value, path)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _dataclass(value, path, depth + 1)
    if isinstance(value, datetime.tzinfo):
        return _zone(value, path)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        return _numpy(value, path)
    if _is_table(value):
        return _table(value, path, depth + 1)
    if kind := kind_of(value):
        return _ext(Code.PANDAS, convert_scalar(kind, value, path, lambda part, at: _convert(part, at, depth + 1)))
    if numpy is not None and isinstance(value, numpy.dtype):
        raise Unserializable(value, path, f"a dtype cannot leave the sandbox: return str(…), here {str(value)!r}")
    raise Unserializable(value, path)
