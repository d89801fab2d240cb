"""Bad input gets one error that names the parameter, the rule, what was found and what to do."""

import fractions
import time

import numpy as np
import pytest

import fastbin as fb
from sizes import LARGE
from surgery import labelled, refuses, run_plan, split, unchanged

SCORES, LABELS = labelled(50, 9)


@pytest.fixture(scope="module")
def cal():
    return fb.fit_uniform_mass(SCORES, LABELS, 5)


def changed(array, at, value, dtype=None):
    array = np.array(array, dtype=dtype)
    array[at] = value
    return array


# --- the fit: scores ----------------------------------------------------------------------------------

BAD_SCORES = {
    "one NaN": (
        changed(SCORES, 17, np.nan),
        ValueError,
        ("NaN", r"\b1\b", r"row 17\b", "drop|remove|impute"),
    ),
    "three NaN": (changed(SCORES, [3, 9, 40], np.nan), ValueError, ("NaN", r"\b3\b", r"row 3\b")),
    "float32 NaN": (changed(SCORES, 49, np.nan, np.float32), ValueError, ("NaN", r"row 49\b")),
    "2-D": (SCORES.reshape(25, 2), ValueError, ("one-dimensional", r"\(25, 2\)", "ravel")),
    "0-D": (np.float64(0.5), ValueError, ("one-dimensional", r"\(\)")),
    "strings": ([str(s) for s in SCORES], TypeError, ("dtype <U|str", "convert|float")),
    "bytes": (SCORES.astype("S8"), TypeError, ("dtype",)),
    "objects": (SCORES.astype(object), TypeError, ("object", "float")),
    "None inside": ([None, *SCORES[1:]], TypeError, ("object|None",)),
    "fractions": ([fractions.Fraction(1, 3)] * 50, TypeError, ("object", "float")),
    "complex": (SCORES.astype(complex), TypeError, ("complex", "real")),
    "dates": (np.arange(50).astype("datetime64[D]"), TypeError, ("datetime64",)),
    "ragged": ([[0.1], [0.2, 0.3]], (TypeError, ValueError), ("one-dimensional",)),
    "masked": (
        np.ma.masked_array(SCORES, np.arange(50) % 20 == 4),
        ValueError,
        ("masked", r"\b3\b", r"row 4\b", "compressed|drop"),
    ),
    "long double": (SCORES.astype(np.longdouble), TypeError, ("float64|float128", "astype")),
    "huge integers": (np.arange(50) + 2**60, ValueError, ("2\\*\\*53|2\\^53",)),
    "a scalar": (0.5, ValueError, ("one-dimensional",)),
    "a dictionary": ({"a": 1}, TypeError, ()),
}


@pytest.mark.parametrize("case", BAD_SCORES)
def test_scores_that_are_not_a_column_of_reals_are_refused(case):
    scores, error, parts = BAD_SCORES[case]
    with unchanged(LABELS), refuses("scores", *parts, error=error):
        fb.fit_uniform_mass(scores, LABELS, 5)


@pytest.mark.parametrize("case", BAD_SCORES)
def test_predict_refuses_the_same_scores(cal, case):
    scores, error, parts = BAD_SCORES[case]
    for method in (cal.predict, cal.assign):
        with refuses("scores", *parts[:3], error=error):
            method(scores)


def test_an_error_leaves_the_scores_unchanged():
    scores = changed(SCORES, 17, np.nan)
    with unchanged(scores, LABELS), pytest.raises(ValueError, match="NaN"):
        fb.fit_uniform_mass(scores, LABELS, 5)


# --- the fit: labels ----------------------------------------------------------------------------------

BAD_LABELS = {
    "three classes": (
        np.arange(50) % 3,
        ValueError,
        (r"\[0, 1\]", r"\b16\b", r"\b2\b", r"row 2\b", "positive_class"),
    ),
    "minus one and one": (
        2 * (np.arange(50) % 2) - 1,
        ValueError,
        (r"\b25\b", "-1", r"row 0\b", "positive_class"),
    ),
    "above one": (changed(LABELS, [17, 20, 33], 2, float), ValueError, (r"\b3\b", r"2(\.0)?\b", r"row 17\b")),
    "just above one": (changed(LABELS, 7, np.nextafter(1, 2), float), ValueError, (r"\b1\b", r"row 7\b")),
    "below zero": (changed(LABELS, 11, -0.25, float), ValueError, (r"-0\.25", r"row 11\b")),
    "NaN": (changed(LABELS, 30, np.nan, float), ValueError, ("nan", r"row 30\b")),
    "infinite": (changed(LABELS, 31, np.inf, float), ValueError, ("inf", r"row 31\b")),
    "huge integer": (changed(LABELS, 5, 2**64 - 1, np.uint64), ValueError, (r"row 5\b",)),
    "int8 two": (changed(LABELS, 5, 2, np.int8), ValueError, (r"\b2\b", r"row 5\b")),
    "int8 minus one": (changed(LABELS, 5, -1, np.int8), ValueError, ("-1", r"row 5\b")),
    "float32 above": (changed(LABELS, 5, 1.5, np.float32), ValueError, (r"1\.5", r"row 5\b")),
    "strings": (np.where(LABELS, "yes", "no"), TypeError, ("positive_class",)),
    "objects": (LABELS.astype(object), TypeError, ("object",)),
    "None inside": ([None, *LABELS[1:]], TypeError, ("object|None",)),
    "complex": (LABELS.astype(complex), TypeError, ("complex",)),
    "2-D": (
        np.column_stack([LABELS, 1 - LABELS]),
        ValueError,
        ("one-dimensional", r"\(50, 2\)", r"\[:, 0\]|ravel"),
    ),
    "masked": (np.ma.masked_array(LABELS, np.arange(50) == 8), ValueError, ("masked", r"\b1\b", r"row 8\b")),
}


@pytest.mark.parametrize("case", BAD_LABELS)
def test_labels_that_are_not_in_the_unit_interval_are_refused(case):
    labels, error, parts = BAD_LABELS[case]
    with unchanged(SCORES), refuses("labels", *parts, error=error):
        fb.fit_uniform_mass(SCORES, labels, 5)


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_the_first_bad_row_is_named_for_any_number_of_threads(threads):
    scores, labels = labelled(2_000)
    with refuses("labels", r"\b2\b", r"row 700\b"):
        fb.fit_uniform_mass(scores, changed(labels, [1_900, 700], 3), 5, threads=threads)
    with refuses("scores", "NaN", r"\b2\b", r"row 700\b"):
        fb.fit_uniform_mass(changed(scores, [1_900, 700], np.nan), labels, 5, threads=threads)


# --- both columns -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_scores", "n_labels"), [(50, 49), (1, 50), (0, 50), (50, 0)])
def test_lengths_that_differ_are_refused(n_scores, n_labels):
    with refuses("scores", "labels", "length", rf"\b{n_scores}\b", rf"\b{n_labels}\b"):
        fb.fit_uniform_mass(SCORES[:n_scores], LABELS[:n_labels], 1)


@pytest.mark.parametrize("empty", [[], np.empty(0), np.empty(0, np.float32)])
def test_an_empty_calibration_set_is_refused(empty):
    with refuses("empty", "0 rows|at least one"):
        fb.fit_uniform_mass(empty, empty, 1)


@pytest.mark.parametrize(("n", "n_bins"), [(1, 2), (8, 5), (50, 26), (50, 10**30)])
def test_too_few_rows_are_refused_and_the_message_says_how_many_bins_they_allow(n, n_bins):
    with refuses("n_bins", rf"\b{2 * n_bins - 1}\b", rf"\b{n}\b", rf"at most n_bins={(n + 1) // 2}\b"):
        fb.fit_uniform_mass(SCORES[:n], LABELS[:n], n_bins)


# --- parameters ---------------------------------------------------------------------------------------

BAD_PARAMETERS = {
    "n_bins 0": ({"n_bins": 0}, ValueError, ("n_bins", "at least 1", r"\b0\b", "n_bins=10|Pass")),
    "n_bins -1": ({"n_bins": -1}, ValueError, ("n_bins", "at least 1", "-1")),
    "n_bins True": ({"n_bins": True}, TypeError, ("n_bins", "integer", "bool|True")),
    "n_bins 10.5": ({"n_bins": 10.5}, TypeError, ("n_bins", "integer", r"10\.5")),
    "n_bins 10.0": ({"n_bins": 10.0}, TypeError, ("n_bins", "integer", r"10\.0")),
    "n_bins text": ({"n_bins": "ten"}, TypeError, ("n_bins", "integer", "ten")),
    "n_bins None": ({"n_bins": None}, TypeError, ("n_bins", "integer", "None")),
    "n_bins array": ({"n_bins": np.array([3, 4])}, TypeError, ("n_bins", "integer")),
    "boundary_points": (
        {"boundary_points": "both"},
        ValueError,
        ("boundary_points", "exclude", "include", "both"),
    ),
    "boundary_points None": ({"boundary_points": None}, (TypeError, ValueError), ("boundary_points", "None")),
    "delta negative": ({"delta": -0.1}, ValueError, ("delta", "at least 0", r"-0\.1")),
    "delta NaN": ({"delta": np.nan}, ValueError, ("delta", "nan")),
    "delta infinite": ({"delta": np.inf}, ValueError, ("delta", "finite", "inf")),
    "delta text": ({"delta": "small"}, TypeError, ("delta", "small")),
    "rng negative": ({"rng": -1}, ValueError, ("rng", "-1", "non-negative|0\\.\\.2")),
    "rng too large": ({"rng": 2**64}, ValueError, ("rng", r"2\*\*64")),
    "rng float": ({"rng": 0.5}, TypeError, ("rng", "int", "Generator", "float")),
    "rng text": ({"rng": "seed"}, TypeError, ("rng", "Generator", "str")),
    "rng bool": ({"rng": True}, TypeError, ("rng", "bool")),
    "rng RandomState": ({"rng": np.random.RandomState(0)}, TypeError, ("rng", "RandomState")),
    "threads 0": ({"threads": 0}, ValueError, ("threads", "at least 1", r"\b0\b", "threads=1")),
    "threads -2": ({"threads": -2}, ValueError, ("threads", "-2")),
    "threads 1.5": ({"threads": 1.5}, TypeError, ("threads", r"1\.5")),
    "threads True": ({"threads": True}, TypeError, ("threads", "bool|True")),
}


@pytest.mark.parametrize("case", BAD_PARAMETERS)
def test_a_parameter_outside_its_rule_is_refused(case):
    options, error, parts = BAD_PARAMETERS[case]
    with unchanged(SCORES, LABELS), refuses(*parts, error=error):
        fb.fit_uniform_mass(SCORES, LABELS, **{"n_bins": 5, **options})


@pytest.mark.parametrize("case", [c for c in BAD_PARAMETERS if not c.startswith("rng RandomState")])
def test_a_plan_refuses_the_same_parameters(case):
    options, error, parts = BAD_PARAMETERS[case]
    with refuses(*parts, error=error):
        fb.FitPlan(**{"n_bins": 5, **options})


@pytest.mark.parametrize("n_bins", [np.int64(5), np.uint8(5)])
def test_numpy_integers_are_integers(n_bins):
    assert fb.fit_uniform_mass(SCORES, LABELS, n_bins) == fb.fit_uniform_mass(SCORES, LABELS, 5)


def test_options_are_keywords_and_unknown_ones_are_refused():
    with pytest.raises(TypeError, match="positional"):
        fb.fit_uniform_mass(SCORES, LABELS, 5, "include")
    with pytest.raises(TypeError, match="bins"):
        fb.fit_uniform_mass(SCORES, LABELS, 5, bins=7)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ((0, 1), ("n", r"\b0\b", "at least 1")),
        ((-5, 1), ("n", "-5")),
        ((10, 0), ("n_bins", "at least 1")),
    ],
)
def test_ranks_of_impossible_sizes_are_refused(arguments, parts):
    with refuses(*parts):
        fb.boundary_ranks(*arguments)


# --- alpha --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0, 1, -0.1, 1.5, np.nan, np.inf])
@pytest.mark.parametrize("method", ["guarantee", "intervals", "certificate"])
def test_alpha_outside_the_open_unit_interval_is_refused(cal, method, alpha):
    with refuses("alpha", "between 0 and 1", str(alpha)):
        getattr(cal, method)(alpha)


@pytest.mark.parametrize("alpha", ["0.1", None, True])
def test_alpha_of_the_wrong_type_is_refused(cal, alpha):
    with refuses("alpha", error=TypeError):
        cal.guarantee(alpha)


def test_predict_interval_checks_alpha_and_scores(cal):
    with refuses("alpha", "between 0 and 1"):
        cal.predict_interval(SCORES, alpha=2)
    with refuses("scores", "NaN", "row 0"):
        cal.predict_interval([np.nan], alpha=0.1)


@pytest.mark.parametrize("candidates", [0, -1])
def test_candidates_below_one_are_refused(cal, candidates):
    with refuses("candidates", "at least 1", str(candidates)):
        cal.guarantee(0.1, candidates=candidates)


def test_an_unknown_guarantee_method_is_refused(cal):
    with refuses("method", "magic", "hoeffding"):
        cal.guarantee(0.1, method="magic")


# --- predict ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row_ids", "error", "parts"),
    [
        (np.arange(49), ValueError, ("row_ids", r"\b49\b", r"\b50\b")),
        (np.arange(100).reshape(50, 2), ValueError, ("row_ids", "one-dimensional")),
        (np.arange(50) / 2, TypeError, ("row_ids", "float64|integer")),
        ([None] * 50, TypeError, ("row_ids",)),
        (np.arange(50) > 3, TypeError, ("row_ids", "bool|integer")),
        ([0] * 49 + ["a"], (TypeError, ValueError), ("row_ids",)),
    ],
    ids=["length", "2-D", "float", "None", "bool", "mixed"],
)
def test_row_ids_must_be_one_integer_or_text_for_each_row(cal, row_ids, error, parts):
    if parts == ("row_ids",) and isinstance(row_ids[0], int):
        row_ids = np.array(row_ids, dtype=object)
    with refuses(*parts, error=error):
        cal.predict(SCORES, row_ids=row_ids)


def test_row_ids_are_checked_even_where_no_row_is_tied(cal):
    with refuses("row_ids", "integers|text", error=TypeError):
        cal.predict(np.full(50, 99.0), row_ids=[None] * 50)


@pytest.mark.parametrize(
    ("out", "error", "parts"),
    [
        (np.empty(49), ValueError, ("out", r"\b49\b", r"\b50\b")),
        (np.empty((50, 1)), ValueError, ("out", r"\(50, 1\)")),
        (np.empty(50, np.int64), (TypeError, ValueError), ("out", "int64", "float64")),
        (np.empty(50, complex), (TypeError, ValueError), ("out", "complex")),
        ([0.0] * 50, (TypeError, ValueError), ("out", "list", "array")),
    ],
    ids=["length", "2-D", "int64", "complex", "list"],
)
def test_out_must_be_a_float_array_of_one_value_per_row(cal, out, error, parts):
    with refuses(*parts, error=error):
        cal.predict(SCORES, row_ids=np.arange(50), out=out)


def test_a_read_only_or_strided_out_is_refused(cal):
    out = np.empty(50)
    out.flags.writeable = False
    for target in (out, np.empty((50, 2))[:, 0]):
        with refuses("out", "writable", "contiguous"):
            cal.predict(SCORES, row_ids=np.arange(50), out=target)


@pytest.mark.parametrize("method", ["predict", "assign"])
@pytest.mark.parametrize(
    ("options", "error", "parts"),
    [
        ({"nan": "ignore"}, ValueError, ("nan", "raise", "propagate", "ignore")),
        ({"threads": 0}, ValueError, ("threads", "at least 1")),
        ({"rng": -1}, ValueError, ("rng", "-1")),
        ({"rng": "x"}, TypeError, ("rng", "str")),
    ],
)
def test_predict_options_outside_their_rules_are_refused(cal, method, options, error, parts):
    with refuses(*parts, error=error):
        getattr(cal, method)(SCORES, **{"row_ids": np.arange(50), **options})


def test_predict_counts_every_nan_and_names_the_first(cal):
    scores = changed(SCORES, [40, 8, 12], np.nan)
    with unchanged(scores), refuses("scores", "NaN", r"\b3\b", r"row 8\b", "propagate"):
        cal.predict(scores)


# --- fit_counts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scores", "positives", "totals", "error", "parts"),
    [
        ([0.1, 0.2], [1, 5], [3, 4], ValueError, ("positives", "totals", r"\b5\b", r"row 1\b")),
        ([0.1, 0.2], [1, -1], [3, 4], ValueError, ("positives", "-1", r"row 1\b")),
        ([0.1, 0.2], [0, 0], [3, -4], ValueError, ("totals", "-4", r"row 1\b")),
        ([0.1, 0.2], [1, 2, 3], [3, 4, 5], ValueError, ("scores", "length", r"\b2\b", r"\b3\b")),
        ([0.1, np.nan], [1, 2], [3, 4], ValueError, ("scores", "NaN", r"row 1\b")),
        ([0.1, 0.2], [1.5, 2], [3, 4], (TypeError, ValueError), ("positives", "integer|whole")),
        ([0.1, 0.2], [1, 2], [3, 4.5], (TypeError, ValueError), ("totals", "integer|whole")),
        ([0.1, 0.2], [0, 0], [0, 0], ValueError, ("empty|0 rows|at least",)),
        ([], [], [], ValueError, ("empty|0 rows|at least",)),
        ([0.1, 0.2], ["1", "2"], [3, 4], TypeError, ("positives",)),
        ([0.1, 0.2], [1, 2], [2**62, 2**62], ValueError, ("totals", "2\\*\\*|large|overflow|at most")),
    ],
    ids=(
        "more positives than rows,negative positives,negative total,lengths,NaN,half a positive,half a row,"
        "no rows,empty,strings,overflow"
    ).split(","),
)
def test_counts_that_are_not_counts_are_refused(scores, positives, totals, error, parts):
    with refuses(*parts, error=error):
        fb.fit_counts(scores, positives, totals, 1)


def test_fit_counts_says_how_many_bins_the_rows_allow():
    with refuses("n_bins=5", r"\b9\b", "at most n_bins=4"):
        fb.fit_counts([0.1, 0.2], [1, 2], [3, 4], 5)


# --- the plan -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_cells", [0, -4])
def test_n_cells_must_be_positive(n_cells):
    with refuses("n_cells", "at least", str(n_cells)):
        fb.FitPlan(5, n_cells=n_cells)


@pytest.mark.parametrize("gather_rows", [0, -1])
def test_gather_rows_must_be_positive(gather_rows):
    with refuses("gather_rows", "at least 1", str(gather_rows)):
        fb.FitPlan(5, gather_rows=gather_rows)


def test_run_step_refuses_parts_of_two_lengths():
    step = fb.FitPlan(5).step()
    with refuses("scores", "labels", "length", r"\b50\b", r"\b49\b"):
        fb.run_step(step, SCORES, LABELS[:-1], 0)


def test_a_plan_refuses_to_finish_early_and_to_be_fed_late():
    plan = fb.FitPlan(5)
    with refuses("not done|step", error=RuntimeError):
        plan.finish()
    cal, _ = run_plan(plan, split(SCORES, LABELS, [20]))
    assert plan.finish() is cal
    with refuses("no step", "finish", error=RuntimeError):
        plan.feed([])


def test_a_plan_refuses_partials_of_another_step():
    plan = fb.FitPlan(5, n_cells=2, gather_rows=1)
    old = fb.run_step(plan.step(), SCORES, LABELS, 0)
    plan.feed([old])
    assert plan.step() is not None
    with refuses("partials", "current step"):
        plan.feed([old])


def test_data_that_change_between_passes_are_noticed():
    plan = fb.FitPlan(5, n_cells=2, gather_rows=1)
    plan.feed([fb.run_step(plan.step(), SCORES, LABELS, 0)])
    with refuses("changed", r"\b50\b", r"\b49\b", error=RuntimeError):
        plan.feed([fb.run_step(plan.step(), SCORES[:-1], LABELS[:-1], 0)])


def test_an_integer_that_float64_cannot_hold_is_refused_before_it_becomes_a_tie():
    with refuses("scores", r"2\*\*53", str(2**53 + 1), "Rescale"):
        fb.fit_uniform_mass([2**53 - 1, 2**53, 2**53 + 1], [0, 1, 0], 2)


@pytest.mark.parametrize("ids", [[1, "a"], ["a", b"a"], [1, None], [True, 2]])
def test_row_ids_of_mixed_kinds_are_refused(ids):
    calibrator = fb.fit_uniform_mass([0.1, 0.2, 0.3], [0, 1, 0], 2)
    with refuses("row_ids", "found", error=TypeError):
        calibrator.predict([0.1, 0.2], row_ids=ids)


def test_masked_counts_and_bins_are_refused():
    masked = np.ma.array([1, 1], mask=[0, 1])
    with refuses("positives", "masked", "first at row 1"):
        fb.fit_counts([0.1, 0.2], masked, [2, 2], 1)
    with refuses("bins", "masked"):
        fb.bin_means([0, 1], masked, 2)


def test_more_rows_than_int64_ranks_are_refused():
    with refuses("totals", r"2\*\*63"):
        fb.fit_counts([0.5], [1], [2**63 - 1], 1)


def test_an_unsound_out_is_named():
    calibrator = fb.fit_uniform_mass([0.1, 0.2, 0.3], [0, 1, 0], 2)
    frozen = np.empty(2)
    frozen.flags.writeable = False
    with refuses("out", "read-only"):
        calibrator.predict([0.1, 0.2], out=frozen)
    with refuses("out", "strided"):
        calibrator.predict([0.1, 0.2], out=np.empty(4)[::2])


def test_nothing_is_written_after_predict_has_raised():
    """Blocks that still ran when one failed must have ended before the caller gets the array back."""
    calibrator = fb.fit_uniform_mass(np.arange(100), np.arange(100) % 2, 4)
    scores = np.zeros(LARGE, np.int64)
    scores[0] = 2**60
    out = np.empty(scores.size)
    for _ in range(5):
        with refuses("scores", r"2\*\*53"):
            calibrator.predict(scores, out=out, threads=8)
        out[:] = -1.0
        time.sleep(0.002)
        assert (out == -1.0).all()
