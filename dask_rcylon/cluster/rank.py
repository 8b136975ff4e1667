"""The Dask worker of an embedded rank."""

from __future__ import annotations

from typing import Any

from distributed import Worker

from dask_rcylon.cluster import owner


class RankWorker(Worker):
    """A worker that ends when the process that started its world has gone."""

    async def start_unsafe(self) -> Any:
        """Start the worker and the watch."""
        owner.watch()
        return await super().start_unsafe()
