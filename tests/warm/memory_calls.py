"""Give memory of an import to every call that a program, a C library or an allocator can make.

Print the result, the error number, the signal and the content. Each call has a process of its own.

usage: memory_calls.py [REGION...]
"""

import ctypes
import os
import signal
import sys
from collections.abc import Callable

from memory_kept import PAGE, REGIONS, SIZE, libc

syscall = libc.syscall
syscall.restype = ctypes.c_long
MADVISE, MREMAP, MPROTECT, MLOCK, MLOCK2, MUNLOCK, MSYNC, MUNMAP, MINCORE = 28, 25, 10, 149, 325, 150, 26, 11, 27
READV, WRITEV, PTRACE, MBIND, MSEAL = 310, 311, 101, 237, 462
ADVICE = {
    "NORMAL": 0, "RANDOM": 1, "SEQUENTIAL": 2, "WILLNEED": 3, "DONTNEED": 4, "FREE": 8, "REMOVE": 9, "DONTFORK": 10,
    "DOFORK": 11, "MERGEABLE": 12, "UNMERGEABLE": 13, "HUGEPAGE": 14, "NOHUGEPAGE": 15, "DONTDUMP": 16, "DODUMP": 17,
    "WIPEONFORK": 18, "KEEPONFORK": 19, "COLD": 20, "PAGEOUT": 21, "POPULATE_READ": 22, "POPULATE_WRITE": 23,
    "DONTNEED_LOCKED": 24, "COLLAPSE": 25, "GUARD_INSTALL": 102, "GUARD_REMOVE": 103,
}  # fmt: skip
MAYMOVE, FIXED, DONTUNMAP = 1, 2, 4
HUGE_PAGE = 2 << 20


def call(number: int, *arguments: int) -> tuple[int, int]:
    """Make a system call. Return its result and the error number."""
    ctypes.set_errno(0)
    result = syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments))
    return result, ctypes.get_errno() if result == -1 else 0


def content(address: int, size: int) -> str:
    """Return the bytes of the region, with the kernel's help: "5a*4096 00*…", or "-" where it cannot be read."""
    parts: list[list[object]] = []
    for page in range(address, address + size, PAGE):
        data = ctypes.create_string_buffer(PAGE)
        local, remote = (ctypes.c_ulong * 2)(ctypes.addressof(data), PAGE), (ctypes.c_ulong * 2)(page, PAGE)
        done, _ = call(READV, os.getpid(), ctypes.addressof(local), 1, ctypes.addressof(remote), 1, 0)
        kinds = sorted(set(data.raw)) if done == PAGE else None
        text = "-" if kinds is None else "/".join(f"{kind:02x}" for kind in kinds[:3])
        if parts and parts[-1][0] == text:
            parts[-1][1] = int(str(parts[-1][1])) + 1
        else:
            parts.append([text, 1])
    return " ".join(f"{text}*{count}" for text, count in parts)


def say(*words: object) -> None:
    """Print a line at once: a child may end by a signal."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def in_child(name: str, work: Callable[[], object]) -> None:
    """Let a child do the work, and print by which signal it ends."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException as error:
            say(name, "raises", type(error).__name__, error)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    if status:
        ending = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"exit {status >> 8}"
        say(name, "ends with", ending)


def write_all(name: str, address: int, size: int) -> None:
    """Write to each page as a program does, and tell what is there."""

    def work() -> None:
        for page in range(address, address + size, PAGE):
            ctypes.memset(page + 8, 0x11, 8)
        say(name, "written", content(address, size))

    in_child(f"{name} written", work)


def forked(name: str, address: int) -> None:
    """Print the content that a child of the process has."""
    in_child(f"{name} forked", lambda: say(name, "forked", content(address, 4 * PAGE)))


def advise(region: str, address: int, advice: str) -> None:
    """Call madvise(2) for two pages, which have neighbours."""
    name = f"{region}: MADV_{advice}"
    first = address + PAGE
    # Where the pages touch the border of a huge page, COLLAPSE has nothing to do and succeeds.
    while advice == "COLLAPSE" and -first % HUGE_PAGE <= 2 * PAGE:
        first += PAGE

    def work() -> None:
        result = call(MADVISE, first, 2 * PAGE, ADVICE[advice])
        say(name, *result, "" if advice == "FREE" else content(address, 4 * PAGE))
        if advice == "FREE":  # the kernel takes the pages when it likes, and PAGEOUT makes it
            return
        write_all(name, address, 4 * PAGE)
        if "FORK" in advice:
            forked(name, address)

    in_child(name, work)


def remap(region: str, address: int, old: int, new: int, *, flags: int) -> None:
    """Call mremap(2), and look at the old and at the new place."""
    name = f"{region}: mremap {old // PAGE} to {new // PAGE}, {flags}"

    def work() -> None:
        place = libc.mmap(None, new + PAGE, 0, 0x22, -1, 0) if flags & FIXED else 0
        result, error = call(MREMAP, address, old, new, flags, place)
        moved = "moved" if error == 0 and result != address else "stays"
        say(name, moved if error == 0 else -1, error)
        if error == 0:
            write_all(name, result, min(new, 64 * PAGE))
            say(name, content(result, min(new, 64 * PAGE)), "|", content(address, min(old, 8 * PAGE)))
            if new > 64 * PAGE:
                write_all(f"{name}, end", result + new - 4 * PAGE, 4 * PAGE)

    in_child(name, work)


def others(region: str, address: int) -> None:
    """Make the other calls that take an address."""
    calls = {
        "munmap": (MUNMAP, address + PAGE, PAGE),
        "mprotect none": (MPROTECT, address, 2 * PAGE, 0),
        "mprotect read": (MPROTECT, address, 2 * PAGE, 1),
        "mprotect write": (MPROTECT, address, 2 * PAGE, 3),
        "mprotect code": (MPROTECT, address, 2 * PAGE, 7),
        "mlock": (MLOCK, address, 2 * PAGE),
        "mlock2": (MLOCK2, address, 2 * PAGE, 1),
        "munlock": (MUNLOCK, address, 2 * PAGE),
        "msync": (MSYNC, address, 2 * PAGE, 4),
        "msync invalidate": (MSYNC, address, 2 * PAGE, 2),
        "mseal": (MSEAL, address, 2 * PAGE, 0),
        "name": (157, 0x53564D41, 0, address, 2 * PAGE, 0),
        "policy": (MBIND, address, 2 * PAGE, 0, 0, 0, 0),
    }
    for what, arguments in calls.items():
        name = f"{region}: {what}"

        def work(name: str = name, arguments: tuple[int, ...] = arguments) -> None:
            say(name, *call(*arguments), content(address, 4 * PAGE))
            write_all(name, address, 4 * PAGE)
            if arguments[0] == MLOCK:
                say(name, "then DONTNEED", *call(MADVISE, address, PAGE, 4), *call(MADVISE, address, PAGE, 24))

        in_child(name, work)


def from_outside(region: str, address: int) -> None:
    """Change the memory of a child by ptrace(2), process_vm_writev(2) and /proc/PID/mem."""
    pid = os.fork()
    if pid == 0:
        call(PTRACE, 0, 0, 0, 0)
        os.kill(os.getpid(), signal.SIGSTOP)
        say(region, "from outside", content(address, 3 * PAGE))
        os._exit(0)
    os.waitpid(pid, 0)
    data = ctypes.create_string_buffer(b"outside!", 8)
    local, remote = (ctypes.c_ulong * 2)(ctypes.addressof(data), 8), (ctypes.c_ulong * 2)(address + 16, 8)
    say(region, "writev", *call(WRITEV, pid, ctypes.addressof(local), 1, ctypes.addressof(remote), 1, 0))
    say(region, "poke", *call(PTRACE, 4, pid, address + PAGE, 0x1111111111111111))
    try:
        with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
            memory.seek(address + 2 * PAGE)
            memory.write(b"\x22" * PAGE)
    except OSError as error:
        say(region, "mem", error.errno)
    call(PTRACE, 17, pid, 0, 0)
    os.waitpid(pid, 0)


sys.stdout.flush()
for region in sys.argv[1:] or REGIONS:
    address = REGIONS[region]
    say(region, content(address, 4 * PAGE))
    for advice in ADVICE:
        advise(region, address, advice)
    for old, new in ((PAGE, 2 * PAGE), (SIZE // 2, 1 << 24), (4 * PAGE, PAGE)):
        remap(region, address, old, new, flags=0)
        remap(region, address, old, new, flags=MAYMOVE)
        remap(region, address, old, new, flags=MAYMOVE | FIXED)
    remap(region, address, 4 * PAGE, 4 * PAGE, flags=MAYMOVE | DONTUNMAP)
    others(region, address)
    from_outside(region, address)
