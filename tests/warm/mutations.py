"""The mutations of mutate.py: a function changes a world, and returns what it did, or None if it has no place for that.

The name of a mutation is that of its function.
"""

from __future__ import annotations

import importlib.util
import marshal
import mmap
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import looks
from worlds import TIME, VERSIONS, World, possible_changes, state_changes

Mutation = Callable[[World], str | None]
VALUES = ("one", "two", "", "three words here")
FLAGS = {
    "PYTHONOPTIMIZE": ("1", "2"),
    "PYTHONHASHSEED": ("0", "42"),
    "PYTHONUTF8": ("0", "1"),
    "PYTHONWARNINGS": ("ignore", "default"),
    "PYTHONDONTWRITEBYTECODE": ("1",),
    "PYTHONNOUSERSITE": ("1",),
    "PYTHONDEVMODE": ("1",),
    "TZ": ("UTC", "ABC-3"),
    "LC_ALL": ("C", "C.UTF-8", "POSIX"),
    "LANG": ("C.UTF-8",),
    "HOME": ("/data", "/root"),
    "OMP_NUM_THREADS": ("1", "2"),
    "TMPDIR": ("/mnt", "/data"),
}


def any_file(world: World) -> Path | None:
    """Return a file of a world that a mutation may change: all but the module that reports."""
    tree = world.tree
    found = [
        path
        for directory in (tree.first, tree.second, tree.data)
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not path.is_symlink() and path.name != "report.py" and path.suffix != ".pyc"
    ]
    return world.choice.choice(found) if found else None


def any_module(world: World) -> Path | None:
    """Return a module that has a mark."""
    found = [p for number in range(len(world.tree.names)) if (p := world.tree.module_path(number)).is_file()]
    return world.choice.choice(found) if found else None


def set_time(path: Path, like: os.stat_result) -> None:
    """Give a file the time of its predecessor."""
    os.utime(path, ns=(like.st_atime_ns, like.st_mtime_ns))


def write_in_place(world: World) -> str | None:
    """Write a text of the same size, and restore the time."""
    if (path := any_file(world)) is None:
        return None
    before, text = path.stat(), world.tree.other_text(path)
    with path.open("r+") as file:
        file.write(text)
    set_time(path, before)
    return f"{path}: other text in place"


def write_by_rename(world: World) -> str | None:
    """Move a file of the same size and time over another."""
    if (path := any_file(world)) is None:
        return None
    new = path.with_name("new")
    new.write_text(world.tree.other_text(path))
    new.chmod(path.stat().st_mode & 0o777)
    set_time(new, path.stat())
    new.rename(path)
    return f"{path}: other text by rename"


def write_by_mapping(world: World) -> str | None:
    """Write a text of the same size through a shared mapping, and restore the time."""
    if (path := any_file(world)) is None or not path.stat().st_size:
        return None
    before, text = path.stat(), world.tree.other_text(path).encode()
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapping:
        mapping[: len(text)] = text
    set_time(path, before)
    return f"{path}: other text by a mapping"


def append(world: World) -> str | None:
    """Make a file longer."""
    if (path := any_file(world)) is None:
        return None
    with path.open("a") as file:
        file.write("\n# more\n")
    return f"{path}: longer"


def truncate(world: World) -> str | None:
    """Empty a file."""
    if (path := any_file(world)) is None:
        return None
    before = path.stat()
    os.truncate(path, 0)
    set_time(path, before)
    return f"{path}: empty"


def touch(world: World) -> str | None:
    """Change a time."""
    if (path := any_file(world)) is None:
        return None
    os.utime(path, (TIME + world.choice.randrange(100), TIME + world.choice.randrange(100)))
    return f"{path}: another time"


def change_mode(world: World) -> str | None:
    """Change the rights."""
    if (path := any_file(world)) is None:
        return None
    path.chmod(world.choice.choice((0o644, 0o755, 0o600, 0o444)))
    return f"{path}: mode {path.stat().st_mode:o}"


def remove(world: World) -> str | None:
    """Remove a file."""
    if (path := any_file(world)) is None:
        return None
    path.unlink()
    return f"{path}: removed"


def make_module(world: World) -> str | None:
    """Make a module again, which may look elsewhere."""
    number = world.choice.randrange(len(world.tree.names))
    path = world.tree.module_path(number)
    if path.is_symlink():
        path.unlink()
    world.tree.write(path, world.tree.module_text(number))
    return f"{path}: made anew"


def make_absent(world: World) -> str | None:
    """Make something that modules look for."""
    data, choice = world.tree.data, world.choice
    path = choice.choice((data / "absent", data / "sub" / "absent", data / "a", data / "b", data / "sub" / "c"))
    if path.exists() or path.is_symlink() or not path.parent.is_dir():
        return None
    if choice.random() < 0.3:
        path.mkdir()
        return f"{path}: a directory"
    world.tree.write(path, world.tree.word())
    return f"{path}: made"


def add_beside(world: World) -> str | None:
    """Make a file that only a look at the directory sees."""
    tree = world.tree
    directory = world.choice.choice([d for d in (tree.first, tree.second, tree.data, tree.site) if d.is_dir()])
    path = directory / f"beside{world.choice.randrange(5)}{world.choice.choice(('', '.py', '.pyc', '.txt'))}"
    tree.write(path, f"mark = '{tree.word()}'\n")
    return f"{path}: made"


def shadow(world: World) -> str | None:
    """Make a module of a name that is found earlier."""
    tree, choice = world.tree, world.choice
    name = choice.choice([*tree.names, *tree.rows, "demo", "colorsys", "json", "absent"])
    if name in ("json", "colorsys") and choice.random() < 0.7:
        return None
    form = choice.choice(("{}.py", "{}/__init__.py", "{}/other.py"))
    path = choice.choice((tree.first, tree.first, tree.second)) / form.format(name)
    if path.exists() or not path.parent.parent.is_dir():
        return None
    tree.write(path, f"mark = '{tree.word()}'\nseen = 'shadow'\n")
    return f"{path}: made"


def link_to_copy(world: World) -> str | None:
    """Put a link to a copy in the place of a file."""
    if (path := any_file(world)) is None:
        return None
    copy = path.with_name(f"{path.name}.copy{world.choice.randrange(100)}")
    copy.write_text(world.tree.other_text(path) if world.choice.random() < 0.5 else path.read_text())
    set_time(copy, path.stat())
    path.unlink()
    path.symlink_to(copy.name)
    return f"{path}: a link to {copy.name}"


def hard_link(world: World) -> str | None:
    """Give a file a second name."""
    if (path := any_file(world)) is None:
        return None
    other = path.with_name(f"{path.name}.hard{world.choice.randrange(100)}")
    if other.exists():
        return None
    os.link(path, other)
    return f"{path}: also {other.name}"


def lead_elsewhere(world: World) -> str | None:
    """Let a link of the data lead elsewhere."""
    choice = world.choice
    path = world.tree.data / choice.choice(("link", "directory-link"))
    target = choice.choice(("a", "b", "sub", "sub/c", "absent", "link", "/data/b", "/second"))
    if path.is_dir() and not path.is_symlink():
        return None
    path.unlink(missing_ok=True)
    path.symlink_to(target)
    return f"{path}: a link to {target}"


def swap(world: World) -> str | None:
    """Let two files change their names."""
    one, two = any_file(world), any_file(world)
    if one is None or two is None or one == two or one.suffix != two.suffix:
        return None
    rest = one.with_name("rest")
    one.rename(rest)
    two.rename(one)
    rest.rename(two)
    return f"{one} and {two}: swapped"


def replace_directory(world: World) -> str | None:
    """Put a copy in the place of a directory, with the same times."""
    tree, choice = world.tree, world.choice
    path = choice.choice((tree.data / "sub", tree.second / tree.names[3], tree.data, tree.second, tree.first))
    if not path.is_dir() or path.is_symlink():
        return None
    old, new = path.with_name("old"), path.with_name("new")
    shutil.copytree(path, new, symlinks=True)
    path.rename(old)
    new.rename(path)
    shutil.rmtree(old)
    return f"{path}: a copy"


def remove_directory(world: World) -> str | None:
    """Remove a directory."""
    tree = world.tree
    path = world.choice.choice((tree.data / "sub", tree.second / tree.names[3], *tree.first.iterdir()))
    if not path.is_dir() or path.is_symlink():
        return None
    shutil.rmtree(path)
    return f"{path}: removed"


def compile_module(world: World) -> str | None:
    """Write the compiled form of a module, which may differ from the source. The interpreter accepts it."""
    if (path := any_module(world)) is None:
        return None
    status, other = path.stat(), world.choice.random() < 0.5
    source = path.read_text() if not other else world.tree.other_text(path)
    form = Path(importlib.util.cache_from_source(str(path)))
    form.parent.mkdir(exist_ok=True)
    try:
        code = compile(source, f"/second/{path.relative_to(world.tree.second)}", "exec")
    except SyntaxError:
        return None
    head = importlib.util.MAGIC_NUMBER + struct.pack("<III", 0, int(status.st_mtime) & 0xFFFFFFFF, status.st_size)
    form.write_bytes(head + marshal.dumps(code))
    return f"{form}: {'another text' if other else 'made'}"


def remove_compiled(world: World) -> str | None:
    """Remove all compiled forms of a directory."""
    path = world.tree.second / "__pycache__"
    if not path.is_dir():
        return None
    shutil.rmtree(path)
    return f"{path}: removed"


def start_file(world: World) -> str | None:
    """Make or remove a file that the start of Python looks for in the directories of PYTHONPATH."""
    name = world.choice.choice(("sitecustomize.py", "usercustomize.py"))
    path = world.choice.choice((world.tree.first, world.tree.second)) / name
    if path.exists():
        path.unlink()
        return f"{path}: removed"
    world.tree.write(path, f"import os, sys\nmark = '{world.tree.word()}'\nsys.customized = mark\n")
    return f"{path}: made"


def set_variable(world: World) -> str | None:
    """Set or remove a variable."""
    name = world.choice.choice(("LOOK_A", "LOOK_B", "LOOK_C", "LOOK_D", "OTHER"))
    if name in world.variables and world.choice.random() < 0.4:
        del world.variables[name]
        return f"variable {name}: none"
    world.variables[name] = world.choice.choice(VALUES)
    return f"variable {name}: {world.variables[name]!r}"


def set_flag(world: World) -> str | None:
    """Set or remove a variable of Python, of libc or of a library."""
    name = world.choice.choice(sorted(FLAGS))
    if name in world.variables and world.choice.random() < 0.6:
        del world.variables[name]
        return f"variable {name}: none"
    world.variables[name] = world.choice.choice(FLAGS[name])
    return f"variable {name}: {world.variables[name]!r}"


def change_path(world: World) -> str | None:
    """Change the order of PYTHONPATH, or add a directory."""
    orders = ("/first /second /site", "/second /first /site", "/site /second", "/data/sub /first /second /site")
    world.path = world.choice.choice(orders).split()
    return f"PYTHONPATH: {world.path}"


def set_limit(world: World) -> str | None:
    """Set or remove a limit."""
    name = world.choice.choice(sorted(looks.LIMITS))
    if name in world.limits and world.choice.random() < 0.4:
        del world.limits[name]
        return f"{name}: as without"
    world.limits[name] = world.choice.randint(*looks.LIMITS[name])
    return f"{name}: {world.limits[name]}"


def change_surroundings(world: World) -> str | None:
    """Make one of the changes of access.py: devices, names, sysctl, umask, groups, user, directory and others."""
    name = world.choice.choice(possible_changes())
    number = world.choice.choice((None, 0, 1))
    if number is None:
        world.changes.pop(name, None)
    else:
        world.changes[name] = number
    return f"{name}: {number}"


def change_state(world: World) -> str | None:
    """Change streams, shared memory, affinity, privileges, limits or namespaces: mostly what a module looks at."""
    looked_at = [row.change for row in world.tree.chosen if row.change in state_changes()]
    name = world.choice.choice(looked_at if looked_at and world.choice.random() < 0.7 else state_changes())
    number = world.choice.choice((None, 0, 1))
    if world.changes.get(name) == number:
        return None
    if number is None:
        del world.changes[name]
    else:
        world.changes[name] = number
    return f"{name}: {number}"


def start_again(world: World) -> str | None:
    """Change nothing: another start must draw other numbers."""
    return f"another start of {world.tree.chosen[0].name}"


def change_volume(world: World) -> str | None:
    """Mount the other volume that the rows of accesses.py look at."""
    world.volume = 1 - world.volume
    return f"volume {world.volume}"


def mount(world: World) -> str | None:
    """Add or remove a mount: a directory or a file in the place of another, or a file system in memory."""
    tree, choice = world.tree, world.choice
    place = choice.choice(("/data/sub", "/data/a", "/second/m1.py", "/second/m3", "/data", "/mnt/own"))
    if place in world.mounts and place != "/data":
        del world.mounts[place]
        return f"mount {place}: none"
    target = tree.top / place.removeprefix("/")
    if place == "/mnt/own":
        world.mounts[place] = ("tmpfs", None)
        return f"mount {place}: in memory"
    if not target.exists() or target.is_symlink():
        return None
    copy = tree.top / f"mounted{choice.randrange(1000)}"
    if target.is_dir():
        if place == "/data/sub" and choice.random() < 0.5:
            world.mounts[place] = ("tmpfs", None)
            return f"mount {place}: in memory"
        shutil.copytree(target, copy, symlinks=True, dirs_exist_ok=True)
    else:
        copy.write_text(tree.other_text(target))
        set_time(copy, target.stat())
    world.mounts[place] = ("bind", copy)
    return f"mount {place}: {copy}"


def change_order(world: World) -> str | None:
    """Mount in another order, so that one mount hides another one."""
    items = list(world.mounts.items())
    world.choice.shuffle(items)
    world.mounts = dict(items)
    return f"order of mounts: {list(world.mounts)}"


def mask(world: World) -> str | None:
    """Mask a path, or none."""
    paths = ("/data/a", "/data/sub", "/second/m2.py", "/second/m3")
    world.masked = [] if world.masked else [world.choice.choice(paths)]
    return f"masked: {world.masked}"


def upgrade(world: World) -> str | None:
    """Upgrade the package by pip, or downgrade it."""
    version = world.choice.choice([n for n in range(1, VERSIONS + 1) if n != world.version])
    world.upgrade(version)
    return f"pip: demo {version}"


# Each with its weight.
FILES: dict[Mutation, int] = {
    write_in_place: 8,
    write_by_rename: 8,
    write_by_mapping: 6,
    append: 3,
    truncate: 2,
    touch: 4,
    change_mode: 3,
    remove: 4,
    make_module: 6,
    make_absent: 8,
    add_beside: 5,
    shadow: 8,
    link_to_copy: 5,
    hard_link: 3,
    lead_elsewhere: 5,
    swap: 4,
    replace_directory: 5,
    remove_directory: 3,
    compile_module: 6,
    remove_compiled: 2,
    start_file: 3,
}
SURROUNDINGS: dict[Mutation, int] = {
    set_variable: 8,
    set_flag: 6,
    change_path: 3,
    set_limit: 8,
    change_surroundings: 20,
    change_volume: 6,
    mount: 10,
    change_order: 4,
    mask: 4,
}
MUTATIONS = FILES | SURROUNDINGS
# Of worlds of the kinds "state" and "random".
STATE: dict[Mutation, int] = {change_state: 10, change_volume: 1, set_variable: 1}
RANDOM: dict[Mutation, int] = {start_again: 1}
BY_PIP: dict[Mutation, int] = {upgrade: 6}
