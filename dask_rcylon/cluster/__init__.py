"""Clusters of MPI ranks that this project starts itself."""

from dask_rcylon.cluster.local import LocalMPICluster

__all__ = ["LocalMPICluster"]
