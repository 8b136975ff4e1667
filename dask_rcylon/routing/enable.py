"""Turn routing on for a cluster that somebody else has started, and off again."""

from __future__ import annotations

import warnings

from distributed import Client, get_client

from dask_rcylon.pilot.attach import attach, detach, pilot_of
from dask_rcylon.pilot.world import PilotInfo
from dask_rcylon.routing import hooks
from dask_rcylon.routing.target import SCHEDULER_NAME, pilot_behind


def enable(client: Client | None = None) -> PilotInfo:
    """Run the shuffle-heavy stages of what is computed on a client's cluster on its MPI ranks.

    Parameters
    ----------
    client : distributed.Client, optional
        The current one by default. Its workers must be the ranks of one MPI world, as
        ``mpiexec -n 8 dask-mpi --scheduler-file f --worker-class distributed.Worker`` starts them.
        Without the worker class their nannies are; workers in the ranks then replace those beside
        them, unless these hold results or have tasks.
        Where there is no client, only what `disable` has taken away is brought back:
        ``scheduler="rcylon"``.

    Returns
    -------
    PilotInfo
        How many ranks there are. Where the workers are not MPI ranks, `reason` says why no stage
        can run on them; a warning says it too, and every stage stays with Dask.
    """
    hooks.install()
    if client is None:
        try:
            client = get_client()
        except ValueError:
            info = pilot_behind(hooks.schedulers.get(SCHEDULER_NAME))
            assert info is not None
            return info
    info = attach(client)
    if info.reason is not None:
        warnings.warn(f"Every stage stays with Dask: {info.reason}.", RuntimeWarning, stacklevel=2)
    return info


def disable(client: Client | None = None) -> None:
    """Take everything back: Dask lowers expressions as if this package were not there.

    The name ``"rcylon"`` is then no scheduler any more. An embedded cluster that is running goes on
    until the process ends: results may lie there. `enable` brings everything back.

    Parameters
    ----------
    client : distributed.Client, optional
        Also take the pilot from this client's cluster.
    """
    if client is not None and pilot_of(client) is not None:
        detach(client)
    hooks.uninstall()
