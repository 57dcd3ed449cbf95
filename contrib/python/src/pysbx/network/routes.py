"""Which addresses are other machines: the table of public ones, and the kernel's routes, by rtnetlink(7)."""

from __future__ import annotations

import errno
import socket
import struct

from pysbx.network.host_rules import Address, is_public

# linux/netlink.h and linux/rtnetlink.h
NLM_F_REQUEST, NLMSG_ERROR, RTM_GETROUTE, RTA_DST, RTN_UNICAST, TYPE = 1, 2, 26, 1, 1, 7
NLMSGHDR, RTMSG, RTATTR, ERROR = map(struct.Struct, ("=IHHII", "=8BI", "=HH", "=i"))
MAX_ANSWER = 1 << 14


def is_public_elsewhere(address: Address) -> bool:
    """Tell whether an address belongs to the internet at large, and is not one of this machine.

    Raises:
        OSError: the kernel cannot be asked.
    """
    return is_public(address) and _leads_out(address)


def _leads_out(address: Address) -> bool:
    """Tell whether the kernel sends packets for an address to another machine, or has no route for them."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    route = RTMSG.pack(family, address.max_prefixlen, 0, 0, 0, 0, 0, 0, 0)
    route += RTATTR.pack(RTATTR.size + len(address.packed), RTA_DST) + address.packed
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
        kernel.sendto(NLMSGHDR.pack(NLMSGHDR.size + len(route), RTM_GETROUTE, NLM_F_REQUEST, 0, 0) + route, (0, 0))
        answer = kernel.recv(MAX_ANSWER)
    if NLMSGHDR.unpack_from(answer)[1] == NLMSG_ERROR:
        return -ERROR.unpack_from(answer, NLMSGHDR.size)[0] in (errno.ENETUNREACH, errno.EHOSTUNREACH)
    return answer[NLMSGHDR.size + TYPE] == RTN_UNICAST
