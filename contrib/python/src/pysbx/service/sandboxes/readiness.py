"""Readiness: whether a sandbox runs now, which is tried, and the state of what was prepared."""

from __future__ import annotations

import asyncio
import logging
import time

from pydantic import BaseModel, Field

from pysbx.calls.execution import run_chosen
from pysbx.service.connections.problems import problem_of
from pysbx.service.sandboxes.choices import Choices
from pysbx.service.sandboxes.jobs import Jobs
from pysbx.service.sandboxes.preparation import FAILED, Preparation

logger = logging.getLogger(__name__)

# Seconds for which an answer holds: callers without a token must not be able to start any number of sandboxes.
HOLDS_SEC = 2.0
NUMBER = "42"
OK = "ok"


class Readiness(BaseModel):
    """Whether the server can do its work."""

    ready: bool
    sandbox: str = Field(description="ok, or why no sandbox runs")
    seconds: float = Field(description="that the sandbox took")
    warm: bool
    profiles: dict[str, str] = Field(
        description="preparing, ready, cold or failed with the reason; the server's own is ''"
    )


class Probe:
    """Runs a sandbox besides those of callers. It does not wait for a free slot, for a busy server is ready."""

    def __init__(self, offer: Choices, preparation: Preparation) -> None:
        """Take the sandbox to try."""
        self._offer, self._preparation = offer, preparation
        self._jobs = Jobs(1)
        self._turn = asyncio.Lock()
        self._last: Readiness | None = None
        self._until = 0.0

    async def ask(self) -> Readiness:
        """Return whether a sandbox runs; calls at the same time get one answer."""
        async with self._turn:
            if self._last is None or time.monotonic() > self._until:
                self._last = await self._try()
                self._until = time.monotonic() + HOLDS_SEC
            return self._last

    async def _try(self) -> Readiness:
        states = dict(self._preparation.states)
        failed = any(state.startswith(FAILED) for state in states.values())
        began, said, warm = time.monotonic(), OK, False
        try:
            done = await self._jobs.run(lambda cancel: run_chosen(self._offer.base, NUMBER, cancel=cancel))
            warm = done.warm
            if done.value != NUMBER:
                said = done.error.message if done.error else f"it ended with code {done.exit_code}"
        except Exception as error:
            problem = problem_of(error)
            said = f"{problem.kind.title}: {problem.detail}"
        if said != OK:
            logger.error("not ready: %s", said)
        took = round(time.monotonic() - began, 4)
        return Readiness(ready=said == OK and not failed, sandbox=said, seconds=took, warm=warm, profiles=states)

    @staticmethod
    def for_stranger(found: Readiness) -> Readiness:
        """Return what a caller without a token may know: reasons have paths, and names of profiles."""
        state = OK if found.sandbox == OK else "no sandbox runs: the reason is for callers with a token"
        return found.model_copy(update={"sandbox": state, "profiles": {}})

    async def close(self) -> bool:
        """End a sandbox that runs; return whether it has ended."""
        return await self._jobs.close()
