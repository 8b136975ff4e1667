"""Pieces of fragments to their places in the buckets.

A rank receives, from each input partition, a stretch of bytes with a bit of every bucket it owns:
with many partitions these bits are many and tiny.  So the loop over them is compiled, and it writes
through raw addresses: each buffer of each bucket is an allocation of its own, which can be freed as
soon as its partition has been made.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

from dask_rcylon.kernels.cpu.memory import as_input, copy_bytes, fill_bytes

Int64 = npt.NDArray[np.int64]


@nb.njit(nogil=True, inline="always")
def _padded(nbytes: Any) -> Any:
    return (nbytes + 7) // 8 * 8


@nb.njit(nogil=True, cache=True)
def _bucket_bytes(counts: Any, widths: Any, out: Any) -> None:
    for b in range(counts.shape[0]):
        total = 0
        for k in range(len(widths)):
            width = widths[k]
            total += _padded(counts[b, -width] if width < 0 else counts[b, 0] * width)
        out[b] = total


@nb.njit(nogil=True, cache=True)
def _unpack(source: Any, counts: Any, widths: Any, dest: Any, position: Any) -> None:
    at = 0
    start = np.int64(source.ctypes.data)
    for b in range(counts.shape[0]):
        rows = counts[b, 0]
        for k in range(len(widths)):
            width = widths[k]
            if width == 0:
                if dest[b, k] != 0 and rows > 0:
                    fill_bytes(dest[b, k] + position[b, 0], rows, 1)
                continue
            if width < 0:
                nbytes = counts[b, -width]
                to = dest[b, k] + position[b, -width]
            else:
                nbytes = rows * width
                to = dest[b, k] + position[b, 0] * width
            if nbytes > 0:
                copy_bytes(to, start + at, nbytes)
                at += _padded(nbytes)


def bucket_bytes(counts: Int64, widths: Int64) -> Int64:
    """Return the packed size of each bucket.

    Parameters
    ----------
    counts : int64 array (B, 1 + V)
        For each bucket its rows, and the bytes of each variable buffer.
    widths : int64 array (K,)
        For each buffer its bytes per row, ``-1 - v`` for variable buffer v, 0 if it is absent.

    Returns
    -------
    int64 array (B,)
        Bytes; every buffer is padded to a multiple of 8.
    """
    out = np.empty(len(counts), np.int64)
    _bucket_bytes(as_input(counts), as_input(widths), out)
    return out


def unpack(
    source: npt.NDArray[np.uint8], counts: Int64, widths: Int64, dest: Int64, position: Int64
) -> None:
    """Copy the share of a fragment into the buckets.

    Parameters
    ----------
    source : uint8 array
        B buckets back to back, each its K buffers back to back, each padded to 8 bytes.
    counts, widths
        As in `bucket_bytes`.
    dest : int64 array (B, K)
        Address of each buffer of each bucket. Where a buffer is absent from the fragment but has an
        address, it is a validity and is filled with 1.
    position : int64 array (B, 1 + V)
        Rows, and bytes of each variable buffer, that lie before this fragment's.
    """
    _unpack(*(as_input(array) for array in (source, counts, widths, dest, position)))
