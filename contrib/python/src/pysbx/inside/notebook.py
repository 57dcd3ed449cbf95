"""Notebook mode: await at the top level, and the lines with % and ! that IPython has.

A line is changed only if Python finds a syntax error in it. So text in strings, and the operator %, stay as they are.
"""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import takewhile
from types import CodeType
from typing import Any

from .commands import arguments_of
from .failure import chain

HERE = "__import__('pysbx_inside.notebook').notebook"
COMMAND = re.compile(r"^(?P<indent>\s*)(?:(?P<target>[\w., \[\]'\"]+?)\s*=\s*)?(?P<mark>!!?|%)(?P<rest>.*)$", re.DOTALL)
CELL = re.compile(r"^\s*%%(?P<name>\w+|!)[ \t]*(?P<rest>.*)$")
# A line with ! that calls pip, as many notebooks begin with one, and nothing else.
PIP = re.compile(r"(?:pip3?|(?:python3?|\{sys\.executable\}) -m pip)(?: (?P<rest>[^|&;<>`$]*))?")
NAME = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*)(?:\[[\w,.-]*\])?")
QUIET = ("-q", "-qq", "--quiet", "--no-input", "--disable-pip-version-check")
FIELD = re.compile(r"\{([^{}]+)\}")
# Magics that have no meaning here, because it holds already or there is nothing to change.
IGNORED = ("matplotlib", "config", "load_ext", "reload_ext", "autoreload", "reset", "pylab", "colors", "precision")
SITE = "/work/.packages"
NO_PIP = "this sandbox has no pip: name the packages when the sandbox is made"
NO_NETWORK = "this sandbox has no network: name the packages when the sandbox is made, or use Sandbox.install"
# Programs that change the system, those that need a network, and those whose words are files.
CHANGERS = ("apk", "apt", "apt-get", "dnf", "dpkg", "sudo", "yum")
NO_CHANGES = "a sandbox cannot change the system that it sees: install programs outside of it"
LOADERS = ("conda", "curl", "git", "mamba", "npm", "uv", "wget")
READERS = ("cat", "cp", "du", "head", "less", "ls", "mv", "python", "python3", "tail", "tar", "unzip", "wc")
hints: dict[str, Any] = {}  # of a kernel: see options/hints.py
_loop: Any = None


class UsageError(Exception):
    """A line with % that means nothing."""


def _first_error(source: str) -> int:
    """Return the number of the line in which Python finds a syntax error, or 0 if there is none."""
    try:
        compile(source, "<notebook>", "exec", 0x2400, dont_inherit=True)  # PyCF_ONLY_AST, and await at the top level
    except SyntaxError as error:
        return error.lineno or 0
    except (ValueError, MemoryError, RecursionError, OverflowError):
        return 0
    return 0


def plain(source: str | bytes) -> str | bytes:
    """Return source text of a notebook as Python: lines with % and ! become calls. Other errors stay."""
    if not isinstance(source, str):
        try:
            source = importlib.util.decode_source(source)
        except (SyntaxError, UnicodeDecodeError):
            return source
    first, _, rest = source.lstrip("\n").partition("\n")
    cell = CELL.match(first)
    if cell is not None:
        return f"{HERE}.cell({cell['name']!r}, {cell['rest']!r}, {rest!r})\n"
    lines = source.split("\n")
    for _ in range(len(lines)):
        number = _first_error("\n".join(lines))
        if not 0 < number <= len(lines) or not _change(lines, number - 1):
            break
    return "\n".join(lines)


def _change(lines: list[str], number: int) -> bool:
    """Change a line, and those that continue it, if it has a command; the number of lines stays."""
    found = COMMAND.match(lines[number])
    if found is None:
        return False
    text, last = found["rest"], number
    while text.endswith("\\") and last + 1 < len(lines):
        last += 1
        text = f"{text[:-1]} {lines[last].strip()}"
    call = _call(found["mark"], text.strip(), wanted=found["target"] is not None)
    target = f"{found['target']} = " if found["target"] is not None else ""
    lines[number : last + 1] = [f"{found['indent']}{target}{call}", *[""] * (last - number)]
    return True


def _call(mark: str, text: str, *, wanted: bool) -> str:
    installs = PIP.fullmatch(text)
    if mark == "!" and not wanted and installs:
        return f"{HERE}.pip({installs['rest'] or ''!r}, globals(), locals())"
    if mark != "%":
        return f"{HERE}.{'lines_of' if wanted or mark == '!!' else 'command'}({text!r}, globals(), locals())"
    name, _, rest = text.partition(" ")
    if name in IGNORED:
        return "pass" if not wanted else "None"
    return f"{HERE}.magic({name!r}, {rest.strip()!r}, globals(), locals())"


def run_awaiting(code: CodeType, scope: dict[str, Any]) -> Any:
    """Execute code that may await, in an event loop that lasts from one run to the next."""
    global _loop  # noqa: PLW0603 (the loop of the process)
    import asyncio

    async def plain() -> Any:
        return eval(code, scope)

    value = eval(code, scope) if code.co_flags & inspect.CO_COROUTINE else plain()

    if _loop is None or _loop.is_closed():
        _loop = asyncio.new_event_loop()
        asyncio.set_event_loop(_loop)
    task = _loop.create_task(value)
    try:
        return _loop.run_until_complete(task)
    except BaseException as error:
        if not task.done():  # it was interrupted
            task.cancel()
            _loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
        users = error.__traceback__
        while users is not None and users.tb_frame.f_code is not code:  # those of the loop
            users = users.tb_next
        raise error.with_traceback(users or error.__traceback__)  # noqa: B904 (it is the same one)


def rest() -> None:
    """Close the descriptors of the event loop, if only it uses them, so that this process can be copied."""
    loop = _loop
    with contextlib.suppress(AttributeError):  # the program has chosen a loop of another kind
        if loop is None or loop.is_closed() or loop._signal_handlers or len(loop._selector.get_map()) > 1:
            return
        loop._close_self_pipe()
        loop._selector.close()


def wake() -> None:
    """Let the event loop have descriptors again, which rest() has closed; its tasks and timers have stayed."""
    loop = _loop
    with contextlib.suppress(AttributeError):
        if loop is not None and not loop.is_closed() and loop._selector.get_map() is None:
            loop._selector = type(loop._selector)()
            loop._make_self_pipe()


def _filled(text: str, names: dict[str, Any], local: dict[str, Any]) -> str:
    """Return a command in which {expression} is replaced by its value; what is none stays."""

    def value(found: re.Match[str]) -> str:
        try:
            return str(eval(found[1], names, local))
        except Exception:
            return found[0]

    return FIELD.sub(value, text)


def command(text: str, names: dict[str, Any], local: dict[str, Any]) -> None:
    """Run a line with !."""
    sys.stdout.flush()
    code = subprocess.run(arguments_of(_filled(text, names, local)), check=False).returncode
    names["_exit_code"] = code


def lines_of(text: str, names: dict[str, Any], local: dict[str, Any]) -> list[str]:
    """Run a command, and return the lines of its output."""
    done = subprocess.run(
        arguments_of(_filled(text, names, local)), check=False, stdout=subprocess.PIPE, text=True, errors="replace"
    )
    names["_exit_code"] = done.returncode
    return done.stdout.splitlines()


def _are_installed(words: list[str]) -> bool:
    """Tell whether there is nothing to do for pip: it shall install packages that are there, in no special version."""
    from importlib import metadata

    found = [NAME.fullmatch(word) for word in words[1:] if word not in QUIET]
    try:
        return words[:1] == ["install"] and bool(found) and all(one and metadata.version(one["name"]) for one in found)
    except metadata.PackageNotFoundError:
        return False


def has_network() -> bool:
    """Tell whether there is an interface to other hosts, or a proxy that leads to some."""
    try:
        others = [name for _, name in socket.if_nameindex() if name != "lo"]
    except OSError:  # a filter refuses such sockets
        others = []
    return bool(others or os.environ.get("https_proxy"))


def pip(rest: str, names: dict[str, Any], local: dict[str, Any]) -> None:
    """Run a line with ! that calls pip. As with other commands, a failure is no error of the code."""
    names["_exit_code"] = 1
    try:
        _pip(rest, names, local)
    except UsageError as error:
        print(error, file=sys.stderr)
    except subprocess.CalledProcessError as error:  # pip has said why
        names["_exit_code"] = error.returncode
    else:
        names["_exit_code"] = 0


def _pip(rest: str, names: dict[str, Any], local: dict[str, Any]) -> None:
    words = shlex.split(_filled(rest, names, local))
    if _are_installed(words):  # with --target, pip would look for them in an index
        print("Requirement already satisfied:", *(word for word in words[1:] if word not in QUIET))
        return
    if subprocess.run([sys.executable, "-c", "import pip"], check=False, stderr=subprocess.DEVNULL).returncode:
        raise UsageError(NO_PIP)
    offline = words[:1] == ["install"] and not has_network()
    if words[:1] == ["install"]:
        words[1:1] = ["--target", SITE, "--no-warn-script-location", "--disable-pip-version-check"]
    words += ["--no-index"] if offline else []  # pip would try for a quarter of a minute
    code = subprocess.run([sys.executable, "-m", "pip", *words], check=not offline).returncode
    if code:
        raise UsageError(NO_NETWORK)
    if SITE not in sys.path:
        sys.path.append(SITE)
    import importlib

    importlib.invalidate_caches()


def _words(command: str) -> list[str]:
    """Return the words of the first program that a command calls."""
    found = shlex.shlex(command, posix=True, punctuation_chars=True)
    found.whitespace_split = True
    try:
        return list(takewhile(lambda word: not set(word) <= set("();<>|&"), found))
    except ValueError:
        return []


def _pip_words(command: str) -> list[str]:
    """Return the arguments of pip if a command begins with a call of it; otherwise none."""
    program, *rest = _words(command) or [""]
    if rest[:2] == ["-m", "pip"] and os.path.basename(program).startswith("python"):
        return rest[2:]
    return rest if program in ("pip", "pip3") else []


def hint(kind: str, message: str = "") -> str:
    """Return what to do about an error in a kernel, or ""."""
    from difflib import get_close_matches

    for rule, pattern, text in hints.get("rules", ()):
        found = re.match(pattern, message, re.DOTALL) if rule == kind else None
        if found is None:
            continue
        name = found[1] if "{0}" in text else ""
        # A misspelt name may be that of a package, and a hostile one.
        if (
            name.isidentifier()
            and name not in hints["known"]
            and (meant := get_close_matches(name, hints["known"], 1, 0.8))
        ):
            return f"module '{name}' is not in the sandbox: did you mean '{meant[0]}'?"
        return str(text.replace("{0}", name))
    return ""


def _hint_for_error(error: BaseException) -> str:
    """Return what to do about an error, or about the nearest one that it came from, or ""."""
    return next(filter(None, (hint(kind, text) for kind, text, _ in chain(error))), "")


def _hint_for_command(command: str) -> str:
    """Return what to do about a command that has failed, or ""."""
    program, *words = _words(command) or [""]
    if program in CHANGERS:
        return NO_CHANGES if hints else ""
    if program in LOADERS and shutil.which(program) and not has_network():
        return hint("gaierror")
    missing = (word for word in words if not word.startswith("-") and not os.path.exists(os.path.expanduser(word)))
    found = next(missing, "") if program in READERS else ""
    return hint("FileNotFoundError", f": '{found}'") if found else ""


def change_ipykernel(module: Any) -> None:
    """Change ipykernel.zmqshell: hints follow errors. If pip would download where there is no network, say so."""
    system, show = module.system, module.ZMQInteractiveShell._showtraceback

    def show_hint(self: Any, kind: Any, value: Any, lines: list[str]) -> Any:
        try:
            said = _hint_for_error(value)
        except Exception:  # of its own class, such as of __str__: IPython shows what it can
            said = ""
        return show(self, kind, value, [*lines, f"\nhint: {said}"] if said else lines)

    def run(command: str) -> Any:
        words = [word for word in _pip_words(command) if not word.isdigit()]  # as in 2>/dev/null
        if words[:1] != ["install"] or has_network():
            code = system(command)
            if code and (said := _hint_for_command(command)):
                print(f"hint: {said}", file=sys.stderr)
            return code
        # Without downloads, and also where only other programs may install packages.
        tried = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-index", *words[1:]]
        if not subprocess.run(tried, check=False, capture_output=True).returncode:
            return system(command)
        named = [
            f"--with {shlex.quote(f'-r {word}' if words[at] in ('-r', '--requirement') else word)}"
            for at, word in enumerate(words[1:])
            if word[:1].isalpha()
        ]
        again = "shut the kernel down, and start it"  # a restart keeps the old command
        said = f"this kernel has no network: repeat its `pysbx kernel install` with {' '.join(named)}, {again}"
        if command.startswith(sys.executable):  # %pip
            from IPython.core.error import UsageError as InCell

            raise InCell(said)
        print(said, file=sys.stderr)
        return 1

    module.system, module.ZMQInteractiveShell._showtraceback = run, show_hint


PATCHES = {"ipykernel.zmqshell": change_ipykernel}


def _directory(rest: str, names: dict[str, Any], local: dict[str, Any]) -> None:
    os.chdir(os.path.expanduser(_filled(rest, names, local).strip("'\"") or "~"))
    print(os.getcwd())


def _variables(rest: str, names: dict[str, Any], local: dict[str, Any]) -> Any:
    name, mark, value = _filled(rest, names, local).replace("=", " ", 1).partition(" ")
    if mark:
        os.environ[name] = value.strip()
        return None
    return os.environ[name] if name else dict(os.environ)


def _time(rest: str, names: dict[str, Any], local: dict[str, Any]) -> Any:
    began, used = time.perf_counter(), time.process_time()
    try:
        try:
            return eval(compile(rest, "<%time>", "eval"), names, local)
        except SyntaxError:
            exec(compile(rest, "<%time>", "exec"), names)
    finally:
        print(f"CPU time: {time.process_time() - used:.3g} s, wall time: {time.perf_counter() - began:.3g} s")
    return None


# The options of %timeit: loops, runs, digits, which clock; see IPython's page of magics.
TIMEIT_OPTION = re.compile(r"\s*-(?:([nrp])\s*(\d+)|[tc])(?:\s+|$)")


def _timeit(rest: str, names: dict[str, Any], local: dict[str, Any], body: str = "") -> None:
    """Measure the rest of a line or, of a cell, its body, which the rest of its line prepares."""
    import timeit

    given = {"n": 0, "r": 3}
    while option := TIMEIT_OPTION.match(rest):
        if option[1]:
            given[option[1]] = int(option[2])
        rest = rest[option.end() :]
    code = (body, rest.strip() or "pass") if body else (rest, "pass")
    timer = timeit.Timer(*code, globals={**names, **local})
    count, runs = given["n"] or timer.autorange()[0], given["r"] or 1
    best = min(timer.repeat(runs, count)) / count
    print(f"{best:.3g} s, the best of {runs} runs with {count} loops each")


MAGICS: dict[str, Callable[[str, dict[str, Any], dict[str, Any]], Any]] = {
    "pip": _pip,
    "cd": _directory,
    "pwd": lambda *_: os.getcwd(),
    "env": _variables,
    "set_env": _variables,
    "time": _time,
    "timeit": _timeit,
    "sx": lines_of,
    "system": lines_of,
    "ls": lambda rest, names, local: command(f"ls {rest}", names, local),
    "cat": lambda rest, names, local: command(f"cat {rest}", names, local),
    "mkdir": lambda rest, names, local: command(f"mkdir {rest}", names, local),
}


def magic(name: str, rest: str, names: dict[str, Any], local: dict[str, Any]) -> Any:
    """Carry out a line with %.

    Raises:
        UsageError: it means nothing.
    """
    if name not in MAGICS:
        raise UsageError(f"%{name} is not known: there are {', '.join(f'%{one}' for one in MAGICS)}")
    return MAGICS[name](rest, names, local)


DISPLAYED = {"html": "text/html", "markdown": "text/markdown", "latex": "text/latex", "svg": "image/svg+xml"}


def cell(name: str, rest: str, body: str) -> Any:
    """Carry out a cell with %%.

    Raises:
        UsageError: it means nothing.
    """
    names: dict[str, Any] = vars(sys.modules["__main__"])
    if name in ("bash", "sh", "!"):
        sys.stdout.flush()
        subprocess.run(arguments_of(body), check=True)
    elif name == "writefile":
        words = rest.split()
        with open(words[-1], "a" if "-a" in words else "w", encoding="utf-8") as file:
            file.write(body)
    elif name in DISPLAYED:
        from . import display

        display.display({DISPLAYED[name]: body}, raw=True)
    elif name == "time":
        return _time(str(plain(body)), names, names)
    elif name == "timeit":
        _timeit(rest, names, names, str(plain(body)))
    elif name == "capture":
        exec(compile(plain(body), "<%%capture>", "exec"), names)
    else:
        known = ("bash", "sh", "writefile", *DISPLAYED, "time", "timeit", "capture")
        raise UsageError(f"%%{name} is not known: there are {', '.join(f'%%{one}' for one in known)}")
    return None
