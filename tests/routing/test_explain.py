"""What explain says."""

import dask
import dask.array as da
import dask.bag as db
import pandas as pd
import pytest
from distributed import Client, LocalCluster

from dask_rcylon import explain
from dask_rcylon.pilot.world import PilotInfo
from dask_rcylon.routing import hooks
from dask_rcylon.routing.explain import Explanation


@pytest.fixture
def query(left, right):
    joined = left[left.x > 0].merge(right, on="k")
    return joined.groupby("k").x.sum(split_out=2).reset_index().sort_values("x")


def test_stages_from_the_inputs_up(query, routed):
    explained = explain(query)
    assert [stage.kind for stage in explained.stages] == ["join", "sort"]
    assert explained.routed == ["join", "sort"]
    first, second, third = str(explained).splitlines()
    assert first.split() == ["stage", "keys", "partitions", "runs", "on"]
    assert second.startswith("join   inner on 'k'  6 + 4 → 6   gang of up to 2 ranks of world w:")
    assert third.startswith("sort   'x'           ")
    assert repr(explained) == str(explained)


def test_html(query, left, routed):
    html = explain(query)._repr_html_()
    assert html.count("<tr>") == 3
    assert "inner on &#x27;k&#x27;" in html
    assert explain(left)._repr_html_() == "<p>no stages</p>"


def test_reason_and_option(left, routed):
    with dask.config.set({"dataframe.shuffle.method": "tasks"}):
        text = str(explain(left.shuffle("k")))
    assert "Dask: shuffle_method='tasks' was asked for" in text
    assert "The option dataframe.shuffle.method is 'tasks'." in text


def test_ranks(left, fake):
    for info, words in [
        (PilotInfo(8, None, None), "gang of up to 8 ranks of a world that is yet to start"),
        (PilotInfo(1, "w", None), "gang of 1 rank of world w"),
        (PilotInfo(0, None, "none of the workers is an MPI rank"), "Dask: none of the workers"),
    ]:
        fake.info = info
        assert words in str(explain(left.shuffle("k"), scheduler=fake))


def test_scheduler(left, fake, not_routed):
    shuffled = left.shuffle("k")
    assert explain(shuffled).routed == []
    assert "dask.config.set(scheduler='rcylon')" in str(explain(shuffled))
    assert explain(shuffled, scheduler=fake).routed == ["shuffle"]
    with dask.config.set(scheduler=fake):
        assert explain(shuffled, scheduler="threads").routed == []
    with pytest.raises(ValueError, match="Expected one of"):
        explain(shuffled, scheduler="nope")


def test_the_named_scheduler_is_not_started(left):
    from dask_rcylon.scheduler import scheduler

    text = str(explain(left.shuffle("k"), scheduler="rcylon"))
    assert scheduler._client is None
    assert "a world that is yet to start" in text


@pytest.mark.parametrize(
    "make",
    [
        lambda df: df.x.shuffle("x") if hasattr(df.x, "shuffle") else df.shuffle("x").x,
        lambda df: df.shuffle("x").index,
        lambda df: df.shuffle("x").map_partitions(len).sum(),
    ],
    ids=["series", "index", "scalar"],
)
def test_other_dataframe_collections(make, left, routed):
    assert isinstance(explain(make(left)), Explanation)


def test_stages_of_what_is_not_needed_are_not_there(left, right, routed):
    """The column that is wanted says which join there is: explained is what would run."""
    assert explain(left[["k", "x"]].shuffle("k").sum()).stages == ()
    joined = left.merge(right, on="k")
    assert joined.npartitions == 6  # which lowers the join, but not as part of this
    assert len(explain(joined[["y"]]).stages) == 1
    assert len(explain(joined.repartition(npartitions=2)).stages) == 1


@pytest.mark.parametrize(
    ("collection", "name"),
    [
        (da.ones(3, chunks=2), "Array"),
        (db.from_sequence([1, 2]), "Bag"),
        (dask.delayed(1), "Delayed"),
    ],
)
def test_other_collections(collection, name, routed):
    assert str(explain(collection)).startswith("no stages: a ")
    assert name in str(explain(collection))


@pytest.mark.parametrize("thing", [1, "a", pd.DataFrame(), None])
def test_no_collection(thing):
    with pytest.raises(TypeError, match=r"explain\(\) takes a Dask collection"):
        explain(thing)


def test_disabled(left):
    hooks.uninstall()
    assert "routing is disabled" in str(explain(left.shuffle("k")))


def test_asynchronous_client(left):
    async def check():
        async with (
            LocalCluster(
                n_workers=1, processes=False, dashboard_address=None, asynchronous=True
            ) as cluster,
            Client(cluster, asynchronous=True),
        ):
            return explain(left.shuffle("k"))

    import asyncio

    assert "not sent to MPI ranks" in str(asyncio.run(check()))


def test_nothing_is_recorded_otherwise(left, right, routed):
    left.merge(right, on="k").optimize()
    assert explain(left).stages == ()
