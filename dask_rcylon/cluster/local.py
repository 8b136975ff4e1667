"""A Dask cluster whose workers are the ranks of an MPI world on this machine.

The scheduler lives in this process, outside the world: when a rank dies, MPI takes the whole world
down, and the scheduler is what survives to have the work done again in a new one.
"""

from __future__ import annotations

import contextlib
import logging
import weakref
from typing import Any

from dask.system import CPU_COUNT
from distributed import Scheduler, Status
from distributed.deploy.cluster import Logs
from distributed.deploy.spec import SpecCluster
from distributed.deploy.utils import nprocesses_nthreads
from distributed.security import Security
from distributed.utils import Log
from distributed.worker_memory import parse_memory_limit

from dask_rcylon.cluster.world import MPIWorld
from dask_rcylon.pilot.scheduler_plugin import PilotSchedulerPlugin

logger = logging.getLogger("dask_rcylon")

#: More ranks than this per CPU are a slip of the keyboard.
_MOST_RANKS_PER_CPU = 64


class LocalMPICluster(SpecCluster):
    """Dask cluster on an MPI world of this machine, with `distributed.LocalCluster`'s manners.

    Parameters
    ----------
    n_workers : int, optional
        Workers, which is ranks. By default as many as `LocalCluster` would start.
    threads_per_worker : int, optional
        Task threads of each worker.
    memory_limit : str, int, float, default "auto"
        Memory of each worker, as for `distributed.Worker`.
    host : str, optional
        Where the scheduler listens; 127.0.0.1 by default.
    scheduler_port : int
        Its port, 0 for any.
    dashboard_address : str or None
        Where the dashboard listens; None for no dashboard.
    protocol : str, optional
        Protocol of the Dask messages, such as ``"tcp"``.
    interface : str, optional
        Network interface to listen on.
    security : Security, bool, optional
        TLS, as in `LocalCluster`.
    local_directory : str, optional
        Where workers keep their files.
    mpiexec : str, optional
        The MPI launcher; by default ``rcylon.mpiexec``, or the one beside Python, or the first on
        the ``PATH``.
    silence_logs : int
        Log level of the scheduler.
    asynchronous : bool
        Whether to be used with ``async``/``await``.
    name : str, optional
        Name of the cluster.
    loop : tornado.ioloop.IOLoop, optional
        Event loop.
    scheduler_kwargs : dict, optional
        More options of the scheduler.
    **worker_options
        More options of each `distributed.Worker` that can be written as JSON, such as
        ``resources={"GPU": 1}``.

    Raises
    ------
    ValueError
        If an option is out of range.
    RuntimeError
        If there is no MPI library, or ``mpiexec`` fails.

    Examples
    --------
    >>> from dask_rcylon import LocalMPICluster                   # doctest: +SKIP
    >>> from distributed import Client                            # doctest: +SKIP
    >>> with LocalMPICluster(n_workers=4) as cluster, Client(cluster) as client:  # doctest: +SKIP
    ...     df.merge(other, on="key").compute()
    """

    def __init__(
        self,
        n_workers: int | None = None,
        threads_per_worker: int | None = None,
        memory_limit: str | float | None = "auto",
        *,
        host: str | None = None,
        scheduler_port: int = 0,
        dashboard_address: str | None = ":8787",
        protocol: str | None = None,
        interface: str | None = None,
        security: Security | bool | None = None,
        local_directory: str | None = None,
        mpiexec: str | None = None,
        silence_logs: int | bool = logging.WARNING,
        asynchronous: bool = False,
        name: str | None = None,
        loop: Any = None,
        scheduler_kwargs: dict[str, Any] | None = None,
        **worker_options: Any,
    ) -> None:
        ranks, threads = _sizes(n_workers, threads_per_worker)
        tls: Security = security
        if not isinstance(security, Security):
            tls = Security.temporary() if security else Security()
        if protocol is None:
            protocol = "tls://" if tls.require_encryption else "tcp://"
        if host is None and interface is None:
            host = "127.0.0.1"
        if memory_limit == "auto":
            memory_limit = parse_memory_limit("auto", 1, ranks, logger=logger)
        plugin = PilotSchedulerPlugin()
        plugin.on_world_lost = self._on_world_lost
        this = weakref.ref(self)
        options = {
            "nthreads": threads,
            "memory_limit": memory_limit,
            "interface": interface,
            "protocol": protocol if protocol.endswith("://") else f"{protocol}://",
            "host": host,
            "dashboard": False,
            **worker_options,
        }
        super().__init__(
            name=name,
            scheduler={
                "cls": Scheduler,
                "options": {
                    "host": host,
                    "port": scheduler_port,
                    "interface": interface,
                    "protocol": options["protocol"],
                    "security": tls,
                    "dashboard": dashboard_address is not None,
                    "dashboard_address": dashboard_address,
                    "plugins": (plugin,),
                    **(scheduler_kwargs or {}),
                },
            },
            workers={
                "world": {
                    "cls": MPIWorld,
                    "options": {
                        "name": "world",
                        "scheduler": lambda: this().scheduler,  # type: ignore[union-attr]
                        "ranks": ranks,
                        "options": options,
                        "directory": local_directory,
                        "mpiexec": mpiexec,
                        "security": tls,
                    },
                }
            },
            asynchronous=asynchronous,
            loop=loop,
            silence_logs=silence_logs,
            security=tls,
        )

    @property
    def world(self) -> MPIWorld | None:
        """The MPI world, once it has been started."""
        return self.workers.get("world")  # type: ignore[no-any-return]

    def scale(self, n: int = 0, memory: Any = None, cores: Any = None) -> Any:
        """Refuse to change the size of the world: MPI fixes it when the world starts.

        Raises
        ------
        RuntimeError
            Unless the cluster is closing.
        """
        if self.status in (Status.closing, Status.closed, Status.failed):
            return super().scale(n)
        raise RuntimeError(
            "the size of an MPI world is fixed when it starts: make a new LocalMPICluster with "
            f"n_workers={n} instead"
        )

    def adapt(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse to change the size of the world; see `scale`."""
        raise RuntimeError(
            "the size of an MPI world is fixed when it starts: choose n_workers of LocalMPICluster"
        )

    async def _get_logs(
        self, cluster: bool = True, scheduler: bool = True, workers: Any = True
    ) -> Logs:
        logs = await super()._get_logs(cluster=cluster, scheduler=scheduler, workers=workers)
        if workers and self.world is not None:
            logs["MPI world"] = Log(self.world.output)
        return logs

    def _on_world_lost(self, label: str) -> None:
        """Have a new world started when the pilot has given this one up."""
        world = self.world
        if world is not None and world.label == label and self.status == Status.running:
            world.restart("a rank left the cluster")

    def __repr__(self) -> str:
        with contextlib.suppress(AttributeError):
            workers = self.scheduler_info["workers"].values()
            threads = sum(worker["nthreads"] for worker in workers)
            return (
                f"{type(self).__name__}({self.scheduler_address!r}, ranks={len(workers)}, "
                f"threads={threads})"
            )
        return f"<{type(self).__name__}: not started>"


def _sizes(n_workers: int | None, threads_per_worker: int | None) -> tuple[int, int]:
    """Check the numbers of ranks and threads and fill them in as `LocalCluster` does."""
    for name, value in (("n_workers", n_workers), ("threads_per_worker", threads_per_worker)):
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name} must be an int, got {value!r}")
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    most = _MOST_RANKS_PER_CPU * CPU_COUNT
    if n_workers is not None and n_workers > most:
        raise ValueError(
            f"n_workers={n_workers} is more than {_MOST_RANKS_PER_CPU} ranks for each of the "
            f"{CPU_COUNT} CPUs of this machine; at most {most} are allowed"
        )
    if n_workers is None:
        if threads_per_worker is None:
            return nprocesses_nthreads()  # type: ignore[no-any-return]
        return max(1, CPU_COUNT // threads_per_worker), threads_per_worker
    return n_workers, threads_per_worker or max(1, -(-CPU_COUNT // n_workers))
