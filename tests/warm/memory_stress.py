"""Let memory of imports grow, shrink, move and be given back in random order, and compare each content with a model.

The module is preloaded as memory_state: it makes the objects. The program calls stress(seconds, seed).
"""

import array
import ctypes
import importlib.util
import mmap
import random
import time
from collections.abc import Callable
from typing import Any

PAGE = mmap.PAGESIZE
SIZES = 1, 100, 3000, 20000, 200000
MAYMOVE, DONTNEED = 1, 4

libc = ctypes.CDLL(None)
for name in "malloc", "realloc", "calloc", "mmap", "mremap":
    getattr(libc, name).restype = ctypes.c_void_p


class Block:
    """A block of malloc(3): its first bytes are a number, and realloc(3) keeps them."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.address = libc.malloc(ctypes.c_size_t(size))
        ctypes.memset(self.address, size % 251, size)
        self.value = size % 251

    def change(self, size: int) -> None:
        """Make it about eight times as large as `size`."""
        size = size * 8 + 16
        kept = min(size, self.size)
        self.address = libc.realloc(ctypes.c_void_p(self.address), ctypes.c_size_t(size))
        assert ctypes.string_at(self.address, kept) == bytes([self.value]) * kept, "realloc"
        ctypes.memset(self.address, self.value, size)
        self.size = size


class Region:
    """An anonymous mapping: mremap(2) moves and grows it, madvise(2) makes zeros of it."""

    def __init__(self, pages: int) -> None:
        self.values = [pages % 250 + 1] * pages
        self.address = libc.mmap(None, ctypes.c_size_t(pages * PAGE), 3, 0x22, -1, ctypes.c_long(0))
        ctypes.memset(self.address, self.values[0], pages * PAGE)

    def change(self, size: int) -> None:
        """Make it some pages large, and some of them zeros."""
        pages = size % 300 + 1
        self.address = libc.mremap(
            ctypes.c_void_p(self.address),
            ctypes.c_size_t(len(self.values) * PAGE),
            ctypes.c_size_t(pages * PAGE),
            MAYMOVE,
        )
        self.values = (self.values + [0] * pages)[:pages]
        first = random.randrange(pages)
        last = random.randint(first, min(pages, first + 20))
        start, size = self.address + first * PAGE, (last - first) * PAGE
        assert libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), DONTNEED) == 0, "madvise"
        self.values[first:last] = [0] * (last - first)
        for page, value in enumerate(self.values):
            assert ctypes.string_at(self.address + page * PAGE, PAGE) == bytes([value]) * PAGE, "mapping"
        self.values[first] = size % 250 + 1
        ctypes.memset(self.address + first * PAGE, self.values[first], PAGE)


class Growing:
    """A list, a dictionary, an array or bytes, beside a model of its length."""

    def __init__(self, value: Any, add: Callable[[int], object], cut: Callable[[int], object]) -> None:
        self.value, self.add, self.cut = value, add, cut
        self.length = len(value)

    def change(self, size: int) -> None:
        """Make it longer or shorter."""
        if self.length > 3000000 or random.random() < 0.3:
            self.cut(self.length // 3)
            self.length -= self.length // 3
        else:
            self.add(size)
            self.length += size
        assert len(self.value) == self.length, type(self.value)
        if isinstance(self.value, (bytearray, array.array)):
            assert self.value.count(7) == self.length, type(self.value)


def make_list(size: int) -> Growing:
    """Return a list."""
    value = [7] * size
    return Growing(value, lambda n: value.extend([7] * n), lambda n: value.__delitem__(slice(len(value) - n, None)))


def make_bytes(size: int) -> Growing:
    """Return a bytearray."""
    value = bytearray([7]) * size
    return Growing(value, lambda n: value.extend(b"\7" * n), lambda n: value.__delitem__(slice(len(value) - n, None)))


def make_array(size: int) -> Growing:
    """Return an array."""
    value = array.array("q", [7]) * size
    return Growing(value, lambda n: value.extend([7] * n), lambda n: value.__delitem__(slice(len(value) - n, None)))


def make_dictionary(size: int) -> Growing:
    """Return a dictionary."""
    value = dict.fromkeys(range(size))

    def add(count: int) -> None:
        first = len(value)
        value.update(dict.fromkeys(range(first, first + count)))

    return Growing(value, add, lambda n: [value.popitem() for _ in range(n)])


class Frame:
    """A data frame of pandas, if the image has it."""

    def __init__(self, size: int) -> None:
        self.pandas = importlib.import_module("pandas")
        self.frame = self.pandas.DataFrame({"a": [7] * size, "b": [0.5] * size})

    def change(self, size: int) -> None:
        """Add rows, and remove others."""
        frame = self.pandas.concat([self.frame, self.frame.head(size % 3000 + 1)], ignore_index=True)
        self.frame = frame.iloc[len(frame) // 4 :]
        assert (self.frame["a"] == 7).all() and (self.frame["b"] == 0.5).all(), "frame"


MAKERS: list[Callable[[int], Any]] = [Block, Region, make_list, make_bytes, make_array, make_dictionary]
objects = [make(size) for size in SIZES for make in MAKERS]
if importlib.util.find_spec("pandas"):
    objects += [Frame(size) for size in SIZES]


def stress(seconds: float, seed: int) -> int:
    """Change the objects at random for so many seconds of CPU time. Return the number of changes."""
    random.seed(seed)
    changes, end = 0, time.process_time() + seconds
    while time.process_time() < end:
        at = random.randrange(len(objects))
        objects[at].change(random.choice(SIZES) + random.randrange(1000))
        if random.random() < 0.02:
            objects[at] = MAKERS[changes % len(MAKERS)](random.choice(SIZES))
        if random.random() < 0.02:
            libc.malloc_trim(0)
        changes += 1
    return changes
