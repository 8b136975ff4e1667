"""Sort keys as words: unsigned integers whose order is the order of the rows.

Each sort column becomes one or more 64-bit words, most significant first, with direction and
position of nulls folded in; sorting rows is then sorting words.  How many words a column has
follows from its dtype (for strings also from `chunks`, which all partitions share), so that words
of different partitions can be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from dask_rcylon.columns.column import (
    BYTES,
    CATEGORY,
    MASKED,
    PLAIN,
    form_of,
    masked_values,
    plain_values,
    string_buffers,
    unwrapped,
)
from dask_rcylon.kernels.cpu import string_words

UInt64 = npt.NDArray[np.uint64]

#: The most chunks of 8 bytes that a string key is compared in; a longer one by its prefix.
MAX_CHUNKS = 32

_SIGN = np.uint64(1 << 63)
_LAST = np.uint64(0xFFFFFFFFFFFFFFFF)
_FIRST = np.uint64(0)


def sortable(dtype: Any) -> bool:
    """Tell whether a column of this dtype can be turned into words."""
    form = form_of(dtype)
    if isinstance(dtype, np.dtype):
        return form == PLAIN and dtype.kind in "biufmM" and dtype.itemsize <= 8
    if form == BYTES and isinstance(dtype, pd.ArrowDtype):
        return True
    return form in (PLAIN, MASKED, BYTES, CATEGORY)


def string_chunks(arrays: Sequence[Any]) -> int:
    """Return the chunks of 8 bytes that the longest string among the keys needs."""
    longest = 0
    for array in arrays:
        if form_of(array.dtype) == BYTES:
            offsets, _, _ = string_buffers(array)
            longest = max(longest, int(np.diff(offsets).max(initial=0)))
    return -(-longest // 8)


def sort_words(
    arrays: Sequence[Any], ascending: Sequence[bool], na_position: str, chunks: int
) -> UInt64:
    """Turn sort columns into words.

    Parameters
    ----------
    arrays : sequence of arrays (n,)
        Sort columns, the most significant first; `sortable` must hold for each.
    ascending : sequence of bool
        Direction of each.
    na_position : {"first", "last"}
        Where nulls go, whatever the direction.
    chunks : int
        8-byte chunks for strings.

    Returns
    -------
    uint64 array (k, n)
    """
    last = na_position == "last"
    words: list[UInt64] = []
    for array, up in zip(arrays, ascending, strict=True):
        words += _column_words(unwrapped(array), up, last, chunks)
    return np.vstack(words)


def _column_words(array: Any, up: bool, last: bool, chunks: int) -> list[UInt64]:
    dtype = array.dtype
    form = form_of(dtype)
    if form == BYTES:
        offsets, data, validity = string_buffers(array)
        table = string_words(offsets, data, chunks, not up)
        missing = None if validity is None else validity == 0
        if missing is not None:
            table[:, missing] = 0
        return [_null_word(missing, table.shape[1], last), *table]
    if form == CATEGORY:
        codes = np.asarray(array.codes).astype(np.int64)
        return [_in_word((codes + 1).view(np.uint64), codes < 0, up, last)]
    if form == MASKED:
        values, validity = masked_values(array)
        missing = None if validity is None else validity == 0
        table = np.stack([word if up else ~word for word in _value_words(values, dtype)])
        if missing is not None:
            table[:, missing] = 0
        return [_null_word(missing, table.shape[1], last), *table]
    values = plain_values(array)
    word = _number_word(values if values.dtype.kind not in "mM" else values.view(np.int64))
    if values.dtype.kind == "f":
        return [_in_word(word, np.isnan(values), up, last)]
    if values.dtype.kind in "mM" or not isinstance(dtype, np.dtype):
        # The least integer is NaT: every time is above it, so that one step down is free.
        return [_in_word(word, values.view(np.int64) == np.iinfo(np.int64).min, up, last)]
    return [word if up else ~word]


def _in_word(word: UInt64, missing: npt.NDArray[np.bool_], up: bool, last: bool) -> UInt64:
    """Put nulls at an end of the word's range, which no value takes.

    Values lie above 0 (0 is NaT, the code of null, or below all floats), so that after a step down
    the greatest word is free, and before it the least.
    """
    if last:
        word = word - np.uint64(1)
        word = word if up else np.uint64(0xFFFFFFFFFFFFFFFE) - word
        return np.where(missing, _LAST, word)
    return np.where(missing, _FIRST, word if up else ~word + np.uint64(1))


def _null_word(missing: Any, rows: int, last: bool) -> UInt64:
    if missing is None:
        missing = np.zeros(rows, bool)
    return (missing if last else ~missing).astype(np.uint64)


def _number_word(values: npt.NDArray[Any]) -> UInt64:
    """Return numbers as unsigned integers of the same order."""
    if values.dtype.kind == "f":
        bits = (values.astype(np.float64) + 0.0).view(np.uint64)
        return np.where(bits & _SIGN, ~bits, bits | _SIGN)
    if values.dtype.kind in "bu":
        return values.astype(np.uint64)
    return values.astype(np.int64).view(np.uint64) ^ _SIGN


def _value_words(values: npt.NDArray[Any], dtype: Any) -> list[UInt64]:
    """Return the words of the values of a masked column."""
    if not isinstance(dtype, pd.ArrowDtype):
        return [_number_word(values)]
    type_ = dtype.pyarrow_dtype
    if pa.types.is_decimal128(type_):
        return [values[:, 1] ^ _SIGN, values[:, 0].copy()]
    if pa.types.is_boolean(type_) or pa.types.is_unsigned_integer(type_):
        return [_number_word(values)]
    kind = "f" if pa.types.is_floating(type_) else "i"
    numbers = values.view(f"{kind}{values.dtype.itemsize}")
    word = _number_word(numbers)
    if kind == "f":
        word = np.where(np.isnan(numbers), _LAST, word)
    return [word]
