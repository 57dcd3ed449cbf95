"""Memory of every kind that an import can leave. The module is preloaded; memory_calls.py works on it."""

import array
import ctypes
import mmap

SIZE = 1 << 18
MARK = 0x5A
PAGE = mmap.PAGESIZE

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = libc.malloc.restype = libc.aligned_alloc.restype = libc.mremap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.malloc.argtypes = [ctypes.c_size_t]
libc.aligned_alloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]


def filled(address: int, size: int = SIZE) -> int:
    """Fill memory with MARK, and return its address."""
    ctypes.memset(address, MARK, size)
    return address


def mapped(size: int = SIZE, flags: int = 0) -> int:
    """Return the address of new anonymous memory."""
    return filled(libc.mmap(None, size, 3, 0x22 | flags, -1, 0), size)


def inside(address: int) -> int:
    """Return the first whole page of a block."""
    return (address + PAGE - 1) // PAGE * PAGE


# Neighbours, which the kernel has in one VMA. Only the middle one is given away.
low, middle, high = (mapped() for _ in range(3))
shared = mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
shared.write(bytes([MARK]) * SIZE)
read_only = mapped()
libc.mprotect(ctypes.c_void_p(read_only), ctypes.c_size_t(SIZE), 1)
hidden = mapped()
libc.mprotect(ctypes.c_void_p(hidden), ctypes.c_size_t(SIZE), 0)
# Blocks that glibc maps: those of more than 32 MiB always, and smaller ones until it has freed one.
LARGE = 33 << 20
block = libc.malloc(LARGE)
filled(block, 2 * SIZE)
aligned = libc.aligned_alloc(1 << 16, LARGE)
filled(aligned, 2 * SIZE)
buffer = ctypes.create_string_buffer(LARGE)
filled(ctypes.addressof(buffer), 2 * SIZE)

REGIONS = {
    "mapping": middle,
    "end of a VMA": max(low, high),
    "mmap.mmap": ctypes.addressof(ctypes.c_char.from_buffer(shared)),
    "without reserve": mapped(flags=0x4000),
    "read-only": read_only,
    "inaccessible": hidden,
    "malloc": inside(block),
    "aligned_alloc": inside(aligned),
    "buffer": inside(ctypes.addressof(buffer)),
}

LIST = list(range(300000))
DICT = dict.fromkeys(range(100000))
ARRAY = array.array("q", range(300000))
BYTES = bytearray(10 << 20)
PRIVATE = mmap.mmap(-1, 1 << 16, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
PRIVATE.write(b"\x22" * (1 << 16))
