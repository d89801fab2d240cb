"""The fit as passes: any partition, order, cell count or budget gives the bits of fit_uniform_mass."""

import pickle

import numpy as np
import pytest

import fastbin as fb
import reference as ref
import zoo
from sizes import LARGE, MEDIUM
from surgery import labelled, refuses, run_plan, split, unchanged


def random_parts(scores, labels, n_parts, rng):
    """A random partition into n_parts runs of rows, empty ones among them."""
    return split(scores, labels, rng.integers(0, len(scores) + 1, n_parts - 1).tolist())


@pytest.mark.parametrize("distinct", [1, 2, 5, 50, None])
@pytest.mark.parametrize("n_parts", [1, 2, 7, 40])
def test_any_partition_gives_the_bits_of_the_whole(distinct, n_parts):
    rng = np.random.default_rng(n_parts)
    for n in (1, 5, 30, 250):
        scores, labels = labelled(n, distinct)
        for n_bins in {1, min(4, (n + 1) // 2), (n + 1) // 2}:
            cal, _ = run_plan(
                fb.FitPlan(n_bins, rng=8), random_parts(scores, labels, n_parts, rng), shuffle=rng
            )
            assert cal == fb.fit_uniform_mass(scores, labels, n_bins, rng=8)


@pytest.mark.parametrize("n_cells", [2, 3, 4, 16, 64])
@pytest.mark.parametrize("gather_rows", [1, 8, 100])
@pytest.mark.parametrize("distinct", [1, 2, 50, None])
def test_coarse_cells_and_a_tiny_budget_change_no_bit(n_cells, gather_rows, distinct):
    rng = np.random.default_rng(n_cells)
    scores, labels = labelled(200, distinct)
    for n_bins in (1, 2, 9, 100):
        plan = fb.FitPlan(n_bins, n_cells=n_cells, gather_rows=gather_rows)
        cal, _ = run_plan(plan, random_parts(scores, labels, 5, rng))
        ref.assert_same_bits(cal, ref.fit_vectorised(scores, labels, n_bins))


@pytest.mark.parametrize("name", zoo.COLUMN_NAMES)
def test_awkward_scores_are_refined_to_the_exact_cuts(name):
    scores = zoo.columns(120)[name]
    labels = np.random.default_rng(0).integers(0, 2, 120)
    rng = np.random.default_rng(1)
    for n_cells, gather_rows in ((2, 1), (16, 8), (None, 8)):
        plan = fb.FitPlan(11, n_cells=n_cells, gather_rows=gather_rows)
        cal, _ = run_plan(plan, random_parts(scores, labels, 4, rng))
        ref.assert_same_bits(cal, ref.fit_vectorised(scores, labels, 11))


@pytest.mark.parametrize("name", zoo.COLUMN_NAMES)
def test_many_awkward_scores_in_parts_equal_the_fit(name):
    scores = zoo.columns(MEDIUM)[name]
    labels = np.random.default_rng(3).integers(0, 2, MEDIUM)
    plan = fb.FitPlan(50, n_samples=MEDIUM, gather_rows=MEDIUM // 64)
    cal, passes = run_plan(plan, random_parts(scores, labels, 6, np.random.default_rng(4)))
    assert cal == fb.fit_uniform_mass(scores, labels, 50)
    assert passes <= 12


@pytest.mark.parametrize("distinct", [2, 50, None])
def test_soft_labels_in_parts_equal_the_whole(distinct):
    rng = np.random.default_rng(0)
    scores, _ = labelled(150, distinct)
    labels = rng.random(150)
    for boundary_points in ("exclude", "include"):
        plan = fb.FitPlan(7, boundary_points=boundary_points, n_cells=4, gather_rows=4, rng=5)
        cal, _ = run_plan(plan, random_parts(scores, labels, 6, rng), shuffle=rng)
        ref.assert_same_bits(cal, ref.algorithm_1(scores, labels, 7, 5, boundary_points))


@pytest.mark.parametrize("soft_rows", [[0], [99], [40, 60]])
@pytest.mark.parametrize("distinct", [2, None])
def test_one_soft_label_in_one_part_makes_the_whole_fit_soft(soft_rows, distinct):
    scores, labels = labelled(100, distinct)
    labels = labels.astype(float)
    labels[soft_rows] = 0.25
    for shuffle in (None, np.random.default_rng(0)):
        for options in ({"n_cells": 4, "gather_rows": 4}, {"n_samples": 100}, {}):
            cal, _ = run_plan(fb.FitPlan(6, **options), split(scores, labels, [33, 66]), shuffle)
            ref.assert_same_bits(cal, ref.algorithm_1(scores, labels, 6))


def test_parts_of_mixed_dtypes_equal_the_whole():
    scores, labels = labelled(90, 5)
    scores = scores.astype(np.float32)
    parts = [
        (scores[:30], labels[:30].astype(bool), 0),
        (scores[30:60].astype(np.float64), labels[30:60].astype(float), 30),
        (scores[60:].tolist(), labels[60:].tolist(), 60),
    ]
    cal, _ = run_plan(fb.FitPlan(6, n_cells=4, gather_rows=4), parts)
    ref.assert_same_bits(cal, ref.algorithm_1(scores, labels, 6))


@pytest.mark.parametrize("options", [{}, {"delta": 0.25}, {"boundary_points": "include"}, {"rng": 2**64 - 1}])
def test_a_plan_takes_the_options_of_the_fit(options):
    scores, labels = labelled(100, 5)
    cal, _ = run_plan(fb.FitPlan(6, **options), split(scores, labels, [50]))
    assert cal == fb.fit_uniform_mass(scores, labels, 6, **options)


@pytest.mark.parametrize("distinct", [5, None])
def test_a_hint_changes_speed_and_no_bit(distinct):
    scores, labels = labelled(300, distinct)
    want = fb.fit_uniform_mass(scores, labels, 9)
    hints = [
        scores[:20],
        scores[:1],
        [0.0],
        [-1e300, 1e300],
        [np.inf, -np.inf],
        np.full(50, scores[0]),
        [5e-324],
        [0.1, np.nan],
        [np.nan],
    ]
    for hint in hints:
        plan = fb.FitPlan(9, hint=hint, n_cells=16, gather_rows=8)
        assert run_plan(plan, split(scores, labels, [100]))[0] == want


def test_steps_and_partials_travel_by_pickle():
    scores, labels = labelled(200, 50)
    plan = fb.FitPlan(9, n_cells=4, gather_rows=4)
    cal, passes = run_plan(
        plan, split(scores, labels, [70, 71]), codec=lambda x: pickle.loads(pickle.dumps(x))
    )
    assert passes >= 2
    assert cal == fb.fit_uniform_mass(scores, labels, 9)


def test_without_a_row_count_the_plan_starts_with_a_histogram():
    scores, labels = labelled(20)
    _, passes = run_plan(fb.FitPlan(3), split(scores, labels, []))
    assert passes >= 2


def test_the_offset_does_not_change_the_fit():
    scores, labels = labelled(100, 5)
    moved = [(s, y, offset + 10**12) for s, y, offset in split(scores, labels, [13, 77])]
    assert run_plan(fb.FitPlan(6), moved)[0] == fb.fit_uniform_mass(scores, labels, 6)


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_threads_inside_a_step_change_no_bit(threads):
    scores, labels = labelled(MEDIUM, 50)
    cal, _ = run_plan(fb.FitPlan(20, threads=threads), split(scores, labels, [MEDIUM // 3]))
    assert cal == fb.fit_uniform_mass(scores, labels, 20, threads=1)


@pytest.mark.parametrize("name", ["uniform", "two decimals", "all equal", "exponents", "saturated"])
def test_threads_of_the_fit_change_no_bit(name):
    scores = zoo.columns(LARGE)[name]
    labels = np.random.default_rng(3).integers(0, 2, LARGE)
    fits = [fb.fit_uniform_mass(scores, labels, 100, threads=threads) for threads in (1, 2, 3, 7, None)]
    assert all(cal == fits[0] for cal in fits)


def test_parts_are_not_mutated():
    scores, labels = labelled(100, 5)
    with unchanged(scores, labels):
        run_plan(fb.FitPlan(6, n_cells=4, gather_rows=4), split(scores, labels, [10]))


@pytest.mark.parametrize("part", [0, 1, 2])
def test_a_nan_in_any_part_is_reported_by_its_row_in_the_whole(part):
    scores, labels = labelled(90)
    row = 30 * part + 4
    scores[row] = np.nan
    with pytest.raises(ValueError, match=rf"scores.*\b{row}\b"):
        run_plan(fb.FitPlan(3), split(scores, labels, [30, 60]))


def test_a_bad_label_in_a_part_is_reported_by_its_row_in_the_whole():
    scores, labels = labelled(90)
    labels[71] = 2
    with pytest.raises(ValueError, match=r"labels.*\b71\b"):
        run_plan(fb.FitPlan(3), split(scores, labels, [30, 60]))


def test_too_few_rows_in_all_parts_together_are_refused():
    scores, labels = labelled(8)
    with pytest.raises(ValueError, match=r"n_bins=5.*9 rows.*4"):
        run_plan(fb.FitPlan(5), split(scores, labels, [3]))


def test_no_rows_at_all_are_refused():
    with pytest.raises(ValueError, match=r"empty|0 rows|no rows"):
        run_plan(fb.FitPlan(1), [([], [], 0), ([], [], 0)])


def test_a_stale_partial_of_an_earlier_step_is_refused():
    """The recount for fractions is a second histogram step; a late result of the first must not slip in."""
    scores, labels = np.linspace(0, 1, 40), np.tile([0.0, 1.0], 20)
    labels[-1] = 0.5
    plan = fb.FitPlan(3)
    first = plan.step()
    early = fb.run_step(first, scores[:20], labels[:20])
    plan.feed([early, fb.run_step(first, scores[20:], labels[20:], 20)])
    assert plan.step().kind == first.kind
    with pytest.raises(ValueError, match="another step"):
        plan.feed([early, fb.run_step(plan.step(), scores[20:], labels[20:], 20)])


def test_the_same_partial_twice_is_refused():
    plan = fb.FitPlan(2)
    partial = fb.run_step(plan.step(), [0.1, 0.2, 0.3], [0, 1, 0])
    with refuses("partials", "twice", "once"):
        plan.feed([partial, pickle.loads(pickle.dumps(partial))])


@pytest.mark.parametrize(
    ("offset", "error"), [(2.5, TypeError), ("a", TypeError), (True, TypeError), (-1, ValueError)]
)
def test_an_offset_is_a_position(offset, error):
    with refuses("offset", "at least 0", str(offset), error=error):
        fb.run_step(fb.FitPlan(2).step(), [0.1], [0], offset)


def test_a_partial_of_another_plan_is_refused():
    plan, other = fb.FitPlan(2), fb.FitPlan(2)
    partial = fb.run_step(other.step(), [0.1, 0.2, 0.3], [0, 1, 0])
    with pytest.raises(ValueError, match="another step or plan"):
        plan.feed([partial])


@pytest.mark.parametrize("junk", [None, 3, "histogram"])
def test_what_is_not_a_step_or_a_partial_is_refused(junk):
    with pytest.raises(TypeError, match="step must be"):
        fb.run_step(junk, [0.1], [0])
    with pytest.raises(TypeError, match="partials must be"):
        fb.FitPlan(2).feed([junk])


def test_n_samples_must_be_the_rows_fed():
    plan = fb.FitPlan(2, n_samples=50)
    with pytest.raises(ValueError, match=r"n_samples.*50.*3 rows"):
        plan.feed([fb.run_step(plan.step(), [0.1, 0.2, 0.3], [0, 1, 0])])
