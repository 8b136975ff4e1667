"""Plans for a join that move less than both sides; mostly Dask's own."""

from __future__ import annotations

from typing import Any

from dask_rcylon.routing.aligned import AlignedJoin
from dask_rcylon.routing.internals import Expr, Merge, Repartition
from dask_rcylon.routing.keys import levels


def cheaper(expr: Merge) -> tuple[Expr | None, str | None]:
    """Find a plan that moves less than both sides.

    Parameters
    ----------
    expr : Merge
        A join that is not lowered yet.

    Returns
    -------
    plan : Expr or None
        The plan, where it is not the one that Dask would make.
    why : str or None
        What it is; None if there is none.
    """
    if expr._is_single_partition_broadcast:
        return None, "cheaper plan: a side of one partition meets every partition of the other"
    if expr.merge_indexed_left and expr.merge_indexed_right:
        return None, "cheaper plan: both indexes have known divisions, which are aligned"
    if broadcasts(expr):
        small = expr.broadcast_side
        why = f"cheaper plan: the {small} side is small and is sent to every partition of the other"
        if expr.how == "inner":
            return None, why
        if small == ("left" if expr.how == "right" else "right"):
            return _with_small_side(expr, small), why
    return None, None


def broadcasts(expr: Merge) -> bool:
    """Tell whether Dask would broadcast a side; our method's name must not keep it from that."""
    return bool(expr.substitute_parameters({"shuffle_method": "tasks"}).is_broadcast_join)


def _with_small_side(expr: Merge, small: str) -> Expr:
    """Unite the small side and join every partition of the other with it.

    Dask splits both sides by a hash instead, and loses rows: where keys of different types are
    equal, where nullable integers have nulls, with ``npartitions=`` (dask 2026.8).
    """
    sides = {"left": expr.left, "right": expr.right}
    for side, frame in sides.items():
        count = 1 if side == small else expr.operand("_npartitions")
        if count is not None:
            sides[side] = Repartition(frame, new_partitions=count)
    return AlignedJoin(*sides.values(), **expr.kwargs)


def outputs(expr: Merge) -> int:
    """Return the number of partitions of a join that moves both sides."""
    asked = expr.operand("_npartitions")
    return int(asked or max(expr.left.npartitions, expr.right.npartitions))


def key_dtypes(expr: Merge, side: str) -> list[tuple[Any, Any]]:
    """Return label and dtype of each key of a side."""
    meta = getattr(expr, side)._meta
    if getattr(expr, f"{side}_index"):
        return levels(meta.index)
    on = getattr(expr, f"{side}_on")
    found = []
    for label in on if isinstance(on, list) else [on]:
        if label in meta.columns:
            found.append((label, meta[label].dtype))
        elif label in meta.index.names:
            found.append((label, meta.index.get_level_values(label).dtype))
    return found
