"""Which rows of two frames match: key columns in the form that the join kernels take.

Each pair of key columns is brought to the type in which pandas would compare it.  Pairs for which
that can't be done exactly are not tried: the answer is None, and pandas joins the bucket.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    plain_values,
    string_buffers,
    unwrapped,
)
from dask_rcylon.columns.times import tick
from dask_rcylon.kernels.cpu import factorize_bytes, join_bytes, join_fixed, take_var

UInt8 = npt.NDArray[np.uint8]
UInt64 = npt.NDArray[np.uint64]
Int64 = npt.NDArray[np.int64]

_NAN_BITS = np.float64(np.nan).view(np.uint64)
_NAT_BITS = np.uint64(1 << 63)


@dataclass
class _Words:
    """A key column of fixed width."""

    words: UInt64  # (k, n)
    null: UInt8 | None = None


@dataclass
class _Strings:
    """A key column of strings."""

    offsets: Int64
    data: UInt8
    null: UInt8 | None


def indexers(left: Sequence[Any], right: Sequence[Any], how: str) -> tuple[Int64, Int64] | None:
    """Find the pairs of rows of a join.

    Parameters
    ----------
    left, right : sequences of arrays (n,) and (m,)
        Key columns of both sides, as pandas would compare them.
    how : {"inner", "left", "right", "outer", "leftsemi"}
        Which rows without a match remain.

    Returns
    -------
    (left_indexer, right_indexer) : int64 arrays, or None
        Row numbers, -1 where there is none; None if the kernels can't do these dtypes exactly.
    """
    pairs: list[tuple[_Words, _Words] | tuple[_Strings, _Strings]] = []
    for columns in zip(left, right, strict=True):
        key = _normalise(unwrapped(columns[0]), unwrapped(columns[1]))
        if key is None:
            return None
        pairs.append(key)
    keep = (how in ("left", "outer"), how in ("right", "outer"), how == "leftsemi")
    if len(pairs) == 1:
        one, two = pairs[0]
        if isinstance(one, _Strings) and isinstance(two, _Strings):
            return join_bytes(
                one.offsets, one.data, one.null, two.offsets, two.data, two.null, *keep
            )
        assert isinstance(one, _Words) and isinstance(two, _Words)
        return join_fixed(one.words, one.null, two.words, two.null, *keep)
    sides: tuple[list[UInt64], list[UInt64]] = ([], [])
    for one, two in pairs:
        if isinstance(one, _Strings) and isinstance(two, _Strings):
            codes = factorize_bytes(
                one.offsets, one.data, one.null, two.offsets, two.data, two.null
            )
            for rows, code in zip(sides, codes, strict=True):
                rows.append(code[np.newaxis])
            continue
        assert isinstance(one, _Words) and isinstance(two, _Words)
        nullable = one.null is not None or two.null is not None
        for rows, side in zip(sides, (one, two), strict=True):
            rows.append(side.words)
            if nullable:
                null = np.zeros(side.words.shape[1], np.uint8) if side.null is None else side.null
                rows.append(null.astype(np.uint64)[np.newaxis])
    return join_fixed(np.vstack(sides[0]), None, np.vstack(sides[1]), None, *keep)


def _normalise(left: Any, right: Any) -> tuple[_Words, _Words] | tuple[_Strings, _Strings] | None:
    """Bring a pair of key columns to one type."""
    if form_of(left.dtype) == CATEGORY or form_of(right.dtype) == CATEGORY:
        return _category_pair(left, right)
    strings = [_strings(side) for side in (left, right)]
    if strings[0] is not None and strings[1] is not None:
        return strings[0], strings[1]
    ticks = (tick(left.dtype), tick(right.dtype))
    if ticks[0] is not None and ticks[1] is not None:
        return _times(left, right, ticks[0], ticks[1])
    if isinstance(left.dtype, pd.PeriodDtype) and left.dtype == right.dtype:
        return _plain_words(plain_values(left)), _plain_words(plain_values(right))
    if isinstance(left.dtype, pd.ArrowDtype) or isinstance(right.dtype, pd.ArrowDtype):
        return _arrow_pair(left, right)
    return _numbers(left, right)


def _category_pair(
    left: Any, right: Any
) -> tuple[_Words, _Words] | tuple[_Strings, _Strings] | None:
    """Compare categories by code if they are the same, otherwise by value."""
    if left.dtype == right.dtype:
        # Equal unordered dtypes may still list their categories in different orders.
        right = pd.Categorical(right).set_categories(left.categories)
        return _codes(left), _codes(right)
    tables = [getattr(side, "categories", side) for side in (left, right)]
    pair = _normalise(*tables)
    if pair is None:
        return None
    dtype = tables[0].dtype
    categorical = [form_of(side.dtype) == CATEGORY for side in (left, right)]
    if isinstance(pair[0], _Words):
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


def _decoded(key: Any, codes: Any, dtype: Any) -> _Words | _Strings:
    """Give each row the key of its category."""
    codes = np.asarray(codes).astype(np.int64)
    missing = codes < 0
    if isinstance(key, _Strings):
        # Nulls point at an empty string behind all others.
        offsets = np.append(key.offsets, key.offsets[-1])
        codes[missing] = len(offsets) - 2
        null = missing.view(np.uint8) if missing.any() else None
        return _Strings(*take_var(offsets, key.data, codes), null)
    null_word = np.full((1, 1), _NAN_BITS if dtype.kind == "f" else _NAT_BITS)
    words = np.append(key.words, null_word, axis=1)
    codes[missing] = words.shape[1] - 1
    return _Words(words[:, codes])


def _codes(array: Any) -> _Words:
    # The code of null, -1, equals itself and no other.
    return _plain_words(np.asarray(array.codes).astype(np.int64))


def _plain_words(values: npt.NDArray[Any]) -> _Words:
    """Return 8-byte values as words; equal floats get equal words, NaN included."""
    if values.dtype.kind == "f":
        floats = values.astype(np.float64) + 0.0  # -0.0 becomes 0.0
        words = floats.view(np.uint64)
        missing = np.isnan(floats)
        if missing.any():
            words[missing] = _NAN_BITS
        return _Words(words[np.newaxis])
    if values.dtype.kind == "u":
        return _Words(values.astype(np.uint64, copy=False)[np.newaxis])
    return _Words(values.astype(np.int64, copy=False).view(np.uint64)[np.newaxis])


def _strings(array: Any) -> _Strings | None:
    dtype = array.dtype
    if form_of(dtype) == BYTES:
        if isinstance(dtype, pd.ArrowDtype) and not (
            pa.types.is_string(dtype.pyarrow_dtype) or pa.types.is_large_string(dtype.pyarrow_dtype)
        ):
            return None
        offsets, data, validity = string_buffers(array)
        return _Strings(offsets, data, _inverse(validity))
    if dtype == np.dtype(object):
        chunk = all_strings(np.asarray(array, dtype=object))
        if chunk is not None:
            return _Strings(*arrow.var_buffers(chunk), _inverse(arrow.validity_bytes(chunk)))
    return None


def _inverse(validity: UInt8 | None) -> UInt8 | None:
    return None if validity is None else (validity == 0).view(np.uint8)


def _times(left: Any, right: Any, one: int, two: int) -> tuple[_Words, _Words] | None:
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


def _arrow_pair(left: Any, right: Any) -> tuple[_Words, _Words] | None:
    """Compare Arrow columns of one fixed-width type."""
    if left.dtype != right.dtype or form_of(left.dtype) != MASKED:
        return None
    if pa.types.is_float16(left.dtype.pyarrow_dtype):
        return None  # pandas refuses them
    return _arrow_words(left), _arrow_words(right)


def _arrow_words(array: Any) -> _Words:
    values, validity = masked_values(array)
    type_ = array.dtype.pyarrow_dtype
    if pa.types.is_decimal128(type_):
        words = np.ascontiguousarray(values.T)
    elif pa.types.is_floating(type_):
        words = _plain_words(values.view(f"f{values.dtype.itemsize}")).words
    else:
        words = values.astype(np.uint64)[np.newaxis]
    return _nulled(words, validity)


def _nulled(words: UInt64, validity: UInt8 | None) -> _Words:
    if validity is None:
        return _Words(words)
    return _Words(np.where(validity != 0, words, np.uint64(0)), _inverse(validity))


def _numbers(left: Any, right: Any) -> tuple[_Words, _Words] | None:
    """Bring numbers to their common type, as pandas' ``find_common_type`` has it."""
    kinds = []
    for side in (left, right):
        form = form_of(side.dtype)
        if form == PLAIN and isinstance(side.dtype, np.dtype) and side.dtype.kind in "biuf":
            kinds.append(side.dtype)
        elif form == MASKED:
            kinds.append(
                np.dtype(
                    bool if isinstance(side.dtype, pd.BooleanDtype) else side.dtype.numpy_dtype
                )
            )
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
