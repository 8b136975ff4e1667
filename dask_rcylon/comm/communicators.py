"""Private communicators of gangs.

A gang talks on a communicator of its own, so that two gangs never see each other's messages.
``Comm.Create_group`` is collective over the members only, which lets a gang form while other ranks
are busy.  Making one costs a few message rounds, so they are kept.  *Which* communicator a run
uses is said by the scheduler, by number: ranks that decided for themselves (say, after an error
that only some of them saw) could disagree and wait for each other for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dask_rcylon.comm import mpi


class Communicators:
    """Communicators of this rank, by the number the scheduler gave them.

    Notes
    -----
    All methods are to be called on the MPI thread only.
    """

    def __init__(self) -> None:
        self._by_number: dict[int, Any] = {}

    def get(self, number: int, ranks: Sequence[int]) -> Any:
        """Return communicator `number` over `ranks`, making it at first use.

        Parameters
        ----------
        number : int
            The scheduler's number for it; never reused for other ranks.
        ranks : sequence of int
            Its members as ranks of ``MPI_COMM_WORLD``, in the order of their ranks in the gang.

        Returns
        -------
        mpi4py.MPI.Intracomm
        """
        comm = self._by_number.get(number)
        if comm is None:
            world = mpi.load().COMM_WORLD
            group = world.group.Incl(list(ranks))
            try:
                # The tag keeps apart two groups that form at the same time on shared ranks.
                comm = world.Create_group(group, tag=number % 32768)
            finally:
                group.Free()
            self._by_number[number] = comm
        return comm

    def free(self, number: int) -> None:
        """Free communicator `number`, if this rank has it."""
        comm = self._by_number.pop(number, None)
        if comm is not None:
            comm.Free()

    def abandon(self, number: int) -> None:
        """Forget communicator `number` without a call to MPI: a peer may still write to it."""
        self._by_number.pop(number, None)
