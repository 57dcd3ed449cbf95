"""Parts of a function that go into a sandbox: caches, classes, own modules, assertions; and others that cannot."""

# once: the caller's rights make no difference
# ruff: noqa: D101, D102, D105, D106 (classes whose instances go into a sandbox)

from __future__ import annotations

import dataclasses
import functools
import importlib
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest

from pysbx import SandboxExecutionError, SerializationError, sandbox
from pysbx.decode import decode
from pysbx.hints import hint
from pysbx.inside.assertions import _format_explanation
from pysbx.inside.encode import encode
from pysbx.inside.refusal import Unserializable
from pysbx.inside.wire import Code

LOCK = threading.Lock()


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
