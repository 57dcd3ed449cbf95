"""A Jupyter kernel in a sandbox: its specification, and the program that Jupyter starts for it.

Jupyter talks to a kernel by five sockets of ZeroMQ, whose ports are in a connection file. This program listens there,
and hands the connections on to ipykernel in a session. See
https://jupyter-client.readthedocs.io/en/stable/kernels.html.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pysbx.base.directories import write_whole
from pysbx.base.threads import Cancel
from pysbx.calls.execution import WORK, Execution, run_request, unsaid
from pysbx.calls.forward import Forwarder
from pysbx.calls.prepare import prepare
from pysbx.calls.processes import refuse_inspected
from pysbx.calls.session import Sandbox
from pysbx.container.process import Cancelled
from pysbx.errors import SandboxError
from pysbx.options.hints import of_kernel
from pysbx.options.options import Options, make_options

Json = dict[str, Any]

# plotly and others show nothing without nbformat.
PACKAGES, MODULE = ("ipykernel", "nbformat"), "ipykernel_launcher"
# The kernel's own specification. It says whether this ipykernel has a debugger and encryption.
DESCRIBE = "import json, ipykernel.kernelspec as found; print(json.dumps(found.get_kernel_dict()))"
# The modules that a kernel imports at its start.
PRELOAD = (
    "IPython.core.completer",
    "IPython.core.history",
    "IPython.core.inputtransformer2",
    "IPython.core.magics",
    "IPython.core.ultratb",
    "IPython.lib.pretty",
    "comm",
    "debugpy",
    "ipykernel.comm",
    "ipykernel.control",
    "ipykernel.heartbeat",
    "ipykernel.iostream",
    "ipykernel.shellchannel",
    "ipykernel.zmqshell",
    "jedi",
    "jupyter_client.session",
    "prompt_toolkit",
    "psutil",
    "tornado.ioloop",
    "zmq.eventloop.zmqstream",
)
# As Jupyter sets it. Without it ipykernel prints how to connect to a file of the sandbox, which does not exist outside.
# ipykernel does not watch process 1, which is the sandbox's init.
PARENT = {"JPY_PARENT_PID": "1"}
# Figures are in the notebook, also after a `%matplotlib` without a name, which asks the file of settings: so have none.
FIGURES = {"MPLBACKEND": "module://matplotlib_inline.backend_inline", "MATPLOTLIBRC": ""}
DESCRIBE_SEC = 60.0
CHANNELS = ("shell_port", "iopub_port", "stdin_port", "control_port", "hb_port")
# Ports in the sandbox, which has a loopback of its own.
FIRST_PORT = 50001
# A kernel lives for days: 30.
LIFE_SEC = 30 * 86400.0
CONNECTION = ".kernel/connection.json"
NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")  # https://jupyter-client.readthedocs.io/en/stable/kernels.html#kernel-specs
# Words of a command line that may contain a secret: variables, and URLs with a password or token.
SECRET = re.compile(r"--env=|.*://[^/\s]*@")
PARENT_SEC = 1.0
TERMINATED = 143


def kernel_options(**given: Any) -> Options:
    """Return the options of a kernel's sandbox, from those of SandboxOptions.

    Raises:
        SandboxError: a kernel cannot run with these.
        TypeError, ValueError: see make_options.
    """
    given.setdefault("allow_network", "localhost")
    given.setdefault("timeout_sec", LIFE_SEC)
    given["env"] = {**FIGURES, **PARENT, **dict(given.get("env") or {})}
    options = make_options(**given)
    refuse_inspected(options, "kernel")
    if options.allow_network.kind in ("none", "host"):
        raise SandboxError("kernel: it needs a loopback of its own: leave the network out, or name hosts")
    own = options.virtualenv or options.rootfs or options.image
    if not own:
        given_names = [re.split(r"[^\w.-]", one)[0] for one in options.dependencies]
        missing = [one for one in PACKAGES if one not in given_names]
        options = replace(options, dependencies=tuple(sorted((*options.dependencies, *missing))))
    # Of nbformat, few cells need more than that it is there, and a module that it imports cannot be in a snapshot.
    found = (one for one in prepare(options).options.preload if one != "nbformat")
    preload = tuple(dict.fromkeys((*found, *PRELOAD)))
    # As the session will have it, so that `kernel install` prepares what `kernel run` uses.
    return replace(options, preload=preload, session=True)


def check_name(name: str) -> None:
    """Raise ValueError if Jupyter allows no kernel of this name."""
    if not NAME.fullmatch(name) or name in (".", ".."):
        raise ValueError(f"--name: {name!r:.120} is not made of letters, digits, '.', '_' and '-'")


def describe(options: Options) -> Json:
    """Return those parts of a specification that depend on the ipykernel of the sandbox, which it is asked for.

    Raises:
        SandboxError: the sandbox cannot run it.
    """
    with Sandbox._chosen(options) as session:
        done = session.run(DESCRIBE, timeout_sec=DESCRIBE_SEC)
    try:
        found = json.loads(done.stdout.splitlines()[-1] if done.stdout else "")
        about = found.get("metadata", {})
        metadata: Json = {"debugger": about.get("debugger") is True}
        if "curve" in about.get("supported_encryption", ()):
            metadata["supported_encryption"] = ["curve"]
        protocol = re.fullmatch(r"\d\.\d", str(found.get("kernel_protocol_version", "")))
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        why = str(done.error.message if done.error else error)
        raise SandboxError(f"kernel: the sandbox has no ipykernel that works: {why:.300}") from error
    return {"metadata": metadata} | ({"kernel_protocol_version": protocol[0]} if protocol else {})


def install(
    directory: Path, name: str, display_name: str, argv: list[str], about: Json, *, shared: bool = False
) -> Path:
    """Write the specification of a kernel, and return its directory.

    Args:
        directory: of specifications.
        name: of the kernel.
        display_name: the name for people.
        argv: the command that runs it, without its connection file.
        about: the rest of the specification: see describe.
        shared: whether other users may read it. They may not if the command contains a secret.

    Raises:
        ValueError: it cannot have this name.
        OSError: it cannot be written.
    """
    check_name(name)
    made = directory / name.lower()
    private = not shared or any(SECRET.match(word) for word in argv)
    made.mkdir(0o700, parents=True, exist_ok=True)
    made.chmod(0o700 if private else 0o755)
    content = {
        "argv": [*argv, "-f", "{connection_file}"],
        "display_name": display_name,
        "language": "python",
        # A signal would reach the kernel alone. Asked by a message, it interrupts the programs of the cell too.
        "interrupt_mode": "message",
        **about,
    }
    write_whole(made / "kernel.json", json.dumps(content, indent=1).encode(), 0o600 if private else 0o644)
    return made


def installed(directory: Path) -> list[tuple[str, str]]:
    """Return name and title of each kernel of this package in a directory of specifications."""
    found = []
    for path in sorted(directory.glob("*/kernel.json")):
        try:
            about = json.loads(path.read_text(encoding="utf-8"))
            words, title = " ".join(about["argv"]), str(about["display_name"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if "pysbx" in words and " kernel run " in words:
            found.append((path.parent.name, title))
    return found


def lost_options(directory: Path, name: str, argv: list[str]) -> list[str]:
    """Return the options that a kernel of this package has and its new command lacks, without values of secrets."""
    if name.lower() not in dict(installed(directory)):
        return []
    before = json.loads((directory / name.lower() / "kernel.json").read_bytes())["argv"]
    # Of a kernel whose packages cells import, or that starts cold. So the loss of a user's own --warm=off is not told.
    own = [*(f"--preload={module}" for module in PRELOAD), "--warm=off"]
    lost = [str(word) for word in before if str(word).startswith("--") and word not in (*argv, *own)]
    return [f"{word.partition('=')[0]}=..." if SECRET.match(word) else word for word in lost]


def uninstall(directory: Path, name: str) -> None:
    """Remove the specification of a kernel of this package.

    Raises:
        ValueError: there is none with this name.
        OSError: it cannot be removed.
    """
    check_name(name)
    if name.lower() not in dict(installed(directory)):
        raise ValueError(f"there is no kernel '{name}' of pysbx in '{directory}': `pysbx kernel list` shows them")
    shutil.rmtree(directory / name.lower())


def read_connection(path: str) -> Json:
    """Return the content of a connection file.

    Raises:
        ValueError: it is none.
        OSError: it cannot be read.
    """
    try:
        found = json.loads(Path(path).read_bytes())
        ports = [found[name] for name in CHANNELS]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"connection file '{path}': {error!r:.200}") from error
    known = found.get("transport", "tcp") in ("tcp", "ipc") and isinstance(found.get("ip"), str)
    if not known or not all(isinstance(port, int) and 0 < port < 1 << 16 for port in ports):
        raise ValueError(f"connection file '{path}': it does not name ports of 'tcp' or sockets of 'ipc'")
    return dict(found)


def _listen(connection: Json) -> list[tuple[socket.socket, int]]:
    """Listen where a connection file says; each socket leads to a port of the sandbox."""
    listeners: list[tuple[socket.socket, int]] = []
    with contextlib.ExitStack() as failed:
        for number, name in enumerate(CHANNELS):
            if connection.get("transport") == "ipc":
                path = Path(f"{connection['ip']}-{connection[name]}")
                path.unlink(missing_ok=True)
                made = socket.socket(socket.AF_UNIX)
                failed.callback(made.close)
                made.bind(str(path))
                made.listen()
            else:
                made = socket.create_server((connection["ip"], connection[name]))
                made = socket.socket(fileno=made.detach())  # asks for the protocol, or asyncio sets no TCP_NODELAY
                failed.callback(made.close)
            listeners.append((made, FIRST_PORT + number))
        failed.pop_all()
    return listeners


def _inner(connection: Json) -> bytes:
    """Return the connection file for the sandbox."""
    ports = {name: FIRST_PORT + number for number, name in enumerate(CHANNELS)}
    return json.dumps({**connection, **ports, "ip": "127.0.0.1", "transport": "tcp"}).encode()


def _directory(options: Options, outer: Path) -> str:
    """Return where the sandbox shows the directory of the notebook, or /work if no mount contains it."""
    sources = ((Path(mount.source).resolve(), mount.target) for mount in options.mounts)
    found = [(source, target) for source, target in sources if outer.is_relative_to(source)]
    if not found:
        return WORK
    source, target = max(found, key=lambda one: len(one[0].parts))
    return str(Path(target, outer.relative_to(source)))


@contextlib.contextmanager
def _signals(session: Sandbox, cancel: Cancel) -> Iterator[None]:
    """Pass interrupts on to the kernel, and end with SIGTERM, or with the program that has started this one."""
    parent, over = os.getppid(), threading.Event()

    def watch() -> None:
        while not over.wait(PARENT_SEC):
            if os.getppid() != parent:
                cancel.set()

    before = {
        number: signal.signal(number, action)
        for number, action in (
            (signal.SIGINT, lambda *_: session.interrupt()),
            (signal.SIGTERM, lambda *_: cancel.set()),
        )
    }
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        for number, action in before.items():
            signal.signal(number, action)


def run(
    connection_file: str,
    options: Options,
    on_stdout: Callable[[str], None],
    on_stderr: Callable[[str], None],
    words: Sequence[str] = (),
) -> int:
    """Run a kernel until Jupyter ends it, and return its exit code.

    Args:
        connection_file: its path.
        options: those of the sandbox.
        on_stdout: gets what the kernel prints.
        on_stderr: gets its errors.
        words: further arguments of ipykernel: `jupyter run FILE` appends FILE, for example.

    Raises:
        SandboxError: there is no sandbox.
        ValueError, OSError: the connection file cannot be used.
    """
    connection = read_connection(connection_file)
    listeners = _listen(connection)
    cancel = Cancel()
    session = Sandbox._chosen(options, on_stdout=on_stdout, on_stderr=on_stderr, cancel=cancel.descriptor)
    forwarder: Forwarder | None = None
    try:
        with session, _signals(session, cancel):
            session.put({CONNECTION: _inner(connection)})
            # After a closed connection ZeroMQ waits a random time: outputs could come after the end of the first cell.
            forwarder = Forwarder(session._open_control(), listeners, waits=True)
            argv = [MODULE, "-f", f"/work/{CONNECTION}", *words]
            request = run_request("", options, last=False, argv=argv, module=MODULE)
            outer = Path.cwd()  # Jupyter starts a kernel in the directory of the notebook
            hints = of_kernel(options, outer) if options.hints else {}
            own = {"kernel": True, "hints": hints, "directory": _directory(options, outer)}
            return _code(session._carry_out({**request, **own}), on_stderr)
    except Cancelled:
        return TERMINATED
    finally:
        if forwarder is not None:
            forwarder.close()
        for listener, _ in listeners:
            listener.close()
        cancel.close()


def _code(done: Execution, on_stderr: Callable[[str], None]) -> int:
    if done.error is not None:
        on_stderr(unsaid(done))
    return done.exit_code
