"""The authority by which the proxy ends the TLS of this sandbox, for all clients that use Python's module ssl.

Variables name the file with all authorities. But a preloaded module may have made its context before, as aiohttp does,
and some clients have a list of their own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from . import patches

BEGIN = "-----BEGIN CERTIFICATE-----"
_authority = ""


def _trusting(wrap: Callable[..., Any]) -> Callable[..., Any]:
    def trusting(context: Any, *arguments: Any, **named: Any) -> Any:
        if context.verify_mode:
            context.load_verify_locations(cadata=_authority)  # OpenSSL keeps a certificate once
        return wrap(context, *arguments, **named)

    return trusting


def _patch(ssl: Any) -> None:
    for name in ("wrap_socket", "wrap_bio"):
        patches.replace(ssl.SSLContext, name, _trusting)


def begin(variables: Mapping[str, str], file: str) -> None:
    """Trust the authority of the sandbox, also in a fork of a session.

    Args:
        variables: those that name the file.
        file: all authorities; that of the sandbox is the last one.
    """
    global _authority  # noqa: PLW0603 (of the process)
    os.environ.update(variables)
    with open(file, encoding="latin-1") as opened:
        _authority = BEGIN + opened.read().rpartition(BEGIN)[2]
    patches.install({"ssl": _patch})
