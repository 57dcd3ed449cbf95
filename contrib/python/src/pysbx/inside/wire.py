"""How host and sandbox talk: frames on a stream socket, and the numbers of MessagePack's extension types.

A frame is the length of its content, eight bytes, little-endian; a mark; and a MessagePack map of that many bytes.
The mark of a request is a random number of the host's, and that of an answer is its request's: so what the sandbox's
code has sent by itself, before it knew of a request, or once more, is not taken for the answer.
See https://github.com/msgpack/msgpack/blob/master/spec.md#extension-types.
"""

from __future__ import annotations

import struct
from enum import IntEnum

# In the sandbox, on its own loopback: the way to the proxy outside.
RELAY_PORT = 1080
HEADER = struct.Struct("<Q16s")
MARK_SIZE = 16
# What the sandbox says first, unasked.
GREETING = bytes(MARK_SIZE)
# Values may be nested this deep, on both sides: MessagePack itself stops at 511.
MAX_DEPTH = 200


class Code(IntEnum):
    """The extension types. What follows each name is the content.

    Bytes are the content of the extension value itself. What holds other values is an array, whose first element is
    an extension value without content: so that nothing has to be unpacked within an unpacking, which could be nested
    until the stack of the reader overflows.
    """

    INTEGER = 1  # bytes: two's complement, little-endian: beyond 64 bits
    COMPLEX = 2  # bytes: two doubles
    TUPLE = 3  # its elements
    SET = 4  # its elements
    FROZENSET = 5  # its elements
    DATETIME = 6  # year, month, day, hour, minute, second, microsecond, fold, zone
    DATE = 7  # year, month, day
    TIME = 8  # hour, minute, second, microsecond, fold, zone
    TIMEDELTA = 9  # days, seconds, microseconds
    TIMEZONE = 10  # offset in microseconds, name or nil; or the key of a ZoneInfo
    DECIMAL = 11  # bytes: text
    FRACTION = 12  # numerator, denominator
    UUID = 13  # bytes: 16
    PATH = 14  # text
    ENUM = 15  # module, class, name of the member
    DATACLASS = 16  # module, class, {field: value}
    BYTEARRAY = 17  # bytes
    ARRAY = 18  # numpy dtype, shape, bytes in C order
    SCALAR = 19  # numpy dtype, bytes
    DATAFRAME = 20  # bytes: Arrow IPC stream
    SERIES = 21  # name or nil, Arrow IPC stream of one column
    TABLE = 22  # bytes: Arrow IPC stream
    DICT = 23  # key, value, key, value, …: where a key is not a plain one
    POLARS_FRAME = 24  # bytes: Arrow IPC stream
    POLARS_SERIES = 25  # bytes: Arrow IPC stream of one column
    ROWS = 26  # names of the levels of the index, pandas' table: where such a name is no text
