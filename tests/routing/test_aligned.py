"""Joins of partitions that lie together already."""

import dask.dataframe as dd
import pandas as pd
import pytest

from dask_rcylon.routing.aligned import join_partitions

LEFT = pd.DataFrame({"k": [1, 2, 2, 4], "x": 1.5}, index=pd.Index([7, 8, 9, 9], name="i"))
RIGHT = pd.DataFrame({"k": [2, 4, 5, 4], "y": [1, 2, 3, 2], "x": "s"})


@pytest.mark.parametrize("how", ["inner", "left", "right", "outer", "leftsemi"])
@pytest.mark.parametrize("empty", ["", "left", "right", "both"])
def test_as_pandas(how, empty, assert_same_rows):
    left = LEFT.iloc[:0] if empty in ("left", "both") else LEFT
    right = RIGHT.iloc[:0] if empty in ("right", "both") else RIGHT
    if how == "leftsemi":
        right = right[["k"]]
    options = {"left_on": "k", "right_on": "k", "suffixes": ("_a", "_b")}
    semi = how == "leftsemi"
    expected = (left.merge(right.drop_duplicates(), on="k", how="inner")) if semi else None
    if not semi:
        expected = left.merge(right, how=how, **options)
    meta = LEFT.merge(right, how="inner" if semi else how, **options).iloc[:0]
    found = join_partitions(left, right, meta=meta, how=how, **options)
    assert list(found.columns) == list(meta.columns)
    assert_same_rows(found, expected[list(meta.columns)], check_index_type=len(expected) > 0)


def test_joins_on_ranks(client2, left, right, frame, other, stages, assert_same_rows):
    """The second join moves one side, and joins where the first has put the rows."""
    joined = left.merge(right, on="k").merge(right, on="k", suffixes=("", "_r"))
    expected = frame.merge(other, on="k").merge(other, on="k", suffixes=("", "_r"))
    expected["s"] = expected.s.astype(joined.s.dtype)
    with stages(client2, join=1, shuffle=1):
        assert_same_rows(joined.compute().reset_index(drop=True), expected)


def test_small_side(client2, frame, other, stages, assert_same_rows):
    many = dd.from_pandas(frame, npartitions=60, sort=False)
    few = dd.from_pandas(other, npartitions=2, sort=False)
    expected = frame.merge(other, on="k", how="left")
    joined = many.merge(few, on="k", how="left")
    expected["s"] = expected.s.astype(joined.s.dtype)
    with stages(client2):
        assert_same_rows(joined.compute().reset_index(drop=True), expected)
