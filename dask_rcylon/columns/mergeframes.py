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

from dask_rcylon.columns.categories import common_dtype
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
        if left.dtype != right.dtype:
            raise _Unsupported
        if left.dtype == object and (left.hasnans or right.hasnans):
            raise _Unsupported  # an index of objects tells None from NaN, a column does not
        categories = [getattr(index, "categories", None) for index in (left, right)]
        if categories[0] is not None and not categories[0].equals(categories[1]):
            raise _Unsupported  # which order of categories, and even which name, depends on `how`
        found = indexers([_array(left)], [_array(right)], self.how)
        if found is None:
            raise _Unsupported
        rows, others = found
        if self.how == "outer":
            index = left.append(right).take(np.where(rows < 0, others + len(left), rows))
        else:
            index = right.take(others) if self.how == "right" else left.take(rows)
        return index.rename(left.name if left.name == right.name else None), rows, others


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
    meta: pd.DataFrame | None = None,
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
    meta : DataFrame, optional
        Empty frame as the result should look. Keys that it has as categoricals are united if their
        categories differ, as Dask does; pandas would make them values.

    Returns
    -------
    DataFrame
        Equal to pandas' up to the order of rows. One dtype does not depend on the rows here, though
        it does with pandas: a key of times in different units is of the finer one also where each
        row of one side matches the row of the other in the same place.

    Raises
    ------
    ValueError, KeyError, pandas.errors.MergeError
        Where `pandas.merge` raises them.
    """
    if how == "leftsemi":
        right, how = right.drop_duplicates(), "inner"
    if meta is not None:
        left, right = _with_common_categories(left, right, meta, left_on, right_on)
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


def _with_common_categories(
    left: pd.DataFrame, right: pd.DataFrame, meta: pd.DataFrame, left_on: Any, right_on: Any
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Unite the categories of each pair of keys that is categorical in `meta`."""
    for one, other in zip(_labels(left_on), _labels(right_on), strict=False):
        if one is other is None:
            wanted = [meta.index.dtype]
        else:
            wanted = [meta[label].dtype for label in (one, other) if label in meta.columns]
        dtypes = [_dtype(left, one), _dtype(right, other)]
        if not wanted or not all(isinstance(d, pd.CategoricalDtype) for d in (*wanted, *dtypes)):
            continue
        dtype = common_dtype(*dtypes)
        if dtype is not None:
            left, right = _with_key(left, one, dtype), _with_key(right, other, dtype)
    return left, right


def _labels(on: Any) -> list[Any]:
    """Return key labels as a list; None stands for the index."""
    return list(on) if isinstance(on, (list, tuple)) else [on]


def _dtype(frame: pd.DataFrame, label: Any) -> Any:
    if label is None:
        return frame.index.dtype
    return frame[label].dtype if label in frame.columns else None


def _with_key(frame: pd.DataFrame, label: Any, dtype: pd.CategoricalDtype) -> pd.DataFrame:
    if _dtype(frame, label) == dtype:
        return frame
    frame = frame.copy(deep=False)
    if label is None:
        frame.index = frame.index.astype(dtype)
    else:
        frame[label] = frame[label].astype(dtype)
    return frame
