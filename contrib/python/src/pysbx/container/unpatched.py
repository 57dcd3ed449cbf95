"""Sockets, reads and poll(2) as the kernel has them, also where this program has replaced them.

A default timeout (socket.setdefaulttimeout) makes each new socket non-blocking, also one that another process gets.
gevent, eventlet and pytest-socket replace what modules socket, select and os contain. The modules beneath stay.
"""

from __future__ import annotations

import select
from _socket import socket, socketpair
from collections.abc import Iterable
from functools import cache
from posix import read  # that of os waits under eventlet, also for a descriptor that does not block
from types import ModuleType

__all__ = ["make_pair", "make_poll", "read", "readable", "socket"]


def make_pair() -> tuple[socket, socket]:
    """Return the ends of a stream, which both block."""
    ends = socketpair()
    for end in ends:
        end.setblocking(True)
    return ends


@cache
def _select() -> ModuleType:
    import importlib.util  # noqa: PLC0415 (few programs replace poll)

    spec = importlib.util.find_spec("select")
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def readable(poll: select.poll, descriptors: Iterable[int]) -> list[int]:
    """Return those of some descriptors of a poll object that can be read now; with gevent's, all of them."""
    if type(poll).__module__ != "select":
        return list(descriptors)
    ready = dict(poll.poll(0))
    return [one for one in descriptors if one in ready]


def make_poll() -> select.poll:
    """Return a new poll object: gevent's, under which other greenlets go on, or Python's.

    eventlet removes poll(2) and has nothing instead. So its other greenlets wait as long as the poll does.
    """
    made: select.poll = (select if hasattr(select, "poll") else _select()).poll()
    return made
