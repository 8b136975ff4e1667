"""However a cluster or its owner ends, nothing is left."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from distributed import Client

from dask_rcylon import LocalMPICluster
from tests.cluster.conftest import own, processes, segments
from tests.waiting import wait_until

_BEGIN = """
import os, sys, time
from distributed import Client
from dask_rcylon import LocalMPICluster
if __name__ == "__main__":
"""


class Script:
    """A user's script, which prints its world's label and goes on when this has looked at that."""

    def __init__(self, folder: Path, lines: str) -> None:
        path = folder / "script.py"
        path.write_text(_BEGIN + "".join(f"    {line}\n" for line in lines.splitlines()))
        self.process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.label = self.process.stdout.readline().strip()
        assert self.label, self.process.stderr.read()
        self.files = segments(processes(self.label))
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def interrupt(self) -> str:
        """Press Ctrl-C in its terminal; return what it then writes to stderr."""
        os.killpg(self.process.pid, signal.SIGINT)
        try:
            return self.process.communicate(timeout=30)[1]
        except subprocess.TimeoutExpired:
            # Have it say where it hangs.
            self.process.send_signal(signal.SIGABRT)
            pytest.fail(f"still running: {self.process.communicate()[1]}")


@pytest.fixture
def script(tmp_path, scratch) -> Iterator[object]:
    started: list[Script] = []

    def start(lines: str) -> Script:
        started.append(Script(tmp_path, lines))
        return started[-1]

    yield start
    for one in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(one.process.pid, signal.SIGKILL)
        one.process.communicate()


def nothing_left(label: str, files: set[str], scratch: Path, seconds: float) -> bool:
    def gone() -> bool:
        return (
            not processes(label)
            and not own(scratch)
            and not any(Path(file).exists() for file in files)
        )

    return wait_until(gone, seconds)


def test_close(scratch):
    cluster = LocalMPICluster(4, 1, dashboard_address=None)
    label = cluster.world.label
    files = segments(processes(label))
    # Guard, mpiexec, Hydra's proxy with MPICH, ranks.
    assert len(processes(label)) >= 6
    begin = time.monotonic()
    cluster.close()
    assert time.monotonic() - begin < 5
    assert nothing_left(label, files, scratch, 0)


def test_close_while_busy(scratch):
    cluster = LocalMPICluster(2, 1, dashboard_address=None)
    label = cluster.world.label
    files = segments(processes(label))
    client = Client(cluster)
    kept = client.map(time.sleep, [60, 60.5])
    assert wait_until(lambda: all(w.processing for w in cluster.scheduler.workers.values()), 5)
    begin = time.monotonic()
    del kept
    client.close()
    cluster.close()
    assert time.monotonic() - begin < 8
    assert nothing_left(label, files, scratch, 0)


def test_exception(scratch):
    with pytest.raises(ZeroDivisionError), LocalMPICluster(2, 1, dashboard_address=None) as cluster:
        label = cluster.world.label
        files = segments(processes(label))
        raise ZeroDivisionError
    assert nothing_left(label, files, scratch, 0)


def test_client_shutdown(scratch):
    cluster = LocalMPICluster(2, 1, dashboard_address=None)
    label = cluster.world.label
    files = segments(processes(label))
    Client(cluster).shutdown()
    assert nothing_left(label, files, scratch, 0)


def test_cancelled_start(scratch):
    async def main() -> str:
        cluster = LocalMPICluster(2, 1, asynchronous=True, dashboard_address=None)
        start = asyncio.ensure_future(cluster.__aenter__())
        while cluster.scheduler is None or not own(scratch):
            await asyncio.sleep(0.01)
        start.cancel()
        await asyncio.wait([start])
        await cluster.close()
        return cluster.status.name

    assert asyncio.run(main()) == "closed"
    assert wait_until(lambda: not own(scratch), 5)


_UP = "cluster = LocalMPICluster({ranks}, 1, dashboard_address=None)\n"
_SAY = "print(cluster.world.label, flush=True)\nsys.stdin.readline()\n"
#: A task that says by a file that it has begun.
_TASK = """def task(file):
    open(file, "w").close()
    {body}
"""


def begun(folder: Path, count: int) -> bool:
    return wait_until(lambda: len(list(folder.glob("begun-*"))) == count, 20)


def test_interpreter_exit(script, scratch):
    one = script(_UP.format(ranks=2) + _SAY)
    assert one.process.wait(20) == 0
    assert nothing_left(one.label, one.files, scratch, 1)


@pytest.mark.parametrize("managed", [True, False], ids=["with", "without"])
def test_interrupt(script, scratch, tmp_path, managed):
    work = _SAY + _TASK.format(body="time.sleep(100)")
    work += f"Client(cluster).submit(task, {str(tmp_path / 'begun-0')!r}).result()"
    if managed:
        work = "with cluster:\n" + "".join(f"    {line}\n" for line in work.splitlines())
    one = script(_UP.format(ranks=2) + work)
    assert begun(tmp_path, 1)
    error = one.interrupt()
    assert "KeyboardInterrupt" in error
    # The ranks were not hit by it: no world was lost.
    assert "was lost" not in error
    assert nothing_left(one.label, one.files, scratch, 1)


def test_interrupt_while_starting(script, scratch):
    one = script("print('starting', flush=True)\n" + _UP.format(ranks=2) + "time.sleep(100)")
    assert wait_until(lambda: own(scratch), 20)
    error = one.interrupt()
    assert "KeyboardInterrupt" in error
    assert wait_until(lambda: not own(scratch), 5)


def test_terminated(script, scratch):
    # Python runs nothing at its end then.
    one = script(_UP.format(ranks=2) + _SAY + "time.sleep(100)")
    one.process.terminate()
    one.process.wait(10)
    assert nothing_left(one.label, one.files, scratch, 15)


@pytest.mark.parametrize("ranks", [1, 2])
def test_owner_is_killed(script, scratch, tmp_path, ranks):
    # The ranks are inside calls that hold the GIL: nothing in them can notice.
    files = [str(tmp_path / f"begun-{rank}") for rank in range(ranks)]
    work = "client = Client(cluster)\n" + _SAY + _TASK.format(body="sum(range(10**12))")
    work += f"kept = client.map(task, {files})\ntime.sleep(100)"
    one = script(_UP.format(ranks=ranks) + work)
    assert begun(tmp_path, ranks)
    one.process.kill()
    begin = time.monotonic()
    assert nothing_left(one.label, one.files, scratch, 30)
    assert time.monotonic() - begin < 15


def test_owner_is_killed_but_not_its_fork(script, scratch):
    # The fork holds the pipe that would tell of the owner's end.
    one = script(
        _UP.format(ranks=1)
        + _SAY
        + "pid = os.fork()\n"
        + "if pid == 0:\n    time.sleep(20)\n    os._exit(0)\n"
        + "os.kill(os.getpid(), 9)"
    )
    one.process.wait(10)
    assert nothing_left(one.label, one.files, scratch, 15)


_DROP_IN = """
import signal
import dask, dask_rcylon
import dask.dataframe as dd, pandas as pd
from dask_rcylon.scheduler import scheduler
dask.config.set({"scheduler": "rcylon", "rcylon.ranks": 2})
frame = dd.from_pandas(pd.DataFrame({"k": range(100)}), npartitions=4)
assert len(frame.merge(frame, on="k").compute()) == 100
print(scheduler.pilot().world, flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize(
    "end",
    [
        "",
        "raise ValueError",
        "sys.exit(3)",
        "os.kill(os.getpid(), signal.SIGINT); time.sleep(60)",
        "os.kill(os.getpid(), signal.SIGKILL)",
    ],
    ids=["end of the script", "exception", "sys.exit", "Ctrl-C", "killed"],
)
def test_scheduler_that_was_set_by_name(script, scratch, end):
    one = script(_DROP_IN + end)
    one.process.wait(20)
    assert nothing_left(one.label, one.files, scratch, 15 if "SIGKILL" in end else 1)
