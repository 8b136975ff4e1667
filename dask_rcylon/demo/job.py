"""Run the query twice, compare times and results."""

from __future__ import annotations

import logging
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dask
import dask.dataframe as dd
import pandas as pd
import pyarrow.dataset
from dask.system import CPU_COUNT
from distributed import Client, LocalCluster

import dask_rcylon
from dask_rcylon.demo.query import revenue_by_customer
from dask_rcylon.demo.tables import make_tables

#: Relative difference of sums of floats that were added in another order.
TOLERANCE = 1e-9
PARTS_PER_RANK = 8


def run(scale: float, ranks: int | None, data: Path | None, keep: Path | None) -> bool:
    """Run the job.

    Parameters
    ----------
    scale : float
        TPC-H scale factor.
    ranks : int or None
        Workers of one thread, for both ways; by default one for each CPU.
    data : Path or None
        Where the tables are kept.
    keep : Path or None
        Where to leave the results; they are dropped by default.

    Returns
    -------
    bool
        Whether the two results are equal.
    """
    ranks = CPU_COUNT if ranks is None else ranks
    if ranks < 1:
        raise ValueError(f"--ranks must be at least 1, got {ranks}")
    if scale <= 0:
        raise ValueError(f"--scale must be positive, got {scale:g}")
    with _step(f"TPC-H tables at scale {scale:g}"):
        tables = make_tables(scale, max(PARTS_PER_RANK * ranks, PARTS_PER_RANK), data)
    with tempfile.TemporaryDirectory(prefix="rcylon-demo-") as temporary:
        results = keep or Path(temporary)
        seconds = {
            "Dask as it is (P2P)": _with_dask(tables, results / "dask", ranks),
            "with the one line": _with_rcylon(tables, results / "rcylon", ranks),
        }
        print()
        for name, time_ in seconds.items():
            print(f"{name:20}  {time_:7.2f} s")
        first, second = seconds.values()
        print(f"{'ratio':20}  {first / second:7.2f}")
        difference = _difference(results / "dask", results / "rcylon")
    if difference is not None:
        print(f"the results differ: {difference}")
        return False
    print(f"the results are equal, row for row (floats within {TOLERANCE:g})")
    return True


def _with_dask(tables: Path, result: Path, ranks: int) -> float:
    logging.getLogger("distributed.shuffle").setLevel(logging.ERROR)
    with (
        LocalCluster(n_workers=ranks, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster),
    ):
        return _timed("Dask as it is (P2P)", tables, result)


def _with_rcylon(tables: Path, result: Path, ranks: int) -> float:
    # The one line; the number of ranks is only said because it was asked for.
    with dask.config.set({"scheduler": "rcylon", "rcylon.ranks": ranks}):
        with _step("Embedded MPI cluster"):
            dask.delayed(int)().compute()
        print()
        print(dask_rcylon.explain(revenue_by_customer(tables)))
        print()
        return _timed('With dask.config.set(scheduler="rcylon")', tables, result)


def _timed(name: str, tables: Path, result: Path) -> float:
    with _step("A small join, to warm up"):
        small = dd.from_pandas(pd.DataFrame({"k": range(1000), "s": "x"}), npartitions=4)
        small.merge(small, on=["k", "s"]).sort_values("k").compute()
    with _step(f"{name}: read, filter, join, join, group, sort, write"):
        start = time.perf_counter()
        revenue_by_customer(tables).to_parquet(result, write_index=False)
        return time.perf_counter() - start


def _difference(first: Path, second: Path) -> str | None:
    """Say how two sorted results differ, or None if they don't."""
    a, b = (pd.read_parquet(path, dtype_backend="pyarrow") for path in (first, second))
    try:
        pd.testing.assert_frame_equal(_ordered(first, a), _ordered(second, b), rtol=TOLERANCE)
    except AssertionError as error:
        return str(error)
    return None


def _ordered(path: Path, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows in the order of their files' numbers."""
    files = sorted(path.glob("*.parquet"), key=lambda file: int(file.name.split(".")[1]))
    table = pyarrow.dataset.dataset([str(file) for file in files]).to_table()
    return table.to_pandas(types_mapper=pd.ArrowDtype)[list(frame.columns)]


@contextmanager
def _step(name: str) -> Iterator[None]:
    """Show that something is being done, and how long it has taken."""
    start = time.perf_counter()
    done = threading.Event()
    live = sys.stdout.isatty()

    def tick() -> None:
        while not done.wait(0.2 if live else 5):
            seconds = time.perf_counter() - start
            text = f"{name} ... {seconds:5.1f} s"
            print(f"\r{text}" if live else text, end="" if live else "\n", flush=True)

    print(f"{name} ...", end="" if live else "\n", flush=True)
    ticker = threading.Thread(target=tick, daemon=True)
    ticker.start()
    try:
        yield
    finally:
        done.set()
        ticker.join()
    seconds = time.perf_counter() - start
    print(f"{chr(13) if live else ''}{name}: {seconds:.1f} s ", flush=True)
