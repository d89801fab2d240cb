"""Platt scaling: the optimum, the same bits for any order and batch, and what the peers get wrong."""

import copy
import json
import math
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression

import fastbin as fb
from fastbin import _logisticcurve, _newton, _plattfile, _plattrows
from fastbin._kernels import logistic
from fastbin._modelfile import ModelFileError
from fastbin.platt import SMALL_BATCH, PlattScaler, fit_platt
from sizes import LARGE, MEDIUM, NO_JIT
from surgery import refuses, unchanged

TOP = np.finfo(np.float64).max


def rows(n, seed=0, slope=1.3, intercept=-0.4):
    """Probabilities and labels that follow a logistic curve of their logits."""
    rng = np.random.default_rng([n, seed])
    scores = rng.beta(1.5, 1.2, n)
    return scores, (rng.random(n) < expit(slope * logit(scores) + intercept)).astype(np.int64)


def smooth(labels):
    """Platt's targets."""
    labels = np.asarray(labels, float)
    positives, negatives = labels.sum(), (1 - labels).sum()
    return labels * (positives + 1) / (positives + 2) + (1 - labels) / (negatives + 2)


def slow_twin(x, targets):
    """Newton's method in extended precision on the standardised column, damped until the loss falls."""
    x, t = np.asarray(x, np.longdouble), np.asarray(targets, np.longdouble)
    centre, spread = x.mean(), x.std()
    columns = np.stack([np.ones_like(x), (x - centre) / spread])

    def loss(beta):
        eta = beta @ columns
        return np.sum(np.logaddexp(0, eta) - t * eta)

    beta = np.zeros(2, np.longdouble)
    for _ in range(100):
        p = 1 / (1 + np.exp(-(beta @ columns)))
        gradient, weights = columns @ (p - t), p * (1 - p)
        (a, b), (_, d) = (columns * weights) @ columns.T
        step = -np.array([d * gradient[0] - b * gradient[1], a * gradient[1] - b * gradient[0]]) / (
            a * d - b * b
        )
        size = 1.0
        while loss(beta + size * step) > loss(beta) * (1 + 1e-15) and size > 1e-9:
            size /= 2
        beta = beta + size * step
        if abs(step).max() < 1e-14:
            break
    return float(beta[1] / spread), float(beta[0] - beta[1] * centre / spread)


def same_fit(one, other):
    return one == other and (one.slope, one.intercept) == (other.slope, other.intercept)


def parameters(scaler):
    return scaler.slope, scaler.intercept


# --- the optimum --------------------------------------------------------------------------------------


@pytest.mark.parametrize("on", ["logit", "probability"])
@pytest.mark.parametrize("smooth_targets", [False, True])
@pytest.mark.parametrize("n", [30, 1_000])
def test_the_fit_is_the_slow_twins(n, smooth_targets, on):
    scores, labels = rows(n)
    x = logit(scores) if on == "logit" else scores
    want = slow_twin(x, smooth(labels) if smooth_targets else labels)
    scaler = fit_platt(scores, labels, on=on, smooth_targets=smooth_targets)
    np.testing.assert_allclose(parameters(scaler), want, rtol=1e-11)
    np.testing.assert_allclose(scaler.predict(scores), expit(want[0] * x + want[1]), rtol=1e-11)
    assert (scaler.n_samples, scaler.positives) == (n, labels.sum())
    assert type(scaler.positives) is int


@pytest.mark.parametrize("smooth_targets", [False, True])
def test_soft_labels(smooth_targets):
    rng = np.random.default_rng(1)
    scores = rng.random(500)
    labels = np.clip(scores + rng.normal(0, 0.3, 500), 0, 1)  # ends included
    want = slow_twin(logit(scores), smooth(labels) if smooth_targets else labels)
    scaler = fit_platt(scores, labels, smooth_targets=smooth_targets)
    np.testing.assert_allclose(parameters(scaler), want, rtol=1e-11)
    assert scaler.soft_labels
    assert scaler.positives == pytest.approx(math.fsum(labels), rel=1e-15)


def test_soft_labels_in_a_late_block_count_as_such():
    scores, labels = rows(LARGE)
    soft = labels.astype(float)
    soft[-1] = 0.5
    scaler = fit_platt(scores, soft)
    assert scaler.soft_labels
    assert scaler.positives == labels[:-1].sum() + 0.5
    np.testing.assert_allclose(parameters(scaler), parameters(fit_platt(scores, labels)), rtol=0.01)


@pytest.mark.parametrize("on", ["logit", "probability"])
def test_scikit_learn_finds_the_same_optimum(on):
    scores, labels = rows(MEDIUM, 2)
    x = logit(scores) if on == "logit" else scores
    theirs = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(x[:, None], labels)
    ours = fit_platt(scores, labels, on=on)
    assert abs(ours.slope - theirs.coef_[0, 0]) < 1e-6
    assert abs(ours.intercept - theirs.intercept_[0]) < 1e-6
    np.testing.assert_allclose(ours.predict(scores), theirs.predict_proba(x[:, None])[:, 1], atol=1e-6)


def test_no_other_line_has_a_smaller_loss():
    scores, labels = rows(300, 3)
    x = logit(scores)

    def loss(line):
        eta = line[0] * x + line[1]
        return float(np.sum(np.logaddexp(0, eta) - labels * eta))

    best = parameters(fit_platt(scores, labels))
    found = minimize(loss, [0.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-10})
    assert loss(best) <= found.fun + 1e-12
    for angle in np.linspace(0, 2 * np.pi, 12, endpoint=False):
        assert loss(best + 1e-4 * np.array([np.cos(angle), np.sin(angle)])) > loss(best)


HARD = {
    "one positive in the middle": (np.arange(1000.0), (np.arange(1000) == 700)),
    "one outlier on the wrong side": (np.r_[np.linspace(-1, 1, 200), 1e5], np.r_[np.arange(200) >= 95, 0]),
    "heavy tails": (np.tan(np.pi * (np.arange(1, 400) / 400 - 0.5)), np.arange(1, 400) % 7 > 2),
    "two values": (np.repeat([0.0, 1.0], 50), np.r_[np.arange(50) < 5, np.arange(50) < 48]),
    "far from zero": (1e3 + np.sin(np.arange(300.0)), np.sin(np.arange(300)) > np.cos(9.0 * np.arange(300))),
    "hardly any overlap": (np.r_[np.linspace(-1, 0.001, 100), np.linspace(0, 1, 100)], np.arange(200) >= 100),
}  # fmt: skip


@pytest.mark.parametrize("smooth_targets", [False, True])
@pytest.mark.parametrize("name", HARD)
def test_hard_columns(name, smooth_targets):
    scores, labels = HARD[name]
    want = slow_twin(scores, smooth(labels) if smooth_targets else labels.astype(float))
    scaler = fit_platt(scores, labels, on="probability", smooth_targets=smooth_targets)
    np.testing.assert_allclose(parameters(scaler), want, rtol=1e-8)


@pytest.mark.parametrize("scale", [1e-200, 1e-12, 1e6, 1e15, 1e200])
def test_the_scale_of_the_scores_does_not_matter(scale):
    """scikit-learn #26766: raw scores of 1e6 and a sigmoid fit that does not converge."""
    scores, labels = rows(1_000, 4)
    margins = logit(scores)
    plain, scaled = (fit_platt(margins * by, labels, on="probability") for by in (1.0, scale))
    assert scaled.slope * scale == pytest.approx(plain.slope, rel=1e-12)
    assert scaled.intercept == pytest.approx(plain.intercept, rel=1e-12)
    np.testing.assert_allclose(scaled.predict(margins * scale), plain.predict(margins), rtol=1e-12)


def test_scores_around_a_million():
    scores, labels = rows(1_000, 5)
    shifted = 1e6 + logit(scores)
    want = slow_twin(shifted - 1e6, labels)
    scaler = fit_platt(shifted, labels, on="probability")
    assert scaler.slope == pytest.approx(want[0], rel=1e-9)
    np.testing.assert_allclose(scaler.predict(shifted), expit(want[0] * (shifted - 1e6) + want[1]), rtol=1e-8)


def test_extreme_numbers_still_have_an_optimum():
    scores = np.array([-TOP, 0.0, TOP, TOP])
    scaler = fit_platt(scores, [0, 1, 1, 0], on="probability")
    assert 0 < scaler.slope < 1e-307
    eta = scaler.slope * TOP
    np.testing.assert_allclose(
        scaler.predict(scores)[[0, 2]], expit(np.array([-eta, eta]) + scaler.intercept)
    )
    with refuses("scores must spread", "Multiply"):
        fit_platt([1e-310, 2e-310, 3e-310, 4e-310], [0, 1, 0, 1], on="probability")


def test_a_fit_that_does_not_settle_says_so(monkeypatch):
    scores, labels = rows(100)
    monkeypatch.setattr(_newton, "MOST_STEPS", 1)
    with refuses("must settle within 1 Newton", "smooth_targets=True", error=RuntimeError):
        fit_platt(scores, labels)


def test_a_hessian_that_is_not_definite_still_gives_a_descent():
    """Terms beyond 2**40 are cut off, and then the sums need not be those of a positive matrix."""
    line = _newton._Line(0.5, 0.25, 0.0)
    broken = _newton._Sums(1000, 50, -70, 10, 4000, 10, 2.0)
    step = _newton._newton_step(broken, line, n=3)
    assert step.decrease > 0
    assert step.height < 0 < step.slope  # against the gradient, each by itself
    assert step.centre == 0.25


def test_full_steps_that_overshoot_are_shortened(monkeypatch):
    """One misplaced row far out: the first full step raises the loss."""
    shorter = []
    moved = _newton._moved
    monkeypatch.setattr(_newton, "_moved", lambda *args: (shorter.append(args[2] < 1.0), moved(*args))[1])
    scores = np.r_[np.linspace(-1, 1, 51) * 1e-3, 1.0]
    labels = np.r_[np.arange(51) == 50, 0]
    scaler = fit_platt(scores, labels, on="probability", smooth_targets=True)
    np.testing.assert_allclose(parameters(scaler), slow_twin(scores, smooth(labels)), rtol=1e-9)
    scores, labels = np.r_[np.zeros(3), 1.0, 1e-8], np.array([0, 0, 1, 1, 0])
    want = slow_twin(scores, smooth(labels))
    np.testing.assert_allclose(
        parameters(fit_platt(scores, labels, on="probability", smooth_targets=True)), want, rtol=1e-9
    )
    fit_platt(np.r_[np.arange(1000.0), 3e3], np.r_[np.arange(1000) == 999, 0], on="probability")
    assert any(shorter)


# --- no finite optimum --------------------------------------------------------------------------------

SEPARABLE = {
    "apart": ([1, 2, 3, 4], [0, 0, 1, 1]),
    "apart, falling": ([1, 2, 3, 4], [1, 1, 0, 0]),
    "touching": ([1, 2, 2, 3], [0, 0, 1, 1]),
    "touching, falling": ([1, 2, 2, 3], [1, 1, 0, 0]),
    "one side an atom": ([1, 1, 1, 2], [0, 1, 0, 1]),
    "two rows": ([1, 2], [0, 1]),
    "soft at the threshold": ([1, 2, 3], [0, 0.5, 1]),
}


@pytest.mark.parametrize("name", SEPARABLE)
@pytest.mark.parametrize("on", ["logit", "probability"])
def test_separable_labels_need_smoothing(name, on):
    scores, labels = np.array(SEPARABLE[name][0]) / 5, np.array(SEPARABLE[name][1])
    with refuses("overlap", "finite optimum", "(below|above)", "Pass smooth_targets=True"):
        fit_platt(scores, labels, on=on)
    x = logit(scores) if on == "logit" else scores
    scaler = fit_platt(scores, labels, on=on, smooth_targets=True)
    np.testing.assert_allclose(parameters(scaler), slow_twin(x, smooth(labels)), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("scores", "labels"),
    [([1, 2, 3], [0, 0.5, 0]), ([1, 2, 3], [1, 0, 1]), ([1, 2, 3, 4], [0, 1, 0, 1]), ([1, 2], [0.1, 0.9])],
)
def test_the_least_overlap_is_enough(scores, labels):
    scaler = fit_platt(scores, labels, on="probability")
    want = slow_twin(scores, labels)
    np.testing.assert_allclose(parameters(scaler), want, rtol=1e-9, atol=1e-12)


def test_an_overlap_of_one_ulp():
    up = np.nextafter(0.5, 1)
    scores = [0.1, 0.5, up, 0.9]
    with refuses("overlap"):
        fit_platt(scores, [0, 0, 1, 1], on="probability")
    assert fit_platt(scores, [0, 1, 0, 1], on="probability").slope > 10


@pytest.mark.parametrize("label", [0, 1])
@pytest.mark.parametrize("scores", [[0.1, 0.5, 0.9], [0.3, 0.3, 0.3]])
def test_one_class(scores, label):
    with refuses(f"all 3 labels are {label}", "smooth_targets=True"):
        fit_platt(scores, [label] * 3)
    scaler = fit_platt(scores, [label] * 3, smooth_targets=True)
    assert scaler.slope == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(scaler.predict(scores), 0.8 if label else 0.2, rtol=1e-12)


@pytest.mark.parametrize("smooth_targets", [False, True])
@pytest.mark.parametrize("labels", [[1, 0, 0, 0], [0.5, 0.25, 0.5, 0.75], [1, 1, 1, 0]])
def test_equal_scores_have_no_slope(labels, smooth_targets):
    scaler = fit_platt([7.0] * 4, labels, on="probability", smooth_targets=smooth_targets)
    mean = np.mean(smooth(labels) if smooth_targets else labels)
    assert scaler.slope == 0.0
    assert scaler.intercept == pytest.approx(logit(mean), rel=1e-15, abs=1e-15)
    np.testing.assert_allclose(scaler.predict([-np.inf, 0.0, np.inf]), mean, rtol=1e-15)


def test_probabilities_of_0_and_1_are_clipped():
    scores, labels = [0.0, -0.0, 1.0, 1.0, 0.5, 1e-300], [0, 1, 1, 0, 1, 0]
    clipped = np.clip(scores, 2.0**-53, 1 - 2.0**-53)
    scaler = fit_platt(scores, labels)
    assert same_fit(scaler, fit_platt(clipped, labels))
    np.testing.assert_allclose(
        parameters(scaler), slow_twin(np.log(clipped / (1 - clipped)), labels), rtol=1e-11
    )
    assert scaler.predict([0.0, -0.0, 1e-300]).tolist() == [scaler.predict([2.0**-53])[0]] * 3


# --- the same bits ------------------------------------------------------------------------------------


@pytest.mark.parametrize("on", ["logit", "probability"])
@pytest.mark.parametrize("soft", [False, True])
def test_row_order_and_threads_change_no_bit(soft, on, monkeypatch):
    scores, labels = rows(MEDIUM, 6)
    labels = labels * 0.9 + 0.05 if soft else labels
    want = fit_platt(scores, labels, on=on)
    order = np.random.default_rng(0).permutation(MEDIUM)
    assert same_fit(fit_platt(scores[order], labels[order], on=on), want)
    assert same_fit(fit_platt(scores[::-1], labels[::-1], on=on), want)
    for threads, part_rows in [(1, 1 << 20), (3, 777), (7, 5_000)]:
        monkeypatch.setattr(_plattrows, "SMALL_FIT", 10)
        monkeypatch.setattr(_plattrows, "FIT_PART_ROWS", part_rows)
        monkeypatch.setattr(_plattrows, "available_threads", lambda threads=threads: threads)
        assert same_fit(fit_platt(scores, labels, on=on), want)


def test_a_plain_sum_would_depend_on_the_order():
    """The control of the test above: sums of these terms in floating point do differ."""
    scores, labels = rows(MEDIUM, 6)
    residuals = expit(logit(scores)) - labels
    order = np.random.default_rng(0).permutation(MEDIUM)
    assert np.add.accumulate(residuals)[-1] != np.add.accumulate(residuals[order])[-1]


def test_dtypes_and_layouts_change_no_bit():
    scores, labels = rows(300, 7)
    scores = scores.astype(np.float32)
    want = fit_platt(scores.astype(np.float64), labels)
    wide = np.zeros((300, 2), np.float32)
    wide[:, 1] = scores
    frozen = scores.astype(np.float64)
    frozen.flags.writeable = False
    for column in (scores, scores.astype(">f8"), wide[:, 1], frozen, scores.tolist()):
        for own in (labels, labels.astype(bool), labels.astype(np.uint8), labels.astype(np.float32)):
            assert same_fit(fit_platt(column, own), want)
    counts, small = np.arange(40) % 9, np.arange(40) % 3 == 1
    assert same_fit(
        fit_platt(counts, small, on="probability"), fit_platt(counts * 1.0, small, on="probability")
    )
    zeros = np.array([0.0, 1.0, -1.0, 0.0, 2.0])
    assert same_fit(
        fit_platt(zeros, [0, 1, 0, 1, 0], on="probability"),
        fit_platt([-0.0, 1.0, -1.0, 0.0, 2.0], [0, 1, 0, 1, 0], on="probability"),
    )


def test_inputs_are_left_alone():
    scores, labels = rows(500, 8)
    with unchanged(scores, labels):
        for on in ("logit", "probability"):
            fit_platt(scores, labels, on=on).predict(scores)


LINES = [(1.0, 0.0), (-2.5, 0.3), (1e-3, -7.0), (40.0, 3.0), (0.0, 0.25), (1e300, -1.0), (-1e-300, 1e3)]


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("on", ["logit", "probability"])
def test_small_and_large_batches_have_the_same_bits(line, on):
    scaler = PlattScaler(*line, on, False, 10, 5)
    rng = np.random.default_rng(9)
    n = 1_500 if NO_JIT else LARGE
    ends = [0.0, -0.0, 1.0, 5e-324, 1e-300, 2.0**-53, 2.0**-54, 0.5, 1 - 2.0**-53, np.nextafter(0.5, 1)]
    scores = np.r_[ends, rng.random(n), 10.0 ** rng.uniform(-20, 0, n // 2)]
    if on == "probability":
        scores = np.r_[scores, -scores, rng.normal(0, 300, n), TOP, -TOP, np.inf, -np.inf]
    whole = scaler.predict(scores, threads=1)
    assert ((whole >= 0) & (whole <= 1)).all()
    pieces = [scaler.predict(scores[i : i + 1000]) for i in range(0, scores.size, 1000)]
    assert np.concatenate(pieces).tobytes() == whole.tobytes()
    for threads in (2, 3, None):
        assert scaler.predict(scores, threads=threads).tobytes() == whole.tobytes()
    narrow = scores[:5_000].astype(np.float32)
    assert scaler.predict(narrow).tobytes() == scaler.predict(narrow.astype(np.float64)).tobytes()
    assert scaler.predict(scores[:5_000][::-1]).tobytes() == whole[:5_000][::-1].tobytes()


def test_the_written_out_functions_are_as_good_as_the_librarys():
    rng = np.random.default_rng(10)
    eta = np.r_[rng.uniform(-700, 700, 2_000), rng.normal(0, 3, 2_000), 0.0, 1e-300, -1e-17, 708.0, -708.0]
    np.testing.assert_allclose(_logisticcurve.expit(eta), expit(eta), rtol=5e-16)
    assert _logisticcurve.expit(np.array([-np.inf, -1e300, 1e300, np.inf]))[2:].tolist() == [1.0, 1.0]
    assert (_logisticcurve.expit(np.array([-np.inf, -1e300])) < 1e-300).all()
    p = np.r_[rng.random(2_000), 10.0 ** rng.uniform(-15, 0, 2_000), 0.5, 2.0**-53, 1 - 2.0**-53]
    want = np.log(p.astype(np.longdouble) / (1 - p.astype(np.longdouble))).astype(float)
    np.testing.assert_allclose(_logisticcurve.logit(p), want, rtol=1e-15, atol=3e-16)


def test_the_sums_are_exact_to_60_bits():
    """Each term is within 2**-61 of the slow twin's, so the sums are within n * 2**-60 and rounding."""
    scores, labels = rows(1_000, 11)
    x = logit(scores)
    line = logistic.Line(0.125, 0.25, 4.0, 0.75, -0.5)
    totals = np.zeros((logistic.N_SUMS, logistic.N_LIMBS), np.int64)
    logistic.newton_sums(x, labels.astype(np.uint8), line, logistic.Targets(1.0, 0.0, 0.0, 1.0), totals)
    v = (x * 0.125 - 0.25) * 4.0
    eta = (0.75 * v - 0.5).astype(np.longdouble)
    p = 1 / (1 + np.exp(-eta))
    w, r = p * (1 - p), p - labels
    terms = [np.logaddexp(0, eta) - labels * eta, r, r * v, w, w * v, w * v * v]
    got = [((int(a) << 82) + (int(b) << 50) + int(c)) / 2**60 for a, b, c in totals]
    want = [float(term.sum()) for term in terms]
    sizes = [float(abs(term).sum()) for term in terms]
    for one, other, size in zip(got, want, sizes, strict=True):
        assert abs(one - other) < 2.0**-51 * size + 1_000 * 2.0**-60


@pytest.mark.parametrize("big", [2.0**39, -(2.0**39), 2.0**60])
def test_sums_of_huge_terms_do_not_wrap(big):
    """Full tiles of the largest terms, on both sides."""
    n = logistic.TILE + 5
    totals = np.zeros((logistic.N_SUMS, logistic.N_LIMBS), np.int64)
    x, labels = np.full(n, big), np.full(n, big < 0, np.uint8)
    line = logistic.Line(1.0, 0.0, 1.0, 1.0, 0.0)
    logistic.newton_sums(x, labels, line, logistic.Targets(1.0, 0.0, 0.0, 1.0), totals)
    loss, r, rv = (((int(a) << 82) + (int(b) << 50) + int(c)) / 2**60 for a, b, c in totals[:3])
    size = min(abs(big), logistic.MOST)
    assert (loss, r, rv) == (n * size, math.copysign(n, big), n * size)


scores_and_labels = st.lists(
    st.tuples(st.floats(-1e6, 1e6), st.sampled_from([0.0, 1.0, 0.25])), min_size=2, max_size=40
)


@given(scores_and_labels, st.randoms(use_true_random=False))
def test_any_data_smoothed_is_fitted_alike_in_any_order(data, random):
    scores, labels = map(list, zip(*data, strict=True))
    scaler = fit_platt(scores, labels, on="probability", smooth_targets=True)
    assert math.isfinite(scaler.slope) and math.isfinite(scaler.intercept)
    random.shuffle(data)
    scores, labels = map(list, zip(*data, strict=True))
    assert same_fit(fit_platt(scores, labels, on="probability", smooth_targets=True), scaler)
    # At the optimum the mean prediction is the mean target.
    mean = float(np.mean(scaler.predict(scores)))
    assert mean == pytest.approx(float(np.mean(smooth(labels))), rel=1e-6)


# --- bad input ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [5, SMALL_BATCH + 10])
def test_scores_that_cannot_be_used(n):
    labels = np.arange(n) % 2
    for value, on, parts in [
        (np.nan, "logit", ["scores must not be NaN", "2 NaN, first at row 2", "Drop"]),
        (np.nan, "probability", ["scores must not be NaN", "2 NaN, first at row 2", "Drop"]),
        (1.5, "logit", [r"\[0, 1\]", "2 outside, first 1.5 at row 2", "Pass on='probability'"]),
        (-np.inf, "logit", [r"\[0, 1\]", "first -inf at row 2", "Pass on='probability'"]),
        (np.inf, "probability", ["must be finite", "2 infinite, first inf at row 2", "Clip"]),
    ]:
        scores = np.linspace(0, 1, n)
        scores[[2, 4]] = value
        with refuses(*parts):
            fit_platt(scores, labels, on=on)
        with refuses(*parts):
            fit_platt(scores.astype(np.float32), labels, on=on)


def test_labels_that_cannot_be_used():
    for labels, parts in [
        ([0, 1, 2], ["labels must be 0/1", "1 value outside, first 2 at row 2"]),
        ([0, -0.5, np.nan], ["labels must be 0/1", "2 values outside, first -0.5 at row 1"]),
        ([0, 1], ["same length", "3 scores and 2 labels"]),
    ]:
        with refuses(*parts):
            fit_platt([0.1, 0.2, 0.3], labels)
    with refuses("must not be empty"):
        fit_platt([], [])
    with refuses("one-dimensional"):
        fit_platt(np.zeros((2, 2)), [0, 1])
    with refuses("labels must be", error=TypeError):
        fit_platt([0.1, 0.2], ["a", "b"])
    with refuses("within", "Rescale"):
        fit_platt([2**60, 1, 2], [0, 1, 0], on="probability")


def test_options_that_do_not_exist():
    with refuses("on must be one of 'logit', 'probability'", "got 'margin'"):
        fit_platt([0.1, 0.2], [0, 1], on="margin")
    with refuses("smooth_targets must be True or False; got 'yes'", error=TypeError):
        fit_platt([0.1, 0.2], [0, 1], smooth_targets="yes")
    scaler = PlattScaler(1.0, 0.0, "logit", False, 4, 2)
    with refuses("nan must be one of", "got 'drop'"):
        scaler.predict([0.5], nan="drop")
    with refuses("threads must be at least 1"):
        scaler.predict([0.5], threads=0)
    with refuses("alpha must be"):
        scaler.guarantee(0.0)
    with refuses("candidates must be"):
        scaler.guarantee(candidates=0)
    with refuses("method must be one of", "exakt"):
        scaler.guarantee(method="exakt")


@pytest.mark.parametrize("n", [4, SMALL_BATCH + 10])
def test_predict_refuses_and_propagates(n):
    scores = np.linspace(0, 1, n)
    scores[1] = np.nan
    for on in ("logit", "probability"):
        scaler = PlattScaler(2.0, -0.5, on, False, 4, 2)
        with refuses("scores must not be NaN; found 1 NaN, first at row 1", "nan='propagate'"):
            scaler.predict(scores)
        values = scaler.predict(scores, nan="propagate")
        assert np.flatnonzero(np.isnan(values)).tolist() == [1]
        assert np.array_equal(np.delete(values, 1), scaler.predict(np.delete(scores, 1)))
    scores[3] = 1.25
    with refuses(r"\[0, 1\]", "1 outside, first 1.25 at row 3"):
        PlattScaler(2.0, -0.5, "logit", False, 4, 2).predict(scores, nan="propagate")


@pytest.mark.parametrize("n", [4, SMALL_BATCH + 10])
def test_predict_into_an_array(n):
    scaler = PlattScaler(2.0, -0.5, "logit", False, 4, 2)
    scores = np.linspace(0, 1, n)
    want = scaler.predict(scores)
    for dtype in (np.float64, np.float32):
        out = np.full(n, np.nan, dtype)
        assert scaler.predict(scores, out=out) is out
        np.testing.assert_array_equal(out, want.astype(dtype))
    shared = scores.copy()
    assert scaler.predict(shared[::-1], out=shared).tobytes() == want[::-1].tobytes()
    with refuses("out must be a float64 or float32 array"):
        scaler.predict(scores, out=np.empty(n + 1))
    assert scaler.predict([]).shape == (0,)
    assert scaler.predict([True, False]).shape == (2,)


# --- what the result is and says ----------------------------------------------------------------------


def test_there_is_no_guarantee():
    for scaler in (
        PlattScaler(1.0, 0.0, "logit", False, 40, 20),
        PlattScaler(1.0, 0.0, "logit", True, 40, 2.5),
    ):
        guarantee = scaler.guarantee(0.2, candidates=3)
        assert not guarantee.holds
        assert (guarantee.alpha, guarantee.n_samples) == (0.2, 40)
        numbers = (guarantee.conditional, guarantee.marginal, guarantee.expected_ece, guarantee.per_bin)
        assert numbers == (None,) * 4
        assert "no theorem covers a parametric map" in guarantee.reason
        assert str(guarantee).startswith("No guarantee")


def test_text_for_people():
    scaler = fit_platt([0.2, 0.4, 0.6, 0.7], [0, 1, 0, 1])
    assert repr(scaler) == "PlattScaler(slope=1.097, intercept=0.1256, on='logit', n_samples=4)"
    assert str(scaler) == scaler.summary()
    assert "logit(score) + 0.125564" in scaler.summary()
    soft = PlattScaler(-1.5, -2.0, "probability", True, 1, 0.25)
    assert "the score, from 1 row, label sum 0.25, smoothed targets" in soft.summary()
    assert "log-odds = -1.5 * score - 2" in soft.summary()


def test_equality_is_of_bits():
    scaler = PlattScaler(1.0, 0.0, "logit", False, 4, 2)
    assert scaler == PlattScaler(1.0, 0.0, "logit", False, 4, 2)
    assert hash(scaler) == hash(PlattScaler(1.0, 0.0, "logit", False, 4, 2))
    others = [
        (np.nextafter(1.0, 2), 0.0, "logit", False, 4, 2), (1.0, -0.0, "logit", False, 4, 2),
        (1.0, 0.0, "probability", False, 4, 2), (1.0, 0.0, "logit", True, 4, 2),
        (1.0, 0.0, "logit", False, 5, 2), (1.0, 0.0, "logit", False, 4, 2.0),
    ]  # fmt: skip
    assert all(scaler != PlattScaler(*other) for other in others)
    assert scaler != "scaler"
    assert pickle.loads(pickle.dumps(scaler)) == scaler == copy.deepcopy(scaler)
    with pytest.raises(AttributeError):
        scaler.slope = 2.0


# --- model files --------------------------------------------------------------------------------------


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("on", ["logit", "probability"])
def test_a_saved_scaler_comes_back_with_every_bit(tmp_path, on, soft):
    scores, labels = rows(200, 12)
    scaler = fit_platt(scores, labels * 0.5 if soft else labels, on=on, smooth_targets=soft)
    scaler.save(tmp_path / "scaler.json")
    data = json.loads((tmp_path / "scaler.json").read_text())
    again = PlattScaler.from_dict(data)
    assert same_fit(again, scaler)
    assert again.predict(scores).tobytes() == scaler.predict(scores).tobytes()
    assert data == scaler.to_dict()
    assert data["format"] == "fastbin platt scaler"
    assert PlattScaler.from_dict(dict(reversed(data.items()))) == scaler


def test_whole_numbers_may_lose_their_point():
    """A tool that writes JSON may turn 2.0 into 2."""
    for scaler in (
        PlattScaler(2.0, -3.0, "logit", True, 9, 4.0),
        PlattScaler(2.0, 0.0, "logit", False, 9, 4),
    ):
        data = {k: int(v) if isinstance(v, float) else v for k, v in scaler.to_dict().items()}
        again = PlattScaler.from_dict(data)
        assert again == scaler
        assert type(again.slope) is float
        assert type(again.positives) is type(scaler.positives)


GOOD = PlattScaler(1.5, -0.25, "logit", False, 10, 4).to_dict()


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"on": "margin"}, "on must be one of"),
        ({"on": []}, "on must be one of"),
        ({"smooth_targets": 1}, "smooth_targets must be"),
        ({"labels": "other"}, "labels must be"),
        ({"n_samples": 0}, "n_samples must be"),
        ({"n_samples": 2**63}, "n_samples must be"),
        ({"n_samples": True}, "n_samples must be"),
        ({"n_samples": 10.0}, "n_samples must be"),
        ({"slope": "1.5"}, "slope must be a finite"),
        ({"slope": 10**400}, "slope must be a finite"),
        ({"intercept": None}, "intercept must be a finite"),
        ({"intercept": True}, "intercept must be a finite"),
        ({"positives": 11}, "positives must be"),
        ({"positives": -1}, "positives must be"),
        ({"positives": 4.0}, "positives must be"),
        ({"positives": 0}, "not all"),
        ({"positives": 10}, "not all"),
        ({"labels": "soft", "positives": "4"}, "positives must be"),
        ({"labels": "soft", "positives": 10.5}, "positives must be"),
    ],
)
def test_unsound_content_is_refused(change, part):
    body = {**{name: value for name, value in GOOD.items() if name != "sha256"}, **change}
    with refuses(part, "Restore the file", error=ModelFileError):
        PlattScaler.from_dict({**body, "sha256": _plattfile.SCHEMA._checksum(body)})


@pytest.mark.parametrize(
    ("data", "part"),
    [
        ([], "expected a JSON object, found list"),
        ({}, "format is None"),
        ({**GOOD, "format": "fastbin calibrator"}, "format is 'fastbin calibrator'"),
        ({**GOOD, "schema_version": 2}, "schema version 2"),
        ({**GOOD, "schema_version": True}, "schema version True"),
        ({**GOOD, "extra": 1}, "unexpected .'extra'"),
        ({k: v for k, v in GOOD.items() if k != "slope"}, "missing .'slope'"),
        ({**GOOD, "slope": 1.25}, "checksum does not match"),
        ({**GOOD, "sha256": "0" * 64}, "checksum does not match"),
        ({**GOOD, "slope": math.nan}, "JSON does not allow"),
        ({**GOOD, "slope": {1}}, "JSON does not allow"),
    ],
)
def test_what_is_not_a_scaler_is_refused(data, part):
    with refuses(part, error=ModelFileError):
        PlattScaler.from_dict(data)


def test_load_tells_a_scaler_from_a_calibrator(tmp_path):
    scaler, calibrator = fit_platt([0.2, 0.4, 0.6], [0, 1, 0]), fb.fit_uniform_mass([0.1, 0.2], [0, 1], 1)
    for model in (scaler, calibrator):
        model.save(tmp_path / "model.json")
        again = fb.load(tmp_path / "model.json")
        assert type(again) is type(model)
        assert again == model


STORED = Path(__file__).parent / "models" / "platt-schema1.json"


def stored_fit():
    return fit_platt(np.arange(60) * 37 % 60 % 7 / 8, np.arange(60) ** 2 // 3 % 2, smooth_targets=True)


def test_a_file_of_schema_1_still_loads_as_the_same_fit():
    assert fb.load(STORED) == stored_fit()


# --- the compiler -------------------------------------------------------------------------------------


def test_a_small_prediction_loads_no_compiler():
    code = (
        "import sys; from fastbin.platt import PlattScaler; "
        "print(PlattScaler(1.0, 0.0, 'logit', False, 4, 2).predict([0.25])[0], 'numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0.25", "False"]


def test_large_predictions_do_use_the_kernels(monkeypatch):
    """The control of the test of bits: above the limit the other formula is not called."""
    scaler = PlattScaler(1.0, 0.0, "logit", False, 4, 2)
    monkeypatch.setattr(_logisticcurve, "expit", None)
    n = SMALL_BATCH + (1 if NO_JIT else 10_000)
    assert scaler.predict(np.full(n, 0.25))[-1] == 0.25
    with pytest.raises(TypeError):
        scaler.predict(np.full(SMALL_BATCH, 0.25))
