"""The pilot's part on the scheduler: it alone starts exchanges.

All orders of an exchange leave in one synchronous step, over streams that keep their order.  So any
two gangs that share ranks are told of their exchanges in the same order on every shared rank, and
no two can wait for each other.

A run is known here from the first put of a stage until its barrier task is released, which Dask
does when the last get is done, when the stage is cancelled or has failed, and when a rank's death
took its result away.
"""

from __future__ import annotations

import asyncio
import logging
import pickle
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from distributed import Scheduler
from distributed.diagnostics.plugin import SchedulerPlugin
from distributed.protocol.pickle import dumps
from distributed.protocol.serialize import ToPickle
from distributed.scheduler import KilledWorker, WorkerState

from dask_rcylon import config
from dask_rcylon.comm.mpi import RankInfo
from dask_rcylon.pilot import orders
from dask_rcylon.pilot.orders import ExchangeOrder
from dask_rcylon.pilot.spec import StageSpec
from dask_rcylon.pilot.worker_plugin import plugin_from_config
from dask_rcylon.pilot.world import PilotInfo, Roster

logger = logging.getLogger("dask_rcylon")


@dataclass(eq=False)
class _Run:
    """A run of a stage as the scheduler follows it."""

    stage: str
    number: int
    world: str
    spec: StageSpec
    dumped: bytes
    #: Owner of each bucket, once the exchange is done.
    owners: tuple[str, ...] = ()
    #: Members of the exchange by address.
    gang: dict[str, WorkerState] = field(default_factory=dict)
    waiting: set[int] = field(default_factory=set)
    done: asyncio.Future[bytes | None] | None = None


class PilotSchedulerPlugin(SchedulerPlugin):
    """Run stages on the ranks of this scheduler's workers.

    Attributes
    ----------
    on_world_lost : callable(label) or None
        Called when a world has lost a rank and with it, as worlds fail whole, all.
    """

    name = orders.PLUGIN_NAME
    idempotent = True

    def __init__(self) -> None:
        self.on_world_lost: Callable[[str], None] | None = None
        self._roster = Roster()
        self._runs: dict[str, _Run] = {}
        self._last_run = 0
        self._communicators: dict[tuple[str, tuple[int, ...]], int] = {}
        self._last_communicator = 0
        self._stages: Counter[str] = Counter()

    async def start(self, scheduler: Scheduler) -> None:
        """Listen to the workers, and make every worker a part of the pilot."""
        self._scheduler = scheduler
        scheduler.handlers.update(
            {
                orders.REQUEST_JOIN: self.join,
                orders.REQUEST_OPEN: self.open,
                orders.REQUEST_EXCHANGE: self.exchange,
                orders.REQUEST_LOCATE: self.locate,
            }
        )
        scheduler.stream_handlers[orders.REPORT_DONE] = self.report
        self._publish()
        await scheduler.register_worker_plugin(
            None, dumps(plugin_from_config()), name=orders.PLUGIN_NAME, idempotent=True
        )

    @property
    def info(self) -> PilotInfo:
        """The pilot as clients see it."""
        worlds = self._roster.worlds
        ranks = len(self._roster.members(worlds[0])) if worlds else 0
        return PilotInfo(
            ranks, worlds[0] if worlds else None, self._roster.reason, dict(self._stages)
        )

    def count(self, world: str) -> int:
        """Return how many ranks of a world have joined."""
        return len(self._roster.members(world))

    # Requests of workers

    def join(self, worker: str, info: RankInfo | None) -> None:
        """Enter a worker in the roster."""
        self._roster.join(worker, info)
        self._publish()

    def open(self, stage: str, worker: str) -> dict[str, Any] | None:
        """Return the run of a stage that a put on `worker` belongs to, starting one if need be.

        None if the stage is no longer wanted: it was cancelled, or another of its tasks has failed
        while this one was on its way. Nothing would end a run that began now.
        """
        run = self._runs.get(stage)
        if run is None:
            task = self._scheduler.tasks.get(orders.barrier_key(stage))
            world = self._roster.world_of(worker)
            if task is None or task.run_spec is None or task.state == "erred":
                return None
            if world is None:
                raise RuntimeError(f"worker {worker} is not an MPI rank of this cluster")
            spec = task.run_spec.spec  # type: ignore[union-attr]
            dumped = pickle.dumps(spec, protocol=pickle.HIGHEST_PROTOCOL)
            self._last_run += 1
            run = self._runs[stage] = _Run(stage, self._last_run, world, spec, dumped)
        return {"run": run.number, "spec": run.dumped}

    async def exchange(
        self,
        stage: str,
        run: int,
        holders: Sequence[tuple[int, int]],
        settled: bytes,
        worker: str,
    ) -> dict[str, Any]:
        """Run the exchange of a stage and pin its output tasks to the owners of their buckets."""
        active = self._runs.get(stage)
        members = self._roster.members(active.world) if active is not None else {}
        if (
            active is None
            or active.number != run
            or active.done is not None
            or any(rank not in members for rank, _ in holders)
        ):
            self._restart(stage)
            return {"restart": True, "error": None}
        order = self._order(active, dict(holders), members, settled)
        active.gang = {members[rank]: self._scheduler.workers[members[rank]] for rank in order.gang}
        active.waiting = set(order.gang)
        active.done = asyncio.get_running_loop().create_future()
        # No await between the sends: this is the one order in which all ranks see all exchanges.
        for rank in order.gang:
            self._scheduler.worker_send(
                members[rank], {"op": orders.ORDER_EXCHANGE, "order": ToPickle(order)}
            )
        error = await active.done
        if self._runs.get(stage) is not active:
            # Forgotten meanwhile: if the stage is still wanted, the barrier finds a new run.
            return {"restart": True, "error": None}
        if error is not None:
            # Members that saw no error keep a communicator that the others have abandoned.
            self._communicators.pop((active.world, order.gang), None)
            self._forget(stage)
            return {"restart": False, "error": error}
        active.owners = tuple(
            members[rank]
            for rank, low, high in zip(order.gang, order.bounds, order.bounds[1:], strict=False)
            for _ in range(low, high)
        )
        self._stages[active.spec.kind] += 1
        self._pin(active)
        self._publish()
        return {"restart": False, "error": None}

    def locate(self, stage: str, run: int, key: Any, worker: str) -> None:
        """Send a get to its bucket's owner, or start the stage again if the bucket is gone."""
        active = self._runs.get(stage)
        task = self._scheduler.tasks.get(key)
        if active is not None and active.number == run and active.owners and task is not None:
            owner = active.owners[self._bucket(active, key)]
            if owner != worker and owner in self._scheduler.workers:
                self._scheduler.set_restrictions({key: {owner}})
                return
        self._restart(stage)

    # Reports of workers

    def report(
        self, stage: str, run: int, rank: int, error: bytes | None, worker: str = ""
    ) -> None:
        """Take note that a rank has done its part of an exchange, or failed to."""
        active = self._runs.get(stage)
        if active is None or active.number != run or active.done is None or active.done.done():
            return
        active.waiting.discard(rank)
        if error is not None or not active.waiting:
            active.done.set_result(error)

    # Hooks of the scheduler

    def transition(
        self, key: Any, start: str, finish: str, *args: Any, stimulus_id: str, **kwargs: Any
    ) -> None:
        """Free what a stage holds when its barrier task is over."""
        if finish in ("released", "erred", "forgotten"):
            stage = orders.stage_of(key)
            if stage is not None and stage in self._runs:
                self._forget(stage)

    async def remove_worker(
        self, scheduler: Scheduler, worker: str, *, stimulus_id: str, **kwargs: Any
    ) -> None:
        """Give up a world that has lost a rank."""
        info = self._roster.leave(worker)
        if info is None:
            self._publish()
            return
        for run in [run for run in self._runs.values() if run.world == info.world]:
            if worker in run.gang and run.done is not None and not run.done.done():
                self._blame(run.stage, run.gang[worker], stimulus_id)
            if run.stage in self._runs:
                self._forget(run.stage)
        for gang in [gang for gang in self._communicators if gang[0] == info.world]:
            del self._communicators[gang]
        # mpiexec ends the other ranks, or will. Until then no task may be sent to them, and none
        # may be blamed for dying with them.
        survivors = list(self._roster.members(info.world).values())
        for survivor in survivors:
            self._roster.leave(survivor)
        self._publish()
        for survivor in survivors:
            await scheduler.remove_worker(survivor, stimulus_id=stimulus_id, expected=True)
        if self.on_world_lost is not None:
            self.on_world_lost(info.world)

    def restart(self, scheduler: Scheduler) -> None:
        """Forget all stages: the client asked for a clean slate."""
        for stage in list(self._runs):
            self._forget(stage)

    # Steps

    def _order(
        self, run: _Run, holders: dict[int, int], members: dict[int, str], settled: bytes
    ) -> ExchangeOrder:
        """Choose the gang and the owner of each bucket."""
        buckets = run.spec.npartitions
        # Owners are ranks that hold much of the input already; with fewer buckets than ranks the
        # others stay out of it.
        ranked = sorted(members, key=lambda rank: (-holders.get(rank, 0), rank))
        owners = set(ranked[: min(buckets, len(ranked))])
        gang = tuple(sorted(owners | set(holders)))
        bounds, owner = [0], 0
        for rank in gang:
            owner += rank in owners
            bounds.append(owner * buckets // len(owners))
        number = 0
        if len(gang) > 1:
            self._last_communicator += 1
            number = self._communicators.setdefault((run.world, gang), self._last_communicator)
            self._bound_communicators(run.world, gang, members)
        return ExchangeOrder(
            stage=run.stage,
            run=run.number,
            spec=run.dumped,
            communicator=number,
            gang=gang,
            bounds=tuple(bounds),
            settled=settled,
            message_bytes=config.message_bytes(),
            timeout=config.exchange_timeout(),
        )

    def _bound_communicators(
        self, world: str, newest: tuple[int, ...], members: dict[int, str], most: int = 128
    ) -> None:
        """Have the least recently used communicators freed: MPI has only so many."""
        self._communicators[world, newest] = self._communicators.pop((world, newest))
        while len(self._communicators) > most:
            (_, gang), number = next(iter(self._communicators.items()))
            del self._communicators[world, gang]
            for rank in gang:
                if rank in members:
                    self._scheduler.worker_send(
                        members[rank], {"op": orders.ORDER_FREE, "communicator": number}
                    )

    @staticmethod
    def _bucket(run: _Run, key: Any) -> int:
        """Return the bucket of a get task."""
        place = key[-1]
        return place if run.spec.parts_out is None else run.spec.parts_out[place]

    def _pin(self, run: _Run) -> None:
        barrier = self._scheduler.tasks.get(orders.barrier_key(run.stage))
        for task in barrier.dependents if barrier is not None else ():
            # A queued task would be placed by the scheduler's own lights.
            task._queueable = False
            owner = run.owners[self._bucket(run, task.key)]
            self._scheduler.set_restrictions({task.key: {owner}})

    def _unpin(self, stage: str) -> None:
        barrier = self._scheduler.tasks.get(orders.barrier_key(stage))
        for task in barrier.dependents if barrier is not None else ():
            self._scheduler.set_restrictions({task.key: None})

    def _forget(self, stage: str) -> None:
        """End a run here and on all ranks."""
        run = self._runs.pop(stage)
        if run.done is not None and not run.done.done():
            run.done.set_result(None)
        for worker in self._roster.members(run.world).values():
            if worker in self._scheduler.workers:
                self._scheduler.worker_send(
                    worker, {"op": orders.ORDER_FORGET, "stage": stage, "run": run.number}
                )
        if run.owners:
            self._unpin(stage)

    def _blame(self, stage: str, died: WorkerState, stimulus_id: str) -> None:
        """Count a rank's death in an exchange against the stage, as Dask does for a task's worker.

        Otherwise an exchange that kills a rank, having no memory for its rows, would be tried for
        ever: the barrier task itself, which waits on some worker, may survive each time.
        """
        task = self._scheduler.tasks.get(orders.barrier_key(stage))
        if task is None or task.state != "processing":
            return
        task.suspicious += 1
        allowed = self._scheduler.allowed_failures
        if task.suspicious > allowed:
            error = KilledWorker(task.key, died.clean(), allowed)
            recommendations = self._scheduler.transition(
                task.key,
                "erred",
                exception=pickle.dumps(error),
                cause=task.key,
                worker=died.address,
                stimulus_id=stimulus_id,
            )
            self._scheduler.transitions(recommendations, stimulus_id=stimulus_id)

    def _restart(self, stage: str) -> None:
        """Have Dask compute the stage again, from its input partitions on."""
        if stage in self._runs:
            self._forget(stage)
        barrier = self._scheduler.tasks.get(orders.barrier_key(stage))
        if barrier is None or any(task.state == "erred" for task in barrier.dependents):
            return
        stimulus = f"rcylon-restart-{stage}"
        logger.info("Stage %s starts again", stage)
        tasks = [*barrier.dependents, barrier, *barrier.dependencies]
        self._scheduler.transitions({task.key: "released" for task in tasks}, stimulus_id=stimulus)
        self._scheduler.stimulus_queue_slots_maybe_opened(stimulus_id=stimulus)

    def _publish(self) -> None:
        """Leave the state where clients can read it with ``Client.get_metadata``."""
        self._scheduler.task_metadata[orders.PLUGIN_NAME] = asdict(self.info)
