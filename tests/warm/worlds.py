"""A package tree, an environment and a configuration for mutate.py, made from a seed."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import venv
import zipfile
from pathlib import Path
from typing import Any

import looks
from access import CHANGES, ROOT_ALONE, ROOTLESS, Container, Runs

TIME = 10**9
# It reports what the imports have seen, and what the program itself sees.
SAY = """import gc, json, os, resource, socket, sys, report
live = [sorted(os.environ.items()), sys.path, sys.argv, os.getcwd(), socket.gethostname(), tuple(sys.flags),
        sorted(os.sched_getaffinity(0)), os.umask(0), sorted(os.listdir('/dev')),
        [resource.getrlimit(getattr(resource, n)) for n in sorted(dir(resource)) if n.startswith('RLIMIT_')]]
print(json.dumps([report.seen, live, report.fresh]))
print('warm' if gc.get_freeze_count() else 'cold')"""
REPORT = """import importlib
seen, fresh = {{}}, {{}}
for name in {names!r}:
    try:
        module = importlib.import_module(name)
        if {fresh!r}:
            fresh[name] = repr(module.seen)
            continue
        seen[name] = [getattr(module, 'mark', None), repr(module.seen), module.__file__]
    except Exception as error:
        seen[name] = repr(error)
"""
MODULE = """import os
mark = {mark!r}
{imports}
try:
    seen = {look}
except Exception as error:
    seen = f"{{type(error).__name__}} {{getattr(error, 'errno', '')}}"
"""
VERSIONS = 4
KINDS = {"files": 5, "state": 2, "compared": 2, "random": 1}
"""Worlds with their weights: modules look at files above all, at the state of the process, or draw random bytes."""


def make_wheels(directory: Path) -> None:
    """Make wheels of the package demo, whose versions differ in their files. Version 4 is a module, not a package."""
    directory.mkdir()
    for number in range(1, VERSIONS + 1):
        about = f"demo-{number}.dist-info"
        files = {
            f"{about}/METADATA": f"Metadata-Version: 2.1\nName: demo\nVersion: {number}\n",
            f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        if number == VERSIONS:
            files["demo.py"] = f"version = {number}\nmark = 'demo{number}'\n"
        else:
            files["demo/__init__.py"] = f"version = {number}\nmark = 'demo{number}'\n"
            files["demo/data.txt"] = f"data {number}"
        if number > 1:
            files[f"{about}/entry_points.txt"] = f"[demo]\nentry{number} = demo:version\n"
        if number == 2:
            files["demo/extra.py"] = f"version = {number}\n"
        files[f"{about}/RECORD"] = "".join(f"{name},,\n" for name in (*files, f"{about}/RECORD"))
        with zipfile.ZipFile(directory / f"demo-{number}-py3-none-any.whl", "w") as wheel:
            for name, content in files.items():
                wheel.writestr(zipfile.ZipInfo(name), content)


class Tree:
    """Directories of modules and data, and the ways to make their files."""

    def __init__(self, top: Path, choice: random.Random, kind: str) -> None:
        """Make them; `site` is where pip installs to: that of a virtual environment. `kind` is one of KINDS."""
        self.top, self.choice = top, choice
        self.first, self.second, self.data = (top / n for n in ("first", "second", "data"))
        venv.create(top / "venv", symlinks=True)
        self.interpreter = top / "venv" / "bin" / "python"
        [self.site] = (top / "venv" / "lib").glob("*/site-packages")
        for directory in (self.first, self.second, self.data, self.data / "sub"):
            directory.mkdir(parents=True)
            directory.chmod(0o755)
        for name in ("a", "b", "sub/c"):
            self.write(self.data / name, self.word())
        (self.data / "link").symlink_to("a")
        (self.data / "directory-link").symlink_to("sub")
        sources = {"files": (7, 4, looks.rows), "state": (0, 2, looks.state_rows), "random": (0, 1, looks.random_rows)}
        sources["compared"] = (0, 2, looks.compared_rows)
        modules, number_of_rows, find = sources[kind]
        self.names = [f"m{number}" for number in range(modules)]
        self.rows = [f"r{number}" for number in range(number_of_rows)]
        for number in range(len(self.names)):
            self.write(self.module_path(number), self.module_text(number))
        self.chosen = choice.sample(find(), len(self.rows))
        for name, row in zip(self.rows, self.chosen, strict=True):
            self.write(self.second / f"{name}.py", f"# {row.name}\n{row.text}\nseen = got\n")
        report = REPORT.format(names=[*self.names, *self.rows], fresh=kind == "random")
        self.write(self.second / "report.py", report)

    def module_path(self, number: int) -> Path:
        """Return the path of a module; some are packages."""
        name = self.names[number]
        return self.second / name / "__init__.py" if number % 4 == 3 else self.second / f"{name}.py"

    def module_text(self, number: int) -> str:
        """Return the text of a module, which imports others and looks at something."""
        others = self.choice.sample(self.names[:number], min(number, self.choice.randrange(3)))
        imports = "".join(f"try: import {name}\nexcept ImportError: pass\n" for name in others)
        return MODULE.format(mark=self.word(), imports=imports, look=self.look())

    def look(self) -> str:
        """Return an expression."""
        choice = self.choice
        tables = looks.PATHS, looks.MODULES, looks.PACKAGE, looks.ENVIRONMENT, looks.SURROUNDINGS
        [table] = choice.choices(tables, (6, 2, 1, 2, 3))
        text = choice.choice(table)
        return (
            text.replace("PATH", repr(choice.choice(self.places())))
            .replace("MODULE", choice.choice([*self.names, "absent", "demo", "colorsys"]))
            .replace("NAME", choice.choice(("LOOK_A", "LOOK_B", "LOOK_C")))
            .replace("LIMIT", choice.choice(list(looks.LIMITS)))
        )

    def places(self) -> list[str]:
        """Return the paths in the container that a module may look at."""
        inside = ("a", "b", "absent", "sub", "sub/c", "sub/absent", "link", "directory-link", "directory-link/c")
        modules = ("/first", "/second", f"/second/{self.names[2]}.py", f"/first/{self.names[1]}.py", "/site")
        return ["/data", *(f"/data/{name}" for name in inside), *modules]

    def word(self) -> str:
        """Return a word; all are of one size."""
        return "".join(self.choice.choices("abcdefgh", k=8))

    def write(self, path: Path, text: str) -> None:
        """Write a file in its place. All files have the same time."""
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text)
        path.chmod(0o644)
        os.utime(path, (TIME, TIME))

    def other_text(self, path: Path) -> str:
        """Return a text of the same size for a file: its words are others."""
        text = path.read_text()
        if path.suffix != ".py":
            return self.word()[: len(text)].ljust(len(text), "x")
        before, _, rest = text.partition("mark = '")
        return f"{before}mark = '{self.word()}{rest[8:]}" if rest else text.replace("got", "gOt")


class World:
    """A tree, and the configuration of a container around it."""

    def __init__(self, runs: Runs, place: Path, seed: str, wheels: Path, pip: str | None) -> None:
        """Make it. `pip` is a Python that has pip."""
        self.runs, self.place, self.choice, self.wheels, self.pip = runs, place, random.Random(seed), wheels, pip
        place.mkdir()
        place.chmod(0o755)
        kinds = [kind for kind in KINDS if kind in os.environ.get("MUTATIONS_KINDS", kind)]
        [self.kind] = self.choice.choices(kinds, [KINDS[kind] for kind in kinds])
        self.drawn: set[str] = set()
        """What the starts of this world have drawn."""
        self.tree = Tree(place / "tree", self.choice, self.kind)
        self.changes: dict[str, int] = {}
        self.variables = {"LOOK_A": "one"}
        self.path = ["/first", "/second", "/site"]
        self.limits: dict[str, int] = {}
        self.mounts: dict[str, tuple[str, Path | None]] = {
            f"/{name}": ("bind", getattr(self.tree, name)) for name in ("first", "second", "data", "site")
        }
        self.masked: list[str] = []
        self.volume = 0
        self.version = 0
        self.unpack(self.choice.randint(1, VERSIONS))

    def unpack(self, version: int) -> None:
        """Install a version of the package without pip."""
        with zipfile.ZipFile(self.wheels / f"demo-{version}-py3-none-any.whl") as wheel:
            wheel.extractall(self.tree.site)
        self.version = version

    def upgrade(self, version: int) -> None:
        """Install another version of the package by pip."""
        assert self.pip
        pip = [self.pip, "-m", "pip", "--python", str(self.tree.interpreter), "--disable-pip-version-check"]
        command = [*pip, "install", "--quiet", "--no-index", "--no-deps", "--find-links", str(self.wheels), "--upgrade"]
        environment = os.environ | {"HOME": str(self.place), "PIP_ROOT_USER_ACTION": "ignore"}
        subprocess.run([*command, f"demo=={version}"], env=environment, check=True, capture_output=True)
        self.version = version

    def container(self) -> Container:
        """Return the container of the present state."""
        container = Container(self.runs.base)
        container.config["hostname"] = "box"
        container.temporary("/mnt")
        container.mount("/secret", self.runs.volumes[self.volume].path)
        for destination, (kind, source) in self.mounts.items():
            if kind == "bind":
                container.mount(destination, str(source))
            else:
                container.temporary(destination, "ro")
        container.variables(f"PYTHONPATH={':'.join(self.path)}", *(f"{n}={v}" for n, v in self.variables.items()))
        container.process["args"] = ["python3", "-c", SAY]
        container.config["annotations"] = {"run.pysbx.preload": "report"}
        for name, number in self.limits.items():
            container.limit(name, number)
        container.linux.setdefault("maskedPaths", []).extend(self.masked)
        for change, number in self.changes.items():
            CHANGES[change](container, number, self.runs.volumes[0].path)
        return container

    def run(self, mode: str) -> tuple[str, str]:
        """Run the program. Return its output, and whether it was warm."""
        said, start = self.runs.run(self.container(), self.place, mode)
        if self.kind != "random" or said.startswith("exit code"):
            return said, start
        drawn = json.loads(said)[2].values()
        repeated = self.drawn.intersection(drawn)
        self.drawn.update(drawn)
        return f"repeated: {self.tree.chosen[0].name}" if repeated else "new numbers", start

    def end(self) -> None:
        """Remove all files."""
        shutil.rmtree(self.place, ignore_errors=True)


def possible_changes() -> list[str]:
    """Return the names of the changes of access.py that can be made here."""
    left_out = {*looks.LEFT_OUT, *looks.STATE_CHANGES} - {"umask", "oom", "ioprio", "scheduler", "limit"}
    return [n for n in CHANGES if n not in left_out and not (ROOTLESS and n in ROOT_ALONE) and n != "statvfs"]


def state_changes() -> list[str]:
    """Return the names of those that change the state of the process and its surroundings."""
    return [n for n in looks.STATE_CHANGES if not (ROOTLESS and n in ROOT_ALONE)]


def describe_difference(one: str, two: str) -> str:
    """Return the parts of two reports that differ."""
    try:
        (seen, live, _), (other_seen, other_live, _) = json.loads(one), json.loads(two)
    except ValueError:
        return f"{one[-1500:]!r}, cold {two[-1500:]!r}"
    found: list[Any] = [
        f"{name}: {seen.get(name)!r}, cold {other_seen.get(name)!r}"
        for name in sorted({*seen, *other_seen})
        if seen.get(name) != other_seen.get(name)
    ]
    found += [f"live: {a!r}, cold {b!r}" for a, b in zip(live, other_live, strict=True) if a != b]
    return "; ".join(found)
