#!/usr/bin/env python3
"""Calculate how many sandboxes nodes create, and simulate bursts of calls against pools of pods.

`capacity.py figures` calculates with the figures of `make bench`. `capacity.py burst` needs SimPy (pip install simpy).
The page contrib/docs/pages/explanation/capacity.md explains both. A test compares the simulation with a service.
"""

from __future__ import annotations

import argparse
import random
import statistics
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

# The figures of contrib/docs/pages/explanation/performance.md. A call from Python has a sandbox of its own, and takes
# so many seconds. Ten threads on two CPUs have so many times the throughput of one.
CALL_SEC = {"nothing": 0.0085, "pandas": 0.0117}
THREADS, CPUS = 1.70, 2
# MiB of a sandbox that idles with pandas: ten of them; one that starts cold.
WARM_MIB, COLD_MIB = 3, 62
HOUR_SEC = 3600


def rate(call: str, cpus: float) -> float:
    """Return the sandboxes per second that a node with so many CPUs creates and ends.

    Args:
        call: what the code does, a key of CALL_SEC.
        cpus: of the node.
    """
    return THREADS / CALL_SEC[call] / CPUS * cpus


def cost(call: str, price: float, code_sec: float = 0.0) -> float:
    """Return the price of a million sandboxes, for CPUs that are always busy.

    Args:
        call: what the code does, a key of CALL_SEC.
        price: of a CPU for an hour.
        code_sec: CPU time of the code itself, in seconds.
    """
    return 1e6 * (1 / rate(call, 1) + code_sec) / HOUR_SEC * price


@dataclass(frozen=True)
class Pool:
    """Pods behind one Service.

    Attributes:
        pods: their number.
        slots: `--at-once` of each.
        waiting: `--waiting` of each.
    """

    pods: int
    slots: int
    waiting: int


@dataclass
class Outcome:
    """How the calls went, with times in seconds.

    Attributes:
        waits: how long each answered call has waited for a sandbox, with its attempts before.
        latencies: how long each answered call took.
        refused: number of answers with 429.
        given_up: number of calls that got no other answer.
        ended: when the last call was answered.
    """

    waits: list[float] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)
    refused: int = 0
    given_up: int = 0
    ended: float = 0.0

    @property
    def throughput(self) -> float:
        """Answered calls per second, from the beginning to the last answer."""
        return len(self.latencies) / self.ended if self.ended else 0.0

    def wait(self, percent: int) -> float:
        """Return a percentile of the waits."""
        return statistics.quantiles(self.waits, n=100)[percent - 1] if len(self.waits) > 1 else sum(self.waits)


def simulate(
    pool: Pool, arrivals: Sequence[float], service: Sequence[float], retry_sec: float | None = None, seed: int = 1
) -> Outcome:
    """Simulate calls that a Service gives to its pods at random, one connection each.

    Args:
        pool: the pods.
        arrivals: when each call begins, in seconds.
        service: seconds that calls have taken in a sandbox; each call takes one of them, at random.
        retry_sec: after which a client repeats a refused call, or None if it gives up.
        seed: of the random numbers.
    """
    import simpy  # type: ignore[import]  # noqa: PLC0415 (the figures need none)

    chance, outcome, world = random.Random(seed), Outcome(), simpy.Environment()
    pods = [simpy.Resource(world, capacity=pool.slots) for _ in range(pool.pods)]

    def call(begins: float) -> Generator[Any, Any, None]:
        yield world.timeout(begins)
        while True:
            pod = chance.choice(pods)
            # As `pysbx serve` does it: one that finds no slot waits, and one that finds no place is refused.
            if pod.count < pool.slots or len(pod.queue) < pool.waiting:
                break
            outcome.refused += 1
            if retry_sec is None:
                outcome.given_up += 1
                return
            yield world.timeout(retry_sec * chance.uniform(1, 1.5))
        with pod.request() as slot:
            yield slot
            outcome.waits.append(world.now - begins)
            yield world.timeout(chance.choice(service))
        outcome.latencies.append(world.now - begins)
        outcome.ended = max(outcome.ended, world.now)

    for begins in arrivals:
        world.process(call(begins))
    world.run()
    return outcome


def print_figures(arguments: argparse.Namespace) -> None:
    """Print the table of the page."""
    print("| call | per second and CPU | … node | … cluster | price of a million |")
    print("|---|---|---|---|---|")
    for call in CALL_SEC:
        one, node = rate(call, 1), rate(call, arguments.cpus)
        print(f"| {call} | {one:.0f} | {node:.0f} | {node * arguments.nodes:.0f} | {cost(call, arguments.price):.2f} |")


def print_bursts(arguments: argparse.Namespace) -> None:
    """Print the table of the page: bursts against pools."""
    print("| pods | burst | 50 % wait | 95 % wait | refused | all answered after |")
    print("|---|---|---|---|---|---|")
    for pods in arguments.pods:
        for burst in arguments.burst:
            pool = Pool(pods, arguments.slots, arguments.waiting)
            # All at once, but for the milliseconds that clients need.
            arrivals = [number * 0.001 for number in range(burst)]
            found = simulate(pool, arrivals, [arguments.service], arguments.retry)
            print(
                f"| {pods} | {burst} | {found.wait(50):.1f} s | {found.wait(95):.1f} s | {found.refused} "
                f"| {found.ended:.1f} s |"
            )


def main() -> None:
    """Carry out the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    figures = commands.add_parser("figures", help="what nodes can do, by the figures of `make bench`")
    figures.add_argument("--cpus", type=float, default=8, help="of a node")
    figures.add_argument("--nodes", type=int, default=10, help="of the cluster")
    figures.add_argument("--price", type=float, default=0.04, help="of a CPU for an hour")
    figures.set_defaults(function=print_figures)
    burst = commands.add_parser("burst", help="simulate calls that all begin at the same time")
    burst.add_argument("--pods", type=int, nargs="+", default=[1, 2, 4])
    burst.add_argument("--burst", type=int, nargs="+", default=[20, 100, 500], help="number of calls")
    burst.add_argument("--slots", type=int, default=4, help="--at-once of each pod")
    burst.add_argument("--waiting", type=int, default=32, help="--waiting of each pod")
    burst.add_argument("--service", type=float, default=0.2, help="seconds that a call takes in its sandbox")
    burst.add_argument("--retry", type=float, default=1.0, help="seconds after which clients repeat a refused call")
    burst.set_defaults(function=print_bursts)
    arguments = parser.parse_args()
    arguments.function(arguments)


if __name__ == "__main__":
    main()
