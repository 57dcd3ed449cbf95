"""Sockets, reads and poll(2) as the kernel has them, also where this program has replaced them.

A default timeout (socket.setdefaulttimeout) makes each new socket non-blocking, also one that another process gets.
gevent, eventlet and pytest-socket replace what modules socket, select and os contain. The modules beneath stay.
"""

from __future__ import annotations

import importlib.util
import select
from _socket import socket, socketpair
from functools import cache
from posix import read  # that of os waits under eventlet, also for a descriptor that does not block
from types import ModuleType

__all__ = ["make_pair", "make_poll", "read", "socket"]


def make_pair() -> tuple[socket, socket]:
    """Return the ends of a stream, which both block."""
    ends = socketpair()
    for end in ends:
        end.setblocking(True)
    return ends


@cache
def _select() -> ModuleType:
    spec = importlib.util.find_spec("select")
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def make_poll() -> select.poll:
    """Return a new poll object: gevent's, under which other greenlets go on, or Python's.

    eventlet removes poll(2) and has nothing instead. So its other greenlets wait as long as the poll does.
    """
    made: select.poll = (select if hasattr(select, "poll") else _select()).poll()
    return made
