"""The universal hash of key columns.

Rows that pandas would call equal must hash alike, whatever dtypes hold them: the side they are on
and the stage that asks make no difference.  The kernels' hash is by value; this module turns each
dtype into one of the kinds of values they know.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from decimal import Decimal
from numbers import Real
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
    form_of,
    masked_values,
    plain_values,
    string_buffers,
    to_arrow,
)
from dask_rcylon.columns.times import tick
from dask_rcylon.kernels.cpu import NULL_HASH, hash_bytes, hash_codes, hash_numbers, hash_ticks

UInt64 = npt.NDArray[np.uint64]

#: Hash of values whose equality with others is their own affair. One hash for all is right, merely
#: unbalanced.
_OTHER = np.uint64(0x1B873593CC9E2D51)
#: Decimals below this are exact as floats, and so is a power of ten up to the 22nd: their quotient
#: is rounded once and does not depend on the scale at which the decimal is written.
_EXACT, _EXACT_POWER = 2**53, 22


def hash_keys(arrays: Sequence[Any]) -> UInt64:
    """Hash rows by their key columns.

    Parameters
    ----------
    arrays : sequence of Series, Index or arrays (n,)
        Key columns.

    Returns
    -------
    uint64 array (n,)
    """
    out = np.empty(len(arrays[0]), np.uint64)
    for number, array in enumerate(arrays):
        _hash_column(array, out, number > 0)
    return out


def _hash_column(array: Any, out: UInt64, combine: bool) -> None:
    dtype = array.dtype
    form = form_of(dtype)
    nanoseconds = tick(dtype)
    if form == PLAIN and not (isinstance(dtype, np.dtype) and dtype.kind == "c"):
        values = plain_values(array)
        if isinstance(dtype, np.dtype) and nanoseconds is None:
            hash_numbers(values, None, out, combine)
        else:
            hash_ticks(values.view(np.int64), nanoseconds or 1, None, out, combine)
    elif form == MASKED:
        _hash_masked(array, nanoseconds, out, combine)
    elif form == BYTES:
        hash_bytes(*string_buffers(array), out, combine)
    elif form == CATEGORY:
        categorical = getattr(array, "array", array)
        codes = np.asarray(categorical.codes, dtype=np.int64)
        hash_codes(codes, hash_keys([categorical.categories]), out, combine)
    else:
        _hash_objects(array, out, combine)


def _hash_masked(array: Any, nanoseconds: int | None, out: UInt64, combine: bool) -> None:
    values, validity = masked_values(array)
    type_ = array.dtype.pyarrow_dtype if isinstance(array.dtype, pd.ArrowDtype) else None
    if nanoseconds is not None:
        assert type_ is not None
        signed = values.view(np.int32 if type_.bit_width == 32 else np.int64)
        hash_ticks(signed.astype(np.int64), nanoseconds, validity, out, combine)
    elif type_ is None or pa.types.is_boolean(type_):
        hash_numbers(values, validity, out, combine)
    elif pa.types.is_decimal128(type_):
        hash_numbers(_decimals(array, values, type_.scale), validity, out, combine)
    else:
        numbers = values.view(np.dtype(type_.to_pandas_dtype()))
        hash_numbers(numbers, validity, out, combine)


def _decimals(array: Any, words: npt.NDArray[Any], scale: int) -> npt.NDArray[np.float64]:
    """Round decimals to floats, equal ones to equal ones."""
    low = words[:, 0].view(np.int64)
    high = words[:, 1].view(np.int64)
    if not 0 <= scale <= _EXACT_POWER:
        exact = np.zeros(len(low), bool)
    else:
        exact = (high == low >> 63) & (low > -_EXACT) & (low < _EXACT)
    floats = low.astype(np.float64) / 10.0 ** max(scale, 0)
    if not exact.all():
        inexact = np.flatnonzero(~exact)
        items = to_arrow(array).take(pa.array(inexact)).to_pylist()
        floats[inexact] = [0.0 if item is None else _as_float(item) for item in items]
    return floats


def _hash_objects(array: Any, out: UInt64, combine: bool) -> None:
    if isinstance(array.dtype, pd.ArrowDtype):
        items: Any = to_arrow(array).to_pylist()
    else:
        items = np.asarray(array, dtype=object)
        strings = all_strings(items)
        if strings is not None:
            buffers = arrow.var_buffers(strings)
            hash_bytes(*buffers, arrow.validity_bytes(strings), out, combine)
            return
    hashes = np.fromiter((hash_scalar(item) for item in items), np.uint64, len(items))
    hash_codes(np.arange(len(items)), hashes, out, combine)


def all_strings(items: npt.NDArray[Any]) -> pa.Array | None:
    """Return an object array as Arrow strings, or None if it holds anything but str and nulls."""
    try:
        return arrow.single(pa.array(items, type=pa.large_string(), from_pandas=True))
    except (pa.ArrowException, TypeError, ValueError):
        return None


def hash_scalar(item: Any) -> np.uint64:
    """Hash one Python object as the columns hash its value."""
    try:
        if item is None or item is pd.NaT or item is pd.NA or item != item:
            return NULL_HASH
        if isinstance(item, str):
            return _hash_text(item.encode(errors="surrogatepass"))
        if isinstance(item, (bytes, bytearray)):
            return _hash_text(bytes(item))
        if isinstance(item, (bool, np.bool_, Real, Decimal)) and not isinstance(
            item, np.timedelta64
        ):
            return _one(hash_numbers, np.array([_as_float(item)]), None)
        if isinstance(item, (datetime.date, np.datetime64)):
            nanoseconds = pd.Timestamp(item).as_unit("ns").value
            return _one(hash_ticks, np.array([nanoseconds], np.int64), 1, None)
        if isinstance(item, (datetime.timedelta, np.timedelta64)):
            nanoseconds = pd.Timedelta(item).as_unit("ns").value
            return _one(hash_ticks, np.array([nanoseconds], np.int64), 1, None)
        if isinstance(item, tuple):
            return _hash_tuple(item)
    except (TypeError, ValueError, OverflowError):
        pass
    return _OTHER


def _hash_tuple(items: tuple[Any, ...]) -> np.uint64:
    out = np.array([np.uint64(len(items))])
    for item in items:
        hash_codes(np.zeros(1, np.int64), np.array([hash_scalar(item)]), out, True)
    return out[0]  # type: ignore[no-any-return]


def _hash_text(text: bytes) -> np.uint64:
    return _one(hash_bytes, np.array([0, len(text)]), np.frombuffer(text, np.uint8), None)


def _one(kernel: Any, *args: Any) -> np.uint64:
    out = np.empty(1, np.uint64)
    kernel(*args, out)
    return out[0]  # type: ignore[no-any-return]


def _as_float(item: Any) -> float:
    try:
        return float(item)
    except OverflowError:
        return float("inf") if item > 0 else float("-inf")
