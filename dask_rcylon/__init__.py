"""Fast joins, sorts and shuffles for Dask DataFrames, as gangs of MPI tasks.

>>> import dask, dask_rcylon                                      # doctest: +SKIP
>>> dask.config.set(scheduler="rcylon")                           # doctest: +SKIP
"""

from dask_rcylon import config as _config  # noqa: F401  (the defaults come first)
from dask_rcylon._version import __version__
from dask_rcylon.cluster import LocalMPICluster
from dask_rcylon.initialize import initialize
from dask_rcylon.routing.enable import disable, enable
from dask_rcylon.routing.explain import explain
from dask_rcylon.scheduler import register as _register

__all__ = ["LocalMPICluster", "__version__", "disable", "enable", "explain", "initialize"]

_register()
