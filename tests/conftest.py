"""Clusters that the tests share: one for each number of ranks, started when first asked for."""

import os
import time
import uuid
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import dask
import pandas as pd
import psutil
import pytest
from distributed import Client

from dask_rcylon import LocalMPICluster
from dask_rcylon.comm.mpi import WORLD_VARIABLE
from dask_rcylon.pilot.attach import pilot_of

#: Whatever this run starts inherits this mark.
_MARK = "DASK_RCYLON_TEST_RUN"
_RUN = os.environ[_MARK] = uuid.uuid4().hex


class Clusters:
    """Clusters by their number of ranks."""

    def __init__(self):
        self._open = {}

    def client(self, ranks):
        found = self._open.get(ranks)
        if found is None:
            cluster = LocalMPICluster(
                n_workers=ranks, threads_per_worker=1, memory_limit="2GiB", dashboard_address=None
            )
            found = self._open[ranks] = (cluster, Client(cluster, set_as_default=False))
        return found[1]

    def close(self):
        for cluster, client in self._open.values():
            client.close()
            cluster.close()
        self._open.clear()


@pytest.fixture(scope="session")
def clusters(nothing_remains):
    shared = Clusters()
    yield shared
    shared.close()


@pytest.fixture(params=[1, 2, 4], ids=lambda ranks: f"{ranks}-ranks")
def client(request, clusters):
    """A client of a cluster of 1, 2 and 4 ranks."""
    found = clusters.client(request.param)
    with found.as_current():
        yield found


@pytest.fixture
def client2(clusters):
    """A client of a cluster of 2 ranks."""
    found = clusters.client(2)
    with found.as_current():
        yield found


@pytest.fixture
def stages():
    """Count the stages that run on ranks: ``with stages(client, join=1): ...``."""

    @contextmanager
    def counted(client, **expected):
        before = Counter(pilot_of(client).stages)
        yield
        ran = Counter(pilot_of(client).stages)
        ran.subtract(before)
        assert {kind: n for kind, n in ran.items() if n} == expected

    return counted


def in_order(frame):
    """Sort rows by everything, so that frames compare as multisets of rows."""
    frame = frame.reset_index(drop=True)
    keys = [frame.iloc[:, i].astype(str) for i in range(frame.shape[1])]
    order = pd.concat(keys, axis=1, ignore_index=True).sort_values(list(range(len(keys)))).index
    return frame.loc[order].reset_index(drop=True)


@pytest.fixture
def assert_same_rows():
    """Compare two frames as multisets of rows, with dtypes and columns but without the index."""

    def check(found, expected, **kwargs):
        pd.testing.assert_frame_equal(
            in_order(found), in_order(expected), check_column_type=len(expected) > 0, **kwargs
        )

    return check


def ranks_alive():
    """Return the processes of worlds that this run has started and that still live."""
    alive = []
    for process in psutil.process_iter(["pid"]):
        try:
            environ = process.environ()
            if environ.get(_MARK) == _RUN and WORLD_VARIABLE in environ:
                alive.append(process.pid)
        except psutil.Error:
            continue
    return alive


def leftovers():
    """Return the files that worlds could have left behind."""
    shared = Path("/dev/shm")
    return {
        path
        for folder, pattern in (
            (shared, "mpich_shm_*"),
            (shared, "sm_segment.*"),
            (shared, "ucx_shm*"),
            (Path(dask.config.get("temporary-directory", None) or "/tmp"), "dask-rcylon-*/"),
        )
        if folder.exists()
        for path in folder.glob(pattern)
    }


def in_use(path):
    """Tell whether a living process, of another run then, works with a file."""
    for process in Path("/proc").glob("[0-9]*"):
        for what in ("maps", "cmdline"):
            try:
                if str(path).encode() in (process / what).read_bytes():
                    return True
            except OSError:
                continue
    return False


@pytest.fixture(scope="session", autouse=True)
def nothing_remains():
    """Fail the run if it leaves a process or a file behind."""
    files, ranks = leftovers(), set(ranks_alive())
    yield
    deadline = time.monotonic() + 20
    while (new := set(ranks_alive()) - ranks) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not new, f"ranks are still alive: {new}"
    while new := {f for f in leftovers() - files if not in_use(f)}:
        assert time.monotonic() < deadline, f"files remain: {new}"
        time.sleep(0.2)
