"""The Dask worker of an embedded rank."""

from __future__ import annotations

import os
from typing import Any

from distributed import Worker

from dask_rcylon.comm import mpi

#: How many ranks the world was started with, in the environment of each.
SIZE_VARIABLE = "DASK_RCYLON_SIZE"


class RankWorker(Worker):
    """A worker that makes sure that it is a rank of the world it was started for.

    Raises
    ------
    RuntimeError
        If ``mpiexec`` and the MPI library that mpi4py loads are strangers: each process is then
        alone in a world of its own.
    """

    async def start_unsafe(self) -> Any:
        """Start the worker."""
        library = mpi.load()
        expected, size = int(os.environ[SIZE_VARIABLE]), library.COMM_WORLD.size
        if size != expected:
            version = library.Get_library_version().splitlines()[0].strip()
            raise RuntimeError(
                f"mpiexec started {expected} processes, but each sees {size}: mpiexec does not "
                f"belong to the MPI library that mpi4py loads, {version!r}. Set rcylon.mpiexec to "
                "the mpiexec of that library"
            )
        return await super().start_unsafe()
