"""What the tables of targets share: a row, and how rivals are timed.

Rivals run in turn (ours, theirs, ours, theirs ...), so that a busy moment of the machine falls on both;
ratios are of medians and, in brackets, of minima.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

ROUNDS = 7


@dataclass(frozen=True)
class Row:
    """One line of the table; ``met`` compares the figure with the target in the stated direction."""

    job: str
    figure: float
    target: float
    at_least: bool
    note: str

    @property
    def met(self) -> bool:
        return self.figure >= self.target if self.at_least else self.figure <= self.target

    def __str__(self) -> str:
        sign = ">=" if self.at_least else "<="
        verdict = "yes" if self.met else "NO"
        return f"{self.job:<48}{self.figure:>10.2f}   {sign} {self.target:<8g}{verdict:<5}{self.note}"


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def interleaved(
    *works: Callable[[], object], rounds: int = ROUNDS, settle: bool = False
) -> list[list[float]]:
    """Times of each work, all of them once per round, after a warm-up.

    ``settle``: each runs once more, unmeasured, just before it is measured. A virtual machine gives memory
    that is free for seconds back to its host; where one rival takes seconds, the other would pay for that.
    """
    for work in works:
        work()
    times: list[list[float]] = [[] for _ in works]
    for _ in range(rounds):
        for own, work in zip(times, works, strict=True):
            if settle:
                work()
            own.append(seconds(work))
    return times


def speed_up(job: str, target: float, ours: Callable[[], object], theirs: Callable[[], object]) -> Row:
    """How many times faster than the rival."""
    mine, other = interleaved(ours, theirs)
    note = f"{1e3 * median(mine):.1f} ms against {1e3 * median(other):.0f} ms ({min(other) / min(mine):.1f})"
    return Row(job, median(other) / median(mine), target, True, note)


def slow_down(job: str, target: float, ours: Callable[[], object], base: Callable[[], object]) -> Row:
    """How many times the base case it takes."""
    mine, other = interleaved(ours, base)
    note = f"{1e3 * median(mine):.1f} ms against {1e3 * median(other):.1f} ms ({min(mine) / min(other):.2f})"
    return Row(job, median(mine) / median(other), target, False, note)


def arguments(description: str | None) -> argparse.ArgumentParser:
    """The options that every table has."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    return parser


def print_table(title: str, groups: Iterable[Callable[[], list[Row]]], json_path: Path | None) -> None:
    """Run the groups one after the other, print their rows as they come."""
    rows = []
    print(f"{title}, {len(os.sched_getaffinity(0))} cores\n")
    print(f"{'job':<48}{'figure':>10}   {'target':<11}met")
    for group in groups:
        for row in group():
            print(row, flush=True)
            rows.append(row)
    if json_path:
        json_path.write_text(json.dumps([asdict(row) | {"met": row.met} for row in rows], indent=1))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"\n{sum(row.met for row in rows)} of {len(rows)} targets met; peak memory {peak:.1f} GB")
