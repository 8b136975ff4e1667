"""The drop-in scheduler: ``dask.config.set(scheduler="rcylon")``.

Dask looks a scheduler's name up and calls what it finds.  It finds an object: called, it computes;
asked to persist, it leaves the results on its cluster.  It starts that cluster when it is first
used, once per process, unless the process has a client whose cluster has a pilot already.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import threading
from collections.abc import Sequence
from typing import Any

from distributed import Client, Status, get_client, get_worker

from dask_rcylon import config
from dask_rcylon.cluster import LocalMPICluster
from dask_rcylon.pilot.attach import pilot_of
from dask_rcylon.pilot.world import PilotInfo
from dask_rcylon.routing import hooks
from dask_rcylon.routing.target import SCHEDULER_NAME

logger = logging.getLogger("dask_rcylon")


class RcylonScheduler:
    """Scheduler object for ``scheduler="rcylon"``.

    Thread-safe. A forked child does not share its parent's cluster: it starts its own.
    """

    def __init__(self) -> None:
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._cluster: LocalMPICluster | None = None
        self._client: Client | None = None

    def __call__(self, expr: Any, keys: Any, **kwargs: Any) -> Any:
        """Compute the keys of an expression or graph."""
        return self.client().get(expr, keys, **kwargs)

    def persist(
        self, collections: Sequence[Any], optimize_graph: bool = True, **kwargs: Any
    ) -> Any:
        """Compute collections and leave their partitions on the cluster."""
        return self.client().persist(collections, optimize_graph=optimize_graph, **kwargs)

    def compute(self, collections: Any, **kwargs: Any) -> Any:
        """Return futures of collections."""
        return self.client().compute(collections, **kwargs)

    def client(self) -> Client:
        """Return the client to use, starting the embedded cluster if there is none.

        Raises
        ------
        RuntimeError
            If there is no MPI library, or ``mpiexec`` fails.
        ValueError
            If a ``rcylon.`` option is out of range.
        """
        current = _current()
        if current is not None:
            return current
        with self._lock:
            if self._ended():
                self._end()
                self._start()
            assert self._client is not None
            return self._client

    def pilot(self) -> PilotInfo | None:
        """Return the pilot that will be used, without starting one."""
        current = _current()
        if current is None and not self._ended():
            current = self._client
        if current is not None:
            return pilot_of(current)
        return PilotInfo(ranks=config.ranks(), world=None, reason=None)

    def shutdown(self) -> None:
        """End the embedded cluster; the next use starts another."""
        with self._lock:
            self._end()

    def _ended(self) -> bool:
        """Tell whether the embedded cluster is of no use, or was never started."""
        client, cluster = self._client, self._cluster
        return (
            client is None
            or cluster is None
            or client.status != "running"
            or cluster.status != Status.running
        )

    def _start(self) -> None:
        self._cluster = LocalMPICluster(
            n_workers=config.ranks(),
            threads_per_worker=config.threads_per_rank(),
            memory_limit=config.memory_limit(),
            dashboard_address=config.dashboard_address(),
        )
        try:
            # Not the default client: without the configuration everything is as before.
            self._client = Client(self._cluster, set_as_default=False)
        except BaseException:
            self._end()
            raise
        atexit.unregister(self.shutdown)
        atexit.register(self.shutdown)
        logger.info("Started %r, dashboard at %s", self._cluster, self._cluster.dashboard_link)

    def _end(self) -> None:
        client, cluster = self._client, self._cluster
        self._client = self._cluster = None
        if client is not None:
            client.close()
        if cluster is not None:
            cluster.close()


def _current() -> Client | None:
    """Return the client that the process has already, if it is to be used."""
    with contextlib.suppress(ValueError):
        get_worker()
        # In a task: a rank never starts ranks of its own.
        return get_client()
    with contextlib.suppress(ValueError):
        current = Client.current(allow_global=True)
        if pilot_of(current) is not None:
            return current
    return None


scheduler = RcylonScheduler()


def register() -> None:
    """Make ``scheduler="rcylon"`` known to Dask and put the hooks in."""
    hooks.schedulers[SCHEDULER_NAME] = scheduler
    hooks.install()
