"""The saved state of a session: a file with its memory, which the runtime writes and continues, and the rest.

A session that is restored by another program is in a file with this layout, of which `Footer` is the end:

    snapshot of the runtime | state, by msgpack | footer

The file may have been changed. The runtime checks its part, and what it loads is confined like any code of the sandbox.
The state goes back into the sandbox, and here decides nothing: options are those of the caller.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import math
import os
import re
import secrets
import stat
import struct
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import msgpack

from pysbx.base.directories import cache_directory, check_replaceable, state_directory
from pysbx.base.handles import Handle
from pysbx.calls.baseline import Baseline
from pysbx.calls.execution import as_text
from pysbx.container import answer_frame, payload
from pysbx.container.container import Message
from pysbx.errors import SandboxError
from pysbx.options.options import Options
from pysbx.version import VERSION

MAGIC, FORMAT = b"pysbxses", 1
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
NAME_RULE = "it has at most 64 letters, digits and '.', '_', '-', and begins with a letter or digit"
CHUNK = 1 << 20
MAX_STATE = 1 << 30
# The worker in the sandbox gets back these parts of a request, and no other.
STATE = ("files", "cwd", "umask", "modules")
# Options that the process has in its memory already, so a session is restored with the same ones.
KEPT = ("virtualenv", "rootfs", "image", "dependencies", "env", "isolated")
# Of the checkpoints of a session: how many, and bytes of all.
MOST_CHECKPOINTS, MOST_BYTES = 16, 4 << 30


class Footer(NamedTuple):
    """The end of the file.

    Attributes:
        magic: MAGIC.
        format: FORMAT.
        memory: bytes of the runtime's snapshot, which is first.
        state: bytes of the state, which follows.
        digest: SHA-256 of everything before it.
    """

    magic: bytes
    format: int
    memory: int
    state: int
    digest: bytes


FOOTER = struct.Struct("<8sIQQ32s")
DIGEST_SIZE = 32


@dataclass
class Saved:
    """The state of a session at one time.

    Attributes:
        descriptor: of the file that has it; closed by close().
        memory: bytes of the runtime's snapshot, which is first.
        rest: bytes that follow, with what else the worker in the sandbox wants back.
        sites: installed packages that were added to the session.
        baseline: the files to which its changes are compared.
        base: descriptor of the snapshot that has the pages which are not in the file, or -1; closed by close().
    """

    descriptor: int
    memory: int
    rest: int
    sites: list[Path] = field(default_factory=list)
    baseline: Baseline | None = None
    base: int = -1

    def __enter__(self) -> Saved:
        """Return it."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close it."""
        self.close()

    @property
    def size(self) -> int:
        """Bytes that it takes."""
        return self.memory + self.rest

    @property
    def state(self) -> Message:
        """The worker wants this back. It is not kept in memory here."""
        return _content(self.descriptor, self.memory, self.rest)[1]

    def close(self) -> None:
        """Give up the file; once more is no error."""
        for descriptor in self.descriptor, self.base:
            if descriptor >= 0:
                os.close(descriptor)
        self.descriptor = self.base = -1


class TooLargeError(SandboxError):
    """A saved session would be larger than its place allows."""


class Checkpoint(Handle):
    """A state of a session, to which Sandbox.rollback() goes back; as often as wanted, until it is removed.

    Attributes:
        made: when it was made, in seconds since 1970.
        size: bytes that it takes on disk.
    """

    def __init__(self, saved: Saved, remove: weakref.WeakMethod[Callable[[Checkpoint], None]]) -> None:
        """Take a saved state, and the method of its session that removes it: see Sandbox.checkpoint."""
        self.saved, self._remove = saved, remove
        self.made, self.size = time.time(), saved.size

    @property
    def removed(self) -> bool:
        """Whether it was removed, by remove() or with its session."""
        return self.saved.descriptor < 0

    def remove(self) -> None:
        """Remove it; once more is no error."""
        if remove := self._remove():
            remove(self)


@dataclass(frozen=True)
class Description:
    """The words of a file about its session. The file may say anything.

    Attributes:
        name: of the file.
        path: of the file.
        size: of the file, in bytes.
        made: when it was made, in seconds since 1970.
        python: the version of Python.
        package: the version of pysbx.
        options: those that are compared, as text.
    """

    name: str
    path: str
    size: int
    made: float
    python: str
    package: str
    options: dict[str, str]


def directory() -> Path:
    """Return the directory of sessions that were saved by name.

    Raises:
        SandboxError: it cannot be made, or others can enter it.
    """
    path = state_directory() / "saved-sessions"
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        about = path.lstat()
    except OSError as error:
        raise SandboxError(f"directory '{path}': {error.strerror}") from error
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o077:
        raise SandboxError(f"directory '{path}' is not private to user {os.geteuid()}: give it mode 0700, or remove it")
    return path


def place(target: object) -> Path:
    """Return the file for a name, or for a path: a string with a slash, or an os.PathLike.

    Raises:
        TypeError: it is neither.
        ValueError: there can be no such name.
    """
    text = as_text(target, "path_or_name")
    if not isinstance(target, str) or "/" in text:
        return Path(text).absolute()
    if not NAME.fullmatch(text):
        raise ValueError(
            f"path_or_name: {text!r:.100} is no name of a saved session: {NAME_RULE}, and a path has a slash"
        )
    return directory() / text


def _failed(path: Path, error: OSError) -> SandboxError:
    return SandboxError(f"the session cannot be saved: '{path}': {error.strerror or error}")


def _remove_parts(parent: int, name: str) -> None:
    """Remove the files of programs that were killed while they gave one a name. A living program holds a lock."""
    part = re.compile(rf"\.{re.escape(name)}-[0-9a-f]{{8}}\.part")
    for found in filter(part.fullmatch, os.listdir(parent)):
        with contextlib.suppress(OSError):
            descriptor = os.open(found, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(found, dir_fd=parent)
            finally:
                os.close(descriptor)


@contextlib.contextmanager
def _new_file(path: Path) -> Iterator[int]:
    """Yield the descriptor of an empty file, which takes the place of a path if nothing is raised.

    A program that is killed leaves no part of it, or one with a name of its own, which the next writer removes.
    """
    made = f".{path.name}-{secrets.token_hex(4)}.part"
    with contextlib.ExitStack() as stack:
        parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        stack.callback(os.close, parent)
        _remove_parts(parent, path.name)
        try:
            descriptor = os.open(path.parent, os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, 0o600)
            is_named = False
        except OSError:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(made, flags, 0o600, dir_fd=parent)
            is_named = True
        stack.callback(os.close, descriptor)
        try:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield descriptor
            os.fsync(descriptor)
            if not is_named:
                # Only with a directory it is linkat(2), which can follow the link.
                os.link(f"/proc/self/fd/{descriptor}", made, src_dir_fd=parent, dst_dir_fd=parent, follow_symlinks=True)
                is_named = True
            os.rename(made, path.name, src_dir_fd=parent, dst_dir_fd=parent)
            is_named = False
            os.fsync(parent)
        finally:
            if is_named:
                with contextlib.suppress(OSError):
                    os.unlink(made, dir_fd=parent)


def _digest(descriptor: int, size: int) -> bytes:
    """Return the SHA-256 of the first bytes of a file."""
    found = hashlib.sha256()
    position = 0
    while position < size and (data := os.pread(descriptor, min(CHUNK, size - position), position)):
        found.update(data)
        position += len(data)
    return found.digest()


def _write(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def _append(descriptor: int, about: dict[str, Any], state: Message) -> tuple[int, int]:
    """Write the state behind the memory in a file, and return the bytes of both."""
    memory = os.lseek(descriptor, 0, os.SEEK_END)
    packed = msgpack.packb({"about": about, "state": state}, unicode_errors="surrogatepass")
    _write(descriptor, packed)
    return memory, len(packed)


def capture(save: Callable[[int], tuple[Message, int]]) -> Saved:
    """Return a state that this program keeps, in a file without a name.

    Args:
        save: see write; returns also what base of Saved is.

    Raises:
        OSError: the file cannot be written.
    """
    with tempfile.TemporaryFile(dir=cache_directory(), buffering=0) as file:
        state, base = save(file.fileno())
        try:
            memory, rest = _append(file.fileno(), {"options": {}}, state)
            kept = os.open(f"/proc/self/fd/{file.fileno()}", os.O_RDONLY | os.O_CLOEXEC)
            return Saved(kept, memory, rest, base=base)
        except OSError:
            if base >= 0:
                os.close(base)
            raise


def _kept(options: Options) -> dict[str, str]:
    """Return the options that are compared, as text. Variables may be secret: of these it is a digest."""
    found = {name: str(getattr(options, name)) for name in KEPT}
    found["env"] = hashlib.sha256(repr(options.env).encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return found


def write(
    path: Path,
    save: Callable[[int], tuple[Message, Baseline]],
    options: Options,
    python: tuple[int, int] | None,
    most: float = math.inf,
) -> None:
    """Write a saved session to a file, as a whole: a failure leaves the previous one.

    Args:
        path: of the file.
        save: writes the memory to a descriptor, and returns the rest of the state, and what baseline of Saved is.
        options: of the session.
        python: its version of Python.
        most: bytes that the file may have.

    Raises:
        SandboxError: it cannot be written, or it is a TooLargeError.
    """
    try:
        check_replaceable(path)
        with _new_file(path) as descriptor:
            state, start = save(descriptor)
            about = {
                "made": time.time(),
                "package": VERSION,
                "worker": payload.directory().name,
                "python": ".".join(map(str, python or ())),
                "options": _kept(options),
                "start": start.packed(),
            }
            memory, rest = _append(descriptor, about, state)
            if (size := memory + rest + FOOTER.size) > most or rest > MAX_STATE:
                raise TooLargeError(f"the session cannot be saved: its file would have {size} bytes")
            _write(descriptor, FOOTER.pack(MAGIC, FORMAT, memory, rest, bytes(DIGEST_SIZE))[:-DIGEST_SIZE])
            _write(descriptor, _digest(descriptor, os.lseek(descriptor, 0, os.SEEK_CUR)))
    except OSError as error:
        raise _failed(path, error) from error


def _damaged(path: Path, what: str) -> SandboxError:
    return SandboxError(f"saved session '{path}': {what}")


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    """Open a file of the caller's.

    Raises:
        SandboxError: there is none, or it is not private to the caller, or cannot be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise _damaged(path, "there is none: `pysbx sessions list` lists them") from error
    except OSError as error:
        raise _damaged(path, error.strerror or str(error)) from error
    try:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o077:
            raise _damaged(path, f"it is not a file that belongs to user {os.geteuid()} and has mode 0600")
        yield descriptor
    except OSError as error:
        raise _damaged(path, error.strerror or str(error)) from error
    finally:
        os.close(descriptor)


def _footer(path: Path, descriptor: int) -> Footer:
    size = os.fstat(descriptor).st_size
    data = os.pread(descriptor, FOOTER.size, max(0, size - FOOTER.size))
    if len(data) != FOOTER.size or not data.startswith(MAGIC):
        raise _damaged(path, "it is not a saved session, or its end is missing")
    footer = Footer(*FOOTER.unpack(data))
    if footer.format != FORMAT:
        raise _damaged(path, f"it has format {footer.format}, and this version of pysbx reads {FORMAT}")
    if footer.memory + footer.state + FOOTER.size != size or footer.state > MAX_STATE:
        raise _damaged(path, "it is damaged: its size")
    return footer


def _content(descriptor: int, memory: int, rest: int) -> tuple[dict[str, Any], Message]:
    """Return what a file says about a session, and its state.

    Raises:
        ValueError: it cannot be read.
    """
    with contextlib.suppress(Exception):  # the library may raise any for hostile bytes
        content = answer_frame.unpack(os.pread(descriptor, rest, memory))
        about, state = content["about"], content["state"]
        if isinstance(about, dict) and isinstance(state, dict) and isinstance(about["options"], dict):
            return about, {name: state[name] for name in STATE if name in state}
    raise ValueError("it is damaged: its state cannot be read")


def _about(path: Path, descriptor: int, footer: Footer) -> dict[str, Any]:
    try:
        return _content(descriptor, footer.memory, footer.state)[0]
    except ValueError as error:
        raise _damaged(path, str(error)) from None


def _check_kept(path: Path, about: dict[str, Any], options: Options) -> None:
    """Refuse a session whose process counts on another sandbox than these options give.

    Raises:
        SandboxError: the text names what differs.
    """
    if options.isolation == "process" or options.warm == "off":
        name = "isolation" if options.isolation == "process" else "warm"
        raise _damaged(path, f"{name}: a saved session is restored in a container, and by a warm start")
    if about.get("worker") != payload.directory().name:
        raise _damaged(path, f"it was saved by another build of pysbx, version {about.get('package')!s:.40}")
    saved, given = about["options"], _kept(options)
    for name in KEPT:
        if saved.get(name) != given[name]:
            said = f"{saved.get(name)!s:.200}" or "none"
            said = {"env": "others", "isolated": "another"}.get(name, said)
            label = "profile" if name == "isolated" else name  # which decides that
            raise _damaged(path, f"{label}: it was saved with {said}: restore it with the same")


def _begin(begin: Callable[[], object]) -> None:
    try:
        begin()
    except OSError as error:  # which is not the file's
        raise SandboxError(f"the session cannot begin: {error.strerror or error}") from error


def read(path: Path, options: Options, begin: Callable[[], object] | None = None) -> Saved:
    """Open a saved session, which is restored with these options.

    Args:
        path: of the file.
        options: of the session.
        begin: called before the long comparison of the checksum, if the options fit.

    Raises:
        SandboxError: there is none, or it is not the caller's, or is damaged, or does not fit; the text says why.
    """
    with _opened(path) as descriptor:
        footer = _footer(path, descriptor)
        about, refusal = dict[str, Any](), None
        try:
            about = _about(path, descriptor, footer)
            _check_kept(path, about, options)
            if begin is not None:
                _begin(begin)
        except SandboxError as error:  # a damaged file may say anything
            refusal = error
        if _digest(descriptor, footer.memory + footer.state + FOOTER.size - DIGEST_SIZE) != footer.digest:
            raise _damaged(path, "it is damaged: its checksum")
        if refusal is not None:
            raise refusal
        try:
            start = Baseline.unpacked(about.get("start"))
        except ValueError as error:
            raise _damaged(path, str(error)) from None
        return Saved(os.dup(descriptor), footer.memory, footer.state, baseline=start)


def describe(path: Path) -> Description:
    """Return what a file says about its session. Its checksum is not compared.

    Raises:
        SandboxError: there is none, or it cannot be read.
    """
    with _opened(path) as descriptor:
        about = _about(path, descriptor, _footer(path, descriptor))
        size = os.fstat(descriptor).st_size
    made = about.get("made")
    return Description(
        path.name,
        str(path),
        size,
        float(made) if isinstance(made, (int, float)) and math.isfinite(made) else 0.0,
        f"{about.get('python')!s:.20}",
        f"{about.get('package')!s:.40}",
        {name: f"{about['options'].get(name)!s:.200}" for name in KEPT},
    )


def names() -> list[str]:
    """Return the names of saved sessions, sorted."""
    return sorted(path.name for path in directory().iterdir() if NAME.fullmatch(path.name))


def remove(target: str | os.PathLike[str]) -> None:
    """Remove a saved session; one with a name may be damaged.

    Raises:
        SandboxError: there is none, or it is no saved session.
    """
    path = place(target)
    with _opened(path) as descriptor:
        if path.parent != directory():
            _footer(path, descriptor)
        path.unlink()
