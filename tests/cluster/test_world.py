"""Worlds that do not start, and worlds that are lost."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from pathlib import Path

import dask
import pytest
from distributed import Client

from dask_rcylon import LocalMPICluster
from dask_rcylon.cluster import world as world_module
from dask_rcylon.comm import launcher
from tests.cluster.conftest import own, processes, segments
from tests.waiting import wait_until


def losses(caplog) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.name == "dask_rcylon" and record.levelno >= logging.WARNING
    ]


def wait_for_new_world(cluster: LocalMPICluster, client: Client, old: str, ranks: int) -> None:
    assert wait_until(lambda: cluster.world.label != old, 15)
    client.wait_for_workers(ranks, timeout=30)


def test_no_mpiexec():
    with pytest.raises(RuntimeError, match="'/no/such/mpiexec'"):
        LocalMPICluster(1, 1, mpiexec="/no/such/mpiexec", dashboard_address=None)


def test_mpiexec_fails(program, scratch):
    path = program('echo "no slots left" >&2; exit 7')
    with pytest.raises(RuntimeError, match="no slots left") as caught:
        LocalMPICluster(2, 1, mpiexec=path, dashboard_address=None)
    assert "status 7" in str(caught.value)
    assert f"Command: {path} -n 2 {sys.executable} -m dask_mpi.cli tcp://" in str(caught.value)
    assert not own(scratch)


def test_no_mpi_library(monkeypatch):
    monkeypatch.setenv("MPI4PY_LIBMPI", "/no/such/libmpi.so")
    with pytest.raises(RuntimeError, match=r"/no/such/libmpi\.so") as caught:
        LocalMPICluster(1, 1, dashboard_address=None)
    assert 'pip install "dask-rcylon[mpich]"' in str(caught.value)


def test_mpiexec_of_another_library(program):
    # Starts as many processes as it should, each of which is a world of its own.
    path = program('[ "$1" = --version ] && exit; shift 2\n"$@" & first=$!; "$@"; wait $first')
    with pytest.raises(RuntimeError, match="does not belong to the MPI library that mpi4py loads"):
        LocalMPICluster(2, 1, mpiexec=path, dashboard_address=None)


def test_start_takes_too_long(program, scratch):
    path = program('[ "$1" = --version ] && exit; echo waiting; sleep 60')
    begin = time.monotonic()
    with (
        dask.config.set({"rcylon.start-timeout": "500ms"}),
        pytest.raises(RuntimeError, match=r"0 of 2 ranks joined within 0.5 s") as caught,
    ):
        LocalMPICluster(2, 1, mpiexec=path, dashboard_address=None)
    assert "waiting" in str(caught.value)
    assert time.monotonic() - begin < 10
    assert not own(scratch)


def test_bad_worker_option_is_explained():
    with pytest.raises(RuntimeError, match="no_such_module"):
        LocalMPICluster(1, 1, preload=["no_such_module"], dashboard_address=None)


def test_rank_is_killed(caplog, scratch):
    with LocalMPICluster(2, 1, dashboard_address=None) as cluster, Client(cluster) as client:
        old = cluster.world.label
        files = segments(processes(old))
        ranks = client.run(os.getpid)
        data = client.submit(lambda: 41, key="data")
        assert data.result() == 41
        victim = next(iter(ranks))
        name = client.scheduler_info()["workers"][victim]["name"]
        begin = time.monotonic()
        os.kill(ranks[victim], signal.SIGKILL)
        wait_for_new_world(cluster, client, old, 2)
        assert time.monotonic() - begin < 15
        # Dask computes again what was lost.
        assert client.submit(lambda x: x + 1, data).result() == 42
        (message,) = losses(caplog)
        assert old in message
        assert f"rank {name} (pid {ranks[victim]}) ended first" in message
        assert "signal 9" in message
        assert not processes(old)
        assert not any(Path(path).exists() for path in files)
        assert len(own(scratch)) == 1
        assert cluster.plan == cluster.observed == {"world-1-0", "world-1-1"}


@pytest.mark.parametrize("poll", [world_module._POLL, 1.0], ids=["soon", "late"])
def test_many_kills_are_survived_while_tasks_finish(caplog, monkeypatch, poll):
    """Also if a rank has joined, finished a task and died before the world was seen to be up."""
    monkeypatch.setattr(world_module, "_MOST_FAILURES", 1)
    monkeypatch.setattr(world_module, "_POLL", poll)
    with LocalMPICluster(1, 1, dashboard_address=None) as cluster, Client(cluster) as client:
        for turn in range(3):
            old = cluster.world.label
            assert client.submit(lambda x: x, turn).result() == turn
            (pid,) = client.run(os.getpid).values()
            os.kill(pid, signal.SIGKILL)
            wait_for_new_world(cluster, client, old, 1)
    assert len(losses(caplog)) == 3


@pytest.mark.filterwarnings("error")
def test_warnings_as_errors_do_not_stop_the_recovery():
    with LocalMPICluster(1, 1, dashboard_address=None) as cluster, Client(cluster) as client:
        old = cluster.world.label
        os.kill(client.submit(os.getpid).result(), signal.SIGKILL)
        wait_for_new_world(cluster, client, old, 1)


def test_mpiexec_is_killed(caplog):
    with LocalMPICluster(2, 1, dashboard_address=None) as cluster, Client(cluster) as client:
        old = cluster.world.label
        # The one child of the guard; Open MPI's goes by another name.
        (mpiexec,) = (
            p for p in processes(old) if "orphan.py" in " ".join(p.parent().cmdline()[:3])
        )
        mpiexec.kill()
        wait_for_new_world(cluster, client, old, 2)
        assert client.submit(sum, [1, 2]).result() == 3
        assert wait_until(lambda: not processes(old), 5)
        assert len(losses(caplog)) == 1


def test_guard_is_killed(scratch):
    with LocalMPICluster(2, 1, dashboard_address=None) as cluster, Client(cluster) as client:
        old = cluster.world.label
        files = segments(processes(old))
        (guard,) = (p for p in processes(old) if "orphan.py" in " ".join(p.cmdline()[:3]))
        guard.kill()
        wait_for_new_world(cluster, client, old, 2)
        assert wait_until(lambda: not processes(old), 10)
        assert not any(Path(path).exists() for path in files)
        assert len(own(scratch)) == 1


def test_restart_world(caplog):
    with LocalMPICluster(2, 1, dashboard_address=None) as cluster, Client(cluster) as client:
        old = cluster.world.label
        cluster.restart_world("a test wants it")
        cluster.restart_world("and wants it again")
        wait_for_new_world(cluster, client, old, 2)
        assert client.submit(sum, [1, 2]).result() == 3
        (message,) = losses(caplog)
        assert "a test wants it" in message
        assert not processes(old)


def test_client_restart():
    with LocalMPICluster(2, 1, dashboard_address=None) as cluster, Client(cluster) as client:
        before = set(client.run(os.getpid).values())
        client.restart(timeout=60)
        after = set(client.run(os.getpid).values())
        assert len(after) == 2
        assert not before & after


def test_hung_rank_is_ended():
    def stop() -> None:
        os.kill(os.getpid(), signal.SIGSTOP)

    with LocalMPICluster(2, 1, dashboard_address=None) as cluster, Client(cluster) as client:
        old = cluster.world.label
        client.submit(stop)
        assert wait_until(lambda: any(p.status() == "stopped" for p in processes(old)), 10)
        cluster.restart_world("a rank hangs")
        wait_for_new_world(cluster, client, old, 2)
        assert not processes(old)


def test_gives_up(caplog, monkeypatch, program, tmp_path):
    async def no_delay(seconds: float) -> None:
        await sleep(0 if seconds >= 1 else seconds)

    sleep = world_module.asyncio.sleep
    real = launcher.find()
    # The real mpiexec until the flag is there.
    flag = tmp_path / "down"
    path = program(
        f'[ -e "{flag}" ] && {{ echo "all nodes down" >&2; exit 3; }}\nexec {real.path} "$@"'
    )
    with (
        dask.config.set({"rcylon.mpiexec": path}),
        LocalMPICluster(1, 1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        pid = client.submit(os.getpid).result()
        flag.touch()
        monkeypatch.setattr(world_module.asyncio, "sleep", no_delay)
        os.kill(pid, signal.SIGKILL)
        waiting = client.submit(lambda: 1)
        with pytest.raises(RuntimeError, match=r"starts no more.*") as caught:
            waiting.result(timeout=60)
        assert "all nodes down" in str(caught.value)
        # What comes later does not wait for ever either.
        with pytest.raises(RuntimeError, match="starts no more"):
            client.submit(lambda: 2).result(timeout=10)
        assert cluster.status.name == "failed"
        assert "starts no more" in losses(caplog)[-1]
    assert cluster.status.name == "closed"
