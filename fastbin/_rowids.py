"""Row ids as 64-bit words: integers of any width as they are, text by the package's own hash."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastbin import _streams
from fastbin._lookup import SMALL_BATCH, IdsOf
from fastbin._validate import unmasked

WORD_BYTES = 8


def positions(rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Without row ids, a row is known by its position in the call."""
    return rows.astype(np.uint64)


def ids_from(row_ids: ArrayLike | None, n: int) -> IdsOf:
    """A function that gives the words of the rows at given positions; text is hashed only where asked for."""
    if row_ids is None:
        return positions
    ids = _id_column(row_ids)
    if ids.shape != (n,):
        raise ValueError(
            f"row_ids must be one-dimensional with one id per score; got shape {ids.shape} for {n} scores. "
            "Pass for example the table's primary key."
        )
    if ids.dtype.kind in "iu":
        return lambda rows: ids[rows].astype(np.int64 if ids.dtype.kind == "i" else np.uint64).view(np.uint64)
    if ids.dtype.kind in "US":
        return lambda rows: text_words(ids[rows].tolist())
    if ids.dtype.kind in "OT":  # Python strings, bytes or ints, and NumPy's variable-width strings
        _check_kinds(ids.tolist())
        return lambda rows: _object_words(ids[rows].tolist())
    raise TypeError(
        f"row_ids must be integers or text; got dtype {ids.dtype}. Pass a key that identifies the row, "
        "or row_ids.astype(str)."
    )


def _id_column(row_ids: ArrayLike) -> NDArray[Any]:
    """Ids as an array; a list is looked at before NumPy would turn [1, "a"] into text."""
    if isinstance(row_ids, list | tuple):
        _check_kinds(row_ids)
        column = np.empty(len(row_ids), object)
        column[:] = row_ids
        return column
    return unmasked(row_ids, "row_ids")


def _check_kinds(ids: Sequence[Any]) -> None:
    kinds = {type(one) for one in ids}
    uniform = (
        all(issubclass(kind, str) for kind in kinds)
        or all(issubclass(kind, bytes) for kind in kinds)
        or all(issubclass(kind, int | np.integer) and kind is not bool for kind in kinds)
    )
    if not uniform:
        found = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise TypeError(f"row_ids must be all integers or all text; found {found}. Convert with str().")


def _object_words(ids: list[Any]) -> NDArray[np.uint64]:
    if isinstance(ids[0], str | bytes):
        return text_words(ids)
    return np.array([int(one) & _streams.MASK for one in ids], np.uint64)


def text_words(texts: list[str] | list[bytes]) -> NDArray[np.uint64]:
    """The words of text ids: their UTF-8 bytes, hashed."""
    # A lone surrogate has no UTF-8; it is hashed all the same.
    encoded = [text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text for text in texts]
    if len(encoded) <= SMALL_BATCH:
        return np.array([_one_word(data) for data in encoded], np.uint64)
    from fastbin._kernels.hashing import text_words as hash_all  # noqa: PLC0415 - loads the compiler

    starts = np.concatenate([[0], np.cumsum([len(data) for data in encoded])]).astype(np.int64)
    words = np.empty(len(encoded), np.uint64)
    tag = np.uint64(int.from_bytes(_streams.TEXT, "big"))
    hash_all(np.frombuffer(b"".join(encoded), np.uint8), starts, tag, words)
    return words


def _one_word(data: bytes) -> int:
    words = (int.from_bytes(data[at : at + WORD_BYTES], "little") for at in range(0, len(data), WORD_BYTES))
    return _streams.stream(_streams.TEXT, len(data), *words)
