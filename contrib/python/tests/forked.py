"""The command `pysbx` without the start of an interpreter: processes of one that has imported the package.

Imports are most of the CPU time of a short command, and of the start of a server. test_startup.py has programs of their
own, and so have the tests of variables that an interpreter reads at its start.
"""

from __future__ import annotations

import atexit
import functools
import gc
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
from importlib import import_module
from typing import Any

# Commands and servers import these late. A command behaves differently if it has a module of a server.
COMMANDS = ("pysbx.calls.execution", "pysbx.command.run", "pysbx.command.show")
SERVERS = ("pysbx.command.serve", "pysbx.service.asgi", "pysbx.service.mcp.tools", "pysbx.service.run")
# The limits that tests change for a server.
LIMITS = (resource.RLIMIT_NOFILE, resource.RLIMIT_AS, resource.RLIMIT_NPROC, resource.RLIMIT_CORE)
LONGEST = 1 << 17
# Of the process that forks: a library may keep what it reads in it, as OpenSSL does, for all commands.
ENVIRONMENT = dict(os.environ)


@functools.cache
def _origin(*modules: str) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """Start the process that forks, and return the way to it. It ends with this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        number = theirs.fileno()
        command = [sys.executable, __file__, str(number), *modules]
        return ours, subprocess.Popen(command, pass_fds=[number], env=ENVIRONMENT)


class Forked(subprocess.Popen[str]):
    """A process of the command, used like one that has been executed. The first argument is the command's first.

    The private parts of Popen that it replaces are the same in Python 3.10 to 3.15.
    """

    def _execute_child(self, args: Any, *given: Any) -> None:
        args = list(args)
        cwd, env = given[4:6]
        read, _, _, write, _, error = pipes = given[9:15]
        files = [own if own >= 0 else number for number, own in enumerate((read, write, error))]
        self._status, status = os.pipe()
        limits = {number: resource.getrlimit(number) for number in LIMITS}
        message = {"args": args, "cwd": str(cwd or os.getcwd()), "env": dict(env or os.environ), "limits": limits}
        way, _ = _origin(*(SERVERS if args[:1] in (["serve"], ["mcp"]) else COMMANDS))
        socket.send_fds(way, [json.dumps(message).encode()], [*files, status])
        os.close(status)
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]
        self.pid = int.from_bytes(os.read(self._status, 4), "little")
        self._child_created = True

    def _try_wait(self, flags: int) -> tuple[int, int]:
        if flags == os.WNOHANG and not select.select([self._status], [], [], 0)[0]:
            return 0, 0
        status = int.from_bytes(os.read(self._status, 4), "little")
        os.close(self._status)
        return self.pid, status

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        if self.returncode is None:
            pid, status = self._try_wait(os.WNOHANG)
            if pid:
                self._handle_exitstatus(status)  # type: ignore[attr-defined]
        return self.returncode


def _run(message: dict[str, Any], files: list[int]) -> None:
    """Become the command, and end."""
    for number, file in enumerate(files):
        os.dup2(file, number)
    os.closerange(3, 100)
    os.chdir(message["cwd"])
    for limit, values in message["limits"].items():
        resource.setrlimit(int(limit), values)
    os.environ.clear()
    os.environ.update(message["env"])
    sys.argv = ["-c", *message["args"]]
    sys.stdout.reconfigure(line_buffering=os.isatty(1))  # type: ignore[union-attr]
    code: Any = 1
    try:
        code = import_module("pysbx.command").main()
    except SystemExit as end:
        code = end.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code or 0)


def _watch(message: dict[str, Any], files: list[int]) -> None:
    """Fork the command, and tell its pid and, when it has ended, its status."""
    *streams, told = files
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if child == 0:
        _run(message, streams)
    os.closerange(0, told)
    os.write(told, child.to_bytes(4, "little"))
    os.write(told, os.waitpid(child, 0)[1].to_bytes(4, "little"))
    os._exit(0)


def _serve(way: socket.socket, *modules: str) -> None:
    """Fork a process for each message."""
    for name in modules:
        import_module(name)
    gc.collect()
    gc.freeze()
    sys.path[0] = ""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        message, files, _, _ = socket.recv_fds(way, LONGEST, 4)
        if not message:
            return
        if os.fork() == 0:
            way.close()
            _watch(json.loads(message), files)
        for file in files:
            os.close(file)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])), *sys.argv[2:])
