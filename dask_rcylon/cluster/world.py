"""A world as a process of a Dask cluster: one ``mpiexec`` job, started again when it dies."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
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

from dask_rcylon.cluster.job import Job
from dask_rcylon.comm import launcher
from dask_rcylon.pilot.scheduler_plugin import PilotSchedulerPlugin

logger = logging.getLogger("dask_rcylon")

#: How many worlds in a row may die before they have lived this long, in seconds.
_MOST_FAILURES = 3
_SETTLED = 30.0
_POLL = 0.02
#: Seconds for ranks that were asked to end to do so.
_PATIENCE = 3.0


class MPIWorld(ProcessInterface):
    """The ranks of a `LocalMPICluster`.

    Parameters
    ----------
    address : str
        The scheduler's.
    name : str
        Prefix of the workers' names.
    scheduler : callable() -> Scheduler
        The scheduler itself.
    ranks : int
        Size of the world.
    options : dict
        Options of each rank's worker.
    directory : str or None
        Where the workers may keep files; they get a folder of their own in it.
    mpiexec : str or None
        The launcher to use.
    security : Security
        TLS of the cluster.

    Attributes
    ----------
    label : str or None
        Label of the world that lives at the moment.
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
        mpiexec: str | None,
        security: Security,
    ) -> None:
        super().__init__(scheduler=address, name=name)
        self.label: str | None = None
        self._scheduler_address = address
        self._name = name
        self._scheduler = scheduler
        self._ranks = ranks
        self._options = options
        self._parent = directory or dask.config.get("temporary-directory", None)
        self._mpiexec = mpiexec
        self._security = security
        self._job: Job | None = None
        self._monitor: asyncio.Task[None] | None = None
        self._generation = 0
        self._failures = 0
        self._reason: str | None = None

    async def start(self) -> None:
        """Start the world and wait until all its ranks have joined.

        Raises
        ------
        LaunchError
            If there is no MPI library, or ``mpiexec`` fails; with the command line and its output.
        """
        loop = asyncio.get_running_loop()
        mpi_launcher = await loop.run_in_executor(None, launcher.find, self._mpiexec)
        await self._launch(mpi_launcher)
        self._monitor = asyncio.create_task(self._watch(mpi_launcher))
        await super().start()

    async def close(self) -> None:
        """End the world."""
        if self._monitor is not None:
            self._monitor.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._monitor
        if self._job is not None:
            await self._dismiss(self._job)
            await self._job.end()
        await super().close()

    def restart(self, reason: str) -> None:
        """End the world because it is no longer whole; the monitor starts another."""
        if self._reason is None:
            self._reason = reason

    @property
    def output(self) -> str:
        """What the ranks have written to stdout and stderr."""
        return "" if self._job is None else self._job.output

    async def _launch(self, mpi_launcher: launcher.Launcher) -> None:
        label = f"{self._name}-{self._generation}-{uuid.uuid4().hex[:8]}"
        if self._parent is not None:
            Path(self._parent).mkdir(parents=True, exist_ok=True)
        directory = tempfile.mkdtemp(prefix="dask-rcylon-", dir=self._parent)
        options = {**self._options, "local_directory": directory}
        program = [sys.executable, "-m", "dask_mpi.cli", self._scheduler_address, "--no-scheduler"]
        program += ["--worker-class", "distributed.Worker"]
        program += ["--name", f"{self._name}-{self._generation}"]
        program += ["--worker-options", json.dumps(options)]
        config = dask.config.serialize(self._config())
        job = self._job = Job(
            mpi_launcher.command(self._ranks, program),
            mpi_launcher.environment(label, directory, DASK_INTERNAL_INHERIT_CONFIG=config),
            directory,
        )
        self.label, self._reason = label, None
        try:
            await self._wait_for_ranks(job, label)
        except BaseException:
            await job.end()
            raise
        job.joined()

    async def _wait_for_ranks(self, job: Job, label: str) -> None:
        timeout = parse_timedelta(dask.config.get("rcylon.start-timeout", "60s"))
        plugin = self._scheduler().plugins[PilotSchedulerPlugin.name]
        assert isinstance(plugin, PilotSchedulerPlugin)
        while plugin.count(label) < self._ranks:
            if job.status is not None:
                raise launcher.LaunchError(
                    f"mpiexec ended with status {job.status} before its {self._ranks} ranks had "
                    f"joined.\n{job.description()}"
                )
            if self._reason is not None:
                raise launcher.LaunchError(
                    f"{self._reason} before all {self._ranks} had joined.\n{job.description()}"
                )
            if time.monotonic() - job.born > timeout:
                raise launcher.LaunchError(
                    f"the {self._ranks} ranks did not join within {timeout:g} s "
                    f"(rcylon.start-timeout).\n{job.description()}"
                )
            await asyncio.sleep(_POLL)

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

    async def _dismiss(self, job: Job) -> None:
        """Ask the ranks to end by themselves, so that each tidies up."""
        scheduler = self._scheduler()
        if scheduler.status == Status.running and job.status is None:
            for address in list(scheduler.workers):
                await scheduler.remove_worker(address, stimulus_id="rcylon-close", expected=True)
            await job.wait(_PATIENCE)

    async def _watch(self, mpi_launcher: launcher.Launcher) -> None:
        """Start a new world whenever the present one has ended."""
        while True:
            job = self._job
            assert job is not None
            while job.status is None and self._reason is None:
                await asyncio.sleep(_POLL)
            # A rank that leaves the cluster is mostly the first sign of a world that is ending.
            names = self._names()
            if not await job.wait(1.0):
                await job.end()
                cause = self._reason or ""
            else:
                cause = job.cause(names)
            settled = time.monotonic() - job.born > _SETTLED
            self._failures = 1 if settled else self._failures + 1
            if self._failures > _MOST_FAILURES:
                self._say(f"was lost, the last of {self._failures} in a row; giving up", cause)
                self.status = Status.failed
                return
            self._say(
                f"was lost. A new one is being started; Dask recomputes what was on its "
                f"{self._ranks} ranks",
                cause,
            )
            self._generation += 1
            try:
                await self._launch(mpi_launcher)
            except launcher.LaunchError as error:
                logger.warning("The new MPI world did not start: %s", error)

    def _names(self) -> dict[int, str]:
        workers = self._scheduler().workers.values()
        return {worker.pid: str(worker.name) for worker in workers}

    def _say(self, what: str, cause: str) -> None:
        message = f"MPI world {self.label} {what}. ({cause})"
        logger.warning(message)
        warnings.warn(message, RuntimeWarning, stacklevel=2)
