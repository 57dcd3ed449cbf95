"""Of long output the beginning and the end are kept, and a mark says how much is missing between them."""

# once: the caller's rights make no difference

from __future__ import annotations

import random
import re

import pytest

from pysbx import run_code
from pysbx.container.output import Output
from tests.test_command import pysbx

MARK = re.compile(r"\n\[truncated: (\d+) bytes left out\]\n")
LETTERS = "aé€😀\n"


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 10, 11, 100])
def test_beginning_and_end_in_any_chunks(limit: int) -> None:
    choose = random.Random(limit)
    for _ in range(300):
        said = "".join(choose.choices(LETTERS, k=choose.randrange(3 * limit + 4)))
        data = said.encode()
        kept, position, seen = Output(limit), 0, ""
        while position < len(data):
            size = choose.randint(1, 7)
            seen += kept.add(data[position : position + size])
            position += size
        seen += kept.rest()
        text, cut = kept.take()
        assert cut == (len(data) > limit)
        if not cut:
            assert text == seen == said
        else:
            start, missing, end = MARK.split(text)
            assert data.startswith(start.encode())
            assert data.endswith(end.encode())
            size = len(start.encode()) + len(end.encode())
            assert limit - 6 <= size <= limit
            assert int(missing) == len(data) - size
            # The callback sees more, as the end is not known before it has come.
            parts = MARK.split(seen)
            assert said.startswith(parts[0].rstrip("\N{REPLACEMENT CHARACTER}"))
            assert seen.endswith(end) or said == seen
        assert kept.take() == ("", False)


def test_the_end_of_long_output_is_in_every_interface() -> None:
    source = "print('START'); print('y' * 200_000); print('END')"
    seen: list[str] = []
    done = run_code(source, on_stdout=seen.append)
    for text in (done.stdout, "".join(seen), pysbx("run", "-c", source).stdout):
        assert text.startswith("START\ny")
        assert text.endswith("y\nEND\n")
        assert len(MARK.findall(text)) == 1
    assert len(done.stdout.encode()) < 50 * 1024 + 60
    assert len(done.stdout) + int(MARK.findall(done.stdout)[0]) - 200_011 < 60


def test_the_traceback_of_a_chatty_program_is_kept() -> None:
    done = run_code(
        "import sys, subprocess\nsys.stderr.write('x' * 10_000)\nsubprocess.run([sys.executable, '-c', '1/0'])",
        output_limit=1000,
    )
    assert done.stderr.endswith("ZeroDivisionError: division by zero\n")
