"""Every calibrator of the paper against its slow twin, and what they have in common."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastbin as fb
import harness
import reference as ref
import reference_methods as twins
import zoo
from sizes import LARGE, NO_JIT
from strategies import data, few, law, seeds, soft, unit
from surgery import labelled, refuses, unchanged

METHODS = (
    "uniform_mass",
    "uniform_mass_original",
    "sample_split",
    "fixed_width",
    "isotonic",
    "scaling_binning",
)


def same(got, want):
    np.testing.assert_array_equal(ref.bits(got), ref.bits(want))


def fit_by_name(method, scores, labels, n_bins=5, **options):
    return fb.fit(scores, labels, method, "auto" if method == "isotonic" else n_bins, **options)


# --- against the slow twins ---------------------------------------------------------------------------


@law
@given(data(scores=unit, labels=st.one_of(st.integers(0, 1), soft)), st.sampled_from(["midpoint", "nearest"]))
def test_fixed_width_is_its_definition(case, empty):
    scores, labels, _ = case
    for n_bins in (1, 2, 7, 10):
        counts, positives, values = twins.fixed_width(scores, labels, n_bins, empty)
        cal = fb.fit_fixed_width(scores, labels, n_bins, empty=empty)
        same(cal.counts, counts)
        same(cal.positives, positives)
        same(cal.values, values)
        same(cal.edges, np.array([i / n_bins for i in range(1, n_bins)]))


@law
@given(data(labels=st.one_of(st.integers(0, 1), soft)), st.sampled_from([0.3, 0.5, 0.9]), seeds)
def test_sample_split_is_its_definition(case, split, seed):
    scores, labels, _ = case
    n_bins = (int(split * len(scores)) + 1) // 2
    if n_bins < 1 or int(split * len(scores)) == len(scores):
        return
    cuts, counts, positives, values, ties = twins.sample_split(scores, labels, n_bins, split, seed)
    cal = fb.fit_sample_split(scores, labels, n_bins, split=split, rng=seed)
    same(cal.edges, cuts.edges)
    same(cal.edge_keys, cuts.edge_keys)
    same(cal.counts, counts)
    assert cal.edge_ties.tolist() == ties
    np.testing.assert_array_equal(cal.positives, positives)
    same(cal.values, values)
    assert cal.n_samples == len(scores)


@law
@given(data(scores=unit, labels=st.one_of(st.integers(0, 1), soft)), seeds)
def test_scaling_binning_is_its_definition(case, seed):
    scores, labels, n_bins = case
    cal = fb.fit_scaling_binning(scores, labels, n_bins, rng=seed)
    same(cal.values, twins.scaling_binning(scores, labels, n_bins, seed))
    plain = fb.fit_uniform_mass(scores, labels, n_bins, rng=seed)
    assert dataclasses.replace(cal, method="uniform_mass", values=plain.values) == plain


@law
@given(data(scores=few, labels=st.one_of(st.integers(0, 1), soft)), seeds)
def test_the_authors_code_is_reproduced_rank_for_rank(case, seed):
    scores, labels, _ = case
    for n_bins in {1, 2, len(scores) // 3 + 1, len(scores)}:
        if n_bins > len(scores):
            continue
        counts, positives, values, upper = twins.authors(scores, labels, n_bins, seed)
        cal = fb.fit_uniform_mass(scores, labels, n_bins, rng=seed, compat="authors")
        same(cal.counts, counts)
        np.testing.assert_array_equal(cal.positives, positives)
        same(cal.values, values)
        ids = np.arange(len(scores))
        keys = ref.predict_keys(cal.seed, ids.tolist())
        want = [
            sum(cut < (float(s) + 0.0, key) for cut in upper) for s, key in zip(scores, keys, strict=True)
        ]
        assert cal.assign(scores, row_ids=ids).tolist() == want
        assert fb.Calibrator.from_dict(cal.to_dict()) == cal


def test_groups_of_the_authors_code():
    """n = 1000, B = 7: six groups of 143 and one of 142, as numpy.array_split makes them."""
    scores = np.random.default_rng(0).random(1000)
    cal = fb.fit_uniform_mass(scores, scores > 0.5, 7, compat="authors")
    assert cal.counts.tolist() == [143] * 6 + [142]
    np.testing.assert_array_equal(cal.edges, np.sort(scores)[np.arange(143, 1000, 143)[:6] - 1])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["uniform", "two decimals", "saturated", "all equal"])
def test_threads_change_no_bit_of_many_rows(method, name):
    scores = np.clip(zoo.columns(LARGE)[name], 0, 1)
    labels = np.random.default_rng(0).integers(0, 2, LARGE)
    one = fit_by_name(method, scores, labels, 20, threads=1)
    assert all(fit_by_name(method, scores, labels, 20, threads=k) == one for k in (2, 3, 7))
    if method != "sample_split":  # that one splits by position
        order = np.random.default_rng(1).permutation(LARGE)
        assert fit_by_name(method, scores[order], labels[order], 20) == one


def test_scaling_binning_and_fixed_width_of_many_rows():
    scores = zoo.columns(LARGE)["two decimals"]
    labels = np.random.default_rng(0).integers(0, 2, LARGE)
    cells = fb.fit_fixed_width(scores, labels, 10)
    bins = np.searchsorted(np.arange(1, 10) / 10, scores, side="right")
    same(cells.counts, np.bincount(bins, minlength=10))
    same(cells.positives, np.bincount(bins, labels, minlength=10).astype(np.int64))
    binned = fb.fit_scaling_binning(scores, labels, 20)
    assigned = binned.assign(scores)
    close = np.bincount(assigned, scores, minlength=20) / np.bincount(assigned, minlength=20)
    np.testing.assert_allclose(binned.values, close, atol=0.01)


# --- what all methods share ---------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["binary", "soft"])
def test_every_fit_survives_its_file_and_predicts(method, kind, tmp_path):
    scores = np.random.default_rng(0).integers(0, 40, 500) / 40
    labels = np.random.default_rng(1).integers(0, 2, 500)
    labels = labels if kind == "binary" else (labels + scores) / 2
    with unchanged(scores, labels):
        cal = fit_by_name(method, scores, labels, 7)
    cal.save(tmp_path / "model.json")
    again = fb.load(tmp_path / "model.json")
    assert again == cal
    values = again.predict(scores, row_ids=np.arange(500))
    np.testing.assert_array_equal(values, ref.predict_reference(cal, scores, np.arange(500)))
    assert np.unique(cal.values).size == cal.n_bins
    assert method.split("_original")[0] in str(cal)
    assert isinstance(str(cal.guarantee()), str)


@pytest.mark.parametrize("method", METHODS)
def test_labels_of_any_code(method):
    scores = np.random.default_rng(0).random(300)
    labels = scores > np.random.default_rng(1).random(300)
    want = fit_by_name(method, scores, labels)
    words = np.where(labels, "fraud", "fine")
    for coded, positive in (
        (words, "fraud"),
        (words.tolist(), "fraud"),
        (words.astype(object), "fraud"),
        (labels * 2 - 1, 1),
    ):
        assert fit_by_name(method, scores, coded, positive=positive) == want


def test_a_positive_code_that_no_label_has_is_refused():
    with refuses("positive", "'yes'", "'no'"):
        fb.fit_uniform_mass([0.1, 0.2, 0.3], ["no", "no", "no"], 1, positive="yes")


@pytest.mark.parametrize("labels", [["a", None, "b"], [1.0, np.nan, 0.0]])
def test_missing_labels_are_not_taken_for_negatives(labels):
    with refuses("labels", "missing", "row 1"):
        fb.fit_uniform_mass([0.1, 0.2, 0.3], labels, 1, positive=labels[0])


@pytest.mark.parametrize("method", METHODS)
def test_bad_rows_are_named_by_their_position(method):
    scores = np.random.default_rng(0).random(200)
    labels = (scores > 0.5).astype(float)
    holes = scores.copy()
    holes[[17, 150]] = np.nan
    with refuses("scores", "2 NaN", "row 17"):
        fit_by_name(method, holes, labels)
    wrong = labels.copy()
    wrong[42] = 2
    with refuses("labels", "1 value", "2.0", "row 42"):
        fit_by_name(method, scores, wrong)


@pytest.mark.parametrize("method", ["fixed_width", "scaling_binning"])
def test_scores_outside_the_unit_interval_are_refused_where_they_mean_nothing(method):
    with refuses("scores", "2 outside", "-0.5 at row 1", r"\[0, 1\]"):
        fit_by_name(method, [0.2, -0.5, 1.5, 0.3], [0, 1, 1, 0], 1)


# --- n_bins="auto" ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "bins"), [(1, 1), (50, 1), (1000, 6), (5000, 17), (27_000, 30)])
def test_auto_is_the_smaller_of_the_cube_root_and_what_the_bound_allows(n, bins):
    scores = np.random.default_rng(0).random(n)
    cal = fb.fit(scores, scores > 0.5)
    most = fb.bounds.max_bins(n, 0.1, 0.1)
    assert cal.n_bins == bins == max(1, min(int(n ** (1 / 3) + 1e-9), most))
    assert cal.note.startswith(f"n_bins = {bins}: ")
    assert cal.note in str(cal)
    assert fb.Calibrator.from_dict(cal.to_dict()).note == cal.note


def test_fit_passes_its_options_on():
    scores = np.random.default_rng(0).random(400)
    labels = scores > 0.4
    assert fb.fit(scores, labels, "sample_split", 4, split=0.25, rng=3) == fb.fit_sample_split(
        scores, labels, 4, split=0.25, rng=3
    )
    assert fb.fit(scores, labels, "uniform_mass_original", 4) == fb.fit_uniform_mass(
        scores, labels, 4, boundary_points="include"
    )
    with refuses("method", "'magic'", "uniform_mass"):
        fb.fit(scores, labels, "magic")
    with refuses("n_bins", "isotonic"):
        fb.fit(scores, labels, "isotonic", 5)
    with refuses("n_bins", "'many'"):
        fb.fit(scores, labels, n_bins="many")


# --- empty bins ---------------------------------------------------------------------------------------


def test_empty_cells_by_each_rule():
    scores, labels = [0.05, 0.06, 0.95], [0, 1, 1]
    assert fb.fit_fixed_width(scores, labels, 4).values.tolist() == [0.5, 0.375, 0.625, 1.0]
    nearest = fb.fit_fixed_width(scores, labels, 4, empty="nearest").values
    np.testing.assert_allclose(nearest, [0.5, 0.5, 1.0, 1.0], atol=1e-15)
    assert np.unique(nearest).size == 4
    with refuses("empty", "2 empty of 4", "cell 2"):
        fb.fit_fixed_width(scores, labels, 4, empty="raise")
    with refuses("empty", "'zero'"):
        fb.fit_fixed_width(scores, labels, 4, empty="zero")


def test_an_empty_bin_of_a_split_has_the_overall_mean_and_no_guarantee():
    scores, labels = np.linspace(0, 1, 60), np.arange(60) % 3 == 0
    cal = fb.fit_sample_split(scores, labels, 20, split=0.9, rng=1)
    empty = cal.counts == 0
    assert empty.any()
    overall = cal.positives.sum() / cal.counts.sum()
    np.testing.assert_allclose(cal.values[empty], overall, atol=1e-14)
    g = cal.guarantee(0.1)
    assert np.isnan(g.per_bin[empty]).all()
    assert np.isfinite(g.per_bin[~empty]).all()
    assert g.to_dict()["per_bin"][int(np.flatnonzero(empty)[0])] is None
    assert "not empty" in g.reason
    assert "(empty)" in cal.summary()


# --- guarantees: the numbers --------------------------------------------------------------------------


def test_what_a_sample_split_promises():
    scores, labels = labelled(2000)
    cal = fb.fit_sample_split(scores, labels, 10, rng=5)
    g, counts = cal.guarantee(0.1), cal.counts
    assert g.conditional == fb.bounds.simultaneous_epsilon(counts, 0.1)
    gaps = np.diff(fb.boundary_ranks(1000, 10))
    assert g.marginal == fb.bounds.weighted_epsilon(counts, (gaps + counts) / 2001, 0.1)
    assert g.expected_ece is None
    beforehand = cal.guarantee(0.1, method="a_priori")
    assert beforehand.conditional == fb.bounds.sample_split_epsilon(1000, 1000, 10, 0.1, kind="conditional")
    for kind in ("conditional", "marginal"):
        epsilon = getattr(beforehand, kind)
        failure = fb.bounds.sample_split_failure(1000, 1000, 10, epsilon, kind=kind)
        assert (
            failure <= 0.1 < fb.bounds.sample_split_failure(1000, 1000, 10, epsilon * (1 - 1e-9), kind=kind)
        )


def test_what_fixed_cells_promise():
    scores = np.random.default_rng(0).beta(2, 8, 3000)
    labels = np.random.default_rng(1).random(3000) < scores
    cal = fb.fit_fixed_width(scores, labels, 10)
    g, filled = cal.guarantee(0.1), cal.counts > 0
    assert g.conditional == g.marginal == fb.bounds.simultaneous_epsilon(cal.counts[filled], 0.1)
    assert g.expected_ece is None
    lower, upper = cal.intervals(0.1)
    level = 1 - 0.9 ** (1 / filled.sum())
    low, high = fb.bounds.clopper_pearson(cal.positives[filled], cal.counts[filled], level)
    np.testing.assert_allclose(lower[filled], low, rtol=1e-12)
    np.testing.assert_allclose(upper[filled], high, rtol=1e-12)


def test_what_isotonic_blocks_promise():
    scores = np.random.default_rng(0).random(2000)
    labels = np.random.default_rng(1).random(2000) < scores
    cal = fb.fit_isotonic(scores, labels)
    g = cal.guarantee(0.1)
    want = fb.bounds.all_intervals_epsilon(cal.counts, 2000, 0.1 * 1023 / 1024, method="exact")
    np.testing.assert_allclose(g.per_bin, np.minimum(want, 1), rtol=1e-12)
    assert (g.per_bin[cal.counts == 1] == 1).all()
    assert g.conditional == g.marginal == g.per_bin.max()
    assert g.expected_ece is None
    tied = fb.fit_isotonic(scores.round(2), labels).guarantee(0.1, method="hoeffding")
    assert "tied" in tied.reason
    assert "only one calibration row" in str(tied)


def test_scaling_binning_promises_nothing_and_certifies_what_it_saw():
    scores = np.random.default_rng(0).random(3000)
    cal = fb.fit_scaling_binning(scores, np.random.default_rng(1).random(3000) < scores**2, 10)
    g = cal.guarantee()
    assert (g.holds, g.conditional, g.marginal, g.expected_ece, g.per_bin) == (False, None, None, None, None)
    assert "certificate" in str(g)
    lower, upper = cal.intervals(0.1)
    same(cal.certificate(0.1), np.maximum(cal.values - lower, upper - cal.values))
    same(
        lower,
        fb.fit_uniform_mass(scores, np.random.default_rng(1).random(3000) < scores**2, 10).intervals(0.1)[0],
    )


@pytest.mark.parametrize("method", METHODS)
def test_soft_labels_get_hoeffding_and_the_reason_why_not_more(method):
    scores = np.random.default_rng(0).random(600)
    cal = fit_by_name(method, scores, scores / 2)
    g = cal.guarantee(0.1)
    if method == "scaling_binning":
        assert not g.holds
        return
    assert g.method == "hoeffding"
    assert np.isfinite(g.conditional)
    exact = cal.guarantee(0.1, method="exact")
    assert not exact.holds
    assert "0/1 labels" in exact.reason


@pytest.mark.parametrize(
    ("method", "asked"), [("isotonic", "paper"), ("fixed_width", "a_priori"), ("sample_split", "paper")]
)
def test_a_method_that_is_no_theorem_for_this_fit_is_refused(method, asked):
    scores = np.random.default_rng(0).random(200)
    with refuses("method", repr(asked)):
        fit_by_name(method, scores, scores > 0.5).guarantee(method=asked)


def test_the_authors_groups_are_covered_by_corollary_1():
    scores, labels = labelled(1003)
    cal = fb.fit_uniform_mass(scores, labels, 10, compat="authors")
    g = cal.guarantee(0.1)
    want = fb.bounds.simultaneous_epsilon(cal.interior_counts, 0.1) + 1 / 100
    assert g.conditional == pytest.approx(want, rel=1e-12)
    with refuses("compat", "boundary_points"):
        fb.fit_uniform_mass(scores, labels, 10, compat="authors", boundary_points="include")
    with refuses("compat", "'theirs'"):
        fb.fit_uniform_mass(scores, labels, 10, compat="theirs")
    with refuses("n_bins=4", "n = 3"):
        fb.fit_uniform_mass([1, 2, 3], [0, 1, 0], 4, compat="authors")


# --- guarantees: do they hold? ------------------------------------------------------------------------


def failures(law_name, n, n_replicates, fit, truth):
    """In how many fits some bin is off by more than its own epsilon."""
    failed = 0
    for scores, labels, seed in harness.replicates(
        zoo.ALL[law_name], n, n_replicates, [n, *law_name.encode()]
    ):
        cal = fit(scores, labels, seed)
        masses, means = truth(zoo.ALL[law_name], cal)
        bound = cal.guarantee(0.1).per_bin
        seen = (masses > 0) & ~np.isnan(bound)
        failed += bool((np.abs(cal.values - means) > bound)[seen].any())
    return np.arange(n_replicates) < failed


def keyed(law, cal):
    return law.truth(cal.edges, cal.edge_keys)


@pytest.mark.statistical
@pytest.mark.parametrize("law_name", ["D2", "D7", "D8", "D11"])
def test_sample_split_keeps_its_promise(law_name):
    def fit(scores, labels, seed):
        return fb.fit_sample_split(scores, labels, 5, rng=seed)

    harness.assert_claim_holds(failures(law_name, 400, 1000, fit, keyed), 0.1)


@pytest.mark.statistical
@pytest.mark.parametrize("law_name", ["D2", "D7", "D8"])
def test_fixed_cells_keep_their_promise(law_name):
    harness.assert_claim_holds(
        failures(law_name, 300, 1000, lambda s, y, seed: fb.fit_fixed_width(s, y, 8), keyed), 0.1
    )


@pytest.mark.statistical
@pytest.mark.parametrize("law_name", ["D2", "D7", "D8", "D10"])
def test_isotonic_blocks_keep_their_promise(law_name):
    harness.assert_claim_holds(
        failures(law_name, 400, 500, lambda s, y, seed: fb.fit_isotonic(s, y), keyed), 0.1
    )


@pytest.mark.statistical
@pytest.mark.parametrize("law_name", ["D2", "D7", "D8", "D11"])
@pytest.mark.parametrize("rule", [{"rule": "monotone"}, {"rule": "prune", "n_bins": 4}, {"rule": "equal"}])
def test_merged_bins_keep_their_promise(law_name, rule):
    def fit(scores, labels, seed):
        return fb.fit_uniform_mass(scores, labels, 15, rng=seed).merge_adjacent(**rule)

    harness.assert_claim_holds(failures(law_name, 400, 500, fit, keyed), 0.1)


@pytest.mark.statistical
def test_isotonic_blocks_break_the_promise_of_uniform_mass():
    """NC6: Theorem 1's epsilon with the number of blocks in place of the number of bins."""
    flat, n = zoo.ALL["D5"], 400
    broken = []
    for scores, labels, _ in harness.replicates(flat, n, 300, 6):
        cal = fb.fit_isotonic(scores, labels)
        _, means = flat.truth(cal.edges, cal.edge_keys)
        broken.append((np.abs(cal.values - means) > harness.theorem_1_epsilon(n, cal.n_bins, 0.1)).any())
    harness.assert_claim_is_rejected(np.array(broken), 0.1)


# --- merging ------------------------------------------------------------------------------------------


def test_a_merged_bin_averages_everything_between_its_outer_cuts():
    scores, labels = labelled(300, seed=3)
    base = fb.fit_uniform_mass(scores, labels, 30)
    order = np.argsort(scores)
    for rule in ({"rule": "monotone"}, {"rule": "prune", "n_bins": 7}, {"rule": "equal"}):
        cal = base.merge_adjacent(**rule)
        ranks = np.searchsorted(np.sort(scores), cal.edges) + 1
        inside = [labels[order][a : b - 1] for a, b in zip([0, *ranks], [*ranks, 301], strict=True)]
        assert cal.counts.tolist() == [part.size for part in inside]
        assert cal.positives.tolist() == [int(part.sum()) for part in inside]
        np.testing.assert_allclose(cal.values, [part.mean() for part in inside], atol=1e-13)
        assert cal.base_bins == 30
        want = fb.bounds.merge_epsilon(cal.counts, 30, 0.1, method="exact")
        np.testing.assert_allclose(cal.guarantee(0.1).per_bin, want, rtol=1e-12)
        assert fb.Calibrator.from_dict(cal.to_dict()) == cal
        assert "merged from 30" in str(cal)


@law
@given(data(labels=st.one_of(st.integers(0, 1), soft)))
def test_merging_for_order_gives_rising_values(case):
    scores, labels, n_bins = case
    cal = fb.fit_uniform_mass(scores, labels, n_bins).merge_adjacent()
    assert (np.diff(cal.values) > 0).all()
    assert set(cal.edges) <= set(scores)
    pruned = fb.fit_uniform_mass(scores, labels, n_bins).merge_adjacent("prune", n_bins=1)
    assert pruned.counts.tolist() == [len(scores)]
    assert pruned.values[0] == fb.fit_uniform_mass(scores, labels, 1).values[0] or np.any(
        np.array(labels) % 1
    )


def test_merging_needs_bins_that_no_label_chose():
    scores, labels = labelled(300)
    merged = fb.fit_uniform_mass(scores, labels, 10).merge_adjacent("prune", n_bins=5)
    for cal in (merged, fb.fit_isotonic(scores, labels)):
        with refuses("merge_adjacent", "original fit"):
            cal.merge_adjacent()
    with refuses("n_bins", "prune"):
        fb.fit_uniform_mass(scores, labels, 10).merge_adjacent(n_bins=5)
    with refuses("n_bins", "prune"):
        fb.fit_uniform_mass(scores, labels, 10).merge_adjacent("prune")
    with refuses("rule", "'all'"):
        fb.fit_uniform_mass(scores, labels, 10).merge_adjacent("all")


def test_empty_cells_can_be_merged_away():
    cal = fb.fit_fixed_width([0.05, 0.06, 0.95], [0, 1, 1], 10)
    assert cal.merge_adjacent().counts.tolist() == [2, 1]
    assert cal.merge_adjacent("prune", n_bins=10).counts.tolist() == cal.counts.tolist()
    assert np.isfinite(cal.merge_adjacent("prune", n_bins=3).guarantee().conditional)


@pytest.mark.statistical
def test_merged_groups_without_their_inner_cuts_are_no_sample_of_the_group():
    """NC16: the rows at the inner cuts are part of the group; leaving them out shows in the label PIT."""
    n, n_replicates = 11, 200 if NO_JIT else 20_000
    law_ = zoo.ALL["D4"]
    pits = {True: [], False: []}
    rng = np.random.default_rng(16)
    for scores, labels, seed in harness.replicates(law_, n, n_replicates, 16):
        cal = fb.fit_uniform_mass(scores, labels, 4, rng=seed)
        inner = [cal.interior_positives[:2].sum(), cal.interior_counts[:2].sum()]
        w, g = law_.below(cal.edges[1:2], cal.edge_keys[1:2].astype(float) * 2.0**-64)
        mean = float((g / w)[0])
        for kept in (True, False):
            k, m = inner[0] + kept * cal.edge_labels[0], inner[1] + kept
            pits[kept].append((k, m, mean))
    p_values = {}
    for kept, rows in pits.items():
        k, m, p = np.array(rows).T
        uniform = harness.label_pit(k[:, None], m[:, None], p[:, None], seed=int(rng.integers(99)))
        p_values[kept] = harness.stats.kstest(uniform[:, 0], "uniform").pvalue
    assert p_values[True] > 1e-6
    assert p_values[False] < 1e-6


# --- peers' bugs (field, section 2), one test each ------------------------------------------------------


def test_a_score_of_zero_is_not_dropped_as_in_calzone():
    cal = fb.fit_fixed_width([0.0] * 50 + [0.5] * 50, [0] * 50 + [1] * 50, 10)
    assert cal.counts[0] == 50
    assert cal.counts.sum() == 100


def test_a_score_of_one_is_in_the_last_cell_not_in_a_phantom_one_as_in_torchmetrics_and_relplot():
    cal = fb.fit_fixed_width([0.95, 1.0, 1.0], [0, 1, 1], 10)
    assert cal.counts.tolist() == [0] * 9 + [3]
    assert cal.assign([1.0]).tolist() == [9]


def test_cells_do_not_begin_at_a_rounded_product_as_in_relplot():
    """floor(0.3 / 0.1) = 2, floor(0.6 / 0.1) = 5, floor(0.7 / 0.1) = 6."""
    cal = fb.fit_fixed_width([0.3, 0.6, 0.7], [1, 1, 1], 10)
    assert np.flatnonzero(cal.counts).tolist() == [3, 6, 7]


def test_ties_do_not_shrink_the_number_of_bins_as_in_uncertainty_calibration_and_scikit_learn():
    scores = np.r_[np.zeros(900), np.linspace(0.1, 1, 100)]
    cal = fb.fit_uniform_mass(scores, np.arange(1000) % 2, 10)
    assert cal.n_bins == 10
    assert cal.interior_counts.min() >= 99


def test_scores_above_one_are_refused_and_not_clipped_as_in_netcal():
    with refuses("scores", r"\[0, 1\]", "1.5"):
        fb.fit_fixed_width([0.5, 1.5], [0, 1], 2)


def test_empty_cells_follow_one_rule_and_not_four():
    cal = fb.fit_fixed_width([0.1, 0.9], [0, 1], 4)
    assert cal.values.tolist() == [0.0, 0.375, 0.625, 1.0]
    assert np.isfinite(cal.predict([0.3, 0.6])).all()


def test_close_float32_scores_are_not_merged_as_in_scikit_learn():
    scores = np.array([1e-8, 1e-7, 2e-7, 9e-7], np.float32)
    cal = fb.fit_isotonic(scores, [0, 0, 1, 1])
    assert cal.predict(scores).tolist() == [0, 0, 1, 1]


def test_identical_scores_do_not_crash_as_in_betacal():
    for method in METHODS:
        cal = fit_by_name(method, np.full(50, 0.5), np.arange(50) % 2, 3)
        assert ((cal.values >= 0) & (cal.values <= 1)).all()


def test_as_many_predictions_as_bins_not_one_more_as_in_pycalib():
    cal = fb.fit_uniform_mass(np.arange(25) / 25, np.arange(25) % 2, 10)
    assert cal.values.size == cal.n_bins == 10
    assert np.unique(cal.assign(np.arange(25) / 25, row_ids=np.arange(25))).size == 10


def test_a_nan_is_an_error_and_not_the_lowest_bin_as_in_the_authors_code():
    with refuses("scores", "NaN", "row 1"):
        fb.fit_uniform_mass([0.1, np.nan, 0.3], [0, 1, 1], 1, compat="authors")


def test_quantile_cuts_of_unsorted_scores_as_in_mapie_are_no_concern():
    scores = np.random.default_rng(0).permutation(np.linspace(0, 1, 4000))
    assert np.ptp(fb.fit_uniform_mass(scores, scores > 0.5, 10).counts) <= 1
