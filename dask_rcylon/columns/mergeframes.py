"""Merge two frames as pandas does, with our indexers.

What a merge returns besides its rows (dtypes where rows are missing, suffixes, which side a key
column comes from, the index, categories, the indicator) is pandas' business, and pandas' own merge
operation is run to get it; only the search for matching rows is replaced.  Its class is private:
this is the one place that names it, and `tests/columns/test_columns.py` says what has moved when it
changes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from pandas.core.reshape.merge import _MergeOperation  # type: ignore[attr-defined]

from dask_rcylon.columns.joinkeys import indexers


class _Unsupported(Exception):
    """The kernels can't find the matches of these keys."""


class _Merge(_MergeOperation):
    """pandas' merge operation with another way to find matching rows."""

    def _get_join_indexers(self) -> Any:
        found = indexers(self.left_join_keys, self.right_join_keys, self.how)
        if found is None:
            raise _Unsupported
        return found

    def _get_join_info(self) -> Any:
        left, right = self.left.index, self.right.index
        if not (self.left_index or self.right_index):
            return super()._get_join_info()
        if left.nlevels > 1 or right.nlevels > 1:
            raise _Unsupported
        if self.left_index and self.right_index:
            return self._join_indexes(left, right)
        # pandas has loops of its own for these two; what they return follows from the indexers.
        if self.right_index and self.how == "left":
            rows, others = self._get_join_indexers()
            return left.take(rows), rows, others
        if self.left_index and self.how == "right":
            others, rows = self._get_join_indexers()
            return right.take(rows), others, rows
        return super()._get_join_info()

    def _join_indexes(self, left: pd.Index, right: pd.Index) -> Any:
        if left.dtype != right.dtype or self.how == "outer":
            raise _Unsupported
        found = indexers([_array(left)], [_array(right)], self.how)
        if found is None:
            raise _Unsupported
        rows, others = found
        index = right.take(others) if self.how == "right" else left.take(rows)
        if left.name != right.name:
            index = index.rename(None)
        return index, rows, others


def _array(index: pd.Index) -> Any:
    return index.to_numpy() if isinstance(index.dtype, np.dtype) else index.array


def merge_frames(
    left: pd.DataFrame,
    right: pd.DataFrame,
    *,
    how: str,
    left_on: Any = None,
    right_on: Any = None,
    left_index: bool = False,
    right_index: bool = False,
    suffixes: tuple[str | None, str | None] = ("_x", "_y"),
    indicator: bool | str = False,
) -> pd.DataFrame:
    """Merge two frames; rows come in no particular order.

    Parameters
    ----------
    left, right : DataFrame
        Both sides.
    how : {"inner", "left", "right", "outer", "leftsemi"}
        As in `pandas.merge`; ``"leftsemi"`` joins with the distinct rows of `right`, as Dask does.
    left_on, right_on, left_index, right_index, suffixes, indicator
        As in `pandas.merge`.

    Returns
    -------
    DataFrame
        Equal to pandas' up to the order of rows.

    Raises
    ------
    ValueError, KeyError, pandas.errors.MergeError
        Where `pandas.merge` raises them.
    """
    if how == "leftsemi":
        right, how = right.drop_duplicates(), "inner"
    options: dict[str, Any] = {
        "how": how,
        "left_on": left_on,
        "right_on": right_on,
        "left_index": left_index,
        "right_index": right_index,
        "sort": False,
        "suffixes": suffixes,
        "indicator": indicator,
    }
    try:
        return _Merge(left, right, **options).get_result()
    except _Unsupported:
        return left.merge(right, **options)
