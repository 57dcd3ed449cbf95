"""Memory where no cgroup controller counts it: what holds memory outside of an address space is bounded or refused."""

from __future__ import annotations

import pytest

from pysbx import Execution, run_code
from pysbx.container import limits, memory_without_cgroup, quotas
from pysbx.options.declaration import MIB
from pysbx.options.options import make_options
from tests.test_hostile import said

BYTES_OF_A_PIPE = 16 * 4096


@pytest.fixture(autouse=True)
def rlimits_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have rlimits stand in, also on a machine with controllers."""
    if limits.enforcement().by["memory"] == "cgroup":
        monkeypatch.setattr(
            limits,
            "enforcement",
            lambda: limits.Enforcement(dict.fromkeys(("memory", "cpu", "pids"), "rlimit"), "by a test"),
        )


def small(source: str) -> Execution:
    """Run an attack in a small sandbox, with an answer that is not an error."""
    done = run_code(source, memory_mb=64, max_processes=1, tmp_mb=16, timeout_sec=40)
    assert done.error is None, done.error
    return done


def number(source: str) -> int:
    """Return the value of an attack's last expression."""
    return int(small(source).value or 0)


def test_files_in_memory_are_refused_where_nothing_counts_them() -> None:
    found = small("import os\ntry: os.memfd_create('x')\nexcept OSError as error: print(error.errno)")
    assert found.stdout == "38\n"


def test_standard_input_comes_all_the_same() -> None:
    done = run_code("import sys; print(len(sys.stdin.read()))", stdin="x" * MIB)
    assert done.stdout == f"{MIB}\n"


@pytest.mark.parametrize("size", [4096, MIB, 16 * MIB, 17 * MIB])
def test_shared_memory_of_system_v_is_bounded_for_the_sandbox(size: int) -> None:
    found = number(
        f"""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.shmget.argtypes = [ctypes.c_int, ctypes.c_size_t, ctypes.c_int]
taken = 0
while taken < 10000 and libc.shmget(0, {size}, 0o600) >= 0: taken += 1
taken * {size}
"""
    )
    assert found <= 16 * MIB
    assert (found > 0) is (size <= 16 * MIB)


def test_semaphores_and_queues_of_system_v_are_few() -> None:
    found = small(
        """
import ctypes
libc, sets, queues = ctypes.CDLL(None, use_errno=True), 0, 0
print(libc.semget(0, 32000, 0o600))
while sets < 1000 and libc.semget(0, 250, 0o600) >= 0: sets += 1
while queues < 1000 and libc.msgget(0, 0o600) >= 0: queues += 1
print(1 <= sets <= 16, 1 <= queues <= 4)
"""
    )
    assert found.stdout == "-1\nTrue True\n"


FILES = """
import os
made = []
for top in ("/tmp", "/work", "/output", "/dev/shm", "/dev"):
    number = 0
    try:
        while number < 100_000:
            MAKE
            number += 1
    except OSError as error:
        pass
    made.append(number)
sum(made)
"""


@pytest.mark.parametrize(
    "make",
    [
        "os.close(os.open(f'{top}/{number}', os.O_CREAT | os.O_WRONLY))",
        "os.mkdir(f'{top}/{number}')",
        "os.symlink('x' * 100, f'{top}/{number}')",
        "number or os.close(os.open(f'{top}/x', os.O_CREAT)); os.link(f'{top}/x', f'{top}/{number}')",
        "os.mkfifo(f'{top}/{number}')",
    ],
    ids=["files", "directories", "links", "hard links", "pipes"],
)
def test_empty_files_are_bounded(make: str) -> None:
    each = memory_without_cgroup.files_of_tmpfs(16)
    assert (
        number(FILES.replace("MAKE", make))
        <= memory_without_cgroup.FILE_SYSTEMS * each + memory_without_cgroup.FILES_OF_DEV
    )


def test_as_many_small_files_as_pages_can_be_made() -> None:
    assert number(FILES.replace("MAKE", "open(f'{top}/{number}', 'w').write('x')").replace(', "/dev")', ")")) > 16_000


def test_buffers_of_sockets_keep_their_size() -> None:
    found = number(
        """
import socket
one, other = socket.socketpair()
for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
    one.setsockopt(socket.SOL_SOCKET, option, 1 << 28)  # as a kernel, which has a largest size, says nothing
one.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
one.settimeout(0)
sent = 0
try:
    while True: sent += one.send(b"x" * 65536)
except BlockingIOError: pass
sent
"""
    )
    assert 0 < found <= memory_without_cgroup.buffer_size()


def test_an_option_of_sockets_cannot_hide_from_the_filter() -> None:
    found = said(
        """
        one, other = socket.socketpair()
        size = ctypes.c_int(1 << 28)
        for level, option in ((1, 7), ((1 << 32) | 1, 7), (1, (1 << 32) | 7), (1, 32), (1, 33), (1, (1 << 40) | 8)):
            arguments = (one.fileno(), ctypes.c_long(level), ctypes.c_long(option), ctypes.byref(size), 4)
            print(call('syscall', 54, *arguments))
        print(one.getsockopt(1, 7) == other.getsockopt(1, 7), one.getsockopt(1, 8) == other.getsockopt(1, 8))
        """
    )
    assert found == "0\nEPERM\nEPERM\nEPERM\nEPERM\nEPERM\nTrue True\n"


@pytest.mark.parametrize("network", ["none", "localhost"])
def test_options_of_sockets_are_not_the_filters_business(network: str) -> None:
    found = said(
        f"""
        with socket.socket(socket.AF_UNIX if {network == "none"} else socket.AF_INET) as one:
            # Those of SOL_SOCKET that want no privilege; not every kernel has all, nor every family of sockets.
            for option in (2, 5, 6, 9, 10, 12, 13, 14, 15, 16, 18, 19, 20, 21, 29, 34, 42, 47, 60, 63, 67, 72, 76, 83):
                try: one.setsockopt(socket.SOL_SOCKET, option, struct.pack('qq', 1, 0))
                except OSError as error:
                    if error.errno == errno.EPERM: print('SOL_SOCKET', option)
            if one.family == socket.AF_INET:
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                one.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 9)
                with socket.socket(socket.AF_INET6) as other:
                    other.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            print('done')
        """,
        allow_network=network,
    )
    assert found == "done\n"


CONNECTIONS = """
import os, socket
listener = socket.socket(socket.AF_UNIX)
listener.bind("/tmp/s")
listener.listen(100_000)
waiting = sent = 0
while waiting < 400:
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(0)
    try: client.connect("/tmp/s")
    except BlockingIOError: break
    try:
        while True: sent += client.send(b"x" * 65536)
    except BlockingIOError: pass
    client.close()
    waiting += 1
sent
"""
DATAGRAMS = """
import socket
receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
receiver.bind("/tmp/s")
sent = 0
for _ in range(400):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
        client.settimeout(0)
        try:
            client.connect("/tmp/s")
            while True: sent += client.send(b"x" * 65536)
        except BlockingIOError: pass
sent
"""


@pytest.mark.parametrize("attack", [CONNECTIONS, DATAGRAMS], ids=["connections", "datagrams"])
def test_what_waits_at_a_socket_is_bounded(attack: str) -> None:
    assert 0 < number(attack) <= (memory_without_cgroup.BACKLOG + 1) * memory_without_cgroup.buffer_size()


def test_pages_of_files_that_are_gone_are_not_kept_by_pipes_and_sockets() -> None:
    found = said(
        """
        reader, writer = os.pipe()
        file = os.open('/tmp', os.O_TMPFILE | os.O_RDWR)
        os.write(file, b'x' * 4096)
        print(call('syscall', 275, file, 0, writer, 0, 1, 0), call('syscall', 40, writer, file, 0, 1))
        print(call('syscall', 276, reader, writer, 1, 0), call('syscall', 278, writer, 0, 0, 0))
        """
    )
    assert found == "ENOSYS ENOSYS\nENOSYS EPERM\n"


def test_files_are_copied_without_sendfile() -> None:
    assert (
        said(
            "import shutil; open('/tmp/a', 'w').write('x' * 99999); print(shutil.copy('/tmp/a', '/tmp/b'))\n"
            "print(os.path.getsize('/tmp/b'))"
        )
        == "/tmp/b\n99999\n"
    )


def test_a_pipe_holds_no_more_than_is_usual() -> None:
    found = number(
        """
import fcntl, os
reader, writer = os.pipe()
try: fcntl.fcntl(writer, 1031, 1 << 20)
except OSError: pass
os.set_blocking(writer, False)
sent = 0
try:
    while True: sent += os.write(writer, b"x" * 65536)
except BlockingIOError: pass
sent
"""
    )
    assert found <= BYTES_OF_A_PIPE


def test_shared_memory_of_python_works() -> None:
    found = said(
        """
        import mmap
        from multiprocessing import Process, Value, shared_memory
        block = shared_memory.SharedMemory(create=True, size=1 << 20)
        total = Value('i', 0)
        def work(name):
            other = shared_memory.SharedMemory(name)
            with total.get_lock():
                total.value += 1
                other.buf[0] += 1
            other.close()
        if __name__ == '__main__':
            made = [Process(target=work, args=(block.name,)) for _ in range(3)]
            for one in made: one.start()
            for one in made: one.join()
            print(block.buf[0], total.value, len(mmap.mmap(-1, 4096)))
            block.close(); block.unlink()
        """
    )
    assert found == "3 3 4096\n"


EVERYTHING = """
import ctypes, mmap, os, resource, socket
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
MIB, kept, held = 1 << 20, [], 0

def take(way):
    global held
    before = held
    try:
        while held - before < 1500 * MIB:
            held += way()
    except (OSError, MemoryError, ValueError):
        pass

def fill(room):
    kept.append(room)
    for at in range(0, len(room), 4096): room[at] = 1
    return len(room)

def shared():
    return fill(mmap.mmap(-1, 16 * MIB))

def private():
    room = mmap.mmap(-1, 16 * MIB, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    size = fill(room)
    # What cannot be written is not counted as data any more.
    libc.mprotect(ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(room))), ctypes.c_size_t(size), 1)
    return size

def in_memory():
    kept.append(os.memfd_create("x"))
    return os.write(kept[-1], b"x" * MIB)

def segment():
    name = libc.shmget(0, MIB, 0o600)
    if name < 0: raise OSError
    at = libc.shmat(name, None, 0)
    ctypes.memset(at, 1, MIB)
    libc.shmdt(ctypes.c_void_p(at))
    return MIB

def file():
    return os.write(writer, b"x" * MIB)

def sockets():
    sent = 0
    kept.append(socket.socketpair())
    for one in kept[-1]:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 28)
        one.settimeout(0)
        try:
            while True: sent += one.send(b"x" * 65536)
        except BlockingIOError: pass
    return sent

take(in_memory)
take(segment)
for top in ("/tmp", "/work", "/output", "/dev/shm"):
    writer = os.open(f"{top}/x", os.O_CREAT | os.O_WRONLY)
    take(file)
for way in (private, shared, sockets): take(way)
kept.clear()
held
"""


def test_all_that_a_sandbox_can_hold_is_within_the_bound_of_the_threat_model() -> None:
    options = make_options(memory_mb=64, max_processes=1, tmp_mb=16, timeout_sec=60)
    done = run_code(EVERYTHING, memory_mb=64, max_processes=1, tmp_mb=16, timeout_sec=60)
    assert done.error is None, done.error
    # Of the bound, what this attack uses: at its sockets nothing waits to be accepted, and none is in flight.
    most = limits.address_space(options) + 5 * 16 * MIB + quotas.OPEN_FILES * memory_without_cgroup.buffer_size()
    assert 500 * MIB < int(done.value or 0) <= most < limits.memory_bound(options)
