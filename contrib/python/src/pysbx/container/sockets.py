"""Socket families: which sockets the seccomp filter of a sandbox lets a process create.

Network namespaces do not cover every family. AF_VSOCK reaches the hypervisor and the host's listeners, AF_ALG the
kernel's cipher code, and a family the kernel has as a module is loaded on first use. So the filter allows a list. See
socket(2), socketpair(2), netlink(7), seccomp(2).
"""

from __future__ import annotations

import errno
import socket
from typing import Any

from pysbx.options.network import Network

Json = dict[str, Any]

NETLINK_ROUTE = 0
# The kernel turns AF_INET with SOCK_PACKET, 10, into AF_PACKET; no other type that a sandbox may use has this bit.
PACKET_BIT = 0x8
# The families, each with the conditions on the other arguments of socket(2): type is 1, protocol is 2.
SOCKETS: dict[int, tuple[Json, ...]] = {
    socket.AF_UNIX: (),
    socket.AF_INET: ({"index": 1, "value": PACKET_BIT, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"},),
    socket.AF_INET6: ({"index": 1, "value": PACKET_BIT, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"},),
    # getaddrinfo(3), getifaddrs(3) and if_nameindex(3) ask the kernel for addresses and interfaces.
    socket.AF_NETLINK: ({"index": 2, "value": NETLINK_ROUTE, "op": "SCMP_CMP_EQ"},),
}
# The families that a network adds to Unix sockets: the same for every kind of network. With "host" a caller asks for
# the host's IP network, and not for its buses, ciphers and hypervisor.
WITHOUT_NETWORK, WITH_NETWORK = (socket.AF_UNIX,), tuple(SOCKETS)


def _family(value: int, operator: str = "SCMP_CMP_EQ") -> Json:
    return {"index": 0, "value": value, "op": operator}


def _others(families: tuple[int, ...]) -> list[Json]:
    """Return conditions of which one holds for every other family, and for numbers with bits above the lowest 32."""
    first, last = min(families), max(families)
    between = [_family(number) for number in range(first, last) if number not in families]
    return [_family(first, "SCMP_CMP_LT"), *between, _family(last, "SCMP_CMP_GT")]


def rules(network: Network, calls: tuple[str, ...]) -> tuple[list[Json], tuple[str, ...]]:
    """Return the rules for socket(2) and socketpair(2), and the system calls that remain without a condition.

    Args:
        network: that of the sandbox.
        calls: the system calls that the options allow; a list cannot lift the conditions on these two.
    """
    families = WITHOUT_NETWORK if network.kind == "none" else WITH_NETWORK
    made: list[Json] = []

    def add(call: str, action: str, args: list[Json], number: int | None = None) -> None:
        rule: Json = {"names": [call], "action": f"SCMP_ACT_{action}", "args": args}
        made.append(rule if number is None else rule | {"errnoRet": number})

    for family in families:
        add("socket", "ALLOW", [_family(family), *SOCKETS[family]])
    # Conditions on one argument are alternatives: see runtime/sandbox/seccomp/compile.c.
    add("socket", "ERRNO", _others(families), errno.EAFNOSUPPORT)
    if socket.AF_NETLINK in families:
        other = {"index": 2, "value": NETLINK_ROUTE, "op": "SCMP_CMP_NE"}
        add("socket", "ERRNO", [_family(socket.AF_NETLINK), other], errno.EPROTONOSUPPORT)
    if "socketpair" in calls:
        add("socketpair", "ALLOW", [_family(socket.AF_UNIX)])
        add("socketpair", "ERRNO", _others(WITHOUT_NETWORK), errno.EAFNOSUPPORT)
    return made, tuple(call for call in calls if call not in ("socket", "socketpair"))
