"""One function per kind of input, called on the first line of a public function.

Every message names the parameter, the rule, what was found, and what to do about it.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastbin._parallel import available_threads

Array = NDArray[Any]

# Integers beyond this are not all float64 numbers, so distinct scores could become ties.
LARGEST_EXACT_INTEGER = 2**53

_COLUMN_REMEDY = "Pass one column, for example array[:, 0] or array.ravel()."


def unmasked(values: ArrayLike, name: str) -> Array:
    """An array, not copied; masked entries are refused, because what is under the mask means nothing."""
    if isinstance(values, np.ma.MaskedArray):
        masked = np.flatnonzero(np.ma.getmaskarray(values))
        if masked.size:
            raise ValueError(
                f"{name} must not have masked entries; found {masked.size}, first at row {masked[0]}. "
                "Drop those rows from every column, for example with .compressed()."
            )
        values = values.data
    try:
        return np.asarray(values)
    except (ValueError, TypeError):
        raise TypeError(
            f"{name} must be a one-dimensional array; got entries of different lengths or kinds. "
            "Pass one value per row."
        ) from None


def _one_dimensional(values: ArrayLike, name: str) -> Array:
    array = unmasked(values, name)
    if array.dtype.kind == "O" and array.size and isinstance(array.flat[0], str):
        raise TypeError(
            f"{name} must be numbers; got text, first {array.flat[0]!r}. Pass ({name} == positive_class) for "
            "labels, or convert with .astype(float)."
        )
    if array.dtype.kind == "O" and array.ndim == 0:  # None, a set, a generator
        raise TypeError(
            f"{name} must be a one-dimensional array of numbers; got {type(values).__name__}. "
            "Pass one value per row, in a list or an array."
        )
    if array.dtype.kind == "O":
        raise TypeError(
            f"{name} must be an array of numbers; got dtype object (first entry is "
            f"{type(array.flat[0]).__name__ if array.size else 'missing'}). Convert it, for example with "
            f"numpy.asarray({name}, dtype=float)."
        )
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional; got shape {array.shape}. {_COLUMN_REMEDY}")
    return array


def score_array(scores: ArrayLike, name: str = "scores") -> Array:
    """Scores as a one-dimensional real array, not copied; NaN is looked for in the passes themselves."""
    array = _one_dimensional(scores, name)
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > np.dtype(np.float64).itemsize:
        remedy = "Convert it with .astype(float)."
        if array.dtype.kind == "c":
            remedy = "Pass the real part, or the magnitude."
        raise TypeError(
            f"{name} must be real numbers (float64 or narrower); got dtype {array.dtype}. {remedy}"
        )
    return array


def label_array(labels: ArrayLike, name: str = "labels") -> Array:
    """Labels as a one-dimensional real array, not copied; their values are checked in the passes."""
    array = _one_dimensional(labels, name)
    if array.dtype.kind not in "biuf":
        raise TypeError(
            f"{name} must be 0/1 or lie in [0, 1]; got dtype {array.dtype}. Pass ({name} == positive_class)."
        )
    return array


def scores_and_labels(scores: ArrayLike, labels: ArrayLike, positive: object = None) -> tuple[Array, Array]:
    """Both columns of a calibration set: one-dimensional, of one length, not empty."""
    score_column, label_column = score_array(scores), label_array(_coded_labels(labels, positive))
    if score_column.size != label_column.size:
        raise ValueError(
            f"scores and labels must have the same length; got {score_column.size} scores and "
            f"{label_column.size} labels. Pass one label for each score."
        )
    if score_column.size == 0:
        raise ValueError("scores must not be empty; got 0 rows. Pass at least one (score, label) pair.")
    return score_column, label_column


def unit_scores(scores: Array) -> None:
    """Refuse scores outside [0, 1]; NaN is for the caller to report."""
    if scores.size == 0 or (scores.min() >= 0 and scores.max() <= 1):
        return
    outside = np.flatnonzero((scores < 0) | (scores > 1))
    if outside.size:
        raise ValueError(
            f"scores must be probabilities in [0, 1] for this method; found {outside.size} outside, first "
            f"{scores[outside[0]]} at row {outside[0]}. Pass 1 / (1 + exp(-logit)), or use fit_uniform_mass."
        )


def _coded_labels(labels: ArrayLike, positive: object) -> ArrayLike:
    """Labels as they are, or, where ``positive`` says which value counts as 1, whether they equal it."""
    if positive is None:
        return labels
    array = unmasked(labels, "labels")
    missing = array != array if array.dtype.kind in "fO" else np.zeros(array.shape, np.bool_)
    if array.dtype.kind == "O":
        missing = missing | np.array([one is None for one in array.ravel()]).reshape(array.shape)
    if missing.any():
        raise ValueError(
            f"labels must not be missing; found {int(missing.sum())} missing, first at row "
            f"{int(np.flatnonzero(missing)[0])}. Drop those rows from scores and labels alike."
        )
    is_positive = np.asarray(array == positive)
    if is_positive.shape != array.shape or not is_positive.any():
        values = np.unique(array.astype(str))[:5].tolist()
        raise ValueError(
            f"positive must be a value that the labels have; got {positive!r}, the labels have "
            f"{', '.join(map(repr, values))}. Pass one of these."
        )
    return is_positive


def nan_error(n_nan: int, first: int, remedy: str) -> ValueError:
    """The one message for NaN scores."""
    return ValueError(f"scores must not be NaN; found {n_nan} NaN, first at row {first}. {remedy}")


def label_error(n_wrong: int, first: int, value: float) -> ValueError:
    """The one message for labels outside [0, 1]."""
    found = "1 value" if n_wrong == 1 else f"{n_wrong} values"
    missing = "Drop the rows whose label is missing, from scores and labels alike."
    remedy = "Pass (labels == positive_class)." if value == value else missing
    return ValueError(
        f"labels must be 0/1 or lie in [0, 1]; found {found} outside, first {value} at row {first}. {remedy}"
    )


def is_score_block(column: Array) -> bool:
    """Whether the kernels take the scores as they are: then ``score_block`` of a slice copies nothing."""
    return column.dtype in (np.float64, np.float32) and column.dtype.isnative and column.flags.c_contiguous


def score_block(block: Array) -> Array:
    """A slice of a score column as the kernels take it: contiguous, native float64 or float32, read-only."""
    if block.dtype.kind != "f" or block.dtype.itemsize < np.dtype(np.float32).itemsize:
        if block.dtype.kind in "iu" and block.size and block.dtype.itemsize == np.dtype(np.int64).itemsize:
            _check_exact(int(block.min()), int(block.max()))
        block = block.astype(np.float64)
    block = np.ascontiguousarray(block, dtype=block.dtype.newbyteorder("="))
    if block.flags.writeable:  # one compiled version serves read-only and writable callers
        block = block.view()
        block.flags.writeable = False
    return block


def _check_exact(smallest: int, largest: int) -> None:
    if max(-smallest, largest) > LARGEST_EXACT_INTEGER:
        found = largest if largest > LARGEST_EXACT_INTEGER else smallest
        raise ValueError(
            f"scores given as integers must lie within +-2**53, so that float64 keeps them apart; found "
            f"{found}. Rescale them."
        )


def binary_block(block: Array) -> NDArray[np.uint8] | None:
    """A slice of a label column as 0/1 bytes, or None where some label is neither 0 nor 1."""
    if block.dtype == np.bool_:
        narrow = np.ascontiguousarray(block).view(np.uint8)
    elif block.dtype in (np.uint8, np.int8):
        narrow = np.ascontiguousarray(block).view(np.uint8)
        if narrow.size and narrow.max() > 1:
            return None
    else:
        ones = block == 1
        if not (ones | (block == 0)).all():
            return None
        narrow = ones.view(np.uint8)
    if narrow.flags.writeable:
        narrow = narrow.view()
        narrow.flags.writeable = False
    return narrow


def integer(value: Any, name: str, rule: str) -> int:
    """An int from an int or NumPy integer; bool and float are refused, because they are mistakes."""
    if isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be {rule}; got the bool {value}. Pass an integer.")
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be {rule}; got {value!r}. Pass an integer.") from None


def at_least_zero(value: Any, name: str) -> int:
    """A position, or a number of things of which there may be none."""
    number = integer(value, name, "an integer of at least 0")
    if number < 0:
        raise ValueError(f"{name} must be an integer of at least 0; got {number}. Pass {name}=0.")
    return number


def at_least_one(value: Any, name: str, *, example: int = 1) -> int:
    """A count that makes sense from 1 on."""
    number = integer(value, name, "an integer of at least 1")
    if number < 1:
        raise ValueError(
            f"{name} must be an integer of at least 1; got {number}. Pass for example {name}={example}."
        )
    return number


def bin_number(n_bins: Any) -> int:
    """The number of bins: an integer of at least 1."""
    return at_least_one(n_bins, "n_bins", example=10)


def enough_samples(n: int, n_bins: int) -> None:
    """Algorithm 1 needs one row strictly inside every bin: n >= 2 * n_bins - 1."""
    if n < 2 * n_bins - 1:
        raise ValueError(
            f"n_bins={n_bins} needs at least {2 * n_bins - 1} rows (n >= 2*n_bins - 1); got n = {n}. "
            f"These {n} rows allow at most n_bins={(n + 1) // 2}."
        )


def probability(value: Any, name: str) -> float:
    """A number strictly between 0 and 1."""
    number = real(value, name, "a number strictly between 0 and 1")
    if not 0.0 < number < 1.0:
        raise ValueError(
            f"{name} must be a number strictly between 0 and 1; got {number}. Pass for example {name}=0.1."
        )
    return number


def real(value: Any, name: str, rule: str) -> float:
    """A float from any real scalar."""
    if isinstance(value, bool | np.bool_ | str | bytes):
        raise TypeError(f"{name} must be {rule}; got {value!r}. Pass a number.")
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be {rule}; got {value!r}. Pass a number.") from None


def perturbation(delta: Any) -> float:
    """Algorithm 2's delta: finite, not negative."""
    number = real(delta, "delta", "a finite number of at least 0")
    if not (math.isfinite(number) and number >= 0.0):
        raise ValueError(f"delta must be a finite number of at least 0; got {number}. Pass 0 for none.")
    return number


def choice(value: Any, name: str, options: tuple[str, ...]) -> str:
    """One of a few words."""
    if not isinstance(value, str) or value not in options:
        listed = ", ".join(repr(option) for option in options)
        raise ValueError(f"{name} must be one of {listed}; got {value!r}. Pass {name}={options[0]!r}.")
    return str(value)


def thread_number(threads: Any) -> int:
    """The number of threads; None means every core that the process may use."""
    if threads is None:
        return available_threads()
    number = integer(threads, "threads", "an integer of at least 1, or None for all cores")
    if number < 1:
        raise ValueError(f"threads must be at least 1, or None for all cores; got {number}. Pass threads=1.")
    return number
