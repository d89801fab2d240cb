"""What guarantee(), intervals() and certificate() say for a uniform-mass fit (design table, first rows)."""

import json
import re
import time

import numpy as np
import pytest
from scipy import stats

import fastbin as fb
from surgery import labelled, refuses

N, B, ALPHA = 1000, 10, 0.1
ASSUMPTIONS = ("independent|iid", "did not see", "chosen", "fresh key")


def fit(**options):
    scores, labels = labelled(N, 50)
    return fb.fit_uniform_mass(scores, options.pop("labels", labels), B, **options)


@pytest.fixture(scope="module")
def binary():
    return fit()


@pytest.fixture(scope="module")
def soft():
    return fit(labels=np.random.default_rng(0).random(N))


def sidak(alpha, n_bins):
    return -np.expm1(np.log1p(-alpha) / n_bins)


# --- 0/1 labels ---------------------------------------------------------------------------------------


def test_binary_labels_get_the_exact_bounds(binary):
    """The golden values at (1000, 10, 0.1): 13/99, 17/198 and D1."""
    g = binary.guarantee(ALPHA)
    assert g.holds is True
    assert (g.alpha, g.n_samples, g.n_bins) == (ALPHA, N, B)
    assert g.conditional == pytest.approx(13 / 99, abs=1e-15)
    assert g.marginal == pytest.approx(17 / 198, abs=1e-15)
    assert g.expected_ece == pytest.approx(0.0401759535877, abs=1e-12)


@pytest.mark.parametrize(("n", "n_bins"), [(7, 3), (100, 7), (199, 100), (1509, 10)])
@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.5])
def test_the_guarantee_is_the_bound_of_the_same_size(n, n_bins, alpha):
    scores, labels = labelled(n, 5)
    g = fb.fit_uniform_mass(scores, labels, n_bins).guarantee(alpha)
    assert g.conditional == fb.bounds.conditional_epsilon(n, n_bins, alpha)
    assert g.marginal == fb.bounds.marginal_epsilon(n, n_bins, alpha)
    assert g.expected_ece == fb.bounds.expected_ece(n, n_bins)


@pytest.mark.parametrize("method", ["paper", "paper_sharp", "hoeffding", "bonferroni", "exact"])
def test_a_named_method_gives_the_bound_of_that_name(binary, method):
    g = binary.guarantee(ALPHA, method=method)
    assert g.conditional == fb.bounds.conditional_epsilon(N, B, ALPHA, method=method)


def test_the_papers_formula_is_theorem_1(binary):
    g = binary.guarantee(ALPHA, method="paper")
    assert g.conditional == pytest.approx(0.163582329788, abs=1e-12)
    assert g.marginal == pytest.approx(0.123003906351, abs=1e-12)
    assert g.expected_ece == pytest.approx(0.0707106781187, abs=1e-12)


def test_candidates_share_alpha(binary):
    shared, split = binary.guarantee(ALPHA, candidates=5), binary.guarantee(ALPHA / 5)
    assert (shared.conditional, shared.marginal) == (split.conditional, split.marginal)
    assert shared.alpha == ALPHA
    assert shared.conditional > binary.guarantee(ALPHA).conditional
    assert "5" in str(shared)


def test_the_guarantee_does_not_look_at_the_labels():
    scores, labels = labelled(N, 50)
    one, other = (fb.fit_uniform_mass(scores, y, B).guarantee(ALPHA) for y in (labels, np.zeros(N)))
    assert (one.conditional, one.marginal, one.expected_ece) == (
        other.conditional,
        other.marginal,
        other.expected_ece,
    )


# --- soft labels --------------------------------------------------------------------------------------


def test_soft_labels_get_hoeffding_and_no_binomial_bound(soft):
    g = soft.guarantee(ALPHA)
    m = soft.interior_counts.min()
    assert g.holds is True
    assert g.conditional == pytest.approx(np.sqrt(np.log(2 / sidak(ALPHA, B)) / (2 * m)), rel=1e-12)
    assert g.conditional == pytest.approx(0.162855872968, abs=1e-12)
    assert g.marginal == pytest.approx(np.sqrt(np.log(2 / ALPHA) / (2 * m)), rel=1e-12)
    assert g.expected_ece == fb.bounds.expected_ece(N, B)


@pytest.mark.parametrize("method", ["exact", "bonferroni"])
def test_soft_labels_refuse_the_binomial_methods(soft, method):
    """A theorem for 0/1 labels only: no number may be given."""
    g = soft.guarantee(ALPHA, method=method)
    assert g.holds is False
    assert (g.conditional, g.marginal, g.expected_ece, g.per_bin) == (None, None, None, None)
    assert re.search("0/1 labels", g.reason)
    assert "no guarantee" in str(g).lower()
    assert g.reason in str(g)


# --- include, delta -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["binary", "soft"])
def test_included_boundary_points_cost_one_point_per_bin(kind, request):
    base = request.getfixturevalue(kind).guarantee(ALPHA)
    labels = {} if kind == "binary" else {"labels": np.random.default_rng(0).random(N)}
    g = fit(boundary_points="include", **labels).guarantee(ALPHA)
    assert g.holds is True
    assert g.conditional == pytest.approx(base.conditional + 1 / ((N + 1) // B), rel=1e-14)
    assert g.marginal == pytest.approx(base.marginal + 1 / ((N + 1) // B), rel=1e-14)
    assert g.expected_ece == pytest.approx(base.expected_ece + (B - 1) / (N + 1), rel=1e-14)


@pytest.mark.parametrize("delta", [1e-10, 0.01, 0.5])
def test_delta_costs_its_share(binary, delta):
    base, g = binary.guarantee(ALPHA), fit(delta=delta).guarantee(ALPHA)
    for name in ("conditional", "marginal", "expected_ece"):
        extra = getattr(g, name) - getattr(base, name)
        assert extra == pytest.approx(delta / (1 + delta), rel=1e-12, abs=1e-15), name


def test_the_papers_formula_adds_delta_as_it_is(binary):
    base, g = binary.guarantee(ALPHA, method="paper"), fit(delta=0.25).guarantee(ALPHA, method="paper")
    assert g.conditional == pytest.approx(base.conditional + 0.25, rel=1e-14)
    assert g.marginal == pytest.approx(base.marginal + 0.25, rel=1e-14)


def test_the_papers_formula_for_included_points_is_corollary_1():
    """At B | n + 1 the paper's count floor(n/B) is one less than the sharp one: the two must not be mixed."""
    n = 20 * B - 1
    scores = np.arange(n)
    g = fb.fit_uniform_mass(scores, scores % 2, B, boundary_points="include").guarantee(ALPHA, method="paper")
    assert g.conditional == pytest.approx(fb.bounds.original_epsilon(n, B, ALPHA), rel=1e-14)


def test_one_bin_of_one_row_is_said_in_the_singular():
    sentence = str(fb.fit_uniform_mass([0.5], [1], 1).guarantee())
    assert "the 1 bin fitted on 1 calibration row is not off by more than" in sentence


def test_an_infinite_bound_is_null_in_json():
    g = fb.fit_uniform_mass([1, 2, 3], [0, 1, 1], 2).guarantee(method="paper")
    assert g.conditional == np.inf
    assert g.to_dict()["conditional"] is None
    json.dumps(g.to_dict(), allow_nan=False)


def test_include_and_delta_add_up(binary):
    g = fit(boundary_points="include", delta=0.5).guarantee(ALPHA)
    extra = 1 / ((N + 1) // B) + 0.5 / 1.5
    assert g.conditional == pytest.approx(binary.guarantee(ALPHA).conditional + extra, rel=1e-14)


# --- words --------------------------------------------------------------------------------------------

FITS = {
    "binary": {},
    "soft": {"labels": np.random.default_rng(0).random(N)},
    "include": {"boundary_points": "include"},
    "delta": {"delta": 0.1},
}


@pytest.mark.parametrize("kind", FITS)
def test_the_sentence_ends_with_the_assumptions(kind):
    g = fit(**FITS[kind]).guarantee(ALPHA)
    text = str(g)
    assert g.assumptions
    positions = [text.find(line) for line in g.assumptions]
    assert all(at >= 0 for at in positions), text
    assert positions == sorted(positions)
    assert text.rstrip().rstrip(".").endswith(g.assumptions[-1].rstrip("."))
    assert text.find("90") < positions[0]
    assert f"{g.conditional:.3f}"[:5] in text or f"{g.conditional:.4f}" in text
    joined = " ".join(g.assumptions)
    for word in ASSUMPTIONS:
        assert re.search(word, joined, re.IGNORECASE), word


@pytest.mark.parametrize("kind", FITS)
def test_a_guarantee_that_holds_gives_its_reason(kind):
    g = fit(**FITS[kind]).guarantee(ALPHA)
    assert g.holds is True
    assert isinstance(g.reason, str)
    assert g.reason
    assert g.method
    assert len(repr(g).splitlines()) == 1


@pytest.mark.parametrize("method", ["paper", "paper_sharp", "hoeffding", "bonferroni", "exact"])
@pytest.mark.parametrize(("n", "n_bins"), [(39, 4), (100, 7), (1000, 10)])
def test_the_bounds_per_bin_hold_all_at_once(n, n_bins, method):
    """The chance that no bin fails is at least the product of 1 - T*(m_b, epsilon_b)."""
    scores, labels = labelled(n, 50)
    cal = fb.fit_uniform_mass(scores, labels, n_bins)
    per_bin = cal.guarantee(ALPHA, method=method).per_bin
    assert per_bin.shape == (n_bins,)
    tails = [
        fb.bounds.binomial_tail(int(m), float(e)) for m, e in zip(cal.interior_counts, per_bin, strict=True)
    ]
    assert np.prod(1 - np.array(tails)) >= 1 - ALPHA
    assert not per_bin.flags.writeable


def test_the_bounds_per_bin_pay_for_boundary_points_and_delta(binary):
    g = fit(boundary_points="include", delta=0.5).guarantee(ALPHA)
    extra = 1 / ((N + 1) // B) + 0.5 / 1.5
    np.testing.assert_allclose(g.per_bin, binary.guarantee(ALPHA).per_bin + extra, rtol=1e-12)


def test_the_guarantee_is_frozen(binary):
    g = binary.guarantee(ALPHA)
    with pytest.raises(AttributeError):
        g.conditional = 0.0


# --- intervals ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("n_bins", [1, 10, 100])
def test_intervals_are_clopper_pearson_with_sidak(alpha, n_bins):
    scores, labels = labelled(500, 50)
    labels[:250] = 0
    cal = fb.fit_uniform_mass(scores, labels, n_bins)
    lower, upper = cal.intervals(alpha)
    k, m, t = cal.interior_positives, cal.interior_counts, sidak(alpha, n_bins)
    want_lower = np.where(k == 0, 0.0, stats.beta.ppf(t / 2, k, m - k + 1))
    want_upper = np.where(k == m, 1.0, stats.beta.ppf(1 - t / 2, k + 1, m - k))
    np.testing.assert_allclose(lower, want_lower, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(upper, want_upper, rtol=1e-9, atol=1e-12)
    assert (lower[k == 0] == 0).all()
    assert (upper[k == m] == 1).all()


def test_intervals_hold_the_interior_mean_whatever_the_value_is():
    cal = fit(boundary_points="include", delta=0.5)
    lower, upper = cal.intervals(ALPHA)
    means = cal.interior_positives / cal.interior_counts
    assert ((lower <= means) & (means <= upper)).all()
    plain = fit().intervals(ALPHA)
    np.testing.assert_array_equal(lower, plain[0])
    np.testing.assert_array_equal(upper, plain[1])


def test_soft_intervals_are_hoeffding_with_sidak(soft):
    """Clopper-Pearson is proved for 0/1 labels only."""
    lower, upper = soft.intervals(ALPHA)
    m = soft.interior_counts
    half, means = np.sqrt(np.log(2 / sidak(ALPHA, B)) / (2 * m)), soft.interior_positives / m
    np.testing.assert_allclose(lower, np.maximum(means - half, 0), rtol=1e-12)
    np.testing.assert_allclose(upper, np.minimum(means + half, 1), rtol=1e-12)


def test_predict_interval_gives_each_row_its_bins_interval(binary):
    scores, _ = labelled(N, 50)
    lower, upper = binary.intervals(ALPHA)
    bins = binary.assign(scores)
    row_lower, row_upper = binary.predict_interval(scores, alpha=ALPHA)
    np.testing.assert_array_equal(row_lower, lower[bins])
    np.testing.assert_array_equal(row_upper, upper[bins])
    ids = np.arange(N) + 77
    np.testing.assert_array_equal(
        binary.predict_interval(scores, alpha=ALPHA, row_ids=ids)[0],
        lower[binary.assign(scores, row_ids=ids)],
    )


def test_predict_interval_propagates_nan_when_asked(binary):
    lower, upper = binary.predict_interval([np.nan, 9.0], nan="propagate")
    assert np.isnan([lower[0], upper[0]]).all()
    assert (lower[1], upper[1]) == (binary.intervals(0.1)[0][-1], binary.intervals(0.1)[1][-1])


# --- certificate --------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"boundary_points": "include"}, {"delta": 0.5}], ids=str)
def test_the_certificate_is_the_farther_end_of_each_interval(options):
    cal = fit(**options)
    lower, upper = cal.intervals(ALPHA)
    bound = np.asarray(cal.certificate(ALPHA))
    assert bound.shape == (B,)
    np.testing.assert_allclose(bound, np.maximum(cal.values - lower, upper - cal.values), rtol=1e-12)


# --- size ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_bins", [10, 1000])
def test_a_hundred_million_rows_answer_in_half_a_second(n_bins):
    """Cuts on single rows, so that only the bounds take time."""
    n = 10**8
    cuts = fb.boundary_ranks(n, n_bins)
    totals = np.empty(2 * n_bins - 1, np.int64)
    totals[0::2], totals[1::2] = np.diff(cuts) - 1, 1
    cal = fb.fit_counts(np.arange(len(totals)), totals // 3, totals, n_bins)
    assert cal.n_samples == n
    assert (cal.edge_ties == 1).all()
    start = time.perf_counter()
    g = cal.guarantee(ALPHA)
    cal.intervals(ALPHA)
    assert time.perf_counter() - start < 0.5
    m = cal.interior_counts.min()
    assert 0 < g.marginal <= g.conditional <= np.sqrt(np.log(2 / sidak(ALPHA, n_bins)) / (2 * m))


def test_one_point_per_bin_gives_an_honest_number():
    g = fb.fit_uniform_mass([0.1, 0.2, 0.3], [0, 1, 1], 2).guarantee(ALPHA)
    assert g.conditional >= 0.9
    paper = fb.fit_uniform_mass([0.1, 0.2, 0.3], [0, 1, 1], 2).guarantee(ALPHA, method="paper")
    assert paper.conditional == np.inf


def test_an_unknown_method_lists_the_known_ones(binary):
    with refuses("method", "paper", "hoeffding", "exact", "guess"):
        binary.guarantee(ALPHA, method="guess")


def test_a_fit_chosen_among_candidates_has_no_expected_error():
    calibrator = fb.fit_uniform_mass(np.linspace(0, 1, 99), np.arange(99) % 2, 4)
    assert calibrator.guarantee().expected_ece is not None
    chosen = calibrator.guarantee(candidates=2)
    assert chosen.expected_ece is None
    assert "chosen" in chosen.reason


@pytest.mark.statistical
def test_the_best_of_many_seeds_breaks_the_bound_on_the_expected_error():
    """The negative control: a number for a chosen fit would be false."""
    rng = np.random.default_rng(5)
    scores = np.full(39, 0.5)

    def error(fit):  # E[Y | bin] is 1/2; a bin's mass is its share of the keys
        return np.abs(fit.values - 0.5) @ np.diff(np.r_[0.0, fit.edge_keys / 2.0**64, 1.0])

    errors, first = [], []
    for _ in range(100):
        labels = rng.integers(0, 2, 39)
        tried = [error(fb.fit_uniform_mass(scores, labels, 8, rng=seed)) for seed in range(50)]
        errors.append(max(tried))
        first.append(tried[0])
    bound = fb.fit_uniform_mass(scores, labels, 8).guarantee().expected_ece
    margin = 5.5 / np.sqrt(len(errors))
    assert np.mean(errors) - margin * np.std(errors) > bound
    assert np.mean(first) - margin * np.std(first) <= bound, "one fit that was not chosen keeps it"


def test_an_epsilon_of_one_or_more_is_not_printed_as_a_promise():
    sentence = str(fb.fit_uniform_mass([0.1, 0.2, 0.3], [0, 1, 0], 2).guarantee(method="paper"))
    assert "inf" not in sentence
    assert "Nothing is promised" in sentence


def test_guarantees_compare_by_value():
    calibrator = fb.fit_uniform_mass(np.linspace(0, 1, 99), np.arange(99) % 2, 4)
    assert calibrator.guarantee() == calibrator.guarantee()
    assert hash(calibrator.guarantee()) == hash(calibrator.guarantee())
    assert calibrator.guarantee(0.1) != calibrator.guarantee(0.2)
