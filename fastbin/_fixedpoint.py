"""Label sums that do not depend on the order of the rows: integers, rounded once at the end.

A label is one 64-bit word: a soft label y is floor(y * 2**62), a 0/1 label is y * 2**38. A sum of labels is
two int64 limbs, of the words' high bits and of their low 38 bits, brought to 0 <= low < 2**38 by ``carry``.
So the high limb of a sum counts 2**-24 for soft labels, and positives for 0/1 labels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastbin._kernels.ties import LIMB

Limbs = NDArray[np.int64]

HIGH_BITS = 24
LOW_BITS = LIMB
FRACTION_BITS = HIGH_BITS + LOW_BITS
LOW_MASK = (1 << LOW_BITS) - 1

# A low limb is below 2**38, so fewer than 2**25 of them fit an int64 between two carries.
ROWS_BETWEEN_CARRIES = 1 << 24


def words(labels: NDArray[Any]) -> NDArray[np.int64]:
    """The words of soft labels in [0, 1]; every step is exact but the last floor."""
    scaled = labels.astype(np.float64) * float(1 << HIGH_BITS)
    high = np.floor(scaled)
    low = np.floor((scaled - high) * float(1 << LOW_BITS))
    return (high.astype(np.int64) << LOW_BITS) | low.astype(np.int64)


def binary_words(labels: NDArray[Any]) -> NDArray[np.int64]:
    """The words of 0/1 labels."""
    return labels.astype(np.int64) << LOW_BITS


def soft_from_binary(label_words: NDArray[np.int64]) -> NDArray[np.int64]:
    """The words of 0/1 labels, as those of soft ones."""
    return label_words << HIGH_BITS


def total(label_words: NDArray[np.int64], *, soft: bool) -> tuple[Any, Any]:
    """The limbs of the sum of fewer than 2**25 words."""
    if not soft:
        return label_words.sum() >> LOW_BITS, 0
    return carry((label_words >> LOW_BITS).sum(), (label_words & LOW_MASK).sum())


def carry(high: Any, low: Any) -> tuple[Any, Any]:
    """The same sums with 0 <= low < 2**38; works for differences too (the shift rounds down)."""
    return high + (low >> LOW_BITS), low & LOW_MASK


def quotients(sums: Limbs, divisors: NDArray[np.int64], *, soft: bool) -> NDArray[np.float64]:
    """(n, 2) sums divided by counts, each rounded once. A soft sum is divided as a Python integer ratio."""
    if not soft:
        return np.asarray(sums[:, 0] / divisors, dtype=np.float64)
    ratios = [
        ((high << LOW_BITS) + low) / (divisor << FRACTION_BITS)
        for (high, low), divisor in zip(sums.tolist(), divisors.tolist(), strict=True)
    ]
    return np.array(ratios, dtype=np.float64)


def numbers(sums: Limbs, *, soft: bool) -> NDArray[Any]:
    """(n, 2) sums for people: int64 counts of positives, or float64 sums of soft labels."""
    if not soft:
        return sums[:, 0].copy()
    return quotients(sums, np.ones(sums.shape[0], np.int64), soft=True)
