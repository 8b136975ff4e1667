"""The pilot's part on a rank.

Task threads put fragments in and get buckets out; the event loop takes the scheduler's orders; the
MPI thread carries them out.  The three meet in `StageRun`, which locks.
"""

from __future__ import annotations

import logging
import pickle
import threading
from typing import Any

from distributed import Reschedule, Worker
from distributed.diagnostics.plugin import WorkerPlugin
from distributed.protocol.serialize import ToPickle
from distributed.utils import sync
from distributed.worker import get_worker

from dask_rcylon import config
from dask_rcylon.comm import mpi
from dask_rcylon.comm.communicators import Communicators
from dask_rcylon.comm.exchange import Exchange, LocalExchange, MPIExchange
from dask_rcylon.comm.thread import MPIThread
from dask_rcylon.kernels.warmup import warm_up
from dask_rcylon.pilot import orders
from dask_rcylon.pilot.orders import ExchangeOrder
from dask_rcylon.pilot.run import RunClosed, StageRun
from dask_rcylon.pilot.spec import StageSpec
from dask_rcylon.pilot.store import Store, give_back

logger = logging.getLogger("dask_rcylon")

#: A rank without a stage for this long gives the memory back that it keeps for the next.
_IDLE_SECONDS = 30.0


class PilotWorkerPlugin(WorkerPlugin):
    """Make a Dask worker that is an MPI rank take part in stages.

    On a worker that is no rank it does nothing but tell the scheduler so.

    Parameters
    ----------
    store_share : float
        Share of the worker's memory limit that fragments and buckets may hold in memory.
    warm : bool
        Whether to compile or load the kernels in the background at once.
    """

    name = orders.PLUGIN_NAME
    idempotent = True

    def __init__(self, store_share: float = 0.5, warm: bool = True) -> None:
        self._store_share = store_share
        self._warm = warm

    async def setup(self, worker: Worker) -> None:
        """Tell the scheduler what this worker is, and listen for its orders."""
        self._prepare(worker)
        info = mpi.rank_info()
        if info is not None and not mpi.supports_threads():
            info = None
        if info is not None:
            limit = worker.memory_manager.memory_limit
            self._store = Store(
                int(limit * self._store_share) if limit else None, worker.local_directory
            )
            self._communicators = Communicators()
            self._mpi = MPIThread()
            worker.stream_handlers[orders.ORDER_EXCHANGE] = self._on_exchange
            worker.stream_handlers[orders.ORDER_FORGET] = self._on_forget
            worker.stream_handlers[orders.ORDER_FREE] = self._on_free
        self._info = info
        await getattr(worker.scheduler, orders.REQUEST_JOIN)(
            worker=worker.address, info=ToPickle(info)
        )
        if info is not None and self._warm:
            threading.Thread(target=warm_up, name="rcylon-warm-up", daemon=True).start()

    def _prepare(self, worker: Worker) -> None:
        """Set up what can't be sent along with the plugin."""
        self._worker = worker
        self._runs: dict[str, StageRun] = {}
        self._opening = threading.Lock()
        self._forgotten: dict[str, int] = {}
        self._idle: object | None = None

    def teardown(self, worker: Worker) -> None:
        """Give up what is in progress."""
        for run in self._runs.values():
            run.close()
        self._runs.clear()
        if self._info is not None:
            self._mpi.close()

    def run(self, stage: str) -> StageRun:
        """Return this rank's run of a stage, asking the scheduler at first use.

        Raises
        ------
        RunClosed
            If the stage is no longer wanted.

        Notes
        -----
        For task threads: waits for the scheduler's answer.
        """
        with self._opening:
            run = self._runs.get(stage)
            return sync(self._worker.loop, self._open, stage) if run is None else run

    def locate(self, stage: str, run: int, key: Any) -> None:
        """Have the scheduler send a get to where its bucket is, or restart the stage.

        Raises
        ------
        Reschedule
            Always: the task runs again later, here or elsewhere.
        """
        self._ask(orders.REQUEST_LOCATE, stage=stage, run=run, key=key)
        raise Reschedule

    def active(self, stage: str, number: int) -> StageRun | None:
        """Return the run with this number if it is the one this rank has."""
        run = self._runs.get(stage)
        return run if run is not None and run.number == number else None

    def exchange(self, stage: str, run: int, holders: dict[int, int], settled: Any) -> None:
        """Ask the scheduler for the exchange of a stage and wait until it is done.

        Parameters
        ----------
        stage, run : str, int
            The run.
        holders : dict
            Rows held by each rank that has a fragment.
        settled : Any
            What the spec settled.
        """
        answer = self._ask(
            orders.REQUEST_EXCHANGE,
            stage=stage,
            run=run,
            holders=list(holders.items()),
            settled=pickle.dumps(settled, protocol=pickle.HIGHEST_PROTOCOL),
        )
        if answer["restart"]:
            raise Reschedule
        if answer["error"] is not None:
            raise pickle.loads(answer["error"])

    def _ask(self, request: str, **kwargs: Any) -> Any:
        worker = self._worker
        handler = getattr(worker.scheduler, request)
        return sync(worker.loop, handler, worker=worker.address, **kwargs)

    async def _open(self, stage: str) -> StageRun:
        # The order to forget the run comes by another way than the answer, and may be faster.
        self._forgotten[stage] = 0
        try:
            worker = self._worker
            answer = await getattr(worker.scheduler, orders.REQUEST_OPEN)(
                worker=worker.address, stage=stage
            )
        finally:
            over = self._forgotten.pop(stage)
        if answer is None or answer["run"] <= over:
            raise RunClosed(f"stage {stage} is no longer wanted")
        run = self._runs.get(stage)
        if run is None or run.number < answer["run"]:
            run = self._make_run(stage, answer["run"], answer["spec"])
        return run

    def _make_run(self, stage: str, number: int, spec: bytes) -> StageRun:
        assert self._info is not None
        stage_spec: StageSpec = pickle.loads(spec)
        run = StageRun(stage_spec, number, self._info.rank, self._store)
        old = self._runs.get(stage)
        if old is not None:
            old.close()
        self._runs[stage] = run
        return run

    def _on_exchange(self, order: ExchangeOrder) -> None:
        run = self._runs.get(order.stage)
        if run is None or run.number < order.run:
            run = self._make_run(order.stage, order.run, order.spec)
        future = self._mpi.submit(lambda run=run: self._exchange(run, order))  # type: ignore[misc]
        loop = self._worker.loop
        future.add_done_callback(lambda done: loop.add_callback(self._report, order, done))

    def _exchange(self, run: StageRun, order: ExchangeOrder) -> None:
        exchange: Exchange = LocalExchange()
        if len(order.gang) > 1:
            exchange = MPIExchange(
                self._communicators.get(order.communicator, order.gang),
                order.message_bytes,
                order.timeout,
                run.cancelled,
            )
        try:
            if run.number != order.run:
                raise RunClosed(
                    f"run {order.run} of stage {order.stage} was superseded by {run.number}"
                )
            run.exchange(exchange, order.bounds, pickle.loads(order.settled))
        except BaseException:
            # Peers may still write to it: the scheduler gives the next run a new one.
            self._communicators.abandon(order.communicator)
            raise

    def _report(self, order: ExchangeOrder, done: Any) -> None:
        error = done.exception()
        if error is not None:
            logger.warning("Exchange of stage %s failed on this rank", order.stage, exc_info=error)
        assert self._info is not None
        self._worker.batched_send(
            {
                "op": orders.REPORT_DONE,
                "stage": order.stage,
                "run": order.run,
                "rank": self._info.rank,
                "error": None if error is None else dump_error(error, self._info.rank),
            }
        )

    def _on_forget(self, stage: str, run: int) -> None:
        if stage in self._forgotten:
            self._forgotten[stage] = max(run, self._forgotten[stage])
        held = self._runs.get(stage)
        if held is not None and held.number <= run:
            held.close()
            del self._runs[stage]
        loop = self._worker.loop
        if self._idle is not None:
            loop.remove_timeout(self._idle)
        self._idle = loop.call_later(_IDLE_SECONDS, self._give_back)

    def _give_back(self) -> None:
        self._idle = None
        if not self._runs:
            give_back()

    def _on_free(self, communicator: int) -> None:
        self._mpi.submit(lambda: self._communicators.free(communicator))


def dump_error(error: BaseException, rank: int) -> bytes:
    """Pickle an error for the task that waits for it, saying where it happened."""
    error.add_note(f"(on MPI rank {rank}, during the exchange of a stage)")
    try:
        dumped = pickle.dumps(error)
        pickle.loads(dumped)
    except Exception:
        return pickle.dumps(RuntimeError(f"on MPI rank {rank}: {error!r}"))
    return dumped


def current_pilot() -> PilotWorkerPlugin:
    """Return the plugin of the worker that runs this task.

    Raises
    ------
    RuntimeError
        If the worker has none, or is not an MPI rank.
    """
    worker = get_worker()
    plugin = worker.plugins.get(orders.PLUGIN_NAME)
    if not isinstance(plugin, PilotWorkerPlugin) or plugin._info is None:
        raise RuntimeError(
            f"a dask-rcylon stage was sent to worker {worker.address}, which is not an MPI rank of "
            "an enabled cluster; call dask_rcylon.enable(client) for the client that computes it"
        )
    return plugin


def plugin_from_config() -> PilotWorkerPlugin:
    """Make the worker plugin as the configuration says."""
    return PilotWorkerPlugin(store_share=config.store_share(), warm=config.warm_up())
