"""Numbers for strings: equal strings of two columns, and only these, get equal numbers.

Several keys are joined as words of fixed width; a string among them takes part by its number.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

from dask_rcylon.kernels.cpu.hashing import mix
from dask_rcylon.kernels.cpu.join import both_nulls, string_hashes
from dask_rcylon.kernels.cpu.memory import compare_bytes

UInt8 = npt.NDArray[np.uint8]
UInt64 = npt.NDArray[np.uint64]
Int64 = npt.NDArray[np.int64]

_S20 = np.uint64(20)
_ONE = np.uint64(1)


@nb.njit(nogil=True, cache=True)
def _first_rows(hashes: Any, offsets: Any, data: Any, null: Any, out: Any) -> None:
    """Give each row the number of the first row that equals it."""
    size = 1
    while size < 2 * len(hashes):
        size <<= 1
    mask = np.uint64(size - 1)
    table = np.full(size, -1, np.int64)
    start = np.int64(data.ctypes.data)
    for i in range(len(hashes)):
        slot = (mix(hashes[i]) >> _S20) & mask
        while True:
            j = table[slot]
            if j < 0:
                table[slot] = i
                out[i] = i
                break
            length = offsets[i + 1] - offsets[i]
            same = hashes[j] == hashes[i] and length == offsets[j + 1] - offsets[j]
            missing = False
            if len(null) > 0:
                missing = null[i] != 0
                same = (null[j] != 0) if missing else same and null[j] == 0
            if same and not missing:
                same = compare_bytes(start + offsets[i], start + offsets[j], length) == 0
            if same:
                out[i] = j
                break
            slot = (slot + _ONE) & mask


def factorize_bytes(
    left_offsets: Int64,
    left_data: UInt8,
    left_null: UInt8 | None,
    right_offsets: Int64,
    right_data: UInt8,
    right_null: UInt8 | None,
) -> tuple[UInt64, UInt64]:
    """Give equal strings of both sides, and only these, equal numbers.

    Returns
    -------
    left, right : uint64 arrays (n,) and (m,)
    """
    offsets = np.concatenate([left_offsets, right_offsets[1:] + left_offsets[-1]])
    data = np.concatenate([left_data[: left_offsets[-1]], right_data])
    nulls = both_nulls(left_null, len(left_offsets) - 1, right_null, len(right_offsets) - 1)
    null = None if nulls is None else np.concatenate(nulls)
    hashes = string_hashes(offsets, data, null)
    out = np.empty(len(hashes), np.uint64)
    _first_rows(hashes, offsets, data, np.empty(0, np.uint8) if null is None else null, out)
    return out[: len(left_offsets) - 1], out[len(left_offsets) - 1 :]
