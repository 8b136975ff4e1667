"""Labels, index and column order of the frames that a stage moves.

Buffers know nothing of names.  The schema comes from Dask's meta and is the same for all
partitions; a partition that differs from it is an error, as it is in Dask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from dask_rcylon.columns.column import PLAIN, form_of
from dask_rcylon.kernels.cpu import take_fixed


@dataclass(frozen=True)
class FrameSchema:
    """How to take a frame apart and put it together.

    Attributes
    ----------
    empty : DataFrame
        A frame without rows, with the columns, dtypes and index of all.
    index : bool
        Whether the index travels; otherwise frames get a new one.
    """

    empty: pd.DataFrame
    index: bool

    @classmethod
    def from_meta(cls, meta: pd.DataFrame, index: bool) -> FrameSchema:
        """Make the schema of frames that look like `meta`."""
        empty = meta.iloc[:0]
        return cls(empty if index else empty.reset_index(drop=True), index)

    def without(self, labels: Sequence[Any]) -> FrameSchema:
        """Return the schema with some columns left out."""
        return FrameSchema(drop_labels(self.empty, labels), self.index) if labels else self

    def check(self, frame: pd.DataFrame, partition: int) -> None:
        """Refuse a partition whose columns are not those of the meta.

        Raises
        ------
        ValueError
            Naming the columns.
        """
        wanted, found = list(self.empty.columns), list(frame.columns)
        if wanted == found:
            return
        extra = [label for label in found if label not in wanted]
        missing = [label for label in wanted if label not in found]
        what = (
            f"Extra: {extra}\n  Missing: {missing}" if extra or missing else "Order does not match"
        )
        raise ValueError(
            "The columns in the computed data do not match the columns in the provided metadata "
            f"(input partition {partition})\n  {what}"
        )

    def arrays(self, frame: pd.DataFrame) -> list[Any]:
        """Return the columns that travel: those of the frame, then the levels of its index."""
        places = {label: place for place, label in enumerate(frame.columns)}
        columns: list[Any] = [frame.iloc[:, places[label]] for label in self.empty.columns]
        if self.index:
            index = frame.index
            columns += [index.get_level_values(level) for level in range(index.nlevels)]
        return columns

    def frame(self, arrays: Sequence[Any], rows: int) -> pd.DataFrame:
        """Make a frame of the arrays that have travelled, without a copy."""
        width = self.empty.shape[1]
        columns = {place: _as_it_is(array) for place, array in enumerate(arrays[:width])}
        frame = pd.DataFrame(columns, index=pd.RangeIndex(rows), copy=False)
        frame.columns = self.empty.columns
        if self.index:
            names = self.empty.index.names
            levels = [pd.Index(array, dtype=array.dtype, copy=False) for array in arrays[width:]]
            frame.index = (
                levels[0].rename(names[0])
                if len(levels) == 1
                else pd.MultiIndex.from_arrays(levels, names=names)
            )
        return frame

    def take(self, frame: pd.DataFrame, order: Any) -> pd.DataFrame:
        """Return the rows of a frame in another order."""
        arrays = [_take(array, order) for array in self.arrays(frame)]
        return self.frame(arrays, len(order))


def drop_labels(frame: pd.DataFrame, labels: Sequence[Any]) -> pd.DataFrame:
    """Drop columns that were added to a frame; its labels get the dtype they had without them."""
    frame = frame.drop(columns=list(labels))
    frame.columns = frame.columns.infer_objects()
    return frame


def _as_it_is(array: Any) -> Any:
    """Keep pandas from making strings or times of Python objects that happen to be such."""
    return pd.Series(array, dtype=object, copy=False) if array.dtype == object else array


def _take(column: Any, order: Any) -> Any:
    if isinstance(column.dtype, np.dtype):
        values = column.to_numpy()
        if form_of(column.dtype) == PLAIN and values.dtype.itemsize <= 8:
            return take_fixed(values, order)
        return values.take(order)
    return column.array.take(order)


def unsupported(meta: Any) -> str | None:
    """Say why frames like `meta` can't travel, or None if they can."""
    if not isinstance(meta, (pd.DataFrame, pd.Series, pd.Index)):
        return f"partitions are {type(meta).__module__.split('.')[0]} frames, not pandas frames"
    if isinstance(meta, pd.DataFrame):
        if isinstance(meta.columns, pd.MultiIndex):
            return "columns have more than one level"
        if not meta.columns.is_unique:
            repeated = meta.columns[meta.columns.duplicated()].unique().tolist()
            return f"column labels are not unique: {repeated}"
    return None
