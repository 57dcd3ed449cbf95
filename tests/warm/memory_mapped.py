"""Print the owners of the writable memory that is mapped from the file of the snapshot.

They are data of libraries, the heap, and arenas, which the interpreter counts itself.
"""

import ctypes
import os
import re
import sys

import memory_kept


class Loaded(ctypes.Structure):
    """struct dl_phdr_info."""

    _fields_ = [
        ("address", ctypes.c_ulong),
        ("name", ctypes.c_char_p),
        ("headers", ctypes.c_void_p),
        ("count", ctypes.c_ushort),
    ]


class Header(ctypes.Structure):
    """Elf64_Phdr."""

    _fields_ = [
        ("kind", ctypes.c_uint),
        ("flags", ctypes.c_uint),
        *((name, ctypes.c_ulong) for name in ("offset", "place", "physical", "file_size", "size", "align")),
    ]


owned: list[tuple[int, int]] = []


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Loaded), ctypes.c_ulong, ctypes.c_void_p)
def take(loaded, _size, _data):  # type: ignore[no-untyped-def]
    """Add the places of the data of a library: dl_iterate_phdr(3)."""
    for header in (Header * loaded.contents.count).from_address(loaded.contents.headers):
        if header.kind == 1 and header.flags & 2:
            start = loaded.contents.address + header.place
            owned.append((start // 4096 * 4096, (start + header.size + 4095) // 4096 * 4096))
    return 0


def arenas() -> int:
    """Return the bytes of the interpreter's arenas."""
    with open(os.memfd_create("stats"), "rb") as file:
        saved = os.dup(2)
        os.dup2(file.fileno(), 2)
        sys._debugmallocstats()
        os.dup2(saved, 2)
        file.seek(0)
        [count, size] = re.findall(rb"(\d+) arenas \* (\d+) bytes/arena", file.read())[0]
    return int(count) * int(size)


libc = ctypes.CDLL(None)
libc.dl_iterate_phdr(take, None)
libc.sbrk.restype = ctypes.c_void_p
with open("/proc/self/stat") as file:
    heap = int(file.read().rpartition(")")[2].split()[44])
owned.insert(0, (heap // 4096 * 4096, libc.sbrk(0)))
rest, given, in_heap = 0, [], False
with open("/proc/self/maps") as file:
    lines = [line.split(maxsplit=5) for line in file]
for line in lines:
    start, end = (int(number, 16) for number in line[0].split("-"))
    if "w" not in line[1] or len(line) < 6 or "/warm/" not in line[5]:
        continue
    in_heap |= owned[0][0] < end and start < owned[0][1]
    given += [name for name, place in memory_kept.REGIONS.items() if start < place + memory_kept.SIZE and place < end]
    rest += sum(not any(first <= page < last for first, last in owned) for page in range(start, end, 4096)) * 4096
with open("/proc/self/smaps") as file:
    areas = file.read().split("VmFlags:")[:-1]
saved = all("Anonymous:             0 kB" not in area for area in areas if re.search(r" [r-]w\S+ .*/warm/", area))
print("core dumps have all of it:", saved)
print("the heap is mapped:", in_heap)
print("mappings and blocks that programs may give away:", *given or ["none"])
# The interpreter takes memory for frames and what the dynamic linker needs in the same way.
print("the rest is arenas:", 0 < rest <= arenas() + (1 << 19), rest, arenas())
