"""Which set_index become stages, and where their divisions are computed."""

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from dask_rcylon import explain
from dask_rcylon.routing import hooks
from dask_rcylon.stages import SetIndexStage

DIVISIONS = (-9.0, -0.5, 0.5, 9.0)


@pytest.fixture
def computes(fake, monkeypatch):
    """The fake scheduler computes, and counts."""
    calls = []

    def call(self, expr, keys, **kwargs):
        calls.append(expr)
        return dask.base.named_schedulers["sync"](expr, keys)

    monkeypatch.setattr(type(fake), "__call__", call)
    return calls


def stage_of(collection):
    (stage,) = collection.optimize(fuse=False).expr.find_operations(SetIndexStage)
    return stage


@pytest.mark.parametrize("drop", [True, False])
def test_given_divisions(drop, left, routed):
    indexed = left.set_index("x", divisions=list(DIVISIONS), drop=drop)
    (decision,) = explain(indexed).stages
    assert decision.reason is None
    assert decision.kind == "set_index"
    assert (decision.keys, decision.inputs, decision.outputs) == ("'x'", (6,), 3)
    optimized = indexed.optimize()
    assert optimized.divisions == DIVISIONS
    pd.testing.assert_frame_equal(optimized._meta, indexed._meta)


def test_another_series(left, routed):
    for other in (left.x + 1, left.x.rename("z")):
        indexed = left.set_index(other, divisions=list(DIVISIONS))
        assert explain(indexed).routed == ["set_index"]
        pd.testing.assert_frame_equal(indexed.optimize()._meta, indexed._meta)


def test_labels_that_are_no_strings(routed):
    df = dd.from_pandas(pd.DataFrame({0: np.arange(9.0), 1: range(9)}), npartitions=3)
    for other in (0, df[0] + 1):
        indexed = df.set_index(other, divisions=[0.0, 5.0, 20.0])
        assert explain(indexed).routed == ["set_index"]
        pd.testing.assert_frame_equal(indexed.optimize()._meta, indexed._meta)


@pytest.mark.parametrize("npartitions", [None, 4])
def test_computed_divisions(npartitions, left, routed, computes):
    indexed = left.set_index("x", npartitions=npartitions)
    assert explain(indexed).routed == ["set_index"]
    stage = stage_of(indexed)
    assert stage.divisions == indexed.divisions
    assert stage.npartitions == (npartitions or 6)
    assert len(computes) == 1


def test_divisions_are_computed_where_it_runs(left, fake, computes):
    """Dask would compute them with the default scheduler."""

    def elsewhere(expr, keys, **kwargs):
        raise AssertionError("wrong scheduler")

    with dask.config.set(scheduler=elsewhere):
        assert explain(left.set_index(left.x * 3), scheduler=fake).routed == ["set_index"]
    assert len(computes) == 1


def test_what_is_computed_on_the_way_is_not_explained(left, right, routed, computes):
    joined = left.merge(right, on="k", shuffle_method="tasks").set_index("x")
    kinds = [stage.kind for stage in explain(joined).stages]
    assert kinds == ["join", "set_index"]


def test_presorted_is_dasks_plan(frame, routed, computes):
    df = dd.from_pandas(frame.sort_values("x"), npartitions=4, sort=False)
    assert explain(df.set_index("x")).stages == ()


def test_one_partition(frame, routed):
    assert explain(dd.from_pandas(frame, npartitions=1).set_index("x")).stages == ()
    df = dd.from_pandas(frame, npartitions=3)
    assert explain(df.set_index("x", npartitions=1)).stages == ()


def test_method_asked_for(left, routed, classes):
    indexed = left.set_index("x", divisions=list(DIVISIONS), shuffle_method="tasks")
    assert "tasks" in explain(indexed).stages[0].reason
    assert "TaskShuffle" in classes(indexed)


def test_no_values(routed, computes):
    empty = pd.DataFrame({"x": [np.nan] * 8, "y": 1})
    df = dd.from_pandas(empty, npartitions=4)
    assert "no values that could divide it" in explain(df.set_index("x")).stages[0].reason


def test_missing_column(left, routed):
    with pytest.raises(KeyError, match="nope"):
        left.set_index("nope")
    hooks.uninstall()
    with pytest.raises(KeyError, match="nope"):
        left.set_index("nope")
