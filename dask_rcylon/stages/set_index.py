"""set_index: a new index, sorted, with divisions that are known and true.

The divisions are known before the stage is built (Dask computes them, or the user gives them), so
rows can be cut as soon as they are read; equal index values never span two partitions.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from dask.dataframe.shuffle import set_partitions_pre

from dask_rcylon.columns.column import Column
from dask_rcylon.columns.frame import to_columns
from dask_rcylon.columns.schema import FrameSchema
from dask_rcylon.columns.sortkeys import sortable
from dask_rcylon.kernels.cpu import Ids, id_dtype, searchsorted_numbers
from dask_rcylon.pilot.spec import Piece, StageSpec
from dask_rcylon.stages.shuffle import assemble
from dask_rcylon.stages.sort import sort_frame
from dask_rcylon.stages.stage import Stage

#: Columns that the kernel searches; nullable and Arrow numbers are none of them.
_SEARCHED = (np.dtype(np.int64), np.dtype(np.float64))


@dataclass(frozen=True)
class SetIndexSpec(StageSpec):
    """A set_index, as the ranks see it.

    Attributes
    ----------
    schema : FrameSchema
        Of the input partitions; their index is dropped.
    other : Any
        Label of the column that becomes the index.
    drop : bool
        Whether it is no longer a column then.
    index_name : Any
        Name of the new index.
    divisions : tuple
        Lower bounds of the partitions, and the upper bound of the last.
    """

    kind: ClassVar[str] = "set_index"

    schema: FrameSchema
    other: Any
    drop: bool
    index_name: Any
    divisions: tuple[Any, ...]

    def columns(self, side: int, partition: int, frame: pd.DataFrame) -> list[Column]:
        """Take an input partition apart."""
        self.schema.check(frame, partition)
        return to_columns(frame, self.schema)

    def ids(self, side: int, partition: int, frame: pd.DataFrame, settled: Any) -> Ids:
        """Find each row's partition among the divisions."""
        return partition_of(frame[self.other], self.divisions)

    def finish(self, partition: int, sides: Sequence[Sequence[Piece]]) -> pd.DataFrame:
        """Sort the bucket by its index."""
        frame = assemble(sides[0], self.schema)
        if sortable(frame[self.other].dtype):
            frame = sort_frame(frame, [self.other], [True], "last", self.schema)
        else:
            frame = frame.sort_values(self.other, kind="stable", ignore_index=True)
        frame = frame.set_index(self.other, drop=self.drop)
        frame.index.name = self.index_name
        return frame


def partition_of(column: pd.Series, divisions: tuple[Any, ...]) -> Ids:
    """Return the partition of each value: by Dask's function, or a kernel for plain numbers.

    Values outside the divisions go to the first or the last partition, which keeps the order; Dask
    puts those below the first division into the last partition. Nulls go to the last.

    Parameters
    ----------
    column : Series (n,)
        Values of the new index.
    divisions : tuple (P + 1,)
        As in Dask: all partitions but the last are half open.

    Returns
    -------
    unsigned array (n,)
    """
    bounds = column._constructor(divisions)
    own, theirs = column.dtype, bounds.dtype
    if isinstance(own, np.dtype) and isinstance(theirs, np.dtype) and own in _SEARCHED:
        exact = theirs.kind in "if" and np.result_type(own, theirs) == own
        if exact:
            return searchsorted_numbers(column.to_numpy(), bounds.to_numpy(dtype=own))
    ids = np.asarray(set_partitions_pre(column, bounds)).astype(id_dtype(len(divisions) - 1))
    # Only what Dask has put last can lie below the first: few values need to be compared.
    (last,) = np.nonzero(ids == len(divisions) - 2)
    last = last[column.iloc[last].notna().to_numpy(dtype=bool)]
    ids[last[(column.iloc[last] < divisions[0]).to_numpy(dtype=bool)]] = 0
    return ids


class SetIndexStage(Stage):
    """set_index expression.

    Parameters
    ----------
    frame : Expr
        Input.
    other : label
        The column that becomes the index.
    drop : bool
        Whether it is no longer a column then.
    index_name : label
        Name of the new index.
    new_divisions : tuple
        Known divisions.
    """

    kind = "set_index"
    _parameters: ClassVar[list[str]] = [
        "frame",
        "other",
        "drop",
        "index_name",
        "new_divisions",
        "_partitions",
    ]
    _defaults: ClassVar[dict[str, Any]] = {"drop": True, "_partitions": None}
    _is_length_preserving = True

    @functools.cached_property
    def _meta(self) -> pd.DataFrame:
        meta = self.frame._meta.set_index(self.other, drop=self.operand("drop"))
        meta.index.name = self.index_name
        return meta

    def _divisions(self) -> tuple[Any, ...]:
        return tuple(self.new_divisions)

    def _spec(self) -> SetIndexSpec:
        return SetIndexSpec(
            id=self._stage_id,
            npartitions=len(self.new_divisions) - 1,
            inputs=(self.frame.npartitions,),
            parts_out=self._parts_out,
            schema=FrameSchema.from_meta(self.frame._meta, index=False),
            other=self.other,
            drop=self.operand("drop"),
            index_name=self.index_name,
            divisions=tuple(self.new_divisions),
        )
