"""A Dask cluster whose workers are the ranks of an MPI world on this machine.

The scheduler lives in this process, outside the world: when a rank dies, MPI takes the whole world
down, and the scheduler is what survives to have the work done again in a new one.
"""

from __future__ import annotations

import logging
import weakref
from html import escape
from typing import Any

from distributed import Scheduler, Status
from distributed.deploy.cluster import Logs
from distributed.deploy.spec import SpecCluster
from distributed.security import Security
from distributed.utils import Log

from dask_rcylon import config
from dask_rcylon.cluster import options
from dask_rcylon.cluster.world import MPIWorld
from dask_rcylon.pilot.scheduler_plugin import PilotSchedulerPlugin

#: Name of the one entry among the cluster's "workers", and so the first part of theirs.
_WORLD = "world"


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
    worker_dashboard_address : str or None
        Where each worker's own dashboard listens, such as ``":0"``; None for none.
    protocol : str, optional
        Protocol of the Dask messages, such as ``"tcp"``.
    interface : str, optional
        Network interface to listen on.
    security : Security, bool, optional
        TLS, as in `LocalCluster`.
    local_directory : str, optional
        Where workers keep their files.
    mpiexec : str, optional
        The launcher to use; by default what ``rcylon.mpiexec`` names, or the one that belongs to
        this Python, or the first on the ``PATH``.
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
    scheduler_sync_interval : str or float
        How often the cluster's description is brought up to date.
    **worker_options
        More options of each `distributed.Worker` that can be written as JSON, such as
        ``resources={"GPU": 1}``.

    Raises
    ------
    ValueError
        If an option is out of range.
    TypeError
        If there is no such option.
    RuntimeError
        If there is no MPI library, or ``mpiexec`` fails.

    Examples
    --------
    >>> from dask_rcylon import LocalMPICluster                   # doctest: +SKIP
    >>> from distributed import Client                            # doctest: +SKIP
    >>> with LocalMPICluster(n_workers=4) as cluster, Client(cluster) as client:  # doctest: +SKIP
    ...     df.merge(other, on="key").compute()
    """

    status: Status

    def __init__(
        self,
        n_workers: int | None = None,
        threads_per_worker: int | None = None,
        memory_limit: str | float | None = "auto",
        *,
        host: str | None = None,
        scheduler_port: int = 0,
        dashboard_address: str | None = ":8787",
        worker_dashboard_address: str | None = None,
        protocol: str | None = None,
        interface: str | None = None,
        security: Security | bool | None = None,
        local_directory: str | None = None,
        mpiexec: str | None = None,
        silence_logs: int | bool | None = logging.WARNING,
        asynchronous: bool = False,
        name: str | None = None,
        loop: Any = None,
        scheduler_kwargs: dict[str, Any] | None = None,
        scheduler_sync_interval: str | float = 1,
        **worker_options: Any,
    ) -> None:
        config.check()
        ranks, threads = options.sizes(n_workers, threads_per_worker)
        tls = options.security(security)
        if protocol is None:
            protocol = "tls" if tls.require_encryption else "tcp"
            if host is not None and "://" in host:
                protocol = host.partition("://")[0]
        if host is None and interface is None:
            host = "127.0.0.1"
        # What scheduler and workers have in common.
        server = {
            "host": host,
            "interface": interface,
            "protocol": f"{protocol.removesuffix('://')}://",
        }
        worker = {
            **options.worker_options(worker_options),
            **server,
            "nthreads": threads,
            "memory_limit": options.memory_limit(memory_limit, ranks, threads),
            "dashboard": worker_dashboard_address is not None,
            "dashboard_address": worker_dashboard_address,
        }
        self._has_dashboard = dashboard_address is not None
        plugin = PilotSchedulerPlugin()
        plugin.on_world_lost = self._on_world_lost
        this = weakref.ref(self)
        super().__init__(
            name=name,
            scheduler={
                "cls": Scheduler,
                "options": {
                    **server,
                    "port": scheduler_port,
                    "security": tls,
                    "dashboard": dashboard_address is not None,
                    # Without a dashboard there still is a server, for health checks and metrics.
                    "dashboard_address": dashboard_address or f"{host or ''}:0",
                    "plugins": (plugin,),
                    **(scheduler_kwargs or {}),
                },
            },
            workers={
                _WORLD: {
                    "cls": MPIWorld,
                    "options": {
                        "name": _WORLD,
                        "scheduler": lambda: this().scheduler,  # type: ignore[union-attr]
                        "ranks": ranks,
                        "options": worker,
                        "mpiexec": mpiexec,
                        "directory": local_directory,
                        "security": tls,
                        "on_launch": lambda names: this()._expect(names),  # type: ignore[union-attr]
                        "on_failure": lambda: this()._fail(),  # type: ignore[union-attr]
                    },
                    "group": [f"-0-{rank}" for rank in range(ranks)],
                }
            },
            asynchronous=asynchronous,
            loop=loop,
            silence_logs=silence_logs,
            security=tls,
            scheduler_sync_interval=scheduler_sync_interval,
        )

    @property
    def world(self) -> MPIWorld | None:
        """The ranks, once they have been started."""
        return self.workers.get(_WORLD)  # type: ignore[no-any-return]

    @property
    def dashboard_link(self) -> str:
        """Address of the dashboard; empty without one."""
        return super().dashboard_link if self._has_dashboard else ""  # type: ignore[no-any-return]

    def restart_world(self, reason: str = "restart_world() was called") -> None:
        """Have the ranks ended and others started in their place; Dask recomputes what is lost.

        Parameters
        ----------
        reason : str
            For the warning that says so.

        Notes
        -----
        Can be called from any thread.  Returns at once.
        """
        self.loop.add_callback(self._restart_world, reason)

    def scale(self, n: int = 0, memory: Any = None, cores: Any = None) -> Any:
        """Refuse to change the size of the world: MPI fixes it when the world starts.

        Raises
        ------
        RuntimeError
            Unless the cluster is closing.
        """
        if self.status in (Status.closing, Status.closed):
            return super().scale(n)
        raise RuntimeError(
            "the size of an MPI world is fixed when it starts: make a new LocalMPICluster with "
            f"n_workers={n} instead"
        )

    def adapt(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse to change the size of the world; see `scale`.

        Raises
        ------
        RuntimeError
            Always.
        """
        raise RuntimeError(
            "the size of an MPI world is fixed when it starts: choose n_workers of LocalMPICluster"
        )

    async def _close(self) -> None:
        # A start that was given up, by a cancelled await or Ctrl-C, may still go on.
        for world in list(self._created):
            if world.status == Status.created and world not in self.workers.values():
                await world.close()
        await super()._close()

    def _update_worker_status(self, op: str, msg: Any) -> None:
        if op == "remove" and msg not in self.scheduler_info["workers"]:
            # It left before its arrival was known here. SpecCluster would stumble, and see no
            # later event.
            return
        super()._update_worker_status(op, msg)

    async def _get_logs(
        self, cluster: bool = True, scheduler: bool = True, workers: Any = True
    ) -> Logs:
        logs = await super()._get_logs(cluster=cluster, scheduler=scheduler, workers=workers)
        if workers and self.world is not None:
            logs["MPI world"] = Log(self.world.output)
        return logs

    def _on_world_lost(self, label: str) -> None:
        """Have a new world started when the pilot has given this one up."""
        if self.world is not None and self.world.label == label:
            self._restart_world("a worker left the cluster, and no rank can be replaced alone")

    def _restart_world(self, reason: str) -> None:
        if self.world is not None and self.status == Status.running:
            self.world.restart(reason)

    def _expect(self, names: list[str]) -> None:
        """Take note of the names of the workers to come."""
        if _WORLD in self.worker_spec:
            self.worker_spec[_WORLD]["group"] = [name.removeprefix(_WORLD) for name in names]

    def _fail(self) -> None:
        if self.status == Status.running:
            self.status = Status.failed

    def __repr__(self) -> str:
        workers = self.scheduler_info["workers"].values()
        threads = sum(worker["nthreads"] for worker in workers)
        return (
            f"{type(self).__name__}({self.name}, {self.scheduler_address!r}, "
            f"ranks={len(workers)}, threads={threads})"
        )

    def _repr_html_(self, cluster_status: str | None = None) -> str:
        label = self.world.label if self.world is not None else None
        row = (
            f'<tr><td style="text-align: left;"><strong>Status:</strong> {self.status.name}</td>'
            '<td style="text-align: left;"><strong>MPI world:</strong> '
            f"{escape(label or 'none')}</td></tr>{cluster_status or ''}"
        )
        return super()._repr_html_(cluster_status=row)  # type: ignore[no-any-return]
