"""Rows taken out of the data, to be ordered exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Keys = NDArray[np.uint64]

NO_COPIES: Ints = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class Pool:
    """Rows by order key and label word (`fastbin._fixedpoint`), and how many copies of each (None: one)."""

    keys: Keys
    labels: Ints
    copies: Ints | None = None

    @staticmethod
    def joined(pools: Sequence[Pool]) -> Pool:
        """All rows of several pools."""
        if len(pools) == 1:
            return pools[0]
        folded = any(pool.copies is not None for pool in pools)
        return Pool(
            np.concatenate([pool.keys for pool in pools] or [np.empty(0, np.uint64)]),
            np.concatenate([pool.labels for pool in pools] or [np.empty(0, np.int64)]),
            np.concatenate([pool.multiplicity() for pool in pools]) if folded else None,
        )

    def multiplicity(self) -> Ints:
        """Copies of each row."""
        return np.ones(self.keys.size, np.int64) if self.copies is None else self.copies

    def n_rows(self) -> int:
        """Rows, copies included."""
        return self.keys.size if self.copies is None else int(self.copies.sum())

    def folded(self) -> Pool:
        """The same rows ordered by (key, label), equal ones counted: an atom of soft labels becomes small."""
        if self.keys.size == 0:
            return self
        order = np.lexsort((self.labels, self.keys))
        keys, labels = self.keys[order], self.labels[order]
        starts = np.flatnonzero(np.append(True, (keys[1:] != keys[:-1]) | (labels[1:] != labels[:-1])))
        copies = np.add.reduceat(self.multiplicity()[order], starts)
        return Pool(keys[starts], labels[starts], copies)

    def labels_at(self, key: np.uint64) -> Ints:
        """Label words of the rows at one score, largest first, copies written out; the pool is folded."""
        begin, end = np.searchsorted(self.keys, key), np.searchsorted(self.keys, key, side="right")
        return np.repeat(self.labels[begin:end], self.multiplicity()[begin:end])[::-1]


NO_ROWS = Pool.joined([])
