"""What was decided about a stage, for the rules that act on it and for `explain`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from dask.dataframe.dask_expr._expr import Expr
from dask.utils import get_default_shuffle_method

from dask_rcylon.columns.schema import unsupported
from dask_rcylon.pilot.world import PilotInfo
from dask_rcylon.routing.target import SCHEDULER_NAME, Target

#: Methods of shuffling that are Dask's own.
DASK_METHODS = ("p2p", "tasks", "disk")


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
        return (
            f"gang of up to {self.pilot.ranks} ranks of {world}: "
            "those that hold input or output partitions"
        )


class DefaultMethod(str):
    """A shuffle method that Dask chose and nobody asked for."""

    __slots__ = ()


_record: ContextVar[dict[tuple[Any, ...], Decision] | None] = ContextVar("_record", default=None)


@contextmanager
def recorded() -> Iterator[dict[tuple[Any, ...], Decision]]:
    """Collect the decisions that are taken inside."""
    decisions: dict[tuple[Any, ...], Decision] = {}
    token = _record.set(decisions)
    try:
        yield decisions
    finally:
        _record.reset(token)


def record(expr: Expr, decision: Decision) -> None:
    """Note a decision about an expression; the last one about it counts."""
    decisions = _record.get()
    if decisions is not None:
        decisions[type(expr).__name__, expr._name] = decision


def method_reason(method: str | None, target: Target) -> str | None:
    """Say why the shuffle method or the target keeps a stage with Dask.

    Raises
    ------
    ValueError
        If ``shuffle_method="rcylon"`` was asked for where there is no pilot.
    """
    if method is not None and not isinstance(method, DefaultMethod):
        if method in DASK_METHODS:
            return f"shuffle_method={str(method)!r} was asked for"
        if method != SCHEDULER_NAME:
            return f"shuffle_method={method!r} is not one of ours"
    if target.pilot is None:
        if method == SCHEDULER_NAME and target.lowering:
            raise ValueError(
                "shuffle_method='rcylon' needs MPI ranks to run on: use "
                "dask.config.set(scheduler='rcylon'), a Client of a LocalMPICluster, or "
                "dask_rcylon.enable(client)"
            )
        return "it is not sent to a cluster of MPI ranks"
    return target.pilot.reason


def frame_reason(frame: Expr, side: str = "") -> str | None:
    """Say why the partitions of an expression can't travel."""
    reason = unsupported(frame._meta)
    return None if reason is None else f"{side}{reason}"


def key_reason(dtypes: list[tuple[Any, Any]]) -> str | None:
    """Say why keys can't be hashed by value: pairs of label and dtype."""
    for label, dtype in dtypes:
        if getattr(dtype, "kind", None) == "c":
            return f"key {label!r} has dtype {dtype}"
    return None


def dask_method(method: str | None) -> str | None:
    """Return a shuffle method that Dask knows."""
    if method is None or isinstance(method, DefaultMethod):
        default = get_default_shuffle_method()
        method = None if default != SCHEDULER_NAME else SCHEDULER_NAME
    if method != SCHEDULER_NAME:
        return method
    try:
        from distributed import default_client

        default_client()
    except ValueError:
        return "tasks"
    return "p2p"
