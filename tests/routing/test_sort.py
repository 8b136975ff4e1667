"""Which sorts become stages."""

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from dask_rcylon import explain
from dask_rcylon.routing import hooks
from dask_rcylon.routing.internals import SortValues
from dask_rcylon.routing.sort import reason
from dask_rcylon.routing.target import Target
from dask_rcylon.stages import SortStage

compute_here = dask.base.named_schedulers["sync"]


def stages_of(collection):
    return list(collection.optimize(fuse=False).expr.find_operations(SortStage))


@pytest.mark.parametrize(
    ("options", "keys", "outputs"),
    [
        ({"by": "x"}, "'x'", 6),
        ({"by": ["k", "x"], "ascending": [False, True]}, "'k', 'x', ascending=[False, True]", 6),
        ({"by": "x", "ascending": False}, "'x', ascending=False", 6),
        ({"by": "x", "npartitions": 9}, "'x'", 9),
        ({"by": "x", "npartitions": np.int64(3)}, "'x'", 3),
        ({"by": "x", "na_position": "first", "ignore_index": True}, "'x'", 6),
        ({"by": "s", "shuffle_method": "rcylon"}, "'s'", 6),
    ],
)
def test_routed(options, keys, outputs, left, routed):
    """Nothing is computed: the fake scheduler would object."""
    ordered = left.sort_values(**options)
    assert ordered.npartitions == outputs
    assert ordered.divisions == (None,) * (outputs + 1)
    (decision,) = explain(ordered).stages
    assert decision.reason is None
    assert decision.keys == keys
    assert (decision.inputs, decision.outputs) == ((6,), outputs)
    (stage,) = stages_of(ordered)
    assert not stage.colocate
    assert stage.npartitions == outputs


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"sort_function": pd.DataFrame.sort_values}, "sort_function"),
        ({"sort_function_kwargs": {"kind": "stable"}}, "sort_function_kwargs"),
        ({"shuffle_method": "tasks"}, "shuffle_method='tasks' was asked for"),
    ],
)
def test_stays(options, expected, left, routed, monkeypatch):
    monkeypatch.setattr(type(routed), "__call__", lambda self, e, k, **kw: compute_here(e, k))
    ordered = left.sort_values("x", **options)
    (decision,) = explain(ordered).stages
    assert expected in decision.reason
    assert not stages_of(ordered)
    assert ordered.npartitions == 6


def test_keys_whose_order_only_pandas_knows(routed):
    with dask.config.set({"dataframe.convert-string": False}):
        df = dd.from_pandas(pd.DataFrame({"o": ["a", "b", 1, None] * 3}), npartitions=3)
    assert "dtype object" in reason(df.sort_values("o").expr, Target(routed.info))


def test_unknown_categories(left, routed):
    df = left.assign(c=left.s.astype("category"))
    assert "cat.as_known()" in reason(df.sort_values("c").expr, Target(routed.info))


def test_one_partition(frame, routed):
    df = dd.from_pandas(frame, npartitions=1)
    assert "cheaper plan: there is one partition" in explain(df.sort_values("x")).stages[0].reason


def test_missing_column(left, routed):
    with pytest.raises(KeyError, match="nope"):
        left.sort_values("nope").optimize()


def test_bad_npartitions_is_dasks_error(left, routed, monkeypatch):
    monkeypatch.setattr(type(routed), "__call__", lambda self, e, k, **kw: compute_here(e, k))
    ordered = left.sort_values("x", npartitions="auto")
    for install in (hooks.uninstall, hooks.install):
        install()
        with pytest.raises(TypeError, match="can only concatenate"):
            ordered.optimize()


def test_compute_sorts_before_it_unites(left, routed):
    """``compute`` asks for one partition."""
    with pytest.raises(AssertionError, match="nothing was to be computed"):
        left.sort_values("x").compute()
    (stage,) = stages_of(left.sort_values("x").repartition(npartitions=1))
    assert (stage.frame.npartitions, stage.npartitions) == (6, 6)
    more = left.sort_values("x").repartition(npartitions=12)
    assert more.optimize().npartitions == 12
    assert len(stages_of(more)) == 1


def test_head_and_tail_are_dasks(left, routed):
    for part in (
        left.sort_values("x").head(3, compute=False),
        left.sort_values("x").tail(3, compute=False),
    ):
        assert explain(part).stages == ()


def test_divisions_that_were_asked_for_earlier_remain(frame, fake):
    """Dask makes fewer partitions of few values; what was concluded from their number must hold."""
    df = dd.from_pandas(frame, npartitions=6, sort=False)
    ordered = df.sort_values("j")
    mapped = ordered.map_partitions(lambda part: part, meta=ordered._meta)
    with dask.config.set(scheduler="sync"):
        asked = mapped.npartitions
    assert asked < 6
    with dask.config.set(scheduler=fake):
        assert mapped.optimize().npartitions == asked


@pytest.fixture
def sorting_groups(left, monkeypatch):
    """Groups in order and in several partitions; dask 2026.8 forgets an operand of the sort."""
    monkeypatch.setitem(SortValues._defaults, "options", None)
    return lambda df, **kw: df.groupby("k", sort=True).agg({"x": "median"}, split_out=2, **kw)


def test_sort_of_groups_is_colocated(sorting_groups, left, routed):
    (stage,) = stages_of(sorting_groups(left))
    assert stage.colocate
    assert explain(sorting_groups(left, shuffle_method="rcylon")).routed == ["sort"]


def test_sort_of_groups_has_the_method_asked_for(sorting_groups, left, routed, monkeypatch):
    monkeypatch.setattr(type(routed), "__call__", lambda self, e, k, **kw: compute_here(e, k))
    (decision,) = explain(sorting_groups(left, shuffle_method="tasks")).stages
    assert "tasks" in decision.reason


def test_users_sort_below_a_reduction_is_not(sorting_groups, left, routed):
    reduced = sorting_groups(left.sort_values("x").repartition(npartitions=3))
    assert sorted(stage.colocate for stage in stages_of(reduced)) == [False, True]
