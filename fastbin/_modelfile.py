"""Model files: JSON with a schema version and a checksum, written whole or not at all, never executed.

Floats are in shortest round-trip form, infinities are the strings "inf" and "-inf", tie keys are 16-digit
hex strings. The checksum is over the body with sorted keys, so re-formatting a file is harmless.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import os
import secrets
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastbin.bounds import boundary_ranks
from fastbin.model import Calibrator

FORMAT = "fastbin calibrator"
SCHEMA_VERSION = 2
LARGEST_FILE = 256 * 1024 * 1024
LARGEST_INTEGER = 2**63 - 1
LARGEST_FLOAT = sys.float_info.max
ROUNDING = 2.0**-52

FIELDS = (
    "method", "n_samples", "n_bins", "seed", "labels", "boundary_points", "delta", "edges", "edge_keys",
    "edge_labels", "edge_ties", "values", "counts", "positives", "interior_counts", "interior_positives",
    "base_bins", "note",
)  # fmt: skip
ADDED_IN_SCHEMA_2 = {"base_bins": 0, "note": ""}
REAL_FIELDS = ("delta", "edges", "values")
SUM_FIELDS = ("edge_labels", "positives", "interior_positives")
METHODS = ("uniform_mass", "sample_split", "fixed_width", "isotonic", "scaling_binning")
LONGEST_NOTE = 1000


class ModelFileError(ValueError):
    """A file or dictionary that is not a sound fastbin model.

    Examples
    --------
    >>> import fastbin as fb
    >>> try:
    ...     fb.Calibrator.from_dict({})
    ... except fb.ModelFileError as error:
    ...     print("refused")
    refused
    """


def calibrator_to_dict(calibrator: Calibrator) -> dict[str, Any]:
    """Everything a calibrator is, as JSON types, with format, schema version and checksum."""
    body = {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
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
    return {**body, "sha256": _checksum(body)}


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else ("inf" if value > 0 else "-inf")


def _checksum(body: dict[str, Any]) -> str:
    """Over sorted keys, with every real number as a float: a tool may have written 0.0 as 0."""
    reals = REAL_FIELDS + (SUM_FIELDS if body.get("labels") == "soft" else ())
    uniform = {name: _with_floats(value) if name in reals else value for name, value in body.items()}
    canonical = json.dumps(uniform, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _with_floats(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_floats(one) for one in value]
    return float(value) if type(value) is int and abs(value) <= LARGEST_FLOAT else value


def calibrator_from_dict(data: Any) -> Calibrator:
    """The calibrator described by ``data``; every field is checked before it is believed."""
    if not isinstance(data, dict):
        raise ModelFileError(f"not a fastbin model: expected a JSON object, found {type(data).__name__}.")
    if data.get("format") != FORMAT:
        raise ModelFileError(
            f"not a fastbin model: format is {data.get('format')!r}, expected {FORMAT!r}. "
            "Pass a file written by Calibrator.save."
        )
    version = data.get("schema_version")
    if type(version) is not int or not 1 <= version <= SCHEMA_VERSION:
        raise ModelFileError(
            f"schema version {version!r} is not known to this fastbin, which reads "
            f"up to {SCHEMA_VERSION}. Upgrade fastbin, or save the model again."
        )
    known = set(FIELDS) - (ADDED_IN_SCHEMA_2.keys() if version == 1 else set())
    expected = {"format", "schema_version", "sha256", *known}
    if data.keys() != expected:
        missing, extra = sorted(expected - data.keys()), sorted(map(str, data.keys() - expected))
        raise ModelFileError(f"wrong fields: missing {missing}, unexpected {extra}. Restore the file.")
    body = {name: value for name, value in data.items() if name != "sha256"}
    try:
        checksum = _checksum(body)
    except (ValueError, TypeError) as error:
        raise ModelFileError(f"the model has a value that JSON does not allow: {error}.") from None
    if data["sha256"] != checksum:
        raise ModelFileError(
            "the checksum does not match: the model was changed or damaged. Restore the file."
        )
    return _checked(_Reader({**ADDED_IN_SCHEMA_2, **data}))


class _Reader:
    """Typed access to the fields of a model, with one error for whatever is not as it should be."""

    def __init__(self, data: dict[str, Any]) -> None:
        self._data = data

    def fail(self, name: str, rule: str) -> ModelFileError:
        return ModelFileError(f"{name} must be {rule}. Restore the file, or fit and save again.")

    def word(self, name: str, options: tuple[str, ...]) -> str:
        value = self._data[name]
        if value not in options:
            raise self.fail(name, f"one of {', '.join(options)}, not {value!r}")
        return str(value)

    def whole(self, name: str, least: int, most: int = LARGEST_INTEGER) -> int:
        value = self._data[name]
        if type(value) is not int or not least <= value <= most:
            raise self.fail(name, f"an integer of at least {least}, below 2**63")
        return value

    def text(self, name: str) -> str:
        value = self._data[name]
        if not isinstance(value, str) or len(value) > LONGEST_NOTE or not value.isprintable():
            raise self.fail(name, f"text of at most {LONGEST_NOTE} characters")
        return value

    def real(self, name: str) -> float:
        value = self._data[name]
        if type(value) not in (int, float) or not 0 <= value <= LARGEST_FLOAT:
            raise self.fail(name, "a finite number of at least 0")
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
            raise self.fail(name, "16-digit hexadecimal text")
        return [int(value, 16) for value in values]

    def _list(self, name: str, size: int) -> list[Any]:
        values = self._data[name]
        if not isinstance(values, list) or len(values) != size:
            raise self.fail(name, f"a list of {size} entries")
        return values

    def integers(self, name: str, size: int, most: NDArray[np.int64] | int) -> NDArray[np.int64]:
        values = self._list(name, size)
        if not all(type(value) is int and 0 <= value <= LARGEST_INTEGER for value in values):
            raise self.fail(name, "integers of at least 0")
        array = np.array(values, np.int64)
        if (array > most).any():
            raise self.fail(name, "no more than the rows they count")
        return array

    def sums(self, name: str, most: NDArray[np.int64] | int, size: int, *, soft: bool) -> NDArray[Any]:
        if not soft:
            return self.integers(name, size, most)
        array = self.numbers(name, size)
        if not ((array >= 0) & (array <= most)).all():
            raise self.fail(name, "between 0 and the rows they count")
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
            raise self.fail(name, "float64 numbers")
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
        raise read.fail("edges", "in ascending order, equal ones by ascending key")
    values = read.numbers("values", n_bins)
    if not ((values >= 0) & (values <= 1)).all() or np.unique(values).size != n_bins:
        raise read.fail("values", "distinct and within [0, 1]")
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
    _check_counts(read, calibrator)
    _check_values(read, calibrator)
    return calibrator


def _check_counts(read: _Reader, calibrator: Calibrator) -> None:
    """The counts are those that the method gives."""
    n, n_bins, method = calibrator.n_samples, calibrator.n_bins, calibrator.method
    counts, interior = calibrator.counts, calibrator.interior_counts
    is_rank_based = method in ("uniform_mass", "scaling_binning") and not calibrator.base_bins
    if calibrator.boundary_points != "exclude" and not (is_rank_based and method == "uniform_mass"):
        raise read.fail("boundary_points", f"exclude for {method}")
    if calibrator.base_bins and (calibrator.base_bins < n_bins or method in ("isotonic", "scaling_binning")):
        raise read.fail("base_bins", "the bins before merging, and 0 where nothing was merged")
    if calibrator.delta and not (is_rank_based and method == "uniform_mass"):
        raise read.fail("delta", f"0 for {method}")
    included = np.zeros(n_bins, np.int64)
    if is_rank_based and calibrator.boundary_points == "authors":
        included[:-1] = 1
        sizes = np.diff(np.arange(n_bins + 1) * (n // n_bins) + np.minimum(np.arange(n_bins + 1), n % n_bins))
        if n < n_bins or not np.array_equal(interior, sizes - included):
            raise read.fail("interior_counts", "those of numpy.array_split for these n_samples and n_bins")
    elif is_rank_based:
        if n < 2 * n_bins - 1:
            raise read.fail("n_samples", "at least 2*n_bins - 1")
        if not np.array_equal(interior, np.diff(boundary_ranks(n, n_bins)) - 1):
            raise read.fail("interior_counts", "those of Algorithm 1 for these n_samples and n_bins")
        included[:-1] = calibrator.boundary_points == "include"
    elif method == "isotonic":
        included[1:] = calibrator.edge_ties == 1
    if not np.array_equal(counts, interior + included):
        raise read.fail("counts", "interior_counts, plus 1 where a cut's row is included")
    rows = sum(counts.tolist())
    if (method in ("fixed_width", "isotonic") and rows != n) or rows > n or rows == 0:
        raise read.fail("counts", "rows that add up to n_samples")
    if method != "fixed_width":
        _, run, cuts_in_run = np.unique(calibrator.edges, return_inverse=True, return_counts=True)
        ties, tied = calibrator.edge_ties, calibrator.edges[1:] == calibrator.edges[:-1]
        if (ties < cuts_in_run[run]).any() or (ties[1:] != ties[:-1])[tied].any():
            raise read.fail(
                "edge_ties", "the rows at each cut's score: alike for equal cuts, at least one a cut"
            )
    labels, positives = calibrator.edge_labels, calibrator.positives
    joined = np.append(0, labels) * included if method == "isotonic" else np.append(labels, 0) * included
    rounding = ROUNDING * (n if calibrator.soft_labels else 0)
    if not _within(positives - calibrator.interior_positives - joined, 0, rounding):
        raise read.fail("positives", "interior_positives, plus a cut's label where it is included")


def _check_values(read: _Reader, calibrator: Calibrator) -> None:
    """The values are the means that the counts say, where they are means of labels."""
    if calibrator.method == "scaling_binning":
        return
    filled = calibrator.counts > 0
    means = calibrator.positives[filled] / calibrator.counts[filled]
    delta, steps = calibrator.delta, calibrator.n_bins + 4
    excess = calibrator.values[filled] * (1 + delta) - means
    if not _within(excess, delta, (1 + delta) * steps * ROUNDING):
        raise read.fail("values", "positives / counts, but for delta and the steps that part equal ones")


def _within(excess: NDArray[Any], most: float, rounding: float) -> bool:
    """Whether all numbers lie in [0, most], but for rounding."""
    return bool(((excess >= -rounding) & (excess <= most + rounding)).all())


def save_dict(data: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Write JSON to a temporary file beside the target and move it into place; links are followed."""
    content = (json.dumps(data, indent=1, allow_nan=False) + "\n").encode()
    if len(content) > LARGEST_FILE:
        raise ValueError(
            f"a model file has at most {LARGEST_FILE} bytes; this one would have {len(content)}. "
            "Fit with fewer bins."
        )
    temporary = None
    try:
        target = Path(os.path.realpath(path))  # Path.resolve treats loops otherwise in every version
        if target.is_symlink():
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))  # noqa: TRY301 - as below
        if target.exists() and not target.is_file():
            raise _not_a_file(target)  # noqa: TRY301 - it becomes the same error as the system's own
        temporary = target.with_name(f".{secrets.token_hex(8)}.tmp")
        with temporary.open("xb") as file:  # the mode of a new file, by the user's umask
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            temporary.chmod(target.stat().st_mode & 0o777)
        temporary.replace(target)
    except BaseException as error:
        if temporary is not None:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
        if isinstance(error, OSError | ValueError | TypeError):
            raise _path_error(error, path, "a file in a folder that can be written", "another path") from None
        raise
    _sync_folder(target.parent)


def _not_a_file(path: Path) -> OSError:
    return OSError(errno.EISDIR if path.is_dir() else errno.EINVAL, "not a regular file")


def _path_error(error: Exception, path: Any, rule: str, remedy: str) -> Exception:
    """The same kind of error, about the path that the user gave and not the temporary one."""
    shown = os.fspath(path) if isinstance(path, os.PathLike) else path
    what = f"path must be {rule}; got {shown!r}"
    if isinstance(error, OSError):
        return OSError(error.errno or errno.EIO, f"{what} ({error.strerror}). Pass {remedy}")
    return type(error)(f"{what} ({error}). Pass {remedy}.")  # not a path at all, or a NUL character in it


def _sync_folder(folder: Path) -> None:
    """Make the move itself durable, where the system can."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def load(path: str | os.PathLike[str]) -> Calibrator:
    """Load a calibrator that ``save`` wrote. Reads data only; nothing in the file is executed.

    Parameters
    ----------
    path : str or path-like
        A model file.

    Returns
    -------
    Calibrator

    Raises
    ------
    ModelFileError
        If the file is not a sound fastbin model.
    OSError
        If it cannot be read.

    Examples
    --------
    >>> import fastbin as fb, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.json"
    >>> fb.fit_uniform_mass([0.1, 0.2, 0.3], [0, 1, 1], n_bins=2, rng=7).save(path)
    >>> fb.load(path).seed
    7
    """
    content = _content(path)
    if len(content) > LARGEST_FILE:
        raise ModelFileError(
            f"{path} has over {LARGEST_FILE} bytes, the most of a model file. Pass a file written by save()."
        )
    try:
        data = json.loads(content.decode("utf-8"), parse_constant=_refuse_constant)
        return calibrator_from_dict(data)
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from None
    except (ValueError, RecursionError) as error:  # bad UTF-8, bad JSON, absurd nesting or numbers
        raise ModelFileError(
            f"{path}: not JSON ({error}). The file is damaged or of another kind; pass one written by save()."
        ) from None


def _content(path: str | os.PathLike[str]) -> bytes:
    """The first LARGEST_FILE + 1 bytes of a regular file."""
    try:
        file_path = Path(path)
        if file_path.exists() and not file_path.is_file():
            raise _not_a_file(file_path)
        with file_path.open("rb") as file:
            return file.read(LARGEST_FILE + 1)
    except (OSError, ValueError, TypeError) as error:
        raise _path_error(error, path, "a model file that can be read", "a file written by save()") from None


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not allowed")
