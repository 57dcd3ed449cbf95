"""Resources that the kernel counts for the calling user of the host: a sandbox must not use them up.

The attacks run in sessions, which hold what they have taken while this process looks whether any is left for itself.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import os
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from pysbx import Sandbox
from pysbx.container import quotas
from tests.test_hostile import said

INOTIFY = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
taken = 0
while taken < 2000 and libc.inotify_init1(0) >= 0: taken += 1
taken
"""
SIGNALS = """
import ctypes, os, signal
number = signal.SIGRTMIN + 5
signal.pthread_sigmask(signal.SIG_BLOCK, [number])
libc, taken = ctypes.CDLL(None, use_errno=True), 0
while taken < 200000 and libc.sigqueue(os.getpid(), number, ctypes.c_void_p(1)) == 0: taken += 1
taken
"""
IN_FLIGHT = """
import array, os, socket
held, taken, null = [], 0, os.open("/dev/null", os.O_RDONLY)
rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [null] * 200))]
try:
    while taken < 20000:
        held += [ends := socket.socketpair()]
        for _ in range(30):
            ends[0].sendmsg([b"x"], rights)
            taken += 200
except OSError:
    pass
taken
"""
libc = ctypes.CDLL(None, use_errno=True)


def taken(session: Sandbox, source: str) -> int:
    """Run an attack, and return how much of it the sandbox holds from now on."""
    done = session.run(source)
    assert done.error is None, done.error
    return int(done.value or 0)


def inotify_instance() -> str:
    """Take an instance of inotify for a moment, as a program of the host does; return "ok" or why there is none."""
    descriptor = libc.inotify_init1(0)
    if descriptor < 0:
        return os.strerror(ctypes.get_errno())
    os.close(descriptor)
    return "ok"


def pending_signal() -> str:
    """Make a timer, for which the kernel sets a pending signal aside; return "ok" or why there is none."""
    timer = ctypes.c_void_p()
    if libc.timer_create(1, None, ctypes.byref(timer)):
        return os.strerror(ctypes.get_errno())
    libc.timer_delete(timer)
    return "ok"


def descriptor_in_flight() -> str:
    """Send a descriptor through a socket; return "ok" or why it cannot be sent."""
    one, other = socket.socketpair()
    with one, other:
        try:
            one.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0]))])
        except OSError as error:
            return str(error)
    return "ok"


@contextlib.contextmanager
def usual_open_files() -> Iterator[None]:
    """Have the soft limit of open files that programs begin with, which is also that of descriptors in flight."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, before[0]), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_sandboxes_leave_instances_of_inotify() -> None:
    with ExitStack() as stack:
        sessions = [stack.enter_context(Sandbox()) for _ in range(3)]
        for session in sessions:
            assert 1 <= taken(session, INOTIFY) <= 128
            assert inotify_instance() == "ok"


def test_watches_of_inotify_are_a_part_of_the_users() -> None:
    inside = int(said("print(open('/proc/sys/user/max_inotify_watches').read())"))
    with open("/proc/sys/fs/inotify/max_user_watches", encoding="ascii") as file:
        assert inside <= int(file.read()) // quotas.SHARE


def test_inotify_still_works() -> None:
    found = said(
        """
        queue = libc.inotify_init1(0)
        print(libc.inotify_add_watch(queue, b'/tmp', 0x100))
        open('/tmp/x', 'w').close()
        print(len(os.read(queue, 4096)) > 16)
        """
    )
    assert found == "1\nTrue\n"


def test_sandboxes_leave_pending_signals() -> None:
    with Sandbox() as one, Sandbox() as two:
        assert quotas.LEAST_SIGNALS <= taken(one, SIGNALS) <= quotas.MOST_SIGNALS
        assert pending_signal() == "ok"
        # It is a sandbox's own: what one has taken is not missing in another.
        assert quotas.LEAST_SIGNALS <= taken(two, SIGNALS) <= quotas.MOST_SIGNALS
        assert pending_signal() == "ok"


def test_sandboxes_leave_descriptors_in_flight() -> None:
    with Sandbox() as one, Sandbox() as two:
        # Both are the same user of the host, whose descriptors in flight are counted together.
        most = quotas.OPEN_FILES + quotas.DESCRIPTORS_OF_A_MESSAGE
        assert taken(one, IN_FLIGHT) + taken(two, IN_FLIGHT) <= most
        with usual_open_files():
            assert descriptor_in_flight() == "ok"


def test_descriptors_can_be_passed_inside() -> None:
    found = said(
        """
        from multiprocessing import reduction
        one, other = socket.socketpair()
        reduction.sendfds(one, [1])
        print(len(reduction.recvfds(other, 1)))
        """
    )
    assert found == "1\n"


def test_pipes_do_not_grow() -> None:
    found = said(
        """
        import fcntl
        reader, writer = os.pipe()
        for size in (4096, 65536, 131072, 1 << 20):
            try: print(fcntl.fcntl(writer, 1031, size))
            except OSError as error: print(errno.errorcode[error.errno])
        # The kernel takes 32 bits of a command: those above must not hide it from the filter.
        print(call('syscall', 72, writer, ctypes.c_long((1 << 32) | 1031), ctypes.c_long(1 << 20)))
        print(call('syscall', 72, writer, ctypes.c_long(1031), ctypes.c_long((1 << 32) | (1 << 20))))
        print(fcntl.fcntl(writer, 1032), fcntl.fcntl(writer, fcntl.F_GETFL) & 1, fcntl.fcntl(writer, fcntl.F_GETFD))
        """
    )
    assert found.split() == ["4096", "65536", "EPERM", "EPERM", "EPERM", "EPERM", "65536", "1", "1"]


@pytest.mark.parametrize(
    ("attempt", "answers"),
    [
        ("call('mq_open', b'/q', os.O_CREAT | os.O_RDWR, 0o600, None)", ("EMFILE", "ENOSYS")),
        ("call('syscall', 248, b'user', b'x', b'x', 1, -2)", ("EPERM",)),
        ("call('syscall', 249, b'user', b'x', None, -2)", ("EPERM",)),
        ("call('syscall', 250, 1, 0, 0, 0, 0)", ("EPERM",)),
        ("call('syscall', 300, 0x200, 0)", ("EPERM",)),
    ],
    ids=["mq_open", "add_key", "request_key", "keyctl", "fanotify_init"],
)
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers are those of x86-64")
def test_other_quotas_are_not_touched(attempt: str, answers: tuple[str, ...]) -> None:
    assert said(f"print({attempt})").strip() in answers


def test_there_are_no_user_namespaces_nor_groups_of_fanotify() -> None:
    names = [n for n in ("max_user_namespaces", "max_fanotify_groups") if os.path.exists(f"/proc/sys/user/{n}")]
    assert said(f"for n in {names}: print(open('/proc/sys/user/' + n).read(), end='')") == "0\n" * len(names)


def test_the_bounds_cannot_be_raised() -> None:
    found = said(
        """
        for name in ('user/max_inotify_instances', 'kernel/shmall', 'kernel/sem', 'user/max_user_namespaces'):
            print(call('open', f'/proc/sys/{name}'.encode(), 1))
        import resource
        for name in ('RLIMIT_SIGPENDING', 'RLIMIT_MSGQUEUE', 'RLIMIT_NOFILE'):
            number = getattr(resource, name, 11)
            try: resource.setrlimit(number, (100000, 100000))
            except (ValueError, OSError): print('no')
        """
    )
    assert set(found.split()[:4]) <= {"EROFS", "EACCES", "EPERM"}
    assert found.split()[4:] == ["no"] * 3
