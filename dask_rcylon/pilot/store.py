"""Memory for fragments and buckets, within a budget.

Arrays come from memory while the budget lasts and from a file after that.  The file is unlinked as
soon as it is open, so that nothing can be left behind, however a rank ends; its blocks are reserved
before it is mapped, so that a full disk is an error where it can be reported and not a signal
later.  The operating system writes the pages out when it needs the memory.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
import weakref

import numpy as np
import numpy.typing as npt

#: Below this, a file costs more than it saves.
_SMALLEST_FILE = 1 << 20


class Store:
    """Allocator with a budget.

    Parameters
    ----------
    limit : int or None
        Bytes that may be held in memory; None for no limit.
    directory : str
        Where the rest goes.

    Attributes
    ----------
    in_memory, on_disk : int
        Bytes that are held at this moment.
    spilled : int
        Bytes that have gone to disk since the start.
    """

    def __init__(self, limit: int | None, directory: str) -> None:
        self.limit = limit
        self.directory = directory
        self.in_memory = 0
        self.on_disk = 0
        self.spilled = 0
        self._lock = threading.Lock()

    def allocate(self, nbytes: int) -> npt.NDArray[np.uint8]:
        """Return an uninitialised array of `nbytes` bytes; it is freed when it is dropped.

        Raises
        ------
        OSError
            If it has to go to disk and the disk is full or the directory not writable.
        """
        with self._lock:
            spill = (
                self.limit is not None
                and nbytes >= _SMALLEST_FILE
                and self.in_memory + nbytes > self.limit
            )
            if not spill:
                self.in_memory += nbytes
        if not spill:
            array = np.empty(nbytes, np.uint8)
            weakref.finalize(array, self._release, "in_memory", nbytes).atexit = False
            return array
        mapping = self._map_file(nbytes)
        with self._lock:
            self.on_disk += nbytes
            self.spilled += nbytes
        # NumPy's views refer to the mapping, not to the first array over it.
        weakref.finalize(mapping, self._release, "on_disk", nbytes).atexit = False
        return np.frombuffer(mapping, np.uint8)

    def _map_file(self, nbytes: int) -> mmap.mmap:
        try:
            with tempfile.TemporaryFile(dir=self.directory, prefix="rcylon-") as file:
                os.posix_fallocate(file.fileno(), 0, nbytes)
                return mmap.mmap(file.fileno(), nbytes)
        except OSError as error:
            raise OSError(
                error.errno,
                f"can't keep {nbytes} bytes of a stage on disk: {error.strerror} "
                "(rcylon.store.memory is used up)",
                self.directory,
            ) from error

    def _release(self, where: str, nbytes: int) -> None:
        with self._lock:
            setattr(self, where, getattr(self, where) - nbytes)
