"""tie_broken_argsort: the order of (score, key), and ties in uniformly random order."""

import itertools

import numpy as np
import pytest
from scipy import stats

import fastbin as fb
import reference as ref
import zoo
from sizes import LARGE
from surgery import labelled, refuses, unchanged


@pytest.mark.parametrize("distinct", [1, 2, 5, 50, None])
@pytest.mark.parametrize("n", [1, 2, 3, 17, 300])
def test_argsort_is_the_order_of_score_then_key(n, distinct):
    scores, _ = labelled(n, distinct)
    for seed in (0, 1, 2**64 - 1):
        got = fb.tie_broken_argsort(scores, rng=seed)
        assert got.dtype == np.int64
        np.testing.assert_array_equal(got, ref.argsort_reference(scores, seed))


@pytest.mark.parametrize("name", zoo.COLUMN_NAMES)
@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_argsort_of_many_awkward_scores_for_any_threads(name, threads):
    scores = zoo.columns(LARGE)[name]
    np.testing.assert_array_equal(
        fb.tie_broken_argsort(scores, threads=threads), ref.argsort_vectorised(scores)
    )


@pytest.mark.parametrize("dtype", ["float16", "float32", ">f8", "int8", "uint64", "bool"])
def test_argsort_of_any_real_dtype(dtype):
    scores = np.random.default_rng(0).integers(0, 9, 200).astype(dtype)
    with unchanged(scores):
        np.testing.assert_array_equal(fb.tie_broken_argsort(scores), ref.argsort_reference(scores))


def test_argsort_reads_views_lists_and_read_only_arrays():
    scores, _ = labelled(100, 9)
    want = ref.argsort_reference(scores)
    locked = scores.copy()
    locked.flags.writeable = False
    for form in (locked, np.repeat(scores, 2)[::2], scores[::-1].copy()[::-1], scores.tolist()):
        np.testing.assert_array_equal(fb.tie_broken_argsort(form), want)


def test_argsort_of_nothing_is_empty():
    got = fb.tie_broken_argsort([])
    assert (got.shape, got.dtype) == ((0,), np.int64)


def test_argsort_refuses_nan_by_row():
    with refuses("scores", "NaN", r"\b2\b", "row 1"):
        fb.tie_broken_argsort([0.5, np.nan, 0.1, np.nan])


@pytest.mark.parametrize("scores", [["a", "b"], [1j, 2j], [[0.1, 0.2]]])
def test_argsort_refuses_what_is_not_a_column_of_reals(scores):
    with refuses("scores", error=(TypeError, ValueError)):
        fb.tie_broken_argsort(scores)


@pytest.mark.statistical
def test_ties_come_in_uniformly_random_order():
    """All 24 orders of four tied rows are equally likely over the seeds."""
    orders = {order: i for i, order in enumerate(itertools.permutations(range(4)))}
    counts = np.zeros(24, int)
    for seed in range(20_000):
        counts[orders[tuple(fb.tie_broken_argsort(np.zeros(4), rng=seed, threads=1).tolist())]] += 1
    assert stats.chisquare(counts).pvalue >= 1e-6


@pytest.mark.parametrize("kind", sorted(zoo.columns(400, seed=3)))
def test_the_scattering_path_on_few_rows(kind, monkeypatch):
    """Scatter, sort and settle on rows that NumPy would sort, so that interpreted runs see it all too."""
    monkeypatch.setattr("fastbin.ordering.SMALL", 20)
    monkeypatch.setattr("fastbin.ordering.LONGEST_RUN", 3)
    scores = zoo.columns(400, seed=3)[kind]
    for threads in (1, 2):
        order = fb.tie_broken_argsort(scores, rng=9, threads=threads)
        np.testing.assert_array_equal(order, ref.argsort_vectorised(scores, 9))


@pytest.mark.parametrize("odd", [None, 0, 54_321, 69_999])
def test_argsort_of_scores_that_are_all_equal_or_nearly(odd):
    """A sample of them shows one score only: the one that differs must be seen all the same."""
    scores = np.full(70_000, 0.5)
    if odd is not None:
        scores[odd] = 0.25
    np.testing.assert_array_equal(fb.tie_broken_argsort(scores), ref.argsort_vectorised(scores))
    if odd is not None:
        scores[odd] = np.nan
        with refuses("scores", "NaN", f"row {odd}"):
            fb.tie_broken_argsort(scores)
