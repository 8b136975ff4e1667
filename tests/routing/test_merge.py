"""Which joins become stages, and whose hash partitions what."""

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from dask_rcylon import explain
from dask_rcylon.routing.merge import Unpartitioned

HOWS = ["inner", "left", "right", "outer", "leftsemi"]


def only(collection, kind="join"):
    found = [stage for stage in explain(collection).stages if stage.kind == kind]
    assert len(found) == 1, explain(collection)
    return found[0]


@pytest.mark.parametrize("how", HOWS)
def test_routed(how, left, right, routed, classes):
    joined = left.merge(right, on="k", how=how)
    stage = only(joined)
    assert stage.reason is None
    assert (stage.inputs, stage.outputs) == ((6, 4), 6)
    assert stage.keys == f"{how} on 'k'"
    assert "JoinStage" in classes(joined)


@pytest.mark.parametrize(
    "options",
    [
        {"left_on": "x", "right_on": "y"},
        {"left_on": ["k", "x"], "right_on": ["k", "y"]},
        {"left_index": True, "right_on": "k"},
        {"left_on": "k", "right_index": True},
        {"on": "k", "suffixes": ("", "_r")},
        {"on": "k", "indicator": True},
        {"on": "k", "npartitions": 11},
        {"on": "k", "shuffle_method": "rcylon"},
        {"on": "k", "broadcast": False},
    ],
    ids=str,
)
def test_options(options, left, right, routed):
    stage = only(left.merge(right, **options))
    assert stage.reason is None
    assert stage.outputs == options.get("npartitions", 6)


def test_index_names_and_index_on_both_sides(left, right, routed):
    left, right = (df.set_index("k", sort=False) for df in (left, right))
    assert only(left.merge(right, on="k")).reason is None
    assert only(left.join(right)).reason is None
    assert explain(left.join([right, right.rename(columns={"y": "z"})])).routed == ["join"] * 2


@pytest.mark.parametrize("method", ["p2p", "tasks", "disk"])
def test_method_asked_for(method, left, right, routed, classes):
    joined = left.merge(right, on="k", shuffle_method=method)
    assert only(joined).reason == f"shuffle_method={method!r} was asked for"
    with dask.config.set({"dataframe.shuffle.method": method}):
        assert method in only(left.merge(right, on="k")).reason
        # Dask makes these without a method.
        indexed = left.set_index("k", sort=False), right.set_index("k", sort=False)
        assert method in only(indexed[0].join([indexed[1]])).reason
    assert not [name for name in classes(joined) if name.endswith("Stage")]


def test_shuffles_of_dasks_plan_are_not_stages_of_their_own(left, right, routed):
    assert len(explain(left.merge(right, on="k", shuffle_method="tasks")).stages) == 1


def test_one_partition(left, right, routed, classes):
    one = right.repartition(npartitions=1)
    assert "cheaper plan: a side of one partition" in only(left.merge(one, on="k")).reason
    assert only(left.merge(one, on="k", how="outer")).reason is None
    assert "cheaper plan" in only(one.merge(one, on="k", how="outer")).reason


def test_known_divisions(frame, other, routed, classes):
    left = dd.from_pandas(frame.set_index("k").sort_index(), npartitions=5)
    right = dd.from_pandas(other.set_index("k").sort_index(), npartitions=3)
    assert "known divisions" in only(left.join(right)).reason
    assert only(left.join(right.clear_divisions())).reason is None


@pytest.mark.parametrize("method", [None, "rcylon"])
def test_broadcast(method, frame, other, routed, classes):
    left = dd.from_pandas(frame, npartitions=60, sort=False)
    right = dd.from_pandas(other, npartitions=2, sort=False)
    joined = left.merge(right, on="k", shuffle_method=method)
    assert "cheaper plan: the right side is small" in only(joined).reason
    assert "BroadcastJoin" in classes(joined)
    assert only(left.merge(right, on="k", how="outer")).reason is None
    assert only(left.merge(right, on="k", broadcast=False)).reason is None


@pytest.mark.parametrize("npartitions", [None, 7])
@pytest.mark.parametrize("how", ["left", "leftsemi", "right"])
def test_broadcast_of_an_outer_join(how, npartitions, frame, other, routed, classes):
    """Dask's plan for it loses rows; there is one that does not."""
    many = dd.from_pandas(frame, npartitions=60, sort=False)
    few = dd.from_pandas(other, npartitions=2, sort=False)
    left, right = (few, many) if how == "right" else (many, few)
    joined = left.merge(right, on="k", how=how, npartitions=npartitions)
    side = "left" if how == "right" else "right"
    assert f"cheaper plan: the {side} side is small" in only(joined).reason
    names = classes(joined)
    assert names[0] == "AlignedJoin"
    assert "BroadcastJoin" not in names
    assert joined.optimize().npartitions == (npartitions or 60)


def test_broadcast_that_would_repeat_rows(frame, other, routed):
    """A row of the left may have its like in several partitions of the right."""
    left = dd.from_pandas(other, npartitions=2, sort=False)
    right = dd.from_pandas(frame, npartitions=60, sort=False)
    assert only(left.merge(right, on="k", how="leftsemi")).reason is None


def test_frames_that_cannot_travel(left, right, routed):
    twice = dd.from_pandas(pd.DataFrame([[1, 2, 3]] * 4, columns=["k", "a", "a"]), npartitions=2)
    assert "on the left, column labels are not unique" in only(twice.merge(right, on="k")).reason
    joined = right.merge(twice, on="k", how="outer")
    assert "on the right, column labels are not unique" in only(joined).reason


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_complex_keys(routed):
    a = dd.from_pandas(pd.DataFrame({"k": np.arange(6) * 1j}), npartitions=3)
    assert "complex" in only(a.merge(a.assign(y=1), on="k")).reason


# Whose hash has partitioned a side


def test_shuffled_by_us_stays(left, right, routed, classes):
    joined = left.merge(right, on="k").assign(z=1).merge(right, on="k", suffixes=("", "_r"))
    explained = explain(joined)
    assert [stage.kind for stage in explained.stages] == ["shuffle", "join", "join"]
    assert explained.routed == ["shuffle", "join"]
    assert "partitioned by the key already" in explained.stages[-1].reason
    names = classes(joined)
    assert names.count("JoinStage") == 1
    assert names.count("ShuffleStage") == 1
    assert names[0] == "AlignedJoin"


def test_both_shuffled_by_us_stay(left, right, routed, classes):
    joined = left.shuffle("k", npartitions=5).merge(right.shuffle("k", npartitions=5), on="k")
    assert [name for name in classes(joined) if name.endswith("Stage")] == ["ShuffleStage"] * 2


def test_other_number_of_partitions_moves(left, right, routed, classes):
    joined = left.shuffle("k", npartitions=3).merge(right.shuffle("k", npartitions=4), on="k")
    assert only(joined).outputs == 4
    # The one with as many partitions as the join stays.
    assert classes(joined).count("ShuffleStage") == 3


def test_fewer_partitions_of_a_shuffle_are_not_those_of_the_hash(left, right, routed, classes):
    fewer = left.shuffle("k", npartitions=6).repartition(npartitions=4)
    assert only(fewer.merge(right, on="k")).reason is None


def test_some_partitions_of_a_shuffle_are_not_those_of_the_hash(left, right, routed):
    some = left.shuffle("k", npartitions=6).partitions[[1, 3, 4, 5]]
    assert only(some.merge(right, on="k")).reason is None


def test_shuffled_by_dask_moves(left, right, routed, classes):
    joined = left.shuffle("k", shuffle_method="tasks").merge(right, on="k")
    assert only(joined).reason is None
    assert "JoinStage" in classes(joined)
    joined = left.merge(right, on="k", shuffle_method="tasks").merge(right, on="k")
    assert explain(joined).routed == ["join"]


@pytest.mark.parametrize("how", ["inner", "outer"])
def test_dask_does_not_trust_our_hash(how, left, right, routed, classes):
    ours = left.merge(right, on="k", how=how)
    joined = ours.merge(right, on="k", how=how, shuffle_method="tasks", suffixes=("", "_r"))
    names = classes(joined)
    assert names.count("TaskShuffle") == 2, "both sides must move"
    assert Unpartitioned.__name__ in names


def test_dask_does_not_trust_our_hash_of_the_index(left, right, routed, classes):
    left, right = (df.set_index("k", sort=False) for df in (left, right))
    both = left.join(right, how="outer")
    third = right.rename(columns={"y": "z"})
    assert classes(both.join(third, how="outer", shuffle_method="tasks")).count("TaskShuffle") == 2


def test_dask_trusts_its_own_hash(left, right, routed, classes):
    theirs = left.merge(right, on="k", shuffle_method="tasks")
    joined = theirs.merge(right, on="k", shuffle_method="tasks", suffixes=("", "_r"))
    # One of each input; right is used twice.
    assert classes(joined).count("TaskShuffle") == 2
    assert Unpartitioned.__name__ not in classes(joined)


def test_index_against_column(left, right, routed):
    joined = left.merge(right, left_index=True, right_on="k").merge(
        right, on="k", suffixes=("", "_r")
    )
    assert explain(joined).routed[0] == "join"
