"""Seeds and hash streams without numba: the same hash as ``_kernels/hashing.py``, for ints and arrays.

A small batch is predicted without loading the compiler, so the hash exists twice; the known answers in
tests/test_hashing.py hold both to the same bits.
"""

from __future__ import annotations

import secrets
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Words = TypeVar("Words", int, NDArray[np.uint64])

MASK = 0xFFFFFFFFFFFFFFFF
GOLDEN = 0x9E3779B97F4A7C15

ATOM = b"fb.atom "
PREDICT = b"fb.pred "
SORT = b"fb.sort "
DELTA = b"fb.delta"
TEXT = b"fb.text "
SPLIT = b"fb.split"
SECOND_PART = b"fb.part2"


def mix(word: Words) -> Words:
    """The bijection of 64-bit words; the masks matter for Python's unbounded ints only."""
    mixed: Any = word  # ints and arrays go through the same arithmetic
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & MASK
    result: Words = mixed ^ (mixed >> 31)
    return result


def absorb(state: int, word: int) -> int:
    """Fold one word into a stream's state."""
    return mix(mix((state + GOLDEN) & MASK) ^ (word & MASK))


def stream(tag: bytes, *words: int) -> int:
    """The state of the stream with this eight-byte tag and these words."""
    state = int.from_bytes(tag, "big")
    for word in words:
        state = absorb(state, word)
    return state


def row_keys(state: int, rows: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Keys of the given rows (or row ids) in a stream."""
    return mix((rows + np.uint64(1)) * np.uint64(GOLDEN) + np.uint64(state))


def seed_from(rng: int | np.integer[Any] | np.random.Generator | None) -> int:
    """A 64-bit seed from what users pass as ``rng``: an int as it is, a generator's draw, or entropy."""
    if isinstance(rng, np.random.Generator):
        return int(rng.integers(0, MASK, dtype=np.uint64, endpoint=True))
    if rng is None:
        return secrets.randbits(64)
    if isinstance(rng, bool | np.bool_) or not isinstance(rng, int | np.integer):
        raise TypeError(
            f"rng must be an int, a numpy.random.Generator or None; got {type(rng).__name__}. "
            "Pass an int such as 0 for a reproducible result."
        )
    if not 0 <= rng <= MASK:
        raise ValueError(f"rng must lie in 0..2**64-1; got {rng}. Pass a seed in that range.")
    return int(rng)
