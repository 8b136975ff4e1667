"""Which columns a hash join leaves its result partitioned by.

Dask asks an expression for this (``unique_partition_mapping_columns_from_shuffle``) and leaves a
shuffle out where the answer has its key.  A claim that is not true spreads groups over partitions.
"""

from __future__ import annotations

from typing import Any

from dask.dataframe.dask_expr._merge import Merge

Claims = set[Any]


def as_list(on: Any) -> list[Any]:
    """Return one label or several as a list."""
    return list(on) if isinstance(on, (list, tuple)) else [on]


def same_keys(join: Merge) -> bool:
    """Tell whether both sides have keys of the same names, which become one column."""
    return join.left_on is not None and bool(join.left_on == join.right_on)


def of_hash_join(join: Merge) -> Claims:
    """Return the column sets by which equal rows of a hash join share a partition.

    Rows that an outer side contributes lie where their own key hashed, with nulls in the other
    side's key columns: these columns then say nothing.
    """
    claims: Claims = set()
    same = join.left_on == join.right_on
    if join.left_on is not None and (same or join.how in ("inner", "left", "leftsemi")):
        claims.add(tuple(as_list(join.left_on)))
    if join.right_on is not None and (same or join.how in ("inner", "right")):
        claims.add(tuple(as_list(join.right_on)))
    return unambiguous(join, claims)


def unambiguous(join: Merge, claims: Claims) -> Claims:
    """Drop what names columns that get a suffix, or that are not in the result."""
    shared = set(join.left.columns) & set(join.right.columns)
    if same_keys(join):
        shared -= set(as_list(join.left_on))
    known = set(join.columns) - shared
    return {claim for claim in claims if claim is None or set(as_list(claim)) <= known}
