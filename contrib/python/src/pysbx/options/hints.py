"""Turn an error of the caller's code into a sentence about the remedy."""

from __future__ import annotations

import difflib
import heapq
import itertools
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pysbx.base.module_origin import is_own_name
from pysbx.base.option_names import AGAIN, KERNEL, OPTIONS, current
from pysbx.options.keywords import Options

# Modules that are installed under another name.
PACKAGES = {
    "cv2": "opencv-python",
    "PIL": "pillow",
    "sklearn": "scikit-learn",
    "skimage": "scikit-image",
    "yaml": "pyyaml",
    "bs4": "beautifulsoup4",
    "dateutil": "python-dateutil",
    "dotenv": "python-dotenv",
    "Crypto": "pycryptodome",
    "OpenSSL": "pyopenssl",
    "serial": "pyserial",
    "usb": "pyusb",
    "jwt": "pyjwt",
    "git": "gitpython",
    "attr": "attrs",
    "docx": "python-docx",
    "pptx": "python-pptx",
    "fitz": "pymupdf",
    "psycopg2": "psycopg2-binary",
    "MySQLdb": "mysqlclient",
    "zmq": "pyzmq",
    "magic": "python-magic",
    "google.protobuf": "protobuf",
    "pkg_resources": "setuptools",
    "distutils": "setuptools",
    "mpl_toolkits": "matplotlib",
    "Bio": "biopython",
    "slugify": "python-slugify",
    "socketio": "python-socketio",
    "websocket": "websocket-client",
    "umap": "umap-learn",
    "skopt": "scikit-optimize",
    "faiss": "faiss-cpu",
    "sql": "jupysql",  # of %load_ext
    "pytables": "tables",  # the name in an error of pandas
}
# Names that are given to modules when they are imported.
ALIASES = {
    "np": "numpy as np",
    "pd": "pandas as pd",
    "pl": "polars as pl",
    "plt": "matplotlib.pyplot as plt",
    "sns": "seaborn as sns",
}
# Modules of many packages, and of none with this name.
MANY = ("google", "azure")
PART_OF_PYTHON = "belongs to Python itself, and the Python of the sandbox lacks it"
# The words of pandas and others for a package that one function needs.
OPTIONAL = (
    r".*?(?:[Mm]issing optional dependency '|`Import |tried using: '|(?=matplotlib is required))(?P<name>\w[\w.-]*)"
)
# The words of polars and others, for one that is missing or too old. An extra is no package of its own.
TO_INSTALL = (
    r".*?(?:\bpip3? install (?:-U |--upgrade )?[\"']?|\brequires '(?=[\w.-]{1,60}' version)"
    r"|\b(?=[\w.-]{1,60}>=[\d.]{1,20} is required))(?P<name>[A-Za-z](?:[\w.-]{0,60}\w)?)(?=[`\"'<>=~!]|\.?\s*$)"
)
OUTSIDE = "a package is missing or too old: {}"
AWAIT = "await needs an `async def`: asyncio.run() calls that"
NOT_AWAITED = "an async function, as some tools are, was called without `await`: write that before the call"
NO_NETWORK = "the sandbox has no network: {network}"
NOT_WRITTEN = "the file is too large, or its disk full: write less, or {written}"
NO_SPACE = r".*(No space left on device|File too large)"
NO_PART = "is not in the sandbox, but the package around it is: another version may have it"
NO_NAMES = (
    "the sandbox has no DNS: only clients that use the proxy of HTTP_PROXY and ALL_PROXY reach a host, "
    "as aiohttp's ClientSession(trust_env=True) does"
)
# The words of drivers of databases, of polars and pyarrow for URLs, and of duckdb, which would need an extension.
NOT_FOUND = (
    r".*(?:could not translate host name|[Nn]ame resolution|Name or service not known|Could not resolve host|dns error"
    r"|Failed to download extension)"
)
NO_FILE = "a sandbox has files of its own: {files}"
NO_SCREEN = "the sandbox has no screen and no keyboard: read from standard input, print, or write files to /output"
NO_DIRECTORY = "; or, to write it, make its directory first: os.makedirs()"
NOT_ALLOWED = "the host is not among {hosts}"
# Of a file that may be meant to be written: the directory that is missing can be made.
IN_DIRECTORY = r".*No such file or directory: '(?:[^/'][^']*/|/(?:work|output|tmp|dev/shm)/[^']+/)[^/']+'$"
# The proxy's words, see proxy.py.
REFUSED = ("URLError", "HTTPError", "ProxyError", "HTTPStatusError")
PRIVATE = r".*403[: ].*no address outside of (?:private networks|this machine)"
ELSEWHERE = r".*403[: ].*no address that a sandbox may reach"
# Modules of packages that are so widely used that a name like one of the next is no typing error.
WIDELY_USED = """
    aioitertools aiosignal aiosmtplib argcomplete arrow asgiref attrs authlib bcrypt bitstring cattrs cftime
    configargparse construct contextlib2 cssselect dataclasses_json geopandas html5lib httpx icalendar ijson ipdb
    json5 lxml mpmath multiprocess nest_asyncio numcodecs oauthlib orjson pandas_ta pandasql pathlib2 pint
    platformdirs psutil psycopg pybase64 pydot qrcode rarfile scapy simpy structlog tokenizers tomli typer ujson
    urllib3 uuid6 xarray zipp
""".split()
# Modules that a misspelt name more likely means than a package of that name, which may be hostile.
KNOWN_MODULES = frozenset(
    (
        *(name for name in sys.stdlib_module_names if name[:1] != "_"),
        *PACKAGES,
        *WIDELY_USED,
        *("numpy", "pandas", "matplotlib", "scipy", "requests", "pyarrow", "seaborn"),
    )
)
# A full comparison of two names takes time cubic in their length. Only names with many letters in common get one.
MAX_NAME = 60
MAX_NAMES = 2000
COMPARED = 20
# Characters of a message that are looked at. Some patterns take time quadratic in them.
MAX_MESSAGE = 4000
# Of nbclient and papermill.
OF_NOTEBOOKS = ("CellExecutionError", "PapermillExecutionError")
COLOUR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
LAST_LINE = re.compile(r"^(?P<type>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?$", re.DOTALL)
PLACE = re.compile(r'(?:File "(?P<file>[^"]+)", line (?P<line>\d{1,9})\b|(?:Cell In\[\d+\], )line (?P<cell>\d{1,9})\b)')
ARROW = re.compile(r"^-+> (\d{1,9}) ", re.MULTILINE)


@dataclass(frozen=True)
class ErrorReport:
    """The facts that a traceback contains.

    Attributes:
        type: name of the exception's class.
        message: its text.
        line: line of the innermost place named, or None.
        hint: what to try, or None.
    """

    type: str
    message: str
    line: int | None
    hint: str | None


def closest(name: str, names: Iterable[str], cutoff: float = 0.6) -> str:
    """Return the question whether the nearest of the names was meant, or "" if none is near.

    A name of more than MAX_NAME characters is not a typing error. Of the others, the first MAX_NAMES count.
    """
    if len(name) > MAX_NAME:
        return ""
    others = (other for other in names if other != name and len(other) <= MAX_NAME)
    likely = _most_alike(name, itertools.islice(others, MAX_NAMES))
    found = difflib.get_close_matches(name, likely, n=1, cutoff=cutoff)
    return f"did you mean '{found[0]}'?" if found else ""


def _most_alike(name: str, names: Iterable[str]) -> list[str]:
    """Return the names that have most letters in common with one, in any order."""
    matcher = difflib.SequenceMatcher(b=name)

    def alike(other: str) -> float:
        matcher.set_seq1(other)
        return matcher.quick_ratio()

    return heapq.nlargest(COMPARED, names, key=alike)


def _missing_name(match: re.Match[str], names: Iterable[str]) -> str:
    name = match["name"]
    if name in ALIASES or (name in sys.stdlib_module_names and name[:1] != "_"):
        return f"if the module is meant: import {ALIASES.get(name, name)}"
    return closest(name, names, cutoff=0.7) or f"'{name}' is used before anything is assigned to it or imported"


def _unassigned(match: re.Match[str], names: Iterable[str]) -> str:
    return closest(match["name"], names, cutoff=0.75) or "assign it on every path, or declare it global"


def _missing_attribute(match: re.Match[str], names: Iterable[str]) -> str:
    if match["object"] == "NoneType":
        return "the value is None: a call before has returned nothing"
    return closest(match["name"], names, cutoff=0.7)


def _missing_key(match: re.Match[str], names: Iterable[str]) -> str:
    return closest(match["name"], names, cutoff=0.7)


def package_of(module: str) -> str:
    """Return the name of the package that has a module."""
    top = module.partition(".")[0]
    return PACKAGES.get(module) or PACKAGES.get(top) or top.replace("_", "-")


def _missing_module(match: re.Match[str], names: Iterable[str]) -> str:
    module = match["name"]
    top = module.partition(".")[0]
    if top == "pysbx":
        return "code in a sandbox has no sandboxes of its own: pass it plain values"
    if place := next(iter(names), ""):  # below the working directory
        return f"module '{module}' is in the directory {place!r}: sys.path.insert(0, {place!r}) before the import"
    words = current()
    if "own" in words.options:  # the files of a server are none of its callers'
        path = words.own_file(top) if top.isidentifier() else ""
        if path or is_own_name(top):  # a package of that name would be another one, and possibly hostile
            return f"module '{module}' is one of your own: {words.own(path)}"
    if top.startswith("_") or (top in MANY and module not in PACKAGES):  # a part of another module
        return f"module '{module}' is not in the sandbox"
    # Python imports a package before it looks for a part of it.
    part = top.isidentifier() and top != module and module not in PACKAGES
    if part or (top in sys.stdlib_module_names and top not in PACKAGES):
        return f"module '{module}' {NO_PART if part else PART_OF_PYTHON}"
    meant = "" if top in KNOWN_MODULES else closest(top, KNOWN_MODULES, cutoff=0.8)
    builtin = "display() needs no import; for others, " if top == "IPython" else ""
    return f"module '{module}' is not in the sandbox: {meant or builtin + words.package(package_of(module))}"


def _not_installed(match: re.Match[str], names: Iterable[str]) -> str:
    words = re.findall(r"[^\s',\[\]]+", match["rest"])
    found = [re.fullmatch(r"([A-Za-z0-9][\w.-]*?)([=<>!~;].*)?", word) for word in words if word[0] != "-"]
    if {"-r", "-e"} & set(words) or not found or found[0] is None:
        return ""
    return f"pip could not install it in the sandbox: {current().package(found[0][1])}"


def _to_install(match: re.Match[str], names: Iterable[str]) -> str:
    return OUTSIDE.format(current().package(match["name"]))


def _in_notebook(output: str) -> str | None:
    """Return the hint for the error that ends the output of a notebook, unless that is one of another notebook."""
    found = _last_error(output)
    return None if found is None or found.type.rpartition(".")[2] in OF_NOTEBOOKS else hint(found.type, found.message)


def _no_python(match: re.Match[str], names: Iterable[str]) -> str:
    line = next(iter(names), "").lstrip()  # of a SyntaxError the only name is the line
    if line.startswith("```"):
        return "the line is a fence of Markdown: pass only the text between the fences"
    return f"the line is one of a notebook: {current().options['notebook']}" if line.startswith(("!", "%")) else ""


def _escaped(match: re.Match[str], names: Iterable[str]) -> str:
    line = next(iter(names), "")
    return r"\n stands where a line should end: pass real ends of lines" if r"\n" in line else ""


def _missing_file(match: re.Match[str], names: Iterable[str]) -> str:
    words, path = current(), match["path"]
    if meant := closest(os.path.basename(path), names, cutoff=0.7):  # they are those of its directory
        return meant
    if path.startswith("/"):
        return NO_FILE.format_map(words.options) + (NO_DIRECTORY if re.match(IN_DIRECTORY, match[0]) else "")
    # The command names a file beside the program. An interface to others does not say which files there are.
    if words.options is OPTIONS["command"] and not {"..", ":"} & {*Path(path).parts, *path} and os.path.exists(path):
        named = path if os.path.basename(path) == path else f"{path}:{path}"
        return f"a sandbox has files of its own: add --file {shlex.quote(named)}"
    return NO_FILE.format_map(words.options) + (NO_DIRECTORY if os.path.dirname(path) else "")


Advice = Callable[[re.Match[str], Iterable[str]], str]


# The type, a pattern of the message, and the hint, in which {…} is an option as option_names.OPTIONS has it. The first
# that fits and has a hint counts.
RULES: tuple[tuple[str, str, str | Advice], ...] = (
    ("NameError", r"name '__file__' is", "the program is in no file: files of a sandbox are in /work"),
    ("NameError", r".*name '(?P<name>[^']+)' is not defined", _missing_name),
    ("UnboundLocalError", r".*variable '(?P<name>[^']+)'", _unassigned),
    *((kind, r".*\bcoroutine\b", NOT_AWAITED) for kind in ("TypeError", "AttributeError")),
    ("AttributeError", r"The '\.style' accessor requires (?P<name>\w+)", _missing_module),  # of pandas
    ("AttributeError", r".*'(?P<object>[^']+)' (?:object )?has no attribute '(?P<name>[^']+)'", _missing_attribute),
    ("ModuleNotFoundError", r"No module named '(?P<name>[^']+)'", _missing_module),
    ("ImportError", r"(?:.*: )?No module named '?(?P<name>[\w.]+)(?:'\)|$)", _missing_module),  # of python3 -m
    ("ImportError", OPTIONAL, _missing_module),
    *((kind, TO_INSTALL, _to_install) for kind in ("ImportError", "ModuleNotFoundError", "ModuleUpgradeRequiredError")),
    ("ImportError", r"cannot import name .*circular import", "two modules import each other: import inside a function"),
    ("ImportError", r"cannot import name .*\(/(?:work|output)/", "the file has no such name: define it there"),
    ("ImportError", r"cannot import name '(?P<name>[^']+)'", "this version of the package has no such name"),
    ("CalledProcessError", r"Command .*\bpip3?\b[' ,]+install\b(?P<rest>.*)' returned", _not_installed),
    ("KeyError", r"(?:.*\[)?'(?P<name>[^']+)'", _missing_key),
    ("KeyError", r"", "test with `in`, or use .get(key)"),
    ("IndexError", r"", "the sequence is shorter than expected: check len() first"),
    ("FileNotFoundError", r".*No such file or directory: '(?P<path>[^']+)'$", _missing_file),
    ("FileNotFoundError", IN_DIRECTORY, NO_FILE + NO_DIRECTORY),  # for a kernel
    ("FileNotFoundError", r"", NO_FILE),
    ("Exception", r"File `'.*'` not found", NO_FILE),  # %run
    ("IOException", r".*No files found that match the pattern", NO_FILE),  # of duckdb
    ("ValueError", r"'.*' was not found in history, as a file, url", NO_FILE),  # %load
    ("OSError", r".*\[Errno 30\]", "only /work, /output and /tmp can be written to"),
    ("OSError", r".*\[Errno 97\]", f"{NO_NETWORK}; it has no loopback either: {{loopback}}"),
    ("URLError", r".*\[Errno (-\d|97|101)\]", NO_NETWORK),
    ("gaierror", r"", NO_NETWORK),
    ("ConnectionError", r".*NameResolutionError|.*NewConnectionError", NO_NETWORK),
    ("ConnectError", r".*\[Errno (-\d|97|101)\]", NO_NETWORK),
    *(
        (kind, NOT_FOUND, NO_NETWORK)
        for kind in (
            *("ConnectionError", "ClientConnectorError", "ClientConnectorDNSError", "OperationalError"),
            *("OSError", "Error", "IOException"),
        )
    ),
    *((kind, PRIVATE, "the host is in a private network: {private}") for kind in REFUSED),
    *((kind, ELSEWHERE, "the name leads to this machine, or to none: use another name") for kind in REFUSED),
    *((kind, r".*403[: ].*is not among the hosts of this sandbox", NOT_ALLOWED) for kind in REFUSED),
    ("PermissionError", r".*\[Errno 1\]", "the sandbox forbids this system call"),
    ("OSError", r".*\[Errno 27\].*: 'standard input'$", "{file_size}"),
    ("OSError", r".*\[Errno 28\].*: 'standard input'$", "{room}"),
    ("OSError", r".*\[Errno 27\]", "the file is too large: write less, or {file_size}"),
    ("OSError", r".*\[Errno 28\]", "the file system is full: write less, or {room}"),
    ("OSError", r"\d+ requested and \d+ written$", NOT_WRITTEN),  # of numpy
    *((kind, NO_SPACE, NOT_WRITTEN) for kind in ("ComputeError", "IOException")),  # of polars and duckdb
    ("BlockingIOError", r".*\[Errno 11\]", "too many processes or threads: start fewer, or {processes}"),
    (
        "RuntimeError",
        r"can't start new thread",
        "too many threads, or no memory for one more: start fewer, or {processes}",
    ),
    (
        "RuntimeError",
        r"(asyncio\.run\(\) cannot be called from a running|This) event loop",
        "an event loop runs already: write `await` before the coroutine",
    ),
    ("_ArrayMemoryError", r"", "hold less at a time, or {memory}"),  # numpy's
    ("MemoryError", r"", "hold less at a time, or {memory}"),
    ("Crash", r"SIG(SEGV|BUS|ILL|FPE|ABRT)", "compiled code failed: an extension module, or ctypes"),
    ("Timeout", r"", "do less, or {time}"),
    ("EOFError", r"EOF when reading a line", "standard input has no further line: {stdin}"),
    ("TclError", r"no display name and no \$DISPLAY", NO_SCREEN),
    ("error", r"setupterm: could not find terminal", NO_SCREEN),  # of curses
    (
        "RecursionError",
        r".*(?:during (?:compilation|ast construction)|while traversing)",
        "an expression or a block is nested too deeply for Python: divide it",
    ),
    ("RecursionError", r"", "a function calls itself without an end, or too deeply"),
    ("ZeroDivisionError", r"", "the divisor is zero: test it first"),
    ("IndentationError", r"unexpected indent", "indent it as the line above; if all are indented: textwrap.dedent()"),
    ("IndentationError", r"", "indent with four spaces throughout"),
    ("SyntaxError", r"'await' outside function", f"{AWAIT}; at the top level {{notebook}}"),
    ("SyntaxError", r"'await' outside", AWAIT),
    ("SyntaxError", r"invalid syntax", _no_python),
    ("SyntaxError", r"unexpected character after line continuation", _escaped),
    (
        "SyntaxError",
        r"Non-UTF-8 code|\(unicode error\) 'utf-8' codec|unknown encoding|encoding problem|.*is not a text encoding",
        "save it as UTF-8, or name its encoding in the first line, as in '# coding: latin-1'",
    ),
    ("SyntaxError", r".*never closed", "a bracket is opened and not closed"),
    ("TypeError", r".*unsupported operand type", "convert one of the two first: int(), float() or str()"),
    ("TypeError", r".*'NoneType' object is not", "the value is None: a call before has returned nothing"),
    ("JSONDecodeError", r"", "the text is not JSON: print its beginning"),
    ("UnicodeDecodeError", r"", "the bytes are in another encoding: open(…, encoding=…)"),
)

# The other hints are about any Python.
ABOUT_SANDBOX = re.compile("[{]|sandbox|/work")
NEEDED = "semaphores, shared memory and pools of processes need {container}: use threads without it"
OWN_FILES = "without {container}, files are in the directories below $PYSBX_DIRECTORY, such as $TMPDIR"
# Those of a process without a container, which come first.
OF_A_PROCESS = (
    ("PermissionError", r"\[Errno 13\] Permission denied(?:: '(?:/psm_|/dev/shm/).*)?$", NEEDED),
    ("PermissionError", r"\[Errno 13\]", OWN_FILES),
    ("OperationalError", r"unable to open database file", OWN_FILES),
)


def hint(
    kind: str, message: str, names: Iterable[object] = (), *, contained: bool = True, wrapped: bool = False
) -> str | None:
    """Return the remedy for an error, or None if there is no useful one.

    Args:
        kind: its type.
        message: its text.
        names: those that a missing name may mean.
        contained: whether there is a container.
        wrapped: whether another error came of it: then only a remedy that is about the sandbox is useful.
    """
    known = [name for name in names if isinstance(name, str)]
    short = kind.rpartition(".")[2]
    if short in OF_NOTEBOOKS:
        return _in_notebook(message)
    message = message[:MAX_MESSAGE]
    for rule, pattern, advice in RULES if contained else (*OF_A_PROCESS, *RULES):
        match = re.match(pattern, message, re.DOTALL) if rule == short else None
        if match is not None and not (wrapped and isinstance(advice, str) and not ABOUT_SANDBOX.search(advice)):
            found = advice.format_map(current().options) if isinstance(advice, str) else advice(match, known)
            if found:
                return found
    return None


def of_kernel(options: Options, directory: Path) -> dict[str, list[Any]]:
    """Return the hints for a Jupyter kernel, which cannot ask this program: rules, and names of known modules.

    A rule is a type, a pattern of the message, and a hint in which {0} is the pattern's first group.

    Args:
        options: those of the kernel.
        directory: that of the notebook.
    """
    words = dict(KERNEL)
    # Jupyter's code names files beside the notebook. The whole home, with its keys, is more than a hint may offer.
    shown = any(directory.is_relative_to(Path(mount.source).resolve()) for mount in options.mounts)
    if not shown and directory not in (Path.home(), *Path.home().parents) and not {":", "{"} & {*str(directory)}:
        words["files"] = words["files"].replace("DIR", shlex.quote(str(directory)))
    own = sorted(path.stem for path in itertools.islice(directory.glob("*.py"), MAX_NAMES))
    rules = _of_mounts(options, directory)
    if own:
        text = f"module '{{0}}' is a file beside the notebook: {words['own'].format(directory)}"
        rules.append(("ModuleNotFoundError", rf"No module named '({'|'.join(map(re.escape, own))})[.']", text))
    missing = "|".join(name for name in sorted(sys.stdlib_module_names) if name not in PACKAGES)
    rules.append(("ModuleNotFoundError", rf"No module named '({missing})'", f"module '{{0}}' {PART_OF_PYTHON}"))
    for name, package in (*PACKAGES.items(), (rf"(?!_|(?:{'|'.join(MANY)})\b)\w+", "{0}")):
        text = f"module '{{0}}' is not in the sandbox: {words['package'].format(package)}"
        rules.append(("ModuleNotFoundError", rf"No module named '({name})'", text))
        rules.append(("ImportError", rf".*`Import ({name})`", text))
    part = rf"No module named '((?!_|(?:{'|'.join(MANY)})\b)\w+\.[\w.]+)'"
    rules.append(("ModuleNotFoundError", part, f"module '{{0}}' {NO_PART}"))
    text = f"module 'ipympl' is not in the sandbox: {words['package'].format('ipympl')}"
    rules.append(("RuntimeError", r"'(?:widget|ipympl)' is not a recognised", text))  # %matplotlib
    rules.append(("ImportError", OPTIONAL, f"module '{{0}}' is not in the sandbox: {words['package']}"))
    for kind in ("ImportError", "ModuleNotFoundError", "ModuleUpgradeRequiredError"):
        rules.append((kind, TO_INSTALL, OUTSIDE.format(words["package"].format("{0}"))))
    for kind, pattern, advice in RULES:
        # Cells may use await, and asyncio.run() fails in them.
        if not isinstance(advice, str) or "{notebook}" in advice or not ABOUT_SANDBOX.search(advice):
            continue
        if not is_followed(advice.format_map(current().options), options):
            rules.append((kind, pattern, advice.format_map(words)))
    return {"rules": rules, "known": [*own, *KNOWN_MODULES]}


def _of_mounts(options: Options, directory: Path) -> list[tuple[str, str, str]]:
    """Return rules of a kernel for files that are missing, or cannot be written, where it shows the host's."""
    rules = []
    sources = [(Path(mount.source).resolve(), mount) for mount in options.mounts]
    for source, mount in sorted(sources, key=lambda one: len(one[0].parts), reverse=True):  # the inner ones first
        inner = directory.is_relative_to(source)  # then code works there
        here = "(?![/'])|" if inner else ""
        path = rf"'?(?:{here}{re.escape(mount.target)}(?:[/']|$))"
        # A file that is missing here is missing outside too.
        rules += [("FileNotFoundError", f".*: {path}", ""), ("Exception", f"File `{path}", "")]
        if not mount.readonly:
            continue
        again = AGAIN.format(f"--mount {shlex.quote(f'{mount.source}:{mount.target}:rw')}")
        text = f"'{mount.target}' can only be read: {again}; or write to /work, which ends with the kernel"
        rules.append(("OSError", rf".*\[Errno 30\].*: {path}", text))
        if inner:
            rules.append(("OperationalError", r"unable to open database file|attempt to write a readonly", text))
    return rules


def is_followed(found: str, options: Options) -> bool:
    """Tell whether a program does already what a hint tells it to do.

    Args:
        found: the hint.
        options: those of the program.
    """
    from pysbx.options.requirements import name_of  # noqa: PLC0415 (few hints need it)

    words = current()
    advice = [words.package(name_of(one)) for one in options.dependencies]
    if options.allow_network.kind == "hosts":
        advice.append(words.options["network"])
    return found.lower().endswith(tuple(map(str.lower, advice)))


def next_one(found: str) -> str | None:
    """Return what else may help if a program does already what a hint tells it to do, or None."""
    return NO_NAMES if found == NO_NETWORK.format_map(current().options) else None


def _shown_by(document: str) -> str:
    """Return the traceback of the last error in the JSON of a notebook or of an output, or the text as it is.

    See https://nbformat.readthedocs.io/en/latest/format_description.html#error.
    """
    if not document.lstrip().startswith("{"):
        return document
    import json  # noqa: PLC0415 (few texts are such)

    try:
        found = json.loads(document)
    except (ValueError, RecursionError):
        return document
    cells = found.get("cells")
    inner = [cell.get("outputs") for cell in cells if isinstance(cell, dict)] if isinstance(cells, list) else [[found]]
    outputs = [one for outputs in inner if isinstance(outputs, list) for one in outputs if isinstance(one, dict)]
    errors = [one for one in outputs if one.get("output_type") == "error" and isinstance(one.get("traceback"), list)]
    return "\n".join(map(str, errors[-1]["traceback"])) if errors else document


def explain(output: str, names: Iterable[str] = ()) -> ErrorReport | None:
    """Return the facts of the last traceback in an output, from a terminal or a notebook, with colours or without.

    Args:
        output: what Python or a notebook has printed, or the JSON of an executed notebook.
        names: names to look for a closest one among.
    """
    found = _last_error(output)
    return found and replace(found, hint=hint(found.type, found.message, names))


def _last_error(output: str) -> ErrorReport | None:
    """Return the facts of the last traceback in an output, without a hint: see explain()."""
    lines = COLOUR.sub("", _shown_by(output)).rstrip().splitlines()
    text = "\n".join(lines)
    for index in range(len(lines) - 1, -1, -1):
        match = LAST_LINE.match(lines[index])
        if match is None or not re.search(r"(Error|Exception|Warning|Interrupt|Exit|StopIteration)$", match["type"]):
            continue
        message = "\n".join([match["message"] or "", *lines[index + 1 :]]).strip()
        before = "\n".join(lines[:index])
        places = [int(found["line"] or found["cell"]) for found in PLACE.finditer(before)]
        arrows = [int(number) for number in ARROW.findall(text)]
        line = (arrows or places or [None])[-1]  # type: ignore[list-item]
        return ErrorReport(match["type"], message, line, None)
    return None
