"""What all stages have in common: the Dask expression and its tasks.

A stage is an expression that stays as it is when its parents and children are lowered: routing has
put it in the place of Dask's own.  Its graph is one put per input partition, one barrier, one get
per wanted output partition.
"""

from __future__ import annotations

import functools
from typing import Any, ClassVar

from dask._task_spec import Task, TaskRef
from dask.dataframe.dask_expr._expr import Expr, PartitionsFiltered

from dask_rcylon.pilot.orders import barrier_key
from dask_rcylon.pilot.spec import StageSpec
from dask_rcylon.pilot.tasks import BarrierTask, barrier, get, put


class Stage(PartitionsFiltered, Expr):
    """A routed operation."""

    #: ``"join"``, ``"sort"``, ``"set_index"`` or ``"shuffle"``.
    kind: ClassVar[str]
    #: Names of the operands that are its inputs, one for each side.
    sides: ClassVar[tuple[str, ...]] = ("frame",)

    def _spec(self) -> StageSpec:
        """Return the stage as the ranks see it."""
        raise TypeError(f"{type(self).__name__} is not a stage of its own")

    @functools.cached_property
    def _frames(self) -> list[Expr]:
        return [self.operand(side) for side in self.sides]

    @property
    def _stage_id(self) -> str:
        return str(self._name.rsplit("-", 1)[-1])

    @property
    def _parts_out(self) -> tuple[int, ...] | None:
        return tuple(self._partitions) if self._filtered else None

    def _divisions(self) -> tuple[Any, ...]:
        return (None,) * (self.operand("npartitions_out") + 1)

    def _lower(self) -> None:
        return None

    def _simplify_up(self, parent: Expr, dependents: Any) -> None:
        return None

    def _layer(self) -> dict[Any, Task]:
        stage = self._stage_id
        spec = self._spec()
        tasks: list[Task] = []
        for number, (side, frame) in enumerate(zip(self.sides, self._frames, strict=True)):
            name = f"rcylon-put-{self.kind}-{side}-{stage}"
            tasks += [
                Task((name, i), put, stage, number, i, TaskRef((frame._name, i)))
                for i in range(frame.npartitions)
            ]
        puts = [task.ref() for task in tasks]
        wait = BarrierTask(barrier_key(stage), barrier, stage, *puts, spec=spec)
        tasks.append(wait)
        tasks += [
            Task((self._name, i), get, stage, partition, wait.ref())
            for i, partition in enumerate(self._partitions)
        ]
        return {task.key: task for task in tasks}
