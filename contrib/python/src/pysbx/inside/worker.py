"""The program of a sandbox: carries out requests until there are no more.

Importing this module imports all modules that a request needs, so that a prewarmed interpreter has them already.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import inspect
import linecache
import os
import pickle
import resource
import stat
import sys
from _socket import socketpair
from collections.abc import Callable
from types import ModuleType
from typing import Any, NoReturn

import cloudpickle  # what the host sends refers to it

from . import fork, late, main_module, own_files, pools, script
from .channel import Channel, Message
from .child import only_here
from .encode import encode
from .ending import flush, note_descriptors
from .failure import describe
from .interrupts import Interrupts, begin
from .paths import moved
from .refusal import Unserializable
from .room import KeptBack
from .wire import COLD_REASON, GAVE_UP

PROXIES = "/run/pysbx-proxies"
AUTHORITIES = "authorities.pem"
DIRECTORIES = ("/work", "/output")
CHANGED = (*DIRECTORIES, "/tmp")
KILLED = 128 + 9
# Requests that few sandboxes get: the module that is imported then, and its function. The completion of names calls the
# user's code, whose objects describe themselves.
ELSEWHERE = {
    "shell": ("commands", "shell"),
    "start": ("commands", "start"),
    "process": ("commands", "act"),
    "processes": ("commands", "listing"),
    "place": ("places", "act"),
    "restore": ("restoring", "restore"),
    "packages": ("packages", "add"),
    "complete": ("prompt", "complete"),
}
# Before further modules are imported, some of which count when that happens.
pools.count_cpus()
begin()
# Once for all copies of a prewarmed interpreter, because the names are in many pages.
own_files.begin()
# In a prewarmed interpreter, the function that copies this process: see bootstrap.py of the runtime.
__pysbx_fork__: fork.Copy | None = None
# Its program imports this module before all else, and has a socket as standard input.
__pysbx_first__ = True
# The times that imported modules keep: where, the name, the value, the clock, and what the clock said then.
__pysbx_clocks__: list[tuple[dict[str, Any], str, Any, Callable[[], Any], Any]] = []


def called(request: Message) -> Message:
    """Call the function of a request, and return the answer with its value."""
    function, arguments, named = pickle.loads(request.pop("payload"))  # the packed bytes are not kept beside the value
    with KeptBack():
        value = function(*arguments, **named)
        if inspect.iscoroutine(value):
            import asyncio

            value = asyncio.run(value)
    if request["result"] == "pickle":
        return {"pickle": cloudpickle.dumps(value)}
    return {"value": encode(value)}


def call(request: Message) -> Message:
    """Carry out a request "call": a function with its arguments, by cloudpickle."""
    found = inspect_source(request)
    if any(stage == "enforce" for stage, *_ in found):
        return {"violations": found}
    here, there = list(sys.version_info[:2]), request["python"]
    if here != there:
        reason = "a function cannot go from Python {}.{} to {}.{}: its bytecode differs".format(*there, *here)
        return {"unserializable": [reason, "function", "the function"]}
    if request.get("lines"):
        name, first, text = request["lines"]
        lines = ["\n"] * (first - 1) + text.splitlines(keepends=True)
        linecache.cache[name] = (len(text), None, lines, name)
    try:
        if script.has_own_directory():
            own_files.forget_hidden(sys.path[0])
        return only_here(lambda: called(request))
    except Unserializable as error:
        return {"unserializable": [error.reason, error.type_name, error.path]}
    except BaseException as error:  # SystemExit too: a call has no exit code
        return {"error": describe(error)}


def inspect_source(request: Message) -> list[list[Any]]:
    """Return the violations that the static analysis finds, each as [stage, rule, line, message]."""
    if not request.get("analysis"):
        return []
    from .analysis import analyse

    found: list[list[Any]] = analyse(request["source"], request["analysis"], request["violations"])
    return found


def run(request: Message) -> Message:
    """Carry out a request "run", unless a stage of the static analysis that is enforced finds a violation."""
    request["original"] = request["source"]
    if request.get("notebook") and not request["module"]:
        from .notebook import plain

        request["source"] = plain(request["original"])
    found = inspect_source(request)
    if any(stage == "enforce" for stage, *_ in found):
        return {"violations": found}
    return script.run(request) | {"violations": found}


def beneath(path: str) -> str:
    """Return an absolute path for a name relative to /work; the host has checked it, this is for clear errors."""
    return moved(os.path.join("/work", path))


def no_file(error: Exception, **more: Any) -> Message:
    """Return the answer if a file cannot be had; a ValueError is that no file can have such a name."""
    if isinstance(error, OSError):
        more["errno"] = error.errno or errno.EIO
    return {"error": {**describe(error), "errno": errno.EINVAL, **more}}


def prepare_file(path: str, content: bytes, number: int) -> tuple[str, str]:
    """Write a file beside another, whose place it takes; return the paths of both."""
    path = os.path.realpath(path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    made = f"{os.path.dirname(path)}/.put-{number}-{os.urandom(4).hex()}"
    try:
        with open(made, "xb") as file:
            file.write(content)
        with contextlib.suppress(FileNotFoundError):
            os.chmod(made, stat.S_IMODE(os.stat(path).st_mode))
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(made)
        raise
    return made, path


def put(request: Message) -> Message:
    """Write files, and make directories, whose names end with a slash: all files of them, or none."""
    made: list[tuple[str, str, str]] = []
    name = ""
    try:
        for number, (name, content) in enumerate(request["files"].items()):
            if name.endswith("/"):
                os.makedirs(beneath(name), exist_ok=True)
            else:
                made.append((name, *prepare_file(beneath(name), content, number)))
        for name, path, target in made:
            if os.path.isdir(target):  # perhaps for another of these files
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), target)
            if name in request.get("executable", ()):
                os.chmod(path, 0o755)
        while made:
            name, path, target = made[-1]
            os.rename(path, target)
            made.pop()
    except (OSError, ValueError) as error:
        for _, path, _ in made:
            with contextlib.suppress(OSError):
                os.unlink(path)
        return no_file(error, path=name, free=free_at(beneath(name)))
    return {}


def free_at(path: str) -> int:
    """Return the free bytes of the file system where a path is."""
    while path != "/":
        path = os.path.dirname(path)
        with contextlib.suppress(OSError, ValueError):
            about = os.statvfs(path)
            return about.f_bavail * about.f_frsize
    return 0


def get(request: Message) -> Message:
    """Read a file."""
    try:
        path = beneath(request["path"])
        about = os.stat(path)
        if stat.S_ISDIR(about.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not stat.S_ISREG(about.st_mode):  # such a file may have no end, or never any data
            raise OSError(errno.ENXIO, "It is not a file, but a device, pipe or socket", path)
        if about.st_size > request["limit"]:
            return {"too_large": about.st_size}
        with open(path, "rb") as file:
            # More than the limit, for the host to refuse: what is in /proc, or grows, has another size than it says.
            return {"content": file.read(request["limit"] + 1)}
    except (OSError, ValueError) as error:
        return no_file(error)


def remove(request: Message) -> Message:
    """Remove a file of /work, /output or /tmp."""
    try:
        path = os.path.normpath(beneath(request["path"]))
        if not path.startswith(tuple(f"{moved(directory)}/" for directory in CHANGED)):
            raise ValueError(f"{path} is neither in {' nor in '.join(CHANGED)}")
        os.unlink(path)
    except (OSError, ValueError) as error:
        return no_file(error)
    return {}


def listing(request: Message) -> Message:
    """Return the files of /work and /output with their sizes."""
    found = {}
    for directory in DIRECTORIES:
        start = moved(directory)
        for top, directories, names in os.walk(start):
            # A virtualenv that the host keeps at such a path is the interpreter's.
            directories[:] = [one for one in directories if os.path.join(top, one) != sys.prefix]
            for name in names:
                path = os.path.join(top, name)
                with contextlib.suppress(OSError):  # another process has just removed it
                    about = os.lstat(path)
                    if stat.S_ISREG(about.st_mode):
                        relative = os.path.relpath(path, start)
                        found[relative if directory == "/work" else f"{directory}/{relative}"] = about.st_size
    return {"files": found}


def answer(request: Message, interrupts: Interrupts) -> Message:
    """Carry out a request."""
    if request["op"] == "run":
        return interrupts.during(lambda: run(request))
    if request["op"] == "call":
        return interrupts.during(lambda: call(request))
    if request["op"] in ELSEWHERE:
        module, name = ELSEWHERE[request["op"]]
        work = getattr(importlib.import_module(f".{module}", __package__), name)
        around = interrupts.during if request["op"] == "complete" else interrupts.plainly
        return around(lambda: work(request))
    simple: dict[str, Callable[[Message], Message]] = {
        "put": put,
        "get": get,
        "remove": remove,
        "list": listing,
        "continue": fork.go_on,
        "stream": late.replace,
        "no-room": refuse,
    }
    try:
        return simple[request["op"]](request)
    except MemoryError:
        return no_room("answer")


def peak() -> int:
    """Return the most memory that this process, or one that it has waited for, has held, in KiB."""
    return max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def no_room(what: str) -> Message:
    """Return the answer for a request if memory is too small for the request or its answer."""
    return {"exit_code": 1, "error": describe(MemoryError(f"no room for the {what}"))}


def refuse(request: Message) -> Message:
    """Refuse a request that was not read, and close a descriptor that has come with it."""
    if request["passed"] >= 0:
        os.close(request["passed"])
    return no_room("request")


def send(channel: Channel, reply: Message) -> None:
    """Send an answer, or an error if there is no memory for it."""
    for whole in (True, False):
        with contextlib.suppress(MemoryError):
            channel.write((reply if whole else no_room("answer")) | {"peak_kib": peak()})
            return
    os._exit(KILLED)  # as if the kernel had done it


def forward(request: Message, channel: Channel, forwards: set[int]) -> Message:
    """Start a process that connects the host to ports of the sandbox, and add its number to others."""
    from .forward import start

    try:
        forwards.add(start(request["passed"], channel.descriptor))
    except OSError as error:  # there can be no further process
        return {"error": describe(error)}
    return {}


def connected(request: Message, channel: Channel) -> Message:
    """Start a program that has a way of its own to the host: at a terminal, or with pipes."""
    module = importlib.import_module(f".{request['op']}", __package__)
    try:
        module.start(request, channel.descriptor)
    except OSError as error:  # there can be no further process
        return {"error": describe(error)}
    return {}


def begin_tools(request: Message) -> ModuleType | None:
    """Prepare the calls of tools of a run that has some; return the module that ends them."""
    if not request.get("tools"):
        return None
    from . import tools

    tools.begin(request["tools"], request["passed"])
    request["passed"] = -1
    return tools


def give_up(channel: Channel, error: Exception) -> NoReturn:
    """End by a signal, and say why. Any exit code would be taken for that of the user's code."""
    text = f"{error}; its code may have closed or changed descriptor {channel.descriptor}, which is the sandbox's"
    with contextlib.suppress(OSError):
        os.writev(2, [f"{GAVE_UP}{text}\n".encode(errors="backslashreplace")])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.abort()


def prepare() -> tuple[Interrupts, Channel]:
    """Do what precedes any request."""
    interrupts = Interrupts()
    channel = Channel()
    if script.has_own_directory():
        sys.path[0] = ""
    sys.argv[:] = [""]
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    main_module.begin(__pysbx_fork__)
    note_descriptors(channel.descriptor)
    return interrupts, channel


def main() -> None:
    """Read requests until the host closes its end, and answer them."""
    interrupts, channel = prepare()
    hello = {"hello": list(sys.version_info[:2]), "warm": __pysbx_fork__ is not None}
    hello["cold"] = os.environb.pop(COLD_REASON.encode(), b"").decode("utf-8", "replace")
    channel.write(hello)
    try:
        serve(channel, interrupts, hello)
    except Exception as error:
        give_up(channel, error)
    os._exit(0)


def rehearse() -> None:
    """Answer a call of nothing, in a copy of a prewarmed interpreter: see hand_over() in bootstrap.py."""
    given = os.dup(0)
    host, here = socketpair()
    os.dup2(here.fileno(), 0)
    interrupts, channel = prepare()
    request = {"op": "call", "payload": cloudpickle.dumps((lambda: None, (), {})), "result": "typed"}
    host.send(channel.frame(request | {"python": list(sys.version_info[:2])}))
    channel.write(answer(channel.read() or {}, interrupts) | {"peak_kib": peak()})
    flush()
    os.dup2(given, 0)


__pysbx_rehearse__ = rehearse


def set_forward() -> None:
    """Set the times that modules keep to the first request: this process may have waited for it."""
    while __pysbx_clocks__:
        names, name, value, read, then = __pysbx_clocks__.pop()
        names[name] = type(value)(value + (read() - then))


def serve(channel: Channel, interrupts: Interrupts, hello: Message) -> None:
    """Answer requests until there are no more.

    Args:
        channel: the way to the host.
        interrupts: hold signals off between two requests.
        hello: the greeting, which a fork of this process sends again.
    """
    relay = 0
    forwards: set[int] = set()
    parked: dict[int, int] = {}  # the pids of copies, by their numbers
    while (request := channel.read()) is not None:
        set_forward()
        fork.forget(parked)
        if request.get("proxy") and not relay:
            from .relay import start

            relay = start(f"{PROXIES}/{request['proxy']}", channel.descriptor)
            if "trust" in request:
                from . import trust

                trust.begin(request["trust"], f"{PROXIES}/{AUTHORITIES}")
        if request["op"] == "forward":
            channel.write(forward(request, channel, forwards))
            continue
        if request["op"] in ("terminal", "program"):
            channel.write(connected(request, channel))
            continue
        if request["op"] == "fork":
            try:
                copy = fork.park(__pysbx_fork__, channel, {os.getpid(), relay, *forwards, *parked.values()})
            except (fork.NotCopied, OSError) as error:
                channel.write({"refused": str(error)})
                continue
            if copy:
                parked[request["copy"]] = copy
            else:  # this is the fork, in a sandbox of its own
                relay = 0
                forwards.clear()
                parked.clear()
                channel.write(hello)
            continue
        tools = begin_tools(request)
        reply = fork.answer(request, parked) if request["op"] in fork.ABOUT_COPIES else answer(request, interrupts)
        ended = None if tools is None else tools.end()
        flush()
        if request.get("asks_shared"):
            reply["shared"] = late.is_shared({fork.INIT, os.getpid(), relay, *forwards, *parked.values()})
        send(channel, reply)
        if ended is not None:
            ended()
        del request, reply  # the next request finds the room of this one
