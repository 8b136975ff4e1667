"""Memory for fragments and buckets, within a budget.

Arrays come from memory while the budget lasts and from a file after that.  The file is unlinked as
soon as it is open, so that nothing can be left behind, however a rank ends; its blocks are reserved
before it is mapped, so that a full disk is an error where it can be reported and not a signal
later.  The operating system writes the pages out when it needs the memory.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import tempfile
import threading
import weakref
from typing import Any

import numpy as np
import numpy.typing as npt

#: Arrays below this stay in memory and count for nothing.
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
        if nbytes < _SMALLEST_FILE:
            return np.empty(nbytes, np.uint8)
        with self._lock:
            spill = not self.has_room(nbytes)
            where = "on_disk" if spill else "in_memory"
            self._count(where, nbytes)
            self.spilled += nbytes if spill else 0
        try:
            # What NumPy's views keep alive is the array, or the mapping that it lies in.
            owner: Any = self._map_file(nbytes) if spill else np.empty(nbytes, np.uint8)
        except BaseException:
            self._release(where, nbytes)
            raise
        weakref.finalize(owner, self._release, where, nbytes).atexit = False
        return np.frombuffer(owner, np.uint8) if spill else owner

    def has_room(self, nbytes: int) -> bool:
        """Tell whether `nbytes` more would still be within the budget."""
        return self.limit is None or self.in_memory + nbytes <= self.limit

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
            self._count(where, -nbytes)

    def _count(self, where: str, nbytes: int) -> None:
        setattr(self, where, getattr(self, where) + nbytes)


def give_back() -> None:
    """Give memory that has been freed back to the system.

    A rank keeps freed memory for the next stage, which is far cheaper than fresh pages; when no
    stage is running, others may have it. Only glibc keeps memory in this way.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)
