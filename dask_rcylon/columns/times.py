"""Units of time: how many nanoseconds a tick is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

_NANOSECONDS = {
    "D": 86_400 * 10**9,
    "h": 3_600 * 10**9,
    "m": 60 * 10**9,
    "s": 10**9,
    "ms": 10**6,
    "us": 10**3,
    "ns": 1,
}


def tick(dtype: Any) -> int | None:
    """Return the nanoseconds that a tick of a time dtype stands for, None for other dtypes."""
    if isinstance(dtype, np.dtype):
        if dtype.kind not in "mM":
            return None
        unit, count = np.datetime_data(dtype)
        return _NANOSECONDS[unit] * count
    if isinstance(dtype, pd.DatetimeTZDtype):
        return _NANOSECONDS[dtype.unit]
    if isinstance(dtype, pd.ArrowDtype):
        type_ = dtype.pyarrow_dtype
        if pa.types.is_date32(type_):
            return _NANOSECONDS["D"]
        if pa.types.is_date64(type_):
            return _NANOSECONDS["ms"]
        if pa.types.is_temporal(type_) and hasattr(type_, "unit"):
            return _NANOSECONDS[type_.unit]
    return None
