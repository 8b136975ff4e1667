"""Where Dask is changed, and that it can be put back."""

import contextlib
import functools

import dask
import dask.base
import dask.dataframe as dd
import pytest
from dask.dataframe.dask_expr import _collection, _expr, _merge, _reductions, _shuffle

from dask_rcylon.routing import hooks

_CLAIMS = "unique_partition_mapping_columns_from_shuffle"

PLACES = [
    (_merge.Merge, "_lower"),
    (_merge.Merge, _CLAIMS),
    (_merge.BlockwiseMerge, _CLAIMS),
    (_shuffle.RearrangeByColumn, "_lower"),
    (_shuffle.Shuffle, "_lower"),
    (_shuffle.SortValues, "_lower"),
    (_shuffle.SortValues, "_divisions"),
    (_shuffle.SortValues, "_simplify_up"),
    (_shuffle.SetPartition, "_lower"),
    (_shuffle, "compute"),
    (_reductions.ShuffleReduce, "_lower"),
    (_expr.MaybeAlignPartitions, "_lower"),
    (_collection, "get_default_shuffle_method"),
    (_collection, "_get_shuffle_preferring_order"),
]


def _id(place):
    return f"{place[0].__name__}.{place[1]}"


@pytest.mark.parametrize("place", PLACES, ids=_id)
def test_place(place):
    hooks.uninstall()
    owner, name = place
    assert name in vars(owner), (
        f"dask {dask.__version__} has moved {_id(place)}, which routing wraps: find where it is "
        "decided now, and change dask_rcylon/routing/hooks.py"
    )


def test_every_place_is_named():
    assert [(owner, name) for owner, name, _ in hooks.HOOKS] == PLACES


def test_install_twice_and_uninstall():
    hooks.uninstall()
    before = [vars(owner)[name] for owner, name in PLACES]
    hooks.install()
    wrapped = [vars(owner)[name] for owner, name in PLACES]
    hooks.install()
    assert [vars(owner)[name] for owner, name in PLACES] == wrapped
    assert not set(map(id, before)) & set(map(id, wrapped))
    assert hooks.installed()
    hooks.uninstall()
    assert [vars(owner)[name] for owner, name in PLACES] == before
    assert not hooks.installed()
    hooks.uninstall()


def test_scheduler_name_comes_and_goes():
    import dask_rcylon  # noqa: F401

    assert "rcylon" in dask.base.named_schedulers
    hooks.uninstall()
    with pytest.raises(ValueError, match="Expected one of"):
        dask.base.get_scheduler(scheduler="rcylon")
    hooks.install()
    assert dask.base.get_scheduler(scheduler="rcylon") is hooks.schedulers["rcylon"]


def unknown(df):
    meta = df._meta
    return dd.from_map(lambda i: meta, range(df.npartitions), meta=meta)


OPERATIONS = {
    "merge": lambda a, b: a.merge(b, on="k"),
    "merge_left_tasks": lambda a, b: a.merge(b, on="k", how="left", shuffle_method="tasks"),
    "merge_p2p": lambda a, b: a.merge(b, on="k", shuffle_method="p2p"),
    "merge_index": lambda a, b: a.merge(b, left_index=True, right_on="k"),
    "merge_twice": lambda a, b: a.merge(b, on="k").merge(b, on="k", shuffle_method="tasks"),
    "merge_broadcast": lambda a, b: a.merge(b, on="k", how="left", broadcast=True),
    "merge_npartitions": lambda a, b: a.merge(b, on="k", npartitions=9),
    "merge_groupby": lambda a, b: a.merge(b, on="k").groupby("k").x.sum(split_out=2),
    "shuffle": lambda a, b: a.shuffle("k"),
    "shuffle_expr": lambda a, b: a.shuffle(a.k + 1, shuffle_method="tasks"),
    "sort": lambda a, b: a.sort_values("x", ascending=False),
    "sort_groupby": lambda a, b: a.groupby("k", sort=True).x.median(split_out=2),
    "set_index": lambda a, b: a.set_index("x", divisions=[-9.0, 0.0, 9.0]),
    "drop_duplicates": lambda a, b: a.drop_duplicates("k"),
    "unique": lambda a, b: a.s.unique(),
    "apply": lambda a, b: a.groupby("k").apply(len, meta=(None, int)),
    "align": lambda a, b: unknown(a).k.fillna(unknown(b).k),
}


@pytest.mark.parametrize("scheduler", ["sync", "threads"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_plans_without_a_pilot_are_dasks(operation, scheduler, frame, other):
    def plan():
        a = dd.from_pandas(frame, npartitions=6, sort=False)
        b = dd.from_pandas(other, npartitions=4, sort=False)
        tree = OPERATIONS[operation](a, b).optimize().expr
        return [type(node).__name__ for node in tree.walk()], tree.npartitions, tree._name

    with dask.config.set(scheduler=scheduler):
        hooks.install()
        with_hooks = plan()
        hooks.uninstall()
        assert plan() == with_hooks


def test_divisions_do_not_wait_for_each_other():
    """Up to Python 3.11 all expressions share the lock of a cached property."""
    properties = [
        value
        for value in vars(_expr.Expr).values()
        if isinstance(value, functools.cached_property) and hasattr(value, "lock")
    ]
    hooks.install()
    assert all(isinstance(each.lock, contextlib.nullcontext) for each in properties)
    hooks.uninstall()
    assert not any(isinstance(each.lock, contextlib.nullcontext) for each in properties)
