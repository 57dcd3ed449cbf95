"""Arrow's tables from a sandbox: a few bytes may stand for any number of rows, and are looked at before they are read.

A stream announces its sizes in flatbuffers before its bodies. pyarrow checks them when it reads a message, and does not
show them. See Arrow's columnar format, "Serialization and Interprocess Communication", and Message.fbs.
https://flatbuffers.dev/internals/ describes the layout of a flatbuffer.
"""

from __future__ import annotations

import functools
import importlib
import json
import struct
from typing import Any

from pysbx.errors import SerializationError, with_extra
from pysbx.inside import frames

# Message.fbs: the kinds of messages, and the numbers of the fields that are looked at.
SCHEMA, DICTIONARY_BATCH, RECORD_BATCH = 1, 2, 3
MESSAGE_KIND, MESSAGE_HEADER = 1, 2
DICTIONARY_RECORDS = 1
RECORDS_BUFFERS, RECORDS_COMPRESSION = 2, 3
# Schema.fbs, and of a key and its value.
SCHEMA_FIELDS, FIELD_CHILDREN, FIELD_METADATA, KEY, VALUE = 1, 5, 6, 0, 1
EXTENSION = b"ARROW:extension:"
# Bytes that pandas needs for an element: a number or pointer in an array, an object, or a dict or array.
NUMBER, OBJECT, NESTED = 8, 64, 256
# Bounds of a converted table: bits become pointers, and the four bytes of an offset become an array.
SPARE, GROWTH = 1 << 30, 64
NUMBERS = ("null", "boolean", "integer", "floating", "timestamp", "duration")
BYTES = ("string", "large_string", "binary", "large_binary", "fixed_size_binary")
OBJECTS = (*BYTES, "decimal", "date", "time", "interval")
# Characters of the name of a type in the text of pandas about its table, and bytes of its parameters. pandas searches
# them with regular expressions that take quadratic time.
MAX_TYPE, MAX_PARAMETERS = 200, 1000
# pandas opens the file that such a time zone names.
FILES_OF_ZONES = "dateutil/"
# The packages of the extra "arrow".
EXTRA = ("numpy", "pandas", "pyarrow")
LISTS = ("list", "large_list", "fixed_size_list")
# Days before and after 1970. polars knows a few more. Beyond them it panics when such a table is printed, written or
# iterated over, and a panic is not an Exception.
MOST_DAYS = 95_000_000
PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


_register_types = functools.cache(frames.register_types)


def library(name: str, what: str) -> Any:
    """Return a module that may not be installed.

    Raises:
        SerializationError: it is not.
    """
    try:
        return importlib.import_module(name)
    except ImportError:
        advice = with_extra("arrow") if name in EXTRA else f"install it beside pysbx: pip install {name}"
        raise SerializationError(f"the answer holds {what}, and {name} is not installed here: {advice}", what) from None


def read(data: bytes) -> Any:
    """Return the table in an Arrow stream, which is not larger than its bytes.

    Raises:
        SerializationError: it would be; or this pyarrow is too old.
        Exception: whatever hostile bytes make the library raise.
    """
    pyarrow = library("pyarrow", "a table")
    # Up to 14.0.0 an extension type in a schema was unpickled: CVE-2023-47248.
    if tuple(int(part) for part in pyarrow.__version__.split(".")[:2]) < (14, 1):
        raise SerializationError(f"pyarrow {pyarrow.__version__} is not safe for tables of others: upgrade to 15")
    _check_messages(pyarrow, data)
    table = pyarrow.ipc.open_stream(data).read_all()
    table.validate()
    _check_views(pyarrow.types, table, len(data))
    table.validate(full=True)
    return table


def to_pandas(data: bytes) -> Any:
    """Return the table in an Arrow stream as one of pandas.

    Raises: see read.
    """
    library("pandas", "a pandas table")
    types = library("pyarrow", "a table").types
    _register_types()  # before the schema is read, which else has only their storage
    table = read(data)
    _check_description((table.schema.metadata or {}).get(b"pandas", b"{}"))
    most = SPARE + GROWTH * len(data)
    if sum(_size_in_pandas(types, chunk) for column in table.columns for chunk in column.chunks) > most:
        raise SerializationError(
            f"the answer has a table that pandas may need more than {most >> 20} MiB for: return a pyarrow table"
        )
    return frames.to_pandas(table)


def to_polars(data: bytes) -> Any:
    """Return the table in an Arrow stream as one of polars.

    Raises: see read.
    """
    polars = library("polars", "a polars table")
    types = library("pyarrow", "a table").types
    table = read(data)
    for field, column in zip(table.schema, table.columns, strict=True):
        _check_for_polars(types, field)
        for chunk in column.chunks:
            _check_times(types, chunk, field.name)
    try:
        # from_arrow() gives a column without a name one.
        found = polars.from_arrow(table.rename_columns([str(number) for number in range(table.num_columns)]))
        found.columns = table.column_names
        return found
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # not an Exception, so it is caught here
            raise
        raise SerializationError(f"the answer has a table that polars cannot read: {error!s:.200}") from None


def _check_messages(pyarrow: Any, data: bytes) -> None:
    """Refuse a stream with parts that are compressed, or that are used more than once: our own has neither."""
    size = 0
    reader = pyarrow.ipc.MessageReader.open_stream(data)
    while True:
        try:
            about = bytes(reader.read_next_message().metadata)
        except StopIteration:
            return
        message = _target(about, 0)
        kind = _field(about, message, MESSAGE_KIND)
        if kind and about[kind] == SCHEMA:
            _check_extensions(about, _target(about, _field(about, message, MESSAGE_HEADER)), SCHEMA_FIELDS)
        if not kind or about[kind] not in (DICTIONARY_BATCH, RECORD_BATCH):
            continue
        records = _target(about, _field(about, message, MESSAGE_HEADER))
        if about[kind] == DICTIONARY_BATCH:
            records = _target(about, _field(about, records, DICTIONARY_RECORDS))
        if _field(about, records, RECORDS_COMPRESSION):
            raise SerializationError("the answer has a compressed table")
        size += _size_of_buffers(about, records)
        if size > len(data):
            raise SerializationError("the answer has a table that is larger than its bytes")


def _check_extensions(data: bytes, table: int, number: int) -> None:
    """Refuse fields, given by the table of a flatbuffer that has them, with a type of pandas that is a long text."""
    waiting = [(table, number)]
    left = len(data)  # of a field that is in several tables, each one counts
    while waiting:
        table, number = waiting.pop()
        for field in _tables(data, table, number):
            left -= 1
            pairs = _tables(data, field, FIELD_METADATA)
            about = {_text(data, pair, KEY): _text(data, pair, VALUE) for pair in pairs}
            of_pandas = about.get(EXTENSION + b"name", b"").startswith(b"pandas.")
            if left < 0 or (of_pandas and len(about.get(EXTENSION + b"metadata", b"")) > MAX_PARAMETERS):
                raise SerializationError("the answer has a table with a type of pandas of too many parameters")
            waiting.append((field, FIELD_CHILDREN))


def _tables(data: bytes, table: int, number: int) -> list[int]:
    """Return the tables in a field of a flatbuffer's table that is a vector of them."""
    if not (place := _field(data, table, number)):
        return []
    start = _target(data, place)
    (length,) = struct.unpack_from("<I", data, start)
    return [_target(data, start + 4 + 4 * index) for index in range(length)]


def _text(data: bytes, table: int, number: int) -> bytes:
    """Return a field of a flatbuffer's table that is a string."""
    if not (place := _field(data, table, number)):
        return b""
    start = _target(data, place)
    (length,) = struct.unpack_from("<I", data, start)
    return data[start + 4 : start + 4 + length]


def _check_description(text: bytes) -> None:
    """Refuse a text of pandas about its table by which it would read files, or compute for long."""
    about = json.loads(text)
    labels = about.get("column_indexes") or []
    if len(labels) > 1:  # pandas evaluates each label as Python; see frames.py for the form that our own have
        raise SerializationError("the answer has a table of pandas with labels of several levels in Arrow's form")
    for entry in (*labels, *(about.get("columns") or [])):
        for key in "numpy_type", "pandas_type":
            kind = entry.get(key) or ""
            if len(kind) > MAX_TYPE or FILES_OF_ZONES in kind:
                raise SerializationError(f"the answer has a table of pandas with the unknown type {kind!r:.40}")


def _check_views(types: Any, table: Any, size: int) -> None:
    """Refuse strings that are views of the same bytes and too long together: to validate them takes too long."""
    length = 0
    for field, column in zip(table.schema, table.columns, strict=True):
        if not _has_views(types, field.type):
            continue
        if field.type.num_fields or not _is_view(types, field.type):
            raise SerializationError(f"the answer has a table with a column of type {field.type!s:.80}")
        for chunk in column.chunks:
            views = memoryview(chunk.buffers()[1]).cast("B")[16 * chunk.offset :][: 16 * len(chunk)]
            length += sum(max(0, one) for one in views.cast("i")[::4])
    if length > SPARE + GROWTH * size:
        raise SerializationError("the answer has a table whose strings share their bytes: return other strings")


def _is_view(types: Any, kind: Any) -> bool:
    return any(getattr(types, name, bool)(kind) for name in ("is_string_view", "is_binary_view"))


def _has_views(types: Any, kind: Any) -> bool:
    inner = [kind.field(index).type for index in range(kind.num_fields)]
    inner += [getattr(kind, name) for name in ("storage_type", "value_type") if hasattr(kind, name)]
    return _is_view(types, kind) or any(_has_views(types, one) for one in inner)


def _field(data: bytes, table: int, number: int) -> int:
    """Return where a field of a flatbuffer's table is, or 0 if it is not there."""
    fields: int = table - struct.unpack_from("<i", data, table)[0]
    (end,) = struct.unpack_from("<H", data, fields)
    place = 4 + 2 * number
    offset: int = struct.unpack_from("<H", data, fields + place)[0] if place < end else 0
    return table + offset if offset else 0


def _target(data: bytes, place: int) -> int:
    """Return the target of a reference in a flatbuffer."""
    found: int = place + struct.unpack_from("<I", data, place)[0]
    return found


def _size_of_buffers(data: bytes, records: int) -> int:
    place = _field(data, records, RECORDS_BUFFERS)
    if not place:
        return 0
    start = _target(data, place)
    (number,) = struct.unpack_from("<I", data, start)
    buffers = struct.iter_unpack("<qq", data[start + 4 : start + 4 + 16 * number])
    return sum(max(length, 0) for _, length in buffers)  # the library refuses a negative one


def _is(types: Any, kind: Any, names: tuple[str, ...]) -> bool:
    return any(getattr(types, f"is_{name}")(kind) for name in names)


def _parts(types: Any, array: Any) -> list[Any] | None:
    """Return the arrays that an array of lists, maps or structures is made of; None if it is of another kind."""
    if types.is_map(array.type):
        return [array.keys, array.items]
    if _is(types, array.type, LISTS):
        return [array.values]
    if types.is_struct(array.type):
        return [array.field(index) for index in range(array.type.num_fields)]
    return None


def _size_in_pandas(types: Any, array: Any, *, within: bool = False) -> int:
    """Return the bytes that an array has in pandas, at most, besides those that are copied from Arrow's."""
    kind, number = array.type, len(array)
    if hasattr(kind, "storage_type"):
        return _size_in_pandas(types, array.storage, within=within)
    if _is(types, kind, NUMBERS):
        return NUMBER * number
    if _is(types, kind, OBJECTS):
        return OBJECT * number
    if types.is_dictionary(kind) and not within:
        return NUMBER * number + _size_in_pandas(types, array.dictionary, within=True)
    parts = _parts(types, array)
    if parts is None:
        raise SerializationError(f"the answer has a table of pandas with a column of type {kind!s:.80}")
    if types.is_map(kind):
        number += len(array.keys)
    return NESTED * number + sum(_size_in_pandas(types, part, within=True) for part in parts)


def _check_for_polars(types: Any, field: Any) -> None:
    """Refuse a dictionary of values that are not strings, because polars copies them."""
    kind = field.type
    if types.is_dictionary(kind) and not _is(types, kind.value_type, ("string", "large_string")):
        raise SerializationError(f"the answer has a table of polars with a column of type {kind!s:.80}")
    for index in range(kind.num_fields):
        _check_for_polars(types, kind.field(index))


def _check_times(types: Any, array: Any, name: str) -> None:
    """Refuse dates and times that polars has no form for."""
    if hasattr(array.type, "storage_type"):
        array = array.storage
    if types.is_date(array.type) or types.is_timestamp(array.type):
        unit = "ms" if types.is_date64(array.type) else getattr(array.type, "unit", "")
        numbers = array.view("int32" if types.is_date32(array.type) else "int64")
        found = library("pyarrow.compute", "a table").min_max(numbers).as_py()
        if any(abs(number or 0) > MOST_DAYS * PER_DAY.get(unit, 1) for number in found.values()):
            raise SerializationError(
                f"the answer has a table of polars with a date out of range, some 260000 years, in column '{name:.80}'"
            )
        return
    for part in _parts(types, array) or ():
        _check_times(types, part, name)
