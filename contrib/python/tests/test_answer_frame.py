"""How many elements a frame has, before any of them is made."""

# once: the caller's rights make no difference

from __future__ import annotations

import tracemalloc
from typing import Any

import msgpack
import pytest

from pysbx import sandbox
from pysbx.container import answer_frame

MAPS = b"\xdd" + (1 << 22).to_bytes(4, "big") + b"\x80" * (1 << 22)
TEXTS = b"\xdc\xff\xff" + b"\xa2\xc4\x80" * 65534


def count(value: Any) -> int:
    """Return the number of elements of a value, itself included."""
    if isinstance(value, dict):
        return 1 + sum(count(key) + count(item) for key, item in value.items())
    return 1 + (sum(map(count, value)) if type(value) is list else 0)


@pytest.mark.parametrize("size", [0, 1, 2, 4, 5, 8, 15, 16, 17, 31, 32, 255, 256, 65535, 65536])
def test_every_form_of_an_element_is_counted_once(size: int) -> None:
    value: list[Any] = [
        *("t" * size, b"b" * size, msgpack.ExtType(5, b"e" * size), [1] * size, dict.fromkeys(map(str, range(size)))),
        *(None, True, 0.5, *(sign * (size << bits) for sign in (1, -1) for bits in (0, 8, 24, 40))),
    ]
    nested = [value, {"a": value}]
    assert answer_frame.elements(msgpack.packb(nested), 10**9) == count(nested)
    assert answer_frame.elements(msgpack.packb(1.5, use_single_float=True) + b"x", 10**9) == 1


@pytest.mark.parametrize("data", [MAPS, TEXTS * 20], ids=["maps", "lists that do not end"])
def test_too_many_elements_are_refused_before_they_take_memory(data: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(answer_frame.TooMany):
            answer_frame.unpack(data)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\xdd\xff", b"\xdb\xff\xff\xff\xff", b"\x92\x01"])
def test_what_is_cut_off_is_counted_up_to_there(data: bytes) -> None:
    assert answer_frame.elements(data, 10) > 0
    with pytest.raises(Exception, match=r"(?i)unpack|format|exceeds|^$"):
        answer_frame.unpack(data)


def test_large_answers_pass() -> None:
    @sandbox(memory_mb=1024)
    def large() -> tuple[list[int], bytes]:
        return list(range(1_000_000)), b"x" * 40_000_000

    numbers, content = large()
    assert numbers == list(range(1_000_000))
    assert len(content) == 40_000_000
