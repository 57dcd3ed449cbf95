"""Warm and cold starts of a server's sandboxes, and the reasons for cold ones."""

from __future__ import annotations

import logging

from pysbx.calls.execution import CANCELLED, ENDINGS, Execution, outcome_of
from pysbx.options.options import Options
from pysbx.service.observe.metrics import Meters

logger = logging.getLogger(__name__)

# Reasons as metrics have them: there was no snapshot yet; there can be none; the administrator wants none.
FIRST, REFUSED, OFF = "first", "refused", "off"
# By the runtime's code; any other is REFUSED.
REASONS = {"first-run": FIRST, "being-made": FIRST, "warm-off": OFF}
LEVELS = {FIRST: logging.INFO, REFUSED: logging.WARNING, OFF: logging.DEBUG}


def note_start(meters: Meters, caller: str, done: Execution, options: Options) -> None:
    """Count and log a start, by the first run after it; the caller has the name that metrics have."""
    if done.warm:
        meters.started(caller, "warm", "")
        return
    reason = REASONS.get(done.cold_code or "", REFUSED)
    # The run has ended before it was known how the program starts.
    if done.cold_reason is None and outcome_of(done) in (CANCELLED, ENDINGS["Timeout"]):
        reason = FIRST
    meters.started(caller, "cold", reason)
    profile = f"profile '{options.profile}': " if options.profile else ""
    logger.log(LEVELS[reason], "cold start: %s%s", profile, done.cold_reason or "no reason is known")
