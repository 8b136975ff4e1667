"""Tasks fail, instead of waiting for ever, on a cluster that will have no workers again."""

from __future__ import annotations

import pickle

from distributed import Scheduler
from tornado.ioloop import PeriodicCallback

_NAME = "rcylon-no-world"
_INTERVAL_MILLISECONDS = 250


def refuse(scheduler: Scheduler, reason: str) -> None:
    """Let all tasks that wait for a worker, now or later, fail with a RuntimeError.

    Parameters
    ----------
    scheduler : Scheduler
        In this process; this is called in its event loop.
    reason : str
        Text of the error.
    """
    error = pickle.dumps(RuntimeError(reason))

    def fail() -> None:
        for task in [*scheduler.unrunnable, *scheduler.queued]:
            if task.state in ("no-worker", "queued"):
                recommendations = scheduler.transition(
                    task.key, "erred", exception=error, cause=task.key, stimulus_id=_NAME
                )
                scheduler.transitions(recommendations, stimulus_id=_NAME)

    fail()
    callback = scheduler.periodic_callbacks[_NAME] = PeriodicCallback(fail, _INTERVAL_MILLISECONDS)
    callback.start()
