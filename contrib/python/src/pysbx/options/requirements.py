"""Requirements: packages by name and version, projects of the host, files that list them, and those of a script.

packaging parses the form of PEP 508. A requirement in normal form is either that or the absolute path of a project.
See https://packaging.python.org/en/latest/specifications/dependency-specifiers/ and inline-script-metadata/.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from pysbx.errors import SandboxOptionError
from pysbx.options.declaration import listed, wrong
from pysbx.options.mount import absolute_path

NAME = "dependencies"
EXAMPLES = "such as 'pandas>=2', './project' or '-r requirements.txt'"
FETCH = ": download what the URL names, or clone it, and give its path"
HASHES = re.compile(r"(?:\s+--hash=sha(?:256|384|512):[0-9a-f]+)+\Z")
PROJECT = re.compile(r"(?P<path>.+?)(?P<extras>\[[\w\s,.-]+\])?", re.DOTALL)
BEGINNINGS = ("./", "../", "/", "~/")
ARCHIVES = (".whl", ".tar.gz", ".zip")
FILE = re.compile(r"(?:-r|--requirement)[\s=]*(?P<path>\S.*)")
EDITABLE = re.compile(r"(?:-e|--editable)[\s=]*(?P<project>\S.*)")
COMMENT = re.compile(r"(?:^|\s)#.*$")
MAX_DEPTH = 10
# Characters of a file, of a requirement, and of the metadata of a script and a line of it. A key of many parts, which
# is one line, takes time that grows with its square.
# Options of pip in files, and those of the sandbox in the command and in Python.
INSTEAD = {
    **dict.fromkeys(("-i", "--index-url"), "--index-url, or index_url"),
    "--extra-index-url": "--extra-index-url, or extra_index_urls",
    **dict.fromkeys(("-f", "--find-links"), "--wheels, or wheels"),
}
MAX_FILE, MAX_REQUIREMENT, MAX_BLOCK, MAX_LINE = 1 << 22, 1 << 14, 1 << 16, 1 << 13
MAX_PYTHON = 1000
# The first line of a block of inline script metadata, and the last.
BEGIN, END = re.compile("# /// (?P<type>[a-zA-Z0-9-]+)"), "# ///"


@dataclass(frozen=True)
class Script:
    """The metadata of a script.

    Attributes:
        dependencies: requirements in normal form.
        python: the versions of Python that it runs with, or "".
    """

    dependencies: tuple[str, ...] = ()
    python: str = ""

    def check_python(self, version: tuple[int, int] | None) -> None:
        """Refuse a Python that the script does not run with.

        Args:
            version: (major, minor) of the sandbox's Python, or None if that is unknown.

        Raises:
            ValueError: no release of this version is allowed.
        """
        if not self.python or version is None:
            return
        allowed = SpecifierSet(self.python, prereleases=True)
        releases = [sys.version.split()[0]] if version == sys.version_info[:2] else ["0", "999"]
        if not any(allowed.contains(r if "." in r else f"{version[0]}.{version[1]}.{r}") for r in releases):
            have = f"{version[0]}.{version[1]}"
            raise ValueError(f"the script requires Python {self.python}, and the sandbox has {have}: name another one")


def is_project(requirement: str) -> bool:
    """Tell whether a requirement in normal form is a project of the host."""
    return requirement.startswith("/")


def split_project(requirement: str) -> tuple[str, str]:
    """Return the path of a project and its extras, which are "" or in brackets."""
    found = PROJECT.fullmatch(requirement)
    assert found is not None, "a requirement is not empty"
    return found["path"], found["extras"] or ""


def _extras(names: Iterable[str]) -> str:
    names = sorted({canonicalize_name(name.strip()) for name in names if name.strip()})
    return f"[{','.join(names)}]" if names else ""


def _project(text: str) -> str:
    """Return the normal form of a path: absolute, with extras."""
    path, extras = split_project(text)
    path = absolute_path(os.path.expanduser(path))
    if os.path.isdir(path):
        there = any(os.path.isfile(os.path.join(path, name)) for name in ("pyproject.toml", "setup.py"))
    else:
        there = path.endswith(ARCHIVES) and os.path.isfile(path)
    if not there or not path.isprintable():
        what = "is no directory with a pyproject.toml or setup.py, and no archive with a name such as x.whl"
        raise wrong(NAME, f"{text!r} {what}")
    return f"{path}{_extras(extras[1:-1].split(','))}"


def normalise(requirement: object) -> str:
    """Return a requirement in its normal form.

    Raises:
        SandboxOptionError: it is neither a name with versions, nor a project of the host. Options of pip and URLs are
            refused.
    """
    if not isinstance(requirement, str):
        raise wrong(NAME, f"{requirement!r} is not a requirement {EXAMPLES}")
    text = requirement.strip()
    if len(text) > MAX_REQUIREMENT:
        raise wrong(NAME, f"{text:.80}...: longer than {MAX_REQUIREMENT} characters")
    if text in (".", "..") or text.startswith(BEGINNINGS):
        return _project(text)
    hashes = HASHES.search(text)
    try:
        found = Requirement(text[: hashes.start()] if hashes else text)
    except (ValueError, RecursionError) as error:  # of a version too long, of a marker with brackets within each other
        remedy = FETCH if "://" in text else ""
        raise wrong(NAME, f"{requirement!r:.200} is not a requirement {EXAMPLES}{remedy}") from error
    if found.url:
        parts = urlsplit(found.url)
        if parts.scheme == "file" and not parts.netloc:
            return _project(unquote(parts.path) + _extras(found.extras))
        raise wrong(NAME, f"{requirement!r} is not a requirement {EXAMPLES}{FETCH}")
    sums = "".join(f" {part}" for part in sorted(hashes.group().split())) if hashes else ""
    marker = f" ; {found.marker}" if found.marker else ""
    return f"{canonicalize_name(found.name)}{_extras(found.extras)}{found.specifier}{marker}{sums}"


def name_of(requirement: str) -> str:
    """Return the name of the package in a requirement in normal form; "" for a project, whose name is in its files."""
    return "" if is_project(requirement) else re.split(r"[^a-z0-9-]", requirement, maxsplit=1)[0]


def is_met(requirement: str, version: str) -> bool:
    """Tell whether a version of a package is what a requirement in normal form, of a name, asks for."""
    hashes = HASHES.search(requirement)
    found = Requirement(requirement[: hashes.start()] if hashes else requirement)
    try:
        return found.marker is not None or not found.specifier or found.specifier.contains(version, prereleases=True)
    except ValueError:  # the version is none
        return False


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a requirements file with their numbers, without comments, and joined where one continues."""
    try:
        with path.open("rb") as file:  # which may be a pipe
            content = file.read(MAX_FILE + 1)
        text = content.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise wrong(NAME, f"'{path}': {reason}") from error
    if len(content) > MAX_FILE:
        raise wrong(NAME, f"'{path}': more than {MAX_FILE} bytes")
    pending, first = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        first = first if pending else number
        if line.endswith("\\") and not line.lstrip().startswith("#"):
            pending += f"{line[:-1]} "
            continue
        whole, pending = COMMENT.sub("", pending + line).strip(), ""
        if whole:
            yield first, whole
    if pending.strip():
        yield first, pending.strip()


def _advice(line: str) -> str:
    """Return what to do instead of writing an option of pip into a file of requirements."""
    name = re.split(r"[\s=]", line, maxsplit=1)[0]
    if name in ("-c", "--constraint"):
        return "write the versions into the requirements"
    return f"give the sandbox {INSTEAD[name]}" if name in INSTEAD else "it belongs to pip's configuration"


def read_file(path: Path, depth: int = 0, done: set[str] | None = None) -> Iterator[str]:
    """Yield the requirements of a file in normal form. As with pip, its relative paths begin in the current directory.

    Raises:
        SandboxOptionError: it cannot be read, or a line is not allowed; the text names the line.
    """
    if depth > MAX_DEPTH:
        raise wrong(NAME, f"'{path}': more than {MAX_DEPTH} files that name each other")
    # Files that name each other again and again are read once.
    done = set() if done is None else done
    if (real := os.path.realpath(path)) in done:
        return
    for number, line in _lines(path):
        if other := FILE.fullmatch(line):
            yield from read_file(path.parent / other["path"], depth + 1, done)
            continue
        editable = EDITABLE.fullmatch(line)
        if line.startswith("-") and not editable:
            raise wrong(NAME, f"'{path}', line {number}: {line!r}: {_advice(line)}")
        try:
            yield normalise(editable["project"] if editable else line)
        except SandboxOptionError as error:
            raise wrong(NAME, f"'{path}', line {number}: {str(error).partition(': ')[2]}") from error
    done.add(real)


def normalise_all(requirements: object) -> tuple[str, ...]:
    """Return requirements in their normal form, sorted, each once. "-r FILE" stands for those of a file."""
    found: set[str] = set()
    for item in listed(NAME, requirements, f"strings {EXAMPLES}"):
        file = FILE.fullmatch(item.strip()) if isinstance(item, str) else None
        found.update(read_file(Path(file["path"])) if file else [normalise(item)])
    return tuple(sorted(found))


def read_toml(text: str) -> dict[str, Any]:
    """Return the content of a TOML document.

    Raises:
        ValueError: it is malformed, or has too many levels.
    """
    if sys.version_info >= (3, 11):
        import tomllib  # noqa: PLC0415 (rarely needed)
    else:
        import tomli as tomllib  # noqa: PLC0415
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("TOML of too many levels") from None


def _blocks(source: str) -> Iterator[list[str]]:
    """Yield the lines of each block "script" of inline script metadata, without those around them.

    As with the regular expression of the specification, a block goes on to the last line END of the comment, and lines
    that no END follows are none. But the time grows with the text only.
    """
    lines = source.split("\n")
    number = 0
    while number < len(lines):
        first, begin = number, BEGIN.fullmatch(lines[number])
        number += 1
        if begin is None:
            continue
        last = 0
        while number < len(lines) and (lines[number] == "#" or lines[number].startswith("# ")):
            last = number if lines[number] == END else last
            number += 1
        if last > first + 1:
            number = last + 1
            if begin["type"] == "script":
                yield lines[first + 1 : last]


def of_script(source: str) -> Script:
    """Return the metadata in the comments of a script.

    Raises:
        ValueError: the metadata are malformed, or larger than bounds.
    """
    blocks = list(_blocks(source))
    if not blocks:
        return Script()
    if len(blocks) > 1:
        raise ValueError("the script has more than one block '# /// script'")
    text = "\n".join(line[2:] for line in blocks[0]) + "\n"
    if len(text) > MAX_BLOCK or max(map(len, blocks[0])) > MAX_LINE:
        raise ValueError(f"the block '# /// script' has more than {MAX_BLOCK} characters, or {MAX_LINE} in a line")
    try:
        return _of_block(text)
    except RecursionError:
        raise ValueError("the block '# /// script' has too many levels") from None


def _of_block(text: str) -> Script:
    """Return the metadata in a block; see of_script."""
    try:
        content = read_toml(text)
    except ValueError as error:
        raise ValueError(f"the block '# /// script' is not TOML: {error}") from error
    python = content.get("requires-python", "")
    try:
        SpecifierSet(python if len(python) <= MAX_PYTHON else "longer")
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"requires-python of the script: {python!r:.200} is not such as '>=3.11'") from error
    wanted = content.get("dependencies", [])
    if not isinstance(wanted, list):
        raise ValueError(f"dependencies of the script: {wanted!r:.200} is not a list")
    requirements = {normalise(item) for item in wanted}
    # The script may be a stranger's, and an installed project could be read in the sandbox.
    if projects := [item for item in requirements if is_project(item)]:
        raise ValueError(f"dependencies of the script: '{projects[0]}' is a path of the host: name it with --with")
    return Script(tuple(sorted(requirements)), python)
