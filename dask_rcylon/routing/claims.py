"""Which columns the result of a join is partitioned by.

Dask leaves a shuffle out where a frame is partitioned by its key already, and asks the frame's
expression (``unique_partition_mapping_columns_from_shuffle``).  Joins answer with the keys of both
sides, whatever the join; that is not true

* of a broadcast join: the larger side stays where it is, its keys are spread over all partitions;
* of the other side's key in an outer join: rows without a match lie where their own key hashed,
  with nulls in that column;
* where a suffix has given the label to another column.

A group that is spread over partitions is then aggregated in each: dask 2026.8 returns 400 groups of
10 for ``a.merge(b, on="k", broadcast=True).groupby("k").apply(f)``.  While routing, joins answer as
below.
"""

from __future__ import annotations

from dask_rcylon.routing import plans
from dask_rcylon.routing.internals import BlockwiseMerge, BroadcastJoin, Merge
from dask_rcylon.stages.claims import Claims, as_list, of_hash_join, same_keys, unambiguous


def of_merge(expr: Merge) -> Claims:
    """Return the column sets by which a join is partitioned, lowered or not."""
    if isinstance(expr, BroadcastJoin):
        return set()
    if type(expr) is Merge:
        if expr._is_single_partition_broadcast:
            return _inherited(expr)
        if (expr.merge_indexed_left and expr.merge_indexed_right) or plans.broadcasts(expr):
            return set()
    return of_hash_join(expr)


def of_blockwise_merge(expr: BlockwiseMerge) -> Claims:
    """Return the column sets by which a join of aligned partitions is partitioned."""
    return _inherited(expr)


def _inherited(expr: Merge) -> Claims:
    left, right = (
        set(side.unique_partition_mapping_columns_from_shuffle) for side in (expr.left, expr.right)
    )
    if expr.left.npartitions != expr.right.npartitions:
        # A side of one partition meets all others: the result lies as the other side does.
        claims = right if expr.left.npartitions == 1 else left
    elif expr.how == "inner" or expr.left.npartitions == 1:
        claims = left | right
    elif expr.how in ("left", "leftsemi"):
        claims = left
    elif expr.how == "right":
        claims = right
    else:
        # Keys of the same name become one column, which has the values of both sides.
        claims = left & right & {tuple(as_list(expr.left_on))} if same_keys(expr) else set()
    return unambiguous(expr, claims)
