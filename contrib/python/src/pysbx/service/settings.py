"""The settings of a server, from options of the command line or of another server's configuration."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from pysbx.options import command_line
from pysbx.options.options import make_options

if TYPE_CHECKING:
    from pysbx.service.sandboxes.state import Settings

# As observe/log.py has them, which this module does not import: few commands log.
LOG_LEVELS, LOG_FORMATS = ("debug", "info", "warning", "error"), ("text", "json")
# option, field of Settings, type, how it is shown, help
NUMBERS: tuple[tuple[str, str, Any, str, str], ...] = (
    ("--at-once", "at_once", int, "N", "sandboxes that run code at the same time (4)"),
    ("--waiting", "waiting", int, "N", "requests that may wait for a sandbox (32)"),
    ("--sessions", "sessions", int, "N", "sessions at the same time (16)"),
    ("--idle", "idle_sec", float, "SECONDS", "end a session that is unused for this time (600)"),
    ("--park-after", "park_sec", float, "SECONDS", "move a session that is unused for this time to the disk (never)"),
    ("--drain", "drain_sec", float, "SECONDS", "time for runs to end by themselves after SIGTERM, over HTTP (5)"),
    ("--connections", "connections", int, "N", "connections at the same time (256 more than requests)"),
    (
        *("--connections-per-peer", "connections_per_peer", int, "N"),
        "of one IPv4 address or IPv6 /64 (64 more than requests); behind a proxy, as many as --connections",
    ),
    ("--calls-per-hour", "calls_per_hour", int, "N", "allowance of a token: runs and uses of sessions in an hour"),
    ("--cpu-per-hour", "cpu_per_hour", float, "SECONDS", "allowance of a token: CPU time in an hour"),
    ("--sessions-per-caller", "sessions_per_caller", int, "N", "allowance of a token: sessions at the same time"),
    (
        *("--snapshots-per-caller", "snapshots_per_caller", int, "N"),
        "allowance of a token: snapshots (16), which have at most 4 GiB together",
    ),
    ("--request-size", "request_mb", int, "MIB", "size of a request (8), which may have 1000 files"),
    ("--artifact-size", "artifact_mb", int, "MIB", "size of /output after a run, and of a file of a session (8)"),
)


class _Once(argparse.Action):
    """An option whose last value would not be all that its user means."""

    def __call__(
        self, _parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, _option: str | None = None
    ) -> None:
        """Take the value, if it is the only one."""
        if getattr(namespace, self.dest) != self.default:
            raise argparse.ArgumentError(self, "a server has one address: put a proxy before it, or start two servers")
        setattr(namespace, self.dest, values)


def _add(parser: argparse.ArgumentParser, *, otherwise: str) -> argparse._ArgumentGroup:
    """Add the options of a server to a command's parser.

    Returns:
        The group of the server's own options.
    """
    parser.description = "Callers cannot exceed the limits of the sandbox."
    group = parser.add_argument_group("the server")
    what = f"unix:PATH, HOST:PORT or systemd; {otherwise}"
    group.add_argument("--listen", action=_Once, default="", metavar="ADDRESS", help=what)
    group.add_argument(
        "--token-file",
        metavar="FILE",
        help="file with the tokens of the callers, one per line (default: the token in $PYSBX_TOKEN)",
    )
    group.add_argument("--tls-cert", metavar="FILE", help="certificate chain for TLS, in PEM format")
    group.add_argument("--tls-key", metavar="FILE", help="its key (default: in the file of the certificate)")
    group.add_argument(
        "--allow-origin",
        dest="origins",
        action="append",
        metavar="ORIGIN",
        help="let pages of this origin call from a browser, such as https://notebook.example",
    )
    group.add_argument(
        "--trusted-proxy",
        dest="trusted_proxies",
        action="append",
        metavar="ADDRESS",
        help="believe X-Forwarded-For of this address or network, for the audit log",
    )
    group.add_argument(
        "--audit-log", metavar="FILE", help="append a JSON object for each request and run; SIGHUP opens it again"
    )
    group.add_argument(
        "--log-level", choices=LOG_LEVELS, default=LOG_LEVELS[1], help="least level that is logged (info)"
    )
    group.add_argument("--log-format", choices=LOG_FORMATS, default=LOG_FORMATS[0], help="form of the log (text)")
    for option, name, kind, shown, text in NUMBERS:
        convert = command_line.with_unit(shown, kind) if shown in command_line.UNITS else kind
        group.add_argument(option, dest=name, type=convert, metavar=shown, help=text)
    group.add_argument(
        "--allow-profile", dest="profiles", action="append", metavar="NAME", help="let callers choose this profile"
    )
    group.add_argument(
        "--allow-package",
        dest="packages",
        action="append",
        metavar="REQUIREMENT",
        help="let callers ask for this requirement",
    )
    # Callers are strangers, and rlimits leave them much of the machine's memory: the administrator has to allow that.
    parser.set_defaults(limits="strict", tools=())
    group.add_argument(
        "--best-effort",
        dest="limits",
        action="store_const",
        const="best",
        help="start without some cgroup controllers; rlimits bound memory much less",
    )
    command_line.add(parser)
    parser.set_defaults(agent_sandbox=False, compatible=())
    return group


def add_serve(parser: argparse.ArgumentParser) -> None:
    """Add the options of `pysbx serve`."""
    group = _add(parser, otherwise="default: http.sock in the package's directory")
    group.add_argument(
        "--agent-sandbox",
        action="store_true",
        help="also answer clients of Kubernetes' agent-sandbox: POST /execute, …",
    )
    group.add_argument(
        "--compatible",
        type=lambda text: tuple(text.split(",")),
        metavar="NAMES",
        help="also answer clients of these services: dify, librechat",
    )


def add_mcp(parser: argparse.ArgumentParser) -> None:
    """Add the options of `pysbx mcp`."""
    group = _add(parser, otherwise="default: standard input and output")
    group.add_argument(
        "--tools",
        type=lambda text: tuple(text.split(",")),
        default=(),
        metavar="NAMES",
        help="offer only these tools, such as run_python,list_profiles",
    )


def settings_of(arguments: argparse.Namespace) -> Settings:
    """Return the settings of a server from its options.

    Raises:
        ValueError: a value is not allowed.
        ModuleNotFoundError: what an extra of the package brings is missing.
    """
    from pysbx.service.sandboxes.state import Settings  # noqa: PLC0415 (what an extra of the package brings)

    if arguments.answer_limit is not None:
        raise ValueError("--answer-limit: a server has --artifact-size instead: answers have twice as much")
    names = [name for _, name, *_ in NUMBERS]
    found = {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}
    return Settings(
        options=make_options(**command_line.given(arguments)),
        audit_log=arguments.audit_log,
        tls_cert=arguments.tls_cert,
        tls_key=arguments.tls_key,
        profiles=tuple(arguments.profiles or ()),
        packages=tuple(arguments.packages or ()),
        origins=tuple(arguments.origins or ()),
        trusted_proxies=tuple(arguments.trusted_proxies or ()),
        listen=arguments.listen,
        token_file=arguments.token_file,
        log_level=arguments.log_level,
        log_format=arguments.log_format,
        agent_sandbox=arguments.agent_sandbox,
        compatible=arguments.compatible,
        tools=arguments.tools,
        **found,
    )
