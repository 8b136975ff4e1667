import asyncio
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import dask
import psutil
import pytest
from distributed import Client

from dask_rcylon import LocalMPICluster
from dask_rcylon.comm.launcher import LaunchError

MARK = "DASK_RCYLON_TEST_RUN"


def world_of():
    from mpi4py import MPI

    return MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size, os.getpid()


def small(**kwargs):
    return LocalMPICluster(threads_per_worker=1, dashboard_address=None, **kwargs)


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_workers_are_the_ranks_of_one_world(ranks):
    with small(n_workers=ranks) as cluster, Client(cluster, set_as_default=False) as client:
        found = client.run(world_of)
        assert sorted(rank for rank, _, _ in found.values()) == list(range(ranks))
        assert {size for _, size, _ in found.values()} == {ranks}
        assert client.submit(sum, [1, 2]).result() == 3
        assert os.getpid() not in {pid for _, _, pid in found.values()}
        assert f"ranks={ranks}" in repr(cluster)
    for _, _, pid in found.values():
        assert not psutil.pid_exists(pid)


def test_asynchronous():
    async def use():
        async with (
            LocalMPICluster(n_workers=2, dashboard_address=None, asynchronous=True) as cluster,
            Client(cluster, asynchronous=True, set_as_default=False) as client,
        ):
            return await client.submit(lambda: 5)

    assert asyncio.run(use()) == 5


def test_manners_of_local_cluster():
    with LocalMPICluster(
        n_workers=2, threads_per_worker=2, memory_limit="1GiB", dashboard_address=":0", name="mine"
    ) as cluster:
        assert cluster.name == "mine"
        assert "/status" in cluster.dashboard_link
        assert "LocalMPICluster" in cluster._repr_html_()
        workers = cluster.scheduler_info["workers"].values()
        assert {worker["nthreads"] for worker in workers} == {2}
        assert {worker["memory_limit"] for worker in workers} == {2**30}
        logs = cluster.get_logs()
        assert "Registered" in logs["MPI world"]
        with pytest.raises(RuntimeError, match="n_workers"):
            cluster.scale(3)
        with pytest.raises(RuntimeError, match="n_workers"):
            cluster.adapt(maximum=3)
    assert cluster.status.name == "closed"


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"n_workers": 0}, ValueError, "n_workers must be at least 1, got 0"),
        ({"n_workers": 10**6}, ValueError, "at most"),
        ({"n_workers": 1.5}, TypeError, "n_workers"),
        ({"n_workers": 1, "threads_per_worker": 0}, ValueError, "threads_per_worker"),
    ],
)
def test_bad_options(options, error, text):
    with pytest.raises(error, match=text):
        LocalMPICluster(**options)


def script(folder, text):
    path = folder / "mpiexec"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_a_failing_mpiexec_is_quoted(tmp_path):
    program = script(tmp_path, 'echo "no such interconnect" >&2; exit 7')
    with pytest.raises(LaunchError, match="status 7") as caught:
        small(n_workers=1, mpiexec=program)
    assert "no such interconnect" in str(caught.value)
    assert f"{program} -n 1" in str(caught.value)


def test_a_missing_mpiexec(tmp_path):
    with (
        dask.config.set({"rcylon.mpiexec": str(tmp_path / "nowhere")}),
        pytest.raises(LaunchError, match="rcylon.mpiexec"),
    ):
        small(n_workers=1)


def test_ranks_that_never_join(tmp_path):
    program = script(tmp_path, 'case "$1" in --version) exit 0;; esac; sleep 60')
    with (
        dask.config.set({"rcylon.start-timeout": "1s"}),
        pytest.raises(LaunchError, match="rcylon.start-timeout"),
    ):
        small(n_workers=1, mpiexec=program)


def test_no_mpi_library_names_the_command_that_brings_one(tmp_path):
    program = """
import sys
sys.modules["mpi4py.MPI"] = None
from dask_rcylon.comm import mpi
try:
    mpi.load()
except RuntimeError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert 'pip install "dask-rcylon[mpich]"' in done.stdout


SCRIPT = """
import os, signal, sys, time
import dask, dask_rcylon
import dask.dataframe as dd, pandas as pd

if __name__ == "__main__":
    dask.config.set({{"scheduler": "rcylon", "rcylon.ranks": 2, "temporary-directory": {folder!r}}})
    frame = dd.from_pandas(pd.DataFrame({{"k": range(100)}}), npartitions=4)
    assert len(frame.merge(frame, on="k").compute()) == 100
    print("ready", flush=True)
    {then}
"""


def run_script(tmp_path, then):
    folder = tmp_path / "files"
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(SCRIPT.format(folder=str(folder), then=then)))
    environ = {**os.environ, MARK: str(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, str(path)], stdout=subprocess.PIPE, text=True, env=environ
    )
    assert process.stdout.readline() == "ready\n"
    return process, folder


def started(mark):
    """Return the ids of the processes that a script has started and that still live."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == str(mark):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def gone(mark, folder, within):
    deadline = time.monotonic() + within
    while started(mark) or any(Path(folder).glob("dask-rcylon-*")):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


ENDS = {
    "end of the script": "",
    "exception": "raise ValueError('on purpose')",
    "sys.exit": "sys.exit(3)",
    "Ctrl-C": "os.kill(os.getpid(), signal.SIGINT); time.sleep(60)",
}


@pytest.mark.parametrize("then", ENDS.values(), ids=ENDS)
def test_nothing_remains_after(tmp_path, then):
    process, folder = run_script(tmp_path, then)
    process.wait(60)
    process.stdout.close()
    assert gone(tmp_path, folder, within=5)


def test_ranks_end_when_the_script_is_killed(tmp_path):
    process, folder = run_script(tmp_path, "time.sleep(600)")
    assert len(started(tmp_path)) > 2
    process.kill()
    process.wait(10)
    process.stdout.close()
    assert gone(tmp_path, folder, within=30)
