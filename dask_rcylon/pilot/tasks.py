"""The functions of a stage's Dask tasks.

``put`` and ``get`` are ordinary tasks: they show in the task stream, run in the worker's threads,
fail and retry as any task does.  The barrier between them waits for the exchange.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
from dask._task_spec import Task
from distributed import Reschedule
from distributed.worker import thread_state

from dask_rcylon.pilot.run import BucketGone, PutReport, RunClosed
from dask_rcylon.pilot.spec import StageSpec
from dask_rcylon.pilot.worker_plugin import current_pilot


class BarrierTask(Task):
    """The task between a stage's puts and gets; it carries the spec for the scheduler plugin."""

    spec: StageSpec
    __slots__ = ("spec",)

    def __init__(
        self, key: str, func: Callable[..., Any], /, *args: Any, spec: StageSpec, **kwargs: Any
    ) -> None:
        self.spec = spec
        super().__init__(key, func, *args, **kwargs)

    @property
    def block_fusion(self) -> bool:
        """The plugin must find the task under its key."""
        return True


def put(stage: str, side: int, partition: int, frame: pd.DataFrame) -> PutReport:
    """Cut an input partition into buckets and leave them on this rank."""
    try:
        return current_pilot().run(stage).put(side, partition, frame)
    except RunClosed:
        # The stage was started again or given up meanwhile: what this task made is of no use.
        raise Reschedule from None


def barrier(stage: str, *reports: PutReport) -> int:
    """Start the exchange when all puts are done; return the run's number when it is over."""
    pilot = current_pilot()
    holders: dict[int, int] = {}
    for report in reports:
        holders[report.rank] = holders.get(report.rank, 0) + report.rows
    numbers = {report.run for report in reports}
    try:
        run = pilot.run(stage)
    except RunClosed:
        raise Reschedule from None
    if numbers != {run.number}:
        # Fragments of different runs can't be exchanged: 0 makes the scheduler start again.
        pilot.exchange(stage, 0, {}, None)
    settled = run.spec.settle([report.sample for report in reports]) if run.spec.settles else None
    pilot.exchange(stage, run.number, holders, settled)
    return run.number


def get(stage: str, partition: int, number: int) -> pd.DataFrame:
    """Make an output partition from its bucket on this rank."""
    pilot = current_pilot()
    run = pilot.active(stage, number)
    if run is not None:
        try:
            return run.get(partition)
        except BucketGone:
            pass
    pilot.locate(stage, number, thread_state.key)
    raise AssertionError("locate always raises")
