"""Text of a sandbox, as a terminal may have it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TextIO

# Characters that can move the cursor, set a title or type for the user. Only a terminal must not get them.
CONTROLS = r"[\x00-\x08\x0b-\x1f\x7f-\x9f]"
# Characters that make a terminal show text in another order (Unicode Standard Annex 9) appear as escapes.
BIDIRECTIONAL = "[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"


def visible(text: str) -> str:
    """Return a text of a sandbox as a terminal or a log may have it: no control character has an effect."""
    text = re.sub(CONTROLS, "\N{REPLACEMENT CHARACTER}", text)
    return re.sub(BIDIRECTIONAL, lambda found: f"\\u{ord(found[0]):04x}", text)


def writer(stream: TextIO, *, raw: bool) -> Callable[[str], None]:
    """Return what writes a sandbox's text to one of our streams; on a terminal without control characters.

    A character that the stream's encoding lacks is written as an escape, as Python does on standard error.
    """
    encoding = stream.encoding or "utf-8"

    def write(text: str) -> None:
        text = text.encode(encoding, "backslashreplace").decode(encoding)
        stream.write(visible(text) if stream.isatty() and not raw else text)
        stream.flush()

    return write
