"""The universal hash of key columns.

Rows that pandas would call equal must hash alike, whatever dtypes hold them: the side they are on
and the stage that asks make no difference.  The kernels' hash is by value; this module turns each
dtype into one of the kinds of values they know.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    to_arrow,
    unwrapped,
)
from dask_rcylon.columns.scalars import as_float, hash_scalar
from dask_rcylon.columns.times import tick
from dask_rcylon.kernels.cpu import hash_bytes, hash_codes, hash_numbers, hash_ticks

UInt64 = npt.NDArray[np.uint64]

#: Decimals below this are exact as floats, and so is a power of ten up to the 22nd: their quotient
#: is rounded once and does not depend on the scale at which the decimal is written.
_EXACT, _EXACT_POWER = 2**53, 22
#: Objects of these types are numbers that NumPy converts all at once.
_NUMBERS = {int, float, bool, type(None), np.float64, np.int64, np.bool_}


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
        _hash_column(unwrapped(array), out, number > 0)
    return out


def _hash_column(array: Any, out: UInt64, combine: bool) -> None:
    dtype = array.dtype
    form = form_of(dtype)
    nanoseconds = tick(dtype)
    if form == PLAIN:
        values = plain_values(array)
        if values.dtype.kind == "c":
            _hash_complex(values, out, combine)
        elif isinstance(dtype, np.dtype) and nanoseconds is None:
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
    elif isinstance(dtype, pd.SparseDtype):
        _hash_column(np.asarray(array), out, combine)
    elif isinstance(dtype, pd.ArrowDtype):
        _hash_nested(array, out, combine)
    else:
        _hash_objects(np.asarray(array, dtype=object), out, combine)


def _hash_complex(values: npt.NDArray[Any], out: UInt64, combine: bool) -> None:
    """Hash complex numbers; those that are real hash as the real number they equal."""
    hashes = np.empty(len(values), np.uint64)
    missing = np.isnan(values)
    hash_numbers(values.real, (~missing).view(np.uint8), hashes)
    unreal = np.flatnonzero((values.imag != 0) & ~missing)
    further = hashes[unreal]
    hash_numbers(values.imag[unreal], None, further, True)
    hashes[unreal] = further
    hash_codes(np.arange(len(values)), hashes, out, combine)


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
        floats[inexact] = [0.0 if item is None else as_float(item) for item in items]
    return floats


def _hash_nested(array: Any, out: UInt64, combine: bool) -> None:
    """Hash an Arrow column that is neither numbers nor plain strings."""
    chunk = to_arrow(array)
    if pa.types.is_dictionary(chunk.type):
        chunk = chunk.dictionary_decode()
    elif pa.types.is_string_view(chunk.type):
        chunk = chunk.cast(pa.large_string())
    elif pa.types.is_binary_view(chunk.type) or pa.types.is_fixed_size_binary(chunk.type):
        chunk = chunk.cast(pa.large_binary())
    if chunk.type != array.dtype.pyarrow_dtype:
        _hash_column(pd.arrays.ArrowExtensionArray(chunk), out, combine)
    else:
        _hash_objects(np.fromiter(chunk.to_pylist(), object, len(chunk)), out, combine)


def _hash_objects(items: npt.NDArray[Any], out: UInt64, combine: bool) -> None:
    strings = all_strings(items)
    if strings is not None:
        buffers = arrow.var_buffers(strings)
        hash_bytes(*buffers, arrow.validity_bytes(strings), out, combine)
        return
    numbers = _all_numbers(items)
    if numbers is not None:
        hash_numbers(numbers, None, out, combine)
        return
    hashes = np.fromiter((hash_scalar(item) for item in items), np.uint64, len(items))
    hash_codes(np.arange(len(items)), hashes, out, combine)


def _all_numbers(items: npt.NDArray[Any]) -> npt.NDArray[np.float64] | None:
    if not set(map(type, items)) <= _NUMBERS:
        return None
    try:
        return items.astype(np.float64)
    except OverflowError:
        return None
