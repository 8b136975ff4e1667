"""The options of a `LocalMPICluster`: what is allowed, and what is meant by leaving one out.

A bad option is refused here, by name, before anything has started.
"""

from __future__ import annotations

import json
import logging
import operator
from collections.abc import Mapping
from typing import Any

from dask.system import CPU_COUNT
from distributed.deploy.utils import nprocesses_nthreads
from distributed.security import Security
from distributed.worker_memory import parse_memory_limit

logger = logging.getLogger("dask_rcylon")

#: More ranks than this per CPU are a slip of the keyboard.
_MOST_RANKS_PER_CPU = 64

#: Options of a `distributed.Worker` that are passed on.  Not among them: what the cluster sets
#: itself, what can't be written as JSON, and a worker's lifetime, since no rank is replaced alone.
_PASSED = (
    "blocked_handlers",
    "connection_limit",
    "contact_address",
    "death_timeout",
    "heartbeat_interval",
    "http_prefix",
    "low_level_profiler",
    "port",
    "preload",
    "preload_argv",
    "profile_cycle_interval",
    "resources",
)

#: Options of `distributed.LocalCluster` that can't be had, and why.
_ELSEWHERE = {
    "processes": "each worker is a process, an MPI rank",
    "worker_class": "each worker is an MPI rank; a nanny's worker would not be one",
    "env": "set distributed.nanny.environ in Dask's configuration instead",
    "nthreads": "it is called threads_per_worker",
    "n_ranks": "it is called n_workers",
    "ranks": "it is called n_workers",
}


def sizes(n_workers: Any, threads_per_worker: Any) -> tuple[int, int]:
    """Check the numbers of ranks and threads and fill them in as `LocalCluster` does.

    Raises
    ------
    ValueError
        If one is not in the range allowed.
    TypeError
        If one is no integer.
    """
    most = _MOST_RANKS_PER_CPU * CPU_COUNT
    ranks = _count("n_workers", n_workers)
    threads = _count("threads_per_worker", threads_per_worker)
    if ranks is not None and ranks > most:
        raise ValueError(
            f"n_workers must be at most {most}, which is {_MOST_RANKS_PER_CPU} ranks for each of "
            f"the {CPU_COUNT} CPUs of this machine; got {ranks}"
        )
    if ranks is None and threads is None:
        return nprocesses_nthreads()  # type: ignore[no-any-return]
    if ranks is None:
        assert threads is not None
        return max(1, CPU_COUNT // threads), threads
    return ranks, threads or max(1, -(-CPU_COUNT // ranks))


def _count(name: str, value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an int, got {value!r}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")
    return operator.index(value)


def memory_limit(value: Any, ranks: int, threads: int) -> int | None:
    """Return the memory limit of each worker in bytes, None for no limit.

    Raises
    ------
    ValueError
        If it can't be understood.
    """
    try:
        if value == "auto":
            # An equal share for each, as `LocalCluster` does.
            return parse_memory_limit("auto", 1, ranks, logger=logger)  # type: ignore[no-any-return]
        return parse_memory_limit(value, threads, CPU_COUNT, logger=logger)  # type: ignore[no-any-return]
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(
            'memory_limit must be "auto", None, a number of bytes, a text such as "4 GiB" or a '
            f"fraction of the machine's memory, got {value!r}"
        ) from error


def security(value: Any) -> Security:
    """Return the TLS settings, as `LocalCluster` understands the option.

    Raises
    ------
    TypeError
        If it is no `Security`, bool or None.
    """
    if value is True:
        return Security.temporary()
    if value is None or value is False:
        return Security()
    if not isinstance(value, Security):
        raise TypeError(f"security must be a distributed.Security, True or None, got {value!r}")
    return value


def worker_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Check options that are passed on to the workers.

    Raises
    ------
    TypeError
        If a worker has no such option, or if its value can't be sent to another process.
    """
    for name, value in options.items():
        if name not in _PASSED:
            why = f": {_ELSEWHERE[name]}" if name in _ELSEWHERE else ""
            raise TypeError(
                f"LocalMPICluster has no option {name!r}{why}. Besides its own, it takes these of "
                f"a distributed.Worker: {', '.join(_PASSED)}"
            )
        try:
            json.dumps(value)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"option {name!r} travels to the ranks on a command line, as JSON, and "
                f"{value!r} can't: {error}"
            ) from error
    return dict(options)
