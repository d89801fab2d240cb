"""The fitted object: a partition of the score line plus one number per cell, and what it can promise."""

from __future__ import annotations

import inspect
import os
import warnings
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastbin import _streams, _validate
from fastbin._lazy import lazy
from fastbin._lookup import CutTable
from fastbin._parallel import fresh_array
from fastbin._rowids import ids_from
from fastbin._theorems import Method, certificate, guarantee, intervals
from fastbin.guarantees import Guarantee

Rng = int | np.integer[Any] | np.random.Generator | None
NanPolicy = Literal["raise", "propagate"]
BoundaryPoints = Literal["exclude", "include"]
Compat = Literal["authors"]

ARRAY_FIELDS = (
    "edges", "edge_keys", "edge_labels", "edge_ties", "values", "counts", "positives", "interior_counts",
    "interior_positives",
)  # fmt: skip

# A call with fewer rows than this cannot spread ties over many positions, so its keys would repeat.
ROWS_WITHOUT_WARNING = 1000


class TieWarning(UserWarning):
    """A small call met a score equal to a tied cut and has nothing but row positions to break the tie.

    Examples
    --------
    >>> import warnings
    >>> import fastbin as fb
    >>> calibrator = fb.fit_uniform_mass([0.5] * 9, [0, 1, 1, 0, 1, 0, 1, 1, 0], n_bins=2)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     values = calibrator.predict([0.5])
    >>> caught[0].category is fb.TieWarning
    True
    """


@dataclass(frozen=True, eq=False, repr=False)
class Calibrator:
    """A fitted calibrator: cuts, one calibrated probability per bin, and the counts behind each.

    Made by the ``fit_*`` functions and :func:`fastbin.load`, not by hand. Arrays are read-only.

    Attributes
    ----------
    method : str
        How the cuts and values were chosen, for example "uniform_mass".
    n_samples, n_bins : int
        Calibration rows and bins.
    seed : int
        Seed of the tie keys.
    edges : ndarray of float64
        The n_bins - 1 cut scores, non-decreasing (equal where an atom spans bins).
    edge_keys : ndarray of uint64
        Tie key of each cut.
    edge_labels : ndarray
        Label of the calibration row at each cut.
    edge_ties : ndarray of int64
        Calibration rows at the score of each cut.
    values : ndarray of float64
        Calibrated probability of each bin, all distinct.
    counts, positives : ndarray
        Rows and label sum that each value was averaged over (sums are float64 for soft labels).
    interior_counts, interior_positives : ndarray
        The same strictly between cuts: what the theorems use.
    boundary_points : {"exclude", "include", "authors"}
        Whether a cut's own row is averaged into the bin below it; "authors": it is, and the bins are the
        groups of the authors' own code.
    delta : float
        Algorithm 2's perturbation of the values.
    base_bins : int
        Bins before :meth:`merge_adjacent`; 0 where nothing was merged.
    note : str
        Why there are this many bins, where that was not the caller's choice.

    Examples
    --------
    >>> import numpy as np
    >>> import fastbin as fb
    >>> scores = np.linspace(0, 1, 99)
    >>> calibrator = fb.fit_uniform_mass(scores, scores > 0.5, n_bins=4)
    >>> calibrator
    Calibrator(method='uniform_mass', n_samples=99, n_bins=4)
    >>> calibrator.predict([0.1, 0.9]).round(3)
    array([0., 1.])
    """

    method: str
    n_samples: int
    n_bins: int
    seed: int
    edges: NDArray[np.float64]
    edge_keys: NDArray[np.uint64]
    edge_labels: NDArray[Any]
    edge_ties: NDArray[np.int64]
    values: NDArray[np.float64]
    counts: NDArray[np.int64]
    positives: NDArray[Any]
    interior_counts: NDArray[np.int64]
    interior_positives: NDArray[Any]
    boundary_points: str = "exclude"
    delta: float = 0.0
    base_bins: int = 0
    note: str = ""

    def __post_init__(self) -> None:
        for name in ARRAY_FIELDS:
            array = getattr(self, name)
            if array.flags.writeable:  # a read-only view: the caller's own array stays as it is
                array = array.view()
                array.flags.writeable = False
                object.__setattr__(self, name, array)

    @property
    def soft_labels(self) -> bool:
        """Whether some calibration label was a fraction: then the exact binomial bounds do not apply."""
        return self.positives.dtype.kind == "f"

    def predict(
        self,
        scores: ArrayLike,
        *,
        row_ids: ArrayLike | None = None,
        rng: Rng = None,
        nan: NanPolicy = "raise",
        out: NDArray[Any] | None = None,
        threads: int | None = None,
    ) -> NDArray[Any]:
        """Calibrated probabilities of scores.

        Parameters
        ----------
        scores : array_like
            One-dimensional scores, on the scale of the calibration scores.
        row_ids : array_like of int or str, optional
            What identifies each row. A score equal to a cut goes up or down by the hash of its row id, so
            the same row is treated alike in any batch. Without it the position in this call is used.
        rng : int, numpy.random.Generator or None
            Another stream of keys; None is the calibrator's own. For small calls without row ids, pass one
            generator to all of them: an int gives every call the same keys.
        nan : {"raise", "propagate"}
            What to do with NaN scores.
        out : ndarray of float64 or float32, optional
            Where to write; its content is undefined after an error.
        threads : int, optional
            None means all cores of the process.

        Returns
        -------
        ndarray
            float64 probabilities, or ``out``.

        Examples
        --------
        >>> import fastbin as fb
        >>> calibrator = fb.fit_uniform_mass([0.1, 0.2, 0.3, 0.4, 0.5], [0, 0, 1, 1, 1], n_bins=2)
        >>> calibrator.predict([0.15, 0.45])
        array([0., 1.])
        """
        column = _validate.score_array(scores)
        if out is None:
            out = fresh_array(column.size, np.float64)
        else:
            _check_out(out, column.size)
            if np.may_share_memory(column, out):  # ties are settled after the first values are written
                column = column.copy()
        self._fill(column, self.values, out, np.nan, row_ids, rng, nan, threads)
        return out

    def assign(
        self,
        scores: ArrayLike,
        *,
        row_ids: ArrayLike | None = None,
        rng: Rng = None,
        nan: NanPolicy = "raise",
        threads: int | None = None,
    ) -> NDArray[np.int64]:
        """The bin of each score, 0 .. n_bins - 1 (-1 for NaN under ``nan="propagate"``).

        Parameters
        ----------
        scores, row_ids, rng, nan, threads
            As for :meth:`predict`.

        Returns
        -------
        ndarray of int64

        Examples
        --------
        >>> import fastbin as fb
        >>> calibrator = fb.fit_uniform_mass([0.1, 0.2, 0.3, 0.4, 0.5], [0, 0, 1, 1, 1], n_bins=2)
        >>> calibrator.assign([0.15, 0.45])
        array([0, 1])
        """
        column = _validate.score_array(scores)
        bins = fresh_array(column.size, np.int64)
        self._fill(column, self._bin_numbers, bins, -1, row_ids, rng, nan, threads)
        return bins

    def predict_interval(
        self,
        scores: ArrayLike,
        alpha: float = 0.1,
        *,
        row_ids: ArrayLike | None = None,
        rng: Rng = None,
        nan: NanPolicy = "raise",
        threads: int | None = None,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """For each row, the interval of its bin; with probability 1 - alpha all of them hold at once.

        Parameters
        ----------
        scores, row_ids, rng, nan, threads
            As for :meth:`predict`.
        alpha : float
            Probability that some bin's interval misses.

        Returns
        -------
        lower, upper : ndarray of float64

        Examples
        --------
        >>> import numpy as np
        >>> import fastbin as fb
        >>> scores = np.linspace(0, 1, 99)
        >>> calibrator = fb.fit_uniform_mass(scores, scores > 0.5, n_bins=2)
        >>> lower, upper = calibrator.predict_interval([0.2, 0.8])
        >>> lower.round(2), upper.round(2)
        (array([0.  , 0.93]), array([0.07, 1.  ]))
        """
        lower, upper = self.intervals(alpha)
        bins = self.assign(scores, row_ids=row_ids, rng=rng, nan=nan, threads=threads)
        if nan == "propagate":  # bin -1 takes the NaN at the end
            lower, upper = np.append(lower, np.nan), np.append(upper, np.nan)
        return lower[bins], upper[bins]

    def guarantee(
        self, alpha: float = 0.1, *, method: Method | None = None, candidates: int = 1
    ) -> Guarantee:
        """How far the values can be believed, for any distribution of the data.

        Parameters
        ----------
        alpha : float
            Probability that the statement fails.
        method : str, optional
            "exact", "bonferroni", "hoeffding", "paper_sharp" or "paper", and "a_priori" for a sample split;
            None is the sharpest that covers this fit. A method that is not for this fit is refused.
        candidates : int
            How many calibrators (numbers of bins, methods, seeds) these labels chose among: alpha is
            divided by it.

        Returns
        -------
        Guarantee
            Its ``str()`` is a sentence for a model card.

        Examples
        --------
        >>> import numpy as np
        >>> import fastbin as fb
        >>> scores = np.linspace(0, 1, 1000)
        >>> calibrator = fb.fit_uniform_mass(scores, scores > 0.7, n_bins=10)
        >>> round(calibrator.guarantee(alpha=0.1).conditional, 4)
        0.1313
        """
        return guarantee(self, alpha, method, candidates)

    def intervals(self, alpha: float = 0.1) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """One interval per bin for E[Y | bin]; with probability 1 - alpha all hold at once.

        Clopper-Pearson on the interior counts at level 1 - (1 - alpha)**(1/n_bins); Hoeffding for soft
        labels.

        Parameters
        ----------
        alpha : float
            Probability that some interval misses.

        Returns
        -------
        lower, upper : ndarray of float64

        Examples
        --------
        >>> import fastbin as fb
        >>> calibrator = fb.fit_uniform_mass([0.1, 0.2, 0.3, 0.4, 0.5], [0, 0, 1, 1, 1], n_bins=1)
        >>> lower, upper = calibrator.intervals()
        >>> float(lower[0].round(3)), float(upper[0].round(3))
        (0.189, 0.924)
        """
        return intervals(self, alpha)

    def certificate(self, alpha: float = 0.1) -> NDArray[np.float64]:
        """The realised bound per bin: with probability 1 - alpha, every |value - E[Y | bin]| is within it.

        It uses the labels that were seen, so it is tighter where a value lies near 0 or 1, and it holds
        whatever the values are.

        Parameters
        ----------
        alpha : float
            Probability that some bin is outside its bound.

        Returns
        -------
        ndarray of float64

        Examples
        --------
        >>> import numpy as np
        >>> import fastbin as fb
        >>> scores = np.linspace(0, 1, 99)
        >>> fb.fit_uniform_mass(scores, scores > 0.5, n_bins=2).certificate().round(2)
        array([0.07, 0.07])
        """
        return certificate(self, alpha)

    def merge_adjacent(
        self,
        rule: Literal["monotone", "prune", "equal"] = "monotone",
        *,
        n_bins: int | None = None,
        alpha: float = 0.05,
    ) -> Calibrator:
        """The same with neighbouring bins merged as their labels suggest, and a guarantee that allows for it.

        Parameters
        ----------
        rule : {"monotone", "prune", "equal"}
            "monotone": merge until the values rise with the score. "prune": merge the closest neighbours
            until ``n_bins`` are left. "equal": merge neighbours whose means do not differ at level ``alpha``,
            the closest first.
        n_bins : int, optional
            For "prune".
        alpha : float
            For "equal"; it decides what is merged, and takes nothing from the guarantee.

        Returns
        -------
        Calibrator
            A merged bin averages all labels between its outer cuts, those at the inner cuts included.

        Notes
        -----
        The guarantee is a union over all groups of neighbouring bins, so any rule may choose them.

        Examples
        --------
        >>> import numpy as np
        >>> import fastbin as fb
        >>> rng = np.random.default_rng(0)
        >>> scores = rng.random(2_000)
        >>> calibrator = fb.fit_uniform_mass(scores, rng.random(2_000) < 0.5 * scores, n_bins=40)
        >>> merged = calibrator.merge_adjacent()
        >>> merged.n_bins < 40, bool((np.diff(merged.values) > 0).all())
        (True, True)
        """
        from fastbin._merging import merge_adjacent  # noqa: PLC0415 - it imports this module

        return merge_adjacent(self, rule, n_bins, alpha)

    def summary(self) -> str:
        """The bins as a table.

        Returns
        -------
        str

        Examples
        --------
        >>> import fastbin as fb
        >>> print(fb.fit_uniform_mass([0.1, 0.2, 0.3, 0.4, 0.5], [0, 0, 1, 1, 1], n_bins=2).summary())
        uniform_mass calibrator: 2 bins from 5 rows
        <BLANKLINE>
         bin     from score       to score   rows   positives        value
           1           -inf            0.3      2           0     0.000000
           2            0.3            inf      2           2     1.000000
        """
        return _summary(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain Python data that holds every bit, for JSON.

        Returns
        -------
        dict

        Examples
        --------
        >>> import fastbin as fb
        >>> calibrator = fb.fit_uniform_mass([0.1, 0.2, 0.3], [0, 1, 1], n_bins=2)
        >>> fb.Calibrator.from_dict(calibrator.to_dict()) == calibrator
        True
        """
        from fastbin._calibratorfile import calibrator_to_dict  # noqa: PLC0415 - it imports this module

        return calibrator_to_dict(self)

    @staticmethod
    def from_dict(data: dict[str, Any]) -> Calibrator:
        """The calibrator that :meth:`to_dict` described; anything unsound is refused.

        Parameters
        ----------
        data : dict
            What ``to_dict`` returned, or a parsed model file.

        Returns
        -------
        Calibrator

        Examples
        --------
        >>> import fastbin as fb
        >>> fb.Calibrator.from_dict({"format": "something else"})
        Traceback (most recent call last):
        ...
        fastbin._modelfile.ModelFileError: not a fastbin calibrator: format is 'something else'...
        """
        from fastbin._calibratorfile import calibrator_from_dict  # noqa: PLC0415 - it imports this module

        return calibrator_from_dict(data)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the calibrator to a JSON file that appears whole or not at all.

        Parameters
        ----------
        path : str or path-like
            An existing file is replaced.

        Examples
        --------
        >>> import fastbin as fb, tempfile, pathlib
        >>> calibrator = fb.fit_uniform_mass([0.1, 0.2, 0.3], [0, 1, 1], n_bins=2)
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.json"
        >>> calibrator.save(path)
        >>> fb.load(path) == calibrator
        True
        """
        from fastbin._modelfile import save_dict  # noqa: PLC0415 - it imports this module

        save_dict(self.to_dict(), path)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Calibrator):
            return NotImplemented
        return all(_same_bits(getattr(self, f.name), getattr(other, f.name)) for f in fields(self))

    def __hash__(self) -> int:
        return hash((self.method, self.n_samples, self.n_bins, self.seed, self.values.tobytes()))

    def __repr__(self) -> str:
        return f"Calibrator(method={self.method!r}, n_samples={self.n_samples}, n_bins={self.n_bins})"

    def __str__(self) -> str:
        return self.summary()

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)
        self.__post_init__()

    @lazy
    def _cut_table(self) -> CutTable:
        return CutTable(self.edges, self.edge_keys)

    @lazy
    def _bin_numbers(self) -> NDArray[np.int64]:
        return np.arange(self.n_bins)

    @lazy
    def _own_stream(self) -> int:
        return _streams.stream(_streams.PREDICT, self.seed)

    def _fill(
        self,
        column: NDArray[Any],
        table: NDArray[Any],
        out: NDArray[Any],
        nan_entry: float,
        row_ids: ArrayLike | None,
        rng: Rng,
        nan: NanPolicy,
        threads: int | None,
    ) -> None:
        """out[i] = table[bin of score i], ties by key."""
        _validate.choice(nan, "nan", ("raise", "propagate"))
        state = (
            self._own_stream if rng is None else _streams.stream(_streams.PREDICT, _streams.seed_from(rng))
        )
        ids_of = ids_from(row_ids, column.size)
        n_threads = _validate.thread_number(threads)
        ties, n_nan = self._cut_table.look_up(column, table, out, ids_of, state, n_threads)
        if n_nan and nan == "raise":
            raise _validate.nan_error(
                n_nan,
                int(np.flatnonzero(np.isnan(column))[0]),
                "Drop those rows, or pass nan='propagate' to get NaN for them.",
            )
        if n_nan:
            out[np.isnan(column)] = nan_entry
        if ties.size and row_ids is None and rng is None and column.size < ROWS_WITHOUT_WARNING:
            self._warn_of_repeated_keys(column[ties])

    def _warn_of_repeated_keys(self, tied_scores: NDArray[Any]) -> None:
        tied_edges = self.edges[(self.edge_ties > 1) & (self.edge_keys > 0)]  # below key 0 nothing falls
        n_affected = int(np.isin(tied_scores, tied_edges).sum())
        if n_affected:
            warnings.warn(
                f"{n_affected} of the scores equal a cut that is tied in the calibration data, and this call "
                f"has fewer than {ROWS_WITHOUT_WARNING} rows: row positions would give the same tie keys in "
                "every call, which voids the guarantee. Pass row_ids= (any key of the row), or rng= a "
                "numpy Generator that is kept between calls.",
                TieWarning,
                stacklevel=_callers_level(),
            )


def _callers_level() -> int:
    """The stack level, seen from the caller of this function, of the first frame outside this module."""
    level, frame = 1, inspect.currentframe()
    frame = frame and frame.f_back
    while frame is not None and frame.f_globals.get("__name__") == __name__:
        level, frame = level + 1, frame.f_back
    return level


def _check_out(out: Any, n: int) -> None:
    allowed = (np.dtype(np.float64), np.dtype(np.float32))
    if not isinstance(out, np.ndarray) or out.dtype not in allowed or out.shape != (n,):
        found = f"{out.dtype} of shape {out.shape}" if isinstance(out, np.ndarray) else type(out).__name__
        raise ValueError(
            f"out must be a float64 or float32 array of shape ({n},); got {found}. Pass numpy.empty({n})."
        )
    if not out.flags.writeable or not out.flags.c_contiguous:
        found = "strided" if out.flags.writeable else "read-only"
        raise ValueError(f"out must be writable and contiguous; got a {found} array. Pass numpy.empty({n}).")


def _same_bits(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    return bool(one == other)


def _summary(calibrator: Calibrator) -> str:
    edges = ["-inf", *(f"{edge:.8g}" for edge in calibrator.edges), "inf"]
    digits = ".4f" if calibrator.soft_labels else "d"
    width = max(7, len(str(int(calibrator.counts.max()))) + 2)
    counted = f"{'rows':>{width}}{'positives':>{width + 5}}"
    bins = "1 bin" if calibrator.n_bins == 1 else f"{calibrator.n_bins} bins"
    merged = f", merged from {calibrator.base_bins}," if calibrator.base_bins else ""
    lines = [
        f"{calibrator.method} calibrator: {bins}{merged} from {calibrator.n_samples:,} rows",
        *([calibrator.note] if calibrator.note else []),
        "",
        f"{'bin':>4}{'from score':>15}{'to score':>15}{counted}{'value':>13}",
    ]
    lines += [
        f"{b + 1:>4}{edges[b]:>15}{edges[b + 1]:>15}{calibrator.counts[b]:>{width}d}"
        f"{calibrator.positives[b]:>{width + 5}{digits}}{calibrator.values[b]:>13.6f}"
        f"{'' if calibrator.counts[b] else '  (empty)'}"
        for b in range(calibrator.n_bins)
    ]
    return "\n".join(lines)
