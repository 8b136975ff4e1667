"""Joins: ``merge`` and ``join``.

Dask has plans for a join that move less than both sides, and they are kept: a side of one partition
or a small one is broadcast, known divisions are aligned, a side that is partitioned by the key
already stays where it is.  The last needs care: our hash is not Dask's.  A side may stay only if the
other is brought to it by the hash that put it there.
"""

from __future__ import annotations

from typing import Any

from dask.dataframe.dask_expr._expr import Blockwise, Expr
from dask.dataframe.dask_expr._merge import BlockwiseMerge, BroadcastJoin, Merge
from dask.dataframe.dask_expr._shuffle import RearrangeByColumn, ShuffleBase

from dask_rcylon.routing import shuffle
from dask_rcylon.routing.decision import (
    Decision,
    dask_method,
    frame_reason,
    key_reason,
    method_reason,
    record,
)
from dask_rcylon.routing.target import SCHEDULER_NAME, Target
from dask_rcylon.stages import JoinStage, Stage

_HOWS = ("inner", "left", "right", "outer", "leftsemi")


class Unpartitioned(Blockwise):
    """A frame as it is, without a claim that its rows are partitioned by any key."""

    _parameters = ["frame"]
    _preserves_partitioning_information = False
    _is_length_preserving = True
    _projection_passthrough = False

    @staticmethod
    def operation(frame: Any) -> Any:
        """Return the frame."""
        return frame


def lower(expr: Merge, target: Target, original: Any) -> Expr:
    """Lower a join to a stage or as Dask does."""
    plan, why = _plan(expr, target)
    decision = Decision(
        "join",
        _keys(expr),
        (expr.left.npartitions, expr.right.npartitions),
        _outputs(expr),
        target.pilot,
        why,
    )
    record(expr, decision)
    if plan is not None:
        return plan
    return _as_dask(expr, target, original)


def _plan(expr: Merge, target: Target) -> tuple[Expr | None, str | None]:
    """Return the plan that replaces Dask's, and why the join is no stage (if it is none)."""
    why = method_reason(expr.shuffle_method, target)
    if why is None and expr.how not in _HOWS:
        why = f"how={expr.how!r} is not one that stages know"
    why = (
        why
        or frame_reason(expr.left, "on the left, ")
        or frame_reason(expr.right, "on the right, ")
        or key_reason(_key_dtypes(expr))
    )
    if why is not None:
        return None, why
    if expr._is_single_partition_broadcast:
        return None, "cheaper plan: a side of one partition meets every partition of the other"
    if expr.merge_indexed_left and expr.merge_indexed_right:
        return None, "cheaper plan: both indexes have known divisions, which are aligned"
    if _with_method(expr, "tasks").is_broadcast_join:
        return None, f"cheaper plan: the {expr.broadcast_side} side is small and is broadcast"
    kept = _keep_partitioning(expr, target)
    if kept is not None:
        return kept, "cheaper plan: a side is partitioned by the key already and stays"
    return (
        JoinStage(
            expr.left,
            expr.right,
            expr.how,
            expr.left_on,
            expr.right_on,
            bool(expr.left_index),
            bool(expr.right_index),
            expr.suffixes,
            expr.indicator,
            _outputs(expr),
        ),
        None,
    )


def _as_dask(expr: Merge, target: Target, original: Any) -> Expr:
    """Lower a join as Dask does, where what we have done elsewhere allows."""
    operands = dict(zip(expr._parameters, expr.operands, strict=True))
    operands["shuffle_method"] = dask_method(expr.shuffle_method)
    if not expr._is_single_partition_broadcast:
        for side in ("left", "right"):
            # Dask would bring the other side here by its own hash.
            if _partitioned(expr, side) and origin(operands[side], target) != "dask":
                operands[side] = Unpartitioned(operands[side])
    plain = type(expr)(*operands.values())
    if operands["shuffle_method"] is None and target.pilot is not None:
        lowered = original(_with_method(plain, "tasks") if _is_broadcast(plain) else plain)
    else:
        lowered = original(plain)
    if isinstance(lowered, (BroadcastJoin, BlockwiseMerge)):
        return _by_dasks_hash(lowered)
    return lowered  # type: ignore[no-any-return]


def _is_broadcast(expr: Merge) -> bool:
    return bool(_with_method(expr, "tasks").is_broadcast_join)


def _by_dasks_hash(lowered: Expr) -> Expr:
    """Keep the shuffles that a plan of Dask's makes with Dask: the plan counts on its hash."""
    operands = list(lowered.operands)
    for number, operand in enumerate(operands):
        if isinstance(operand, RearrangeByColumn):
            values = dict(zip(operand._parameters, operand.operands, strict=False))
            if values.get("method") in (None, SCHEDULER_NAME):
                values["method"] = "tasks"
                operands[number] = type(operand)(**values)
    return type(lowered)(*operands)


def _keep_partitioning(expr: Merge, target: Target) -> Expr | None:
    """Leave sides that our hash has partitioned by the key where they are."""
    outputs = _outputs(expr)
    stays = {
        side: _partitioned(expr, side)
        and getattr(expr, side).npartitions == outputs
        and origin(getattr(expr, side), target) == "rcylon"
        for side in ("left", "right")
    }
    if not any(stays.values()):
        return None
    sides = []
    for side in ("left", "right"):
        frame = getattr(expr, side)
        if not stays[side]:
            index = bool(getattr(expr, f"{side}_index"))
            on = getattr(expr, f"{side}_on")
            frame = RearrangeByColumn(
                frame,
                None if index else on,
                npartitions_out=outputs,
                method=SCHEDULER_NAME,
                index_shuffle=index,
            )
            if shuffle.reason(frame, target) is not None:
                return None
        sides.append(frame)
    return BlockwiseMerge(*sides, **expr.kwargs)


def origin(expr: Expr, target: Target) -> str | None:
    """Tell whose hash has partitioned a frame: ``"rcylon"``, ``"dask"`` or None if not known."""
    if isinstance(expr, Stage):
        return "rcylon"
    if isinstance(expr, RearrangeByColumn):
        return "dask" if shuffle.reason(expr, target) is not None else "rcylon"
    if isinstance(expr, ShuffleBase):
        return "dask"
    if isinstance(expr, Merge) and not isinstance(expr, BlockwiseMerge):
        if type(expr) is not Merge:
            return "dask"
        plan, why = _plan(expr, target)
        return "rcylon" if plan is not None and why is None else None
    known = {
        origin(frame, target)
        for frame in expr.dependencies()
        if frame.unique_partition_mapping_columns_from_shuffle
    }
    return known.pop() if len(known) == 1 else None


def _partitioned(expr: Merge, side: str) -> bool:
    frame, on = getattr(expr, side), getattr(expr, f"{side}_on")
    return on is not None and bool(expr._on_condition_already_partitioned(frame, on))


def _with_method(expr: Merge, method: str) -> Merge:
    operands = dict(zip(expr._parameters, expr.operands, strict=True))
    return type(expr)(*{**operands, "shuffle_method": method}.values())


def _outputs(expr: Merge) -> int:
    asked = expr.operand("_npartitions")
    return int(asked or max(expr.left.npartitions, expr.right.npartitions))


def _key_dtypes(expr: Merge) -> list[tuple[Any, Any]]:
    dtypes = []
    for frame, on, index in (
        (expr.left._meta, expr.left_on, expr.left_index),
        (expr.right._meta, expr.right_on, expr.right_index),
    ):
        labels = [] if index or on is None else on if isinstance(on, list) else [on]
        dtypes += [(label, frame[label].dtype) for label in labels if label in frame.columns]
        if index:
            dtypes += shuffle._levels(frame.index)
    return dtypes


def _keys(expr: Merge) -> str:
    left = "index" if expr.left_index else expr.left_on
    right = "index" if expr.right_index else expr.right_on
    return f"{expr.how} on {left!r}" + ("" if left == right else f" = {right!r}")
