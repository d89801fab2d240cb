"""What goes into `fastbin.bounds` and what comes out: scalars or arrays, checked; a scalar or array back."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from fastbin._validate import bin_number, enough_samples, perturbation, probability, real

Integer = int | np.integer[Any]
Number = float | np.integer[Any] | np.floating[Any]
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

LARGEST_COUNT = 2**62 - 1
"""The formulas double a count, and twice this is still an int64."""

LARGEST_RANKED = 2**63 - 2
"""The ranks of n points go up to n + 1, and this plus 1 is still an int64."""


# --- one number -------------------------------------------------------------------------------------


def check_count(name: str, least: int, most: int = LARGEST_COUNT) -> Callable[[Any], int]:
    """A check for a number of points: an integer, or a float such as 1e8 that is one."""
    rule = f"an integer of at least {least}"

    def check(value: Any) -> int:
        if isinstance(value, int | np.integer) and not isinstance(value, bool):
            count = int(value)  # not by way of a float, which has 53 bits
        else:
            number = real(value, name, rule)
            if not (math.isfinite(number) and number == math.floor(number)):
                raise TypeError(f"{name} must be {rule}; got {value!r}. Pass an integer.")
            count = int(number)
        if count < least:
            raise ValueError(
                f"{name} must be {rule}; got {value!r}. Pass for example {name}={max(least, 100)}."
            )
        if count > most:
            raise ValueError(
                f"{name} must be at most {_near_power_of_two(most)}, to fit into 64 bits; got {value!r}. "
                f"Pass a smaller {name}."
            )
        return count

    return check


def _near_power_of_two(number: int) -> str:
    exponent = number.bit_length()
    return f"2**{exponent} - {2**exponent - number}"


def check_bins(value: Any) -> int:
    """A number of bins."""
    return check_count("n_bins", 1)(bin_number(value))


def check_epsilon(value: Any) -> float:
    """A tolerance: a finite number above 0."""
    number = real(value, "epsilon", "a finite number above 0")
    if not (math.isfinite(number) and number > 0):
        raise ValueError(
            f"epsilon must be a finite number above 0; got {number}. Pass for example epsilon=0.1."
        )
    return number


# --- scalars or arrays ------------------------------------------------------------------------------


def _checked(value: npt.ArrayLike, check: Callable[[Any], float]) -> npt.NDArray[Any]:
    """``value`` as an array all of whose entries pass ``check``.

    For numbers the rule is one of size, so the least and the largest decide; and, for counts given as floats,
    one of being whole, so the first fraction decides.
    """
    array = np.asarray(value)
    if array.size == 0:
        return array
    entries: list[Any] = list(array.ravel())
    if array.dtype.kind in "biuf":
        entries = [array.min(), array.max()]
    if array.dtype.kind == "f":
        entries += array[array != np.floor(array)][:1].tolist()
    for entry in entries:
        check(entry.item() if isinstance(entry, np.generic) else entry)
    return array


def counts_of(value: npt.ArrayLike, name: str, least: int = 1) -> IntArray:
    """Numbers of points."""
    return _checked(value, check_count(name, least)).astype(np.int64)


def count_column(value: npt.ArrayLike, least: int) -> IntArray:
    """One number of points for each bin."""
    column = counts_of(value, "counts", least)
    if column.ndim != 1 or column.size == 0:
        raise ValueError(
            f"counts must be a one-dimensional array, not empty; got shape {column.shape}. Pass one per bin."
        )
    return column


def bin_numbers(n_bins: npt.ArrayLike) -> IntArray:
    """Numbers of bins."""
    return _checked(n_bins, check_bins).astype(np.int64)


def probabilities(value: npt.ArrayLike, name: str) -> FloatArray:
    """Numbers strictly between 0 and 1."""
    return _checked(value, lambda number: probability(number, name)).astype(np.float64)


def perturbations(delta: npt.ArrayLike) -> FloatArray:
    """Algorithm 2's delta."""
    return _checked(delta, perturbation).astype(np.float64)


def tolerances(epsilon: npt.ArrayLike) -> FloatArray:
    """Numbers above 0."""
    return _checked(epsilon, check_epsilon).astype(np.float64)


def tolerances_within_reach(
    epsilon: npt.ArrayLike, alpha: npt.ArrayLike, n_bins: npt.ArrayLike
) -> tuple[FloatArray, FloatArray, IntArray]:
    """All three, if the number of samples that they need is an int64."""
    tolerance, level, bins = tolerances(epsilon), probabilities(alpha, "alpha"), bin_numbers(n_bins)
    samples = bins * np.log(2 * bins / level) / (2 * tolerance**2)
    for where in np.argwhere(samples > 2.0**60)[:1]:
        raise ValueError(
            f"epsilon must be within the reach of 2**60 samples; "
            f"got {np.broadcast_to(tolerance, samples.shape)[tuple(where)]}. Pass for example epsilon=0.01."
        )
    return tolerance, level, bins


def samples_and_bins(n: npt.ArrayLike, n_bins: npt.ArrayLike) -> tuple[IntArray, IntArray]:
    """Numbers of samples that fill these numbers of bins."""
    samples, bins = np.broadcast_arrays(counts_of(n, "n"), bin_numbers(n_bins))
    for too_few in np.argwhere(samples < 2 * bins - 1)[:1]:
        enough_samples(int(samples[tuple(too_few)]), int(bins[tuple(too_few)]))
    return samples, bins


def successes_and_trials(k: npt.ArrayLike, m: npt.ArrayLike) -> tuple[IntArray, IntArray]:
    """Numbers k of positives among m labels."""
    successes, trials = np.broadcast_arrays(counts_of(k, "k", 0), counts_of(m, "m", 0))
    for where in np.argwhere(successes > trials)[:1]:
        found_k, found_m = successes[tuple(where)], trials[tuple(where)]
        raise ValueError(
            f"k must be at most m; got k = {found_k}, m = {found_m}. Pass the positives among the m labels."
        )
    return successes, trials


# --- results ----------------------------------------------------------------------------------------


def elementwise(function: Callable[..., float], *arguments: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """``function`` of Python numbers, applied to broadcast arrays."""
    arrays = np.broadcast_arrays(*arguments)
    points = zip(*(array.ravel().tolist() for array in arrays), strict=True)
    return np.array([function(*point) for point in points]).reshape(arrays[0].shape)


def float_result(values: npt.ArrayLike) -> float | FloatArray:
    """A float for scalar arguments, otherwise an array."""
    array = np.asarray(values, dtype=np.float64)
    return array if array.ndim else float(array)


def int_result(values: npt.ArrayLike) -> int | IntArray:
    """An int for scalar arguments, otherwise an array."""
    array = np.asarray(values, dtype=np.int64)
    return array if array.ndim else int(array)
