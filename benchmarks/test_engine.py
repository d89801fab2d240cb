"""Fit, predict and tie-broken argsort against plain NumPy: ``python -m pytest benchmarks``.

Both sides run in turn, one round of NumPy before each round of fastbin, so that a busy moment of the machine
falls on both; the ratio of the medians is printed, and kept in ``--benchmark-json`` with the rest. Every
answer is checked against NumPy's. ``FASTBIN_BENCH=tiny`` is the same on a few rows: it tests the benchmark.
"""

from __future__ import annotations

import os
import time
from statistics import median

import numpy as np
import pytest

import fastbin as fb

TINY = os.environ.get("FASTBIN_BENCH") == "tiny"
ROWS = 20_000 if TINY else 10_000_000
ROUNDS = 2 if TINY else 7
BINS = 100


def make_scores(kind: str) -> np.ndarray:
    scores = np.random.default_rng(1).random(ROWS)
    return {
        "uniform": lambda: scores,
        "float32": lambda: scores.astype(np.float32),
        "logits": lambda: np.log(scores / (1 - scores)),
        "sorted": lambda: np.sort(scores),
        "rounded": lambda: np.round(scores, 2),
        "equal": lambda: np.full(ROWS, 0.5),
        "decades": lambda: 10.0 ** (-300 * scores),
    }[kind]()


def make_labels() -> np.ndarray:
    """Miscalibrated on purpose, and drawn apart from the scores' order."""
    rng = np.random.default_rng(2)
    return (rng.random(ROWS) < 0.3).astype(np.uint8)


@pytest.fixture
def compare(benchmark, capsys):
    """Time ``ours`` with one run of ``theirs`` before each round; return both answers."""

    def run(name, ours, theirs):
        answer = ours()  # warm up: compiles or loads the kernels
        reference = theirs()
        times = []

        def one_round_of_numpy():
            start = time.perf_counter()
            theirs()
            times.append(time.perf_counter() - start)

        benchmark.group = name.split(",")[0]
        benchmark.pedantic(ours, setup=one_round_of_numpy, rounds=ROUNDS, iterations=1)
        if benchmark.stats is not None:  # None under --benchmark-disable
            ratio = median(times) / benchmark.stats.stats.median
            benchmark.extra_info |= {"rows": ROWS, "numpy_seconds": median(times), "times_numpy": ratio}
            with capsys.disabled():
                milliseconds = 1e3 * benchmark.stats.stats.median
                print(f"\n{name}, {ROWS:,} rows: {milliseconds:.1f} ms, {ratio:.1f} x NumPy")
        return answer, reference

    return run


def numpy_fit(scores, labels):
    """The plain route: sort, then cut at the ranks of Algorithm 1 and add up the labels between."""
    ranks = fb.boundary_ranks(scores.size, BINS)
    order = np.argsort(scores)
    positives = np.concatenate([[0], np.cumsum(labels[order], dtype=np.int64)])
    inner = ranks[1:-1]
    return scores[order[inner - 1]], np.diff(ranks) - 1, positives[ranks[1:] - 1] - positives[ranks[:-1]]


@pytest.mark.parametrize("kind", ["uniform", "float32", "logits", "sorted", "rounded", "equal", "decades"])
def test_fit(compare, kind):
    scores, labels = make_scores(kind), make_labels()
    calibrator, (edges, counts, positives) = compare(
        f"fit, {kind}", lambda: fb.fit_uniform_mass(scores, labels, BINS), lambda: numpy_fit(scores, labels)
    )
    np.testing.assert_array_equal(calibrator.edges, edges)
    np.testing.assert_array_equal(calibrator.interior_counts, counts)
    if (calibrator.edge_ties == 1).all():
        np.testing.assert_array_equal(calibrator.interior_positives, positives)
    else:  # which of the tied rows fall below a cut is drawn; their number and the total are not
        assert calibrator.interior_positives.sum() + calibrator.edge_labels.sum() == labels.sum()


@pytest.mark.parametrize("kind", ["uniform", "float32"])
def test_predict(compare, kind):
    scores = make_scores(kind)
    calibrator = fb.fit_uniform_mass(scores, make_labels(), BINS)
    fresh = np.random.default_rng(3).random(ROWS).astype(scores.dtype)
    fresh = np.where(np.isin(fresh, calibrator.edges), 0.0, fresh).astype(scores.dtype)  # no tie with a cut

    predicted, expected = compare(
        f"predict, {kind}",
        lambda: calibrator.predict(fresh),
        lambda: calibrator.values[np.searchsorted(calibrator.edges, fresh, side="right")],
    )
    np.testing.assert_array_equal(predicted, expected)


@pytest.mark.parametrize("kind", ["uniform", "rounded", "equal"])
def test_argsort(compare, kind):
    """Against ``argsort``, which leaves ties as it finds them: the fair rival, lexsort, is far slower."""
    scores = make_scores(kind)
    order, expected = compare(
        f"argsort, {kind}", lambda: fb.tie_broken_argsort(scores), lambda: np.argsort(scores, kind="stable")
    )
    np.testing.assert_array_equal(scores[order], scores[expected])
    np.testing.assert_array_equal(np.bincount(order, minlength=ROWS), 1)
    if kind != "uniform":
        assert not np.array_equal(order, expected), "ties must be in random order"
