"""Memory that no rlimit counts. If no cgroup counts it either, each kind is bounded on its own, or refused.

It is what a sandbox can hold outside of an address space: files in memory, empty files, shared memory of System V, data
in sockets and pipes.
See tmpfs(5), proc_sys_kernel(5), unix(7), tcp(7), splice(2), seccomp(2).
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

from pysbx.container.quotas import DESCRIPTORS_OF_A_MESSAGE, OPEN_FILES, Json, allow, argument, number_in
from pysbx.options.declaration import MIB
from pysbx.options.options import Options

PAGE = os.sysconf("SC_PAGE_SIZE")
# Tables of pages, memory maps, stacks and structures of a process.
PART_OF_A_PROCESS = 32 * MIB
# Signals, events and messages that wait, semaphores, timers: they are bounded by number.
SPARE = 64 * MIB
# /tmp, /work, /output and /dev/shm, each with the size that the options say.
FILE_SYSTEMS = 4
FILES_OF_DEV = 128
# An inode of tmpfs and its directory entry take less, a name of 255 bytes included.
INODE_SIZE = 1536
EPOLL_WATCH_SIZE = 200
# System V: sets of semaphores and queues of messages for programs that insist on some. See semget(2), msgget(2).
SEMAPHORES = "250 4000 32 16"
QUEUES, SEGMENTS = 4, 128
# Before Linux 5.19 a sandbox cannot have these parameters; the system calls are refused instead.
STANDS_IN = {"kernel.sem": "semget", "kernel.msgmni": "msgget", "kernel.shmall": "shmget"}
# Connections that can wait for accept(2), each with a full buffer. 11 datagrams can wait.
BACKLOG = 16
# Least, default and most of a TCP socket, each way: no more than another socket has.
TCP_BUFFER = "4096 65536 212992"
# Files in memory; and pages that a pipe or socket keeps when their file has been cut. Programs do without: these calls
# are missing on some kernels, and fail for some files.
REFUSED = ("memfd_create", "sendfile", "splice", "tee")
ENOSYS = 38
SOL_SOCKET, SO_SNDBUF, SO_RCVBUF = 1, 7, 8
# The options above those two, as ranges that a mask can express: first, size. Those with FORCE in their name, which are
# among them, want a capability.
OTHER_OPTIONS = ((9, 1), (10, 2), (12, 4), (16, 16), (32, 32), (64, 64))
# Levels of setsockopt(2): IP, TCP, UDP, IPv6.
LEVELS = (0, 6, 17, 41)


def parameters(options: Options, *, counted: bool) -> dict[str, str]:
    """Return linux.sysctl of the namespaces for IPC and network: all that this kernel may accept.

    Args:
        options: of the sandbox.
        counted: whether a cgroup counts its memory.
    """
    shared = options.memory_mb if counted else options.tmp_mb
    found = {
        "kernel.sem": SEMAPHORES,
        "kernel.msgmni": str(QUEUES),
        "kernel.shmall": str(shared * MIB // PAGE),
        "kernel.shmmni": str(SEGMENTS),
    }
    if options.allow_network.kind != "host" and not counted:
        found["net.core.somaxconn"] = str(BACKLOG)
        if options.allow_network.kind != "none":
            found["net.ipv4.tcp_rmem"] = found["net.ipv4.tcp_wmem"] = TCP_BUFFER
    return found


def files_of_tmpfs(size_mb: int) -> int:
    """Return how many inodes a tmpfs has: as many as pages, for an empty file takes memory as well."""
    return size_mb * MIB // PAGE


def packages_mb(options: Options) -> int:
    """Return the size of the file system for packages that are added to a session; their use takes the other half."""
    return options.memory_mb // 2 if options.session else 0


def buffer_size() -> int:
    """Return the memory that data in one direction of a socket takes at most, in bytes.

    It is the default of a send buffer, which nothing raises, and what one write may exceed it by.
    """
    return min(number_in("/proc/sys/net/core/wmem_default"), 16 * MIB) + 64 * 1024


def bound(options: Options, address_space: int) -> int:
    """Return the memory that a sandbox holds at most, in bytes: the formula of THREAT-MODEL.md."""
    processes = options.max_processes
    descriptors = processes * (OPEN_FILES + DESCRIPTORS_OF_A_MESSAGE) + OPEN_FILES
    watches = min(number_in("/proc/sys/fs/epoll/max_user_watches"), 1 << 30)
    sizes = [options.tmp_mb] * FILE_SYSTEMS + [packages_mb(options)]
    return (
        processes * (address_space + PART_OF_A_PROCESS)
        + descriptors * (BACKLOG + 1) * buffer_size()
        + sum(size * MIB + files_of_tmpfs(size) * INODE_SIZE for size in sizes)
        + options.tmp_mb * MIB  # shared memory of System V
        + watches * EPOLL_WATCH_SIZE
        + SPARE
    )


def _buffers() -> list[Json]:
    """Allow setsockopt(2), but leave the sizes of buffers as they are: asking for one is a hint, so it succeeds.

    The list has the allowed options and not the refused ones: the kernel reads 32 bits of a level and an option, the
    filter 64, which the masks cover.
    """
    own = argument(1, "EQ", SOL_SOCKET)
    return [
        *(allow("setsockopt", argument(1, "EQ", level)) for level in LEVELS),
        allow("setsockopt", own, argument(2, "LT", SO_SNDBUF)),
        *(allow("setsockopt", own, argument(2, "MASKED_EQ", (1 << 64) - size, first)) for first, size in OTHER_OPTIONS),
        *(
            allow("setsockopt", own, argument(2, "EQ", option)) | {"action": "SCMP_ACT_ERRNO", "errnoRet": 0}
            for option in (SO_SNDBUF, SO_RCVBUF)
        ),
    ]


def conditional(refused: Collection[str]) -> Mapping[str, list[Json]]:
    """Return the system calls that are allowed with certain arguments only, or not at all, and their rules.

    Args:
        refused: names of parameters() that the kernel does not let a sandbox have.
    """
    absent = {"action": "SCMP_ACT_ERRNO", "errnoRet": ENOSYS}
    return {
        "setsockopt": _buffers(),
        **{name: [{"names": [name], **absent}] for name in REFUSED},
        **{call: [] for parameter, call in STANDS_IN.items() if parameter in refused},
    }
