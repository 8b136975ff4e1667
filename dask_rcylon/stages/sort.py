"""Sort: all rows in one order, cut into partitions of about equal size."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd

from dask_rcylon.columns.column import Column
from dask_rcylon.columns.frame import to_columns
from dask_rcylon.columns.schema import FrameSchema
from dask_rcylon.columns.sortkeys import sort_words, string_chunks
from dask_rcylon.kernels.cpu import Ids, argsort, split_ids
from dask_rcylon.pilot.spec import Piece, StageSpec
from dask_rcylon.stages.keys import key_arrays
from dask_rcylon.stages.shuffle import assemble
from dask_rcylon.stages.splitters import MAX_CHUNKS, Sample, Splitters, choose, draw
from dask_rcylon.stages.stage import Stage


@dataclass(frozen=True)
class SortSpec(StageSpec):
    """A sort, as the ranks see it.

    Attributes
    ----------
    schema : FrameSchema
        Of the input partitions.
    by : tuple
        Labels of the sort columns.
    ascending : tuple of bool
        One for each.
    na_position : {"first", "last"}
        Where nulls go.
    colocate : bool
        Whether rows with equal keys must end up in one partition.
    """

    kind: ClassVar[str] = "sort"
    settles: ClassVar[bool] = True

    schema: FrameSchema
    by: tuple[Any, ...]
    ascending: tuple[bool, ...]
    na_position: str
    colocate: bool

    def columns(self, side: int, partition: int, frame: pd.DataFrame) -> list[Column]:
        """Take an input partition apart."""
        self.schema.check(frame, partition)
        return to_columns(frame, self.schema)

    def sample(self, partition: int, frame: pd.DataFrame) -> Sample:
        """Draw a sample of the keys."""
        keys = key_arrays(frame, self.by)
        rows = draw(partition, len(frame), self.inputs[0], self.npartitions)
        chosen = [key.take(rows) for key in keys]
        return Sample(partition, len(frame), rows, chosen, string_chunks(keys))

    def settle(self, samples: Sequence[Sample]) -> Splitters:
        """Choose the splitters."""
        return choose(samples, self.npartitions, self.ascending, self.na_position, self.colocate)

    def ids(self, side: int, partition: int, frame: pd.DataFrame, settled: Splitters) -> Ids:
        """Count the splitters that each row has reached."""
        keys = key_arrays(frame, self.by)
        words = sort_words(keys, self.ascending, self.na_position, settled.chunks)
        return split_ids(words, partition, settled.words, settled.parts, settled.rows)

    def finish(self, partition: int, sides: Sequence[Sequence[Piece]]) -> pd.DataFrame:
        """Sort the bucket; equal rows are in the order of the input already."""
        frame = assemble(sides[0], self.schema)
        return sort_frame(frame, self.by, self.ascending, self.na_position, self.schema)


def sort_frame(
    frame: pd.DataFrame,
    by: Sequence[Any],
    ascending: Sequence[bool],
    na_position: str,
    schema: FrameSchema,
) -> pd.DataFrame:
    """Sort a frame, stably, as ``DataFrame.sort_values`` does.

    Parameters
    ----------
    frame : DataFrame
        A bucket.
    by, ascending, na_position
        As in ``DataFrame.sort_values``, a list entry for each column.
    schema : FrameSchema
        Whether there is an index to carry along.
    """
    keys = key_arrays(frame, by)
    chunks = string_chunks(keys)
    if chunks <= MAX_CHUNKS:
        order = argsort(sort_words(keys, ascending, na_position, chunks))
        return schema.take(frame, order)
    return frame.sort_values(  # type: ignore[call-overload,no-any-return]
        list(by),
        ascending=list(ascending),
        na_position=na_position,
        kind="stable",
        ignore_index=not schema.index,
    )


class SortStage(Stage):
    """Sort expression.

    Parameters
    ----------
    frame : Expr
        Input.
    by : list
        Sort columns.
    ascending : bool or list of bool
        Direction of all or of each.
    na_position : {"first", "last"}
        Where nulls go.
    ignore_index : bool
        Whether output partitions get a new index.
    npartitions_out : int
        Output partitions.
    colocate : bool
        Whether rows with equal keys must end up in one partition.
    """

    kind = "sort"
    _parameters: ClassVar[list[str]] = [
        "frame",
        "by",
        "ascending",
        "na_position",
        "ignore_index",
        "npartitions_out",
        "colocate",
        "_partitions",
    ]
    _defaults: ClassVar[dict[str, Any]] = {"colocate": False, "_partitions": None}
    _is_length_preserving = True

    @functools.cached_property
    def _meta(self) -> pd.DataFrame:
        meta = self.frame._meta
        return meta.reset_index(drop=True) if self.ignore_index else meta

    def _spec(self) -> SortSpec:
        ascending = self.ascending
        if isinstance(ascending, bool):
            ascending = [ascending] * len(self.by)
        return SortSpec(
            id=self._stage_id,
            npartitions=self.npartitions_out,
            inputs=(self.frame.npartitions,),
            parts_out=self._parts_out,
            schema=FrameSchema.from_meta(self.frame._meta, index=not self.ignore_index),
            by=tuple(self.by),
            ascending=tuple(bool(direction) for direction in ascending),
            na_position=self.na_position,
            colocate=self.colocate,
        )
