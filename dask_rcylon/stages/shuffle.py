"""Shuffle: rows with equal keys to one partition."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd

from dask_rcylon.columns.column import Column
from dask_rcylon.columns.frame import to_columns, to_frame
from dask_rcylon.columns.hashing import hash_keys
from dask_rcylon.columns.schema import FrameSchema, drop_labels
from dask_rcylon.kernels.cpu import Ids, partition_ids
from dask_rcylon.pilot.spec import Piece, StageSpec
from dask_rcylon.stages.keys import key_arrays
from dask_rcylon.stages.stage import Stage


@dataclass(frozen=True)
class ShuffleSpec(StageSpec):
    """A shuffle, as the ranks see it.

    Attributes
    ----------
    schema : FrameSchema
        Of the input partitions.
    keys : tuple or None
        Labels of the columns (or of the index) to partition by; None for the whole index.
    drop : tuple
        Labels of columns that only served to partition.
    """

    kind: ClassVar[str] = "shuffle"

    schema: FrameSchema
    keys: tuple[Any, ...] | None
    drop: tuple[Any, ...]

    def columns(self, side: int, partition: int, frame: pd.DataFrame) -> list[Column]:
        """Take an input partition apart, without the columns that only serve to partition."""
        self.schema.check(frame, partition)
        return to_columns(frame, self.kept)

    def ids(self, side: int, partition: int, frame: pd.DataFrame, settled: Any) -> Ids:
        """Hash the keys."""
        return partition_ids(hash_keys(key_arrays(frame, self.keys)), self.npartitions)

    @functools.cached_property
    def kept(self) -> FrameSchema:
        """Schema of the output partitions."""
        return self.schema.without(self.drop)

    def finish(self, partition: int, sides: Sequence[Sequence[Piece]]) -> pd.DataFrame:
        """Return the bucket as it is."""
        return assemble(sides[0], self.kept)


def assemble(pieces: Sequence[Piece], schema: FrameSchema) -> pd.DataFrame:
    """Make a frame of a bucket's pieces."""
    frames = [to_frame(schema, p.columns, p.extras, p.rows) for p in pieces]
    filled = [frame for frame in frames if len(frame)] or frames[:1]
    if not filled:
        return schema.empty
    return filled[0] if len(filled) == 1 else pd.concat(filled)


class ShuffleStage(Stage):
    """Shuffle expression.

    Parameters
    ----------
    frame : Expr
        Input.
    on : list
        Labels of columns, or the index's name.
    npartitions_out : int
        Output partitions.
    ignore_index : bool
        Whether output partitions get a new index.
    index_shuffle : bool
        Whether to partition by the index.
    drop : sequence
        Columns that only served to partition.
    original_partitioning_index : list or None
        What the user shuffled on, where `on` stands for it.
    """

    kind = "shuffle"
    _parameters: ClassVar[list[str]] = [
        "frame",
        "on",
        "npartitions_out",
        "ignore_index",
        "index_shuffle",
        "drop",
        "original_partitioning_index",
        "_partitions",
    ]
    _defaults: ClassVar[dict[str, Any]] = {
        "ignore_index": False,
        "index_shuffle": False,
        "drop": (),
        "original_partitioning_index": None,
        "_partitions": None,
    }
    _is_length_preserving = True

    @functools.cached_property
    def _meta(self) -> pd.DataFrame:
        meta = self.frame._meta
        if self.operand("drop"):
            meta = drop_labels(meta, self.operand("drop"))
        return meta.reset_index(drop=True) if self.ignore_index else meta

    @functools.cached_property
    def unique_partition_mapping_columns_from_shuffle(self) -> set[tuple[Any, ...]]:
        """Column sets by which equal rows share a partition."""
        on = self.original_partitioning_index or (None if self.index_shuffle else self.on)
        return {tuple(on)} if isinstance(on, list) else set()

    def _spec(self) -> ShuffleSpec:
        return ShuffleSpec(
            id=self._stage_id,
            npartitions=self.npartitions_out,
            inputs=(self.frame.npartitions,),
            parts_out=self._parts_out,
            schema=FrameSchema.from_meta(self.frame._meta, index=not self.ignore_index),
            keys=None if self.index_shuffle else tuple(self.on),
            drop=tuple(self.operand("drop")),
        )
