"""Join, sort and set_index: dask-rcylon against Dask's own shuffles.

Both methods get a cluster of the same size on this machine, both up at once, and take turns, so
that a machine that slows down slows both.  Inputs are persisted beforehand; a run is the time until
the result is persisted too.  Medians and ratios are printed.  Peak memory, of one more run that is
not timed, is the most that the workers together held at a time: their proportional set sizes (PSS),
in which a page that several processes share counts once.  Each workload gets new clusters, as
processes keep memory of what they did before.

    python benchmarks/join_sort.py --rows 10_000_000 --partitions 16 --ranks 2
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import platform
import statistics
import threading
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import psutil
from distributed import Client, LocalCluster, wait

WORKLOADS = ("join-int", "join-string", "sort", "set_index", "join-small")
METHODS = ("p2p", "tasks", "rcylon")
SMALL_ROWS = 1_000
WARM_UPS = 2


def make_partition(number: int, rows: int, parts: int, value: str, strings: bool) -> pd.DataFrame:
    """Make one partition of a table of `rows` rows: a key, a float and an integer."""
    rng = np.random.default_rng([number, parts])
    count = rows * (number % parts + 1) // parts - rows * (number % parts) // parts
    key: Any = rng.integers(0, rows, count)
    if strings:
        key = pd.array([f"user-{k:09d}" for k in key], dtype="string[pyarrow]")
    return pd.DataFrame(
        {"key": key, f"{value}0": rng.random(count), f"{value}1": rng.integers(0, 1000, count)}
    )


def make_table(rows: int, parts: int, value: str, strings: bool, seed: int) -> dd.DataFrame:
    """Make a table whose partitions differ from those of other seeds."""
    meta = make_partition(0, 1, 1, value, strings).iloc[:0]
    return dd.from_map(
        make_partition,
        range(seed * parts, (seed + 1) * parts),
        rows=rows,
        parts=parts,
        value=value,
        strings=strings,
        meta=meta,
    )


class PeakMemory:
    """The most memory that some processes hold together while this is open.

    Parameters
    ----------
    pids : list of int
        The processes.
    """

    def __init__(self, pids: list[int]) -> None:
        self._processes = [psutil.Process(pid) for pid in pids]
        self.nbytes = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *args: object) -> None:
        self._stop.set()
        self._thread.join()

    def _sample(self) -> None:
        while True:
            now = sum(process.memory_full_info().pss for process in self._processes)
            self.nbytes = max(self.nbytes, now)
            if self._stop.wait(0.02):
                return


class Bench:
    """One method on its own cluster."""

    def __init__(self, method: str, ranks: int) -> None:
        self.method = method
        cluster = LocalCluster
        if method == "rcylon":
            # Not at the top: P2P's workers import this file, and shall not hold our libraries.
            from dask_rcylon import LocalMPICluster as cluster
        self.cluster = cluster(n_workers=ranks, threads_per_worker=1, dashboard_address=":0")
        self.client = Client(self.cluster, set_as_default=False)

    def pids(self) -> list[int]:
        """Return the workers' process ids."""
        return list(self.client.run(lambda: __import__("os").getpid()).values())

    def mpi_library(self) -> str:
        """Return the name of the ranks' MPI library and its version."""

        def ask() -> str:
            from mpi4py import MPI

            return str(MPI.Get_library_version())

        text = next(iter(self.client.run(ask).values()))
        return " ".join(text.split("\n")[0].split())

    def inputs(self, workload: str, rows: int, parts: int) -> list[dd.DataFrame]:
        """Make and persist the tables of a workload."""
        strings = workload == "join-string"
        names = "ab" if workload.startswith("join") else "a"
        tables = [make_table(rows, parts, n, strings, seed) for seed, n in enumerate(names)]
        with self.client.as_current():
            tables = self.client.persist(tables)
            wait(tables)
        return tables

    def run(self, workload: str, tables: list[dd.DataFrame]) -> float:
        """Run a workload once; return seconds until its result is persisted."""
        with self.client.as_current(), dask.config.set({"dataframe.shuffle.method": self.method}):
            start = time.perf_counter()
            result = self.client.persist(OPERATIONS[workload](*tables))
            wait(result)
            seconds = time.perf_counter() - start
            self.rows = int(self.client.compute(result.map_partitions(len).sum()).result())
        return seconds

    def close(self) -> None:
        """End the cluster."""
        self.client.close()
        self.cluster.close()


def _merge(left: dd.DataFrame, right: dd.DataFrame) -> dd.DataFrame:
    return left.merge(right, on="key", broadcast=False)


OPERATIONS: dict[str, Callable[..., dd.DataFrame]] = {
    "join-int": _merge,
    "join-string": _merge,
    "join-small": _merge,
    "sort": lambda table: table.sort_values("key"),
    "set_index": lambda table: table.set_index("key"),
}


def measure(
    workload: str, benches: list[Bench], rows: int, parts: int, repeats: int
) -> dict[str, dict[str, Any]]:
    """Run a workload on all clusters in turn.

    Returns
    -------
    dict
        For each method its ``seconds`` of every run, their ``median``, the ``rows`` of the result
        and the ``peak_bytes`` of the workers.
    """
    if workload == "join-small":
        rows, parts = SMALL_ROWS, min(parts, 4)
    inputs = {bench.method: bench.inputs(workload, rows, parts) for bench in benches}
    results: dict[str, dict[str, Any]] = {
        bench.method: {"seconds": [], "peak_bytes": 0} for bench in benches
    }
    for repeat in range(WARM_UPS + repeats):
        for bench in benches:
            seconds = bench.run(workload, inputs[bench.method])
            results[bench.method]["rows"] = bench.rows
            if repeat >= WARM_UPS:
                results[bench.method]["seconds"].append(seconds)
    for bench in benches:
        with PeakMemory(bench.pids()) as memory:
            bench.run(workload, inputs[bench.method])
        results[bench.method]["peak_bytes"] = memory.nbytes
    if len({result["rows"] for result in results.values()}) > 1:
        raise RuntimeError(f"{workload}: the methods disagree on the rows: {results}")
    for result in results.values():
        result["median"] = statistics.median(result["seconds"])
    return results


def machine(benches: list[Bench]) -> dict[str, Any]:
    """Say what this was measured on."""
    packages = ("dask-rcylon", "dask", "distributed", "pandas", "numpy", "numba", "pyarrow")
    libraries = {b.mpi_library() for b in benches if b.method == "rcylon"}
    return {
        "cpu": _processor(),
        "cpus": psutil.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "python": platform.python_version(),
        "mpi": libraries.pop() if libraries else None,
        "packages": {name: version(name) for name in packages},
    }


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def table(workload: str, results: dict[str, dict[str, Any]]) -> str:
    """Format the results of a workload as lines of a table."""
    ours = results.get("rcylon")
    lines = []
    for method, result in results.items():
        ratio = f"{result['median'] / ours['median']:6.2f}x" if ours else ""
        lines.append(
            f"{workload:12} {method:8} {result['median']:8.3f} s {ratio:>8}"
            f" {result['peak_bytes'] / 2**20:8.0f} MiB {result['rows']:>12,} rows"
        )
    return "\n".join(lines)


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of each table")
    parser.add_argument("--partitions", type=int, default=16, help="partitions of each table")
    parser.add_argument("--ranks", type=int, default=2, help="workers of one thread")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=["p2p", "rcylon"])
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--repeats", type=int, default=5, help=f"runs that count, after {WARM_UPS}")
    parser.add_argument("--json", type=Path, help="write the results here")
    args = parser.parse_args()
    logging.getLogger("distributed.shuffle").setLevel(logging.ERROR)
    collected: dict[str, Any] = {}
    for workload in args.workloads:
        with contextlib.ExitStack() as stack:
            benches = [
                stack.enter_context(contextlib.closing(Bench(method, args.ranks)))
                for method in args.methods
            ]
            results = measure(workload, benches, args.rows, args.partitions, args.repeats)
            where = machine(benches)
        collected[workload] = results
        print(table(workload, results), flush=True)
    if args.json is not None:
        options = {k: v for k, v in vars(args).items() if k != "json"}
        report = {"machine": where, "options": options, "results": collected}
        args.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
