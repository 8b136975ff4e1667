"""Ranks end when the process that they work for is gone.

A process that is killed can't tidy up.  Its ranks would notice the lost connection, unless they are
inside a long computation; so each has a thread that looks for its owner and ends the rank, whatever
it does, a little after the owner has gone.
"""

from __future__ import annotations

import os
import shutil
import threading
import time

import psutil

#: ``"<pid>:<creation time>"`` of the owner, in the environment of a rank.
OWNER_VARIABLE = "DASK_RCYLON_OWNER"
#: The owner's folder of temporary files, which nobody else would remove then.
DIRECTORY_VARIABLE = "DASK_RCYLON_DIRECTORY"

_INTERVAL = 2.0
#: Time for a clean end after the lost connection has been noticed.
_GRACE = 5.0


def owner_mark() -> str:
    """Return the mark by which this process can be recognised as an owner."""
    return f"{os.getpid()}:{psutil.Process().create_time()}"


def watch() -> None:
    """Start to watch the owner that the environment names, if it names one."""
    mark = os.environ.get(OWNER_VARIABLE)
    if mark:
        threading.Thread(target=_watch, args=(mark,), name="rcylon-owner", daemon=True).start()


def _watch(mark: str) -> None:
    pid, created = mark.split(":")
    while _lives(int(pid), float(created)):
        time.sleep(_INTERVAL)
    time.sleep(_GRACE)
    directory = os.environ.get(DIRECTORY_VARIABLE)
    if directory:
        shutil.rmtree(directory, ignore_errors=True)
    os._exit(1)


def _lives(pid: int, created: float) -> bool:
    """Tell whether the owner lives; a pid alone may have been given to another process."""
    try:
        process = psutil.Process(pid)
        return process.create_time() == created and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
    except psutil.Error:
        return True
