"""Ready containers: created, and waiting for the request of a call, or for the state of a session.

The worker of a container that waits has sent its greeting, and has run nothing of a caller. It is used once, after its
runtime has compared the files of the snapshot (run --compare-fd). A container that waits for a state has no program
yet (run --snapshot-fd). The sources of mounts are compared here. The kernel closes the runtime's socket when this
program ends, so the container is removed then.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import re
import select
import threading
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from pysbx.base import children, log
from pysbx.container import unpatched
from pysbx.container.bundle import Bundle
from pysbx.container.container import FOR_CALL, FOR_STATE, GRACE_SEC, Container
from pysbx.container.streams import OutputCallback
from pysbx.errors import SandboxStartupError
from pysbx.options.options import Options

# How long containers wait after the last call with their options.
KEPT_SEC = 60.0
# Of the whole program.
MOST = 64
MOST_POOLS = 256  # without a container
CLOSE_SEC = 10.0
USES = 2  # of the same options, before one is kept
# A container is made when a call has ended, because a machine has few CPUs. If calls follow each other faster than this
# many seconds, it is made during a call.
HURRY_SEC = 0.005
# Containers that have answered end in the background. An honest one needs two milliseconds.
MOST_ENDING = 16
LOOK_SEC = 0.05
VALID_SEC = 0.5  # after a comparison of files


@dataclass
class _Pool:
    """The containers of one bundle.

    Attributes:
        bundle: the bundle.
        waits: see Container.
        used: when the last one was taken, by time.monotonic().
        uses: number of calls since the first.
        ended: when the last call has ended.
        lacks: whether containers may be made now.
        waiting: the containers, each with what was true when it was made.
    """

    bundle: Bundle
    waits: str = FOR_CALL
    used: float = 0.0
    uses: int = 0
    ended: float = 0.0
    lacks: bool = False
    waiting: deque[tuple[Container, Any]] = field(default_factory=deque)


_pools: dict[tuple[int, str], _Pool] = {}
_ending: deque[tuple[Container, float]] = deque()  # and when they are killed
_changed = threading.Condition()
_thread: threading.Thread | None = None
_working = False  # the thread makes or removes a container


@lru_cache(maxsize=256)
def _sources(bundle: Path) -> tuple[str, ...]:
    """Return the paths that a start would mount: the root, and the source of each bind mount."""
    configuration = json.loads((bundle / "config.json").read_bytes())
    mounts = configuration["mounts"]
    return configuration["root"]["path"], *(mount["source"] for mount in mounts if mount["type"] == "bind")


class _Mounts:
    """The mounts of this program. They are read when the kernel reports that one has come or gone: see proc(5)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._file = -1
        self._points: list[tuple[str, str]] = []
        self._found: dict[Path, list[str]] = {}

    def beneath(self, bundle: Path) -> list[str]:
        """Return the numbers of the mounts at and beneath what a bundle mounts."""
        with self._lock:
            if self._file < 0:
                self._file = os.open("/proc/self/mountinfo", os.O_RDONLY | os.O_CLOEXEC)
                self._poll = unpatched.make_poll()
                self._poll.register(self._file, select.POLLPRI)
                self._read()
            elif self._poll.poll(0):
                self._read()
            if bundle not in self._found:
                tops = [os.path.realpath(source) for source in _sources(bundle)]
                self._found[bundle] = [
                    number for number, point in self._points if any(f"{point}/".startswith(f"{top}/") for top in tops)
                ]
            return self._found[bundle]

    def _read(self) -> None:
        os.lseek(self._file, 0, os.SEEK_SET)
        text = b"".join(iter(lambda: os.read(self._file, 1 << 16), b"")).decode(errors="surrogateescape")
        fields = [line.split(" ") for line in text.splitlines()]
        self._points = [(part[0], re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), part[4])) for part in fields]
        self._found.clear()

    def close(self) -> None:
        """Close the file. It is opened again when it is needed."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def forget(self) -> None:
        """Do the same in a fork, where another thread may have held the lock."""
        self._lock = threading.Lock()
        self.close()


_mounts = _Mounts()


def _circumstances(bundle: Bundle) -> Any:
    """Return what a container takes from the host at its creation; paths may name other files later."""
    try:
        paths = str(bundle.path / "config.json"), *_sources(bundle.path)
        found = [os.stat(path) for path in paths]
        mounts = _mounts.beneath(bundle.path)
    except OSError:
        return None
    files = [(one.st_dev, one.st_ino) for one in found]
    return files, mounts, os.geteuid(), os.getegid(), os.sched_getaffinity(0), os.getpriority(os.PRIO_PROCESS, 0)


class Taken:
    """A container that waited, if there is one. Its runtime compares files while the caller prepares the request.

    Use it in a with statement, which removes the container if begin() was not called.
    """

    def __init__(self, bundle: Bundle | None) -> None:
        """Take a container of a bundle, if an earlier call has prepared one."""
        self._bundle = bundle
        self._began = time.monotonic()
        self._container: Container | None = None
        self._then: Any = None
        if bundle is not None and bundle.options.ready:
            with _changed:
                pool = _pools.get((id(bundle), FOR_CALL))
                if pool is not None and pool.waiting:
                    self._container, self._then = pool.waiting.popleft()
                    self._container.order()

    def __enter__(self) -> Taken:
        """Return it."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Remove the container if it was not used."""
        self.close()

    def close(self) -> None:
        """Remove the container if it was not used."""
        container, self._container = self._container, None
        if container is not None:
            container.close()

    def _pool(self, bundle: Bundle) -> _Pool | None:
        """Count a use of the bundle, and return its pool, or None if none of its containers may wait."""
        if not _may_wait(bundle.options):
            return None
        with _changed:
            pool = _pool_of(bundle)
            pool.used = self._began
            pool.uses += 1
            if pool.used - pool.ended < HURRY_SEC:
                _refill(pool)
        return pool

    def begin(
        self,
        bundle: Bundle,
        on_output: OutputCallback | None = None,
        cancel: int = -1,
        *,
        keeps_files: bool = True,
        measured: bool = True,
    ) -> Container:
        """Return the container, or a new one of the bundle if there is none or its files have changed. See Container.

        If it is not measured, one that waited and has no effect outside may end in the background after its answer.
        """
        pool = self._pool(bundle)
        container = self._container
        if (
            container is not None
            and pool is not None
            and bundle is self._bundle
            and self._then == _circumstances(bundle)
            and time.monotonic() - self._began < VALID_SEC
            and container.begin(on_output, cancel, keeps_files=keeps_files)
        ):
            self._container = None
            if not measured and not _reaches_outside(bundle.options):
                container.successor = _let_end
        else:
            self.close()
            container = Container(bundle, on_output, cancel, keeps_files=keeps_files)
        if pool is not None:
            container.on_end = partial(_end, pool, container)
        return container


def take(bundle: Bundle, on_output: OutputCallback | None = None, cancel: int = -1) -> Container:
    """Return a container of a bundle: one that waited, or a new one. See Container."""
    with Taken(bundle) as taken:
        return taken.begin(bundle, on_output, cancel)


def take_for_state(bundle: Bundle, on_output: OutputCallback | None = None, cancel: int = -1) -> Container:
    """Return a container of a bundle that waits for the state of a session: see Container.restore."""
    pool = None
    found: tuple[Container | None, Any] = (None, None)
    if _may_wait(bundle.options):
        with _changed:
            pool = _pool_of(bundle, FOR_STATE)
            pool.used = time.monotonic()
            pool.uses += 1
            if pool.waiting:
                found = pool.waiting.popleft()
    container, then = found
    if container is not None and (then != _circumstances(bundle) or container.has_ended):
        container.close()
        container = None
    if container is None:
        container = Container(bundle, on_output, cancel, waits=FOR_STATE)
    else:
        container.use(on_output, cancel)
    if pool is not None:
        container.on_end = partial(_end, pool, container)
    return container


def expect_state(bundle: Bundle) -> None:
    """Let a container be made in the background, which take_for_state() will take soon."""
    if _may_wait(bundle.options) and not bundle.labelled:
        with _changed:
            pool = _pool_of(bundle, FOR_STATE)
            pool.used, pool.uses = time.monotonic(), USES
            _refill(pool)


def _may_wait(options: Options) -> bool:
    return bool(options.ready) and options.isolation != "process" and children.are_reported()


def _reaches_outside(options: Options) -> bool:
    """Tell whether a program that goes on after its answer could have an effect that the caller sees."""
    return options.allow_network.kind in ("host", "hosts") or not all(mount.readonly for mount in options.mounts)


def end(container: Container) -> None:
    """Kill a container, of which nothing more is wanted; if nothing outside can notice, in the background."""
    if _may_wait(container.options) and not _reaches_outside(container.options):
        with _changed:
            _start_thread()
        if _end_later(container, 0.0):
            return
    container.close()


def _let_end(container: Container) -> bool:
    """Let a container that has answered end by itself; return False if there are too many."""
    return _end_later(container, GRACE_SEC)


def _end_later(container: Container, grace: float) -> bool:
    """Let the thread wait so many seconds for the end of a container; return False if there are too many."""
    with _changed:
        if len(_ending) >= MOST_ENDING or _thread is None:
            return False
        container.streams.on_output = None  # what it writes from now on is of no call
        _ending.append((container, time.monotonic() + grace))
        _changed.notify_all()
    return True


def _see_end(container: Container, until: float) -> None:
    """Close a container that has ended, or whose time is over; look at others before it is looked at again."""
    if time.monotonic() > until:
        container.close()
        return
    if container.close_if_ended(LOOK_SEC):
        return
    with _changed:
        _ending.append((container, until))


def _pool_of(bundle: Bundle, waits: str = FOR_CALL) -> _Pool:
    """Return the pool of a bundle, which is the last now. Forget the first ones, if there are too many."""
    pool = _pools.pop((id(bundle), waits), None) or _Pool(bundle, waits)
    _pools[id(bundle), waits] = pool
    for key, one in list(_pools.items())[:-MOST_POOLS]:
        if not one.waiting:
            del _pools[key]
    return pool


def _end(pool: _Pool, container: Container) -> None:
    """Note that a call has ended. While starts are cold, none is kept: the next one may be warm."""
    with _changed:
        if not container.warm:
            pool.uses = 0
        pool.ended = time.monotonic()
        _refill(pool)


def _refill(pool: _Pool) -> None:
    """Let the thread make the containers that a pool lacks."""
    if _is_known(pool) and _is_wanted(pool):
        pool.lacks = True
        _start_thread()
        _changed.notify_all()


def _is_known(pool: _Pool) -> bool:
    return _pools.get((id(pool.bundle), pool.waits)) is pool


def _is_wanted(pool: _Pool) -> bool:
    most = pool.bundle.options.ready if pool.waits == FOR_CALL else 1
    return pool.uses >= (USES if most == 1 else 1) and len(pool.waiting) < most


def _start_thread() -> None:
    """Start the thread if it does not run yet. Without it calls are slower: none is left, or the program ends."""
    global _thread  # noqa: PLW0603
    if _thread is None:
        made = threading.Thread(target=_keep, name="pysbx-ready", daemon=True)
        with contextlib.suppress(RuntimeError):
            made.start()
            _thread = made
            atexit.register(close)


def _next(now: float) -> tuple[_Pool | None, list[Container], float]:
    """Return a pool that lacks a container, those whose time is over, and when to look again, in seconds from now."""
    over: list[Container] = []
    wait = KEPT_SEC
    lacks = None
    count = sum(len(pool.waiting) for pool in _pools.values())
    for key, pool in list(_pools.items()):
        left = pool.used + KEPT_SEC - now
        if left <= 0:
            over += [container for container, _ in pool.waiting]
            del _pools[key]
            continue
        wait = min(wait, left)
        pool.lacks = pool.lacks and _is_wanted(pool)
        if pool.lacks and count < MOST:
            lacks = lacks or pool
    return lacks, over, wait


def _keep() -> None:
    """Make containers, and remove those that nothing has used: the thread."""
    global _working  # noqa: PLW0603
    while True:
        with _changed:
            pool, over, wait = _next(time.monotonic())
            ending = _ending.popleft() if _ending else None
            if pool is None and not over and ending is None:
                _changed.wait(wait)
                continue
            _working = True
        try:
            if ending is not None:
                _see_end(*ending)
            _close_all(over)
            if pool is not None:
                _fill(pool)
        except Exception as error:  # of one container; the others still need the thread
            log.write(log.RUN, log.WARNING, "a ready container: %s", error)
        finally:
            with _changed:
                _working = False
                _changed.notify_all()


def _close_all(containers: Iterable[Container]) -> None:
    """Close containers; the failure of one keeps none of the others."""
    for container in containers:
        try:
            container.close()
        except SandboxStartupError as error:
            log.write(log.RUN, log.WARNING, "a ready container: %s", error)


def _fill(pool: _Pool) -> None:
    """Make a container for a pool."""
    circumstances = _circumstances(pool.bundle)
    made = None
    with contextlib.suppress(Exception):  # the call that comes next fails for the same reason, and says so
        made = Container(pool.bundle, waits=pool.waits)
    with _changed:
        if made is None or circumstances is None:
            pool.uses = 0
        elif _is_known(pool):
            pool.waiting.append((made, circumstances))
            made = None
    if made is not None:
        made.close()


def close() -> None:
    """Remove all containers that wait."""
    with _changed:
        waiting = [container for pool in _pools.values() for container, _ in pool.waiting]
        _pools.clear()
        _changed.wait_for(lambda: not _working and not _ending, CLOSE_SEC)
    _close_all(waiting)
    _mounts.close()


def _forget() -> None:
    """In a fork: the containers belong to the parent."""
    global _changed, _thread, _working
    _mounts.forget()
    pools = list(_pools.values())
    ending = [container for container, _ in _ending]
    _pools.clear()
    _ending.clear()
    _changed, _thread, _working = threading.Condition(), None, False
    for pool in pools:
        for container, _ in pool.waiting:
            container.abandon()
    for container in ending:
        container.abandon()


os.register_at_fork(after_in_child=_forget)
