"""How host and sandbox talk: frames on a stream socket, and the numbers of MessagePack's extension types.

A frame is the length of its content in eight bytes, little-endian; a mark of 16 bytes; and a MessagePack map of that
length. The host chooses a random mark for each request, and the answer repeats it. So a message that the sandbox's code
has sent before it knew the request, or twice, is not taken for the answer. See
https://github.com/msgpack/msgpack/blob/master/spec.md#extension-types.
"""

from __future__ import annotations

import collections
import struct
from enum import IntEnum

# In the sandbox, on its own loopback: the way to the proxy outside.
RELAY_PORT = 1080
HEADER = struct.Struct("<Q16s")
MARK_SIZE = 16
# In the length of a request behind which the host passes a descriptor.
PASSES = 1 << 63
# The mark of the sandbox's first message, which answers no request.
GREETING = bytes(MARK_SIZE)
# The last line of a worker that cannot answer on its standard error. A signal ends it then: see worker.py.
GAVE_UP = "pysbx: the sandbox cannot answer: "
# The variable in which a prewarmed interpreter that cannot go on tells the next one why: see agent.c of the runtime.
COLD_REASON = "PYSBX_COLD_REASON"
# Values may be nested this deep, on both sides: MessagePack itself stops at 511.
MAX_DEPTH = 200
# Subclasses of dict, without attributes that the code has set, and the defaults that such a dictionary may have.
MAPPINGS = (collections.OrderedDict, collections.Counter, collections.defaultdict)
DEFAULTS = (bool, bytes, dict, float, int, list, set, str, tuple)
# An enumeration keeps each combination of its flags for good, once the combination has been used.
MAX_FLAGS = 16
# An empty list is one byte in an answer, and 64 in memory.
MAX_ELEMENTS = 10_000_000
# The packets of a terminal begin with such a letter. Bytes go either way. The host sends the size, in rows and columns.
# The sandbox says that the program has begun, or why it has not, and at the end its exit code.
TERMINAL_DATA, TERMINAL_SIZE = b"d", b"s"
TERMINAL_BEGUN, TERMINAL_FAILED, TERMINAL_END = b"b", b"f", b"e"
TERMINAL_PACKET = 1 << 14  # bytes
# A program with pipes has the same packets. Data without content ends its input. Its standard error has a letter of its
# own, and so has a directory where it cannot begin. The number of the reason is before the text then.
PROGRAM_STDERR, PROGRAM_NOWHERE = b"r", b"c"
ROWS_AND_COLUMNS, EXIT_CODE = struct.Struct("!HH"), struct.Struct("!i")
# A call of a tool, on a socket of its own: its number, the position of the tool in the host's list, the bytes of the
# arguments. And its answer: the number of the call, the kind of the content, the bytes of that.
TOOL_CALL, TOOL_ANSWER = struct.Struct("<QIQ"), struct.Struct("<QBQ")
TOOL_VALUE, TOOL_RAISED = 0, 1


class Code(IntEnum):
    """The extension types. The comment after each name is its content.

    Bytes are the content of the extension value itself. A type that contains other values is an array, whose first
    element is an extension value without content. So the reader never unpacks within an unpacking, which hostile code
    could nest until the reader's stack overflows.
    """

    INTEGER = 1  # bytes: two's complement, little-endian, for more than 64 bits.
    COMPLEX = 2  # bytes: two doubles
    TUPLE = 3  # its elements
    SET = 4  # its elements
    FROZENSET = 5  # its elements
    DATETIME = 6  # year, month, day, hour, minute, second, microsecond, fold, zone.
    DATE = 7  # year, month, day
    TIME = 8  # hour, minute, second, microsecond, fold, zone
    TIMEDELTA = 9  # days, seconds, microseconds
    TIMEZONE = 10  # offset in microseconds, name or nil; or the key of a ZoneInfo.
    DECIMAL = 11  # bytes: text
    FRACTION = 12  # numerator, denominator
    UUID = 13  # bytes: 16
    PATH = 14  # text
    ENUM = 15  # module, class, name of the member; or the number of a combination of flags without a name.
    DATACLASS = 16  # module, class, {attribute: value}
    BYTEARRAY = 17  # bytes
    ARRAY = 18  # numpy dtype, shape, bytes in C order.
    SCALAR = 19  # numpy dtype, bytes
    DATAFRAME = 20  # bytes: Arrow IPC stream
    SERIES = 21  # name or nil, pandas' table of one column.
    TABLE = 22  # bytes: Arrow IPC stream
    DICT = 23  # key, value, key, value, …: if a key is not a plain one.
    POLARS_FRAME = 24  # bytes: Arrow IPC stream
    POLARS_SERIES = 25  # bytes: Arrow IPC stream of one column.
    ROWS = 26  # names of the levels of the index, pandas' table: if such a name is not a string.
    CELLS = 27  # position of a column, list or index of its cells, position, …, pandas' table: for cells of any type.
    FREQUENCY = 28  # axis, frequency of its labels, pandas' table or series.
    LABELS = 29  # axis, name, kind, labels, pandas' table: for labels that Arrow does not bring back.
    PURE_PATH = 30  # text.
    RANGE = 31  # start, stop, step.
    DEQUE = 32  # its greatest length or nil, its elements.
    MAPPING = 33  # name of the class in module collections, name of its default or nil, key, value.
    PANDAS = 34  # name in pandas, the parts of the value: see scalars.py.
    MARKS = 35  # attrs, whether labels may occur twice, pandas' table or series.
    STRINGS = 36  # position of a column, how its strings are stored, their missing value, …; and pandas' table.
    COLUMNS = 37  # number of rows, kind and content of each column: a table of pandas, of a sandbox without pyarrow.
