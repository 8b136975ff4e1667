"""The guard, with ordinary programs in the place of mpiexec."""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from dask_rcylon.comm import orphan
from tests.waiting import wait_until


def start(directory: Path, *command: str) -> subprocess.Popen[bytes]:
    directory.mkdir()
    return subprocess.Popen(
        [sys.executable, "-P", orphan.__file__, str(os.getpid()), str(directory), *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def finish(guard: subprocess.Popen[bytes], seconds: float = 10) -> tuple[int, str]:
    try:
        output = guard.communicate(timeout=seconds)[0].decode()
    finally:
        guard.kill()
    return guard.returncode, output


@pytest.mark.parametrize(
    ("command", "status"), [("exit 0", 0), ("exit 5", 5), ("kill -KILL $$", 137)]
)
def test_passes_the_status_on(tmp_path, command, status):
    guard = start(tmp_path / "d", "sh", "-c", command)
    assert guard.wait(10) == status
    finish(guard)
    assert not (tmp_path / "d").exists()


def test_program_that_can_not_be_run(tmp_path):
    guard = start(tmp_path / "d", "/no/such/program")
    assert guard.wait(10) == 127
    assert "/no/such/program" in finish(guard)[1]
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize("how", ["end", "pipe", "signal"])
def test_is_told_to_end(tmp_path, how):
    guard = start(tmp_path / "d", "sleep", "60")
    assert wait_until(lambda: psutil.Process(guard.pid).children(), 5)
    begin = time.monotonic()
    guard.stdin.write(orphan.JOINED)
    guard.stdin.flush()
    if how == "end":
        guard.stdin.write(orphan.END)
        guard.stdin.flush()
    elif how == "pipe":
        guard.stdin.close()
        guard.stdin = None
    else:
        guard.send_signal(signal.SIGTERM)
    assert guard.wait(10) == 128 + signal.SIGTERM
    finish(guard)
    assert time.monotonic() - begin < 2
    assert not (tmp_path / "d").exists()


def test_ends_what_has_left_its_session_and_parent(tmp_path):
    # As Hydra's ranks do, and those of an mpiexec that was killed.
    code = (
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        print(os.getpid(), flush=True)\n"
        "        time.sleep(60)\n"
        "    os._exit(0)\n"
        "time.sleep(0.2)\n"
    )
    guard = start(tmp_path / "d", sys.executable, "-c", code)
    pid = int(guard.stdout.readline())
    assert psutil.pid_exists(pid)
    assert guard.wait(10) == 0
    finish(guard)
    assert not psutil.pid_exists(pid)


def test_kills_what_does_not_listen(tmp_path):
    guard = start(tmp_path / "d", "sh", "-c", "trap '' TERM; echo ready; sleep 60 & wait; sleep 60")
    guard.stdout.readline()
    guard.stdin.write(orphan.END)
    guard.stdin.flush()
    assert guard.wait(10) == 128 + signal.SIGKILL
    finish(guard)


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="no /dev/shm here")
def test_removes_the_segments_of_mpi_and_no_others(tmp_path):
    name = f"mpich_shm_test{os.getpid()}"
    mine, other = Path("/dev/shm") / name, Path("/dev/shm") / f"other_{name}"
    code = (
        "import mmap, os, signal, sys, time\n"
        "kept = []\n"
        "for path in sys.argv[1:]:\n"
        "    with open(path, 'w+b') as file:\n"
        "        file.truncate(4096)\n"
        "        kept.append(mmap.mmap(file.fileno(), 4096))\n"
        "print('mapped', flush=True)\n"
        "time.sleep(0.5)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    guard = start(tmp_path / "d", sys.executable, "-c", code, str(mine), str(other))
    try:
        guard.stdout.readline()
        guard.stdin.write(orphan.JOINED)
        guard.stdin.flush()
        assert guard.wait(10) == 128 + signal.SIGKILL
        finish(guard)
        assert not mine.exists()
        assert other.exists()
    finally:
        mine.unlink(missing_ok=True)
        other.unlink(missing_ok=True)


MAKE = """
import os, signal, sys
open(sys.argv[1], 'wb').close()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def segment():
    """A file such as MPI makes in shared memory."""
    path = Path("/dev/shm") / f"ucx_shm_test{os.getpid()}"
    yield path
    path.unlink(missing_ok=True)


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="no /dev/shm here")
def test_removes_a_segment_of_the_last_moment(tmp_path, segment):
    """Which no look at the ranks can have seen."""
    guard = start(tmp_path / "d", sys.executable, "-c", MAKE, str(segment))
    assert guard.wait(10) == 128 + signal.SIGKILL
    finish(guard)
    assert not segment.exists()


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="no /dev/shm here")
@pytest.mark.parametrize("how", ["mapped", "open", "older"])
def test_leaves_the_segments_of_other_jobs(tmp_path, segment, how):
    with segment.open("w+b") as file:
        file.truncate(4096)
        mapped = mmap.mmap(file.fileno(), 4096)
        if how == "older":
            os.utime(segment, (time.time() - 60,) * 2)
        if how != "open":
            file.close()
        if how != "mapped":
            mapped.close()
        guard = start(tmp_path / "d", "true")
        assert guard.wait(10) == 0
        finish(guard)
        assert segment.exists()
    mapped.close()
