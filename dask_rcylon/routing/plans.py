"""The plans that Dask has for a join, and which of them it would choose."""

from __future__ import annotations

from typing import Any

import pandas as pd
from pandas.api.types import is_object_dtype

from dask_rcylon.routing.internals import Merge
from dask_rcylon.routing.keys import levels


def cheaper(expr: Merge) -> str | None:
    """Name the plan of Dask's that moves less than both sides; None if there is none.

    Parameters
    ----------
    expr : Merge
        A join that is not lowered yet.

    Returns
    -------
    str or None
        In words that follow "cheaper plan".
    """
    if expr._is_single_partition_broadcast:
        return "a side of one partition meets every partition of the other"
    if expr.merge_indexed_left and expr.merge_indexed_right:
        return "both indexes have known divisions, which are aligned"
    if broadcasts(expr) and (expr.how == "inner" or _hash_alike(expr)):
        return (
            f"the {expr.broadcast_side} side is small and is sent to every partition of the other"
        )
    return None


def broadcasts(expr: Merge) -> bool:
    """Tell whether Dask would broadcast a side; our method's name must not keep it from that."""
    return bool(expr.substitute_parameters({"shuffle_method": "tasks"}).is_broadcast_join)


def _hash_alike(expr: Merge) -> bool:
    """Tell whether Dask's hash brings equal keys together.

    Its broadcast of an outer side needs that, and for keys that are equal only after a conversion
    (or lie in an index) it does not hold: rows would be lost.
    """
    if expr.left_index or expr.right_index:
        return False
    left, right = key_dtypes(expr, "left"), key_dtypes(expr, "right")
    return len(left) == len(right) and all(
        a == b and not isinstance(a, pd.CategoricalDtype) and not is_object_dtype(a)
        for (_, a), (_, b) in zip(left, right, strict=True)
    )


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
