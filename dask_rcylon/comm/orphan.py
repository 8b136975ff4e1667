"""Nothing of an ``mpiexec`` job outlives its owner, or its own end.

A process that is killed can't tidy up, and a rank can't be relied on to notice: it may hold the
GIL for minutes, so that no watching thread of it runs.  Nor does a launcher clean up behind every
end: Hydra puts each rank in a session of its own, Open MPI's ranks outlive a killed ``prterun``,
and both leave their shared-memory files behind ranks that were killed.

So a job runs under a guard: this file, run as a program of its own that imports next to nothing
(about 10 MB).  It starts ``mpiexec``, adopts what that leaves behind (as "child subreaper"), and
ends everything when its owner says so, or closes the pipe, which the kernel does when the owner is
killed.  There is one way to end a world, whatever the reason; each close exercises it.  If the
guard itself is killed, the kernel sends ``mpiexec`` a SIGTERM.

Files in shared memory can't be noted while a rank lives: it may make one, and be killed, between
two looks.  So they are known by what they are when all is over: of a kind that MPI makes, made by
this user since the job began, and in use by no process.

    python -P orphan.py OWNER_PID DIRECTORY COMMAND...

It removes DIRECTORY at the end and exits with the command's status, as a shell would put it.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

#: What the owner writes to the guard's stdin: all ranks have joined; end the job.
JOINED, END = b"j", b"e"

#: Seconds for ``mpiexec`` to end its ranks and remove its files, before all is killed.
_PATIENCE = 3.0
#: Seconds for ranks that ``mpiexec``, having ended itself, has left.
_PATIENCE_WITH_RANKS = 1.0
#: Seconds between looks at whether the owner, whose pipe a fork of it may hold, is still there.
_INTERVAL = 1.0
#: ``mpiexec`` can't tidy up before it is this old, in seconds.
_MINORITY = 0.3
#: Files in shared memory which the MPI libraries and the transports under them make.
_SEGMENTS = ("mpich_shm_", "sm_segment.", "vader_segment.", "osc_sm", "osc_rdma", "ucx_shm")

_SUBREAPER, _DEATH_SIGNAL = 36, 1


class Guard:
    """The guard of one job.

    Parameters
    ----------
    owner : int
        Process id of the owner, which is the parent of this process.
    directory : str
        To be removed at the end.
    command : list of str
        The job.
    """

    def __init__(self, owner: int, directory: str, command: list[str]) -> None:
        self._owner = owner
        self._directory = directory
        self._command = command
        self._since = time.time()
        self._status: int | None = None

    def run(self) -> int:
        """Run the job to its end and return its exit status."""
        _control(_SUBREAPER)
        wake, woken = os.pipe()
        os.set_blocking(woken, False)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        told: list[int] = []
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda number, _: told.append(number))
        signal.signal(signal.SIGCHLD, lambda *_: None)
        try:
            # Kept: it would take the exit status away with it when it is collected.
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                # Safe: this process has one thread, which ends last.
                preexec_fn=lambda: _control(_DEATH_SIGNAL, signal.SIGTERM),
            )
        except OSError as error:
            print(f"{self._command[0]}: {error}", file=sys.stderr)
            remove(self._since, self._directory)
            return 127
        born, joined = time.monotonic(), False
        while self._status is None and not told and os.getppid() == self._owner:
            ready, _, _ = select.select([0, wake], [], [], _INTERVAL)
            if wake in ready:
                os.read(wake, 4096)
            self._reap()
            if 0 in ready:
                if os.read(0, 1) != JOINED:
                    break
                joined = True
        if not joined and self._status is None:
            self._wait(born + _MINORITY - time.monotonic())
        self._end()
        remove(self._since, self._directory)
        return 1 if self._status is None else self._status

    def _end(self) -> None:
        """End the job and all that it has started."""
        patience = _PATIENCE_WITH_RANKS
        if self._status is None:
            patience = _PATIENCE
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGTERM)
        if self._wait(patience):
            return
        for _ in range(100):
            for pid in _descendants():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if self._wait(0.1):
                return

    def _wait(self, seconds: float) -> bool:
        """Wait until no descendant is left; return whether that is so."""
        deadline = time.monotonic() + seconds
        while self._reap() and time.monotonic() < deadline:
            time.sleep(0.005)
        return not self._reap()

    def _reap(self) -> bool:
        """Take the exit statuses of children that have ended; return whether others live."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._process.pid:
                code = os.waitstatus_to_exitcode(status)
                self._process.returncode = code
                self._status = 128 - code if code < 0 else code


def remove(since: float, directory: str) -> None:
    """Remove the files that a job, all of whose processes have ended, has left behind.

    Parameters
    ----------
    since : float
        When it began, as `time.time` tells it.
    directory : str
        Folder of the job.
    """
    left = [path for path in _segments() if _made_since(since, path)]
    used = _used_files() if left else set()
    for path in left:
        if str(path) not in used:
            path.unlink(missing_ok=True)
    shutil.rmtree(directory, ignore_errors=True)


def _segments() -> list[Path]:
    """Return the files in shared memory of the kinds that MPI makes."""
    with contextlib.suppress(OSError):
        return [path for path in Path("/dev/shm").iterdir() if path.name.startswith(_SEGMENTS)]
    return []


def _made_since(since: float, path: Path) -> bool:
    with contextlib.suppress(OSError):
        found = path.stat()
        # A file's clock may be some milliseconds behind.
        return found.st_uid == os.getuid() and found.st_mtime > since - 1
    return False


def _used_files() -> set[str]:
    """Return the paths in shared memory that a living process has mapped or open."""
    used = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            for line in (process / "maps").read_text().splitlines():
                used.add(line.split(None, 5)[-1])
        with contextlib.suppress(OSError):
            for descriptor in (process / "fd").iterdir():
                with contextlib.suppress(OSError):
                    used.add(str(descriptor.readlink()))
    return used


def _descendants() -> list[int]:
    """Return the ids of all processes below this one."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                # The name, in parentheses, may have spaces; state and parent follow it.
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
                children.setdefault(int(parent), []).append(int(entry.name))
    found: list[int] = []
    rest = [os.getpid()]
    while rest:
        below = children.get(rest.pop(), [])
        found += below
        rest += below
    return found


def _control(option: int, value: int = 1) -> None:
    """Call Linux's ``prctl``."""
    prctl: Callable[..., int] | None = None
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes

        prctl = ctypes.CDLL(None).prctl
    if prctl is not None:
        prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(Guard(int(sys.argv[1]), sys.argv[2], sys.argv[3:]).run())
