"""The program pysbx-runtime: its path, and short calls of it. container.py runs the containers."""

from __future__ import annotations

import errno
import os
import sys
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pysbx.base import children
from pysbx.base.directories import private_directory, run_directory
from pysbx.errors import PlatformNotSupportedError, SandboxStartupError, unsupported

if TYPE_CHECKING:
    import subprocess

# In a wheel, which has the tree that `make install` makes: the static program finds the dynamic one beside itself.
BUNDLED = Path(__file__).parents[1] / "bundled" / "bin" / "pysbx-runtime"

# The directory of `make install`, which some systems do not have in PATH.
USUAL_PLACES = ("/usr/local/bin/pysbx-runtime", "/usr/bin/pysbx-runtime")
# A command that only reads or kills takes milliseconds; this limit is for a machine under heavy load.
COMMAND_TIMEOUT_SEC = 30.0
# The runtime itself ends imports that take too long: template.timeout in warm.json. This limit is for a runtime that
# does not answer at all.
BUILD_TIMEOUT_SEC = 1800.0
# The variables that name its state and snapshots, and that systemd needs. It gets no other variables.
VARIABLES = ("HOME", "PATH", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")


class Refusal(NamedTuple):
    """The error with which a command of the runtime has failed.

    Attributes:
        message: its text.
        code: what programs read of it: see the page on errors and exit codes.
        detail: the text without the context of the command.
    """

    message: str
    code: str = "other"
    detail: str = ""


class Choice(NamedTuple):
    """The runtime that is used.

    Attributes:
        path: of the program.
        reason: why it is this one.
        unused: another pysbx-runtime, the first one of PATH, that is not used; or "".
    """

    path: str
    reason: str
    unused: str = ""


@cache
def choose_runtime() -> Choice:
    """Choose the runtime: $PYSBX_RUNTIME, else the one of this package, else by PATH, else a usual place.

    Raises:
        PlatformNotSupportedError: this is not Linux.
        SandboxStartupError: there is none.
    """
    if sys.platform != "linux":
        raise PlatformNotSupportedError(unsupported())
    given = os.environ.get("PYSBX_RUNTIME")
    # As shutil.which does; but that module imports everything that unpacks archives.
    places = (os.path.join(directory, "pysbx-runtime") for directory in os.get_exec_path())
    on_path = next((place for place in places if os.access(place, os.X_OK) and os.path.isfile(place)), "")
    candidates = [(str(BUNDLED), "it is part of this package"), (on_path, "it is the first one on PATH")]
    candidates += [(place, "there is none on PATH") for place in USUAL_PLACES]
    if given:
        candidates = [(given, "PYSBX_RUNTIME names it")]
    for candidate, reason in candidates:
        if candidate and os.access(candidate, os.X_OK) and Path(candidate).is_file():
            unused = on_path if on_path and not os.path.samefile(on_path, candidate) else ""
            return Choice(str(Path(candidate).absolute()), reason, unused)
    where = f"PYSBX_RUNTIME is '{given}'"
    if not given:
        where = f"this package was built without one, and it is neither on PATH nor {' nor '.join(USUAL_PLACES)}"
    raise SandboxStartupError(
        f"program pysbx-runtime not found ({where}): install a wheel of pysbx, or the runtime with `make install`, "
        "or set PYSBX_RUNTIME"
    )


def find_runtime() -> str:
    """Return the path of the runtime; for errors see choose_runtime."""
    return choose_runtime().path


@cache
def state_root() -> str:
    """Return the directory in which the runtime keeps the package's containers, apart from those of other engines."""
    return str(private_directory(run_directory() / "state"))


def environment() -> dict[str, str]:
    """Return the environment of the runtime; that of a sandbox is in its bundle."""
    return {name: os.environ[name] for name in VARIABLES if name in os.environ}


def command(*arguments: str, manager: tuple[str, ...] = ()) -> list[str]:
    """Return the argument vector of a command of the runtime on the package's containers.

    Args:
        arguments: the command and what belongs to it.
        manager: options that say who makes the cgroup of a new container: see limits.MANAGERS.
    """
    return [find_runtime(), "--root", state_root(), *manager, *arguments]


def call(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the runtime to its end and return its output; the caller judges a failure."""
    import subprocess  # noqa: PLC0415 (most programs need no command but `run`, which is container.py's)

    try:
        return children.run(
            command(*arguments),
            env=environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=COMMAND_TIMEOUT_SEC,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SandboxStartupError(f"pysbx-runtime {arguments[0]}: {error}") from error


def kill(container: str) -> None:
    """End every process of a container and remove it. It is no error if there is none.

    A name with a colon is that of the builder of a snapshot, which is removed with its container.

    It needs no descriptor: a program that has none left ends its sandboxes in time all the same.

    Raises:
        SandboxStartupError: the program has not ended after a time, or cannot be started, not even after a time.
    """
    arguments = command("delete", "--force", container.partition(":")[0])
    nothing = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
    until = time.monotonic() + COMMAND_TIMEOUT_SEC
    while True:
        try:
            pid = os.posix_spawn(
                arguments[0], arguments, environment(), file_actions=nothing, setsigdef=children.IGNORED
            )
            break
        except OSError as error:  # too many processes, or not enough memory: the container may have both
            if error.errno not in (errno.EAGAIN, errno.ENOMEM) or time.monotonic() > until:
                raise SandboxStartupError(f"pysbx-runtime delete: {error.strerror}") from error
            time.sleep(children.LOOK_SEC)
    if not children.wait(pid, until):
        raise SandboxStartupError(f"pysbx-runtime delete: it has not ended after {COMMAND_TIMEOUT_SEC:g} seconds")


def _attempt(
    *arguments: str,
    manager: tuple[str, ...] = (),
    descriptors: tuple[int, ...] = (),
    timeout_sec: float | None = None,
    alone: bool = False,
    printed: bytearray | None = None,
) -> Refusal | None:
    """Run a command of the runtime to its end; return None, or its error.

    Args:
        arguments: the command and what belongs to it.
        manager: see command.
        descriptors: the command gets them.
        timeout_sec: seconds until it is killed, by default COMMAND_TIMEOUT_SEC.
        alone: whether it leaves no process. Then its output has an end, which is heard of at once: without a pipe, a
            process is looked for again and again, up to 50 ms apart.
        printed: gets its output, if it is alone.
    """
    import json  # noqa: PLC0415 (most programs need no such command)
    import subprocess  # noqa: PLC0415
    import tempfile  # noqa: PLC0415

    # Not through pipes: the container would hold them open.
    with tempfile.TemporaryFile() as log:
        options = ("--log", f"/proc/self/fd/{log.fileno()}", "--log-format", "json")
        try:
            done = children.run(
                command(*options, *arguments, manager=manager),
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if alone else subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=timeout_sec or COMMAND_TIMEOUT_SEC,
                pass_fds=(log.fileno(), *descriptors),
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SandboxStartupError(f"pysbx-runtime {arguments[0]}: {error}") from error
        if done.returncode == 0:
            if printed is not None:
                printed += done.stdout
            return None
        log.seek(0)
        try:
            found = json.loads(log.read().decode("utf-8", "replace"))
            return Refusal(found["msg"], found["code"], found["detail"])
        except (ValueError, KeyError):  # it was killed, or is another one
            said = f"pysbx-runtime {arguments[0]}: exit code {done.returncode}"
            return Refusal(said, detail=said)


def build_snapshot(bundle: str, manager: tuple[str, ...] = ()) -> str:
    """Create the snapshot of a prewarmed interpreter for a bundle; return "", or the reason why there is none."""
    refusal = _attempt("warm", "build", "--bundle", bundle, manager=manager, timeout_sec=BUILD_TIMEOUT_SEC)
    return refusal.message if refusal else ""


def save_process(
    container: str, pid: int, descriptor: int, *, differences: bool = False
) -> tuple[Refusal | None, int | None]:
    """Save a process of a container, which has stopped itself, to an empty file, and kill it.

    Args:
        container: its name.
        pid: of the process.
        descriptor: of the file.
        differences: whether to leave out the pages that are in the snapshot from which the container has started.

    Returns:
        None or the refusal; and a descriptor of that snapshot, which stays readable when the store drops it, or -1.
        None if the store has dropped it already: the file is empty.
    """
    arguments = ("warm", "save", container, str(pid), f"/proc/self/fd/{descriptor}")
    printed = bytearray()
    options = ("--kill", "--differences") if differences else ("--kill",)
    refusal = _attempt(*arguments[:2], *options, *arguments[2:], descriptors=(descriptor,), alone=True, printed=printed)
    if refusal or not printed:
        return refusal, -1
    try:
        return None, os.open(bytes(printed).removesuffix(b"\n"), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:  # the store has just dropped it
        os.ftruncate(descriptor, 0)
        return None, None


def try_to_create(container: str, bundle: str, manager: tuple[str, ...]) -> Refusal | None:
    """Create a container without starting it; return None, or the runtime's error if it failed."""
    return _attempt("create", "--bundle", bundle, container, manager=manager)
