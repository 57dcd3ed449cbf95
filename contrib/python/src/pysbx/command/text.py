"""Text of a sandbox, as a terminal may have it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TextIO

# What can move the cursor, set a title or answer for the user is for the eyes of a terminal only.
CONTROLS = r"[\x00-\x08\x0b-\x1f\x7f-\x9f]"
# What makes a terminal show text in another order than it has (Unicode Standard Annex 9) is shown as an escape.
BIDIRECTIONAL = "[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"


def visible(text: str) -> str:
    """Return a text of a sandbox as a terminal or a log may have it: no control character has an effect."""
    text = re.sub(CONTROLS, "\N{REPLACEMENT CHARACTER}", text)
    return re.sub(BIDIRECTIONAL, lambda found: f"\\u{ord(found[0]):04x}", text)


def writer(stream: TextIO, *, raw: bool) -> Callable[[str], None]:
    """Return what writes a sandbox's text to one of our streams; on a terminal without control characters.

    What the stream's encoding has no form for is written as an escape, as Python does on standard error.
    """
    encoding = stream.encoding or "utf-8"

    def write(text: str) -> None:
        text = text.encode(encoding, "backslashreplace").decode(encoding)
        stream.write(visible(text) if stream.isatty() and not raw else text)
        stream.flush()

    return write
