"""Merging neighbouring bins by what their labels say, with a guarantee that allows for it (theorem MERGE).

A merged bin averages all labels strictly between its outer cuts, those of the inner cuts included.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from scipy.special import ndtri

from fastbin import _validate
from fastbin._values import distinct
from fastbin.model import Calibrator

Rule = Literal["monotone", "prune", "equal"]
RULES = ("monotone", "prune", "equal")
MERGEABLE = ("uniform_mass", "sample_split", "fixed_width")


@dataclass(frozen=True)
class _Group:
    """Bins first .. last of the fit: labels averaged, and their sum (an int, or a float for soft labels)."""

    first: int
    last: int
    count: int
    total: Any

    def mean(self) -> float:
        return float(self.total / self.count) if self.count else 0.0


def merge_adjacent(calibrator: Calibrator, rule: str, n_bins: int | None, alpha: float) -> Calibrator:
    """The calibrator with some of its neighbouring bins merged."""
    _validate.choice(rule, "rule", RULES)
    level = _validate.probability(alpha, "alpha")
    if calibrator.method not in MERGEABLE or calibrator.base_bins:
        what = "is merged already" if calibrator.base_bins else f"is {calibrator.method!r}"
        raise ValueError(
            "merge_adjacent needs bins that no label has chosen or moved yet (uniform_mass, sample_split or "
            f"fixed_width); this calibrator {what}. Merge the original fit."
        )
    if (rule == "prune") != (n_bins is not None):
        raise ValueError(
            f"n_bins must be given with rule='prune' and no other; got rule={rule!r} and n_bins={n_bins}. "
            "Pass for example rule='prune', n_bins=5."
        )
    groups = [
        _Group(b, b, count, total)
        for b, (count, total) in enumerate(
            zip(calibrator.interior_counts.tolist(), calibrator.interior_positives.tolist(), strict=True)
        )
    ]
    if rule == "monotone":
        merged = _monotone(groups, _joiner(calibrator))
    elif rule == "prune":
        merged = _greedy(groups, _joiner(calibrator), fewest=_validate.bin_number(n_bins))
    else:
        limit = float(ndtri(1 - level / 2)) ** 2
        merged = _greedy(groups, _joiner(calibrator), limit=limit, scaled=True)
    return _with_groups(calibrator, merged)


def _joiner(calibrator: Calibrator) -> Callable[[_Group, _Group], _Group]:
    """How two neighbouring groups become one: the row at a cut of uniform mass joins them."""
    is_row = calibrator.method == "uniform_mass"
    labels = calibrator.edge_labels.tolist()

    def join(left: _Group, right: _Group) -> _Group:
        inner = labels[left.last] if is_row else 0
        return _Group(
            left.first, right.last, left.count + is_row + right.count, left.total + inner + right.total
        )

    return join


def _monotone(groups: list[_Group], join: Callable[[_Group, _Group], _Group]) -> list[_Group]:
    """Pool neighbours until every mean is above the one before it; a group without labels joins too."""
    stack: list[_Group] = []
    for group in groups:
        current = group
        while stack and (
            not stack[-1].count
            or not current.count
            or stack[-1].total * current.count >= current.total * stack[-1].count
        ):
            current = join(stack.pop(), current)
        stack.append(current)
    return stack


def _greedy(
    groups: list[_Group],
    join: Callable[[_Group, _Group], _Group],
    *,
    fewest: int = 1,
    limit: float = math.inf,
    scaled: bool = False,
) -> list[_Group]:
    """Join the two neighbours whose means are closest, by squared error or in standard errors, and again.

    Until ``fewest`` groups are left, or the closest are further apart than the limit.
    """
    left = list(groups)
    costs = [_cost(a, b, scaled=scaled) for a, b in pairwise(left)]
    while len(left) > fewest:
        at = int(np.argmin(costs))
        if costs[at] > limit:
            break
        left[at : at + 2] = [join(left[at], left[at + 1])]
        del costs[at]
        for beside in (at - 1, at):
            if 0 <= beside < len(costs):
                costs[beside] = _cost(left[beside], left[beside + 1], scaled=scaled)
    return left


def _cost(one: _Group, other: _Group, *, scaled: bool) -> float:
    """What joining adds to the squared error; scaled, the squared difference in standard errors."""
    if not (one.count and other.count):
        return 0.0
    size = one.count * other.count / (one.count + other.count)
    cost = size * (one.mean() - other.mean()) ** 2
    if not scaled:
        return cost
    pooled = (one.total + other.total) / (one.count + other.count)
    spread = pooled * (1 - pooled)
    return cost / spread if spread > 0 else 0.0


def _with_groups(calibrator: Calibrator, groups: list[_Group]) -> Calibrator:
    cuts = np.array([group.last for group in groups[:-1]], np.int64)
    counts = np.array([group.count for group in groups], np.int64)
    totals = np.array([group.total for group in groups], calibrator.positives.dtype)
    values = np.array([group.mean() for group in groups])
    if not counts.all():  # nothing was merged into an empty bin: it keeps what it had
        values[counts == 0] = calibrator.values[[g.first for g in groups if not g.count]]
    return replace(
        calibrator,
        n_bins=len(groups),
        edges=calibrator.edges[cuts],
        edge_keys=calibrator.edge_keys[cuts],
        edge_labels=calibrator.edge_labels[cuts],
        edge_ties=calibrator.edge_ties[cuts],
        values=distinct(values),
        counts=counts,
        positives=totals,
        interior_counts=counts,
        interior_positives=totals,
        boundary_points="exclude",
        delta=0.0,
        base_bins=calibrator.n_bins,
        note="",
    )
