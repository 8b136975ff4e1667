"""The MPI library of this process.

mpi4py initialises MPI when ``mpi4py.MPI`` is imported.  A process that was not started by an MPI
launcher would then become a world of its own, and a Dask nanny's child would try to join a world
that its parent has joined already.  So nothing here imports ``mpi4py.MPI`` unless the process is
known to be a rank: its launcher left a mark in the environment *and* the program that runs the
worker (dask-mpi) has already imported it.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from types import ModuleType

#: The launcher of an embedded world labels it with this variable.
WORLD_VARIABLE = "DASK_RCYLON_WORLD"

#: Variables by which the usual launchers (Hydra, PRRTE, Open MPI, Slurm) tell a process its rank.
_RANK_VARIABLES = (
    "PMI_RANK",
    "PMIX_RANK",
    "OMPI_COMM_WORLD_RANK",
    "SLURM_PROCID",
    "MPI_LOCALRANKID",
)

INSTALL_HINT = (
    "No MPI library was found. Install one with\n"
    '    pip install "dask-rcylon[mpich]"\n'
    "or load your machine's own MPI (module load ...) before Python starts."
)


@dataclass(frozen=True)
class RankInfo:
    """Where a process stands in its world.

    Attributes
    ----------
    world : str
        Label of the world; equal for all ranks of one ``mpiexec`` job.
    rank : int
        Rank in ``MPI_COMM_WORLD``.
    """

    world: str
    rank: int


def load() -> ModuleType:
    """Import ``mpi4py.MPI``.

    Returns
    -------
    module

    Raises
    ------
    RuntimeError
        If there is no MPI library; the message says how to get one.
    """
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise RuntimeError(f"{INSTALL_HINT}\n({error})") from error
    return MPI  # type: ignore[no-any-return]


def rank_info() -> RankInfo | None:
    """Tell which MPI rank this process is, or None if it is none."""
    if not any(name in os.environ for name in (WORLD_VARIABLE, *_RANK_VARIABLES)):
        return None
    if "mpi4py.MPI" not in sys.modules:
        return None
    mpi = load()
    if not mpi.Is_initialized() or mpi.Is_finalized():
        return None
    return RankInfo(_world_label(), mpi.COMM_WORLD.rank)


def supports_threads() -> bool:
    """Tell whether MPI may be called from a thread that did not initialise it."""
    mpi = load()
    return bool(mpi.Query_thread() >= mpi.THREAD_SERIALIZED)


def _world_label() -> str:
    """Name the job that this rank belongs to, without communicating."""
    if label := os.environ.get(WORLD_VARIABLE):
        return label
    if label := os.environ.get("PMIX_NAMESPACE"):
        return label
    if job := os.environ.get("SLURM_JOB_ID"):
        return f"slurm-{job}.{os.environ.get('SLURM_STEP_ID', '0')}"
    return "world"
