"""A rank that is killed ends its world; the answer is right all the same."""

import os
import signal
import time

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, KilledWorker
from distributed.diagnostics.plugin import WorkerPlugin

from dask_rcylon import LocalMPICluster
from dask_rcylon.pilot import orders
from tests.waiting import wait_until

ROWS = 20_000


def nap(frame, seconds):
    time.sleep(seconds)
    return frame


@pytest.fixture
def tables():
    rng = np.random.default_rng(0)
    left = pd.DataFrame({"k": rng.integers(0, ROWS, ROWS), "x": rng.normal(size=ROWS)})
    right = pd.DataFrame({"k": rng.integers(0, ROWS, ROWS), "y": rng.normal(size=ROWS)})
    return left, right


@pytest.fixture
def mortal():
    """A client of a cluster that may be harmed."""
    with (
        LocalMPICluster(n_workers=3, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster, set_as_default=False) as client,
        client.as_current(),
    ):
        yield client


def kill_a_rank(client):
    pids = list(client.run(os.getpid).values())
    os.kill(pids[1], signal.SIGKILL)


def wait_for(condition):
    assert wait_until(condition, 20)


def ordered(client):
    """Tell whether an exchange has been ordered and is not over."""
    runs = client.cluster.scheduler.plugins[orders.PLUGIN_NAME]._runs.values()
    return any(run.done is not None and not run.done.done() for run in runs)


def exchanges(client):
    """Return the states of the barrier tasks."""
    tasks = client.cluster.scheduler.tasks
    return [task.state for key, task in tasks.items() if orders.stage_of(key) is not None]


@pytest.mark.parametrize("moment", ["put", "exchange", "get"])
def test_killed_in(mortal, tables, moment):
    left, right = tables
    a, b = dd.from_pandas(left, npartitions=8), dd.from_pandas(right, npartitions=8)
    pids = list(mortal.run(os.getpid).values())
    if moment == "put":
        a = a.map_partitions(nap, 0.3, meta=left.iloc[:0])
    if moment == "exchange":
        # A rank that never takes part: the exchange can't end before the rank is killed.
        mortal.run(stop_mpi, workers=[stopped_worker(mortal, pids[1])])
    joined = a.merge(b, on="k", broadcast=False)
    if moment == "get":
        joined = joined.map_partitions(nap, 0.3, meta=joined._meta)
    future = mortal.compute(joined)
    if moment == "put":
        wait_for(lambda: exchanges(mortal) == ["waiting"])
        time.sleep(0.5)
    if moment == "exchange":
        wait_for(lambda: ordered(mortal))
    if moment == "get":
        wait_for(lambda: exchanges(mortal) == ["memory"])
    os.kill(pids[1], signal.SIGKILL)
    found = future.result(timeout=90)
    order = ["k", "x", "y"]
    pd.testing.assert_frame_equal(
        found.sort_values(order).reset_index(drop=True),
        left.merge(right, on="k").sort_values(order).reset_index(drop=True),
    )
    assert len(mortal.scheduler_info()["workers"]) == 3
    assert not set(pids) & set(mortal.run(os.getpid).values())


def stopped_worker(client, pid):
    return next(worker for worker, found in client.run(os.getpid).items() if found == pid)


def stop_mpi(dask_worker):
    plugin = dask_worker.plugins[orders.PLUGIN_NAME]
    plugin._mpi.submit(lambda: time.sleep(60))


class StoppedMPI(WorkerPlugin):
    """Ranks, also those to come, that take part in no exchange."""

    def setup(self, worker):
        stop_mpi(worker)


def test_a_warning_says_what_happened(mortal, caplog):
    kill_a_rank(mortal)
    wait_for(lambda: any("was lost" in record.message for record in caplog.records))
    mortal.wait_for_workers(3, timeout=30)


@pytest.mark.parametrize("allowed", [0, 1])
def test_an_exchange_that_kills_ranks_is_given_up(mortal, tables, allowed):
    """Its barrier task survives each time, on another worker."""
    scheduler = mortal.cluster.scheduler
    scheduler.allowed_failures = allowed
    a, b = (dd.from_pandas(table, npartitions=8) for table in tables)
    mortal.register_plugin(StoppedMPI())
    future = mortal.compute(a.merge(b, on="k", broadcast=False))
    for _ in range(allowed + 1):
        mortal.wait_for_workers(3, timeout=30)
        wait_for(lambda: ordered(mortal))
        pids = mortal.run(os.getpid)
        (barrier,) = (task for key, task in scheduler.tasks.items() if orders.stage_of(key))
        victim = next(address for address in pids if address != barrier.processing_on.address)
        os.kill(pids[victim], signal.SIGKILL)
        wait_for(lambda pid=pids[victim]: pid not in client_pids(scheduler))
    with pytest.raises(KilledWorker, match=f"on {allowed + 1} different workers"):
        future.result(timeout=30)
    # The cluster itself is well.
    assert mortal.submit(sum, [1, 2]).result(timeout=60) == 3


def client_pids(scheduler):
    return {worker.pid for worker in scheduler.workers.values()}
