#!/usr/bin/env python3
"""Run snippets of untrusted code on a cluster of Ray: an actor on each node, and a sandbox for each snippet.

`snippets.py FILE` reads a JSON list of programs and prints a JSON list of outcomes in the same order. It uses the
cluster that RAY_ADDRESS names, or starts one on this machine. The package pysbx must be installed on each node.

An actor is one process of Ray with as many threads as the node has CPUs. Its sandboxes are containers of the node. Code
in them reaches neither Ray nor the actor: it has no network, and sees no process and no file of the node. A task of Ray
for each snippet would cost more than the sandbox, so each call of an actor takes a few of them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import ray  # type: ignore[import]
from pysbx import SandboxError, run_code  # type: ignore[import]
from ray.util.actor_pool import ActorPool  # type: ignore[import]
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # type: ignore[import]

# So many snippets that a call to an actor costs little beside them, and so few that the nodes end at the same time.
CHUNK = 20
LIMITS: dict[str, Any] = {"timeout_sec": 10, "memory_mb": 256, "max_processes": 32}


def outcome(code: str) -> dict[str, Any]:
    """Run one snippet, and return what came of it. An error of the code is an outcome too.

    Args:
        code: a program.
    """
    try:
        done = run_code(code, **LIMITS)
    except SandboxError as refusal:
        return {"value": None, "stdout": "", "error": f"no sandbox: {refusal}", "timed_out": False}
    error = str(done.error) if done.error is not None else None
    return {"value": done.value, "stdout": done.stdout, "error": error, "timed_out": done.timed_out}


class Sandboxes:
    """The sandboxes of a node."""

    def __init__(self, at_once: int) -> None:
        """Make the snapshot of this node.

        Args:
            at_once: sandboxes at the same time.
        """
        self._pool = ThreadPoolExecutor(at_once)
        run_code("", **LIMITS)

    def run(self, snippets: Sequence[str]) -> tuple[str, list[dict[str, Any]]]:
        """Run snippets, and return the node and the outcomes in the same order."""
        return ray.get_runtime_context().get_node_id(), list(self._pool.map(outcome, snippets))


def actors() -> list[Any]:
    """Start an actor on each node of the cluster."""
    found = []
    for node in filter(lambda node: node["Alive"], ray.nodes()):
        place = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        at_once = max(1, int(node["Resources"].get("CPU", 1)))
        actor = ray.remote(num_cpus=1, max_restarts=-1, max_task_retries=2, scheduling_strategy=place)(Sandboxes)
        found.append(actor.remote(at_once))
    return found


def run_all(snippets: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Run snippets on all nodes, and yield the node and the outcome of each in the same order.

    Args:
        snippets: programs.
    """
    chunks = [snippets[first : first + CHUNK] for first in range(0, len(snippets), CHUNK)]
    pool = ActorPool(actors())
    for node, outcomes in pool.map(lambda actor, chunk: actor.run.remote(chunk), chunks):
        yield from ((node, found) for found in outcomes)


def main() -> None:
    """Carry out the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, help="a JSON list of programs")
    snippets = json.loads(parser.parse_args().file.read_text(encoding="utf-8"))
    ray.init(log_to_driver=False, include_dashboard=False)
    json.dump([found for _, found in run_all(snippets)], sys.stdout, indent=1)


if __name__ == "__main__":
    main()
