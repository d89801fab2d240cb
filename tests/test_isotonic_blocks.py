"""The blocks of isotonic regression, bit for bit those of plain pool-adjacent-violators on integers."""

import itertools
from fractions import Fraction
from math import gcd

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression

import zoo
from fastbin import _fixedpoint, _isotonic
from fastbin._isotonic import isotonic_blocks
from fastbin._kernels.pava import compare_means, pool_violators
from fastbin._kernels.ties import LIMB, LIMB_MASK
from sizes import LARGE, MEDIUM, NO_JIT
from surgery import labelled, refuses, unchanged

FIELDS = ("first_scores", "ties", "first_sums", "counts", "sums")
CASES = 3 if NO_JIT else 25


# --- the slow twin --------------------------------------------------------------------------------------


def tie_groups(scores, labels):
    """[(score, rows, label sum in units of the label words)] by ascending score, in Python numbers."""
    soft = not set(np.unique(labels).tolist()) <= {0, 1}
    unit = 2**62 if soft else 1
    groups = {}
    for score, label in zip(np.asarray(scores, float).tolist(), labels.tolist(), strict=True):
        rows, total = groups.get(score + 0.0, (0, 0))
        groups[score + 0.0] = rows + 1, total + int(Fraction(label) * unit)
    return sorted((score, *totals) for score, totals in groups.items()), soft


def pooled(groups):
    """Groups (..., rows, sum) as blocks (first group, rows, sum): pooled while the left mean is not below."""
    blocks = []
    for group in groups:
        blocks.append((group, *group[-2:]))
        while len(blocks) > 1 and blocks[-2][2] * blocks[-1][1] >= blocks[-1][2] * blocks[-2][1]:
            _, rows, total = blocks.pop()
            first, left_rows, left_total = blocks.pop()
            blocks.append((first, left_rows + rows, left_total + total))
    return blocks


def plain_blocks(scores, labels):
    groups, soft = tie_groups(scores, labels)
    return pooled(groups), soft


def min_max_values(scores, labels):
    """max over j <= i of min over k >= i of the mean of groups j .. k: the definition, in cubic time."""
    groups, soft = tie_groups(scores, labels)
    n = len(groups)

    def mean(j, k):
        rows, total = (sum(group[column] for group in groups[j : k + 1]) for column in (1, 2))
        return Fraction(total, rows * (2**62 if soft else 1))

    return [max(min(mean(j, k) for k in range(i, n)) for j in range(i + 1)) for i in range(n)]


def limbs(total, soft):
    return [total >> LIMB, total & LIMB_MASK] if soft else [total, 0]


def check(scores, labels, threads=1):
    """The engine's blocks, after they were found to be the twin's."""
    want, soft = plain_blocks(scores, labels)
    with unchanged(scores, labels):
        got = isotonic_blocks(scores, labels, threads)
    assert got.soft is soft
    assert got.first_scores.tolist() == [first[0] for first, _, _ in want]
    assert not (np.signbit(got.first_scores) & (got.first_scores == 0)).any()
    assert got.ties.tolist() == [first[1] for first, _, _ in want]
    assert got.first_sums.tolist() == [limbs(first[2], soft) for first, _, _ in want]
    assert got.counts.tolist() == [rows for _, rows, _ in want]
    assert got.sums.tolist() == [limbs(total, soft) for _, _, total in want]
    return got


def same(one, other):
    return one.soft == other.soft and all(
        getattr(one, name).tobytes() == getattr(other, name).tobytes() for name in FIELDS
    )


def values(blocks):
    return _fixedpoint.quotients(blocks.sums, blocks.counts, soft=blocks.soft)


def fitted(blocks, scores):
    """The step function at the scores: open below, closed above."""
    return values(blocks)[np.searchsorted(blocks.first_scores, scores, side="right") - 1]


def soft_labels(n, seed=0):
    """Fractions of all sizes, zeros and ones among them."""
    rng = np.random.default_rng([n, seed])
    kind = rng.integers(0, 5, n)
    fine = rng.random(n)
    return np.select([kind == 0, kind == 1, kind == 2, kind == 3], [0.0, 1.0, fine.round(1), fine**40], fine)


@pytest.fixture(params=["as it is", "cells", "cells and refinement"])
def route(request, monkeypatch):
    """Few rows go through what many would: histogram, refinement, gathering."""
    if request.param != "as it is":
        monkeypatch.setattr(_isotonic, "COLLECT_ROWS", 2)
        monkeypatch.setattr(_isotonic, "FEWEST_CELLS", 16)
        monkeypatch.setattr(_isotonic, "ARGSORT_ROWS", 50)
    if request.param == "cells and refinement":
        monkeypatch.setattr(_isotonic, "HEAVY_CELLS", 2)
        monkeypatch.setattr(_isotonic, "GATHER_ROWS", 0)
        monkeypatch.setattr(_isotonic, "ROWS_PER_GATHERED", 10**9)
    return request.param


# --- against the twin -----------------------------------------------------------------------------------


def test_the_twin_is_the_min_max_formula():
    for seed, distinct in itertools.product(range(8), (2, 5, None)):
        scores, labels = labelled(9, distinct, seed)
        for own_labels in (labels, soft_labels(9, seed)):
            blocks, soft = plain_blocks(scores, own_labels)
            means = [Fraction(total, rows * (2**62 if soft else 1)) for _, rows, total in blocks]
            firsts = [first[0] for first, _, _ in blocks]
            groups, _ = tie_groups(scores, own_labels)
            at_groups = [means[sum(first <= group[0] for first in firsts) - 1] for group in groups]
            assert at_groups == min_max_values(scores, own_labels)


@pytest.mark.parametrize("distinct", [2, 5, 50, None])
@pytest.mark.parametrize("n", [1, 2, 3, 17, 120])
def test_small_fits_are_the_twins(n, distinct, route):
    for seed in range(CASES):
        scores, labels = labelled(n, distinct, seed)
        check(scores, labels, threads=1 + seed % 3)
        check(scores, soft_labels(n, seed), threads=1 + seed % 3)


@pytest.mark.parametrize("name", zoo.COLUMN_NAMES)
def test_awkward_scores_by_every_route(name, route):
    scores = zoo.columns(400, seed=5)[name]
    rng = np.random.default_rng(8)
    rank = np.argsort(np.argsort(scores)) / scores.size
    for labels in (rng.random(400) < rank, rng.random(400) < 0.5, soft_labels(400), rank, rank > 0.6):
        check(scores, labels, threads=2)


@pytest.mark.parametrize("name", zoo.COLUMN_NAMES)
def test_many_awkward_scores(name):
    scores = zoo.columns(MEDIUM)[name]
    rng = np.random.default_rng(1)
    rank = np.argsort(np.argsort(scores)) / scores.size
    check(scores, (rng.random(MEDIUM) < rank).astype(np.int8), threads=2)
    check(scores, rng.random(MEDIUM).astype(np.float32) * rank, threads=2)


@pytest.mark.parametrize("slope", [0.0, 0.01, 1.0, -1.0])
@pytest.mark.parametrize("decimals", [None, 4, 2])
def test_many_rows_with_labels_that_rise_or_fall(slope, decimals):
    rng = np.random.default_rng(2)
    scores = rng.random(LARGE) if decimals is None else rng.random(LARGE).round(decimals)
    labels = rng.random(LARGE) < 0.5 + slope * (scores - 0.5)
    blocks = check(scores, labels, threads=2)
    assert (np.diff(values(blocks)) > 0).all()


@pytest.mark.parametrize(("decimals", "most"), [(None, 0.4), (1, 0.0)])
@pytest.mark.parametrize("soft", [False, True])
def test_rows_that_cells_keep_together_are_not_gathered(decimals, most, soft, monkeypatch):
    """The engine's point: of the rows of a usual fit, few are ordered."""
    gathered = []
    monkeypatch.setattr(
        _isotonic,
        "_tie_groups",
        lambda pool, *a, f=_isotonic._tie_groups, **k: gathered.append(pool) or f(pool, *a, **k),
    )
    monkeypatch.setattr(_isotonic, "COLLECT_ROWS", 1000)
    monkeypatch.setattr(_isotonic, "FEWEST_CELLS", 256)
    monkeypatch.setattr(_isotonic, "GATHER_ROWS", 0)
    n = 20_000 if NO_JIT else LARGE
    rng = np.random.default_rng(3)
    scores = rng.random(n) if decimals is None else rng.random(n).round(decimals)
    labels = rng.random(n) < 0.4 + 0.2 * scores
    check(scores, np.where(labels, 1.0, 2.0**-20) if soft else labels)
    assert [pool.keys.size <= n * most for pool in gathered] == [True]


# --- against scikit-learn -------------------------------------------------------------------------------


@pytest.mark.parametrize("decimals", [None, 3, 1])
@pytest.mark.parametrize("soft", [False, True])
def test_scikit_learns_values_at_the_calibration_points(decimals, soft):
    rng = np.random.default_rng(4)
    n = MEDIUM
    scores = rng.normal(size=n) if decimals is None else rng.normal(size=n).round(decimals)
    chance = 1 / (1 + np.exp(-scores))
    labels = (
        np.clip(chance + 0.3 * rng.normal(size=n), 0, 1) if soft else (rng.random(n) < chance).astype(float)
    )
    theirs = IsotonicRegression().fit(scores, labels).predict(scores)
    np.testing.assert_allclose(fitted(isotonic_blocks(scores, labels, 2), scores), theirs, rtol=0, atol=1e-12)


def test_float32_scores_that_scikit_learn_merges_stay_apart():
    scores = np.array([1e-8, 2e-8], np.float32)
    labels = np.array([0.0, 1.0])
    assert IsotonicRegression().fit(scores, labels).predict(scores).tolist() == [0.5, 0.5]
    assert fitted(check(scores, labels), scores).tolist() == [0.0, 1.0]
    assert same(isotonic_blocks(scores, labels, 1), isotonic_blocks(scores.astype(float), labels, 1))


# --- laws -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("distinct", [2, 50, None])
@pytest.mark.parametrize("soft", [False, True])
def test_row_order_and_threads_change_no_bit(distinct, soft, route):
    n = 300 if NO_JIT or route != "as it is" else MEDIUM
    scores, labels = labelled(n, distinct)
    labels = soft_labels(n) if soft else labels
    want = isotonic_blocks(scores, labels, 1)
    for threads in (1, 2, 3, 7):
        rows = np.random.default_rng(threads).permutation(n)
        assert same(isotonic_blocks(scores, labels, threads), want)
        assert same(isotonic_blocks(scores[rows], labels[rows], threads), want)


@pytest.mark.parametrize("distinct", [5, 50, None])
def test_fitting_the_fit_changes_nothing(distinct):
    n = MEDIUM
    scores, labels = labelled(n, distinct)
    once = isotonic_blocks(scores, labels, 2)
    again = isotonic_blocks(scores, fitted(once, scores), 2)
    np.testing.assert_array_equal(again.first_scores, once.first_scores)
    np.testing.assert_array_equal(again.counts, once.counts)
    np.testing.assert_array_equal(again.ties, once.ties)
    np.testing.assert_allclose(values(again), values(once), rtol=0, atol=2.0**-61)


@pytest.mark.parametrize("distinct", [5, 50, None])
def test_the_mirror_image_has_the_mirrored_blocks(distinct):
    scores, labels = labelled(MEDIUM, distinct)
    blocks, mirrored = isotonic_blocks(scores, labels, 2), isotonic_blocks(-scores, 1 - labels, 2)
    np.testing.assert_array_equal(mirrored.counts, blocks.counts[::-1])
    np.testing.assert_array_equal(mirrored.sums[:, 0], (blocks.counts - blocks.sums[:, 0])[::-1])
    ascending = np.sort(scores)
    np.testing.assert_array_equal(-mirrored.first_scores[::-1], ascending[np.cumsum(blocks.counts) - 1])


@pytest.mark.parametrize("n", [200, MEDIUM])
def test_strictly_increasing_maps_of_the_score_change_the_first_scores_alone(n):
    scores, labels = labelled(n, 60)
    blocks, mapped = (
        isotonic_blocks(scores, labels, 2),
        isotonic_blocks(np.arctan(scores) * 1e-200, labels, 2),
    )
    np.testing.assert_array_equal(mapped.first_scores, np.arctan(blocks.first_scores) * 1e-200)
    for name in FIELDS[1:]:
        np.testing.assert_array_equal(getattr(mapped, name), getattr(blocks, name))


@pytest.mark.parametrize("n", [50, MEDIUM])
def test_zero_one_labels_of_any_dtype_are_the_same(n):
    scores, labels = labelled(n, None)
    want = check(scores, labels)
    for dtype in ("bool", "uint8", "int64", "float32", "float64", ">f8"):
        assert same(isotonic_blocks(scores, labels.astype(dtype), 2), want)


# --- corners --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 70, MEDIUM])
@pytest.mark.parametrize("label", [0.0, 1.0, 0.25])
def test_labels_that_are_all_equal_make_one_block(n, label):
    scores, _ = labelled(n, None)
    blocks = check(scores, np.full(n, label), threads=2)
    assert (blocks.counts.tolist(), values(blocks).tolist()) == ([n], [label])
    assert blocks.first_scores == scores.min()


@pytest.mark.parametrize("n", [1, 2, 70, MEDIUM])
@pytest.mark.parametrize("score", [0.3, -0.0, np.inf, -np.inf, 5e-324])
def test_scores_that_are_all_equal_make_one_block(n, score):
    for labels in (np.arange(n) % 3 == 0, soft_labels(n)):
        blocks = check(np.full(n, score), labels, threads=2)
        assert (blocks.counts.tolist(), blocks.ties.tolist()) == ([n], [n])
        assert (blocks.first_sums == blocks.sums).all()


def test_one_row():
    blocks = check(np.array([0.7]), np.array([1]))
    assert blocks.sums.tolist() == [[1, 0]]
    assert [getattr(blocks, name).dtype.name for name in FIELDS] == ["float64", *["int64"] * 4]


def test_infinities_zeros_and_subnormals_are_ordinary_scores():
    scores = np.array([np.inf, -np.inf, -0.0, 0.0, 5e-324, -5e-324, np.inf])
    blocks = check(scores, np.array([1.0, 0.0, 0.4, 0.6, 0.7, 0.2, 1.0]))
    assert blocks.first_scores.tolist() == [-np.inf, -5e-324, 0.0, 5e-324, np.inf]
    assert blocks.ties.tolist() == [1, 1, 2, 1, 2]


def test_equal_neighbours_are_pooled():
    """1/3 and 2/6 have no finite binary expansion: only exact arithmetic finds them equal."""
    scores = np.repeat([1.0, 2.0, 3.0], [3, 6, 1])
    blocks = check(scores, np.array([0, 0, 1, 0, 0, 0, 0, 1, 1, 1]))
    assert blocks.counts.tolist() == [9, 1]


def test_labels_closer_than_a_double_can_tell_are_ordered_exactly():
    """(1 + 2**-60) / 3 and 1 / 3 are one double, not one number; so are the halves of 1 + 2**-53 and of 1."""
    for low, high in (([0.5, 0.5, 0.0], [0.5, 0.5, 2.0**-60]), ([0.5, 0.5], [0.5, 0.5 + 2.0**-53])):
        scores = np.repeat([1.0, 2.0], len(low))
        assert check(scores, np.array(low + high)).counts.tolist() == [len(low)] * 2
        assert check(scores, np.array(high + low)).counts.tolist() == [2 * len(low)]


@pytest.mark.parametrize("n", [200, MEDIUM])
def test_columns_of_any_layout_and_dtype(n):
    scores, labels = labelled(n, 40)
    want = check(scores, labels)
    locked_scores, locked_labels = scores.copy(), labels.copy()
    locked_scores.flags.writeable = locked_labels.flags.writeable = False
    for form, own_labels in (
        (locked_scores, locked_labels),
        (np.repeat(scores, 2)[::2], np.repeat(labels, 3)[::3]),
        (scores[::-1].copy()[::-1], labels[::-1].copy()[::-1]),
        (scores.astype(">f8"), labels.astype(">i4")),
    ):
        assert same(isotonic_blocks(form, own_labels, 2), want)
    for dtype in ("int8", "uint64", "float16", "float32", "bool"):
        check(np.random.default_rng(0).integers(0, 9, n).astype(dtype), labels, threads=2)


# --- faults ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [300, MEDIUM])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("soft", [False, True])
def test_nan_scores_are_counted_and_the_first_is_named(n, threads, soft):
    scores, labels = labelled(n, None)
    labels = soft_labels(n) if soft else labels
    scores[[n // 2, n - 1]] = np.nan
    with refuses("scores", "NaN", r"\b2\b", f"row {n // 2}", "drop"):
        isotonic_blocks(scores, labels, threads)


@pytest.mark.parametrize("n", [300, MEDIUM])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("wrong", [2, -1, 1.5, np.nan])
def test_labels_outside_the_unit_interval_are_counted_and_the_first_is_named(n, threads, wrong):
    scores, labels = labelled(n, None)
    labels = labels.astype(type(wrong))
    labels[[7, n // 2, n - 1]] = wrong
    with refuses("labels", r"\b3 values", f"{wrong}", "row 7"):
        isotonic_blocks(scores, labels, threads)


@pytest.mark.parametrize("n", [300, MEDIUM])
def test_integer_scores_that_float64_cannot_tell_apart_are_refused(n):
    _, labels = labelled(n, None)
    with refuses("scores", r"2\*\*53", "rescale"):
        isotonic_blocks(np.full(n, 2**60), labels, 2)


def test_data_that_change_during_the_fit_are_noticed(monkeypatch):
    monkeypatch.setattr(_isotonic, "COLLECT_ROWS", 10)
    scores, labels = labelled(2000, None)

    def meddling(pieces, *, soft, look=_isotonic._open):
        scores[:] = -1e9
        return look(pieces, soft=soft)

    monkeypatch.setattr(_isotonic, "_open", meddling)
    with refuses("data changed", error=RuntimeError):
        isotonic_blocks(scores, labels, 1)


# --- the kernels on numbers that no test has rows for -----------------------------------------------------


def close_fractions(rng):
    """Two label sums with their rows, up to 2**38 of them: equal, or as close as they can be without that."""
    rows = int(2 ** rng.uniform(0, 38))
    if rng.random() < 0.5:  # a multiple, or one unit off
        times = int(rng.integers(1, 1 + 2**38 // rows))
        total = int(rng.random() ** 4 * rows * 2**62)
        return (
            rows,
            total,
            rows * times,
            min(max(total * times + int(rng.integers(-1, 2)), 0), rows * times << 62),
        )
    other_rows = int(2 ** rng.uniform(0, 38))
    while gcd(rows, other_rows) > 1:
        other_rows += 1
    # total * other_rows - other * rows == 1, and stays so when a whole is added to both fractions
    total = pow(other_rows, -1, rows) if rows > 1 else 1
    other = (total * other_rows - 1) // rows
    whole = int(rng.random() ** 4 * (2**62 - 2))
    return rows, total + whole * rows, other_rows, other + whole * other_rows


def test_means_are_compared_exactly_up_to_2_to_the_38_rows():
    rng = np.random.default_rng(9)
    seen = set()
    for _ in range(300 if NO_JIT else 20_000):
        rows, total, other_rows, other = close_fractions(rng)
        want = (total * other_rows > other * rows) - (total * other_rows < other * rows)
        one, two = np.array([rows, *limbs(total, True)]), np.array([other_rows, *limbs(other, True)])
        assert compare_means(*one, *two) == want
        assert compare_means(*two, *one) == -want
        seen.add(want)
    assert seen == {-1, 0, 1}


def test_pooling_of_groups_of_billions_of_rows():
    """Cross products of these counts overflow 64 bits."""
    rng = np.random.default_rng(10)
    rows = (2.0 ** rng.uniform(30, 36, 60)).astype(np.int64)
    positives = (rows * np.clip(np.linspace(0.2, 0.8, 60) + 0.1 * rng.normal(size=60), 0, 1)).astype(np.int64)
    groups = np.stack([rows, positives, np.zeros(60, np.int64)], axis=1)
    first, blocks = np.empty(60, np.int64), np.empty((60, 3), np.int64)
    n_blocks = pool_violators(groups, first, blocks)
    want = pooled(zip(range(60), rows.tolist(), positives.tolist(), strict=True))
    assert 1 < n_blocks < 60
    assert first[:n_blocks].tolist() == [group[0] for group, _, _ in want]
    assert blocks[:n_blocks].tolist() == [[count, total, 0] for _, count, total in want]
