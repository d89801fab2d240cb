"""The engine against its targets, in one table: ``python benchmarks/engine_targets.py``.

Each row is a ratio, or a time or size with a limit, measured in this run on the same arrays. ``--rows``
makes it smaller, ``--json`` writes the figures to a file.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from statistics import median

import numpy as np
import targets
from targets import Row, interleaved, slow_down, speed_up

import fastbin as fb

BINS = 100


def numpy_fit(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Algorithm 1 as one writes it with NumPy: argsort, take, means of slices."""
    ranks = fb.boundary_ranks(scores.size, BINS)
    order = np.argsort(scores)
    ordered = labels[order]
    return np.array([ordered[a : b - 1].mean() for a, b in pairwise(ranks)])


def awkward(n: int, rng: np.random.Generator, base: np.ndarray) -> dict[str, tuple[np.ndarray, float]]:
    """Score columns with how many times the plain case each may take."""
    return {
        "rounded to 2 decimals": (base.round(2), 3),
        "all equal": (np.full(n, 0.3), 3),
        "three values": (rng.integers(0, 3, n) / 2, 3),
        "300 decades": (10.0 ** rng.uniform(-300, 0, n), 4),
        "60 % saturated at 0 and 1": (np.where(rng.random(n) < 0.6, rng.integers(0, 2, n), base), 4),
        "Cauchy logits": (rng.standard_cauchy(n), 4),
    }


def fit_rows(n: int) -> list[Row]:
    rng = np.random.default_rng(0)
    scores = rng.beta(0.5, 2, n)
    labels = (rng.random(n) < scores).astype(np.uint8)
    fitted = fb.fit_uniform_mass(scores, labels, BINS)
    np.testing.assert_array_equal(
        fitted.interior_positives / fitted.interior_counts, numpy_fit(scores, labels)
    )

    def fit() -> fb.Calibrator:
        return fb.fit_uniform_mass(scores, labels, BINS)

    rows = [speed_up("fit, against NumPy", 20, fit, lambda: numpy_fit(scores, labels))]
    for name, (column, limit) in awkward(n, rng, scores).items():
        edges = fb.fit_uniform_mass(column, labels, BINS).edges
        np.testing.assert_array_equal(edges, np.sort(column)[fb.boundary_ranks(n, BINS)[1:-1] - 1])
        rows.append(
            slow_down(f"fit, {name}", limit, lambda c=column: fb.fit_uniform_mass(c, labels, BINS), fit)
        )
    narrow = scores.astype(np.float32)
    rows.append(slow_down("fit, float32", 1, lambda: fb.fit_uniform_mass(narrow, labels, BINS), fit))
    return rows


def predict_rows(n: int) -> list[Row]:
    rng = np.random.default_rng(1)
    scores, fresh = rng.beta(0.5, 2, n), rng.beta(0.5, 2, n)
    labels = rng.random(n) < scores
    calibrator = fb.fit_uniform_mass(scores, labels, BINS)
    finer = fb.fit_uniform_mass(scores, labels, min(10_000, n // 20))
    out, copy = np.zeros(n), np.zeros(n)
    narrow = fresh.astype(np.float32)

    def predict() -> np.ndarray:
        return calibrator.predict(fresh, out=out)

    def searchsorted() -> np.ndarray:
        return calibrator.values[np.searchsorted(calibrator.edges, fresh, side="right")]

    np.testing.assert_array_equal(predict(), searchsorted())
    return [
        speed_up("predict, against searchsorted and take", 30, predict, searchsorted),
        slow_down("predict, against a copy into a warm array", 1.5, predict, lambda: np.copyto(copy, fresh)),
        slow_down(
            "predict, against a copy, both allocating", 1.5, lambda: calibrator.predict(fresh), fresh.copy
        ),
        slow_down("predict, 10,000 bins against 100", 3.5, lambda: finer.predict(fresh, out=out), predict),
        slow_down("predict, float32", 1, lambda: calibrator.predict(narrow, out=out), predict),
    ]


def argsort_rows(n: int) -> list[Row]:
    rng = np.random.default_rng(2)
    scores, noise = rng.random(n), rng.random(n)
    equal = np.full(n, 0.5)

    def argsort() -> np.ndarray:
        return fb.tie_broken_argsort(scores)

    np.testing.assert_array_equal(scores[argsort()], np.sort(scores))
    mine, lexsort = interleaved(argsort, lambda: np.lexsort((noise, scores)), rounds=3, settle=True)
    return [
        Row("argsort, against lexsort", median(lexsort) / median(mine), 12, True, f"{median(mine):.3f} s"),
        speed_up("argsort, against argsort without tie-breaking", 2, argsort, lambda: np.argsort(scores)),
        slow_down("argsort, all equal", 1, lambda: fb.tie_broken_argsort(equal), argsort),
    ]


def growth_rows(most: int) -> list[Row]:
    rng = np.random.default_rng(3)
    scores = rng.random(most)
    labels = (scores > rng.random(most)).astype(np.uint8)
    rows = []
    for big in (most // 10, most):
        small = big // 10

        def fit(n: int) -> Callable[[], object]:
            return lambda: fb.fit_uniform_mass(scores[:n], labels[:n], BINS)

        rows.append(slow_down(f"fit, {big:,} rows against {small:,}", 11, fit(big), fit(small)))
    return rows


def small_rows() -> list[Row]:
    rng = np.random.default_rng(4)
    scores = rng.random(1000)
    labels = (scores > rng.random(1000)).astype(np.uint8)
    calibrator = fb.fit_uniform_mass(scores, labels, 10)
    one = scores[:1]
    (fit,) = interleaved(lambda: fb.fit_uniform_mass(scores, labels, 10), rounds=500)
    (predict,) = interleaved(lambda: calibrator.predict(one, row_ids=[1]), rounds=500)
    return [
        Row("fit of 1,000 rows, us", 1e6 * median(fit), 100, False, f"least {1e6 * min(fit):.0f}"),
        Row("predict of one row, us", 1e6 * median(predict), 20, False, f"least {1e6 * min(predict):.1f}"),
    ]


MEMORY = """
import sys, tracemalloc
import numpy as np
import fastbin as fb
n = int(sys.argv[1])
rng = np.random.default_rng(0)
scores = rng.random(n)
labels = (scores > rng.random(n)).astype(np.int64)
out = np.zeros(n)
fb.warmup()
tracemalloc.start()  # NumPy reports its arrays to it
for job in (lambda: fb.fit_uniform_mass(scores, labels, 1000), lambda: calibrator.predict(scores, out=out)):
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    calibrator = job() if "calibrator" not in globals() else (job(), calibrator)[1]
    print(tracemalloc.get_traced_memory()[1] - before)
"""


def run_python(code: str, *arguments: str, **variables: str) -> tuple[str, float]:
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **variables},
    )
    return done.stdout, time.perf_counter() - start


def memory_rows(n: int) -> list[Row]:
    output, _ = run_python(MEMORY, str(n))
    fit, predict = (int(figure) / 2**20 for figure in output.split())
    allowed = 32 + 0.01 * n * 16 / 2**20
    return [
        Row("fit, memory beyond the inputs, MB", fit, allowed, False, "1,000 bins, int64 labels"),
        Row("predict, memory beyond in and out, MB", predict, 1, False, "1,000 bins"),
    ]


def start_rows() -> list[Row]:
    def least(code: str, rounds: int = 5, **variables: str) -> float:
        return min(run_python(code, **variables)[1] for _ in range(rounds))

    first_fit = (
        "import time; import numpy as np; s = np.linspace(0, 1, 50_000); t = time.perf_counter(); "
        "import fastbin as fb; fb.fit_uniform_mass(s, s > 0.5, 10); print(time.perf_counter() - t)"
    )
    run_python(first_fit)
    warm = min(float(run_python(first_fit)[0]) for _ in range(3))
    with tempfile.TemporaryDirectory() as empty:
        cold = float(run_python("import fastbin as fb; print(fb.warmup())", NUMBA_CACHE_DIR=empty)[0])
    return [
        Row(
            "import beyond numpy, s", least("import numpy, fastbin") - least("import numpy"), 0.15, False, ""
        ),
        Row("first fit in a new process, warm cache, s", warm, 1.5, False, ""),
        Row("everything compiled, s", cold, 25, False, ""),
    ]


def main() -> None:
    """Print the table."""
    parser = targets.arguments(__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--most-rows", type=int, default=100_000_000, help="for the growth of the cost")
    arguments = parser.parse_args()
    n = arguments.rows
    groups: tuple[Callable[[], list[Row]], ...] = (
        lambda: fit_rows(n),
        lambda: predict_rows(n),
        lambda: argsort_rows(n),
        lambda: growth_rows(arguments.most_rows),
        small_rows,
        lambda: memory_rows(n),
        start_rows,
    )
    targets.print_table(f"{n:,} rows, {BINS} bins", groups, arguments.json)


if __name__ == "__main__":
    main()
