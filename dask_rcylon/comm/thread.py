"""The one thread of a rank that calls MPI.

Collectives on communicators that share ranks must start in the same order everywhere.  The
scheduler sends its orders in one order to all ranks; a first-in-first-out queue served by a single
thread keeps that order on the rank, whatever the task threads do meanwhile.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any


class MPIThread:
    """Run functions one after the other, in the order in which they were submitted."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = (
            queue.SimpleQueue()
        )
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name="rcylon-mpi", daemon=True)
        self._thread.start()

    def submit(self, function: Callable[[], Any]) -> Future[Any]:
        """Queue `function`.

        Raises
        ------
        RuntimeError
            After `close`.
        """
        if self._closed:
            raise RuntimeError("the MPI thread of this rank has been closed")
        future: Future[Any] = Future()
        self._jobs.put((future, function))
        return future

    def close(self, timeout: float = 5.0) -> None:
        """Finish the jobs that are queued and end the thread; wait `timeout` seconds for it."""
        self._closed = True
        self._jobs.put(None)
        self._thread.join(timeout)

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            future, function = job
            try:
                future.set_result(function())
            except BaseException as error:
                future.set_exception(error)
            # Neither the result nor the frames of an error may outlive their future.
            del job, future, function
