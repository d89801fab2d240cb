"""Model files: JSON with a schema version and a checksum, written whole or not at all, never executed.

What every kind of file shares. What is inside is told by the kind's own module, see ``KINDS``.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import secrets
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastbin.model import Calibrator
    from fastbin.platt import PlattScaler

LARGEST_FILE = 256 * 1024 * 1024
LARGEST_INTEGER = 2**63 - 1
LARGEST_FLOAT = sys.float_info.max

# The "format" of a file, and what makes a fitted object of its fields.
KINDS = {
    "fastbin calibrator": ("fastbin._calibratorfile", "calibrator_from_dict"),
    "fastbin platt scaler": ("fastbin._plattfile", "scaler_from_dict"),
}


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


@dataclass(frozen=True)
class Schema:
    """What one kind of file holds.

    Attributes
    ----------
    format
        Its name in the file.
    version
        The newest version, which is written; older ones are read.
    fields
        The fields of the newest version, and the version that brought each.
    reals, sums
        Fields of real numbers, always or where some label is a fraction.
    """

    format: str
    version: int
    fields: Mapping[str, int]
    reals: tuple[str, ...]
    sums: tuple[str, ...]

    def sealed(self, body: dict[str, Any]) -> dict[str, Any]:
        """The fields with format, version and checksum."""
        whole = {"format": self.format, "schema_version": self.version, **body}
        return {**whole, "sha256": self._checksum(whole)}

    def check_seal(self, data: Any) -> None:
        """Refuse what is of another kind or version, has other fields, or was changed."""
        if not isinstance(data, dict):
            raise ModelFileError(
                f"not a {self.format}: expected a JSON object, found {type(data).__name__}. "
                "Pass what to_dict() returned."
            )
        if data.get("format") != self.format:
            raise ModelFileError(
                f"not a {self.format}: format is {data.get('format')!r}. Pass a file written by its save()."
            )
        version = data.get("schema_version")
        if type(version) is not int or not 1 <= version <= self.version:
            raise ModelFileError(
                f"schema version {version!r} is not known to this fastbin, which reads "
                f"up to {self.version}. Upgrade fastbin, or save the model again."
            )
        known = {name for name, since in self.fields.items() if since <= version}
        expected = {"format", "schema_version", "sha256", *known}
        if data.keys() != expected:
            missing, extra = sorted(expected - data.keys()), sorted(map(str, data.keys() - expected))
            raise ModelFileError(f"wrong fields: missing {missing}, unexpected {extra}. Restore the file.")
        try:
            checksum = self._checksum({name: value for name, value in data.items() if name != "sha256"})
        except (ValueError, TypeError) as error:
            raise ModelFileError(
                f"the model has a value that JSON does not allow: {error}. Restore the file."
            ) from None
        if data["sha256"] != checksum:
            raise ModelFileError(
                "the checksum does not match: the model was changed or damaged. Restore the file."
            )

    def _checksum(self, body: dict[str, Any]) -> str:
        """Over sorted keys, with every real number as a float: a tool may have written 0.0 as 0."""
        reals = self.reals + (self.sums if body.get("labels") == "soft" else ())
        uniform = {name: _with_floats(value) if name in reals else value for name, value in body.items()}
        canonical = json.dumps(uniform, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(canonical.encode()).hexdigest()


def _with_floats(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_floats(one) for one in value]
    return float(value) if type(value) is int and abs(value) <= LARGEST_FLOAT else value


def field_error(name: str, rule: str) -> ModelFileError:
    """One error for whatever is not as it should be."""
    return ModelFileError(f"{name} must be {rule}. Restore the file, or fit and save again.")


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


def load(path: str | os.PathLike[str]) -> Calibrator | PlattScaler:
    """Load what ``save`` wrote. Reads data only; nothing in the file is executed.

    Parameters
    ----------
    path : str or path-like
        A model file.

    Returns
    -------
    Calibrator or PlattScaler
        Whichever was saved.

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
        return _fitted(data)
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from None
    except (ValueError, RecursionError) as error:  # bad UTF-8, bad JSON, absurd nesting or numbers
        raise ModelFileError(
            f"{path}: not JSON ({error}). The file is damaged or of another kind; pass one written by save()."
        ) from None


def _fitted(data: Any) -> Calibrator | PlattScaler:
    name = data.get("format") if isinstance(data, dict) else None
    if not isinstance(name, str) or name not in KINDS:
        found = f"format is {name!r}" if isinstance(data, dict) else f"it is a {type(data).__name__}"
        raise ModelFileError(
            f"not a fastbin model: {found}, expected one of {', '.join(KINDS)}. "
            "Pass a file written by save()."
        )
    module, reader = KINDS[name]
    fitted: Calibrator | PlattScaler = getattr(import_module(module), reader)(data)
    return fitted


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
