"""The program that the demonstration runs in a container: a little work, and a look at where it runs."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path


def fibonacci(count: int) -> list[int]:
    """Return the first count numbers of the sequence."""
    numbers = [0, 1]
    while len(numbers) < count:
        numbers.append(numbers[-1] + numbers[-2])
    return numbers[:count]


def status(field: str) -> str:
    """Return a field of /proc/self/status."""
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return value.strip()
    return "?"


def main() -> None:
    """Print the numbers and what the container is made of."""
    processes = [name for name in os.listdir("/proc") if name.isdigit()]
    filters = {"0": "off", "1": "strict", "2": "filter"}
    print(f"Python        {platform.python_version()} as process {os.getpid()} of {len(processes)}")
    print(f"Host name     {platform.node()}")
    print(f"User          {os.getuid()}, capabilities {status('CapEff')}")
    print(f"System calls  seccomp {filters.get(status('Seccomp'), '?')}, no new privileges {status('NoNewPrivs')}")
    print(f"Interfaces    {', '.join(sorted(os.listdir('/sys/class/net')))}")
    try:
        Path("/program.txt").write_text("x")
        print("Root          writable")
    except OSError as error:
        print(f"Root          {error.strerror}")
    print(f"Input         {sys.stdin.readline().strip() or 'none'}")
    print(f"Result        {fibonacci(90)[-1]}")


if __name__ == "__main__":
    main()
