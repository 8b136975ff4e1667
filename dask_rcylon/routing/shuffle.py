"""Shuffles by a hash of columns: ``shuffle(on=...)``, and all that groups rows through it."""

from __future__ import annotations

from typing import Any

import pandas as pd
from dask.dataframe.dask_expr._expr import Assign, Expr, Projection, RenameSeries, ToFrame
from dask.dataframe.dask_expr._shuffle import RearrangeByColumn

from dask_rcylon.routing.decision import Decision, frame_reason, key_reason, method_reason, record
from dask_rcylon.routing.target import Target
from dask_rcylon.stages import ShuffleStage

_KEY = "__rcylon_key_{}"
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
    keys = "index" if _by_index(expr) else _describe(expr.partitioning_index)
    decision = Decision(
        "shuffle", keys, (expr.frame.npartitions,), expr.npartitions_out, target.pilot, why
    )
    record(expr, decision)
    return None if why is not None else _stage(expr)


def _stage(expr: RearrangeByColumn) -> Expr:
    frame, on, drop = expr.frame, expr.partitioning_index, []
    series = frame.ndim == 1
    if series:
        name = frame._meta.name
        frame = ToFrame(frame, name=_SERIES)
        if not isinstance(on, Expr) and not _by_index(expr):
            on = [_SERIES if label == name else label for label in _as_list(on)]
    by_index = _by_index(expr)
    if by_index:
        on = None
    elif isinstance(on, Expr):
        keys = [on] if on.ndim == 1 else [Projection(on, label) for label in on.columns]
        drop = [_KEY.format(number) for number in range(len(keys))]
        for label, key in zip(drop, keys, strict=True):
            frame = Assign(frame, label, key)
        on = list(drop)
    else:
        on = _as_list(on)
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


def _as_list(on: Any) -> list[Any]:
    return list(on) if isinstance(on, (list, tuple)) else [on]


def _describe(on: Any) -> str:
    return str(on) if isinstance(on, Expr) else ", ".join(map(repr, _as_list(on)))


def _key_dtypes(expr: RearrangeByColumn) -> list[tuple[Any, Any]]:
    meta, on = expr.frame._meta, expr.partitioning_index
    if _by_index(expr):
        return _levels(meta.index)
    if isinstance(on, Expr):
        if isinstance(on._meta, pd.DataFrame):
            return list(on._meta.dtypes.items())
        return [(on._meta.name, on._meta.dtype)]
    if meta.ndim == 1:
        return [(meta.name, meta.dtype)]
    return [(k, meta[k].dtype) for k in _as_list(on) if k in meta.columns] + (
        _levels(meta.index) if any(k not in meta.columns for k in _as_list(on)) else []
    )


def _levels(index: pd.Index) -> list[tuple[Any, Any]]:
    return [
        (index.names[level], index.get_level_values(level).dtype) for level in range(index.nlevels)
    ]
