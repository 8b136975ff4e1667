"""``sort_values``, and the sorts inside ``groupby(sort=True)`` with several output partitions."""

from __future__ import annotations

import pandas as pd
from dask.dataframe.dask_expr._expr import Expr
from dask.dataframe.dask_expr._shuffle import SortValues
from dask.dataframe.utils import UNKNOWN_CATEGORIES

from dask_rcylon.columns.sortkeys import sortable
from dask_rcylon.routing.decision import Decision, frame_reason, method_reason, record
from dask_rcylon.routing.target import Target
from dask_rcylon.stages import SortStage


class ColocatedSort(SortValues):
    """A sort whose user counts on equal keys being in one partition."""


def reason(expr: SortValues, target: Target) -> str | None:
    """Say why a sort stays with Dask; None if it is routed."""
    why = method_reason(expr.shuffle_method, target) or frame_reason(expr.frame)
    if why is not None:
        return why
    if expr.frame.npartitions == 1:
        return "cheaper plan: there is one partition, which is sorted where it is"
    if expr.operand("sort_function") is not None:
        return "a sort_function of the user's was given"
    if expr.operand("sort_function_kwargs"):
        return "sort_function_kwargs were given"
    if not isinstance(expr.operand("npartitions"), (int, type(None))):
        return f"npartitions={expr.operand('npartitions')!r} is not a number"
    for label in expr.by:
        dtype = expr.frame._meta[label].dtype
        if not sortable(dtype):
            return f"sort key {label!r} has dtype {dtype}, whose order only pandas knows"
        if isinstance(dtype, pd.CategoricalDtype) and not _known(dtype):
            return f"the categories of sort key {label!r} are not known"
    return None


def _known(dtype: pd.CategoricalDtype) -> bool:
    return dtype.categories is not None and UNKNOWN_CATEGORIES not in dtype.categories


def outputs(expr: SortValues) -> int:
    """Return the number of partitions that a routed sort makes."""
    return int(expr.operand("npartitions") or expr.frame.npartitions)


def lower(expr: SortValues, target: Target) -> Expr | None:
    """Return the stage for a sort, or None if it stays with Dask."""
    why = reason(expr, target)
    direction = "" if expr.ascending is True else f", ascending={expr.ascending}"
    keys = ", ".join(map(repr, expr.by)) + direction
    decision = Decision("sort", keys, (expr.frame.npartitions,), outputs(expr), target.pilot, why)
    record(expr, decision)
    if why is not None:
        return None
    return SortStage(
        expr.frame,
        expr.by,
        expr.ascending,
        expr.na_position,
        bool(expr.ignore_index),
        outputs(expr),
        isinstance(expr, ColocatedSort),
    )


def colocate(lowered: Expr, below: Expr) -> Expr:
    """Mark the sorts that a lowering has put on top of `below`."""
    given = {node._name for node in below.walk()}
    for node in list(lowered.find_operations(SortValues)):
        if node._name not in given and type(node) is SortValues:
            lowered = lowered.substitute(node, ColocatedSort(*node.operands))
    return lowered
