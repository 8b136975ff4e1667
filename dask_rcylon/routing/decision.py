"""What was decided about a stage, for the rules that act on it and for `explain`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from dask_rcylon.columns.schema import unsupported
from dask_rcylon.pilot.world import PilotInfo
from dask_rcylon.routing.internals import Expr
from dask_rcylon.routing.method import DASK_METHODS, DasksMethod, asked
from dask_rcylon.routing.target import SCHEDULER_NAME, Target


@dataclass(frozen=True)
class Decision:
    """One stage of an expression and where it runs.

    Attributes
    ----------
    kind : str
        ``"join"``, ``"sort"``, ``"set_index"`` or ``"shuffle"``.
    keys : str
        Its keys.
    inputs : tuple of int
        Input partitions of each side.
    outputs : int
        Output partitions.
    pilot : PilotInfo or None
        The pilot it runs on.
    reason : str or None
        Why it stays with Dask; None if it does not.
    """

    kind: str
    keys: str
    inputs: tuple[int, ...]
    outputs: int
    pilot: PilotInfo | None
    reason: str | None

    @property
    def place(self) -> str:
        """Where it runs, in words."""
        if self.reason is not None:
            return f"Dask: {self.reason}"
        assert self.pilot is not None
        world = f"world {self.pilot.world}" if self.pilot.world else "a world that is yet to start"
        ranks = "1 rank" if self.pilot.ranks == 1 else f"up to {self.pilot.ranks} ranks"
        return f"gang of {ranks} of {world}: those that hold its input and output partitions"


@dataclass
class Record:
    """The decisions about one expression."""

    sender: CodeType
    found: dict[tuple[str, str], tuple[int, Decision]] = field(default_factory=dict)

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """The decisions, from the inputs up: what a stage stands on is part of its own tree."""
        # Lowering goes down from the result, but in several passes.
        found = list(reversed(self.found.values()))
        found.sort(key=lambda sized: sized[0])
        return tuple(decision for _, decision in found)


_record: ContextVar[Record | None] = ContextVar("_record", default=None)


@contextmanager
def recorded(sender: CodeType) -> Iterator[Record]:
    """Collect the decisions about what a function sends; not about what is computed on the way."""
    current = Record(sender)
    token = _record.set(current)
    try:
        yield current
    finally:
        _record.reset(token)


def record(expr: Expr, target: Target, decision: Decision) -> None:
    """Note a decision about an expression that is being lowered; the last one about it counts."""
    current = _record.get()
    if current is not None and target.lowering and target.sender is current.sender:
        size = sum(1 for _ in expr.walk())
        current.found[type(expr).__name__, expr._name] = size, decision


def method_reason(method: str | None, target: Target) -> str | None:
    """Say why the shuffle method or the target keeps a stage with Dask.

    Raises
    ------
    ValueError
        If ``shuffle_method="rcylon"`` was asked for where there is no pilot.
    """
    if isinstance(method, DasksMethod):
        return "it is part of a plan of Dask's"
    wanted = asked(method)
    if wanted in DASK_METHODS:
        return f"shuffle_method={wanted!r} was asked for"
    if wanted not in (None, SCHEDULER_NAME):
        return f"shuffle_method={wanted!r} is not one of dask-rcylon's"
    if target.pilot is None:
        if wanted == SCHEDULER_NAME and target.lowering:
            raise ValueError(
                "shuffle_method='rcylon' (or the option dataframe.shuffle.method) needs MPI ranks "
                "to run on: use dask.config.set(scheduler='rcylon'), a Client of a "
                "dask_rcylon.LocalMPICluster, or dask_rcylon.enable(client)"
            )
        return (
            "it is not sent to MPI ranks; dask.config.set(scheduler='rcylon') or "
            "dask_rcylon.enable(client) would do that"
        )
    return target.pilot.reason


def frame_reason(frame: Expr, side: str = "") -> str | None:
    """Say why the partitions of an expression can't travel."""
    reason = unsupported(frame._meta)
    return None if reason is None else f"{side}{reason}"


def key_reason(dtypes: list[tuple[Any, Any]]) -> str | None:
    """Say why keys can't be hashed by value: pairs of label and dtype."""
    for label, dtype in dtypes:
        if getattr(dtype, "kind", None) == "c":
            return f"key {label!r} has dtype {dtype}, which has no order and no hash by value"
    return None
