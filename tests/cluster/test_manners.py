"""A LocalMPICluster that nothing happens to: what it shares with LocalCluster, and what not."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator

import dask.dataframe as dd
import pandas as pd
import pytest
from distributed import Client, SpecCluster, Worker

from dask_rcylon import LocalMPICluster
from tests.waiting import wait_until


def place(dask_worker: Worker) -> tuple[int, int, str]:
    from mpi4py import MPI

    return MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size, dask_worker.name


def reduced() -> int:
    from mpi4py import MPI

    return MPI.COMM_WORLD.allreduce(MPI.COMM_WORLD.rank)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalMPICluster]:
    with LocalMPICluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client(cluster: LocalMPICluster) -> Iterator[Client]:
    with Client(cluster) as client:
        yield client


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_workers_are_the_ranks_of_one_world(ranks):
    with (
        LocalMPICluster(ranks, 1, dashboard_address=None) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        found = client.run(place)
        assert sorted(found.values()) == [(rank, ranks, f"world-0-{rank}") for rank in range(ranks)]


def test_asynchronous():
    async def use() -> int:
        async with (
            LocalMPICluster(2, 1, dashboard_address=None, asynchronous=True) as cluster,
            Client(cluster, asynchronous=True, set_as_default=False) as client,
        ):
            return await client.submit(lambda: 5)

    assert asyncio.run(use()) == 5


def test_computes(client):
    assert client.submit(sum, range(10)).result() == 45
    frame = pd.DataFrame({"a": range(100), "b": range(100)})
    assert dd.from_pandas(frame, npartitions=4).groupby("b").a.sum().compute().sum() == 4950


def test_ranks_reach_each_other(client):
    # Both are in the collective at the same time, each in its task thread.
    workers = list(client.scheduler_info()["workers"])
    futures = [client.submit(reduced, workers=[worker], pure=False) for worker in workers]
    assert client.gather(futures) == [1, 1]


def test_options_reach_the_workers(scratch):
    with (
        LocalMPICluster(
            1, 3, "300 MiB", dashboard_address=None, resources={"GPU": 2}, name="mine"
        ) as cluster,
        Client(cluster) as client,
    ):
        (worker,) = client.scheduler_info()["workers"].values()
        assert worker["nthreads"] == 3
        assert worker["memory_limit"] == 300 << 20
        assert worker["resources"] == {"GPU": 2}
        assert worker["local_directory"].startswith(str(scratch))
        assert cluster.name == "mine"


def test_repr(cluster):
    text = repr(cluster)
    assert text.startswith("LocalMPICluster(")
    assert "ranks=2, threads=2" in text
    assert cluster.scheduler_address in text
    html = cluster._repr_html_()
    assert "LocalMPICluster" in html
    assert cluster.world.label in html


def test_names_are_the_planned_ones(cluster):
    assert cluster.plan == cluster.requested == cluster.observed == {"world-0-0", "world-0-1"}


def test_a_worker_that_left_before_the_cluster_knew_it(cluster):
    # The event of Dask's that a short-lived worker makes; it would end the watching of the others.
    cluster._update_worker_status("remove", "tcp://127.0.0.1:1")
    assert len(cluster.scheduler_info["workers"]) == 2


@pytest.mark.parametrize(
    "name", ["_close", "_get_logs", "_repr_html_", "_update_worker_status", "_created"]
)
def test_private_names_of_distributed(cluster, name):
    """`LocalMPICluster` overrides or reads these."""
    known = set(dir(SpecCluster)) | set(vars(cluster))
    assert name in known, f"{name} has gone from distributed.SpecCluster"


def test_dashboard_link(cluster):
    assert cluster.dashboard_link.startswith("http://127.0.0.1:")


def test_no_dashboard():
    with LocalMPICluster(1, 1, dashboard_address=None) as cluster:
        assert cluster.dashboard_link == ""


def test_logs(cluster, client):
    def speak() -> None:
        print("something to stdout")
        print("something to stderr", file=sys.stderr)

    def printed(what: str) -> int:
        return cluster.get_logs()["MPI world"].count(what)

    client.run(speak)
    assert wait_until(lambda: printed("something to stdout") == 2, 5)
    logs = cluster.get_logs()
    assert {"Cluster", "Scheduler", "MPI world", *client.scheduler_info()["workers"]} == set(logs)
    # Reading them does not disturb those who write.
    client.run(speak)
    assert wait_until(lambda: printed("something to stderr") == 4, 5)


def test_size_is_fixed(cluster):
    with pytest.raises(RuntimeError, match="n_workers=5"):
        cluster.scale(5)
    with pytest.raises(RuntimeError, match="n_workers"):
        cluster.adapt()


def test_environment_of_ranks(client):
    import os

    environ = client.submit(lambda: dict(os.environ)).result()
    assert environ["PYTHONHASHSEED"] == "6640"
    assert environ["OMP_NUM_THREADS"] == os.environ.get("OMP_NUM_THREADS", "1")
    modules = client.submit(lambda: "bokeh" in sys.modules).result()
    assert not modules


def test_close_twice():
    cluster = LocalMPICluster(1, 1, dashboard_address=None)
    cluster.close()
    cluster.close()
    assert cluster.status.name == "closed"


def test_two_clusters_at_a_time():
    with (
        LocalMPICluster(1, 1, dashboard_address=None) as one,
        LocalMPICluster(1, 1, dashboard_address=None) as two,
        Client(one, set_as_default=False) as first,
        Client(two, set_as_default=False) as second,
    ):
        assert one.world.label != two.world.label
        assert first.submit(sum, [1]).result() == second.submit(sum, [1]).result() == 1


def test_cluster_within_a_rank(client):
    def nested() -> int:
        # The rank's own marks must not reach this world.
        with (
            LocalMPICluster(2, 1, dashboard_address=None) as cluster,
            Client(cluster, set_as_default=False) as inner,
        ):
            return len(inner.run(place))

    assert client.submit(nested).result() == 2


def test_tasks_find_modules_beside_the_script(tmp_path):
    (tmp_path / "beside.py").write_text("def answer():\n    return 42\n")
    (tmp_path / "script.py").write_text(
        "from distributed import Client\n"
        "from dask_rcylon import LocalMPICluster\n"
        "import beside\n"
        "if __name__ == '__main__':\n"
        "    with LocalMPICluster(1, 1, dashboard_address=None) as cluster:\n"
        "        with Client(cluster) as client:\n"
        "            print(client.submit(beside.answer).result())\n"
    )
    done = subprocess.run(
        [sys.executable, tmp_path / "script.py"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.strip() == "42"


def test_tls(tmp_path):
    from distributed import Security

    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = (
        f"openssl req -x509 -newkey rsa:2048 -nodes -keyout {key} -out {cert} -days 1 "
        "-subj /CN=localhost"
    )
    try:
        subprocess.run(command.split(), check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("needs the openssl program")
    security = Security(
        tls_ca_file=str(cert),
        require_encryption=True,
        **{
            f"tls_{role}_{what}": str(path)
            for role in ("client", "scheduler", "worker")
            for what, path in (("cert", cert), ("key", key))
        },
    )
    with (
        LocalMPICluster(1, 1, security=security, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        assert cluster.scheduler_address.startswith("tls://")
        (worker,) = client.scheduler_info()["workers"]
        assert worker.startswith("tls://")
        assert client.submit(sum, [1, 2]).result() == 3
