"""Workers in the ranks themselves, where dask-mpi has put nannies.

By default dask-mpi starts a nanny in each rank; its worker is a child process, which is no rank and
can't become one.  But the nanny's own process is one.  So the child is ended, and a worker like it
started beside the idle nanny.
"""

from __future__ import annotations

import asyncio
import os

from distributed import Client, Nanny, Worker

from dask_rcylon.comm import mpi

#: What keeps two servers together until both have ended.
_bonds: set[asyncio.Task[None]] = set()


def replace(client: Client) -> bool:
    """Have each worker whose nanny is an MPI rank replaced by one in the nanny's process.

    Parameters
    ----------
    client : Client
        Synchronous client of the cluster.

    Returns
    -------
    bool
        Whether that was done. Nothing is done unless each nanny is a rank of its own, nor if the
        workers hold results or have tasks, which would be lost.
    """
    if client.asynchronous:
        return False
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    if not workers or not all(worker["nanny"] for worker in workers):
        return False
    if client.who_has() or any(client.processing().values()):
        return False
    places = list(client.run(_place, nanny=True).values())
    ranks = {rank for rank, _ in places}
    # A LocalCluster in a process that happens to be a rank is not meant.
    if None in ranks or len(ranks) < len(places) or os.getpid() in {pid for _, pid in places}:
        return False
    client.run(_replace, nanny=True)
    return True


def _place() -> tuple[mpi.RankInfo | None, int]:
    """Return the MPI rank and the process id of a nanny."""
    return mpi.rank_info(), os.getpid()


async def _replace(dask_worker: Nanny) -> None:
    """Start a worker in this nanny's process in place of the one in a process of its own."""
    nanny = dask_worker
    if nanny.process is not None:
        # The nanny shall not start it again.
        nanny.process.on_exit = None
        await nanny.kill(reason="rcylon-replace")
    worker = await Worker(
        scheduler_ip=nanny.scheduler_addr,
        # The scheduler may not yet have missed the one that has the name.
        name=f"{nanny.name}-rank",
        nthreads=nanny.nthreads,
        memory_limit=nanny.memory_manager.memory_limit,
        local_directory=nanny._original_local_dir,
        resources=nanny.resources,
        death_timeout=nanny.death_timeout,
        preload=nanny.preload,
        preload_argv=nanny.preload_argv,
        security=nanny.security,
        contact_address=nanny.contact_address,
        **nanny.worker_kwargs,
    )
    bond = asyncio.create_task(_end_together(worker, nanny))
    _bonds.add(bond)
    bond.add_done_callback(_bonds.discard)


async def _end_together(worker: Worker, nanny: Nanny) -> None:
    """Close each when the other has ended: dask-mpi waits for the nanny."""
    ends = [asyncio.ensure_future(server.finished()) for server in (worker, nanny)]
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for end in ends:
            end.cancel()
        await worker.close(nanny=False)
        await nanny.close(reason="rcylon-worker-ended")
