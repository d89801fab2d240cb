"""fit_uniform_mass and fit_counts against Algorithms 1 and 2, bit for bit."""

import numpy as np
import pytest

import fastbin as fb
import reference as ref
import zoo
from sizes import LARGE, MEDIUM, REPEATS
from surgery import labelled, some_bins, unchanged

SMALL_N = [1, 2, 3, 7, 8, 24, 39, 100, 300]
DISTINCT = [2, 5, 50, None]


# --- the oracles agree with each other ----------------------------------------------------------------


@pytest.mark.parametrize("distinct", DISTINCT)
@pytest.mark.parametrize("n", [1, 2, 9, 150])
def test_the_vectorised_oracle_is_the_literal_one(n, distinct):
    scores, labels = labelled(n, distinct)
    for n_bins in some_bins(n):
        literal = ref.algorithm_1(scores, labels, n_bins, seed=11)
        ref.assert_same_bits(ref.fit_vectorised(scores, labels, n_bins, seed=11), literal)
        points = np.r_[scores, np.nextafter(scores, np.inf)]
        np.testing.assert_array_equal(
            ref.assign_vectorised(literal, points), ref.assign_reference(literal, points)
        )
    np.testing.assert_array_equal(ref.argsort_vectorised(scores, 5), ref.argsort_reference(scores, 5))


# --- Algorithm 1 (T5) ---------------------------------------------------------------------------------


@pytest.mark.parametrize("distinct", DISTINCT)
@pytest.mark.parametrize("n", SMALL_N)
def test_fit_is_algorithm_1(n, distinct):
    for repeat in range(REPEATS):
        scores, labels = labelled(n, distinct, repeat)
        for n_bins in some_bins(n):
            cal = fb.fit_uniform_mass(scores, labels, n_bins, rng=repeat)
            ref.assert_same_bits(cal, ref.algorithm_1(scores, labels, n_bins, seed=repeat))


@pytest.mark.parametrize("n", range(1, 41))
def test_fit_is_algorithm_1_for_every_bin_count(n):
    scores, labels = labelled(n, 4)
    for n_bins in range(1, (n + 1) // 2 + 1):
        ref.assert_same_bits(
            fb.fit_uniform_mass(scores, labels, n_bins), ref.algorithm_1(scores, labels, n_bins)
        )


@pytest.mark.parametrize("distinct", DISTINCT)
@pytest.mark.parametrize("n", [3, 8, 39, 150])
def test_fit_with_boundary_points_is_the_original_method(n, distinct):
    scores, labels = labelled(n, distinct)
    for n_bins in some_bins(n):
        cal = fb.fit_uniform_mass(scores, labels, n_bins, boundary_points="include", rng=3)
        ref.assert_same_bits(cal, ref.algorithm_1(scores, labels, n_bins, 3, boundary_points="include"))
        assert cal.counts.sum() == n


@pytest.mark.parametrize("delta", [1e-20, 1e-10, 0.01, 0.5, 1.0, 10.0])
@pytest.mark.parametrize("distinct", [2, None])
def test_fit_with_delta_is_algorithm_2(delta, distinct):
    scores, labels = labelled(60, distinct)
    for n_bins in some_bins(60):
        cal = fb.fit_uniform_mass(scores, labels, n_bins, delta=delta, rng=9)
        ref.assert_same_bits(cal, ref.algorithm_2(scores, labels, n_bins, delta, seed=9))


@pytest.mark.parametrize("boundary_points", ["exclude", "include"])
@pytest.mark.parametrize("distinct", DISTINCT)
@pytest.mark.parametrize("n", [1, 5, 40, 120])
def test_fit_of_soft_labels_is_algorithm_1_in_exact_arithmetic(n, distinct, boundary_points):
    rng = np.random.default_rng(n)
    scores, _ = labelled(n, distinct)
    labels = rng.choice([0.0, 1.0, 0.1, 0.7, 1 / 3, rng.random()], n)
    labels[0] = 0.3
    for n_bins in some_bins(n):
        cal = fb.fit_uniform_mass(scores, labels, n_bins, boundary_points=boundary_points, rng=2)
        want = ref.algorithm_1(scores, labels, n_bins, 2, boundary_points=boundary_points)
        assert cal.positives.dtype == cal.interior_positives.dtype == np.float64
        ref.assert_same_bits(cal, want)


@pytest.mark.parametrize("distinct", [1, 3, None])
def test_soft_labels_of_every_size_keep_their_exact_sum(distinct):
    """Dyadic labels from 2^-62 to 1: a float sum in row order would lose the small ones."""
    rng = np.random.default_rng(1)
    n = 90
    scores, _ = labelled(n, distinct)
    labels = np.ldexp(1.0, -rng.integers(0, 63, n))
    cal = fb.fit_uniform_mass(scores, labels, 4)
    ref.assert_same_bits(cal, ref.algorithm_1(scores, labels, 4))
    turned = rng.permutation(n)
    assert fb.fit_uniform_mass(scores[turned], labels[turned], 4) == cal


@pytest.mark.parametrize("seed", [0, 1, 12345, 2**32, 2**63, 2**64 - 1])
def test_the_seed_is_the_integer_given(seed):
    scores, labels = labelled(50, 5)
    cal = fb.fit_uniform_mass(scores, labels, 6, rng=seed)
    assert cal.seed == seed
    ref.assert_same_bits(cal, ref.algorithm_1(scores, labels, 6, seed))


def test_a_generator_is_a_seed_and_none_is_fresh_entropy():
    scores, labels = labelled(50, 5)
    first, again = (fb.fit_uniform_mass(scores, labels, 6, rng=np.random.default_rng(4)) for _ in range(2))
    assert first == again
    fresh = {fb.fit_uniform_mass(scores, labels, 6, rng=None).seed for _ in range(4)}
    assert len(fresh) == 4
    generator = np.random.default_rng(4)
    seeds = {fb.fit_uniform_mass(scores, labels, 6, rng=generator).seed for _ in range(4)}
    assert len(seeds) == 4
    assert first.seed in seeds


def test_different_seeds_split_an_atom_differently():
    scores, labels = np.zeros(99), np.arange(99) % 2
    keys = {int(fb.fit_uniform_mass(scores, labels, 2, rng=seed).edge_keys[0]) for seed in range(20)}
    assert len(keys) == 20


def test_refits_of_one_atom_in_other_data_split_it_differently():
    """The stream is named by n and the counts, not by the score's bits."""
    keys = {int(fb.fit_uniform_mass(np.zeros(n), np.arange(n) % 2, 2).edge_keys[0]) for n in range(20, 40)}
    assert len(keys) == 20


# --- larger n, through the vectorised oracle ----------------------------------------------------------


@pytest.mark.parametrize("distinct", [2, 5, 50, 5000, None])
@pytest.mark.parametrize("n_bins", [1, 2, 10, 100, 1000])
def test_a_fit_of_many_rows_is_algorithm_1(distinct, n_bins):
    scores, labels = labelled(MEDIUM, distinct)
    n_bins = min(n_bins, MEDIUM // 4)
    ref.assert_same_bits(
        fb.fit_uniform_mass(scores, labels, n_bins), ref.fit_vectorised(scores, labels, n_bins)
    )


@pytest.mark.parametrize("name", zoo.COLUMN_NAMES)
def test_awkward_scores_are_fitted_exactly(name):
    scores = zoo.columns(301)[name]
    labels = np.random.default_rng(2).integers(0, 2, 301)
    for n_bins in (1, 10, 37, 151):
        ref.assert_same_bits(
            fb.fit_uniform_mass(scores, labels, n_bins), ref.fit_vectorised(scores, labels, n_bins)
        )


@pytest.mark.parametrize("name", zoo.COLUMN_NAMES)
def test_many_awkward_scores_are_fitted_exactly(name):
    scores = zoo.columns(LARGE)[name]
    labels = np.random.default_rng(3).integers(0, 2, LARGE).astype(bool)
    want = ref.fit_vectorised(scores, labels, 100)
    ref.assert_same_bits(fb.fit_uniform_mass(scores, labels, 100), want)


@pytest.mark.parametrize("distinct", [1, 7, None])
def test_as_many_bins_as_the_rows_allow(distinct):
    n = MEDIUM // 3
    scores, labels = labelled(n, distinct)
    n_bins = (n + 1) // 2
    ref.assert_same_bits(
        fb.fit_uniform_mass(scores, labels, n_bins), ref.fit_vectorised(scores, labels, n_bins)
    )


@pytest.mark.parametrize("decimals", [2, 17])
def test_many_soft_labels_sum_exactly(decimals):
    rng = np.random.default_rng(8)
    scores, labels = np.round(rng.random(MEDIUM // 3), decimals), rng.random(MEDIUM // 3)
    ref.assert_same_bits(fb.fit_uniform_mass(scores, labels, 20), ref.algorithm_1(scores, labels, 20))


# --- forms of input -----------------------------------------------------------------------------------

FORMS = {
    "read-only": lambda a: _locked(a),
    "strided": lambda a: np.repeat(a, 3)[::3],
    "reversed view": lambda a: a[::-1].copy()[::-1],
    "big-endian": lambda a: a.astype(a.dtype.newbyteorder(">")),
    "Fortran column": lambda a: np.asfortranarray(np.column_stack([a, a]))[:, 1],
    "C column": lambda a: np.column_stack([a, a])[:, 1],
    "unaligned": lambda a: _unaligned(a),
    "list": lambda a: a.tolist(),
    "tuple": lambda a: tuple(a.tolist()),
    "unmasked masked array": lambda a: np.ma.masked_array(a),
}


def _locked(a):
    a = a.copy()
    a.flags.writeable = False
    return a


def _unaligned(a):
    raw = np.zeros(a.nbytes + 1, np.uint8)
    view = raw[1:].view(a.dtype) if a.dtype.itemsize == 1 else np.frombuffer(raw, a.dtype, len(a), 1)
    view[:] = a
    return view


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_any_memory_layout_gives_the_same_fit(form, dtype):
    scores, labels = labelled(200, 50)
    scores = scores.astype(dtype)
    want = ref.algorithm_1(scores, labels, 7)
    odd_scores, odd_labels = FORMS[form](scores), FORMS[form](labels)
    ref.assert_same_bits(fb.fit_uniform_mass(odd_scores, labels, 7), want)
    ref.assert_same_bits(fb.fit_uniform_mass(scores, odd_labels, 7), want)
    with unchanged(odd_scores, odd_labels):
        ref.assert_same_bits(fb.fit_uniform_mass(odd_scores, odd_labels, 7), want)


@pytest.mark.parametrize("dtype", "float16 float32 float64 >f4 int8 int32 int64 uint8 uint64 bool".split())
def test_any_real_dtype_of_scores(dtype):
    rng = np.random.default_rng(5)
    scores, labels = (20 + 9 * rng.normal(size=120)).clip(0).astype(dtype), rng.integers(0, 2, 120)
    ref.assert_same_bits(fb.fit_uniform_mass(scores, labels, 6), ref.algorithm_1(scores, labels, 6))


@pytest.mark.parametrize(
    "dtype", "bool int8 uint8 int16 int32 int64 uint64 float16 float32 float64 >i4".split()
)
def test_any_dtype_of_labels(dtype):
    scores, labels = labelled(120, 5)
    cal = fb.fit_uniform_mass(scores, labels.astype(dtype), 6)
    assert cal.positives.dtype == cal.interior_positives.dtype == np.int64
    ref.assert_same_bits(cal, ref.algorithm_1(scores, labels, 6))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_soft_labels_are_widened_exactly(dtype):
    scores, _ = labelled(80, 5)
    labels = np.random.default_rng(0).random(80).astype(dtype)
    cal = fb.fit_uniform_mass(scores, labels, 6)
    ref.assert_same_bits(cal, ref.algorithm_1(scores, labels.astype(float), 6))
    assert cal == fb.fit_uniform_mass(scores, labels.astype(float), 6)


def test_results_have_the_documented_types_and_are_read_only():
    scores, labels = labelled(50, 5)
    cal = fb.fit_uniform_mass(scores, labels, 6)
    expected = {
        "edges": np.float64,
        "edge_keys": np.uint64,
        "edge_ties": np.int64,
        "values": np.float64,
        "counts": np.int64,
        "positives": np.int64,
        "interior_counts": np.int64,
        "interior_positives": np.int64,
    }
    for name, dtype in expected.items():
        array = getattr(cal, name)
        assert array.dtype == dtype, name
        assert not array.flags.writeable, name
    assert not cal.edge_labels.flags.writeable
    assert (cal.method, cal.n_samples, cal.n_bins) == ("uniform_mass", 50, 6)
    with pytest.raises(AttributeError):
        cal.n_bins = 7


# --- counts instead of rows ---------------------------------------------------------------------------


@pytest.mark.parametrize("distinct", [1, 2, 5, 50])
@pytest.mark.parametrize("n", [1, 3, 39, 200])
def test_fit_counts_is_the_fit_of_the_rows(n, distinct):
    scores, labels = labelled(n, distinct)
    values, inverse = np.unique(scores, return_inverse=True)
    totals = np.bincount(inverse)
    positives = np.bincount(inverse, labels).astype(np.int64)
    for n_bins in some_bins(n):
        cal = fb.fit_counts(values, positives, totals, n_bins, rng=6)
        assert cal == fb.fit_uniform_mass(scores, labels, n_bins, rng=6)


def test_fit_counts_takes_groups_in_any_order_split_or_empty():
    scores = np.array([0.5, 0.1, 0.5, 0.9, 0.2, -0.0, 0.0])
    positives, totals = np.array([1, 0, 2, 3, 0, 1, 2]), np.array([4, 3, 2, 5, 0, 2, 2])
    rows = np.repeat(scores, totals)
    labels = np.concatenate(
        [np.r_[np.ones(p), np.zeros(t - p)] for p, t in zip(positives, totals, strict=True)]
    )
    assert fb.fit_counts(scores, positives, totals, 4) == fb.fit_uniform_mass(rows, labels, 4)


def test_fit_counts_of_four_billion_rows_stays_exact():
    """Beyond 2^31 and 2^32 rows. The cut of rank 2*10^9 + 1 is the single row at 0.5."""
    half = 2_000_000_000
    cal = fb.fit_counts([0.1, 0.5, 0.9], [half // 4, 1, half // 2], [half, 1, half], 2)
    assert cal.n_samples == 2 * half + 1
    assert cal.edges.tolist() == [0.5]
    assert cal.edge_ties.tolist() == [1]
    assert cal.edge_labels.tolist() == [1]
    assert cal.counts.tolist() == [half, half]
    assert cal.positives.tolist() == [half // 4, half // 2]
    assert cal.values.tolist() == [0.25, 0.5]
    assert int(cal.edge_keys[0]) == ref.row_key(
        ref.stream(ref.ATOM, 0, 2 * half + 1, half, half // 4, 0, 1, 1, 0), 0
    )


def test_a_heavy_atom_with_many_cuts_is_split_by_its_canonical_keys():
    k = LARGE
    cal = fb.fit_counts([0.3], [k // 3], [k], 99)
    ref.assert_same_bits(cal, ref.fit_vectorised(np.full(k, 0.3), np.arange(k) < k // 3, 99))
