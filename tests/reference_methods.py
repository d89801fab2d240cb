"""Slow twins of the other calibrators: loops over rows, Python integers, nothing clever."""

import math

import numpy as np

import reference as ref


def _means(sums, counts, soft):
    return [
        total / (count * ref.unit(soft)) if count else math.nan
        for total, count in zip(sums, counts, strict=True)
    ]


def _numbers(sums, soft):
    return np.array([total / ref.unit(soft) for total in sums], float if soft else np.int64)


def count_cells(scores, labels, soft, n_bins, bin_of):
    counts, sums = [0] * n_bins, [0] * n_bins
    for i, (score, label) in enumerate(zip(scores, labels, strict=True)):
        b = bin_of(float(score) + 0.0, i)
        counts[b] += 1
        sums[b] += ref.fixed_point(float(label), soft)
    return counts, sums


def fixed_width(scores, labels, n_bins, empty="midpoint"):
    """Cell of s: how many of 1/K, 2/K, ... are <= s. Returns counts, positives, values."""
    soft = ref.is_soft([float(y) for y in labels])
    edges = [i / n_bins for i in range(1, n_bins)]
    counts, sums = count_cells(scores, labels, soft, n_bins, lambda s, i: sum(e <= s for e in edges))
    values = _means(sums, counts, soft)
    filled = [b for b in range(n_bins) if counts[b]]
    for b in range(n_bins):
        if not counts[b]:
            nearest = min(filled, key=lambda c: (abs(c - b), c))
            values[b] = (b + 0.5) / n_bins if empty == "midpoint" else values[nearest]
    return np.array(counts), _numbers(sums, soft), np.array(ref.nudge(values))


def split_rows(n, split, seed):
    """Positions of the first part: the floor(split * n) smallest hashes."""
    state = ref.stream(ref.tag(b"fb.split"), seed)
    order = sorted(range(n), key=lambda i: ref.row_key(state, i))
    return set(order[: math.floor(split * n)])


def sample_split(scores, labels, n_bins, split=0.5, seed=0):
    """Cuts by Algorithm 1 on the first part; rows of the second part keyed by their position."""
    n = len(scores)
    first = split_rows(n, split, seed)
    rows = sorted(first)
    cuts = ref.algorithm_1([scores[i] for i in rows], [labels[i] for i in rows], n_bins, seed)
    keys = ref.stream(ref.tag(b"fb.part2"), seed)
    pairs = list(zip(cuts.edges.tolist(), cuts.edge_keys.tolist(), strict=True))
    rest = [i for i in range(n) if i not in first]
    soft = ref.is_soft([float(labels[i]) for i in rest])
    counts, sums = count_cells(
        [scores[i] for i in rest],
        [labels[i] for i in rest],
        soft,
        n_bins,
        lambda s, j: sum(pair <= (s, ref.row_key(keys, rest[j])) for pair in pairs),
    )
    overall = sum(sums) / (len(rest) * ref.unit(soft))
    values = [overall if math.isnan(mean) else mean for mean in _means(sums, counts, soft)]
    ties = [sum(float(s) + 0.0 == edge for s in scores) for edge in cuts.edges]
    return cuts, np.array(counts), _numbers(sums, soft), np.array(ref.nudge(values)), ties


def scaling_binning(scores, labels, n_bins, seed=0):
    """The mean score of the rows strictly between the cuts of Algorithm 1."""
    scores = [float(s) + 0.0 for s in scores]
    labels = [float(y) for y in labels]
    rows = sorted(ref.canonical_rows(scores, labels, seed, ref.is_soft(labels)), key=lambda row: row[:2])
    A = ref.ranks(len(scores), n_bins)
    means = []
    for b in range(n_bins):
        inside = [ref.fixed_point(row[0], True) for row in rows[A[b] : A[b + 1] - 1]]
        means.append(sum(inside) / (len(inside) * ref.unit(True)))
    return np.array(ref.nudge(means))


def authors(scores, labels, n_bins, seed=0):
    """numpy.array_split of the ordered rows; cells (a, b]; every row averaged."""
    scores, labels = [float(s) + 0.0 for s in scores], [float(y) for y in labels]
    soft = ref.is_soft(labels)
    rows = sorted(ref.canonical_rows(scores, labels, seed, soft), key=lambda row: row[:2])
    groups = [[rows[i] for i in part] for part in np.array_split(np.arange(len(rows)), n_bins)]
    counts = [len(group) for group in groups]
    sums = [sum(ref.fixed_point(row[2], soft) for row in group) for group in groups]
    upper = [group[-1][:2] for group in groups[:-1]]
    return np.array(counts), _numbers(sums, soft), np.array(ref.nudge(_means(sums, counts, soft))), upper
