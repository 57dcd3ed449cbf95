"""Differences of two texts as `diff -u` shows them, in bounded time: either may be a stranger's.

The algorithm is that of Myers (1986), "An O(ND) Difference Algorithm and Its Variations". difflib alone can need the
cube of the number of lines.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterator

LINES = re.compile(r"[^\n]*\n|[^\n]+")
CONTEXT = 3
# Bounds of the search: different lines, and steps. Beyond, all lines from the first to the last difference differ.
MOST_DIFFERENCES, MOST_STEPS = 1000, 3_000_000
Opcode = tuple[str, int, int, int, int]


def text_of(content: bytes) -> list[str] | None:
    """Return the lines of a text, or None if it is none."""
    try:
        return None if b"\0" in content else LINES.findall(content.decode())
    except UnicodeDecodeError:
        return None


def _pairs(old: list[str], new: list[str]) -> list[tuple[int, int]]:
    """Return the lines that are the same in both; none if that takes too long."""
    most = min(len(old) + len(new), MOST_DIFFERENCES)
    furthest = array("i", bytes(4 * (2 * most + 3)))
    trace: list[array[int]] = []
    steps = 0
    for count in range(most + 1):
        trace.append(furthest[most - count : most + count + 3])
        for k in range(-count, count + 1, 2):
            at = most + 1 + k
            down = k == -count or (k != count and furthest[at - 1] < furthest[at + 1])
            x = start = furthest[at + 1] if down else furthest[at - 1] + 1
            y = x - k
            while x < len(old) and y < len(new) and old[x] == new[y]:
                x, y = x + 1, y + 1
            steps += x - start + 1
            furthest[at] = x
            if x >= len(old) and y >= len(new):
                return _back(trace, x, y)
        if steps > MOST_STEPS:
            break
    return []


def _back(trace: list[array[int]], x: int, y: int) -> list[tuple[int, int]]:
    found = []
    for count in range(len(trace) - 1, -1, -1):
        row, k = trace[count], x - y  # the middle of a row is diagonal 0
        middle = count + 1
        down = k == -count or (k != count and row[middle + k - 1] < row[middle + k + 1])
        before = k + 1 if down else k - 1
        from_x = row[middle + before] if count else 0
        from_y = from_x - before if count else 0
        while x > from_x and y > from_y:
            x, y = x - 1, y - 1
            found.append((x, y))
        x, y = from_x, from_y
    return found[::-1]


def opcodes(old: list[str], new: list[str]) -> list[Opcode]:
    """Return how one becomes the other, as SequenceMatcher.get_opcodes does."""
    first, shorter = 0, min(len(old), len(new))
    while first < shorter and old[first] == new[first]:
        first += 1
    last = 0
    while last < shorter - first and old[-1 - last] == new[-1 - last]:
        last += 1
    inner = _pairs(old[first : len(old) - last], new[first : len(new) - last])
    pairs = [(i, i) for i in range(first)] + [(i + first, j + first) for i, j in inner]
    pairs += [(len(old) - i, len(new) - i) for i in range(last, 0, -1)]
    found: list[Opcode] = []
    i = j = 0
    for x, y in [*pairs, (len(old), len(new))]:
        if (i, j) != (x, y):
            found.append(("delete" if j == y else "insert" if i == x else "replace", i, x, j, y))
        if (x, y) != (len(old), len(new)):
            if found and found[-1][0] == "equal" and found[-1][2] == x:
                found[-1] = ("equal", found[-1][1], x + 1, found[-1][3], y + 1)
            else:
                found.append(("equal", x, x + 1, y, y + 1))
        i, j = x + 1, y + 1
    return found


def _range(start: int, stop: int) -> str:
    count = stop - start
    return f"{start + (count > 0)}" + ("" if count == 1 else f",{count}")


def _name(side: str, path: str) -> str:
    """Return the name of a file in a header, as git has it: a tab ends one with spaces."""
    name = f"{side}/{path}"
    return (
        json.dumps(name) if not name.isprintable() or set(name) & set('"\\') else f"{name}\t" if " " in name else name
    )


def unified(path: str, old: bytes | None, new: bytes | None) -> str:
    """Return the differences of a file; None is no file."""
    names = [_name(side, path) if content is not None else "/dev/null" for side, content in (("a", old), ("b", new))]
    before, after = text_of(old or b""), text_of(new or b"")
    if before is None or after is None:
        return f"Binary files {names[0].rstrip()} and {names[1].rstrip()} differ\n"
    return "".join(_hunks(names, before, after))


def _hunks(names: list[str], old: list[str], new: list[str]) -> Iterator[str]:
    from difflib import SequenceMatcher  # noqa: PLC0415 (for a difference only)

    matcher = SequenceMatcher(None, "", "")
    matcher.opcodes = opcodes(old, new)  # type: ignore[attr-defined]
    begun = False
    for group in matcher.get_grouped_opcodes(CONTEXT):
        if not begun:
            yield f"--- {names[0]}\n+++ {names[1]}\n"
        begun = True
        (_, i, _, j, _), (_, _, x, _, y) = group[0], group[-1]
        yield f"@@ -{_range(i, x)} +{_range(j, y)} @@\n"
        for kind, i1, i2, j1, j2 in group:
            yield from _marked(" ", old[i1:i2]) if kind == "equal" else _marked("-", old[i1:i2])
            yield from () if kind == "equal" else _marked("+", new[j1:j2])


def _marked(mark: str, lines: list[str]) -> Iterator[str]:
    for line in lines:
        yield mark + line if line.endswith("\n") else f"{mark}{line}\n\\ No newline at end of file\n"
