"""The number of connections of a server. The descriptors that its own work needs are not for connections."""

from __future__ import annotations

import resource
from dataclasses import dataclass

from pysbx.container.streams import MOST_LATE

# Connections besides those that are answered: idle ones, and those whose request has not come yet.
SPARE_CONNECTIONS = 256
SPARE_OF_A_PEER = 64
# A server with fewer connections is of no use: a monitor has to be able to ask for its health.
FEWEST = 8
# Connections that wait for a place.
LATE = 128
# Descriptors of the server itself: these, its streams, its socket, files that are read, libraries that are loaded.
RESERVED = LATE + 64
# A run holds a socket, two pipes, a process and an event; while it starts and ends, it holds some more.
RESERVED_FOR_A_RUN = 24
# Its processes may hold the streams of earlier runs.
RESERVED_FOR_A_SESSION = 10 + MOST_LATE
# Of a sandbox with named hosts, for its proxy.
RESERVED_FOR_A_NETWORK = 256


@dataclass(frozen=True)
class Bounds:
    """The most connections: of all peers together, and of one."""

    connections: int
    per_peer: int


def reserved(at_once: int, sessions: int, *, network: bool) -> int:
    """Return the number of descriptors that the server's own work needs."""
    found = RESERVED + RESERVED_FOR_A_RUN * at_once + RESERVED_FOR_A_SESSION * sessions
    return found + (RESERVED_FOR_A_NETWORK if network else 0)


def make_bounds(connections: int | None, per_peer: int | None, slots: int, kept: int, *, shared: bool) -> Bounds:
    """Return the bounds of a server.

    Args:
        connections: what the administrator wants, or None.
        per_peer: the same, of one peer.
        slots: requests that are worked on or wait.
        kept: descriptors for the server's own work: see reserved().
        shared: whether there is more than one peer. At a Unix socket all connections are of one user.

    Raises:
        ValueError: there are not enough descriptors for that.
    """
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    room = limit - kept if limit != resource.RLIM_INFINITY else slots + SPARE_CONNECTIONS + (connections or 0)
    if room < max(connections or 0, FEWEST):
        raise ValueError(
            f"connections: {connections or FEWEST} connections and the server's own work need "
            f"{max(connections or 0, FEWEST) + kept} descriptors, and the limit is {limit}: "
            "raise it (`ulimit -n`, LimitNOFILE= of systemd), or lower --connections, --at-once or --sessions"
        )
    most = connections or min(room, slots + SPARE_CONNECTIONS)
    return Bounds(most, min(most, per_peer or (slots + SPARE_OF_A_PEER if shared else most)))
