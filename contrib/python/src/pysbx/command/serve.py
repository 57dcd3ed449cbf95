"""`pysbx serve` and `pysbx mcp`: options in, a server that runs until it is told to stop."""

from __future__ import annotations

import argparse
import signal

from pysbx.errors import LimitsNotEnforceableError, with_extra
from pysbx.service import settings

# The extra of the package that each command needs. Without it, the error names the extra.
EXTRAS = {"serve": "service", "mcp": "mcp"}
FOREIGN = ("fastapi", "mcp", "mcp_types", "pydantic", "starlette", "uvicorn", "wsproto")


def add_serve(parser: argparse.ArgumentParser) -> None:
    """Add the options of `pysbx serve`."""
    settings.add_serve(parser)
    parser.set_defaults(function=serve)


def add_mcp(parser: argparse.ArgumentParser) -> None:
    """Add the options of `pysbx mcp`."""
    settings.add_mcp(parser)
    parser.set_defaults(function=serve)


def serve(arguments: argparse.Namespace) -> int:
    """Carry out `pysbx serve` or `pysbx mcp`."""
    by_http = arguments.listen or arguments.command == "serve"
    if by_http and (arguments.token_file or arguments.tls_cert or arguments.audit_log):
        signal.signal(
            signal.SIGHUP, lambda *_: None
        )  # until run.py has another handler: the files are read at the start
    try:
        from pysbx.service import run  # noqa: PLC0415 (what an extra of the package brings)

        wanted = settings.settings_of(arguments)
        return run.serve(wanted) if arguments.command == "serve" else run.serve_mcp(wanted)
    except LimitsNotEnforceableError as error:
        reason = str(error).partition(", but ")[2] or error
        raise LimitsNotEnforceableError(
            f"a server bounds all callers, but {reason}; --best-effort serves with rlimits"
        ) from error
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in FOREIGN:
            raise
        extra = EXTRAS[arguments.command]
        raise ValueError(f"the package '{error.name}' is missing: {with_extra(extra)}") from error
