"""Joins: ``merge`` and ``join``.

Dask has plans for a join that move less than both sides, and they are kept: a side of one
partition or a small one is broadcast, known divisions are aligned, a side that is partitioned by
the key already stays where it is.  The last needs care: our hash is not Dask's.  A side may stay
only if the other is brought to it by the hash that put it there.
"""

from __future__ import annotations

from typing import Any, ClassVar

from dask_rcylon.routing import plans, shuffle
from dask_rcylon.routing.aligned import AlignedJoin
from dask_rcylon.routing.decision import (
    Decision,
    frame_reason,
    key_reason,
    method_reason,
    record,
)
from dask_rcylon.routing.internals import (
    Blockwise,
    BlockwiseMerge,
    Expr,
    Merge,
    RearrangeByColumn,
    ShuffleBase,
)
from dask_rcylon.routing.method import DasksMethod, asked, dasks
from dask_rcylon.routing.plans import key_dtypes, outputs
from dask_rcylon.routing.target import SCHEDULER_NAME, Target
from dask_rcylon.stages import JoinStage, Stage

_HOWS = ("inner", "left", "right", "outer", "leftsemi")
_SIDES = ("left", "right")


class Unpartitioned(Blockwise):
    """A frame as it is, without a claim that its rows are partitioned by any key."""

    _parameters: ClassVar[list[str]] = ["frame"]
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
    lowered = _as_dask(expr, target, original) if plan is None else plan
    inputs = (expr.left.npartitions, expr.right.npartitions)
    decision = Decision("join", _describe(expr), inputs, lowered.npartitions, target.pilot, why)
    record(expr, target, decision)
    return lowered


def _plan(expr: Merge, target: Target) -> tuple[Expr | None, str | None]:
    """Return the plan, if it is not just Dask's, and why it is no stage, if it is none."""
    why = method_reason(expr.shuffle_method, target)
    if why is None and expr.how not in _HOWS:
        why = f"how={expr.how!r} is not one that stages know"
    why = (
        why
        or frame_reason(expr.left, "on the left, ")
        or frame_reason(expr.right, "on the right, ")
        or key_reason([*key_dtypes(expr, "left"), *key_dtypes(expr, "right")])
    )
    if why is not None:
        return None, why
    plan, why = plans.cheaper(expr)
    if why is not None:
        return plan, why
    kept = _keep_partitioning(expr, target)
    if kept is not None:
        return kept, "cheaper plan: a side is partitioned by the key already and stays"
    stage = JoinStage(
        expr.left,
        expr.right,
        expr.how,
        expr.left_on,
        expr.right_on,
        bool(expr.left_index),
        bool(expr.right_index),
        expr.suffixes,
        expr.indicator,
        outputs(expr),
    )
    return stage, None


def _as_dask(expr: Merge, target: Target, original: Any) -> Expr:
    """Lower a join as Dask does, where what we have done elsewhere allows."""
    if target.pilot is None and asked(expr.shuffle_method) != SCHEDULER_NAME:
        return original(expr)  # type: ignore[no-any-return]
    method = DasksMethod(dasks(expr.shuffle_method, target, expr.left, expr.right))
    changes: dict[str, Any] = {"shuffle_method": method}
    if not expr._is_single_partition_broadcast:
        for side in _SIDES:
            # Dask would bring the other side here by its own hash.
            if _claimed(expr, side) and origin(getattr(expr, side), target) != "dask":
                changes[side] = Unpartitioned(getattr(expr, side))
    plain = expr.substitute_parameters(changes)
    return shuffle.by_dasks_hash(original(plain), plain, method)


def _keep_partitioning(expr: Merge, target: Target) -> Expr | None:
    """Leave sides that our hash has partitioned by the key where they are."""
    count = outputs(expr)
    stays = {
        side: getattr(expr, f"{side}_on") is not None
        and _claimed(expr, side)
        and getattr(expr, side).npartitions == count
        and origin(getattr(expr, side), target) == "rcylon"
        for side in _SIDES
    }
    if not any(stays.values()):
        return None
    sides = []
    for side in _SIDES:
        frame = getattr(expr, side)
        if not stays[side]:
            index = bool(getattr(expr, f"{side}_index"))
            on = getattr(expr, f"{side}_on")
            frame = RearrangeByColumn(
                frame,
                None if index else on if isinstance(on, list) else [on],
                npartitions_out=count,
                method=SCHEDULER_NAME,
                index_shuffle=index,
            )
            if shuffle.reason(frame, target) is not None:
                return None
        sides.append(frame)
    return AlignedJoin(*sides, **expr.kwargs)


def origin(expr: Expr, target: Target) -> str | None:
    """Tell whose hash has partitioned a frame that claims to be partitioned.

    Parameters
    ----------
    expr : Expr
        The frame, lowered or not.
    target : Target
        Where it goes.

    Returns
    -------
    str or None
        ``"rcylon"``; ``"dask"``; None if it is not known, or if the partitions are not those of the
        hash any more (fewer, or some of them).
    """
    if isinstance(expr, Stage):
        return None if expr._filtered else "rcylon"
    if isinstance(expr, RearrangeByColumn):
        return "dask" if shuffle.reason(expr, target) is not None else "rcylon"
    if isinstance(expr, ShuffleBase):
        return "dask"
    if isinstance(expr, Merge) and not isinstance(expr, BlockwiseMerge):
        if type(expr) is not Merge:
            return "dask"
        plan, why = _plan(expr, target)
        if plan is None:
            return "dask"
        return "rcylon" if why is None else origin(plan, target)
    if not isinstance(expr, Blockwise):
        return None
    origins = {
        origin(frame, target) if frame.npartitions == expr.npartitions else None
        for frame in expr.dependencies()
        if frame.unique_partition_mapping_columns_from_shuffle
    }
    return origins.pop() if len(origins) == 1 else None


def _claimed(expr: Merge, side: str) -> bool:
    """Tell whether Dask takes a side for partitioned by its key."""
    frame, on = getattr(expr, side), getattr(expr, f"{side}_on")
    return bool(expr._on_condition_already_partitioned(frame, on))


def _describe(expr: Merge) -> str:
    left = "index" if expr.left_index else expr.left_on
    right = "index" if expr.right_index else expr.right_on
    left, right = (keys if keys == "index" else repr(keys) for keys in (left, right))
    return f"{expr.how} on {left}" + ("" if left == right else f" = {right}")
