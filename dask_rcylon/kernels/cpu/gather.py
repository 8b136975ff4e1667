"""Take rows by number, and turn lengths of strings to offsets and back."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

from dask_rcylon.kernels.cpu.memory import as_input, copy_bytes

UInt8 = npt.NDArray[np.uint8]
UInt32 = npt.NDArray[np.uint32]
Int64 = npt.NDArray[np.int64]
#: Row numbers, int64 or uint32.
Rows = npt.NDArray[Any]


@nb.njit(nogil=True, cache=True)
def _take(values: Any, rows: Any, out: Any) -> None:
    for i in range(len(rows)):
        out[i] = values[rows[i]]


@nb.njit(nogil=True, cache=True)
def _take_offsets(offsets: Any, rows: Any, out: Any) -> None:
    total = np.int64(0)
    out[0] = 0
    for i in range(len(rows)):
        total += offsets[rows[i] + 1] - offsets[rows[i]]
        out[i + 1] = total


@nb.njit(nogil=True, cache=True)
def _take_bytes(offsets: Any, data: Any, rows: Any, new: Any, out: Any) -> None:
    source, dest = np.int64(data.ctypes.data), np.int64(out.ctypes.data)
    for i in range(len(rows)):
        copy_bytes(dest + new[i], source + offsets[rows[i]], new[i + 1] - new[i])


@nb.njit(nogil=True, cache=True)
def _to_offsets(lengths: Any, out: Any) -> None:
    total = np.int64(0)
    out[0] = 0
    for i in range(len(lengths)):
        total += lengths[i]
        out[i + 1] = total


@nb.njit(nogil=True, cache=True)
def _to_lengths(offsets: Any, out: Any) -> Any:
    for i in range(len(out)):
        length = offsets[i + 1] - offsets[i]
        if length >= 4294967296:
            return i
        out[i] = length
    return -1


def take_fixed(values: npt.NDArray[Any], rows: Rows) -> npt.NDArray[Any]:
    """Return ``values[rows]`` for values of 1, 2, 4 or 8 bytes; rows are not checked."""
    unsigned = np.dtype(f"u{values.dtype.itemsize}")
    out = np.empty(len(rows), unsigned)
    _take(as_input(values).view(unsigned), as_input(rows), out)
    return out.view(values.dtype)


def take_var(offsets: Int64, data: UInt8, rows: Rows) -> tuple[Int64, UInt8]:
    """Return offsets and bytes of the strings at `rows`; rows are not checked."""
    offsets, data, rows = as_input(offsets), as_input(data), as_input(rows)
    new = np.empty(len(rows) + 1, np.int64)
    _take_offsets(offsets, rows, new)
    out = np.empty(new[-1], np.uint8)
    _take_bytes(offsets, data, rows, new, out)
    return new, out


def lengths_to_offsets(lengths: UInt32) -> Int64:
    """Return the running sum of lengths, from 0: int64 array (n + 1,)."""
    out = np.empty(len(lengths) + 1, np.int64)
    _to_offsets(as_input(lengths), out)
    return out


def offsets_to_lengths(offsets: npt.NDArray[Any]) -> UInt32:
    """Return the lengths of strings.

    Raises
    ------
    ValueError
        If one is 4 GiB or longer.
    """
    out = np.empty(len(offsets) - 1, np.uint32)
    bad = _to_lengths(as_input(offsets.astype(np.int64, copy=False)), out)
    if bad >= 0:
        raise ValueError(f"the value in row {bad} is longer than 4 GiB")
    return out
