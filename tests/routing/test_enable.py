"""Turning routing on for clusters of others, and off."""

import dask
import pytest
from distributed import Client, LocalCluster

import dask_rcylon
from dask_rcylon.pilot.attach import pilot_of
from dask_rcylon.routing import hooks


@pytest.fixture(scope="module")
def plain():
    """A cluster whose workers are no MPI ranks."""
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


def test_workers_that_are_no_ranks(plain, left, right, frame, other):
    with pytest.warns(RuntimeWarning, match="Every stage stays with Dask: none of the 2 workers"):
        info = dask_rcylon.enable(plain)
    try:
        assert "mpiexec" in info.reason
        joined = left.merge(right, on="k")
        explained = dask_rcylon.explain(joined, scheduler=plain)
        assert explained.routed == []
        assert "none of the 2 workers is an MPI rank" in str(explained)
        for collection in (joined, left.merge(right, on="k", shuffle_method="rcylon")):
            assert len(plain.compute(collection).result()) == len(frame.merge(other, on="k"))
        assert len(left.drop_duplicates("k").compute(scheduler=plain)) == frame.k.nunique()
    finally:
        dask_rcylon.disable(plain)
    assert pilot_of(plain) is None


def test_disable_and_enable(left, plain):
    dask_rcylon.disable()
    assert not hooks.installed()
    with pytest.raises(ValueError, match="Expected one of"):
        left.compute(scheduler="rcylon")
    info = dask_rcylon.enable()
    assert info.ranks == (dask.config.get("rcylon.ranks") or dask.system.CPU_COUNT)
    assert info.reason is None
    assert hooks.installed()
    assert "rcylon" in dask.base.named_schedulers


def test_current_client_is_the_default(plain):
    with plain.as_current():
        with pytest.warns(RuntimeWarning, match="Every stage stays with Dask"):
            assert dask_rcylon.enable().reason
        dask_rcylon.disable(plain)


def test_enabled_client_of_ranks(client2, left, right, stages):
    """A cluster whose pilot is there already may be enabled again."""
    info = dask_rcylon.enable(client2)
    assert (info.ranks, info.reason) == (2, None)
    with stages(client2, join=1):
        left.merge(right, on="k").compute()
    dask_rcylon.disable()
    with stages(client2):
        left.merge(right, on="k", shuffle_method="tasks").compute()
    dask_rcylon.enable(client2)
