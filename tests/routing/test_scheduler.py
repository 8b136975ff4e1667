"""scheduler="rcylon": one cluster per process, started when first used."""

import logging
import multiprocessing
import os
import subprocess
import sys
import threading
from typing import ClassVar

import dask
import dask.bag as db
import pytest
from distributed import Client, LocalCluster, Status

from dask_rcylon import scheduler as module
from dask_rcylon.scheduler import RcylonScheduler, scheduler


class FakeCluster:
    started: ClassVar[list] = []

    def __init__(self, **options):
        self.options = options
        self.dashboard_link = "http://here"
        self.closed = False
        self.status = Status.running
        type(self).started.append(self)

    def close(self):
        self.closed = True


class FakeClient:
    def __init__(self, cluster, set_as_default):
        assert not set_as_default
        self.cluster, self.status = cluster, "running"

    def close(self):
        self.status = "closed"


@pytest.fixture
def embedded(monkeypatch):
    """A scheduler of its own, whose clusters are none."""
    FakeCluster.started.clear()
    monkeypatch.setattr(module, "LocalMPICluster", FakeCluster)
    monkeypatch.setattr(module, "Client", FakeClient)
    monkeypatch.setattr(module, "_current", lambda: None)
    one = RcylonScheduler()
    yield one
    one.shutdown()


def test_started_once_with_options(embedded, caplog):
    with (
        dask.config.set({"rcylon.ranks": 3, "rcylon.memory-limit": "1GiB"}),
        caplog.at_level(logging.INFO, "dask_rcylon"),
    ):
        client = embedded.client()
    assert embedded.client() is client
    (cluster,) = FakeCluster.started
    assert cluster.options["n_workers"] == 3
    assert cluster.options["threads_per_worker"] == 1
    assert cluster.options["memory_limit"] == "1GiB"
    assert [record.levelname for record in caplog.records] == ["INFO"]
    assert "http://here" in caplog.text


def test_one_start_for_many_threads(embedded):
    found = []
    threads = [threading.Thread(target=lambda: found.append(embedded.client())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, found))) == 1
    assert len(FakeCluster.started) == 1


def test_shutdown_and_again(embedded):
    embedded.shutdown()
    first = embedded.client()
    embedded.shutdown()
    embedded.shutdown()
    assert first.status == "closed"
    assert FakeCluster.started[0].closed
    assert embedded.client() is not first


def test_client_that_has_been_closed(embedded):
    first = embedded.client()
    first.close()
    assert embedded.client() is not first
    assert FakeCluster.started[0].closed, "the cluster of a closed client must not remain"


@pytest.mark.parametrize("status", [Status.failed, Status.closed])
def test_cluster_that_has_ended(embedded, status):
    first = embedded.client()
    first.cluster.status = status
    assert embedded.client() is not first
    assert first.cluster.closed


def test_a_start_that_fails(embedded, monkeypatch):
    def fails(cluster, set_as_default):
        raise RuntimeError("no connection")

    monkeypatch.setattr(module, "Client", fails)
    with pytest.raises(RuntimeError, match="no connection"):
        embedded.client()
    assert FakeCluster.started[0].closed
    monkeypatch.setattr(module, "LocalMPICluster", lambda **options: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        embedded(None, [])


def test_pilot_without_a_start(embedded):
    with dask.config.set({"rcylon.ranks": 5}):
        info = embedded.pilot()
    assert (info.ranks, info.world, info.reason) == (5, None, None)
    assert not FakeCluster.started


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_fork(embedded):
    embedded.client()
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe()

    def child():
        with embedded._lock:
            pass
        send.send((embedded._client, embedded.client() is None, len(FakeCluster.started)))
        os._exit(0)

    with embedded._lock:  # whoever held it in the parent is not there to give it back
        process = context.Process(target=child)
        process.start()
    assert receive.poll(20)
    assert receive.recv() == (None, False, 2)
    process.join()


def test_current_client_with_a_pilot(client2, left, right, stages):
    assert scheduler.client() is client2
    assert scheduler.pilot().ranks == 2
    with stages(client2, join=1):
        left.merge(right, on="k").compute(scheduler="rcylon")
    persisted = left.persist(scheduler="rcylon")
    assert client2.futures
    assert len(persisted) == len(left)
    assert scheduler._client is None


def test_current_client_without_a_pilot_is_not_used():
    with (
        LocalCluster(n_workers=1, processes=False, dashboard_address=None) as cluster,
        Client(cluster, set_as_default=False) as client,
        client.as_current(),
    ):
        assert module._current() is None


def test_in_a_task(client2, left, right):
    """A rank uses the client of its worker."""

    def task():
        from dask_rcylon.scheduler import scheduler as theirs

        return theirs.client().scheduler.address

    assert client2.submit(task, pure=False).result() == client2.scheduler.address


PROGRAM = """
import threading
import dask, dask.bag, dask.array, pandas as pd
import dask.dataframe as dd
import dask_rcylon
from dask_rcylon.scheduler import scheduler

if __name__ == "__main__":
    dask.config.set({"rcylon.ranks": 2, "rcylon.dashboard-address": None})
    frame = pd.DataFrame({"k": range(40), "x": 1})
    df = dd.from_pandas(frame, npartitions=4)
    with dask.config.set(scheduler="rcylon"):
        results = []
        def join(i):
            results.append(len(df.merge(df + i, on="k").compute()))
        threads = [threading.Thread(target=join, args=[i]) for i in range(3)]
        [t.start() for t in threads]; [t.join() for t in threads]
        assert sorted(results) == [38, 39, 40], results
        kept = df.shuffle("k").persist()
        assert len(kept) == 40
        assert dask.bag.from_sequence(range(5)).sum().compute() == 10
        assert dask.array.ones(6, chunks=2).sum().compute() == 6
        assert dask.delayed(int)("3").compute() == 3
        (again,) = dask.persist(dask.array.ones(6, chunks=2))
        assert again.sum().compute() == 6
    assert dask.compute(df.x.sum(), dask.delayed(4), scheduler="rcylon") == (40, 4)
    assert len(kept.compute(scheduler="rcylon")) == 40
    ran = scheduler.pilot().stages
    assert ran["join"] == 3 and ran["shuffle"] == 1, ran
    from distributed import Client
    try:
        Client.current()
    except ValueError:
        print("done")
"""


def test_the_embedded_cluster(tmp_path):
    """First use starts it, later uses share it, and it ends with the process."""
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, path], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "done"
    assert "Traceback" not in done.stderr


def test_bags_go_to_the_current_client(client2):
    assert db.from_sequence(range(5)).sum().compute(scheduler="rcylon") == 10
