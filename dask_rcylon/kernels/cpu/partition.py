"""Rows to buckets: histogram and stable scatter.

A partition number is the high half of the hash times the number of partitions (multiply-shift): no
division, and no pattern in the keys survives.  The scatter writes each column straight into the
packed fragment, where a bucket's columns lie next to each other, so that the share of any peer is
one stretch of bytes.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

from dask_rcylon.kernels.cpu.memory import as_input, copy_bytes

UInt8 = npt.NDArray[np.uint8]
UInt32 = npt.NDArray[np.uint32]
#: Partition numbers, in the dtype that `id_dtype` says.
Ids = npt.NDArray[Any]
UInt64 = npt.NDArray[np.uint64]
Int64 = npt.NDArray[np.int64]

_S32 = np.uint64(32)


@nb.njit(nogil=True, cache=True)
def _partition_ids(hashes: Any, parts: Any, ids: Any) -> None:
    for i in range(len(hashes)):
        ids[i] = ((hashes[i] >> _S32) * parts) >> _S32


@nb.njit(nogil=True, cache=True)
def _count_ids(ids: Any, rows: Any) -> Any:
    for i in range(len(ids)):
        if ids[i] >= len(rows):
            return i
        rows[ids[i]] += 1
    return -1


@nb.njit(nogil=True, cache=True)
def _count_bytes(lengths: Any, ids: Any, sums: Any) -> None:
    for i in range(len(ids)):
        sums[ids[i]] += lengths[i]


@nb.njit(nogil=True, cache=True)
def _scatter_fixed(values: Any, ids: Any, dest: Any, next_: Any) -> None:
    for i in range(len(ids)):
        p = ids[i]
        dest[next_[p]] = values[i]
        next_[p] += 1


@nb.njit(nogil=True, cache=True)
def _scatter_wide(values: Any, ids: Any, dest: Any, next_: Any) -> None:
    for i in range(len(ids)):
        p = ids[i]
        dest[next_[p]] = values[i, 0]
        dest[next_[p] + 1] = values[i, 1]
        next_[p] += 2


@nb.njit(nogil=True, cache=True)
def _scatter_var(offsets: Any, data: Any, ids: Any, dest: Any, next_: Any) -> None:
    source, to = np.int64(data.ctypes.data), np.int64(dest.ctypes.data)
    for i in range(len(ids)):
        p = ids[i]
        length = offsets[i + 1] - offsets[i]
        copy_bytes(to + next_[p], source + offsets[i], length)
        next_[p] += length


def id_dtype(parts: int) -> type[np.uint16] | type[np.uint32]:
    """Return the dtype of partition numbers: they are kept for every row until it has left."""
    return np.uint16 if parts <= 1 << 16 else np.uint32


def partition_ids(hashes: UInt64, parts: int) -> Ids:
    """Turn hashes into partition numbers.

    Parameters
    ----------
    hashes : uint64 array (n,)
        Hash of each row's keys.
    parts : int
        Number of partitions P, at most 2**32.

    Returns
    -------
    unsigned array (n,)
        Partition of each row.
    """
    ids = np.empty(len(hashes), id_dtype(parts))
    _partition_ids(as_input(hashes), np.uint64(parts), ids)
    return ids


def count_ids(ids: Ids, parts: int) -> Int64:
    """Count the rows of each partition.

    Raises
    ------
    ValueError
        If a number is not below `parts`.
    """
    rows = np.zeros(parts, np.int64)
    bad = _count_ids(as_input(ids), rows)
    if bad >= 0:
        raise ValueError(f"row {bad} is for partition {ids[bad]}, but there are only {parts}")
    return rows


def count_bytes(lengths: UInt32, ids: Ids, parts: int) -> Int64:
    """Sum the lengths of the rows of each partition."""
    sums = np.zeros(parts, np.int64)
    _count_bytes(as_input(lengths), as_input(ids), sums)
    return sums


def scatter_fixed(values: npt.NDArray[Any], ids: Ids, dest: UInt8, starts: Int64) -> None:
    """Write each value behind those already in its bucket.

    Parameters
    ----------
    values : array (n,) of 1, 2, 4 or 8 bytes a value, or uint64 array (n, 2)
        A column.
    ids : unsigned array (n,)
        Bucket of each row.
    dest : uint8 array
        The fragment.
    starts : int64 array (P,)
        Byte in `dest` of each bucket's first value, a multiple of 8.
    """
    values, ids = as_input(values), as_input(ids)
    if values.ndim == 2:
        _scatter_wide(values, ids, dest.view(np.uint64), starts // 8)
        return
    unsigned = np.dtype(f"u{values.dtype.itemsize}")
    _scatter_fixed(values.view(unsigned), ids, dest.view(unsigned), starts // values.dtype.itemsize)


def scatter_var(offsets: Int64, data: UInt8, ids: Ids, dest: UInt8, starts: Int64) -> None:
    """Write each string's bytes behind those already in its bucket; see `scatter_fixed`."""
    _scatter_var(as_input(offsets), as_input(data), as_input(ids), dest, starts.copy())
