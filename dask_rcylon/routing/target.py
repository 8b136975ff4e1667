"""Where the expression that is being lowered will be sent.

Dask lowers an expression inside ``compute`` and ``persist``, without telling it where it goes.  But
those who lower know: ``dask.base.compute`` and ``persist`` have chosen a scheduler, a client's
methods are its own.  They are found on the Python stack.  A flag set beforehand would be simpler,
and wrong as soon as lowering fails halfway: the next expression, bound for elsewhere, would find it.
"""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any, Protocol, runtime_checkable

import dask
import dask.base
from dask._expr import Expr
from distributed import Client

from dask_rcylon.pilot.attach import pilot_of
from dask_rcylon.pilot.world import PilotInfo

SCHEDULER_NAME = "rcylon"


@runtime_checkable
class HasPilot(Protocol):
    """A scheduler object that runs its stages on a pilot."""

    def pilot(self) -> PilotInfo | None:
        """Return the pilot without starting one."""


@dataclass(frozen=True)
class Target:
    """Where an expression goes.

    Attributes
    ----------
    pilot : PilotInfo or None
        The pilot it will meet; None if there is none.
    scheduler : Any
        What was asked to run it, None for the default.
    lowering : bool
        Whether it is being lowered to run, and not merely asked for its divisions.
    """

    pilot: PilotInfo | None
    scheduler: Any
    lowering: bool


def _code(function: Any) -> CodeType:
    return inspect.unwrap(function).__code__  # type: ignore[no-any-return]


#: Functions that send expressions, and the local variable that says where.
SENDERS: dict[CodeType, str] = {
    _code(dask.base.compute): "schedule",
    _code(dask.base.persist): "schedule",
    _code(Client.compute): "self",
    _code(Client.persist): "self",
    _code(Client.get): "self",
}

_LOWERING = {_code(Expr.lower_completely), _code(Expr.optimize)}


def target() -> Target:
    """Find out where the expression that is being worked on goes."""
    frame: FrameType | None = sys._getframe(1)
    lowering = False
    while frame is not None:
        code = frame.f_code
        lowering = lowering or code in _LOWERING
        name = SENDERS.get(code)
        if name is not None and name in frame.f_locals:
            scheduler = frame.f_locals[name]
            return Target(pilot_behind(scheduler), scheduler, lowering)
        frame = frame.f_back
    return Target(default_pilot(), None, lowering)


def pilot_behind(scheduler: Any) -> PilotInfo | None:
    """Return the pilot of a scheduler: ours, a client or a client's method."""
    owner = getattr(scheduler, "__self__", scheduler)
    if isinstance(owner, Client):
        return pilot_of(owner)
    if isinstance(owner, HasPilot):
        return owner.pilot()
    return None


def default_pilot() -> PilotInfo | None:
    """Return the pilot that ``compute()`` without arguments would use."""
    configured = dask.config.get("scheduler", None)
    # A default client puts its own name there.
    if configured not in (None, "dask.distributed", "distributed"):
        if isinstance(configured, str):
            configured = dask.base.named_schedulers.get(configured.lower())
        return pilot_behind(configured)
    try:
        return pilot_of(Client.current(allow_global=True))
    except ValueError:
        return None
