"""Parts of a function that go into a sandbox: caches, classes, own modules, assertions; and others that cannot."""

# once: the caller's rights make no difference
# ruff: noqa: D101, D102, D105, D106 (classes whose instances go into a sandbox)

from __future__ import annotations

import dataclasses
import functools
import importlib
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import pydantic
import pytest

from pysbx import Mount, SandboxExecutionError, SerializationError, sandbox
from pysbx.calls.decode import decode
from pysbx.inside.assertions import _format_explanation
from pysbx.inside.encode import encode
from pysbx.inside.refusal import Unserializable
from pysbx.inside.wire import Code
from pysbx.options.hints import hint

LOCK = threading.Lock()
VALIDATION = ("pydantic", "pydantic_core", "annotated_types", "typing_extensions", "typing_inspection")


@functools.cache
def fibonacci(number: int) -> int:
    return number if number < 2 else fibonacci(number - 1) + fibonacci(number - 2)


@functools.singledispatch
def kind(value: object) -> str:
    return "other"


@kind.register
def _(value: int) -> str:
    return "int"


class Square:
    def __init__(self, side: int) -> None:
        self.side = side

    @functools.cached_property
    def area(self) -> int:
        return self.side**2

    @functools.lru_cache(maxsize=3)  # noqa: B019 (that it can be sent)
    def scaled(self, factor: int) -> int:
        return self.side * factor


@dataclasses.dataclass
class Order:
    @dataclasses.dataclass
    class Line:
        number: int


@dataclasses.dataclass
class Circle:
    radius: float

    def __post_init__(self) -> None:
        self.squared = self.radius**2

    @functools.cached_property
    def area(self) -> float:
        return 3 * self.squared

    def grow(self) -> None:
        self.radius += 1


@dataclasses.dataclass
class Slotted:
    __slots__ = ("extra", "radius")
    radius: float


@dataclasses.dataclass
class Rows(list):  # type: ignore[type-arg]
    name: str


@dataclasses.dataclass
class Later:
    value: int = dataclasses.field(init=False)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A directory from which modules of the caller's own are imported."""
    sys.path.insert(0, str(tmp_path))
    importlib.invalidate_caches()
    before = set(sys.modules)
    yield tmp_path
    sys.path.remove(str(tmp_path))
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def imported(place: Path, name: str, text: str) -> Any:
    """Write a module of the caller's own and import it."""
    (place / f"{name}.py").write_text(text)
    importlib.invalidate_caches()
    return importlib.import_module(name)


def test_functions_with_caches() -> None:
    square = Square(3)
    assert sandbox(lambda: fibonacci(20))() == 6765
    assert sandbox(lambda: (kind(1), kind(""), kind(True)))() == ("int", "other", "int")
    assert sandbox(lambda: (square.area, square.scaled(2), square.scaled(2)))() == (9, 6, 6)
    assert sandbox(fibonacci.cache_parameters)() == {"maxsize": None, "typed": False}


def test_a_cached_function_of_an_own_module(place: Path) -> None:
    module = imported(place, "own_table", "import functools\n\n@functools.lru_cache\ndef table(n):\n    return n * 2\n")
    assert sandbox(lambda: module.table(4))() == 8
    assert sandbox(module.table)(5) == 10


def test_a_cached_function_of_the_standard_library_is_imported() -> None:
    import fnmatch

    assert sandbox(lambda: fnmatch._compile_pattern("a*")("ab") is not None)()  # type: ignore[attr-defined]


def test_weak_dictionaries() -> None:
    kept = Square(1)
    by_key = weakref.WeakKeyDictionary({kept: 1})
    by_value = weakref.WeakValueDictionary({"a": kept})
    assert sandbox(lambda: (by_key[kept], by_value["a"] is kept))() == (1, True)


def test_a_module_that_takes_the_place_of_another(place: Path) -> None:
    first = imported(place, "first_version", "def value():\n    return 1\n")
    assert [sandbox(first.value)() for _ in range(2)] == [1, 1]
    del sys.modules["first_version"]
    second = imported(place, "second_version", "def value():\n    return 2\n")
    assert sandbox(second.value)() == 2


def test_the_hint_names_no_package_for_a_module_of_the_callers(place: Path) -> None:
    (place / "my_own_part.py").write_text("")
    (place / "my_own_package").mkdir()
    importlib.invalidate_caches()

    def use() -> None:
        import my_own_part  # type: ignore[import-not-found]  # noqa: F401

    with pytest.raises(SandboxExecutionError, match="one of your own: import it outside of the function") as caught:
        sandbox(use)()
    assert "dependencies" not in str(caught.value)
    for name in ("my_own_part", "my_own_part.deeper", "my_own_package", "_pytest", "_pytest.x", "__main__"):
        assert "dependencies" not in (hint("ModuleNotFoundError", f"No module named '{name}'") or "")
    for name in ("numpy", "no_such_module", "../x", "."):
        assert "dependencies" in (hint("ModuleNotFoundError", f"No module named '{name}'") or "")
    assert "my_own_part" not in sys.modules


# Modules of the caller's own whose functions return texts, by the release of Python that knows their syntax.
ANNOTATED = {
    (3, 10): """
from collections.abc import Callable
import typing

Identifier = typing.NewType("Identifier", int)
Nested = typing.NewType("Nested", Identifier)
P = typing.ParamSpec("P")
T = typing.TypeVar("T")

def call(function: Callable[typing.Concatenate[int, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
    return function(*args, **kwargs)

def show_new_types():
    return repr((Nested(3), Nested.__module__, Nested.__qualname__, Nested.__supertype__.__name__))

def show_parameters():
    return repr((call(int, "3"), P.__name__, P.__module__, P.args.__origin__ is P))

def show_a_new_type_of_a_function():
    metres = typing.NewType("metres", int)
    def length(number: metres) -> metres:
        return metres(number)
    return repr(length(3))
""",
    (3, 11): """
import typing

Ts = typing.TypeVarTuple("Ts")

def several(*values: typing.Unpack[Ts]) -> int:
    return len(values)

def show_several():
    return repr((several(1, 2), Ts.__name__, Ts.__module__))
""",
    (3, 12): """
import typing

type Tree = dict[str, Tree] | int
type Items[T] = list[T]
type Unknown = list[Missing]
Made = typing.TypeAliasType("Made", int)

class Shelf:
    type Inner = list[Shelf]
    class Board: pass
    def first(self, inner: Inner, board: Board) -> "Shelf": return inner
    def same[Q](self, given: Q) -> Q: return given

def show_a_recursive_alias():
    return repr((Tree.__value__, Tree.__name__, Tree.__module__, Tree.__value__.__args__[0].__args__[1] is Tree))

def show_other_aliases():
    return repr((Items[int], Items.__value__.__args__ == Items.__type_params__, Unknown, Made.__value__))

def show_a_class():
    return repr((str(Shelf.Inner.__value__)[-7:], Shelf().first(1, 2), Shelf().same(3)))
""",
    (3, 14): """
import abc
import annotationlib
import dataclasses
import enum
import functools
import typing

if typing.TYPE_CHECKING:
    from elsewhere import Missing

def names(thing):
    return sorted(annotationlib.get_annotations(thing, format=annotationlib.Format.FORWARDREF))

class Wrapper:
    def __init__(self, function):
        functools.update_wrapper(self, function)
        self.function = function
    def __call__(self, *given):
        return self.function(*given)

class Base(abc.ABC):
    later: Later
    unknown: Missing
    class Part: pass
    def method(self, part: Part, unknown: Missing, *, known: int = 1) -> Base: return known
    @classmethod
    def of_class(cls, given: Missing): return given
    @property
    def read(self) -> Missing: return 4
    @functools.lru_cache
    def cached(self, given: Missing) -> Missing: return given
    @Wrapper
    def wrapped(self, given: Missing): return given
    @abc.abstractmethod
    def go(self, given: Part): ...

class Derived(Base):
    known: int
    def go(self, given: Later): return given

class Later: pass

class Colour(enum.Enum):
    unknown: Missing
    RED = 1

class Pair(typing.NamedTuple):
    first: int
    second: str = "x"

class Options(typing.TypedDict, total=False):
    size: typing.Required[int]

@dataclasses.dataclass
class Row:
    first: int
    second: Missing = 2

class Given:
    first: int
Given.__annotations__ = {"other": int}

def plain(given: Missing) -> Missing:
    return given

@functools.wraps(plain)
def wrapper(*given):
    return plain(*given)

def local():
    class Inner:
        one: Other
        def method(self) -> Inner: ...
    class Other: pass
    return Inner

Inner = local()

def show_functions():
    return repr((plain(1), names(plain), wrapper(2), names(wrapper)))

def show_a_class():
    one = Derived()
    called = one.method(1, 2), one.of_class(3), one.read, one.cached(5), one.wrapped(one, 6), one.go(7)
    found = annotationlib.get_annotations(Base.method, format=annotationlib.Format.FORWARDREF)
    return repr((called, names(Base), Derived.__annotations__, found["part"] is Base.Part, found["return"] is Base))

def show_special_classes():
    return repr((Colour.RED.value, names(Colour), Pair(1), Pair.__annotations__, Options.__annotations__,
                 Options.__required_keys__, Row(1), Row(1) == Row(1), names(Row), Given.__annotations__))

def show_a_local_class():
    return repr((sorted(Inner.__annotations__), Inner.method.__annotations__["return"] is Inner))
""",
}


@pytest.mark.parametrize("version", [version for version in ANNOTATED if version <= sys.version_info])
def test_annotations_are_what_they_were(version: tuple[int, int], place: Path) -> None:
    """The calls in the sandbox come first: the others evaluate the annotations here."""
    module = imported(place, f"annotated_{version[1]}", ANNOTATED[version])
    functions = [value for name, value in vars(module).items() if name.startswith("show_")]
    found = [sandbox(function)() for function in functions]
    assert found == [function() for function in functions]


LAZY = """
lazy import csv
lazy from json import dumps
lazy import os.path
lazy import of_the_sandbox

def show():
    return csv.QUOTE_ALL, dumps([1]), os.path.sep

def missing():
    return of_the_sandbox.name
"""


@pytest.mark.skipif(sys.version_info < (3, 15), reason="Python 3.15 has lazy imports (PEP 810)")
def test_lazy_imports_that_no_program_has_used(place: Path) -> None:
    module = imported(place, "lazy_part", LAZY)
    assert sandbox(module.show)() == (1, "[1]", "/")
    with pytest.raises(SandboxExecutionError, match="No module named 'of_the_sandbox'"):
        sandbox(module.missing)()


@pydantic.validate_call(validate_return=True)
def validated(number: int) -> float:
    return number + 1


def test_a_function_with_validate_call_of_pydantic() -> None:
    found = [Path(str(module.__file__)) for module in map(importlib.import_module, VALIDATION)]
    files = [file.parent if file.name == "__init__.py" else file for file in found]
    options: Any = {
        "mounts": [Mount(file, f"/packages/{file.name}") for file in files],
        "env": {"PYTHONPATH": "/packages"},
    }
    call: Any = sandbox(**options)(validated)
    assert call("3") == 4.0
    with pytest.raises(SandboxExecutionError, match="1 validation error"):
        call("three")


def test_packages_that_pip_has_put_into_a_directory(place: Path) -> None:
    """As `pip install --target`, whose directory is in PYTHONPATH: they are no code of the caller's own."""
    (place / "installed_there").mkdir()
    (place / "installed_there/__init__.py").write_text("from installed_there.part import value\n")
    (place / "installed_there/part.py").write_text("def value():\n    return 1\n")
    (place / "installed_there-1.0.dist-info").mkdir()
    (place / "installed_there-1.0.dist-info/RECORD").write_text(
        "installed_there/__init__.py,,\ninstalled_there/part.py,,\n"
    )
    module = imported(place, "beside_it", "import installed_there\n\ndef value():\n    return 2\n")
    assert sandbox(module.value)() == 2
    with pytest.raises(SandboxExecutionError, match=r"'installed_there'.*add dependencies=\[\"installed-there\"\]"):
        sandbox(module.installed_there.value)()
    for name in ("pysbx", "cloudpickle", "msgpack", "rich", "packaging"):
        (place / name).symlink_to(Path(str(importlib.import_module(name).__file__)).parent)
    program = "from pysbx import sandbox; import cloudpickle; print(cloudpickle.__file__, sandbox(lambda: 5)())"
    environment = {**os.environ, "PYTHONPATH": str(place)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environment)
    assert done.stdout == f"{place}/cloudpickle/__init__.py 5\n", done.stderr


def test_the_hint_does_not_tell_to_install_this_package() -> None:
    said = hint("ModuleNotFoundError", "No module named 'pysbx'")
    assert said == "code in a sandbox has no sandboxes of its own: pass it plain values"


def test_what_cannot_be_sent_is_named() -> None:
    inner = threading.Lock()
    square = Square(1)
    square.lock = LOCK  # type: ignore[attr-defined]

    def deeper() -> object:
        return inner

    for function, path in (
        (lambda: LOCK, "global 'LOCK'"),
        (lambda: [deeper()], "variable 'deeper': variable 'inner'"),
        (lambda: [square], "variable 'square': attribute 'lock'"),
        (functools.partial(lambda x: x, {"a": [LOCK]}), "its arguments: [0]: ['a']: [0]"),
        (lambda x=LOCK: x, "default 0"),
    ):
        with pytest.raises(SerializationError) as caught:
            sandbox(function)()
        assert caught.value.path.endswith(f": {path}")
        assert caught.value.path in str(caught.value)
        assert caught.value.type_name == "_thread.lock"


def test_dataclasses_that_are_defined_in_classes_and_functions() -> None:
    @dataclasses.dataclass
    class Local:
        number: int

    assert sandbox(types=[Order.Line])(lambda: Order.Line(1))() == Order.Line(1)
    assert sandbox(lambda: Order.Line(1))() == Order.Line(1)
    assert sandbox(types=[Local])(lambda: Local(1))() == Local(1)
    assert sandbox(lambda: [Local(2)])() == [Local(2)]


def test_a_dataclass_keeps_what_is_no_field() -> None:
    circle = Circle(2.0)
    found = sandbox(lambda: circle)()
    assert vars(found) == {"radius": 2.0, "squared": 4.0}
    assert circle.area == 12.0
    assert vars(sandbox(lambda: circle)()) == {"radius": 2.0, "squared": 4.0, "area": 12.0}
    slotted = Slotted(1.0)
    slotted.extra = [1]  # type: ignore[attr-defined]
    assert sandbox(lambda: slotted)().extra == [1]  # type: ignore[attr-defined]


def test_a_dataclass_that_is_more_is_refused() -> None:
    for value, path in ((Rows("x"), "result"), (Later(), "result.value")):
        with pytest.raises(Unserializable) as caught:
            encode(value)
        assert caught.value.path == path


@pytest.mark.parametrize("name", ["grow", "__class__", "__dict__", "__post_init__", "__hash__", 5, None])
def test_an_attribute_that_hides_a_part_of_the_class_is_refused(name: Any) -> None:
    content = {"radius": 1.0, name: 5}
    data = msgpack.packb([msgpack.ExtType(Code.DATACLASS, b""), __name__, "Circle", content])
    with pytest.raises(SerializationError, match="class does not allow"):
        decode(data, lambda module, called: Circle)
    slotted = msgpack.packb([msgpack.ExtType(Code.DATACLASS, b""), __name__, "Slotted", {"radius": 1.0, "other": 5}])
    with pytest.raises(SerializationError, match="class does not allow"):
        decode(slotted, lambda module, called: Slotted)


def test_assertions_that_pytest_has_rewritten(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pytest\nfrom pysbx import SandboxExecutionError, sandbox\n\n"
        "LIMIT = 3\n\n@sandbox\ndef small(x):\n"
        "    assert 0 < x < LIMIT and len([x]) == 1, 'too large'\n    return x\n\n"
        "@sandbox\ndef plain(x):\n    assert len([x]) == LIMIT\n\n"
        "def test_small():\n    assert small(1) == 1\n"
        "    with pytest.raises(SandboxExecutionError, match='AssertionError: too large'):\n        small(4)\n"
        "    with pytest.raises(SandboxExecutionError, match='assert 1 == 3'):\n        plain(4)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_the_explanation_of_an_assertion() -> None:
    said = "assert 1 == 2\n{1 = len([1])\n} == 2\n~more"
    assert _format_explanation(said).splitlines() == ["assert 1 == 2 == 2", "  where 1 = len([1])", "  more"]
