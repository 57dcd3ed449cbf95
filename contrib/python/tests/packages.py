"""Packages for tests: wheels, projects whose build needs nothing else, and what hostile ones leave."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import tarfile
import zipfile
from pathlib import Path

# A build backend that lies in its project: see PEP 517.
BACKEND = """
import os, zipfile

def build_wheel(directory, config_settings=None, metadata_directory=None):
    name = "{name}-{version}-py3-none-any.whl"
    about = "{name}-{version}.dist-info"
    open("written-by-the-build", "w").close()
    with zipfile.ZipFile(os.path.join(directory, name), "w") as wheel:
        wheel.write("{name}.py")
        wheel.writestr(f"{{about}}/METADATA", "Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n")
        wheel.writestr(f"{{about}}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{{about}}/RECORD", "")
    return name
"""


def make_project(folder: Path, name: str, source: str, version: str = "1.0") -> Path:
    """Write a project with one module."""
    folder.mkdir(exist_ok=True)
    table = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    (folder / "pyproject.toml").write_text(f'{table}[project]\nname = "{name}"\nversion = "{version}"\n')
    (folder / "backend.py").write_text(BACKEND.format(name=name, version=version))
    (folder / f"{name}.py").write_text(source)
    return folder


def make_wheel(folder: Path, name: str, version: str, source: str, requires: str = "", *, program: str = "") -> Path:
    """Write a wheel with one package, whose main() may be a program too."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    about = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += f"Requires-Dist: {requires}\n" if requires else ""
    files = {
        f"{name}/__init__.py": source,
        f"{about}/METADATA": metadata,
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    if program:
        files[f"{about}/entry_points.txt"] = f"[console_scripts]\n{program} = {name}:main\n"
    record = [f"{about}/RECORD,,"]
    with zipfile.ZipFile(path, "w") as wheel:
        for file, text in files.items():
            wheel.writestr(file, text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            record.append(f"{file},sha256={digest},{len(text)}")
        wheel.writestr(f"{about}/RECORD", "\n".join(record) + "\n")
    return path


def make_source(folder: Path, name: str, hostile: str) -> Path:
    """Write a source archive of one module, whose build executes code where /.dependencies is the set's directory."""
    about = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
    table = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    # pip runs the backend more than once.
    once = f"if not os.path.lexists('/tmp/once'):\n    open('/tmp/once', 'w').close()\n    exec({hostile!r})\n"
    files = {
        "backend.py": f"{BACKEND.format(name=name, version='1.0')}\n{once}",
        f"{name}.py": "",
        "pyproject.toml": table,
        "PKG-INFO": about,
    }
    path = folder / f"{name}-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for file, text in files.items():
            member = tarfile.TarInfo(f"{name}-1.0/{file}")
            member.size, member.mtime = len(text.encode()), 1 << 30
            archive.addfile(member, io.BytesIO(text.encode()))
    return path


def make_deep(top: Path, depth: int) -> None:
    """Make directories within each other, as deep as no path is long."""
    here = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("directory", dir_fd=here)
        above, here = here, os.open("directory", os.O_RDONLY, dir_fd=here)
        os.close(above)
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
