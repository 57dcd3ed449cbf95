"""The exceptions: they come whole out of other processes."""

# once: the caller's rights make no difference

from __future__ import annotations

import copy
import multiprocessing
import pickle
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import pytest

from pysbx import errors

VIOLATIONS = (errors.Violation("import", 3, "module 'os' is not allowed"), errors.Violation("call", 5, "eval()"))
# The arguments of each exception that takes more than a string.
MADE_WITH = {
    errors.SandboxExecutionError: ("KeyError", "'a'", "Traceback …", "look at the keys", 3),
    errors.SandboxTimeoutError: ("not done", 1.5),
    errors.SandboxMemoryError: ("out of memory", 512),
    errors.SerializationError: ("result: no", "socket.socket", "result['rows'][3]"),
    errors.DependencyInstallError: ("pip failed", "its words"),
    errors.PolicyViolationError: (VIOLATIONS,),
}


def family(top: type[errors.SandboxError] = errors.SandboxError) -> Iterator[type[errors.SandboxError]]:
    """Yield a class of the module and all that derive from it there."""
    yield top
    for below in top.__subclasses__():
        if below.__module__ == errors.__name__:
            yield from family(below)


def make(kind: type[errors.SandboxError]) -> errors.SandboxError:
    """Return an exception of a class, with something in each of its attributes."""
    return kind(*MADE_WITH.get(kind, ("its text",)))


def fail(kind: type[errors.SandboxError]) -> None:
    """Raise an exception of a class: in another process."""
    raise make(kind)


def same(one: BaseException | None, other: BaseException) -> bool:
    """Tell whether two exceptions are alike, their causes apart."""
    return type(one) is type(other) and (one.args, str(one), vars(one)) == (other.args, str(other), vars(other))


@pytest.mark.parametrize("kind", [*family()])
def test_an_exception_can_be_copied(kind: type[errors.SandboxError]) -> None:
    error = make(kind)
    error.more = "set later"  # type: ignore[attr-defined]
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert same(pickle.loads(pickle.dumps(error, protocol)), error)
    assert same(copy.copy(error), error)
    assert same(copy.deepcopy(error), error)


def test_an_exception_comes_out_of_another_process() -> None:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        for kind in family():
            assert same(pool.submit(fail, kind).exception(60), make(kind))


@pytest.mark.parametrize("kind", set(family()) - {errors.PolicyViolationError})
def test_another_library_can_raise_one_with_a_longer_text(kind: type[errors.SandboxError]) -> None:
    """Polars does so when a function fails that it has called for a column."""
    assert str(kind("its text, and more")) == "its text, and more"
