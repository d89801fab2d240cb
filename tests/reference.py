"""The oracles: slow twins of the engine, written to be obviously right.

`algorithm_1` and `algorithm_2` follow Gupta & Ramdas (2021) line by line (numbers in comments) with the three
corrections of the theory notes: integer ranks, ties broken by a second key, the last bin closed above.
They use Python integers and fractions, so nothing can overflow or round before the one division
that makes a mean. `fit_vectorised` and `assign_vectorised` are the same in numpy, for larger n; a test
holds them against the slow ones.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15
ULP = 2.0**-52


# --- the hash, in Python integers ---------------------------------------------------------------------


def tag(text):
    """The stream name: eight ASCII bytes read as a big-endian integer."""
    assert len(text) == 8
    return int.from_bytes(text, "big")


ATOM, PRED, SORT, DELTA, TEXT = (
    tag(t) for t in (b"fb.atom ", b"fb.pred ", b"fb.sort ", b"fb.delta", b"fb.text ")
)


def mix(x):
    x ^= x >> 30
    x = x * 0xBF58476D1CE4E5B9 & MASK
    x ^= x >> 27
    x = x * 0x94D049BB133111EB & MASK
    return x ^ x >> 31


def absorb(h, w):
    return mix(mix(h + GOLDEN & MASK) ^ (w & MASK))


def stream(name, *words):
    h = name
    for w in words:
        h = absorb(h, w)
    return h


def row_key(state, i):
    return mix(state + GOLDEN * (i + 1) & MASK)


def text_word(text):
    """The word of a text id: its UTF-8 bytes, eight at a time, little-endian, zero-padded."""
    data = text.encode("utf-8")
    h = stream(TEXT, len(data))
    for start in range(0, len(data), 8):
        h = absorb(h, int.from_bytes(data[start : start + 8].ljust(8, b"\0"), "little"))
    return h


def id_word(row_id):
    return text_word(row_id) if isinstance(row_id, str) else int(row_id) & MASK


def predict_keys(seed, ids):
    state = stream(PRED, seed)
    return [row_key(state, id_word(i)) for i in ids]


# --- labels -------------------------------------------------------------------------------------------


def is_soft(labels):
    return any(y not in (0, 1) for y in labels)


def fixed_point(y, soft):
    """A label in whole units: 1 for 0/1 labels, 2**-62 for soft ones."""
    return int(Fraction(y) * 2**62) if soft else int(y)


def unit(soft):
    return 2**62 if soft else 1


def two_words(total, soft):
    """(hi, lo) of a label sum, as the canonical stream absorbs it."""
    return divmod(total, 2**38) if soft else (total, 0)


# --- the fit ------------------------------------------------------------------------------------------


@dataclass
class ReferenceFit:
    n_samples: int
    n_bins: int
    seed: int
    edges: np.ndarray
    edge_keys: np.ndarray
    edge_labels: np.ndarray
    edge_ties: np.ndarray
    values: np.ndarray
    counts: np.ndarray
    positives: np.ndarray
    interior_counts: np.ndarray
    interior_positives: np.ndarray


FIELDS = tuple(ReferenceFit.__dataclass_fields__)


def ranks(n, n_bins):
    """A_0..A_B in integers: ceil(b * (n + 1) / B)."""
    return [-(-b * (n + 1) // n_bins) for b in range(n_bins + 1)]


def canonical_rows(scores, labels, seed, soft):
    """Every row as (score, key, label, ties): each tie group numbered by decreasing label, then keyed."""
    n = len(scores)
    groups = {}
    for s, y in zip(scores, labels, strict=True):
        groups.setdefault(s, []).append(y)
    rows = []
    below, below_sum = 0, 0
    for s in sorted(groups):
        group = sorted(groups[s], reverse=True)
        k, total = len(group), sum(fixed_point(y, soft) for y in group)
        state = stream(ATOM, seed, n, below, *two_words(below_sum, soft), k, *two_words(total, soft))
        rows += [(s, row_key(state, i), y, k) for i, y in enumerate(group)]
        below, below_sum = below + k, below_sum + total
    return rows


def nudge(values):
    """Distinct values in [0, 1], in the same order, moved by at most B * 2**-52."""
    order = sorted(range(len(values)), key=lambda b: (values[b], b))
    out = [values[b] for b in order]
    base, j, previous = out[0], 0, out[0]
    for i in range(1, len(out)):
        if out[i] > previous:
            base, j, previous = out[i], 0, out[i]
        else:
            j += 1
            previous = base + j * ULP
        out[i] = previous
    for j, i in enumerate(reversed(range(len(out)))):
        limit = 1.0 - j * ULP
        if out[i] <= limit:
            break
        out[i] = limit
    result = [0.0] * len(values)
    for b, v in zip(order, out, strict=True):
        result[b] = v
    return result


def algorithm_1(scores, labels, n_bins, seed=0, boundary_points="exclude", delta=0.0):
    """Algorithm 1 (uniform-mass binning), or with delta > 0 the values of Algorithm 2."""
    # Lines 1-3: the scores; -0.0 is read as 0.0.
    scores = [float(s) + 0.0 for s in scores]
    labels = [float(y) for y in labels]
    n, soft = len(scores), is_soft(labels)
    # Line 4 (Algorithm 2: lines 3-5): order statistics of (score, key), lexicographic; S[0] is S_(1).
    rows = sorted(canonical_rows(scores, labels, seed, soft), key=lambda row: row[:2])
    # Line 5: the labels in that order.
    ordered = [row[2] for row in rows]
    # Lines 6-8: Delta = (n + 1)/B and the ranks A, in integers.
    A = ranks(n, n_bins)
    inner_n, inner_sum, all_n, all_sum, values = [], [], [], [], []
    # Line 9: for b = 1..B
    for b in range(1, n_bins + 1):
        l, u = A[b - 1], A[b]  # noqa: E741  lines 10-11
        # Line 12: Y_(l+1), ..., Y_(u-1); the original method adds Y_(u), except in the last bin.
        inside = [fixed_point(y, soft) for y in ordered[l : u - 1]]
        used = list(inside)
        if boundary_points == "include" and b < n_bins:
            used.append(fixed_point(ordered[u - 1], soft))
        inner_n.append(len(inside))
        inner_sum.append(sum(inside))
        all_n.append(len(used))
        all_sum.append(sum(used))
        # One correctly rounded division (int / int is, in Python).
        mean = sum(used) / (len(used) * unit(soft))
        if delta > 0:
            # Algorithm 2, lines 14-15.
            v = (row_key(stream(DELTA, seed), b - 1) >> 11) * 2.0**-53
            mean = (mean + delta * v) / (1.0 + delta)
        values.append(mean)
    # Line 14: S_(0) = -inf, S_(n+1) = +inf, so no edge is stored for them.
    cuts = [rows[a - 1] for a in A[1:-1]]
    sums = [np.array([t / unit(soft) for t in x], float if soft else np.int64) for x in (all_sum, inner_sum)]
    return ReferenceFit(
        n_samples=n,
        n_bins=n_bins,
        seed=seed,
        edges=np.array([c[0] for c in cuts], float),
        edge_keys=np.array([c[1] for c in cuts], np.uint64),
        edge_labels=np.array([c[2] for c in cuts], float),
        edge_ties=np.array([c[3] for c in cuts], np.int64),
        values=np.array(nudge(values)),
        counts=np.array(all_n, np.int64),
        positives=sums[0],
        interior_counts=np.array(inner_n, np.int64),
        interior_positives=sums[1],
    )


def algorithm_2(scores, labels, n_bins, delta, seed=0):
    """Algorithm 2: the score's perturbation is the second key, the value's is lines 14-15."""
    return algorithm_1(scores, labels, n_bins, seed=seed, delta=delta)


def assign_reference(cal, scores, ids=None, seed=None):
    """Line 15: the bin is the number of cuts (edge, edge key) <= (score, key), compared lexicographically."""
    scores = [float(s) + 0.0 for s in scores]
    keys = predict_keys(cal.seed if seed is None else seed, range(len(scores)) if ids is None else ids)
    cuts = [(float(e), int(k)) for e, k in zip(cal.edges, cal.edge_keys, strict=True)]
    return np.array([sum(c <= (s, u) for c in cuts) for s, u in zip(scores, keys, strict=True)], np.int64)


def predict_reference(cal, scores, ids=None, seed=None):
    return np.asarray(cal.values)[assign_reference(cal, scores, ids, seed)]


def argsort_reference(scores, seed=0):
    state = stream(SORT, seed)
    scores = [float(s) + 0.0 for s in scores]
    return np.array(sorted(range(len(scores)), key=lambda i: (scores[i], row_key(state, i))), np.int64)


# --- the same in numpy, for larger n ------------------------------------------------------------------


def _u(x):
    return np.asarray(x).astype(np.uint64)


def mix_vectorised(x):
    x = x ^ x >> np.uint64(30)
    x = x * np.uint64(0xBF58476D1CE4E5B9)
    x = x ^ x >> np.uint64(27)
    x = x * np.uint64(0x94D049BB133111EB)
    return x ^ x >> np.uint64(31)


def absorb_vectorised(h, w):
    return mix_vectorised(mix_vectorised(h + np.uint64(GOLDEN)) ^ w)


def row_key_vectorised(state, i):
    return mix_vectorised(state + np.uint64(GOLDEN) * (i + np.uint64(1)))


def fit_vectorised(scores, labels, n_bins, seed=0):
    """`algorithm_1` for 0/1 labels in O(n log n) numpy."""
    scores = np.asarray(scores, float) + 0.0
    labels = np.asarray(labels).astype(np.int64)
    n = len(scores)
    order = np.lexsort((-labels, scores))
    s, y = scores[order], labels[order]
    first = np.flatnonzero(np.r_[True, s[1:] != s[:-1]])
    k = np.diff(np.r_[first, n])
    positives = np.add.reduceat(y, first)
    positives_below = np.cumsum(positives) - positives
    zero = np.zeros(len(first), np.uint64)
    state = zero + np.uint64(ATOM)
    for word in (
        zero + np.uint64(seed),
        zero + np.uint64(n),
        first,
        positives_below,
        zero,
        k,
        positives,
        zero,
    ):
        state = absorb_vectorised(state, _u(word))
    group = np.repeat(np.arange(len(first)), k)
    key = row_key_vectorised(state[group], _u(np.arange(n) - first[group]))
    final = np.lexsort((key, group))
    s, y, key = s[final], y[final], key[final]
    a = np.array(ranks(n, n_bins), np.int64)
    total = np.r_[0, np.cumsum(y)]
    counts = np.diff(a) - 1
    inner = total[a[1:] - 1] - total[a[:-1]]
    cut = a[1:-1] - 1
    return ReferenceFit(
        n_samples=n,
        n_bins=n_bins,
        seed=seed,
        edges=s[cut],
        edge_keys=key[cut],
        edge_labels=y[cut],
        edge_ties=k[group[cut]],
        values=np.array(nudge((inner / counts).tolist())),
        counts=counts,
        positives=inner,
        interior_counts=counts,
        interior_positives=inner,
    )


def keys_vectorised(seed, ids):
    return row_key_vectorised(np.uint64(stream(PRED, seed)), _u(np.atleast_1d(ids)))


def assign_vectorised(cal, scores, ids=None, seed=None):
    scores = np.asarray(scores, float) + 0.0
    keys = keys_vectorised(cal.seed if seed is None else seed, np.arange(len(scores)) if ids is None else ids)
    bins = np.zeros(len(scores), np.int64)
    for edge, key in zip(np.asarray(cal.edges), np.asarray(cal.edge_keys), strict=True):
        bins += (scores > edge) | ((scores == edge) & (keys >= key))
    return bins


def argsort_vectorised(scores, seed=0):
    scores = np.asarray(scores, float) + 0.0
    key = row_key_vectorised(np.uint64(stream(SORT, seed)), _u(np.arange(len(scores))))
    return np.lexsort((key, scores))


# --- comparison ---------------------------------------------------------------------------------------


def bits(x):
    """An array as bytes of one dtype per kind, so that equality means equality of bits."""
    x = np.asarray(x)
    if x.dtype.kind == "f":
        return x.astype(np.float64).view(np.uint64)
    return x.astype(np.uint64 if x.dtype.kind == "u" else np.int64)


def assert_same_bits(cal, ref, skip=()):
    """Every field of two fits agrees to the bit (edge_labels by value: the engine may store them small)."""
    for name in FIELDS:
        if name in skip:
            continue
        got, want = np.asarray(getattr(cal, name)), np.asarray(getattr(ref, name))
        if name == "edge_labels":
            got, want = got.astype(float), want.astype(float)
        assert got.shape == want.shape, f"{name}: shape {got.shape}, expected {want.shape}"
        assert (got.dtype.kind == "f") == (want.dtype.kind == "f"), f"{name}: dtype {got.dtype}"
        np.testing.assert_array_equal(bits(got), bits(want), err_msg=name)
