"""The one place that calls ``numba.njit``, and that decides where compiled code is kept.

Numba's own cache has three known faults: it raises at import when no folder can be written, it serves
stale machine code after a *callee* in another file has changed, and it leaves old files behind in the
package folder. All three go away when the cache lives in the user's cache folder, under a name that is a
digest of every kernel source.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
import numba.core.caching

Function = TypeVar("Function", bound=Callable[..., object])

MONTH = 30 * 24 * 3600.0
KERNEL_FOLDER = Path(__file__).parent / "_kernels"

# Its attributes come from the environment at import; type checkers cannot know them.
_config: Any = numba.config


def _user_cache_folder() -> Path:
    """Where this platform keeps files that may be deleted at any time."""
    if _config.CACHE_DIR:  # the user's NUMBA_CACHE_DIR wins
        return Path(_config.CACHE_DIR)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", str(Path.home() / "AppData" / "Local")))
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _sources_digest() -> str:
    digest = hashlib.sha256()
    for source in sorted([*KERNEL_FOLDER.glob("*.py"), Path(__file__)]):
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    # A bounds-checked build is other machine code from the same source.
    digest.update(f"boundscheck={_config.BOUNDSCHECK}".encode())
    return digest.hexdigest()[:16]


def _forget_old_kernels(parent: Path) -> None:
    """Remove machine code of other versions that has not been used for a month."""
    for folder in parent.glob("kernels-*"):
        if time.time() - folder.stat().st_mtime > MONTH:
            shutil.rmtree(folder, ignore_errors=True)


def _usable_cache_folder() -> str | None:
    """The cache folder if it can be written, or was filled before it was locked; else None: no cache.

    A container image is warmed up when it is built, and often run read-only or by another user.
    """
    try:
        folder = _user_cache_folder() / "fastbin" / f"kernels-{_sources_digest()}"
    except RuntimeError:  # no home folder can be determined
        return None
    try:
        is_new = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)  # another process may have made it since
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"0")
        os.utime(folder)  # in use today
        if is_new:
            _forget_old_kernels(folder.parent)
    except OSError:
        return str(folder) if _holds_kernels(folder) else None
    return str(folder)


def _holds_kernels(folder: Path) -> bool:
    """Whether there is compiled code to be read in a folder that cannot be written."""
    try:
        return any(folder.glob("*/*.nbi"))
    except OSError:
        return False


CACHE_FOLDER = _usable_cache_folder()
JIT_IS_ON = not _config.DISABLE_JIT


class _ForgivingCache:
    """Numba's cache of one function, in which damage is a miss and a full disk is no error."""

    def __init__(self, cache: Any) -> None:
        self._cache = cache

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        try:
            return self._cache.load_overload(signature, target_context)
        except Exception:  # noqa: BLE001 - a damaged pickle may raise anything
            with contextlib.suppress(OSError):
                self._cache.flush()  # an empty index: the next save starts afresh
            return None

    def save_overload(self, signature: Any, data: Any) -> None:
        with contextlib.suppress(Exception):  # the compiled code is in memory; keeping it is a courtesy
            self._cache.save_overload(signature, data)


_caching: Any = numba.core.caching
# The one that goes by ``numba.config.CACHE_DIR``; its name has changed between versions, its place has not.
_NUMBAS_LOCATOR: Any = _caching.CompileResultCacheImpl._locator_classes[0]  # noqa: SLF001 - no other way


class _Locator(_NUMBAS_LOCATOR):  # type: ignore[misc]
    """Numba's place for cached code, also where it can only be read."""

    def ensure_cache_path(self) -> None:
        with contextlib.suppress(OSError):
            super().ensure_cache_path()


class _CacheFiles(_caching.CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_Locator,)


class _FunctionCache(_caching.FunctionCache):  # type: ignore[misc]
    _impl_class = _CacheFiles


def _compiled(function: Function, *, cache: bool) -> Function:
    dispatcher: Any = numba.njit(nogil=True, error_model="numpy")(function)
    if cache and JIT_IS_ON:
        dispatcher._cache = _ForgivingCache(_FunctionCache(function))  # noqa: SLF001 - as above
    result: Function = dispatcher
    return result


def jit(function: Function) -> Function:
    """Compile on first call: without the GIL, with NumPy's division rules, cached between processes.

    No ``parallel`` (threads are ours, outside: safe under fork and concurrent callers), no ``fastmath``
    (it removes NaN tests), no explicit signatures (they would compile at import).
    """
    if CACHE_FOLDER is None:
        return _compiled(function, cache=False)
    before = _config.CACHE_DIR
    _config.CACHE_DIR = CACHE_FOLDER
    try:
        return _compiled(function, cache=True)
    except RuntimeError:  # "no locator available": the folder vanished, or the source is not a file
        return _compiled(function, cache=False)
    finally:
        _config.CACHE_DIR = before
