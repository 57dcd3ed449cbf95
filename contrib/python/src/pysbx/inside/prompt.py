"""Completion at a prompt: the names that continue what was typed."""

from __future__ import annotations

import rlcompleter
from typing import Any

from . import main_module

MOST = 200
MAX_NAME = 200


def complete(request: dict[str, Any]) -> dict[str, Any]:
    """Carry out a request "complete": return the names that begin with its text."""
    completer = rlcompleter.Completer(main_module.names())
    found: list[str] = []
    while len(found) < MOST and (name := completer.complete(request["text"], len(found))) is not None:
        found.append(name)
    return {"names": [name for name in found if len(name) <= MAX_NAME]}
