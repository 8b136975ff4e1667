"""What the scheduler knows of its ranks."""

from __future__ import annotations

from dataclasses import dataclass, field

from dask_rcylon.comm.mpi import RankInfo


@dataclass(frozen=True)
class PilotInfo:
    """The pilot of a Dask cluster, as its clients see it.

    Attributes
    ----------
    ranks : int
        MPI ranks that are workers of the cluster at the moment.
    world : str or None
        Label of their world.
    reason : str or None
        Why no stage can run on the cluster; None if stages can.
    stages : dict
        Stages whose exchange has been done so far, by kind.
    """

    ranks: int
    world: str | None
    reason: str | None
    stages: dict[str, int] = field(default_factory=dict)


class Roster:
    """Which workers are which ranks.

    Stages need one world that all workers belong to: tasks of a stage run wherever Dask puts them.
    """

    def __init__(self) -> None:
        self._ranks: dict[str, RankInfo] = {}
        self._others: set[str] = set()

    def join(self, worker: str, info: RankInfo | None) -> None:
        """Enter a worker; `info` is None if it is no rank."""
        self.leave(worker)
        if info is None:
            self._others.add(worker)
        else:
            self._ranks[worker] = info

    def leave(self, worker: str) -> RankInfo | None:
        """Strike a worker off; return what it was."""
        self._others.discard(worker)
        return self._ranks.pop(worker, None)

    def world_of(self, worker: str) -> str | None:
        """Return the label of a worker's world."""
        info = self._ranks.get(worker)
        return None if info is None else info.world

    def members(self, world: str) -> dict[int, str]:
        """Return the addresses of a world's workers by rank, in order of rank."""
        members = {info.rank: worker for worker, info in self._ranks.items() if info.world == world}
        return dict(sorted(members.items()))

    @property
    def worlds(self) -> list[str]:
        """Labels of the worlds that have workers, sorted."""
        return sorted({info.world for info in self._ranks.values()})

    @property
    def reason(self) -> str | None:
        """Why no stage can run on these workers; None if stages can."""
        if self._others and not self._ranks:
            return (
                f"none of the {len(self._others)} workers is an MPI rank: start them with mpiexec "
                "or srun through dask-mpi, with --worker-class distributed.Worker (a nanny's "
                "worker process is no rank, and can be replaced only while it holds nothing), or "
                "use dask_rcylon.LocalMPICluster"
            )
        if self._others:
            return (
                f"{len(self._others)} of {len(self._others) + len(self._ranks)} workers are not "
                "MPI ranks: a stage's tasks could land on them; start all workers in one MPI job"
            )
        if len(self.worlds) > 1:
            return (
                f"the workers are ranks of {len(self.worlds)} MPI worlds "
                f"({', '.join(self.worlds)}), which can't exchange: start all in one MPI job"
            )
        for world in self.worlds:
            members = [info.rank for info in self._ranks.values() if info.world == world]
            if len(set(members)) < len(members):
                return (
                    f"several workers claim the same rank of MPI world {world!r}: they were "
                    "started by different MPI jobs; start all in one"
                )
        return None
