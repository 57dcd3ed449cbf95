"""Reads what comes out of a sandbox. The bytes may be anything: nothing here unpickles, imports or runs what they name.

Classes (of enumerations and dataclasses) are those that the caller expects. Members and fields are set without a call
of the class's own code. Sizes and the number of elements are bounded. MessagePack's reader, which does not recurse,
bounds the nesting.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import inspect
import itertools
import math
import pathlib
import re
import struct
import sys
import time
import types
import uuid
import zoneinfo
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import msgpack

from pysbx.calls import tables
from pysbx.errors import SerializationError
from pysbx.inside import frames, scalars
from pysbx.inside.wire import DEFAULTS, MAPPINGS, MAX_ELEMENTS, MAX_FLAGS, Code

# Characters of a name in an answer that an error quotes.
MAX_NAME = 200
# The greatest common divisor of a fraction takes time quadratic in its length, and so does comparing an integer with a
# Decimal.
MAX_FRACTION_BITS = 1 << 16
# A range divides its bounds for its length, which takes quadratic time too.
MAX_RANGE_BITS = 1 << 12
# Hostile code can choose numbers, and tuples of them, by their hashes. Then each element of a set is compared with all
# others, or the search for its place passes all occupied places. Other sets take a third of a microsecond for each
# element.
FEW = 16
CHUNK = 64
HASHING_SEC = 1.0
HASHING_SEC_EACH = 1e-6
# pandas takes some tenths of a millisecond for a table, as for hundreds of other elements. It computes each row of a
# frequency such as business days anew, in some hundredths.
TABLE_ELEMENTS, MAX_FREQUENCY_ROWS = 500, 1 << 18
# Makes MessagePack's reader return its own extension type, -1, as a datetime. The reader does not ask about that type.
DATETIME = 3
# ZoneInfo looks a key up as a file, and as a part of the package tzdata.
ZONE = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+)*")
# The advice about a class that is not expected. Tools in the sandbox have another one.
UNEXPECTED = "define or import it in the function's module, or name it in types="
# The type of the content of each kind of labels: see frames.make_index.
LABELS = {"array": "ndarray"} | dict.fromkeys(
    ("range", "object", "string", "zone", "periods", "categories", "intervals", "levels"), "list"
)
DTYPE = re.compile(r"[<>|=]?(?:[biufcSU]\d{1,9}|[Mm]8(?:\[(?:[1-9]\d{0,8})?[a-zA-Z]{1,2}\])?)")

T = TypeVar("T")
# Returns the class of this side for a (module, qualified name) in an answer, or None if the class is not accepted.
FindClass = Callable[[str, str], type | None]


def decode(data: bytes, find_class: FindClass | None = None) -> Any:
    """Return the value of an answer.

    Raises:
        SerializationError: it is not what the encoder makes, too large, or of a class that is not expected.
    """
    try:
        return _Decoder(find_class).decode(data)
    except SerializationError:
        raise
    except Exception as error:  # hostile bytes can make the libraries raise any exception
        raised = error
    try:
        _Decoder(find_class).decode(data)
    except Exception:
        said = f"the answer cannot be read: {type(raised).__name__}: {raised!s:.200}"
        raise SerializationError(said) from None
    raise raised  # not of these bytes: the handler of a signal has raised it


class _Mark:
    """The first element of an array that stands for something else."""

    __slots__ = ("code",)
    __hash__ = None  # type: ignore[assignment] # never a key

    def __init__(self, code: int) -> None:
        self.code = code


class _Decoder:
    """One answer: counts its elements, and its marks, which must all have been where they belong."""

    def __init__(self, find_class: FindClass | None) -> None:
        self.find_class = find_class
        self.elements = 0
        self.marks = 0
        self.hashing_sec = 0.0
        self.frequency_rows = 0
        self.long_integers = self.decimals = False

    def decode(self, data: bytes) -> Any:
        most = min(MAX_ELEMENTS, len(data))  # of an announced array, room is made before its elements are read
        value = msgpack.unpackb(
            data,
            raw=False,
            unicode_errors="surrogatepass",
            strict_map_key=False,
            ext_hook=self.extension,
            list_hook=self.array,
            object_pairs_hook=self.mapping,
            timestamp=DATETIME,
            max_array_len=most,
            max_map_len=most,
        )
        if self.marks:
            raise SerializationError("the answer has a malformed value")
        return value

    def count(self, number: int) -> None:
        self.elements += number + 1
        if self.elements > MAX_ELEMENTS:
            raise SerializationError(f"the answer has more than {MAX_ELEMENTS} elements: return an array or a table")

    def mapping(self, pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
        self.count(2 * len(pairs))
        return self.to_dict(pairs)

    def array(self, items: list[Any]) -> Any:
        self.count(len(items))
        if not items or type(items[0]) is not _Mark:
            return items
        self.marks -= 1
        if items[0].code in OF_PANDAS:
            self.count(TABLE_ELEMENTS)
        return ARRAYS[items[0].code](self, items[1:])

    def extension(self, code: int, data: bytes) -> Any:
        self.count(0)
        if code in ARRAYS and not data:
            self.marks += 1
            return _Mark(code)
        reader = BYTES.get(code)
        if reader is None:
            raise SerializationError(f"the answer has a value of the unknown type {code}")
        if code in TABLES:
            self.count(TABLE_ELEMENTS)
        return reader(self, data)

    def chunks(self, items: Sequence[T]) -> Iterator[Sequence[T]]:
        """Yield the values to hash, a few at a time, and refuse to go on when hashing takes too much CPU time.

        See is_few: few values need no chunks.
        """
        for start in range(0, len(items), CHUNK):
            began = time.thread_time()
            yield items[start : start + CHUNK]
            self.hashing_sec += time.thread_time() - began
            if self.hashing_sec > HASHING_SEC + HASHING_SEC_EACH * self.elements:
                raise SerializationError(
                    "the answer has a set or dict of too many elements with the same hash: return a list"
                )

    def check_comparable(self, items: Sequence[Any]) -> None:
        """Refuse what may have a Decimal and a long integer of one hash, which one comparison decides in minutes."""
        if self.long_integers and self.decimals and not all(type(item) is str for item in items):
            raise SerializationError(
                f"the answer has a set or dict, a Decimal, and an integer of more than {MAX_FRACTION_BITS} bits: "
                "return the integer as bytes"
            )

    def is_few(self, items: Sequence[Any]) -> bool:
        """Tell whether hashing takes little time. To compare a Decimal with an integer takes a millisecond."""
        return len(items) <= FEW and not self.decimals

    def to_set(self, items: list[Any]) -> set[Any]:
        if self.is_few(items):
            return set(items)
        self.check_comparable(items)
        found: set[Any] = set()
        for chunk in self.chunks(items):
            found.update(chunk)
        return found

    def to_dict(self, pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
        if self.is_few(pairs):
            return dict(pairs)
        self.check_comparable([key for key, _ in pairs])
        found: dict[Any, Any] = {}
        for chunk in self.chunks(pairs):
            found.update(chunk)
        return found

    def read_integer(self, data: bytes) -> int:
        self.long_integers |= len(data) * 8 > MAX_FRACTION_BITS
        return int.from_bytes(data, "little", signed=True)

    def read_decimal(self, data: bytes) -> decimal.Decimal:
        self.decimals = True
        return decimal.Decimal(data.decode("ascii"))

    def known(self, module: Any, name: Any) -> type:
        found = self.find_class(module, name) if self.find_class and isinstance(name, str) else None
        if found is None:
            called = f"{module!s:.{MAX_NAME}}.{name!s:.{MAX_NAME}}"
            raise SerializationError(
                f"the answer is of class '{called}', which this side does not expect: {UNEXPECTED}",
                called,
            )
        return found

    def read_zone(self, items: list[Any]) -> datetime.tzinfo:
        if len(items) == 1:
            if not isinstance(items[0], str) or not ZONE.fullmatch(items[0]):
                raise SerializationError(f"the answer has the unknown time zone {items[0]!r:.40}")
            return zoneinfo.ZoneInfo(items[0])
        offset, name = items
        delta = datetime.timedelta(microseconds=offset)
        return datetime.timezone(delta) if name is None else datetime.timezone(delta, name)

    def read_fraction(self, items: list[Any]) -> fractions.Fraction:
        numerator, denominator = items
        if max(abs(numerator), abs(denominator)).bit_length() > MAX_FRACTION_BITS:
            raise SerializationError("the answer has a fraction of too many digits")
        return fractions.Fraction(numerator, denominator)

    def read_range(self, items: list[Any]) -> range:
        self.check_range(items)
        return range(*items)

    @staticmethod
    def check_range(items: Any, most: float = math.inf) -> None:
        """Refuse what is no range, one of too long integers, or of more elements than some."""
        if not isinstance(items, list) or not all(type(item) is int for item in items):
            raise SerializationError("the answer has a malformed range")
        if any(item.bit_length() > MAX_RANGE_BITS for item in items):
            raise SerializationError(f"the answer has a range of integers of more than {MAX_RANGE_BITS} bits")
        start, stop, step = items
        if math.isfinite(most) and max(0, -((start - stop) // step)) > most:
            raise SerializationError("the answer has a range that is longer than its table")

    def read_enum(self, items: list[Any]) -> enum.Enum:
        module, name, member = items
        kind = self.known(module, name)
        if not issubclass(kind, enum.Enum):
            raise SerializationError(f"'{name}' is not an enumeration on this side")
        return kind.__members__[member] if type(member) is str else self.combined(kind, member)

    @staticmethod
    def combined(kind: type[enum.Enum], number: Any) -> enum.Enum:
        """Return a combination of flags. The class keeps each one, so there must be few."""
        known = kind.__members__.values()
        bits = functools.reduce(lambda one, other: one | other.value, known, 0)
        if not issubclass(kind, enum.Flag) or len(known) > MAX_FLAGS or type(number) is not int or number & ~bits:
            raise SerializationError(f"the answer has a combination of flags that '{kind.__qualname__}' does not have")
        found = kind._value2member_map_.get(number)
        # That of module enum itself: a class may have one of its own.
        return enum.Flag._missing_.__func__(kind, number) if found is None else found  # type: ignore[attr-defined]

    def read_dataclass(self, items: list[Any]) -> Any:
        module, name, content = items
        kind = self.known(module, name)
        if not dataclasses.is_dataclass(kind):
            raise SerializationError(f"'{name}' is not a dataclass on this side")
        fields = {field.name for field in dataclasses.fields(kind)}
        if type(content) is not dict or not fields <= content.keys():
            raise SerializationError(f"the answer's '{name}' has other fields than this side's")
        value = object.__new__(kind)
        for key, item in content.items():
            _set_attribute(value, key, item, is_field=key in fields)
        return value

    def read_array(self, items: list[Any]) -> Any:
        dtype, shape, content = items
        numpy = tables.library("numpy", "a numpy array")
        found = numpy.frombuffer(content, dtype=self.dtype(dtype))
        self.check_elements(numpy, found)
        return found.reshape(shape).copy()

    @staticmethod
    def check_elements(numpy: Any, found: Any) -> None:
        """Refuse bytes that are not an element of their type: numpy itself checks only their number."""
        if found.dtype.kind == "b" and found.view("u1").max(initial=0) > 1:
            raise SerializationError("the answer has an array of truth values with others than two")
        letters = found.view(numpy.dtype("u4").newbyteorder(found.dtype.byteorder)) if found.dtype.kind == "U" else None
        if letters is not None and letters.max(initial=0) > sys.maxunicode:
            raise SerializationError("the answer has an array of strings with bytes that are not characters")

    def read_scalar(self, items: list[Any]) -> Any:
        dtype, content = items
        numpy = tables.library("numpy", "a numpy number")
        kind = self.dtype(dtype)
        if kind.itemsize == 0:  # an empty text, of which there is nothing to read
            return kind.type()
        found = numpy.frombuffer(content, dtype=kind, count=1)
        self.check_elements(numpy, found)
        if kind.kind == "S":  # numpy removes each NUL at the end of an element
            return kind.type(content[: kind.itemsize])
        if kind.kind == "U":
            letters = found.view(numpy.dtype("u4").newbyteorder(kind.byteorder))
            return kind.type("".join(map(chr, letters)))
        return found[0]

    @staticmethod
    def dtype(text: Any) -> Any:
        if not isinstance(text, str) or not DTYPE.fullmatch(text):
            raise SerializationError(f"the answer has an array of the unknown dtype {text!r:.40}")
        return tables.library("numpy", "a numpy array").dtype(text)

    def read_polars_series(self, data: Any) -> Any:
        frame = tables.to_polars(data)
        if frame.width != 1:
            raise SerializationError("the answer has a malformed series")
        return frame.to_series()

    def read_series(self, items: list[Any]) -> Any:
        name, frame = items
        if type(frame) is not tables.library("pandas", "a pandas table").DataFrame or len(frame.columns) != 1:
            raise SerializationError("the answer has a malformed series")
        series = frame[frame.columns[0]]
        series.name = name
        return series

    @staticmethod
    def check_positions(positions: list[Any], columns: int) -> None:
        """Refuse positions of columns that are none, or not in their order: one twice would be work twice."""
        if not all(type(number) is int and 0 <= number < columns for number in positions):
            raise SerializationError("the answer has a position of a column that the table does not have")
        if any(one >= other for one, other in itertools.pairwise(positions)):
            raise SerializationError("the answer has positions of columns that are not in their order")

    def read_cells(self, items: list[Any]) -> Any:
        *parts, frame = items
        pandas, numpy = tables.library("pandas", "a pandas table"), tables.library("numpy", "a pandas table")
        if type(frame) is not pandas.DataFrame:
            raise SerializationError("the answer has malformed cells")
        self.check_positions(parts[::2], len(frame.columns))
        for number, cells in zip(parts[::2], parts[1::2], strict=True):
            if type(cells) is pandas.CategoricalIndex:
                frame.isetitem(number, pandas.Series(cells, index=frame.index))
                continue
            if type(cells) is not list:
                raise SerializationError("the answer has malformed cells")
            column = numpy.empty(len(cells), dtype=object)
            for row, cell in enumerate(cells):  # an array of lists would be one of more dimensions
                column[row] = cell
            frame.isetitem(number, pandas.Series(column, index=frame.index, dtype=object))
        return frame

    def read_strings(self, items: list[Any]) -> Any:
        *parts, frame = items
        if type(frame) is not tables.library("pandas", "a pandas table").DataFrame:
            raise SerializationError("the answer has malformed strings")
        self.check_positions(parts[::3], len(frame.columns))
        for number, storage, missing in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
            frame.isetitem(number, frame.iloc[:, number].astype(frames.string_dtype(storage, missing)))
        return frame

    def read_columns(self, items: list[Any]) -> Any:
        rows, *parts = items
        tables.library("pandas", "a pandas table")
        if type(rows) is not int or rows < 0:
            raise SerializationError("the answer has malformed columns")
        for kind, content in zip(parts[::2], parts[1::2], strict=True):
            self.check_labels(kind, content, min(rows, MAX_ELEMENTS))
        return frames.make_columns(rows, parts)

    def read_marks(self, items: list[Any]) -> Any:
        attributes, twice, table = items
        pandas = tables.library("pandas", "a pandas table")
        if type(table) not in (pandas.DataFrame, pandas.Series) or type(attributes) is not dict:
            raise SerializationError("the answer has malformed marks")
        table = table if twice else table.set_flags(allows_duplicate_labels=False)
        table.attrs = attributes
        return table

    def read_pandas(self, items: list[Any]) -> Any:
        kind, *parts = items
        pandas = tables.library("pandas", "a value of pandas")
        if kind in ("Index", "array") and type(parts[0]) not in (pandas.DataFrame, pandas.Series):
            raise SerializationError("the answer has a malformed value of pandas")
        return scalars.make_scalar(kind, parts)

    def read_collection(self, items: list[Any]) -> Any:
        name, default, *parts = items
        kind: Any = {one.__name__: one for one in MAPPINGS}[name]
        factory: Any = default and {one.__name__: one for one in DEFAULTS}[default]
        content = self.to_dict(list(zip(parts[::2], parts[1::2], strict=True)))
        return kind(factory, content) if kind is collections.defaultdict else kind(content)

    def check_labels(self, kind: Any, content: Any, most: int) -> None:
        """Refuse labels, or the values of a column, that would take much memory or time: see frames.make_index."""
        form = LABELS.get(kind) if isinstance(kind, str) else None
        if type(content).__name__ != form:
            raise SerializationError("the answer has malformed labels")
        if kind == "range":
            self.check_range(content, most)
        elif kind == "object":
            with contextlib.suppress(TypeError):  # pandas, too, comes no further than to one that has no hash
                self.to_set(content)
        elif (kind == "zone" and not isinstance(content[1], datetime.tzinfo)) or (
            kind == "periods" and (content[0].ndim != 1 or len(content[1]) > frames.MAX_FREQUENCY)
        ):
            raise SerializationError("the answer has an unknown time zone, or malformed periods")
        elif kind == "categories":
            self.check_labels(content[2], content[3], MAX_ELEMENTS)
        elif kind == "intervals":
            for inner, labels in zip(content[1::2], content[2::2], strict=True):
                if inner not in ("range", "array", "zone"):
                    raise SerializationError("the answer has malformed labels")
                self.check_labels(inner, labels, frames.MAX_INTERVALS)
                if len(labels[0] if inner == "zone" else labels) > frames.MAX_INTERVALS:
                    raise SerializationError("the answer has too many intervals as labels")
        elif kind == "levels":
            for inner, labels in zip(content[::2], content[1::2], strict=True):
                self.check_labels(inner, labels, most)

    def read_labels(self, items: list[Any]) -> Any:
        axis, names, kind, content, frame = items
        pandas = tables.library("pandas", "a pandas table")
        if type(frame) is not pandas.DataFrame or axis not in (0, 1):
            raise SerializationError("the answer has malformed labels")
        self.check_labels(kind, content, frame.shape[axis])
        index = frames.make_index(kind, content)
        index.names = names
        return frame.set_axis(index, axis=axis)  # pandas refuses another number of labels

    def read_frequency(self, items: list[Any]) -> Any:
        axis, frequency, table = items
        pandas = tables.library("pandas", "a pandas table")
        known = type(table) in (pandas.DataFrame, pandas.Series) and axis in range(table.ndim)
        if not known or not isinstance(frequency, str):
            raise SerializationError("the answer has a malformed index")
        index, times = table.axes[axis], (pandas.DatetimeIndex, pandas.TimedeltaIndex)
        if len(frequency) > frames.MAX_FREQUENCY or type(index) not in times:
            raise SerializationError("the answer has an index with an unknown frequency")
        offset, offsets = pandas.tseries.frequencies.to_offset(frequency), pandas.tseries.offsets
        self.frequency_rows += 0 if isinstance(offset, (offsets.Tick, offsets.Day)) else len(index)
        if self.frequency_rows > MAX_FREQUENCY_ROWS:
            what, name = frames.AXES[axis]
            raise SerializationError(
                f"the answer has more than {MAX_FREQUENCY_ROWS} {what} with the frequency {frequency!r}: "
                f"remove it first: {name}.freq = None"
            )
        index.freq = offset  # pandas refuses one that the labels do not have
        return table

    def read_rows(self, items: list[Any]) -> Any:
        *names, table = items
        pandas = tables.library("pandas", "a pandas table")
        if type(table) not in (pandas.DataFrame, pandas.Series) or table.index.nlevels != len(names):
            raise SerializationError("the answer has a malformed index")
        table.index.names = names
        return table


def _set_attribute(value: Any, name: Any, item: Any, *, is_field: bool) -> None:
    """Set an attribute of a new instance, and run none of its class's code."""
    kind = type(value)
    known = inspect.getattr_static(kind, name, None) if isinstance(name, str) else None
    if isinstance(known, types.MemberDescriptorType):  # a slot
        known.__set__(value, item)
        return
    # A default, or what a cached_property has computed, is where it would be on this side too.
    hides = hasattr(type(known), "__get__") and not isinstance(known, functools.cached_property)
    if not isinstance(name, str) or not hasattr(value, "__dict__") or (hides and not is_field) or name.startswith("__"):
        called = f"{kind.__qualname__}.{name!s:.{MAX_NAME}}"
        raise SerializationError(f"the answer has the attribute '{called}', which this side's class does not allow")
    vars(value)[name] = item


def _datetime(items: list[Any]) -> datetime.datetime:
    year, month, day, hour, minute, second, microsecond, fold, zone = items
    return datetime.datetime(year, month, day, hour, minute, second, microsecond, zone, fold=fold)


def _time(items: list[Any]) -> datetime.time:
    hour, minute, second, microsecond, fold, zone = items
    return datetime.time(hour, minute, second, microsecond, zone, fold=fold)


BYTES: dict[int, Callable[[_Decoder, bytes], Any]] = {
    Code.INTEGER: _Decoder.read_integer,
    Code.COMPLEX: lambda self, data: complex(*struct.unpack("<dd", data)),
    Code.DECIMAL: _Decoder.read_decimal,
    Code.UUID: lambda self, data: uuid.UUID(bytes=data),
    Code.BYTEARRAY: lambda self, data: bytearray(data),
    Code.DATAFRAME: lambda self, data: tables.to_pandas(data),
    Code.TABLE: lambda self, data: tables.read(data),
    Code.POLARS_FRAME: lambda self, data: tables.to_polars(data),
    Code.POLARS_SERIES: _Decoder.read_polars_series,
}
ARRAYS: dict[int, Callable[[_Decoder, list[Any]], Any]] = {
    Code.TUPLE: lambda self, items: tuple(items),
    Code.SET: _Decoder.to_set,
    Code.FROZENSET: lambda self, items: frozenset(self.to_set(items)),
    Code.DATETIME: lambda self, items: _datetime(items),
    Code.DATE: lambda self, items: datetime.date(*items),
    Code.TIME: lambda self, items: _time(items),
    Code.TIMEDELTA: lambda self, items: datetime.timedelta(*items),
    Code.TIMEZONE: _Decoder.read_zone,
    Code.FRACTION: _Decoder.read_fraction,
    Code.PATH: lambda self, items: pathlib.Path(*items),
    Code.PURE_PATH: lambda self, items: pathlib.PurePosixPath(*items),
    Code.ENUM: _Decoder.read_enum,
    Code.DATACLASS: _Decoder.read_dataclass,
    Code.ARRAY: _Decoder.read_array,
    Code.SCALAR: _Decoder.read_scalar,
    Code.DICT: lambda self, items: self.to_dict(list(zip(items[::2], items[1::2], strict=True))),
    Code.SERIES: _Decoder.read_series,
    Code.ROWS: _Decoder.read_rows,
    Code.CELLS: _Decoder.read_cells,
    Code.LABELS: _Decoder.read_labels,
    Code.FREQUENCY: _Decoder.read_frequency,
    Code.RANGE: _Decoder.read_range,
    Code.DEQUE: lambda self, items: collections.deque(items[1:], items[0]),
    Code.MAPPING: _Decoder.read_collection,
    Code.PANDAS: _Decoder.read_pandas,
    Code.MARKS: _Decoder.read_marks,
    Code.STRINGS: _Decoder.read_strings,
    Code.COLUMNS: _Decoder.read_columns,
}
# Types of extension values that cost as much as TABLE_ELEMENTS: tables, and what pandas makes of them.
TABLES = frozenset({Code.DATAFRAME, Code.TABLE, Code.POLARS_FRAME, Code.POLARS_SERIES})
OF_PANDAS = frozenset(
    {Code.SERIES, Code.ROWS, Code.CELLS, Code.FREQUENCY, Code.LABELS, Code.MARKS, Code.STRINGS, Code.COLUMNS}
)
