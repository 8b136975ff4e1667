"""``sort_values``, and the sorts inside ``groupby(sort=True)`` with several output partitions."""

from __future__ import annotations

from numbers import Integral

import pandas as pd

from dask_rcylon.columns.sortkeys import sortable
from dask_rcylon.routing.decision import Decision, frame_reason, method_reason, record
from dask_rcylon.routing.internals import (
    UNKNOWN_CATEGORIES,
    Expr,
    Repartition,
    ShuffleReduce,
    SortValues,
)
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
    if not isinstance(expr.operand("npartitions"), (Integral, type(None))):
        return f"npartitions={expr.operand('npartitions')!r} is not a number"
    for label in expr.by:
        dtype = expr.frame._meta[label].dtype
        if not sortable(dtype):
            return f"sort key {label!r} has dtype {dtype}, whose order only pandas knows"
        if isinstance(dtype, pd.CategoricalDtype) and not _known(dtype):
            return (
                f"the categories of sort key {label!r} are not known; "
                f"df[{label!r}].cat.as_known() finds them"
            )
    return None


def _known(dtype: pd.CategoricalDtype) -> bool:
    return dtype.categories is not None and UNKNOWN_CATEGORIES not in dtype.categories


def divisions(expr: SortValues) -> tuple[None, ...]:
    """Return the divisions of a routed sort: unknown, for nothing is read to find them."""
    return (None,) * (int(expr.operand("npartitions") or expr.frame.npartitions) + 1)


def lower(expr: SortValues, target: Target) -> Expr | None:
    """Return the stage for a sort, or None if it stays with Dask."""
    why = reason(expr, target)
    # Divisions may have been asked for when the sort was to stay with Dask: what others have
    # concluded from their number must remain true.
    asked = expr.operand("npartitions") or expr.frame.npartitions
    outputs = asked if why is not None else len(expr.divisions) - 1
    direction = "" if expr.ascending is True else f", ascending={expr.ascending}"
    keys = ", ".join(map(repr, expr.by)) + direction
    decision = Decision("sort", keys, (expr.frame.npartitions,), outputs, target.pilot, why)
    record(expr, target, decision)
    if why is not None:
        return None
    return SortStage(
        expr.frame,
        expr.by,
        expr.ascending,
        expr.na_position,
        bool(expr.ignore_index),
        outputs,
        isinstance(expr, ColocatedSort),
    )


def keeps_parallel(expr: SortValues, parent: Expr, target: Target) -> bool:
    """Tell whether a sort must not be made a sort of the parent's fewer partitions.

    ``compute()`` wants one partition, and Dask would unite the *input* before it sorts: all rows on
    one worker, sorted by one thread.  Ranks sort first.
    """
    return (
        isinstance(parent, Repartition)
        and isinstance(parent.operand("new_partitions"), Integral)
        and parent.operand("new_partitions") < expr.frame.npartitions
        and reason(expr, target) is None
    )


def colocate(lowered: Expr, expr: ShuffleReduce) -> Expr:
    """Mark the sort that a reduction is lowered to: groups must not be spread over partitions.

    Dask gives that sort no shuffle method; it gets the reduction's.
    """
    given = {node._name for node in expr.frame.walk()}
    for node in list(lowered.find_operations(SortValues)):
        if node._name not in given and type(node) is SortValues:
            marked = ColocatedSort(*node.operands)
            if node.shuffle_method is None and expr.shuffle_method is not None:
                marked = marked.substitute_parameters({"shuffle_method": expr.shuffle_method})
            lowered = lowered.substitute(node, marked)
    return lowered
