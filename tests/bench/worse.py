#!/usr/bin/env python3
"""Test that a benchmark notices a ratio to crun that is a quarter worse than the last release's. Prints TAP."""

from report import MEASURES, OURS, REFERENCE, Report, summarise

number = 0


def expect(title: str, reference: str, share: float, *, worse: bool) -> None:
    """Count one test: all judged commands take so many times as long as in the last release."""
    global number  # noqa: PLW0603 # the number of the test
    number += 1
    judged = [measure for measure in MEASURES if measure.released is not None]
    rows = {
        measure.key: {
            OURS: summarise([(round(1e6 * share * (measure.released or 0)), 1)]),
            REFERENCE: summarise([(1_000_000, 1)]),
        }
        for measure in judged
    }
    report = Report(1, {OURS: "pysbx-runtime", REFERENCE: reference}, {}, rows, {})
    good = len(report.worse()) == (len(judged) if worse else 0)
    print(f"{'ok' if good else 'not ok'} {number} - {title}")


expect("as fast as the last release", "crun 1.21", 1.0, worse=False)
expect("a fifth slower", "crun 1.21", 1.2, worse=False)
expect("a third slower", "crun 1.21", 1.33, worse=True)
expect("against another reference", "crun 1.8.1", 1.33, worse=False)
print(f"1..{number}")
