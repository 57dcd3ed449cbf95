"""The parts of a server, and the settings from which they are made."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from dataclasses import dataclass

from pysbx.options.declaration import MIB
from pysbx.options.options import Options
from pysbx.service.connections.access import Access, check_proxies
from pysbx.service.connections.admission import Admission, Application
from pysbx.service.connections.json_bounds import check_parts, may_have_too_many
from pysbx.service.connections.origins import check_origins, permitting
from pysbx.service.observe.audit import Audit
from pysbx.service.observe.log import Log
from pysbx.service.observe.metrics import Meters
from pysbx.service.sandboxes import leftovers
from pysbx.service.sandboxes.allowance import Allowance, Ledger
from pysbx.service.sandboxes.choices import Choices
from pysbx.service.sandboxes.jobs import Jobs
from pysbx.service.sandboxes.preparation import Preparation, Until
from pysbx.service.sandboxes.readiness import Probe
from pysbx.service.sandboxes.sessions import Sessions

# Services whose clients can use this one instead.
COMPATIBLE = ("dify", "librechat")
# Of Settings, positive numbers; and what may be left to the server.
NUMBERS = ("at_once", "sessions", "idle_sec", "request_mb", "artifact_mb", "snapshots_per_caller")
BOUNDS = ("connections", "connections_per_peer", "calls_per_hour", "cpu_per_hour", "sessions_per_caller", "park_sec")


@dataclass(frozen=True)
class Settings:
    """The settings of a server, which its administrator chooses.

    Attributes:
        options: the sandboxes; of their limits no caller gets more.
        profiles: those that callers may choose.
        packages: requirements that callers may ask for by name.
        at_once: sandboxes that may run code at the same time.
        waiting: requests that may wait for that.
        sessions: the most there may be.
        idle_sec: seconds after which an unused session ends.
        park_sec: seconds after which an unused session is parked, or None.
        drain_sec: seconds for the calls of callers to end by themselves, if the server is told to stop.
        connections: the most there may be, or None: see bounds.
        connections_per_peer: the same, of one address.
        request_mb: MiB that a request may have.
        artifact_mb: MiB that artifacts of a run may have, and a file of a session.
        listen: the address, as it is written; "" for the default, which is standard input and output for MCP.
        token_file: where the tokens are, or None.
        calls_per_hour, cpu_per_hour, sessions_per_caller: the allowance of a caller, or None.
        snapshots_per_caller: the same, without None.
        audit_log: the file to which events are appended, or None.
        tls_cert, tls_key: files with the certificate and its key, or None.
        origins: those whose pages may call from a browser.
        trusted_proxies: addresses and networks whose X-Forwarded-For and X-Forwarded-Proto are believed.
        log_level: of the package's records: debug, info, warning or error.
        log_format: text or json.
        tools: names of the tools that a model gets; by default all.
        agent_sandbox: also answer as a sandbox of agent-sandbox does: see agent_sandbox.py.
        compatible: names of COMPATIBLE, whose clients are answered too: see dify.py and librechat.py.
    """

    options: Options
    profiles: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    at_once: int = 4
    waiting: int = 32
    sessions: int = 16
    idle_sec: float = 600.0
    park_sec: float | None = None
    drain_sec: float = 5.0
    connections: int | None = None
    connections_per_peer: int | None = None
    request_mb: int = 8
    artifact_mb: int = 8
    listen: str = ""
    token_file: str | None = None
    calls_per_hour: int | None = None
    cpu_per_hour: float | None = None
    sessions_per_caller: int | None = None
    snapshots_per_caller: int = 16
    audit_log: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    origins: tuple[str, ...] = ()
    trusted_proxies: tuple[str, ...] = ()
    log_level: str = "info"
    log_format: str = "text"
    tools: tuple[str, ...] = ()
    agent_sandbox: bool = False
    compatible: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse values that are not allowed."""
        for name in (*NUMBERS, *BOUNDS):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name}: {value} is not a positive number")
        for name in ("waiting", "drain_sec"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name}: {getattr(self, name)} is not zero or more")
        for name in self.compatible:
            if name not in COMPATIBLE:
                raise ValueError(f"compatible: '{name}' is not one of: {', '.join(COMPATIBLE)}")
        if self.agent_sandbox and "librechat" in self.compatible:
            raise ValueError("compatible: librechat and agent_sandbox have routes in common: start two servers")
        check_origins(self.origins)
        check_proxies(self.trusted_proxies)
        if self.tls_key is not None and self.tls_cert is None:
            raise ValueError("tls_key: a key is of no use without its certificate: add tls_cert")


class State:
    """The parts that all servers have: HTTP, MCP, and the application for another server."""

    def __init__(self, settings: Settings, journal: Log | None = None, *, until: Until = "ready") -> None:
        """Make the parts.

        Args:
            settings: of the administrator.
            journal: the log of a program that is a server; it stays the caller's.
            until: how far the server's own sandbox is prepared before this returns.

        Raises:
            SandboxError: no sandbox can be made.
            ValueError: there is no such profile, or a requirement is malformed.
        """
        self.log = journal
        self.agent_sandbox, self.compatible = settings.agent_sandbox, settings.compatible
        left = leftovers.remove()
        self._claim = leftovers.Claim()
        self.offer = Choices(settings.options, settings.profiles, settings.packages, settings.artifact_mb)
        self.preparation = Preparation(self.offer, settings.profiles, until=until)
        self.meters = Meters()
        self.meters.removed(left)
        self.audit = Audit(settings.audit_log, self.meters.audit_lost)
        bounds = (settings.calls_per_hour, settings.cpu_per_hour, settings.sessions_per_caller)
        self.ledger = Ledger(Allowance(*bounds))
        self.jobs = Jobs(settings.at_once, self.meters, self.ledger, self.audit)
        self.sessions = Sessions(
            self.jobs,
            settings.sessions,
            settings.idle_sec,
            self.ledger,
            park_sec=settings.park_sec,
            snapshots=settings.snapshots_per_caller,
        )
        self.meters.watch("sessions", lambda: len(self.sessions))
        self.probe = Probe(self.offer, self.preparation)
        self.slots, self.drain_sec = settings.at_once + settings.waiting, settings.drain_sec
        self.all_ended = True

    async def check(self, body: bytes) -> None:
        """Raise the problem with a body that is JSON of too many parts."""
        if may_have_too_many(body):
            await self.jobs.aside(lambda: check_parts(body))

    async def stop(self) -> None:
        """End all that runs; requests that wait for it are answered."""
        ended = await asyncio.gather(
            self.jobs.close(), self.probe.close(), asyncio.to_thread(self.preparation.stop), self.sessions.close()
        )
        self.all_ended = all(ended[:-1])
        if self.all_ended:
            self._claim.release()

    def leave(self, code: int) -> int:
        """Return the exit code, or leave at once if a thread cannot be ended: the watcher ends its container."""
        if not self.all_ended:
            os._exit(code)
        return code


def guarded(
    application: Application,
    works: State,
    settings: Settings,
    tokens: Access,
    *,
    methods: str = "",
    pages: Iterable[str] = (),
) -> Application:
    """Return an application with the checks in front of it that all servers have: see Admission and origins."""
    checked: Application = Admission(
        application,
        tokens,
        works.slots,
        settings.request_mb * MIB,
        methods=methods,
        check=works.check,
        pages=pages,
        origins=settings.origins,
        fields=works.ledger.fields,
    )
    if settings.origins:
        checked = permitting(checked, settings.origins)
    return checked
