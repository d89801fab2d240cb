"""assign and predict against the lexicographic definition, bit for bit."""

import warnings

import numpy as np
import pytest

import fastbin as fb
import reference as ref
import zoo
from fastbin._lookup import SMALL_BATCH
from sizes import LARGE, MEDIUM
from surgery import labelled, refuses, some_bins, unchanged, with_edge_keys

IDS = 10_000 + np.arange(5_000)


def probes(cal, scores):
    """Scores that matter: the data, the cuts, their neighbours, the ends of the line."""
    near = np.r_[cal.edges, np.nextafter(cal.edges, np.inf), np.nextafter(cal.edges, -np.inf)]
    return np.r_[scores, near, -np.inf, -1e308, -5e-324, -0.0, 0.0, 5e-324, 1.0, 1e308, np.inf]


@pytest.mark.parametrize("distinct", [1, 2, 5, 50, None])
@pytest.mark.parametrize("n", [1, 3, 20, 200])
def test_assign_counts_the_cuts_at_or_below_the_key(n, distinct):
    scores, labels = labelled(n, distinct)
    for n_bins in some_bins(n):
        cal = fb.fit_uniform_mass(scores, labels, n_bins, rng=1)
        points = probes(cal, scores)
        ids = IDS[: len(points)]
        want = ref.assign_reference(cal, points, ids)
        got = cal.assign(points, row_ids=ids)
        assert got.dtype == np.int64
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(ref.bits(cal.predict(points, row_ids=ids)), ref.bits(cal.values[want]))


# Interpreted, the kernel's inf * 0 warns; it means "one cell", and the comparisons that follow decide.
@pytest.mark.filterwarnings("ignore:invalid value encountered in scalar multiply:RuntimeWarning")
@pytest.mark.parametrize("name", zoo.COLUMN_NAMES)
@pytest.mark.parametrize("n_bins", [1, 2, 40, 1000])
def test_assign_on_awkward_cuts(name, n_bins):
    n = 2 * 1000 if n_bins == 1000 else 150
    scores = zoo.columns(n)[name]
    labels = np.random.default_rng(0).integers(0, 2, n)
    cal = fb.fit_uniform_mass(scores, labels, n_bins)
    points = probes(cal, scores[:200])
    np.testing.assert_array_equal(
        cal.assign(points, row_ids=np.arange(len(points))), ref.assign_vectorised(cal, points)
    )


@pytest.mark.parametrize("name", ["uniform", "two decimals", "logits", "exponents", "saturated", "all equal"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_assign_of_many_rows(name, dtype):
    scores = zoo.columns(LARGE)[name].astype(dtype)
    labels = np.random.default_rng(0).integers(0, 2, LARGE)
    cal = fb.fit_uniform_mass(scores, labels, 100)
    want = ref.assign_vectorised(cal, scores)
    np.testing.assert_array_equal(cal.assign(scores), want)
    np.testing.assert_array_equal(ref.bits(cal.predict(scores)), ref.bits(cal.values[want]))


@pytest.mark.parametrize("threads", [1, 2, 3, 7, None])
def test_threads_change_no_prediction(threads):
    scores, labels = labelled(MEDIUM, 200)
    cal = fb.fit_uniform_mass(scores, labels, 60)
    want = ref.assign_vectorised(cal, scores)
    np.testing.assert_array_equal(cal.assign(scores, threads=threads), want)
    np.testing.assert_array_equal(cal.predict(scores, threads=threads), cal.values[want])


@pytest.mark.parametrize("piece", [1, 7, 999, 1000, 4096])
def test_pieces_with_row_ids_equal_the_whole(piece):
    n = min(MEDIUM, 5_000)
    scores, labels = labelled(n, 20)
    cal = fb.fit_uniform_mass(scores, labels, 15)
    ids = np.arange(n) * 7 - 3
    step = piece if n // piece < 2000 else n // 2000
    whole = cal.predict(scores, row_ids=ids)
    pieces = [cal.predict(scores[i : i + step], row_ids=ids[i : i + step]) for i in range(0, n, step)]
    np.testing.assert_array_equal(np.concatenate(pieces), whole)


def test_keys_drawn_for_ties_only_are_the_keys_drawn_for_all():
    """T13: the answer for a tied row does not depend on which other rows are tied."""
    scores, labels = labelled(2_000, 10)
    cal = fb.fit_uniform_mass(scores, labels, 15)
    mixed = np.where(np.arange(2_000) % 2 == 0, scores, 123.0)
    np.testing.assert_array_equal(cal.assign(mixed)[::2], cal.assign(scores)[::2])


def test_other_row_ids_or_another_rng_give_other_keys():
    cal = fb.fit_uniform_mass(np.zeros(99), np.arange(99) % 2, 2)
    zeros = np.zeros(2_000)
    base = cal.assign(zeros)
    assert (base != cal.assign(zeros, row_ids=2_000 + np.arange(2_000))).any()
    assert (base != cal.assign(zeros, rng=1)).any()
    np.testing.assert_array_equal(base, cal.assign(zeros, rng=cal.seed))
    np.testing.assert_array_equal(cal.assign(zeros, rng=7), ref.assign_vectorised(cal, zeros, seed=7))
    np.testing.assert_array_equal(
        cal.assign(zeros, rng=np.random.default_rng(3)), cal.assign(zeros, rng=np.random.default_rng(3))
    )


def test_fit_and_predict_keys_come_from_different_streams():
    """Same seed, same positions: yet test keys are not the calibration keys."""
    cal = fb.fit_uniform_mass(np.zeros(1_999), np.arange(1_999) % 2, 1_000)
    assert not np.isin(ref.keys_vectorised(cal.seed, np.arange(5_000)), cal.edge_keys).any()


@pytest.mark.parametrize("n", [1_500, 5_000])
@pytest.mark.parametrize("key", [0, 1, 2**63, 2**64 - 1, "of a row"])
def test_a_key_equal_to_the_cut_goes_up(key, n):
    ids = np.arange(n)
    keys = ref.keys_vectorised(0, ids)
    key = keys[777] if key == "of a row" else np.uint64(key)
    cal = with_edge_keys(fb.fit_uniform_mass([0.5] * 5, [0, 1, 0, 1, 0], 2), [key])
    np.testing.assert_array_equal(cal.assign(np.full(n, 0.5), row_ids=ids), keys >= key)


def test_an_untied_cut_still_compares_keys_with_the_test_row():
    """edge_ties = 1: a test row at exactly that score is split by its key, too."""
    cal = fb.fit_uniform_mass([0.1, 0.2, 0.3], [0, 1, 1], 2)
    assert cal.edge_ties.tolist() == [1]
    at_cut = np.full(1_000, 0.2)
    got = cal.assign(at_cut)
    np.testing.assert_array_equal(got, ref.assign_vectorised(cal, at_cut))
    assert 0 < got.sum() < 1_000


# --- forms of input -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", ">f8", "int8", "int64", "uint8", "bool"])
def test_any_real_dtype_of_scores(dtype):
    scores = np.random.default_rng(0).integers(0, 2, 1_200).astype(dtype)
    cal = fb.fit_uniform_mass(scores, np.arange(1_200) % 2, 5)
    np.testing.assert_array_equal(cal.assign(scores), ref.assign_vectorised(cal, scores))


def test_float32_is_compared_after_exact_widening():
    """float32(0.1) is above float64 0.1: it must not count as equal to the cut."""
    cal = fb.fit_uniform_mass([0.0, 0.1, 0.2], [0, 1, 1], 2)
    assert cal.edges.tolist() == [0.1]
    narrow = np.full(1_000, 0.1, np.float32)
    assert (cal.assign(narrow) == 1).all()
    assert 0 < cal.assign(np.full(1_000, 0.1)).sum() < 1_000


@pytest.mark.parametrize("n_bins", [12, 300])
def test_many_float32_scores_beside_cuts_between_float32_numbers(n_bins):
    """The tables for float32 scores hold the cuts rounded up: several can become one, or be infinite."""
    narrow = np.array([-3e38, -1.0, -1e-45, 0.0, 1e-45, 0.1, 1.0, 16777216.0, 3e38], np.float32)
    wide = narrow.astype(np.float64)
    crowd = np.r_[wide, np.nextafter(wide, 9e99), np.nextafter(wide, -9e99), 1e39, 1e300, -1e39, np.inf]
    scores = np.concatenate([crowd + 0.0, np.linspace(0.1, 0.1 + 1e-8, 2 * n_bins), crowd])
    cal = fb.fit_uniform_mass(scores, np.arange(scores.size) % 2, n_bins)
    points = np.r_[narrow, np.nextafter(narrow, np.float32(9)), np.float32(-np.inf), np.float32(np.inf)]
    points = np.tile(points, 2 * SMALL_BATCH // points.size)
    assert points.dtype == np.float32
    assert points.size > SMALL_BATCH
    ids = np.arange(points.size)
    want = ref.assign_vectorised(cal, points.astype(np.float64))
    np.testing.assert_array_equal(cal.assign(points, row_ids=ids), want)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("n_bins", [20, 1500])
def test_ties_and_nans_beyond_one_list_of_tied_rows(dtype, n_bins):
    """The kernels stop where their list is full, and are called again from there."""
    n = 40_000
    scores = np.random.default_rng(0).integers(0, 5, n).astype(dtype)
    if n_bins == 1500:  # cuts that equal cells cannot part
        scores[::2] = np.geomspace(1e-30, 1e30, n // 2)
    cal = fb.fit_uniform_mass(scores, np.arange(n) % 2, n_bins)
    want = ref.assign_vectorised(cal, scores)
    np.testing.assert_array_equal(cal.assign(scores), want)
    holes = scores.copy()
    holes[5::1000] = np.nan
    got = cal.assign(holes, nan="propagate")
    np.testing.assert_array_equal(got[5::1000], -1)
    rest = ~np.isnan(holes)
    np.testing.assert_array_equal(got[rest], want[rest])
    with pytest.raises(ValueError, match="found 40 NaN, first at row 5"):
        cal.assign(holes)


@pytest.mark.parametrize(
    "form", [lambda a: a[::-1][::-1], lambda a: np.repeat(a, 2)[::2], lambda a: a.tolist(), np.asfortranarray]
)
def test_any_memory_layout_gives_the_same_prediction(form):
    scores, labels = labelled(1_200, 9)
    cal = fb.fit_uniform_mass(scores, labels, 6)
    odd = form(scores)
    with unchanged(odd):
        np.testing.assert_array_equal(cal.predict(odd), ref.predict_reference(cal, scores))


def test_read_only_scores_and_ids_are_enough():
    scores, labels = labelled(1_200, 9)
    ids = np.arange(1_200)
    scores.flags.writeable = ids.flags.writeable = False
    cal = fb.fit_uniform_mass(scores, labels, 6)
    np.testing.assert_array_equal(cal.assign(scores, row_ids=ids), ref.assign_vectorised(cal, scores))


def test_an_empty_batch_gives_empty_results():
    cal = fb.fit_uniform_mass([0.1, 0.2, 0.3], [0, 1, 1], 2)
    assert cal.predict(np.empty(0)).shape == cal.assign([]).shape == (0,)
    assert cal.predict([]).dtype == np.float64
    assert cal.assign([]).dtype == np.int64


# --- out= ---------------------------------------------------------------------------------------------


def test_out_receives_the_values_and_is_returned():
    scores, labels = labelled(1_500, 30)
    cal = fb.fit_uniform_mass(scores, labels, 7)
    out = np.full(1_500, np.nan)
    assert cal.predict(scores, out=out) is out
    np.testing.assert_array_equal(out, cal.predict(scores))


def test_out_in_float32_receives_rounded_values():
    scores, labels = labelled(1_500, 30)
    cal = fb.fit_uniform_mass(scores, labels, 7)
    out = np.empty(1_500, np.float32)
    cal.predict(scores, out=out)
    np.testing.assert_array_equal(out, cal.predict(scores).astype(np.float32))


@pytest.mark.parametrize("n", [1_500, MEDIUM])
@pytest.mark.parametrize("shift", [0, 1])
def test_out_that_overlaps_the_scores_is_refused_or_right(n, shift):
    """Silently wrong values are the one thing that must not happen."""
    scores, labels = labelled(n + 1, 30)
    cal = fb.fit_uniform_mass(scores, labels, 7)
    work = scores.copy()
    points, out = work[shift : n + shift], work[:n]
    want = cal.predict(points.copy())
    try:
        got = cal.predict(points, out=out)
    except ValueError as error:
        got, want = "out" in str(error), True
    np.testing.assert_array_equal(got, want)


# --- NaN ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 1_000, MEDIUM])
def test_nan_is_propagated_only_when_asked(n):
    scores, labels = labelled(100, 5)
    cal = fb.fit_uniform_mass(scores, labels, 4)
    batch = np.resize(scores, n)
    batch[n // 2] = np.nan
    with refuses("scores", "NaN", rf"\b{n // 2}\b", "propagate"):
        cal.predict(batch, row_ids=np.arange(n))
    with refuses("scores", "NaN", rf"\b{n // 2}\b", "propagate"):
        cal.assign(batch, row_ids=np.arange(n))
    values = cal.predict(batch, row_ids=np.arange(n), nan="propagate")
    bins = cal.assign(batch, row_ids=np.arange(n), nan="propagate")
    assert np.flatnonzero(np.isnan(values)).tolist() == np.flatnonzero(bins == -1).tolist() == [n // 2]
    fine = np.arange(n) != n // 2
    want = ref.assign_vectorised(cal, np.nan_to_num(batch))
    np.testing.assert_array_equal(bins[fine], want[fine])
    np.testing.assert_array_equal(values[fine], cal.values[want[fine]])


# --- the warning for small calls ----------------------------------------------------------------------


@pytest.fixture
def tied():
    """A cut inside an atom at 0.5 (edge_ties > 1)."""
    return fb.fit_uniform_mass([0.5] * 7 + [0.9] * 2, [0, 1, 0, 1, 0, 1, 0, 1, 1], 2)


@pytest.mark.parametrize("n", [1, 2, 999])
@pytest.mark.parametrize("method", ["predict", "assign"])
def test_a_small_call_at_a_tied_cut_warns_once_and_names_the_remedy(tied, n, method):
    with pytest.warns(fb.TieWarning, match="row_ids") as caught:
        getattr(tied, method)(np.full(n, 0.5))
    assert len(caught) == 1
    assert issubclass(fb.TieWarning, UserWarning)
    assert caught[0].filename == __file__


def test_the_warning_points_at_the_callers_line_in_predict_interval(tied):
    with pytest.warns(fb.TieWarning, match="row_ids") as caught:
        tied.predict_interval([0.5])
    assert [w.filename for w in caught] == [__file__]


@pytest.mark.parametrize(
    ("scores", "options"),
    [
        (np.full(1_000, 0.5), {}),
        (np.full(5, 0.5), {"row_ids": np.arange(5)}),
        (np.full(5, 0.5), {"rng": 3}),
        (np.full(5, 0.4), {}),
        (np.full(5, 0.9), {}),
        (np.empty(0), {}),
    ],
    ids=["1,000 rows", "row ids", "rng", "below the cut", "another atom", "empty"],
)
def test_no_warning_where_the_keys_are_fresh_or_not_looked_at(tied, scores, options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(tied.predict(scores, **options)) == len(scores)


def test_no_warning_at_an_untied_cut():
    cal = fb.fit_uniform_mass([0.1, 0.2, 0.3], [0, 1, 1], 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cal.assign([0.2]).shape == (1,)


# --- bin_index and bin_means --------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
@pytest.mark.parametrize("n_edges", [0, 1, 9, 300])
def test_bin_index_is_left_closed(dtype, n_edges):
    rng = np.random.default_rng(0)
    edges = np.sort(np.round(rng.normal(size=n_edges), 1))
    scores = np.r_[edges, np.nextafter(edges, 9), np.round(rng.normal(size=500), 1), -9.0, 9.0].astype(dtype)
    got = fb.bin_index(scores, edges)
    assert got.dtype == np.int64
    np.testing.assert_array_equal(got, np.searchsorted(edges, scores.astype(float), side="right"))


def test_bin_index_at_the_ends_of_the_line():
    edges = [-np.inf, -0.0, 1.0, np.inf]
    scores = [-np.inf, -1e308, -5e-324, -0.0, 0.0, 1.0, 1e308, np.inf]
    assert fb.bin_index(scores, edges).tolist() == [1, 1, 1, 2, 2, 3, 3, 4]


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_bin_index_of_many_rows(threads):
    scores = zoo.columns(LARGE)["two decimals"]
    edges = np.arange(1, 100) / 100
    np.testing.assert_array_equal(
        fb.bin_index(scores, edges, threads=threads), np.searchsorted(edges, scores, side="right")
    )


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize("dtype", ["bool", "int64", "float64"])
def test_bin_means_divides_sums_by_counts(dtype, threads):
    rng = np.random.default_rng(0)
    labels, bins = rng.integers(0, 2, MEDIUM).astype(dtype), rng.integers(0, 9, MEDIUM)
    means, counts = fb.bin_means(labels, bins, 11, threads=threads)
    assert counts.dtype == np.int64
    np.testing.assert_array_equal(counts, np.bincount(bins, minlength=11))
    np.testing.assert_array_equal(means[:9], np.bincount(bins, labels) / counts[:9])
    assert np.isnan(means[9:]).all()


def test_bin_means_of_soft_labels_does_not_depend_on_the_order():
    rng = np.random.default_rng(0)
    labels, bins = rng.random(3_000), rng.integers(0, 5, 3_000)
    turned = rng.permutation(3_000)
    means, _ = fb.bin_means(labels, bins, 5)
    np.testing.assert_array_equal(means, fb.bin_means(labels[turned], bins[turned], 5)[0])
    exact = [
        sum(ref.fixed_point(y, True) for y in labels[bins == b]) / (int((bins == b).sum()) << 62)
        for b in range(5)
    ]
    np.testing.assert_array_equal(means, exact)


@pytest.mark.parametrize(
    ("call", "parts"),
    [
        (lambda: fb.bin_index([0.1, np.nan], [0.5]), ("scores", "NaN", r"\b1\b")),
        (lambda: fb.bin_index([0.1], [0.5, 0.4]), ("edges", "order|sorted|decreas|ascend")),
        (lambda: fb.bin_index([0.1], [np.nan]), ("edges", "NaN")),
        (lambda: fb.bin_index([0.1], [[0.5]]), ("edges", "one-dimensional")),
        (lambda: fb.bin_means([0, 1], [0], 2), ("labels", "bins", "2", "1")),
        (lambda: fb.bin_means([0, 1], [0, 2], 2), ("bins", "2")),
        (lambda: fb.bin_means([0, 1], [0, -1], 2), ("bins", "-1")),
        (lambda: fb.bin_means([0, 2], [0, 1], 2), ("labels", r"\[0, 1\]")),
        (lambda: fb.bin_means([0, 1], [0, 1], 0), ("n_bins", "at least 1")),
    ],
)
def test_the_thin_functions_refuse_what_they_cannot_bin(call, parts):
    with refuses(*parts):
        call()
