"""Shuffles by a hash of columns: ``shuffle(on=...)``, and all that groups rows through it."""

from __future__ import annotations

from typing import Any

import pandas as pd

from dask_rcylon.routing.decision import Decision, frame_reason, key_reason, method_reason, record
from dask_rcylon.routing.internals import (
    Assign,
    Expr,
    MaybeAlignPartitions,
    Projection,
    RearrangeByColumn,
    RenameSeries,
    ToFrame,
)
from dask_rcylon.routing.keys import levels, unused
from dask_rcylon.routing.method import DasksMethod, dasks
from dask_rcylon.routing.target import Target
from dask_rcylon.stages import ShuffleStage
from dask_rcylon.stages.claims import as_list

_SERIES = "__rcylon_series"


def reason(expr: RearrangeByColumn, target: Target) -> str | None:
    """Say why a shuffle stays with Dask; None if it is routed."""
    return (
        method_reason(expr.method, target)
        or frame_reason(expr.frame)
        or key_reason(_key_dtypes(expr))
    )


def lower(expr: RearrangeByColumn, target: Target) -> Expr | None:
    """Return the stage for a shuffle, or None if it stays with Dask."""
    why = reason(expr, target)
    if not isinstance(expr.method, DasksMethod):
        keys = "index" if _by_index(expr) else _describe(expr.partitioning_index)
        decision = Decision(
            "shuffle", keys, (expr.frame.npartitions,), expr.npartitions_out, target.pilot, why
        )
        record(expr, target, decision)
    return None if why is not None else _stage(expr)


def align(lowered: Expr, expr: MaybeAlignPartitions, target: Target) -> Expr:
    """Have frames that are aligned with each other shuffled all by one hash."""
    frames = [op for op in lowered.operands if _is_new(op, expr)]
    if target.pilot is None or all(reason(frame, target) is None for frame in frames):
        return lowered
    return by_dasks_hash(lowered, expr, dasks(None, target, *frames))


def by_dasks_hash(lowered: Expr, expr: Expr, method: str | None) -> Expr:
    """Have the shuffles that a plan of Dask's has added made by Dask: it counts on its hash.

    Parameters
    ----------
    lowered : Expr
        The plan.
    expr : Expr
        What it is the plan of; its own operands stay as they are.
    method : str
        Dask's method.
    """
    operands = [
        op.substitute_parameters({"method": DasksMethod(method)}) if _is_new(op, expr) else op
        for op in lowered.operands
    ]
    return type(lowered)(*operands)


def _is_new(operand: Any, expr: Expr) -> bool:
    given = {op._name for op in expr.operands if isinstance(op, Expr)}
    return type(operand) is RearrangeByColumn and operand._name not in given


def _stage(expr: RearrangeByColumn) -> Expr:
    frame, on = expr.frame, expr.partitioning_index
    by_index, drop = _by_index(expr), []
    series = frame.ndim == 1
    if series:
        name = frame._meta.name
        frame = ToFrame(frame, name=_SERIES)
        if not isinstance(on, Expr) and not by_index:
            on = [_SERIES if label == name else label for label in as_list(on)]
    if by_index:
        on = None
    elif isinstance(on, Expr):
        keys = [on] if on.ndim == 1 else [Projection(on, label) for label in on.columns]
        for key in keys:
            label = unused("__rcylon_key", frame._meta)
            frame = Assign(frame, label, key)
            drop.append(label)
        on = list(drop)
    else:
        on = as_list(on)
    stage = ShuffleStage(
        frame,
        on,
        expr.npartitions_out,
        bool(expr.ignore_index),
        by_index,
        drop,
        _original(expr),
    )
    return RenameSeries(Projection(stage, _SERIES), name) if series else stage


def _by_index(expr: RearrangeByColumn) -> bool:
    on = expr.partitioning_index
    if isinstance(on, Expr) and isinstance(on._meta, pd.Index):
        return bool(on._name == expr.frame.index._name)
    return bool(expr.index_shuffle)


def _original(expr: RearrangeByColumn) -> list[Any] | None:
    original = expr.original_partitioning_index or expr._partitioning_index
    return original if isinstance(original, list) else None


def _describe(on: Any) -> str:
    return str(on) if isinstance(on, Expr) else ", ".join(map(repr, as_list(on)))


def _key_dtypes(expr: RearrangeByColumn) -> list[tuple[Any, Any]]:
    meta, on = expr.frame._meta, expr.partitioning_index
    if _by_index(expr):
        return levels(meta.index)
    if isinstance(on, Expr):
        if isinstance(on._meta, pd.DataFrame):
            return list(on._meta.dtypes.items())
        return [(on._meta.name, on._meta.dtype)]
    if meta.ndim == 1:
        return [(meta.name, meta.dtype)]
    return [(k, meta[k].dtype) for k in as_list(on) if k in meta.columns] + (
        levels(meta.index) if any(k not in meta.columns for k in as_list(on)) else []
    )
