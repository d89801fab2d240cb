"""`fastbin.planning`: the tables say what the bounds say, and the automatic rule does what it says."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastbin import bounds
from fastbin.planning import BinsRow, Plan, SamplesRow, auto_bins, plan


def row_of(answer: Plan, n_bins: int):
    return next(row for row in answer.rows if row.n_bins == n_bins)


def noted(answer: Plan, word: str) -> list[int]:
    return [row.n_bins for row in answer.rows if word in row.note]


# --- n is known -------------------------------------------------------------------------------------


def test_rows_are_the_bounds():
    answer = plan(5000, alpha=0.05)
    assert [row.n_bins for row in answer.rows][:8] == [1, 2, 5, 10, 15, 17, 20, 25]
    for row in answer.rows:
        assert isinstance(row, BinsRow)
        assert row.conditional == row.epsilon == bounds.conditional_epsilon(5000, row.n_bins, 0.05)
        assert row.marginal == bounds.marginal_epsilon(5000, row.n_bins, 0.05)
        assert row.paper == bounds.conditional_epsilon(5000, row.n_bins, 0.05, method="paper")
        assert row.expected_ece == bounds.expected_ece(5000, row.n_bins)
        assert row.points_per_bin == 5001 // row.n_bins - 1


def test_marginal_rows():
    answer = plan(5000, kind="marginal", epsilon=0.05)
    for row in answer.rows:
        assert row.epsilon == row.marginal
        assert row.paper == bounds.marginal_epsilon(5000, row.n_bins, 0.1, method="paper")
    assert noted(answer, "most bins within 0.05") == [bounds.max_bins(5000, 0.05, 0.1, kind="marginal")]


def test_the_marked_rows():
    answer = plan(5000, epsilon=0.05, n_bins=33)
    assert noted(answer, "n^(1/3)") == [17]
    assert noted(answer, "most bins within 0.05") == [8]
    assert noted(answer, "asked for") == [33]
    assert noted(answer, "recommended") == [answer.recommended] == [17]


def test_rows_beyond_use_are_left_out_but_not_those_asked_for():
    answer = plan(100, n_bins=50)
    beyond = [row.n_bins for row in answer.rows if row.conditional >= 0.5]
    assert beyond == [50]
    assert plan(1).rows[0].n_bins == 1


def test_an_epsilon_out_of_reach_is_said_to_be():
    answer = plan(20, epsilon=0.01)
    assert noted(answer, "most bins") == []
    assert "No number of bins keeps every bin within 0.01." in str(answer)


def test_the_page():
    lines = str(plan(1000, alpha=0.1)).splitlines()
    assert lines[0] == "Uniform-mass binning of n = 1,000 calibration samples, alpha = 0.1"
    assert lines[2].split("  ")[-1] == "expected ECE"
    (line,) = [line for line in lines if line.strip().startswith("10 ")]
    assert line.split() == ["10", "99", "0.1313", "0.0859", "0.1636", "0.0402", "n^(1/3)"]
    assert lines[-1].startswith("Recommended: 6 bins: the most bins that keep every value within 0.1")
    assert max(map(len, lines)) <= 130
    assert not any(line != line.rstrip() for line in lines)


def test_the_legend_says_what_the_columns_are():
    page = str(plan(1000, alpha=0.1))
    assert "all values are within this of the truth at once (exact).\n" in page
    assert "over data and point, its value is within this of the truth (exact).\n" in page
    assert ">= 1" not in page


@pytest.mark.parametrize(
    ("answer", "cells"),
    [
        (plan(19, n_bins=10), ["0.9895", "0.9000", ">=", "1", "0.5000"]),  # the paper's bound is infinite
        (plan(20, n_bins=9), ["0.9827", "0.8434", ">=", "1", "0.4127"]),  # the paper's bound is 1.6
        (plan(3, n_bins=2, alpha=1e-16), [">=", "1", ">=", "1", ">=", "1", "0.5000"]),  # all three are 1
    ],
    ids=["infinite", "above 1", "1"],
)
def test_a_bound_of_1_or_more_is_no_promise(answer, cells):
    lines = str(answer).splitlines()
    (line,) = [line for line in lines if "asked for" in line]
    assert line.split()[2 : 2 + len(cells)] == cells
    assert ">= 1: no promise, because every value is within 1 of the truth." in lines


def test_an_epsilon_of_1_or_more_asks_for_nothing():
    for answer in (plan(100, epsilon=1.0), plan(epsilon=1.0, n_bins=3)):
        assert "epsilon = 1 asks for nothing: every value is within 1 of the truth." in str(answer)
    assert "asks for nothing" not in str(plan(100, epsilon=0.99))


@pytest.mark.parametrize(
    ("alpha", "certainty"),
    [(0.1, "90 %"), (1 / 3, "66.6667 %"), (1e-9, "99.9999999 %"), (1e-17, "99.999999999999999 %")],
)
def test_certainty_is_not_rounded_to_100(alpha, certainty):
    assert f"with probability {certainty}, all" in str(plan(100, alpha=alpha))


def test_the_page_keeps_two_digits_of_small_numbers():
    page = str(plan(10**8))
    assert "0.000040" in page


# --- epsilon is known -------------------------------------------------------------------------------


def test_samples_for_one_number_of_bins():
    answer = plan(epsilon=0.1, n_bins=10)
    assert answer.rows == (SamplesRow(n_bins=10, exact=1702, first=1658, hoeffding=2639, paper=2660),)
    assert answer.recommended is None
    assert "1,702" in str(answer)


@pytest.mark.parametrize("kind", ["conditional", "marginal"])
def test_samples_over_bins(kind):
    answer = plan(epsilon=0.1, alpha=0.2, kind=kind)
    assert [row.n_bins for row in answer.rows][:4] == [1, 2, 5, 10]
    for row in answer.rows:
        assert row.exact == bounds.required_samples(0.1, 0.2, row.n_bins, kind=kind)
        assert row.first <= row.exact <= row.hoeffding <= row.paper
        assert row.paper == bounds.required_samples(0.1, 0.2, row.n_bins, kind=kind, method="paper")
    assert ("every bin" if kind == "conditional" else "a new point") in str(answer).splitlines()[0]


# --- the automatic rule -----------------------------------------------------------------------------


@given(st.integers(1, 10**7))
@settings(max_examples=60, deadline=None)
def test_auto_rule(n):
    n_bins, reason = auto_bins(n)
    root = max(b for b in range(1, 220) if b**3 <= n)
    assert n_bins == max(1, min(root, bounds.max_bins(n, 0.1, 0.1)))
    assert n >= 2 * n_bins - 1
    assert ("cube root" in reason) == (root <= bounds.max_bins(n, 0.1, 0.1))


@pytest.mark.parametrize(("n", "expected"), [(1, 1), (26, 1), (27, 1), (1000, 6), (5000, 17), (10**6, 100)])
def test_auto_examples(n, expected):
    assert auto_bins(n)[0] == expected
    assert plan(n).recommended == expected
    assert plan(n).reason == auto_bins(n)[1]


@pytest.mark.parametrize("root", [10, 99, 100, 101, 2000])
def test_cube_roots_are_exact(root):
    assert noted(plan(root**3), "n^(1/3)") == [root]
    assert noted(plan(root**3 - 1), "n^(1/3)") == [root - 1]


def test_too_few_samples_is_said():
    assert "not even one bin" in auto_bins(20)[1]


# --- the object -------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [plan(19, n_bins=10), plan(epsilon=0.2)], ids=["bins", "samples"])
def test_to_dict_is_json(answer):
    text = json.dumps(answer.to_dict(), allow_nan=False)
    again = json.loads(text)
    assert again["alpha"] == 0.1
    assert again["kind"] == "conditional"
    assert len(again["rows"]) == len(answer.rows)
    assert again["recommended"] == answer.recommended
    assert set(again) == {field.name for field in dataclasses.fields(Plan)}


def test_an_infinite_bound_becomes_none():
    answer = plan(19, n_bins=10)
    assert row_of(answer, 10).paper == math.inf
    assert answer.to_dict()["rows"][-1]["paper"] is None


def test_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan(100).alpha = 0.2


# --- bad arguments ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, ValueError, r"n or epsilon.*Pass plan\(5000\)"),
        ({"n_bins": 10}, ValueError, "n or epsilon"),
        ({"n": 0}, ValueError, "n must be .* got 0"),
        ({"n": 99.5}, TypeError, "n must be"),
        ({"n": True}, TypeError, "n must be"),
        ({"n": 100, "alpha": 0}, ValueError, "alpha must be"),
        ({"n": 100, "alpha": 1.0}, ValueError, "alpha must be"),
        ({"n": 100, "epsilon": -0.1}, ValueError, "epsilon must be"),
        ({"n": 100, "n_bins": 51}, ValueError, "n_bins=50"),
        ({"n": 100, "n_bins": 0}, ValueError, "n_bins must be"),
        ({"n": 100, "kind": "original"}, ValueError, "'conditional', 'marginal'; got 'original'"),
        ({"epsilon": 0.0}, ValueError, "epsilon must be"),
    ],
)
def test_bad_arguments_get_one_clear_error(arguments, error, message):
    with pytest.raises(error, match=message):
        plan(**arguments)
