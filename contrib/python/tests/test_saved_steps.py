"""Random steps of sessions that are forked, saved and restored; after each one, each has the state of its model.

TEST_STEPS is the number of steps, and TEST_SEED repeats those of another run.
"""

# once: the caller's rights make no difference

from __future__ import annotations

import copy
import os
import random
import threading
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pysbx import Checkpoint, Sandbox
from tests.conftest import descriptors, own_containers
from tests.test_fork import value

pytestmark = pytest.mark.usefixtures("warm_starts")

BLOB = 64 << 12
MOST = 3  # sessions that live at the same time, and checkpoints and files of each
BEGIN = f"import gc, json, os, random, threading, zlib\nstate = {{}}; blob = bytearray({BLOB}); kept = []"
FORGETS = "kept = [object() for _ in range(50000)]", "kept = dict.fromkeys(range(9999))", "kept = []; gc.collect()"


@dataclass
class Model:
    """The names and files that a session must have.

    Attributes:
        state: names with lists of numbers.
        blob: bytes of many pages.
        files: those of its directory, by name.
    """

    state: dict[str, list[int]] = field(default_factory=dict)
    blob: bytearray = field(default_factory=lambda: bytearray(BLOB))
    files: dict[str, bytes] = field(default_factory=dict)


@dataclass
class One:
    """A session, its model, and the states to which it can go back."""

    session: Sandbox
    model: Model
    points: list[tuple[Checkpoint, Model]] = field(default_factory=list)


class Steps:
    """The sessions, and the steps, which are methods."""

    def __init__(self, seed: int, directory: Path, stack: ExitStack) -> None:
        """Begin with one session."""
        self.draw = random.Random(seed)
        self.directory, self.stack = directory, stack
        self.ones: list[One] = []
        self.saved: list[tuple[Path, Model]] = []
        self.drawn: set[str] = set()
        self.begin()

    def add(self, session: Sandbox, model: Model) -> None:
        """Take a session, in the place of another if there are many."""
        if len(self.ones) >= MOST:
            self.ones.pop(self.draw.randrange(len(self.ones))).session.close()
        self.stack.callback(session.close)
        self.ones.append(One(session, copy.deepcopy(model)))

    def begin(self, _: One | None = None) -> None:
        """Start a session."""
        session = Sandbox(warm="require")
        value(session, BEGIN)
        self.add(session, Model())

    def run(self, one: One) -> None:
        """Change a variable."""
        name, number = f"n{self.draw.randrange(9)}", self.draw.randrange(1 << 40)
        one.model.state.setdefault(name, []).append(number)
        value(one.session, f"state.setdefault({name!r}, []).append({number})")

    def forget(self, one: One) -> None:
        """Remove one, and let the heap grow or shrink."""
        one.model.state.pop(name := f"n{self.draw.randrange(9)}", None)
        value(one.session, f"state.pop({name!r}, None); {self.draw.choice(FORGETS)}")

    def write_pages(self, one: One) -> None:
        """Change pages that have other content around."""
        for _ in range(self.draw.choice((1, 9))):
            at, byte = self.draw.randrange(BLOB), self.draw.randrange(256)
            one.model.blob[at] = byte
            value(one.session, f"blob[{at}] = {byte}")

    def fail(self, one: One) -> None:
        """Let code raise."""
        done = one.session.run("state['never'] = 1; del state['never']; raise ValueError('x')")
        assert done.error is not None and done.error.type == "ValueError"

    def thread(self, one: One) -> None:
        """Start a thread, which ends."""
        value(one.session, "one = threading.Thread(target=json.dumps, args=(state,)); one.start(); one.join(); del one")

    def put(self, one: One) -> None:
        """Write a file."""
        name, content = f"f{self.draw.randrange(5)}", self.draw.randbytes(self.draw.choice((0, 10, 9000)))
        one.model.files[name] = content
        one.session.put({name: content})

    def unlink(self, one: One) -> None:
        """Remove a file."""
        for name in list(one.model.files)[:1]:
            del one.model.files[name]
            value(one.session, f"os.unlink({name!r})")

    def shell(self, one: One) -> None:
        """Append to a file by a command."""
        name, word = f"f{self.draw.randrange(5)}", f"w{self.draw.randrange(99)}"
        one.model.files[name] = one.model.files.get(name, b"") + f"{word}\n".encode()
        done = one.session.shell(f"echo {word} >>{name}; wc -c <{name}")
        assert (done.exit_code, int(done.stdout)) == (0, len(one.model.files[name]))

    def interrupt(self, one: One) -> None:
        """End a loop without end."""

        def heard(text: str) -> None:
            threading.Thread(target=one.session.interrupt).start()

        done = one.session.run("print('x', flush=True)\nwhile True: pass", on_stdout=heard, timeout_sec=60)
        assert done.error is not None and done.error.type == "KeyboardInterrupt" and not done.timed_out

    def pause(self, one: One) -> None:
        """Freeze it for a moment."""
        one.session.pause()
        one.session.resume()

    def fork(self, one: One) -> None:
        """Fork it."""
        self.add(one.session.fork(), one.model)

    def fork_two(self, one: One) -> None:
        """Fork it twice at once."""
        for session in one.session.fork(2):
            self.add(session, one.model)

    def checkpoint(self, one: One) -> None:
        """Keep its state."""
        if len(one.points) >= MOST:
            one.points.pop(0)[0].remove()
        one.points.append((one.session.checkpoint(), copy.deepcopy(one.model)))

    def rollback(self, one: One) -> None:
        """Go back to a state."""
        if one.points:
            point, model = self.draw.choice(one.points)
            one.session.rollback(point)
            one.model = copy.deepcopy(model)

    def park(self, one: One) -> None:
        """Park it; the next use continues."""
        one.session.park()
        assert one.session.parked

    def snapshot(self, one: One) -> None:
        """Save it to a file."""
        path = self.directory / f"saved{self.draw.randrange(MOST)}"
        self.saved = [(other, model) for other, model in self.saved if other != path]
        self.saved.append((one.session.snapshot(path), copy.deepcopy(one.model)))

    def restore(self, _: One) -> None:
        """Continue from a file."""
        if self.saved:
            path, model = self.draw.choice(self.saved)
            self.add(Sandbox.restore(path, warm="require"), model)

    def check(self, one: One) -> None:
        """Compare a session with its model. Random numbers are those of no other session."""
        expected = (sorted(one.model.state.items()), zlib.crc32(one.model.blob), len(one.model.blob))
        seen = value(one.session, "sorted(state.items()), zlib.crc32(blob), len(blob)")
        assert seen == repr(expected)
        assert one.session.files() == {name: len(content) for name, content in one.model.files.items()}
        for name in self.draw.sample(sorted(one.model.files), min(1, len(one.model.files))):
            assert one.session.get(name) == one.model.files[name]
        drawn = str(value(one.session, "f'{os.urandom(8).hex()} {random.random()}'")).strip("'").split()
        assert len(drawn) == 2 and not self.drawn & set(drawn)
        self.drawn.update(drawn)

    def step(self) -> str:
        """Do one step with one of the sessions; return what it was."""
        names = (
            "run", "run", "forget", "write_pages", "fail", "thread", "put", "unlink", "shell", "interrupt", "pause",
            "fork", "fork_two", "checkpoint", "checkpoint", "rollback", "rollback", "park", "snapshot", "restore",
            "begin",
        )  # fmt: skip
        name = self.draw.choice(names)
        one = self.draw.choice(self.ones)
        done: Any = getattr(self, name)
        done(one)
        if one in self.ones:
            self.check(one)
        self.check(self.ones[-1])
        return name


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Closes the sessions."""
    with ExitStack() as made:
        yield made


def test_random_steps_make_no_difference(tmp_path: Path, stack: ExitStack) -> None:
    seed, count = int(os.environ.get("TEST_SEED", "1")), int(os.environ.get("TEST_STEPS", "100"))
    Steps(seed, tmp_path, stack)
    stack.close()
    before = descriptors()
    steps = Steps(seed, tmp_path, stack)
    done: list[str] = []
    try:
        for _ in range(count):
            done.append(steps.step())
    finally:
        print(f"seed {seed}, step {len(done)}: {done[-20:]}")
    assert own_containers() <= MOST
    stack.close()
    assert (own_containers(), descriptors()) == (0, before)
