"""What the ranks inherit of their owner: Dask's configuration, and the cluster's TLS."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask
from distributed.security import Security

_LEFT_OUT = object()


def inherited(security: Security) -> dict[str, str]:
    """Return the environment variables that give a rank this process's configuration.

    Parameters
    ----------
    security : Security
        TLS of the cluster.

    Notes
    -----
    They go through the environment, as Dask's own deployments do; what of the configuration can't
    be written as JSON, such as a thread pool, stays behind.
    """
    tls = {
        "ca-file": security.tls_ca_file,
        "worker": {"cert": security.tls_worker_cert, "key": security.tls_worker_key},
    }
    comm = {"require-encryption": bool(security.require_encryption), "tls": tls}
    config = dask.config.merge(
        dask.config.config,
        # A task that calls compute() means this cluster, whatever the script's default is.
        {"distributed": {"comm": comm}, "scheduler": None},
    )
    return {"DASK_INTERNAL_INHERIT_CONFIG": dask.config.serialize(_plain(config))}


def _plain(value: Any) -> Any:
    """Return the part of a configuration that can be written as JSON."""
    if isinstance(value, dict):
        kept = {name: _plain(item) for name, item in value.items() if isinstance(name, str)}
        return {name: item for name, item in kept.items() if item is not _LEFT_OUT}
    if isinstance(value, list | tuple):
        return [item for item in map(_plain, value) if item is not _LEFT_OUT]
    if value is None or isinstance(value, str | int | float):
        return value
    return str(value) if isinstance(value, Path) else _LEFT_OUT
