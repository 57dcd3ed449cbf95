#!/usr/bin/env python3
"""Draw what a terminal has shown as an SVG: usage: recording.py COMMAND CAST SVG.

CAST is a recording of COMMAND by `asciinema rec` (asciicast version 2). The SVG shows each line at the time of its
completion, with long waits shortened. A viewer without animations, or with disabled animations, shows all lines.
"""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT  # type: ignore[import]
from rich.console import Console  # type: ignore[import]
from rich.terminal_theme import MONOKAI  # type: ignore[import]
from rich.text import Text  # type: ignore[import]

# rich loads its font from another server. This uses the viewer's own.
FONTS = re.compile(r"@font-face \{\{.*?\}\}\n", re.DOTALL)
FONT = 'ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace'
LONGEST_WAIT_SEC = 0.7
WIDTH = 100
NAME = "demo"


def lines_of(cast: Path) -> list[tuple[float, str]]:
    """Return the lines that a terminal shows at the end, each with the time of its completion."""
    found = []
    pending = ""
    for event in cast.read_text(encoding="utf-8").splitlines()[1:]:
        time, kind, data = json.loads(event)
        if kind != "o":
            continue
        pending += data
        *complete, pending = pending.split("\n")
        # A progress line is written repeatedly from its beginning.
        found += [(time, line.rstrip("\r").rpartition("\r\x1b[K")[2].rpartition("\r")[2]) for line in complete]
    return found


def style_of(times: list[float]) -> str:
    """Return the style sheet that shows each line at its time."""
    rules, now, before = [], 0.0, 0.0
    for number, time in enumerate(times):
        now += min(time - before, LONGEST_WAIT_SEC)
        before = time
        rules.append(f'[clip-path="url(#{NAME}-line-{number})"] {{ animation-delay: {now:.2f}s }}')
    return "\n".join(
        (
            "@keyframes appear { from { visibility: hidden } to { visibility: visible } }",
            "@media (prefers-reduced-motion: no-preference) {",
            f".{NAME}-matrix text {{ animation: appear 1ms both }}",
            *rules,
            "}",
        )
    )


def draw(command: str, lines: list[tuple[float, str]]) -> str:
    """Return the SVG of a command and its lines."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    times = []
    for time, line in [(0.0, f"\x1b[1m$ {command}\x1b[0m"), *lines]:
        # A long line of the terminal needs several.
        for part in Text.from_ansi(line).wrap(console, WIDTH) or [Text("")]:
            console.print(part)
            times.append(time)
    form = FONTS.sub("", CONSOLE_SVG_FORMAT).replace("Fira Code, monospace", FONT)
    svg: str = console.export_svg(title=command, theme=MONOKAI, code_format=form, unique_id=NAME)
    return svg.replace("</style>", style_of(times) + "\n</style>", 1)


def main() -> int:
    """Draw a recording, and return the exit status."""
    if len(sys.argv) != 4:
        print(__doc__, file=sys.stderr)
        return 2
    command, cast, svg = sys.argv[1:]
    Path(svg).write_text(draw(command, lines_of(Path(cast))) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
