"""``mpiexec -n 8 python script.py``: one MPI job that is scheduler, script and workers."""

from __future__ import annotations

from typing import Any

import dask_mpi
from distributed import Client

from dask_rcylon.comm import mpi
from dask_rcylon.routing.enable import enable


def initialize(
    *, worker_class: str = "distributed.Worker", exit: bool = True, **kwargs: Any
) -> bool:
    """Turn the ranks of this MPI job into a Dask cluster with a pilot.

    Rank 0 becomes the scheduler, rank 1 goes on with the script, the others become workers and
    do not return (with ``exit=True``).

    Parameters
    ----------
    worker_class : str
        Class of the workers; it must run in the rank's own process, as ``distributed.Nanny``'s
        workers don't.
    exit : bool
        As in `dask_mpi.initialize`.
    **kwargs
        Passed to `dask_mpi.initialize`.

    Returns
    -------
    bool
        Whether this rank goes on with the script.

    Raises
    ------
    RuntimeError
        If there is no MPI library.
    ValueError
        If `worker_class` is a nanny.
    dask_mpi.exceptions.WorldTooSmallException
        With fewer than 3 ranks.

    Examples
    --------
    >>> import dask_rcylon                                        # doctest: +SKIP
    >>> from distributed import Client                            # doctest: +SKIP
    >>> dask_rcylon.initialize()                                  # doctest: +SKIP
    >>> client = Client()                                         # doctest: +SKIP
    """
    mpi.load()
    if "Nanny" in worker_class:
        raise ValueError(
            f"worker_class={worker_class!r}: a nanny's worker is a child of the MPI rank, not the "
            "rank itself, and could not exchange; use 'distributed.Worker'"
        )
    is_client = dask_mpi.initialize(worker_class=worker_class, exit=exit, **kwargs)
    if is_client is False:
        return False
    with Client(set_as_default=False) as client:
        client.wait_for_workers(mpi.load().COMM_WORLD.size - 2)
        enable(client)
    return True
