"""Pairs of key columns in the type in which pandas compares them.

Which type that is depends on both dtypes: numbers have a common one, times are compared in the
finer unit, categories by code if they are the same and by value if not.  A pair that the kernels
can't compare exactly as pandas does is left to pandas.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from dask_rcylon.columns import arrow
from dask_rcylon.columns.column import (
    BYTES,
    CATEGORY,
    MASKED,
    PLAIN,
    all_strings,
    form_of,
    masked_values,
    numpy_dtype,
    plain_values,
    string_buffers,
)
from dask_rcylon.columns.times import tick
from dask_rcylon.kernels.cpu import take_var

UInt8 = npt.NDArray[np.uint8]
UInt64 = npt.NDArray[np.uint64]
Int64 = npt.NDArray[np.int64]

_NAN_BITS = np.float64(np.nan).view(np.uint64)
_NAT_BITS = np.uint64(1 << 63)


@dataclass
class Words:
    """A key column of fixed width.

    Attributes
    ----------
    words : uint64 array (k, n)
        Rows are equal if all k words are.
    null : uint8 array (n,) or None
        Non-zero where the key is null, the words then being 0; None also where nulls have words of
        their own (NaN, NaT).
    """

    words: UInt64
    null: UInt8 | None = None


@dataclass
class Strings:
    """A key column of strings: value i is ``data[offsets[i]:offsets[i+1]]``.

    Attributes
    ----------
    offsets, data : int64 array (n + 1,) and uint8 array
        The strings.
    null : uint8 array (n,) or None
        Non-zero where the key is null.
    """

    offsets: Int64
    data: UInt8
    null: UInt8 | None


Pair = tuple[Words, Words] | tuple[Strings, Strings]


def normalise(left: Any, right: Any) -> Pair | None:
    """Bring a pair of key columns to one type.

    Parameters
    ----------
    left, right : arrays (n,) and (m,)
        A key column of both sides.

    Returns
    -------
    pair of Words or pair of Strings, or None
        What the kernels compare; None if they can't do these dtypes exactly.
    """
    if form_of(left.dtype) == CATEGORY or form_of(right.dtype) == CATEGORY:
        return _category_pair(left, right)
    strings = [_strings(side) for side in (left, right)]
    if strings[0] is not None and strings[1] is not None:
        return strings[0], strings[1]
    if left.dtype == right.dtype and _is_binary(left.dtype):
        return _bytes(left), _bytes(right)
    ticks = (tick(left.dtype), tick(right.dtype))
    if ticks[0] is not None and ticks[1] is not None:
        return _times(left, right, ticks[0], ticks[1])
    if isinstance(left.dtype, pd.PeriodDtype) and left.dtype == right.dtype:
        return _plain_words(plain_values(left)), _plain_words(plain_values(right))
    if isinstance(left.dtype, pd.ArrowDtype) or isinstance(right.dtype, pd.ArrowDtype):
        return _arrow_pair(left, right)
    return _numbers(left, right)


def _category_pair(left: Any, right: Any) -> Pair | None:
    """Compare categories by code if they are the same, otherwise by value."""
    if left.dtype == right.dtype:
        # Equal unordered dtypes may still list their categories in different orders.
        right = pd.Categorical(right).set_categories(left.categories)
        return _codes(left), _codes(right)
    tables = [getattr(side, "categories", side) for side in (left, right)]
    pair = normalise(*tables)
    if pair is None:
        return None
    dtype = tables[0].dtype
    categorical = [form_of(side.dtype) == CATEGORY for side in (left, right)]
    if isinstance(pair[0], Words):
        if dtype != tables[1].dtype or form_of(dtype) != PLAIN:
            return None  # pandas compares objects then, which have their own idea of equality
        sides = zip((left, right), categorical, strict=True)
        if dtype.kind in "biu" and any(known and (side.codes < 0).any() for side, known in sides):
            return None  # no integer stands for null, and in one case pandas makes that an error
    keys: list[Any] = [
        _decoded(key, side.codes, dtype) if known else key
        for key, side, known in zip(pair, (left, right), categorical, strict=True)
    ]
    return keys[0], keys[1]


def _decoded(key: Any, codes: Any, dtype: Any) -> Words | Strings:
    """Give each row the key of its category."""
    codes = np.asarray(codes).astype(np.int64)
    missing = codes < 0
    if isinstance(key, Strings):
        # Nulls point at an empty string behind all others.
        offsets = np.append(key.offsets, key.offsets[-1])
        codes[missing] = len(offsets) - 2
        null = missing.view(np.uint8) if missing.any() else None
        return Strings(*take_var(offsets, key.data, codes), null)
    null_word = np.full((1, 1), _NAN_BITS if dtype.kind == "f" else _NAT_BITS)
    words = np.append(key.words, null_word, axis=1)
    codes[missing] = words.shape[1] - 1
    return Words(words[:, codes])


def _codes(array: Any) -> Words:
    # The code of null, -1, equals itself and no other.
    return _plain_words(np.asarray(array.codes).astype(np.int64))


def _plain_words(values: npt.NDArray[Any]) -> Words:
    """Return 8-byte values as words; equal floats get equal words, NaN included."""
    if values.dtype.kind == "f":
        floats = values.astype(np.float64) + 0.0  # -0.0 becomes 0.0
        words = floats.view(np.uint64)
        missing = np.isnan(floats)
        if missing.any():
            words[missing] = _NAN_BITS
        return Words(words[np.newaxis])
    if values.dtype.kind == "u":
        return Words(values.astype(np.uint64, copy=False)[np.newaxis])
    return Words(values.astype(np.int64, copy=False).view(np.uint64)[np.newaxis])


def _strings(array: Any) -> Strings | None:
    dtype = array.dtype
    if form_of(dtype) == BYTES:
        return None if _is_binary(dtype) else _bytes(array)
    if dtype == np.dtype(object):
        chunk = all_strings(np.asarray(array, dtype=object))
        if chunk is not None:
            return Strings(*arrow.var_buffers(chunk), _inverse(arrow.validity_bytes(chunk)))
    return None


def _bytes(array: Any) -> Strings:
    offsets, data, validity = string_buffers(array)
    return Strings(offsets, data, _inverse(validity))


def _is_binary(dtype: Any) -> bool:
    """Tell whether an Arrow dtype holds bytes that are no text."""
    return isinstance(dtype, pd.ArrowDtype) and (
        pa.types.is_binary(dtype.pyarrow_dtype) or pa.types.is_large_binary(dtype.pyarrow_dtype)
    )


def _inverse(validity: UInt8 | None) -> UInt8 | None:
    return None if validity is None else (validity == 0).view(np.uint8)


def _times(left: Any, right: Any, one: int, two: int) -> tuple[Words, Words] | None:
    """Bring times to the finer of two units."""
    if isinstance(left.dtype, pd.ArrowDtype) or isinstance(right.dtype, pd.ArrowDtype):
        return _arrow_pair(left, right)
    if np.dtype(left.dtype.kind) != np.dtype(right.dtype.kind) or (
        isinstance(left.dtype, pd.DatetimeTZDtype) != isinstance(right.dtype, pd.DatetimeTZDtype)
    ):
        return None
    finer = min(one, two)
    words = []
    for side, unit in ((left, one), (right, two)):
        if unit % finer:
            return None
        ticks = plain_values(side).view(np.int64)
        factor = unit // finer
        if factor > 1:
            missing = ticks == np.iinfo(np.int64).min
            known = ticks[~missing]
            if len(known) and max(-int(known.min()), int(known.max())) > 2**63 // factor - 1:
                return None  # a value that the finer unit can't hold: pandas says what happens
            ticks = np.where(missing, ticks, ticks * np.where(missing, 1, factor))
        words.append(_plain_words(ticks))
    return words[0], words[1]


def _arrow_pair(left: Any, right: Any) -> tuple[Words, Words] | None:
    """Compare Arrow columns of one fixed-width type."""
    if left.dtype != right.dtype or form_of(left.dtype) != MASKED:
        return None
    if pa.types.is_float16(left.dtype.pyarrow_dtype):
        return None  # pandas refuses them
    return _arrow_words(left), _arrow_words(right)


def _arrow_words(array: Any) -> Words:
    values, validity = masked_values(array)
    type_ = array.dtype.pyarrow_dtype
    if pa.types.is_decimal128(type_):
        words = np.ascontiguousarray(values.T)
    elif pa.types.is_floating(type_):
        words = _plain_words(values.view(f"f{values.dtype.itemsize}")).words
    else:
        words = values.astype(np.uint64)[np.newaxis]
    return _nulled(words, validity)


def _nulled(words: UInt64, validity: UInt8 | None) -> Words:
    if validity is None:
        return Words(words)
    return Words(np.where(validity != 0, words, np.uint64(0)), _inverse(validity))


def _numbers(left: Any, right: Any) -> tuple[Words, Words] | None:
    """Bring numbers to their common type, as pandas' ``find_common_type`` has it."""
    kinds = []
    for side in (left, right):
        form = form_of(side.dtype)
        if form == PLAIN and isinstance(side.dtype, np.dtype) and side.dtype.kind in "biuf":
            kinds.append(side.dtype)
        elif form == MASKED:
            kinds.append(numpy_dtype(side.dtype))
        else:
            return None
    masked = any(form_of(side.dtype) == MASKED for side in (left, right))
    common = np.result_type(*kinds)
    if common.itemsize > 8 or (masked and common.kind == "f"):
        # With a mask, NaN and NA are two things; pandas knows which meets which.
        return None
    if np.dtype(np.float16) in kinds:
        return None  # which pandas refuses or not, depending on how many keys there are
    words = []
    for side in (left, right):
        if form_of(side.dtype) == MASKED:
            values, validity = masked_values(side)
        else:
            values, validity = plain_values(side), None
        words.append(_nulled(_plain_words(values.astype(common, copy=False)).words, validity))
    return words[0], words[1]
