"""The main job from end to end on simulated scores: fit, predict, guarantee, calibration error."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

import fastbin as fb

Result = TypeVar("Result")
Scores = NDArray[np.float64]

ECE_CELLS = 100  # fixed-width cells in which the raw scores' calibration error is measured
SIMULATION_BLOCK = 1 << 20


@dataclass(frozen=True)
class DemoReport:
    """What the demonstration found."""

    rows: int
    bins: int
    seed: int
    compile_seconds: float
    simulate_seconds: float
    fit_seconds: float
    predict_seconds: float
    fit_rows_per_second: float
    predict_rows_per_second: float
    ece_before: float
    ece_after: float
    calibrator: fb.Calibrator
    guarantee: fb.Guarantee

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: the figures, the bins and the guarantee."""
        figures = {name: value for name, value in vars(self).items() if isinstance(value, int | float)}
        calibrator = self.calibrator
        return {
            **figures,
            "edges": calibrator.edges.tolist(),
            "values": calibrator.values.tolist(),
            "counts": calibrator.counts.tolist(),
            "positives": calibrator.positives.tolist(),
            "guarantee": {**self.guarantee.to_dict(), "sentence": str(self.guarantee)},
        }


def simulate(rows: int, seed: int) -> tuple[Scores, NDArray[np.bool_]]:
    """Scores of an overconfident model that also sees too few positives, and labels drawn from the truth."""
    scores, labels = np.empty(rows), np.empty(rows, np.bool_)
    rng = np.random.default_rng(seed)
    for start in range(0, rows, SIMULATION_BLOCK):
        own = slice(start, min(start + SIMULATION_BLOCK, rows))
        truth = rng.random(own.stop - start)
        labels[own] = rng.random(own.stop - start) < truth
        # Twice the true log-odds, shifted down by one: odds**2 / (odds**2 + e).
        odds_squared = np.square(truth / (1.0 - truth))
        scores[own] = odds_squared / (odds_squared + np.e)
    return scores, labels


def calibration_error(
    predictions: Scores, labels: NDArray[np.bool_], bins: NDArray[np.int64], n_bins: int
) -> float:
    """l1-ECE over the given cells: the mean gap between labels and predictions, weighted by rows."""
    mean_label, counts = fb.bin_means(labels, bins, n_bins)
    mean_prediction, _ = fb.bin_means(predictions, bins, n_bins)
    gaps = np.abs(mean_label - mean_prediction)
    return float(np.nansum(gaps * counts) / counts.sum())


def _timed(work: Callable[[], Result]) -> tuple[Result, float]:
    started = time.perf_counter()
    return work(), time.perf_counter() - started


def run(rows: int, bins: int, seed: int, say: Callable[[str], None]) -> DemoReport:
    """Run the demonstration, telling ``say`` what is going on."""
    fb.bounds.conditional_epsilon(rows, bins, 0.1)  # refuses too many bins for the rows before any work
    say("compiling the kernels (once; later processes load them from the cache) ...")
    compile_seconds = fb.warmup()
    say(f"  {compile_seconds:.1f} s")
    say(f"simulating {rows:,} calibration rows and {rows:,} fresh ones ...")
    (calibration, fresh), simulate_seconds = _timed(lambda: (simulate(rows, seed), simulate(rows, seed + 1)))
    say(f"  {simulate_seconds:.1f} s")

    calibrator, fit_seconds = _timed(lambda: fb.fit_uniform_mass(*calibration, bins, rng=seed))
    scores, labels = fresh
    predictions = np.zeros_like(scores)  # written once before the clock starts: no page faults in the timing
    _, predict_seconds = _timed(lambda: calibrator.predict(scores, out=predictions))

    cells = fb.bin_index(scores, np.arange(1, ECE_CELLS) / ECE_CELLS)
    own_bins = calibrator.assign(scores)
    return DemoReport(
        rows=rows,
        bins=bins,
        seed=seed,
        compile_seconds=compile_seconds,
        simulate_seconds=simulate_seconds,
        fit_seconds=fit_seconds,
        predict_seconds=predict_seconds,
        fit_rows_per_second=rows / fit_seconds,
        predict_rows_per_second=rows / predict_seconds,
        ece_before=calibration_error(scores, labels, cells, ECE_CELLS),
        ece_after=calibration_error(predictions, labels, own_bins, bins),
        calibrator=calibrator,
        guarantee=calibrator.guarantee(),
    )


def text(report: DemoReport) -> str:
    """The report for people."""
    before = f"{report.ece_before:.5f} before (scores in {ECE_CELLS} equal cells)"
    after = f"{report.ece_after:.5f} after ({report.bins} bins)"
    lines = [
        "",
        str(report.calibrator),
        "",
        _speed("fit", report.rows, report.fit_seconds),
        _speed("predict", report.rows, report.predict_seconds),
        "",
        f"calibration error on {report.rows:,} fresh rows: {before}, {after}",
        "",
        f"Guarantee: {report.guarantee}",
    ]
    return "\n".join(lines)


def _speed(job: str, rows: int, seconds: float) -> str:
    return f"{job:<8} {rows:>14,} rows in {1e3 * seconds:8.1f} ms {rows / seconds / 1e6:10.1f} million rows/s"
