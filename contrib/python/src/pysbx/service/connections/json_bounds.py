"""The number of parts of a request. Time and memory depend on the parts of its JSON, not only on its bytes.

Eight MiB of empty lists take a second to read, and 200 MB. A string of any content takes a few milliseconds for each
MiB. So parts are counted before they are parsed, in a thread: the event loop answers others meanwhile.
"""

from __future__ import annotations

import json

from pysbx.service.connections.problems import MANY, Problem

MAX_FILES = 1000
MAX_ARGUMENTS = 1000
# Elements of arrays and members of objects, at all depths together.
MAX_PARTS = 4000
# Each member has a name, and may have a string.
MAX_STRINGS = 2 * MAX_PARTS + 2
LISTED = 10_000
BETWEEN = ",[{"
STRING = json.JSONDecoder(strict=False)  # control characters are for the parser to refuse


def may_have_too_many(content: bytes | str) -> bool:
    """Tell whether JSON of this length can have too many parts."""
    return len(content) > MAX_PARTS


def check_parts(content: bytes | str) -> None:
    """Count the parts of JSON: at least as many as a parser makes before it fails, if it does.

    Raises:
        Problem: there are too many.
    """
    try:
        text = content if isinstance(content, str) else content.decode(json.detect_encoding(content), "surrogatepass")
    except UnicodeDecodeError:
        return  # no parser reads it
    parts = strings = position = 0
    while position < len(text):
        start = text.find('"', position)
        end = start if start >= 0 else len(text)
        parts += sum(text.count(sign, position, end) for sign in BETWEEN)
        if parts > MAX_PARTS or strings > MAX_STRINGS:
            raise Problem(
                MANY,
                f"its JSON has more than {MAX_PARTS} parts; {MAX_FILES} files are the most",
                more={"limit": MAX_PARTS},
            )
        if start < 0:
            return
        strings += 1
        try:
            _, position = STRING.raw_decode(text, start)
        except ValueError:
            return  # a string without an end, or no string: the parser gets no further


def check_files(count: int) -> None:
    """Refuse a number of files.

    Raises:
        Problem: there are too many.
    """
    if count > MAX_FILES:
        raise Problem(MANY, f"files: {count} of them are more than {MAX_FILES}", more={"limit": MAX_FILES})
