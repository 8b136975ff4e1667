"""The universal hash of one Python object.

Objects in a column of keys may meet a column of another dtype on the other side: so each is hashed
as a column would hash its value.  Nothing here depends on Python's own ``hash``, which differs from
process to process.
"""

from __future__ import annotations

import datetime
import uuid
from decimal import Decimal
from numbers import Complex, Real
from typing import Any

import numpy as np
import pandas as pd

from dask_rcylon.columns.times import tick
from dask_rcylon.kernels.cpu import NULL_HASH, hash_bytes, hash_codes, hash_numbers, hash_ticks

#: Hash of values whose equality with others is their own affair. One hash for all is right, merely
#: unbalanced.
_OTHER = np.uint64(0x1B873593CC9E2D51)


def hash_scalar(item: Any) -> np.uint64:
    """Hash one Python object as the columns hash its value."""
    try:
        if item is None or item is pd.NaT or item is pd.NA or item != item:
            return NULL_HASH
        if isinstance(item, (str, bytes, bytearray)):
            return _hash_text(item)
        if isinstance(item, (datetime.date, datetime.timedelta, np.datetime64, np.timedelta64)):
            return _hash_moment(item)
        if isinstance(item, (bool, np.bool_, Real, Decimal)):
            return _one(hash_numbers, np.array([as_float(item)]), None)
        if isinstance(item, Complex):
            return _hash_complex(complex(item))
        if isinstance(item, tuple):
            return _hash_tuple(item)
        return _hash_rarer(item)
    except (TypeError, ValueError, OverflowError):
        return _OTHER


def as_float(item: Any) -> float:
    """Round a number to the nearest float, or to infinity."""
    try:
        return float(item)
    except OverflowError:
        return float("inf") if item > 0 else float("-inf")


def _hash_moment(item: Any) -> np.uint64:
    span = isinstance(item, (datetime.timedelta, np.timedelta64))
    exact = pd.Timedelta(item).to_timedelta64() if span else pd.Timestamp(item).to_datetime64()
    # Ticks of its own unit: in nanoseconds the year 9999 is out of bounds.
    return _hash_ticks(int(exact.view(np.int64)), tick(exact.dtype) or 1)


def _hash_complex(item: complex) -> np.uint64:
    out = np.empty(1, np.uint64)
    hash_numbers(np.array([item.real]), None, out)
    if item.imag != 0:
        hash_numbers(np.array([item.imag]), None, out, True)
    return out[0]  # type: ignore[no-any-return]


def _hash_tuple(items: tuple[Any, ...]) -> np.uint64:
    out = np.array([np.uint64(len(items))])
    for item in items:
        hash_codes(np.zeros(1, np.int64), np.array([hash_scalar(item)]), out, True)
    return out[0]  # type: ignore[no-any-return]


def _hash_rarer(item: Any) -> np.uint64:
    if isinstance(item, datetime.time) and item.tzinfo is None:
        seconds = (item.hour * 60 + item.minute) * 60 + item.second
        return _hash_ticks(seconds * 10**6 + item.microsecond, 10**3)
    if isinstance(item, pd.Period):
        return _hash_ticks(item.ordinal, 1)
    if isinstance(item, pd.Interval):
        return _hash_tuple((item.left, item.right))
    if isinstance(item, uuid.UUID):
        return _hash_text(item.bytes)
    return _OTHER


def _hash_text(text: str | bytes | bytearray) -> np.uint64:
    content = text.encode(errors="surrogatepass") if isinstance(text, str) else bytes(text)
    return _one(hash_bytes, np.array([0, len(content)]), np.frombuffer(content, np.uint8), None)


def _hash_ticks(ticks: int, nanoseconds: int) -> np.uint64:
    return _one(hash_ticks, np.array([ticks], np.int64), nanoseconds, None)


def _one(kernel: Any, *args: Any) -> np.uint64:
    out = np.empty(1, np.uint64)
    kernel(*args, out)
    return out[0]  # type: ignore[no-any-return]
