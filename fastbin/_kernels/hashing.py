"""The 64-bit hash behind every tie key, and the order-preserving integer key of a score.

Fixed to the bit: model files, exports and other engines rely on it. CONTRIBUTING.md has the definition,
tests/test_hashing.py the known answers. Every operand is a ``np.uint64``: numba turns a mixed
signed/unsigned expression into a signed one, and ``>>`` would then shift in copies of the sign.
"""

import numpy as np

from fastbin._jit import jit

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MULTIPLIER_1 = np.uint64(0xBF58476D1CE4E5B9)
MULTIPLIER_2 = np.uint64(0x94D049BB133111EB)
SIGN_BIT = np.uint64(0x8000000000000000)
ZERO = np.uint64(0)
ONE = np.uint64(1)
SHIFT_30 = np.uint64(30)
SHIFT_27 = np.uint64(27)
SHIFT_31 = np.uint64(31)
SHIFT_32 = np.uint64(32)
SHIFT_63 = np.uint64(63)
BYTE = np.uint64(8)
WORD_BYTES = 8


@jit
def mix(x):
    """A bijection of 64-bit words in which every input bit moves every output bit."""
    x = (x ^ (x >> SHIFT_30)) * MULTIPLIER_1
    x = (x ^ (x >> SHIFT_27)) * MULTIPLIER_2
    return x ^ (x >> SHIFT_31)


@jit
def absorb(state, word):
    """Fold one word into a stream's state."""
    return mix(mix(state + GOLDEN) ^ word)


@jit
def row_key(state, row):
    """Key of a row in a stream; distinct rows have distinct keys, because every step is a bijection."""
    return mix(state + GOLDEN * (row + ONE))


@jit
def order_key(score):
    """A 64-bit integer that orders as the score does; -0.0 and 0.0 share one. NaN is the caller's affair."""
    bits = np.float64(score + 0.0).view(np.uint64)  # adding 0.0 turns -0.0 into 0.0
    # Negative numbers: flip all bits. Others: flip the sign bit.
    return bits ^ ((ZERO - (bits >> SHIFT_63)) | SIGN_BIT)


@jit
def order_keys(scores, keys):
    """Fill ``keys`` with the order keys of the scores; returns how many scores are NaN. O(n)."""
    n_nan = 0
    for i in range(scores.size):
        score = scores[i]
        keys[i] = order_key(score)
        n_nan += score != score
    return n_nan


@jit
def text_words(data, starts, tag, words):
    """Hash byte strings to words: string i is ``data[starts[i]:starts[i + 1]]``. O(bytes)."""
    for i in range(starts.size - 1):
        begin, end = starts[i], starts[i + 1]
        state = absorb(tag, np.uint64(end - begin))
        for at in range(begin, end, WORD_BYTES):
            word = np.uint64(0)
            for j in range(min(WORD_BYTES, end - at)):
                word |= np.uint64(data[at + j]) << (BYTE * np.uint64(j))
            state = absorb(state, word)
        words[i] = state
