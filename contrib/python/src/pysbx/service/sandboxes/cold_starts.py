"""Warm and cold starts of a server's sandboxes, and the reasons for cold ones."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor

from pysbx.calls.execution import Execution
from pysbx.errors import SandboxError
from pysbx.options.options import Options
from pysbx.service.observe.metrics import Meters
from pysbx.service.sandboxes.preparation import reason_for_cold

logger = logging.getLogger(__name__)

# Reasons as metrics have them: there was no snapshot yet; there can be none; the administrator wants none.
FIRST, REFUSED, OFF = "first", "refused", "off"
# A set of options is asked about once. Callers cannot make more of them: see offer.MAX_VARIETY.
MOST = 1024


class Starts:
    """Counts and logs starts. The runtime is asked for a reason in a thread, once for each kind of sandbox."""

    def __init__(self, meters: Meters) -> None:
        """Begin without any start."""
        self._meters = meters
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="pysbx-starts")
        self._closed = False
        self._reasons: dict[Options, str] = {}

    def started(self, caller: str, done: Execution, options: Options) -> None:
        """Note a start, by the first run after it; the caller has the name that metrics have."""
        if done.warm:
            self._meters.started(caller, "warm", "")
        elif options.warm == "off" or options.isolation == "process":
            self._meters.started(caller, "cold", OFF)
        elif not self._closed:
            self._pool.submit(self._cold, caller, options)

    def _cold(self, caller: str, options: Options) -> None:
        known = options in self._reasons
        try:
            reason = self._reasons[options] if known else reason_for_cold(options)
        except (SandboxError, OSError, ValueError) as error:
            reason = str(error)
        if len(self._reasons) < MOST:
            self._reasons[options] = reason
        self._meters.started(caller, "cold", REFUSED if reason else FIRST)
        profile = f"profile '{options.profile}': " if options.profile else ""
        if reason:
            logger.warning("cold start: %s%s", profile, reason)
        else:
            logger.info("cold start: %sthere was no snapshot yet", profile)

    def close(self) -> None:
        """Ask about no further start, also of runs that end later."""
        self._closed = True
        self._pool.shutdown(wait=True, cancel_futures=True)
