"""A world as a process of a Dask cluster: one ``mpiexec`` job, started again when it dies.

A world fails whole, so there is nothing to repair: what is left of it is ended, and another is
started under a new label, its workers under new names.  Dask recomputes what was lost with the old
one.  A task that kills its rank is not this class's business, as Dask gives such a task up after a
few deaths; but worlds that do not start, or die one after another soon and without having finished
a task, are given up here.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sys
import tempfile
import time
import uuid
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
from distributed import Scheduler, Status
from distributed.deploy.spec import ProcessInterface
from distributed.security import Security

from dask_rcylon import config
from dask_rcylon.cluster.inheritance import inherited
from dask_rcylon.cluster.job import Job
from dask_rcylon.cluster.rank import SIZE_VARIABLE
from dask_rcylon.cluster.refusal import refuse
from dask_rcylon.comm import launcher
from dask_rcylon.pilot.scheduler_plugin import PilotSchedulerPlugin

logger = logging.getLogger("dask_rcylon")

#: Worlds in a row that may fail without having finished a task or having lived this long, in
#: seconds.
_MOST_FAILURES = 4
_SETTLED = 30.0
_POLL = 0.05
#: Seconds for ``mpiexec`` to find out by itself, and say why, that a rank is gone.
_PATIENCE = 1.0
#: Seconds for the workers to close, each tidying up, before they are ended.
_FAREWELL = 2.0


class MPIWorld(ProcessInterface):
    """The ranks of a `LocalMPICluster`.

    Parameters
    ----------
    address : str
        The scheduler's.
    name : str
        Prefix of the workers' names: the first world's are ``name-0-0``, ``name-0-1``, ....
    scheduler : callable() -> Scheduler
        The scheduler itself, to see when ranks have joined.
    ranks : int
        Size of the world.
    options : dict
        Options of each rank's worker.
    mpiexec : str or None
        The launcher to use.
    directory : str or None
        Where the workers may keep files; they get a folder of their own in it.
    security : Security
        TLS of the cluster.
    on_launch : callable(list of str)
        Called with the names that the workers of a world will have.
    on_failure : callable()
        Called when no further world will be started.

    Notes
    -----
    Not thread-safe: for the cluster's event loop.
    """

    def __init__(
        self,
        address: str,
        *,
        name: str,
        scheduler: Callable[[], Scheduler],
        ranks: int,
        options: dict[str, Any],
        mpiexec: str | None,
        directory: str | None,
        security: Security,
        on_launch: Callable[[list[str]], None],
        on_failure: Callable[[], None],
    ) -> None:
        super().__init__(scheduler=address, name=name)
        self._scheduler_address = address
        self._name = name
        self._scheduler = scheduler
        self._ranks = ranks
        self._options = options
        self._mpiexec = mpiexec
        self._security = security
        self._parent = directory or dask.config.get("temporary-directory", None)
        self._on_launch = on_launch
        self._on_failure = on_failure
        self._job: Job | None = None
        self._names: dict[int, str] = {}
        self._monitor: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._generation = 0
        self._failures = 0
        self._finished = 0
        self._reason: str | None = None
        self._past: deque[str] = deque(maxlen=_MOST_FAILURES)
        #: Label of the world that lives at the moment.
        self.label: str | None = None

    async def start(self) -> None:
        """Start the world and wait until all its ranks have joined.

        Raises
        ------
        RuntimeError
            If there is no MPI library, or ``mpiexec`` fails; with the command line and its output.
        """
        await self._launch()
        self._monitor = asyncio.create_task(self._watch())
        await super().start()

    async def close(self) -> None:
        """End the world."""
        for task in (self._monitor, self._ending):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        self.status = Status.closing
        await self._dismiss()
        if self._job is not None:
            await self._job.end()
            self._bury()
        await super().close()

    def restart(self, reason: str) -> None:
        """Have another world started in place of this one, which is no longer whole.

        Parameters
        ----------
        reason : str
            For the message to the user.
        """
        ending = self._ending is not None and not self._ending.done()
        if ending or self._job is None or self._job.status is not None:
            return
        self._reason = reason
        self._ending = asyncio.create_task(self._end(self._job))

    @property
    def output(self) -> str:
        """What the ranks of this world and of some before have written to stdout and stderr."""
        return "".join([*self._past, self._job.output if self._job is not None else ""])

    async def _launch(self) -> None:
        """Start a world and wait until all its ranks have joined."""
        prefix = f"{self._name}-{self._generation}"
        self.label = f"{prefix}-{uuid.uuid4().hex[:8]}"
        self._finished = self._count_finished()
        self._on_launch([f"{prefix}-{rank}" for rank in range(self._ranks)])
        chosen = await asyncio.to_thread(launcher.find, self._mpiexec)
        self._check_wanted()
        if self._parent is not None:
            Path(self._parent).mkdir(parents=True, exist_ok=True)
        directory = tempfile.mkdtemp(prefix="dask-rcylon-", dir=self._parent)
        program = [
            *(sys.executable, "-m", "dask_mpi.cli", self._scheduler_address, "--no-scheduler"),
            *("--worker-class", "dask_rcylon.cluster.rank.RankWorker", "--name", prefix),
            *("--worker-options", json.dumps({**self._options, "local_directory": directory})),
        ]
        environ = chosen.environment(
            self.label,
            directory,
            **{SIZE_VARIABLE: str(self._ranks)},
            **inherited(self._security),
        )
        try:
            job = self._job = Job(chosen.command(self._ranks, program), environ, directory)
        except OSError:
            Path(directory).rmdir()
            raise
        try:
            await self._wait_for_ranks(job, f"{prefix}-")
        except BaseException:
            await job.end()
            raise

    async def _wait_for_ranks(self, job: Job, prefix: str) -> None:
        timeout = config.start_timeout()
        plugin = self._scheduler().plugins[PilotSchedulerPlugin.name]
        assert isinstance(plugin, PilotSchedulerPlugin)
        assert self.label is not None
        while True:
            self._check_wanted()
            workers = [
                worker
                for worker in self._scheduler().workers.values()
                if str(worker.name).startswith(prefix)
            ]
            if len(workers) == plugin.count(self.label) == self._ranks:
                self._names = {worker.pid: str(worker.name) for worker in workers}
                job.joined(self._names)
                return
            if job.status is not None:
                raise launcher.LaunchError(
                    f"mpiexec ended with status {job.status} before its {self._ranks} ranks had "
                    f"joined.\n{job.description()}"
                )
            if time.monotonic() - job.born > timeout:
                raise launcher.LaunchError(
                    f"{len(workers)} of {self._ranks} ranks joined within {timeout:g} s "
                    f"(rcylon.start-timeout).\n{job.description()}"
                )
            await asyncio.sleep(_POLL)

    async def _watch(self) -> None:
        """Start a new world whenever the present one has ended."""
        while True:
            assert self._job is not None
            while self._job.status is None:
                await asyncio.sleep(_POLL)
            if self._ending is not None:
                await self._ending
                self._ending = None
            if self._scheduler().status != Status.running:
                return
            if time.monotonic() - self._job.born > _SETTLED:
                self._failures = 0
            cause = self._reason or self._job.cause(self._names)
            await self._job.end()
            if not await self._renew(cause):
                return

    async def _renew(self, cause: str) -> bool:
        """Start another world, trying several times; return whether that was possible."""
        while True:
            # A world that seemed not to start may have finished one, too, before it was seen.
            if self._count_finished() != self._finished:
                self._failures = 0
            self._failures += 1
            if self._failures > _MOST_FAILURES:
                self._give_up(cause)
                return False
            logger.warning(
                "MPI world %s was lost: %s\nAnother one is being started on %d ranks; Dask "
                "recomputes what was lost.",
                self.label,
                cause,
                self._ranks,
            )
            self._bury()
            self._reason = None
            self._generation += 1
            # The first at once, the others not too fast.
            await asyncio.sleep(self._failures - 1)
            try:
                await self._launch()
            except (launcher.LaunchError, OSError) as error:
                cause = str(error)
            else:
                return True

    def _give_up(self, cause: str) -> None:
        """Start no more worlds, and let what waits for one fail instead of waiting for ever."""
        message = (
            f"{self._failures} MPI worlds in a row were lost before they had finished a task; "
            f"LocalMPICluster starts no more. The last one: {cause}"
        )
        logger.error(message)
        self.status = Status.failed
        refuse(self._scheduler(), message)
        self._on_failure()

    def _check_wanted(self) -> None:
        """Stop a start that was overtaken by `close`."""
        if self.status not in (Status.created, Status.running):
            raise asyncio.CancelledError

    def _bury(self) -> None:
        """Keep the output of a job that has ended, and nothing else of it."""
        if self._job is not None:
            self._past.append(self._job.close())
            self._job = None

    def _count_finished(self) -> int:
        """Return how many tasks the scheduler has seen finish."""
        prefixes = self._scheduler().task_prefixes.values()
        return sum(prefix.state_counts["memory"] for prefix in prefixes)

    async def _end(self, job: Job) -> None:
        """End a job that may be about to end by itself."""
        if not await job.wait(_PATIENCE):
            await job.end()
        elif job.status:
            # It knows better why.
            self._reason = None

    async def _dismiss(self) -> None:
        """Ask the ranks to end by themselves, so that each tidies up."""
        scheduler = self._scheduler()
        if scheduler.status != Status.running or self._job is None or self._job.status is not None:
            return
        for address in list(scheduler.workers):
            await scheduler.remove_worker(address, stimulus_id="rcylon-close", expected=True)
        await self._job.wait(_FAREWELL)
