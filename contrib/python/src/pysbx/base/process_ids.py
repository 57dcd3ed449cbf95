"""The ids and capabilities of this program, and the ids that it can give to a sandbox.

In a container of another engine, root has a part of the host's ids and few capabilities, a filter refuses system calls,
and parts of /proc are hidden. See user_namespaces(7), capabilities(7), seccomp(2).
"""

from __future__ import annotations

import os
import re
import zlib
from functools import cache

CAP_SETGID, CAP_SETUID, CAP_SYS_ADMIN, CAP_SETFCAP = 6, 7, 21, 31
# Ids of the host that no other process has: systemd assigns none of this range (https://systemd.io/UIDS-GIDS).
FIRST_HOST_ID, HOST_IDS = 1_900_000_000, 100_000_000
# Fewer ids than these are no range of which a part is surely free.
LEAST_IDS = 1000


@cache
def _capabilities() -> int:
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        found = re.search(r"^CapEff:\s*([0-9a-f]+)$", file.read(), re.MULTILINE)
    return int(found[1], 16) if found else 0


def has_capability(*numbers: int) -> bool:
    """Tell whether this program has each of these capabilities in its user namespace."""
    return all(_capabilities() >> number & 1 for number in numbers)


def may_map() -> bool:
    """Tell whether this program may give a sandbox a user of the host other than its own."""
    return os.geteuid() == 0 and has_capability(CAP_SETUID, CAP_SETGID)


def opens_for_others() -> bool:
    """Tell whether the runtime can open a path for a sandbox whose user cannot enter the directories above it."""
    return has_capability(CAP_SYS_ADMIN)


def _spare(kind: str, seed: int) -> int | None:
    """Return an id of this user namespace that no program is likely to have, or None if there is none."""
    with open(f"/proc/self/{kind}_map", encoding="ascii") as file:
        ranges = [(int(first), int(count)) for first, _, count in map(str.split, file)]
    if any(first <= FIRST_HOST_ID and first + count >= FIRST_HOST_ID + HOST_IDS for first, count in ranges):
        return FIRST_HOST_ID + seed % HOST_IDS
    first, count = max(ranges, key=lambda found: found[1], default=(0, 0))
    # The third quarter: neither the ids of a distribution, nor those that systemd assigns, nor 65534.
    return first + count // 2 + seed % (count // 4) if count >= LEAST_IDS else None


def ids_of_sandbox(name: bytes) -> tuple[int, int]:
    """Return the user and the group of this user namespace that a sandbox has.

    They are the caller's own, or, if root calls, a user that no other process has.

    Args:
        name: what tells the sandbox from others.
    """
    seed = zlib.crc32(name)
    if may_map():
        user, group = _spare("uid", seed), _spare("gid", seed)
        if user is not None and group is not None:
            return user, group
    return os.geteuid(), os.getegid()
