"""Hypothesis strategies for calibration data, and the profile that all property tests share."""

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from sizes import EXAMPLES

law = settings(
    deadline=None,
    derandomize=True,
    max_examples=EXAMPLES,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

# Multiples of 1/64: x -> 2x - 1 and x -> x**3 are exact, so strictly increasing in floats too.
dyadic = st.integers(-128, 128).map(lambda i: i / 64)
few = st.sampled_from([0.0, 0.25, 0.5])
any_float = st.floats(allow_nan=False)
any_float32 = st.floats(allow_nan=False, width=32)
unit = st.one_of(
    st.integers(0, 64).map(lambda i: i / 64), st.integers(0, 10).map(lambda i: i / 10), st.floats(0.0, 1.0)
)
seeds = st.integers(0, 2**64 - 1)
binary = st.integers(0, 1)
soft = st.floats(0.0, 1.0)


@st.composite
def data(draw, scores=None, labels=binary, max_n=60):
    """(scores, labels, n_bins) with n_bins allowed by the number of rows."""
    one = draw(st.sampled_from([few, dyadic, any_float])) if scores is None else scores
    rows = draw(st.lists(st.tuples(one, labels), min_size=1, max_size=max_n))
    n_bins = draw(st.integers(1, (len(rows) + 1) // 2))
    return np.array([s for s, _ in rows], float), np.array([y for _, y in rows]), n_bins


@st.composite
def groups(draw, max_groups=12, max_total=9):
    """(scores, positives, totals, n_bins): a GROUP BY with at least one row."""
    scores = draw(st.lists(dyadic, min_size=1, max_size=max_groups, unique=True))
    totals = draw(st.lists(st.integers(1, max_total), min_size=len(scores), max_size=len(scores)))
    positives = [draw(st.integers(0, t)) for t in totals]
    n_bins = draw(st.integers(1, (sum(totals) + 1) // 2))
    return np.array(scores), np.array(positives), np.array(totals), n_bins


def cut_points(n):
    """Row positions at which to cut n rows into parts (repeats give empty parts)."""
    return st.lists(st.integers(0, n), max_size=6)
