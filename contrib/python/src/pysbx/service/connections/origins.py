"""Pages of other servers, in a browser: which of them may call this one.

A page of another server cannot read answers, because no answer permits it, and cannot send a token that it does not
know. With --allow-origin, the answers permit it to the pages of some servers: see "HTTP CORS protocol" of the Fetch
standard. Cookies are never permitted. A server without tokens trusts each request that reaches it. A proxy in front may
know its user by a cookie. So such a server refuses what a browser sends for a foreign page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from starlette.middleware.cors import CORSMiddleware

from pysbx.service.connections.problems import ORIGIN, Problem

# As a browser writes it: RFC 6454, section 6.2.
FORM = re.compile(r"[a-z][a-z0-9+.-]*://(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?")
PORTS = {"http": 80, "https": 443}
METHODS = ("DELETE", "GET", "HEAD", "POST", "PUT")
# These change nothing.
SAFE = ("GET", "HEAD", "OPTIONS")
EXPOSED = ("Allow", "RateLimit", "RateLimit-Policy", "Retry-After", "WWW-Authenticate")


def check_origins(origins: Iterable[str]) -> None:
    """Refuse what a browser does not send as an origin.

    Raises:
        ValueError: one is malformed, or stands for every page.
    """
    for origin in origins:
        if not FORM.fullmatch(origin):
            advice = "scheme, host and port of a page, in lower case and without a path; '*' would be every page"
            raise ValueError(f"allow_origin: '{origin}' is no origin, such as https://notebook.example: {advice}")
        found = urlsplit(origin)
        if found.port is not None and found.port == PORTS.get(found.scheme):
            raise ValueError(f"allow_origin: '{origin}': browsers leave out the usual port: leave it out too")


def permitting(application: Any, origins: tuple[str, ...]) -> Any:
    """Return an application whose answers permit calls to pages of these origins."""
    return CORSMiddleware(
        application,
        allow_origins=origins,
        allow_methods=METHODS,
        allow_headers=("*",),
        expose_headers=EXPOSED,
    )


def check_page(headers: Mapping[str, str], allowed: Iterable[str]) -> None:
    """Refuse a request that a browser sends for a page of another server.

    Args:
        headers: by name in lower case. A program sends none of those that are looked at.
        allowed: origins that may.

    Raises:
        Problem: a foreign page asks.
    """
    origin, site = headers.get("origin", ""), headers.get("sec-fetch-site", "")
    if origin in allowed:
        return
    # A page cannot set this header. A proxy may have changed Host, with which the other one is compared.
    if site and site not in ("same-origin", "none"):
        raise Problem(ORIGIN, f"the header Sec-Fetch-Site is '{site:.200}'")
    if not site and origin and origin.partition("://")[2] != headers.get("host", ""):
        raise Problem(ORIGIN, f"the header Origin is '{origin:.200}'")
