"""One ``mpiexec`` job, seen from its owner."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from typing import IO

import psutil

from dask_rcylon.comm import mpi, orphan

#: How often to look, in seconds.
_POLL = 0.02
#: The guard needs a few seconds at most; see there.
_PATIENCE = 8.0
#: The most of its output that is kept in memory at a time, in bytes.
_MOST_OUTPUT = 1 << 20


class Job:
    """A job under a guard (`dask_rcylon.comm.orphan`), and what its ranks print.

    Parameters
    ----------
    command : sequence of str
        Command line of ``mpiexec``.
    environ : dict
        Its environment.
    directory : str
        Folder for the job alone; the guard removes it when the job has ended.

    Attributes
    ----------
    born : float
        When it was started, by `time.monotonic`.
    """

    def __init__(self, command: Sequence[str], environ: dict[str, str], directory: str) -> None:
        self.command = list(command)
        self._directory = directory
        self._ranks: list[psutil.Process] = []
        # An unlinked file: nothing to remove, and a rank that writes much can't block on a pipe.
        # In append mode, as several processes write.
        self._log: IO[bytes] = tempfile.TemporaryFile(mode="a+b")  # noqa: SIM115
        self.born = time.monotonic()
        self._since = time.time()
        self._process = subprocess.Popen(
            [sys.executable, "-P", orphan.__file__, str(os.getpid()), directory, *self.command],
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env=environ,
            # Out of the terminal's process group: Ctrl-C is for the script, which ends the world.
            start_new_session=True,
        )

    @property
    def status(self) -> int | None:
        """Exit status of ``mpiexec``, None as long as anything of the job lives."""
        return self._process.poll()

    def joined(self, pids: Iterable[int]) -> None:
        """Let the guard know that the ranks, which are these processes, have initialised MPI."""
        self._say(orphan.JOINED)
        for pid in pids:
            with contextlib.suppress(psutil.Error):
                self._ranks.append(psutil.Process(pid))

    async def wait(self, seconds: float) -> bool:
        """Wait for the job to end by itself; return whether it did."""
        deadline = time.monotonic() + seconds
        while self.status is None:
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(_POLL)
        return True

    async def end(self) -> None:
        """End the job and all that belongs to it."""
        self._say(orphan.END)
        if not await self.wait(_PATIENCE):
            # The kernel then ends mpiexec, and mpiexec its ranks.
            self._process.kill()
            await self.wait(_PATIENCE)
        if self._process.returncode is not None and self._process.returncode < 0:
            await self._stand_in()

    async def _stand_in(self) -> None:
        """Do what is left to do of a guard that was killed."""
        deadline = time.monotonic() + _PATIENCE
        while any(rank.is_running() for rank in self._ranks) and time.monotonic() < deadline:
            await asyncio.sleep(_POLL)
        for rank in self._ranks:
            with contextlib.suppress(psutil.Error):
                rank.kill()
        orphan.remove(self._since, self._directory)

    def close(self) -> str:
        """Close the files of a job that has ended, and return its output."""
        output = self.output
        self._log.close()
        with contextlib.suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        return output

    @property
    def output(self) -> str:
        """What the ranks and ``mpiexec`` have written to stdout and stderr, the last MiB of it."""
        descriptor = self._log.fileno()
        size = os.fstat(descriptor).st_size
        first = max(0, size - _MOST_OUTPUT)
        return os.pread(descriptor, size - first, first).decode(errors="replace")

    def description(self) -> str:
        """Return the command line and the end of the output, for an error message."""
        tail = self.output.strip()[-4000:] or "(nothing)"
        hint = f"\n{mpi.INSTALL_HINT}" if "cannot load MPI library" in tail else ""
        return f"Command: {' '.join(self.command)}\nOutput:\n{tail}{hint}"

    def cause(self, names: dict[int, str]) -> str:
        """Say in a line or a few why the job has ended.

        Parameters
        ----------
        names : dict
            Names of the workers by process id.
        """
        text = self.output if self.status else ""
        what = f"mpiexec ended with status {self.status}"
        # Both Hydra and PRRTE name the process that was first.
        first = re.search(r"\bPID (\d+)\b", text)
        if first is not None:
            pid = int(first[1])
            what = f"rank {names.get(pid, '?')} (pid {pid}) ended first, and {what}"
        if (signal := re.search(r"\b[Ss]ignal:? (\d+)", text)) is not None:
            what += f" after signal {signal[1]}"
        printed = [
            line
            for line in text.splitlines()
            if line.strip() and " - INFO - " not in line and not _BANNER.search(line)
        ]
        return "\n".join([what, *(f"    {line}" for line in printed[-12:])])

    def _say(self, word: bytes) -> None:
        with contextlib.suppress(OSError, ValueError):
            assert self._process.stdin is not None
            self._process.stdin.write(word)
            self._process.stdin.flush()


#: Lines of a launcher's report that say nothing more.
_BANNER = re.compile(
    r"^=|^-+$|YOUR APPLICATION TERMINATED|This typically refers|Please see the FAQ|"
    r"(prterun|mpirun|mpiexec) noticed that process|^(exited on )?signal \d+ \("
)
