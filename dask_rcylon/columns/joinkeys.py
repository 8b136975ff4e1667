"""Which rows of two frames match: key columns in the form that the join kernels take.

Each pair of key columns is brought to the type in which pandas would compare it (see `keypairs`).
Where that can't be done exactly the answer is None, and pandas joins the bucket.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dask_rcylon.columns.column import unwrapped
from dask_rcylon.columns.keypairs import Pair, Strings, Words, normalise
from dask_rcylon.kernels.cpu import both_nulls, factorize_bytes, join_bytes, join_fixed

UInt64 = npt.NDArray[np.uint64]
Int64 = npt.NDArray[np.int64]


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
    pairs: list[Pair] = []
    for columns in zip(left, right, strict=True):
        key = normalise(unwrapped(columns[0]), unwrapped(columns[1]))
        if key is None:
            return None
        pairs.append(key)
    keep = (how in ("left", "outer"), how in ("right", "outer"), how == "leftsemi")
    if len(pairs) == 1:
        one, two = pairs[0]
        if isinstance(one, Strings) and isinstance(two, Strings):
            return join_bytes(
                one.offsets, one.data, one.null, two.offsets, two.data, two.null, *keep
            )
        assert isinstance(one, Words) and isinstance(two, Words)
        return join_fixed(one.words, one.null, two.words, two.null, *keep)
    sides: tuple[list[UInt64], list[UInt64]] = ([], [])
    for one, two in pairs:
        if isinstance(one, Strings) and isinstance(two, Strings):
            codes = factorize_bytes(
                one.offsets, one.data, one.null, two.offsets, two.data, two.null
            )
            for rows, code in zip(sides, codes, strict=True):
                rows.append(code[np.newaxis])
            continue
        assert isinstance(one, Words) and isinstance(two, Words)
        nulls = both_nulls(one.null, one.words.shape[1], two.null, two.words.shape[1])
        for number, (rows, side) in enumerate(zip(sides, (one, two), strict=True)):
            rows.append(side.words)
            if nulls is not None:
                rows.append(nulls[number].astype(np.uint64)[np.newaxis])
    return join_fixed(np.vstack(sides[0]), None, np.vstack(sides[1]), None, *keep)
