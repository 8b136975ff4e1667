"""Ways in, as a user takes them."""

import json
import os
import subprocess
import sys

import dask
import dask.array as da
import dask.bag as db
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster

import dask_rcylon
from dask_rcylon.comm import launcher
from dask_rcylon.scheduler import scheduler
from tests.waiting import wait_until

FRAME = pd.DataFrame({"k": np.arange(100) % 7, "x": np.arange(100.0)})


@pytest.fixture(scope="module")
def embedded():
    """The cluster that ``scheduler="rcylon"`` starts."""
    with dask.config.set({"rcylon.ranks": 2, "rcylon.dashboard-address": None}):
        yield scheduler
        scheduler.shutdown()


def ran():
    return sum(scheduler.pilot().stages.values())


def joined():
    ddf = dd.from_pandas(FRAME, npartitions=4)
    return ddf.merge(ddf[["k"]].drop_duplicates(), on="k", broadcast=False)


def test_context_manager(embedded):
    with dask.config.set(scheduler="rcylon"):
        assert len(joined().compute()) == 100
        assert ran() >= 1
        pids = {id(embedded.client())}
        assert len(dd.from_pandas(FRAME, npartitions=3).sort_values("x").compute()) == 100
        assert {id(embedded.client())} == pids
    before = ran()
    assert len(joined().compute(scheduler="sync")) == 100
    assert ran() == before


def test_scheduler_of_one_call(embedded):
    scheduler.client()
    before = ran()
    a, b = dask.compute(joined(), joined().x.sum(), scheduler="rcylon")
    assert len(a) == 100
    assert b == FRAME.x.sum()
    assert len(joined().compute(scheduler="rcylon")) == 100
    assert ran() > before


def test_persist_keeps_data_on_the_cluster(embedded):
    with dask.config.set(scheduler="rcylon"):
        kept = joined().persist()
        assert scheduler.client().futures
        assert len(kept.compute()) == 100
        assert len(kept.sort_values("x").compute()) == 100


def test_what_is_no_dataframe_runs_too(embedded):
    with dask.config.set(scheduler="rcylon"):
        assert db.from_sequence(range(10), npartitions=3).sum().compute() == 45
        assert da.arange(10, chunks=3).sum().compute() == 45
        assert dask.delayed(os.getpid)().compute() != os.getpid()
        assert "no stages" in str(dask_rcylon.explain(da.arange(10)))


def test_explicit_methods_are_obeyed(embedded):
    ddf = dd.from_pandas(FRAME, npartitions=4)
    with dask.config.set(scheduler="rcylon"):
        before = ran()
        for method in ("tasks", "disk"):
            found = ddf.shuffle("k", shuffle_method=method).compute()
            assert len(found) == 100
            assert method in str(dask_rcylon.explain(ddf.shuffle("k", shuffle_method=method)))
        with dask.config.set({"dataframe.shuffle.method": "tasks"}):
            assert dask_rcylon.explain(ddf.shuffle("k")).routed == []
        assert ran() == before
        assert dask_rcylon.explain(ddf.shuffle("k", shuffle_method="rcylon")).routed == ["shuffle"]


def test_errors_come_when_and_as_dask_gives_them(embedded):
    ddf = dd.from_pandas(FRAME, npartitions=4)
    text = dd.from_pandas(FRAME.assign(k="a"), npartitions=4)
    with dask.config.set(scheduler="rcylon"):
        with pytest.raises(KeyError):
            ddf.merge(ddf, on="missing")
        with pytest.raises(ValueError, match="merge"), pytest.warns(UserWarning, match="mismatch"):
            ddf.merge(text, on="k")
        with pytest.raises(KeyError):
            ddf.sort_values("missing").compute()
        with pytest.raises(KeyError):
            ddf.shuffle("missing")


def test_workers_that_are_no_ranks():
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        with pytest.warns(RuntimeWarning, match="none of the 1 workers is an MPI rank"):
            info = dask_rcylon.enable(client)
        assert "--worker-class distributed.Worker" in info.reason
        result = joined()
        explanation = dask_rcylon.explain(result)
        assert explanation.routed == []
        assert "MPI rank" in str(explanation)
        assert len(result.compute()) == 100


INITIALIZE = """
import dask_rcylon
dask_rcylon.initialize(dashboard=False, exit=True)
import json, time
import numpy as np, pandas as pd
import dask.dataframe as dd
from distributed import Client
from dask_rcylon.pilot.attach import pilot_of

client = Client()
frame = pd.DataFrame({"k": np.arange(100) % 7, "x": np.arange(100.0)})
ddf = dd.from_pandas(frame, npartitions=4)
found = ddf.merge(ddf, on="k", broadcast=False).compute()
time.sleep(1.5)  # what is known of a pilot elsewhere may be a second old
info = pilot_of(client)
print(json.dumps([len(found), info.ranks, info.stages]), flush=True)
"""


def mpirun(tmp_path, ranks, *program):
    found = launcher.find()
    return subprocess.Popen(
        found.command(ranks, [sys.executable, *program]),
        env=found.environment("by hand", str(tmp_path)),
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def test_one_job_that_is_script_and_workers(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(INITIALIZE)
    out, _ = mpirun(tmp_path, 4, str(script)).communicate(timeout=90)
    rows, ranks, stages = json.loads(next(line for line in out.splitlines() if line[0] == "["))
    assert rows == len(FRAME.merge(FRAME, on="k"))
    assert ranks == 2
    assert stages == {"join": 1}


@pytest.mark.parametrize("worker", ["Nanny", "Worker"])
def test_a_cluster_that_dask_mpi_has_started(tmp_path, assert_same_rows, worker):
    """Dask-mpi's default is a nanny in each rank."""
    file = tmp_path / "scheduler.json"
    options = ["--scheduler-file", str(file), "--no-dashboard", "--local-directory", str(tmp_path)]
    options += ["--worker-class", f"distributed.{worker}"] if worker != "Nanny" else []
    job = mpirun(tmp_path, 3, "-m", "dask_mpi.cli", *options)
    try:
        assert wait_until(file.exists, 60)
        with Client(scheduler_file=str(file)) as client:
            client.wait_for_workers(2, timeout=60)
            if worker == "Nanny":
                # What lies there would be lost.
                kept = client.scatter([1])
                with pytest.warns(RuntimeWarning, match="only while it holds nothing"):
                    dask_rcylon.enable(client)
                assert client.gather(kept) == [1]
                del kept
                assert wait_until(lambda: not client.who_has(), 10)
            info = dask_rcylon.enable(client)
            assert (info.ranks, info.reason) == (2, None)
            ddf = dd.from_pandas(FRAME, npartitions=4)
            result = ddf.merge(ddf, on="k", broadcast=False)
            assert dask_rcylon.explain(result).routed == ["join"]
            assert_same_rows(result.compute(), FRAME.merge(FRAME, on="k"))
            dask_rcylon.disable(client)
            assert "disabled" in str(dask_rcylon.explain(result))
            assert len(result.compute()) == len(FRAME.merge(FRAME, on="k"))
            dask_rcylon.enable(client)
            assert dask_rcylon.explain(result).routed == ["join"]
            client.shutdown()
        job.wait(30)
    finally:
        job.kill()
        job.stdout.close()


def test_nannies_are_refused():
    with pytest.raises(ValueError, match="Nanny"):
        dask_rcylon.initialize(worker_class="distributed.Nanny")
