"""Reads the frame around an answer. The bytes may be anything: how many elements they have is known before any is made.

See MessagePack's specification, "Formats".
"""

from __future__ import annotations

from typing import Any

# A value is one element of its frame, and so is each file; what is in a value is counted by its decoder. An element
# takes some hundred bytes of memory, and an empty map is one byte of a frame.
MAX_ELEMENTS = 1_000_000

# By the first byte of an element. An element whose first byte is in none of these tables is one byte.
SIZES = {0xCA: 5, 0xCB: 9, 0xCC: 2, 0xCD: 3, 0xCE: 5, 0xCF: 9, 0xD0: 2, 0xD1: 3, 0xD2: 5, 0xD3: 9}  # numbers
SIZES.update({0xD4: 3, 0xD5: 4, 0xD6: 6, 0xD7: 10, 0xD8: 18})  # extension values
SIZES.update({0xA0 + length: 1 + length for length in range(32)})  # texts
# Bytes, extension values and strings: the width of their length, and the bytes that the length does not count.
LONG = {0xC4: (1, 0), 0xC5: (2, 0), 0xC6: (4, 0), 0xC7: (1, 1), 0xC8: (2, 1), 0xC9: (4, 1)}
LONG.update({0xD9: (1, 0), 0xDA: (2, 0), 0xDB: (4, 0)})
# Short maps and arrays: the number of their elements.
FEW = {0x80 + pairs: 2 * pairs for pairs in range(16)} | {0x90 + items: items for items in range(16)}
# Arrays and maps: the width of their length, and how many elements it counts as one.
MANY = {0xDC: (2, 1), 0xDD: (4, 1), 0xDE: (2, 2), 0xDF: (4, 2)}


class TooMany(ValueError):
    """A frame has more elements than allowed."""


def unpack(content: bytes) -> Any:
    """Return the content of a frame.

    Raises:
        TooMany: it has more than MAX_ELEMENTS; nothing has been made of them.
        Exception: whatever hostile bytes make the library raise.
    """
    import msgpack  # noqa: PLC0415 (a program may make no sandbox)

    # No element is shorter than a byte.
    if len(content) > MAX_ELEMENTS and elements(content, MAX_ELEMENTS) > MAX_ELEMENTS:
        raise TooMany
    return msgpack.unpackb(content, raw=False, unicode_errors="surrogatepass", strict_map_key=True)


def elements(content: bytes, limit: int) -> int:
    """Return how many elements a frame announces, itself included; stop counting where they are more than the limit.

    Counting ends where the content is cut off or is not MessagePack: the library will say so.
    """
    found = pending = 1
    position = 0
    while pending and position < len(content) and found <= limit:
        size, announced = _element(content, position)
        found += announced
        pending += announced - 1
        position += size
    return found


def _element(content: bytes, position: int) -> tuple[int, int]:
    """Return the size of an element, without those in it, and how many these are."""
    first = content[position]
    if first in LONG:
        width, more = LONG[first]
        return 1 + width + more + _number(content, position + 1, width), 0
    if first in MANY:
        width, times = MANY[first]
        return 1 + width, times * _number(content, position + 1, width)
    return SIZES.get(first, 1), FEW.get(first, 0)


def _number(content: bytes, position: int, width: int) -> int:
    return int.from_bytes(content[position : position + width], "big")
