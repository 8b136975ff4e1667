"""A world as a process of a Dask cluster: one ``mpiexec`` job, started again when it dies."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
from dask.utils import parse_timedelta
from distributed import Scheduler, Status
from distributed.deploy.spec import ProcessInterface
from distributed.security import Security

from dask_rcylon.cluster import launch as launcher
from dask_rcylon.cluster import owner
from dask_rcylon.comm import mpi

logger = logging.getLogger("dask_rcylon")

#: How many worlds in a row may die before they have lived this long.
_MOST_FAILURES = 3
_SETTLED_SECONDS = 30.0
_POLL = 0.05


class MPIWorld(ProcessInterface):
    """The ranks of a `LocalMPICluster`.

    Parameters
    ----------
    address : str
        The scheduler's.
    name : str
        Prefix of the workers' names.
    scheduler : callable() -> Scheduler
        The scheduler itself, to see when ranks have joined.
    ranks : int
        Size of the world.
    options : dict
        Options of each rank's worker.
    directory : str or None
        Where the workers may keep files; they get a folder of their own in it.
    security : Security
        TLS of the cluster.
    """

    def __init__(
        self,
        address: str,
        *,
        name: str,
        scheduler: Callable[[], Scheduler],
        ranks: int,
        options: dict[str, Any],
        directory: str | None,
        security: Security,
    ) -> None:
        super().__init__(scheduler=address, name=name)
        self._scheduler_address = address
        self._name = name
        self._scheduler = scheduler
        self._ranks = ranks
        self._options = options
        self._security = security
        self._parent = directory or dask.config.get("temporary-directory", None)
        self._directory: str | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._monitor: asyncio.Task[None] | None = None
        self._generation = 0
        self._failures = 0
        self._born = 0.0
        self._reason: str | None = None
        #: Label of the world that lives at the moment.
        self.label: str | None = None

    async def start(self) -> None:
        """Start the world and wait until all its ranks have joined.

        Raises
        ------
        RuntimeError
            If there is no MPI library, or ``mpiexec`` fails; with the command line and its output.
        """
        mpi_launcher = await asyncio.get_running_loop().run_in_executor(None, launcher.find)
        if self._parent is not None:
            Path(self._parent).mkdir(parents=True, exist_ok=True)
        self._directory = tempfile.mkdtemp(prefix="dask-rcylon-", dir=self._parent)
        await self._launch(mpi_launcher)
        self._monitor = asyncio.create_task(self._watch(mpi_launcher))
        await super().start()

    async def close(self) -> None:
        """End the world."""
        if self._monitor is not None:
            self._monitor.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._monitor
        await self._dismiss()
        await self._end()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
        await super().close()

    def restart(self, reason: str) -> None:
        """End the world because it is no longer whole; the monitor starts another."""
        if self._process is not None and self._process.poll() is None:
            self._reason = reason
            _signal(self._process, signal.SIGKILL)

    @property
    def output(self) -> str:
        """What the ranks have written to stdout and stderr."""
        self._log.seek(0)
        return self._log.read().decode(errors="replace")

    async def _launch(self, mpi_launcher: launcher.Launcher) -> None:
        self.label = f"{self._name}-{self._generation}-{uuid.uuid4().hex[:8]}"
        program = [
            sys.executable,
            "-m",
            "dask_mpi.cli",
            self._scheduler_address,
            "--no-scheduler",
            "--worker-class",
            "dask_rcylon.cluster.rank.RankWorker",
            "--name",
            f"{self._name}-{self._generation}",
            "--worker-options",
            json.dumps({**self._options, "local_directory": self._directory}),
        ]
        self._command = mpi_launcher.command(self._ranks, program)
        environ = mpi_launcher.environment(
            self.label,
            **{
                owner.OWNER_VARIABLE: owner.owner_mark(),
                owner.DIRECTORY_VARIABLE: self._directory or "",
                "DASK_INTERNAL_INHERIT_CONFIG": dask.config.serialize(self._config()),
            },
        )
        # An unlinked file: nothing to remove, and a rank that writes much can't block on a pipe.
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        self._born = time.monotonic()
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env=environ,
            # Out of the terminal's process group: Ctrl-C is for the script, which ends the world.
            start_new_session=True,
        )
        try:
            await self._wait_for_ranks()
        except BaseException:
            await self._end()
            raise

    def _config(self) -> dict[str, Any]:
        """Return the configuration of the ranks: this process's, and the cluster's TLS."""
        security = self._security
        tls = {
            "ca-file": security.tls_ca_file,
            "worker": {"cert": security.tls_worker_cert, "key": security.tls_worker_key},
        }
        comm = {"require-encryption": bool(security.require_encryption), "tls": tls}
        # A task that calls compute() means this cluster, whatever the script's default is.
        return dask.config.merge(  # type: ignore[no-any-return]
            dask.config.config, {"distributed": {"comm": comm}, "scheduler": None}
        )

    async def _dismiss(self) -> None:
        """Ask the ranks to end by themselves, so that each tidies up."""
        scheduler = self._scheduler()
        if scheduler.status != Status.running or self._process is None:
            return
        for address in list(scheduler.workers):
            await scheduler.remove_worker(address, stimulus_id="rcylon-close", expected=True)
        deadline = time.monotonic() + 3.0
        while self._process.poll() is None and time.monotonic() < deadline:
            await asyncio.sleep(_POLL / 5)

    async def _wait_for_ranks(self) -> None:
        assert self._process is not None
        timeout = parse_timedelta(dask.config.get("rcylon.start-timeout", "60s"))
        prefix = f"{self._name}-{self._generation}-"
        while True:
            names = [str(worker.name) for worker in self._scheduler().workers.values()]
            if sum(name.startswith(prefix) for name in names) == self._ranks:
                return
            if self._process.poll() is not None:
                raise launcher.LaunchError(
                    f"mpiexec ended with status {self._process.returncode} before its "
                    f"{self._ranks} ranks had joined.\n{self._description()}"
                )
            if time.monotonic() - self._born > timeout:
                raise launcher.LaunchError(
                    f"the {self._ranks} ranks did not join within {timeout:g} s "
                    f"(rcylon.start-timeout).\n{self._description()}"
                )
            await asyncio.sleep(_POLL)

    def _description(self) -> str:
        tail = self.output.strip()[-4000:] or "(nothing)"
        hint = f"\n{mpi.INSTALL_HINT}" if "cannot load MPI library" in tail else ""
        return f"Command: {' '.join(self._command)}\nOutput:\n{tail}{hint}"

    async def _watch(self, mpi_launcher: launcher.Launcher) -> None:
        """Start a new world whenever the present one has ended."""
        while True:
            assert self._process is not None
            while self._process.poll() is None:
                await asyncio.sleep(_POLL)
            lived = time.monotonic() - self._born
            self._failures = 1 if lived > _SETTLED_SECONDS else self._failures + 1
            reason, self._reason = self._reason, None
            what = reason or f"mpiexec ended with status {self._process.returncode}"
            tail = self.output.strip()[-1000:]
            await self._end()
            if self._failures > _MOST_FAILURES:
                logger.error(
                    "MPI world %s was lost (%s), the last of %d in a row; giving up. %s",
                    self.label,
                    what,
                    self._failures,
                    tail,
                )
                self.status = Status.failed
                return
            message = (
                f"MPI world {self.label} was lost ({what}). A new one is being started; Dask "
                f"recomputes what was on its {self._ranks} ranks. {tail}"
            ).strip()
            logger.warning(message)
            warnings.warn(message, RuntimeWarning, stacklevel=2)
            self._generation += 1
            try:
                await self._launch(mpi_launcher)
            except launcher.LaunchError as error:
                logger.warning("The new MPI world did not start: %s", error)

    async def _end(self) -> None:
        """End the ``mpiexec`` job and all in its session."""
        process = self._process
        if process is None:
            return
        for number, seconds in ((signal.SIGTERM, 2.0), (signal.SIGKILL, 5.0)):
            _signal(process, number)
            deadline = time.monotonic() + seconds
            while (process.poll() is None or _session_lives(process)) and (
                time.monotonic() < deadline
            ):
                await asyncio.sleep(_POLL / 5)
            if process.poll() is not None and not _session_lives(process):
                return


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _session_lives(process: subprocess.Popen[bytes]) -> bool:
    """Tell whether any process of the job's group is left."""
    try:
        os.killpg(process.pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True
