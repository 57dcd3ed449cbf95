"""Generated programs and values, run with python3 itself and in sandboxes, have the same results.

See "Differential tests" in tests/README.md for a long run.
"""

# once: the caller's rights make no difference
# slow: hundreds of generated programs

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Literal

import pytest
from hypothesis import strategies as st

from pysbx import Sandbox, SerializationError, run_code, sandbox
from pysbx.options.options import make_options
from tests.budget import SEED, TIMEOUT, explore
from tests.programs import parts, programs
from tests.reference import NAME, difference, parts_in_python, plain_text
from tests.values import Colour, Pair, Point, everything, must_come_back, same, shown

pytestmark = pytest.mark.timeout(TIMEOUT)
Warm = Literal["off", "auto"]
modes: st.SearchStrategy[Warm] = st.sampled_from(["auto", "off"])
PRELOAD = ("numpy", "pandas", "pyarrow", "polars")
INPUT = "first line\nsecond line\n"


def test_a_failure_shows_the_smallest_input() -> None:
    def check(number: int) -> None:
        assert number < 1000

    with pytest.raises(pytest.fail.Exception, match=rf"SEED={SEED}: .*\nwith the input\nthe number 1000$"):
        explore(st.integers(), check, 1, 1, "the number {}".format)


def check_program(case: tuple[str, Warm]) -> None:
    source, warm = case
    done = run_code(source, name=NAME, files={NAME: source}, stdin=INPUT, warm=warm)
    assert difference(source, done, INPUT) == ""


def test_programs_end_as_with_python() -> None:
    explore(st.tuples(programs, modes), check_program, 0.45, 4, lambda case: f"warm: {case[1]}\n{case[0]}")


def check_parts(case: tuple[list[str], Warm]) -> None:
    sources, warm = case
    with Sandbox(warm=warm) as session:
        for source, expected in zip(sources, parts_in_python(sources), strict=True):
            done = session.run(source)
            error = (done.error.type, plain_text(done.error.message), done.error.line) if done.error else None
            assert (plain_text(done.stdout), done.value and plain_text(done.value), error, done.exit_code) == expected


def test_parts_of_a_session_are_those_of_one_program() -> None:
    explore(st.tuples(parts, modes), check_parts, 0.2, 4)


def identity(value: object) -> object:
    return value


def test_values_come_back_equal_or_are_refused(virtualenv: str) -> None:
    options = make_options(
        virtualenv=virtualenv, preload=PRELOAD, memory_mb=4096, timeout_sec=3600, max_processes=200, warm="auto"
    )
    kinds = (Colour, Pair, Point)
    alone = sandbox(virtualenv=virtualenv, preload=PRELOAD, memory_mb=4096, max_processes=200, types=kinds)(identity)
    cold = sandbox(virtualenv=virtualenv, memory_mb=4096, max_processes=200, types=kinds, warm="off")(identity)
    with Sandbox._chosen(options) as session:
        ways: dict[str, Callable[[object], object]] = {
            "alone": alone, "cold": cold, "session": lambda value: session.call(identity, value, types=kinds),
        }  # fmt: skip

        def check_value(case: tuple[tuple[object, bool], str]) -> None:
            (value, must), way = case
            # The sandbox gets the value that pickle makes of it. numpy changes the order of bytes of some arrays.
            value = pickle.loads(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))
            try:
                found = ways[way](value)
            except SerializationError:  # it says why
                assert not must
                return
            assert same(found, value), f"{value!r} became {found!r}"

        chosen = st.sampled_from(["session"] * 12 + ["alone"] * 3 + ["cold"])
        values = st.one_of(st.tuples(must_come_back, st.just(True)), st.tuples(everything, st.just(False)))
        explore(st.tuples(values, chosen), check_value, 0.35, 20, lambda case: f"way: {case[1]}\n{shown(case[0][0])}")
