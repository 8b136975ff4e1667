"""``set_index``: Dask finds the divisions, a stage moves the rows."""

from __future__ import annotations

from typing import Any

import pandas as pd

from dask_rcylon.routing.decision import Decision, frame_reason, method_reason, record
from dask_rcylon.routing.internals import Assign, ColumnsSetter, Expr, SetPartition
from dask_rcylon.routing.keys import unused
from dask_rcylon.routing.target import Target
from dask_rcylon.stages import SetIndexStage


def lower(expr: SetPartition, target: Target) -> Expr | None:
    """Return the stage for a set_index, or None if it stays with Dask."""
    why = method_reason(expr.shuffle_method, target) or frame_reason(expr.frame)
    # By now they are known: given by the user, or computed when SetIndex was lowered to this.
    divisions = tuple(expr._divisions())
    if why is None and (len(divisions) < 2 or _any_null(divisions)):
        why = "the index has no values that could divide it"
    name = expr.other._meta.name
    outputs = len(divisions) - 1
    decision = Decision(
        "set_index", repr(name), (expr.frame.npartitions,), outputs, target.pilot, why
    )
    record(expr, target, decision)
    if why is not None:
        return None
    if isinstance(expr._other, Expr):
        meta = expr.frame._meta
        label = unused("__rcylon_index", meta)
        frame = Assign(expr.frame, label, expr._other)
        stage = SetIndexStage(frame, label, True, name, divisions)
        # The label may have changed the dtype of the others.
        same = frame._meta.columns.dtype == meta.columns.dtype
        return stage if same else ColumnsSetter(stage, meta.columns)
    return SetIndexStage(expr.frame, expr._other, bool(expr.drop), name, divisions)


def _any_null(values: tuple[Any, ...]) -> bool:
    return bool(pd.isna(pd.Series(list(values), dtype=object)).any())
