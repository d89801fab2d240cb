"""Small shared tools: altered calibrators, errors that name their parts, random labelled data."""

import contextlib
import dataclasses
import itertools
import re

import numpy as np
import pytest

from zoo import distinct_scores


def with_edge_keys(cal, keys):
    """The same calibrator with other tie keys at its cuts."""
    return dataclasses.replace(cal, edge_keys=np.array(keys, np.uint64))


@contextlib.contextmanager
def refuses(*parts, error=ValueError):
    """One error of this type whose message has all these parts (regular expressions, case ignored)."""
    with pytest.raises(error) as caught:
        yield caught
    message = str(caught.value)
    for part in parts:
        assert re.search(part, message, re.IGNORECASE), f"no {part!r} in: {message}"


@contextlib.contextmanager
def unchanged(*arrays):
    """The arrays hold the same bytes afterwards."""
    before = [np.array(a, copy=True) for a in arrays]
    yield
    for old, new in zip(before, arrays, strict=True):
        assert old.tobytes() == np.array(new).tobytes()


def labelled(n, distinct=None, seed=0):
    """n random (score, 0/1 label) rows with `distinct` different scores (None: no ties)."""
    rng = np.random.default_rng([n, 0 if distinct is None else distinct, seed])
    scores = distinct_scores(rng, n, distinct)
    return scores, rng.integers(0, 2, n).astype(np.int8)


def some_bins(n):
    """A few bin counts that n points allow, the extremes among them."""
    most = (n + 1) // 2
    return sorted({1, min(2, most), min(3, most), min(10, most), most})


def run_plan(plan, parts, shuffle=None, codec=lambda x: x):
    """Drive a FitPlan over parts; returns (calibrator, number of passes).

    `parts` is a list of (scores, labels, offset); `shuffle` reorders the partials; `codec` is applied to
    steps and partials (pickling, say).
    """
    import fastbin as fb

    passes = 0
    while (step := plan.step()) is not None:
        sent = codec(step)
        partials = [codec(fb.run_step(sent, s, y, offset)) for s, y, offset in parts]
        if shuffle is not None:
            partials = [partials[i] for i in shuffle.permutation(len(partials))]
        plan.feed(partials)
        passes += 1
        assert passes < 400, "the plan does not come to an end"
    return plan.finish(), passes


def split(scores, labels, cuts):
    """Parts (scores, labels, offset) between the row positions in `cuts`."""
    at = [0, *sorted(cuts), len(scores)]
    return [(scores[i:j], labels[i:j], i) for i, j in itertools.pairwise(at)]
