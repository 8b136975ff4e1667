"""``set_index``: Dask finds the divisions, a stage moves the rows."""

from __future__ import annotations

from typing import Any

import dask
import pandas as pd
from dask.dataframe.dask_expr._expr import Assign, Expr
from dask.dataframe.dask_expr._shuffle import SetPartition

from dask_rcylon.routing.decision import Decision, frame_reason, method_reason, record
from dask_rcylon.routing.target import Target
from dask_rcylon.stages import SetIndexStage

_INDEX = "__rcylon_index"


def lower(expr: SetPartition, target: Target) -> Expr | None:
    """Return the stage for a set_index, or None if it stays with Dask."""
    why = method_reason(expr.shuffle_method, target) or frame_reason(expr.frame)
    divisions: tuple[Any, ...] = ()
    if why is None:
        # The divisions are computed where the whole expression is going to run.
        with dask.config.set(scheduler=target.scheduler or dask.config.get("scheduler", None)):
            divisions = tuple(expr._divisions())
        if len(divisions) < 2 or pd.isna(pd.Series(list(divisions), dtype=object)).any():
            why = "the index has no values that could divide it"
    outputs = len(divisions) - 1 if divisions else expr._npartitions_input
    name = expr.other._meta.name
    decision = Decision(
        "set_index", repr(name), (expr.frame.npartitions,), outputs, target.pilot, why
    )
    record(expr, decision)
    if why is not None:
        return None
    if isinstance(expr._other, Expr):
        frame: Expr = Assign(expr.frame, _INDEX, expr._other)
        return SetIndexStage(frame, _INDEX, True, name, divisions)
    return SetIndexStage(expr.frame, expr._other, bool(expr.drop), name, divisions)
