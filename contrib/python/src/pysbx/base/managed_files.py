"""Files in the directories of other programs: a first line says that this package has written them, and what.

So a later version replaces a file that is as it was, and an uninstallation keeps one that was changed. dpkg(1) treats
its conffiles in the same way.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

FIRST = re.compile(r"# Written by `pysbx [a-z ]+`, with SHA-256 ([0-9a-f]{64})[^\n]*\n")


def marked(text: str, command: str, advice: str = "") -> str:
    """Return a text with that first line.

    Args:
        text: of a file whose comments begin with "#".
        command: that writes it, such as "pysbx service install".
        advice: a sentence for a reader of the file.
    """
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f"# Written by `{command}`, with SHA-256 {digest} of the rest. {advice}".rstrip() + f"\n{text}"


def is_ours(path: Path) -> bool:
    """Tell whether a file is as this package has written it.

    Raises:
        OSError: it cannot be read.
    """
    text = path.read_text(encoding="utf-8", errors="replace")
    first = FIRST.match(text)
    return first is not None and hashlib.sha256(text[first.end() :].encode()).hexdigest() == first[1]
