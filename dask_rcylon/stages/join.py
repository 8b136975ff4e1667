"""Join: both sides partitioned by the same hash of their keys, then joined bucket by bucket."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd
from dask.dataframe.dask_expr._merge import Merge

from dask_rcylon.columns.column import Column
from dask_rcylon.columns.frame import to_columns
from dask_rcylon.columns.hashing import hash_keys
from dask_rcylon.columns.mergeframes import merge_frames
from dask_rcylon.columns.schema import FrameSchema
from dask_rcylon.kernels.cpu import Ids, partition_ids
from dask_rcylon.pilot.spec import Piece, StageSpec
from dask_rcylon.stages import claims
from dask_rcylon.stages.keys import key_arrays, uses_index
from dask_rcylon.stages.shuffle import assemble
from dask_rcylon.stages.stage import Stage


@dataclass(frozen=True)
class JoinSpec(StageSpec):
    """A join, as the ranks see it.

    Attributes
    ----------
    schemas : pair of FrameSchema
        Of the input partitions of both sides.
    how : {"inner", "left", "right", "outer", "leftsemi"}
        Which rows remain.
    on : pair of (list or label or None)
        Keys of both sides, as in ``DataFrame.merge``; None where the index is the key.
    suffixes, indicator
        As in ``DataFrame.merge``.
    meta : DataFrame
        Empty frame as the output partitions should look.
    """

    kind: ClassVar[str] = "join"

    schemas: tuple[FrameSchema, FrameSchema]
    how: str
    on: tuple[Any, Any]
    suffixes: tuple[str | None, str | None]
    indicator: bool | str
    meta: pd.DataFrame

    def columns(self, side: int, partition: int, frame: pd.DataFrame) -> list[Column]:
        """Take an input partition apart."""
        self.schemas[side].check(frame, partition)
        return to_columns(frame, self.schemas[side])

    def ids(self, side: int, partition: int, frame: pd.DataFrame, settled: Any) -> Ids:
        """Hash the keys."""
        keys = key_arrays(frame, labels(self.on[side]))
        return partition_ids(hash_keys(keys), self.npartitions)

    def finish(self, partition: int, sides: Sequence[Sequence[Piece]]) -> pd.DataFrame:
        """Join the two sides of a bucket."""
        left, right = (
            assemble(pieces, schema) for pieces, schema in zip(sides, self.schemas, strict=True)
        )
        left_on, right_on = self.on
        result = merge_frames(
            left,
            right,
            how=self.how,
            left_on=left_on,
            right_on=right_on,
            left_index=left_on is None,
            right_index=right_on is None,
            suffixes=self.suffixes,
            indicator=self.indicator,
            meta=self.meta,
        )
        if len(left) == 0:
            # pandas orders the columns differently when the left frame is empty (pandas#9937).
            result = result[self.meta.columns]
        if len(result) == 0:
            result.index = result.index.astype(self.meta.index.dtype)
        return result


def labels(on: Any) -> list[Any] | None:
    """Return the key labels as a list; None stands for the index."""
    if on is None or isinstance(on, list):
        return on
    return [on]


class JoinStage(Stage, Merge):
    """Join expression.

    Parameters
    ----------
    left, right : Expr
        Both sides.
    how : str
        Which rows remain.
    left_on, right_on : label, list or None
        Keys.
    left_index, right_index : bool
        Whether the index is the key.
    suffixes, indicator
        As in ``DataFrame.merge``.
    npartitions_out : int
        Output partitions.
    """

    kind = "join"
    sides = ("left", "right")
    _parameters: ClassVar[list[str]] = [
        "left",
        "right",
        "how",
        "left_on",
        "right_on",
        "left_index",
        "right_index",
        "suffixes",
        "indicator",
        "npartitions_out",
        "_partitions",
    ]
    _defaults: ClassVar[dict[str, Any]] = {"_partitions": None}
    is_broadcast_join = False

    @functools.cached_property
    def _npartitions(self) -> int:
        return int(self.operand("npartitions_out"))

    @property
    def unique_partition_mapping_columns_from_shuffle(self) -> claims.Claims:
        """Column sets by which equal rows share a partition."""
        return claims.of_hash_join(self)

    def _spec(self) -> JoinSpec:
        left_on = None if self.left_index else self.left_on
        right_on = None if self.right_index else self.right_on
        schemas = []
        # Keys on columns only: pandas makes a new index, the old ones need not travel.
        index = any(
            on is None or uses_index(frame._meta, labels(on) or [])
            for frame, on in ((self.left, left_on), (self.right, right_on))
        )
        for frame in (self.left, self.right):
            schemas.append(FrameSchema.from_meta(frame._meta, index=index))
        return JoinSpec(
            id=self._stage_id,
            npartitions=self.npartitions_out,
            inputs=(self.left.npartitions, self.right.npartitions),
            parts_out=self._parts_out,
            schemas=(schemas[0], schemas[1]),
            how=self.how,
            on=(left_on, right_on),
            suffixes=tuple(self.suffixes),
            indicator=self.indicator,
            meta=self._meta,
        )
