"""What is in the model file of a calibrator, and how it is believed: field by field, then all together.

Floats are in shortest round-trip form, infinities are the strings "inf" and "-inf", tie keys are 16-digit
hex strings. The checksum is over the body with sorted keys, so re-formatting a file is harmless.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastbin._modelfile import LARGEST_FLOAT, LARGEST_INTEGER, Schema, field_error
from fastbin.bounds import boundary_ranks
from fastbin.model import Calibrator

ROUNDING = 2.0**-52
METHODS = ("uniform_mass", "sample_split", "fixed_width", "isotonic", "scaling_binning")
LONGEST_NOTE = 1000
ADDED_IN_SCHEMA_2 = {"base_bins": 0, "note": ""}
SINCE_SCHEMA_1 = (
    "method", "n_samples", "n_bins", "seed", "labels", "boundary_points", "delta", "edges", "edge_keys",
    "edge_labels", "edge_ties", "values", "counts", "positives", "interior_counts", "interior_positives",
)  # fmt: skip
SCHEMA = Schema(
    format="fastbin calibrator",
    version=2,
    fields={**dict.fromkeys(SINCE_SCHEMA_1, 1), **dict.fromkeys(ADDED_IN_SCHEMA_2, 2)},
    reals=("delta", "edges", "values"),
    sums=("edge_labels", "positives", "interior_positives"),
)


def calibrator_to_dict(calibrator: Calibrator) -> dict[str, Any]:
    """Everything a calibrator is, as JSON types, sealed."""
    body = {
        "method": calibrator.method,
        "n_samples": calibrator.n_samples,
        "n_bins": calibrator.n_bins,
        "seed": f"{calibrator.seed:016x}",
        "labels": "soft" if calibrator.soft_labels else "binary",
        "boundary_points": calibrator.boundary_points,
        "delta": calibrator.delta,
        "edges": [_number(edge) for edge in calibrator.edges.tolist()],
        "edge_keys": [f"{key:016x}" for key in calibrator.edge_keys.tolist()],
        "edge_labels": calibrator.edge_labels.tolist(),
        "edge_ties": calibrator.edge_ties.tolist(),
        "values": calibrator.values.tolist(),
        "counts": calibrator.counts.tolist(),
        "positives": calibrator.positives.tolist(),
        "interior_counts": calibrator.interior_counts.tolist(),
        "interior_positives": calibrator.interior_positives.tolist(),
        "base_bins": calibrator.base_bins,
        "note": calibrator.note,
    }
    return SCHEMA.sealed(body)


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else ("inf" if value > 0 else "-inf")


def calibrator_from_dict(data: Any) -> Calibrator:
    """The calibrator described by ``data``; every field is checked before it is believed."""
    SCHEMA.check_seal(data)
    return _checked(_Reader({**ADDED_IN_SCHEMA_2, **data}))


class _Reader:
    """Typed access to the fields of a model, with one error for whatever is not as it should be."""

    def __init__(self, data: dict[str, Any]) -> None:
        self._data = data

    def word(self, name: str, options: tuple[str, ...]) -> str:
        value = self._data[name]
        if value not in options:
            raise field_error(name, f"one of {', '.join(options)}, not {value!r}")
        return str(value)

    def whole(self, name: str, least: int, most: int = LARGEST_INTEGER) -> int:
        value = self._data[name]
        if type(value) is not int or not least <= value <= most:
            raise field_error(name, f"an integer of at least {least}, below 2**63")
        return value

    def text(self, name: str) -> str:
        value = self._data[name]
        if not isinstance(value, str) or len(value) > LONGEST_NOTE or not value.isprintable():
            raise field_error(name, f"text of at most {LONGEST_NOTE} characters")
        return value

    def real(self, name: str) -> float:
        value = self._data[name]
        if type(value) not in (int, float) or not 0 <= value <= LARGEST_FLOAT:
            raise field_error(name, "a finite number of at least 0")
        return float(value)

    def key(self, name: str) -> int:
        return int(self._keys(name, [self._data[name]])[0])

    def keys(self, name: str, size: int) -> NDArray[np.uint64]:
        return np.array(self._keys(name, self._list(name, size)), np.uint64)

    def _keys(self, name: str, values: list[Any]) -> list[int]:
        digits = set("0123456789abcdef")
        if not all(
            isinstance(v, str) and len(v) == len(f"{0:016x}") and digits.issuperset(v) for v in values
        ):
            raise field_error(name, "16-digit hexadecimal text")
        return [int(value, 16) for value in values]

    def _list(self, name: str, size: int) -> list[Any]:
        values = self._data[name]
        if not isinstance(values, list) or len(values) != size:
            raise field_error(name, f"a list of {size} entries")
        return values

    def integers(self, name: str, size: int, most: NDArray[np.int64] | int) -> NDArray[np.int64]:
        values = self._list(name, size)
        if not all(type(value) is int and 0 <= value <= LARGEST_INTEGER for value in values):
            raise field_error(name, "integers of at least 0")
        array = np.array(values, np.int64)
        if (array > most).any():
            raise field_error(name, "no more than the rows they count")
        return array

    def sums(self, name: str, most: NDArray[np.int64] | int, size: int, *, soft: bool) -> NDArray[Any]:
        if not soft:
            return self.integers(name, size, most)
        array = self.numbers(name, size)
        if not ((array >= 0) & (array <= most)).all():
            raise field_error(name, "between 0 and the rows they count")
        return array

    def numbers(self, name: str, size: int) -> NDArray[np.float64]:
        infinities = {"inf": math.inf, "-inf": -math.inf}
        values: list[Any] = [
            infinities.get(v, v) if isinstance(v, str) else v for v in self._list(name, size)
        ]
        is_number = (
            type(v) in (int, float) and (abs(v) <= LARGEST_FLOAT or abs(v) == math.inf) for v in values
        )
        if not all(is_number):
            raise field_error(name, "float64 numbers")
        return np.array(values, np.float64)


def _checked(read: _Reader) -> Calibrator:
    """Build the calibrator, holding the fields against each other."""
    n, n_bins = read.whole("n_samples", 1, LARGEST_INTEGER - 1), read.whole("n_bins", 1)
    method = read.word("method", METHODS)
    soft = read.word("labels", ("binary", "soft")) == "soft"
    edges, edge_keys = read.numbers("edges", n_bins - 1), read.keys("edge_keys", n_bins - 1)
    tied = edges[1:] == edges[:-1]
    rising = (edges[1:] > edges[:-1]) | (tied & (edge_keys[1:] > edge_keys[:-1]))
    if not rising.all():
        raise field_error("edges", "in ascending order, equal ones by ascending key")
    values = read.numbers("values", n_bins)
    if not ((values >= 0) & (values <= 1)).all() or np.unique(values).size != n_bins:
        raise field_error("values", "distinct and within [0, 1]")
    counts = read.integers("counts", n_bins, n)
    interior_counts = read.integers("interior_counts", n_bins, n)
    calibrator = Calibrator(
        method=method,
        n_samples=n,
        n_bins=n_bins,
        seed=read.key("seed"),
        edges=edges,
        edge_keys=edge_keys,
        edge_labels=read.sums("edge_labels", 1, n_bins - 1, soft=soft),
        edge_ties=read.integers("edge_ties", n_bins - 1, n),
        values=values,
        counts=counts,
        positives=read.sums("positives", counts, n_bins, soft=soft),
        interior_counts=interior_counts,
        interior_positives=read.sums("interior_positives", interior_counts, n_bins, soft=soft),
        boundary_points=read.word("boundary_points", ("exclude", "include", "authors")),
        delta=read.real("delta"),
        base_bins=read.whole("base_bins", 0),
        note=read.text("note"),
    )
    _check_counts(calibrator)
    _check_values(calibrator)
    return calibrator


def _check_counts(calibrator: Calibrator) -> None:
    """The counts are those that the method gives."""
    n, n_bins, method = calibrator.n_samples, calibrator.n_bins, calibrator.method
    counts, interior = calibrator.counts, calibrator.interior_counts
    is_rank_based = method in ("uniform_mass", "scaling_binning") and not calibrator.base_bins
    if calibrator.boundary_points != "exclude" and not (is_rank_based and method == "uniform_mass"):
        raise field_error("boundary_points", f"exclude for {method}")
    if calibrator.base_bins and (calibrator.base_bins < n_bins or method in ("isotonic", "scaling_binning")):
        raise field_error("base_bins", "the bins before merging, and 0 where nothing was merged")
    if calibrator.delta and not (is_rank_based and method == "uniform_mass"):
        raise field_error("delta", f"0 for {method}")
    included = np.zeros(n_bins, np.int64)
    if is_rank_based and calibrator.boundary_points == "authors":
        included[:-1] = 1
        sizes = np.diff(np.arange(n_bins + 1) * (n // n_bins) + np.minimum(np.arange(n_bins + 1), n % n_bins))
        if n < n_bins or not np.array_equal(interior, sizes - included):
            raise field_error("interior_counts", "those of numpy.array_split for these n_samples and n_bins")
    elif is_rank_based:
        if n < 2 * n_bins - 1:
            raise field_error("n_samples", "at least 2*n_bins - 1")
        if not np.array_equal(interior, np.diff(boundary_ranks(n, n_bins)) - 1):
            raise field_error("interior_counts", "those of Algorithm 1 for these n_samples and n_bins")
        included[:-1] = calibrator.boundary_points == "include"
    elif method == "isotonic":
        included[1:] = calibrator.edge_ties == 1
    if not np.array_equal(counts, interior + included):
        raise field_error("counts", "interior_counts, plus 1 where a cut's row is included")
    rows = sum(counts.tolist())
    if (method in ("fixed_width", "isotonic") and rows != n) or rows > n or rows == 0:
        raise field_error("counts", "rows that add up to n_samples")
    if method != "fixed_width":
        _, run, cuts_in_run = np.unique(calibrator.edges, return_inverse=True, return_counts=True)
        ties, tied = calibrator.edge_ties, calibrator.edges[1:] == calibrator.edges[:-1]
        if (ties < cuts_in_run[run]).any() or (ties[1:] != ties[:-1])[tied].any():
            raise field_error(
                "edge_ties", "the rows at each cut's score: alike for equal cuts, at least one a cut"
            )
    labels, positives = calibrator.edge_labels, calibrator.positives
    joined = np.append(0, labels) * included if method == "isotonic" else np.append(labels, 0) * included
    rounding = ROUNDING * (n if calibrator.soft_labels else 0)
    if not _within(positives - calibrator.interior_positives - joined, 0, rounding):
        raise field_error("positives", "interior_positives, plus a cut's label where it is included")


def _check_values(calibrator: Calibrator) -> None:
    """The values are the means that the counts say, where they are means of labels."""
    if calibrator.method == "scaling_binning":
        return
    filled = calibrator.counts > 0
    means = calibrator.positives[filled] / calibrator.counts[filled]
    delta, steps = calibrator.delta, calibrator.n_bins + 4
    excess = calibrator.values[filled] * (1 + delta) - means
    if not _within(excess, delta, (1 + delta) * steps * ROUNDING):
        raise field_error("values", "positives / counts, but for delta and the steps that part equal ones")


def _within(excess: NDArray[Any], most: float, rounding: float) -> bool:
    """Whether all numbers lie in [0, most], but for rounding."""
    return bool(((excess >= -rounding) & (excess <= most + rounding)).all())
