"""What a join says its result is partitioned by."""

import dask
import dask.dataframe as dd
import pandas as pd
import pytest

from dask_rcylon import explain
from dask_rcylon.routing.internals import BlockwiseMerge


def claims(collection):
    return collection.expr.unique_partition_mapping_columns_from_shuffle


@pytest.fixture
def right(other):
    return dd.from_pandas(other.rename(columns={"k": "m"}), npartitions=4, sort=False)


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("inner", {("k",), ("m",)}),
        ("left", {("k",)}),
        ("right", {("m",)}),
        ("outer", set()),
    ],
)
def test_keys_of_different_names(how, expected, left, right, routed, not_routed):
    joined = left.merge(right, left_on="k", right_on="m", how=how)
    with dask.config.set(scheduler=routed):
        assert claims(joined) == expected
    # Dask's answer, if it is not ours to give.
    assert claims(joined) == {"k", "m"}


@pytest.mark.parametrize("how", ["inner", "left", "right", "outer"])
def test_keys_of_one_name(how, left, right, routed):
    assert claims(left.merge(right.rename(columns={"m": "k"}), on=["k"], how=how)) == {("k",)}


def test_broadcast_claims_nothing(frame, other, routed):
    left = dd.from_pandas(frame, npartitions=60, sort=False)
    right = dd.from_pandas(other, npartitions=2, sort=False)
    joined = left.merge(right, on="k")
    assert claims(joined) == set()
    assert claims(joined.optimize(fuse=False)) == set()
    # The groups of the join are in many partitions.
    grouped = joined.groupby("k").apply(len, meta=(None, int))
    assert explain(grouped).routed == ["shuffle"]


def test_known_divisions_claim_nothing(frame, routed):
    one = dd.from_pandas(frame.set_index("k").sort_index(), npartitions=5)
    assert claims(one.merge(one, left_on="k", right_on="k")) == set()


def test_suffixed_keys_are_not_claimed(left, right, routed):
    """``k`` of the left becomes ``k_x``; ``k`` of the right, which is no key, becomes ``k``."""
    right = right.assign(k=right.y)
    assert claims(left.merge(right, left_on="k", right_on="m", suffixes=("_x", ""))) == {("m",)}
    assert claims(left.merge(right, left_on="k", right_on="m")) == {("m",)}


def test_groups_of_a_column_that_took_over_a_keys_label(left, right, routed, client2):
    """The stage is asked, too: Dask lowers an aggregation after what it stands on."""
    right = right.assign(k=right.m % 3)
    grouped = left.merge(right, left_on="k", right_on="m", suffixes=("_l", "")).groupby("k")
    counted = grouped.agg({"x": "count"}, split_out=3)
    assert explain(counted).routed == ["join", "shuffle"]
    assert len(counted.compute(scheduler=client2)) == 3


def test_side_of_one_partition(left, right, routed):
    one = right.repartition(npartitions=1).shuffle("m")
    joined = left.shuffle("k").merge(one, left_on="k", right_on="m")
    assert claims(joined) == {("k",)}
    assert claims(joined.optimize(fuse=False)) == {("k",)}


@pytest.mark.parametrize(
    ("how", "expected"),
    [("inner", {("k",), ("m",)}), ("left", {("k",)}), ("right", {("m",)}), ("outer", set())],
)
def test_aligned_sides(how, expected, left, right, routed):
    left, right = left.shuffle("k", npartitions=5), right.shuffle("m", npartitions=5)
    joined = left.merge(right, left_on="k", right_on="m", how=how).optimize(fuse=False)
    assert isinstance(joined.expr, BlockwiseMerge)
    assert claims(joined) == expected


def test_aligned_sides_of_one_key(left, right, routed):
    right = right.rename(columns={"m": "k"})
    left, right = left.shuffle("k", npartitions=5), right.shuffle("k", npartitions=5)
    joined = left.merge(right, on="k", how="outer").optimize(fuse=False)
    assert isinstance(joined.expr, BlockwiseMerge)
    assert claims(joined) == {("k",)}


def test_outer_join_groups_of_missing_keys(frame, routed):
    """Rows without a match have no key of the other side, and lie in many partitions."""
    left = dd.from_pandas(frame, npartitions=6, sort=False)
    right = dd.from_pandas(pd.DataFrame({"m": [1, 2, 3], "y": 1}), npartitions=3)
    joined = left.merge(right, left_on="k", right_on="m", how="left")
    grouped = joined.groupby("m", dropna=False).x.sum(split_out=3)
    assert explain(grouped).routed == ["join", "shuffle"]
