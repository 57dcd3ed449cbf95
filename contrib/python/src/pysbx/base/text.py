"""Make output of a sandbox safe for a terminal."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TextIO

# Characters that can move the cursor, set a title or type for the user. They must not reach a terminal.
CONTROLS = r"[\x00-\x08\x0b-\x1f\x7f-\x9f]"
# Characters that make a terminal show text in another order (Unicode Standard Annex 9) appear as escapes.
BIDIRECTIONAL = "[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"


def visible(text: str) -> str:
    """Return output of a sandbox for a terminal or a log: no control character has an effect."""
    text = re.sub(CONTROLS, "\N{REPLACEMENT CHARACTER}", text)
    return re.sub(BIDIRECTIONAL, lambda found: f"\\u{ord(found[0]):04x}", text)


def writer(stream: TextIO, *, raw: bool) -> Callable[[str], None]:
    """Return a function that writes a sandbox's output to a stream; to a terminal without control characters.

    A character that the stream's encoding lacks is written as an escape, as Python does on standard error.
    """
    encoding = stream.encoding or "utf-8"

    def write(text: str) -> None:
        text = text.encode(encoding, "backslashreplace").decode(encoding)
        stream.write(visible(text) if stream.isatty() and not raw else text)
        stream.flush()

    return write
