"""Where the expression that is being lowered will be sent.

Dask lowers an expression inside ``compute`` and ``persist``, without telling it where it goes.
But those who lower know: ``dask.base.compute`` and ``persist`` have chosen a scheduler, a client's
methods are its own.  They are found on the Python stack, the nearest first, so that what is
computed on the way (the quantiles of a ``set_index``) has its own answer.  A flag set beforehand
would be simpler, and wrong as soon as lowering fails halfway: the next expression, bound for
elsewhere, would find it.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any, Protocol, runtime_checkable

import dask
import dask.base
from distributed import Client

from dask_rcylon.pilot.attach import pilot_of
from dask_rcylon.pilot.world import PilotInfo
from dask_rcylon.routing.internals import CoreExpr, FrameBase

SCHEDULER_NAME = "rcylon"

#: Names that Dask's default client puts into the configuration.
_CLIENT_NAMES = ("dask.distributed", "distributed")


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
        What was asked to run it; None for the default.
    lowering : bool
        Whether it is being lowered, and not merely asked for its divisions.
    sender : CodeType or None
        The function that sends it; None if it is not being sent.
    """

    pilot: PilotInfo | None
    scheduler: Any = None
    lowering: bool = False
    sender: CodeType | None = None


def code_of(function: Any) -> CodeType:
    """Return the code object by which a function's frames are known."""
    return inspect.unwrap(function).__code__  # type: ignore[no-any-return]


def _local(name: str) -> Callable[[Mapping[str, Any]], Any]:
    return lambda variables: variables[name]


def _of_frame_persist(variables: Mapping[str, Any]) -> Any:
    # A dataframe is optimised before dask.base.persist, which will choose the scheduler, is called.
    return dask.base.get_scheduler(
        scheduler=variables["kwargs"].get("scheduler"), collections=[variables["self"]]
    )


#: Functions that send expressions: local variables that must be there, and where it is sent.
SENDERS: dict[CodeType, tuple[tuple[str, ...], Callable[[Mapping[str, Any]], Any]]] = {
    code_of(dask.base.compute): (("schedule",), _local("schedule")),
    code_of(dask.base.persist): (("schedule",), _local("schedule")),
    code_of(FrameBase.persist): (("self", "kwargs"), _of_frame_persist),
    code_of(Client.compute): (("self",), _local("self")),
    code_of(Client.persist): (("self",), _local("self")),
    code_of(Client.get): (("self",), _local("self")),
}

_LOWERING = {code_of(CoreExpr.lower_completely), code_of(CoreExpr.lower_once)}

#: Dask lowers an expression for a moment when it is asked one of these.
_ASKING = {"_divisions", "divisions", "npartitions"}


def target() -> Target:
    """Find out where the expression that is being worked on goes."""
    frame: FrameType | None = sys._getframe(1)
    lowering = asking = False
    while frame is not None:
        code = frame.f_code
        if code in _LOWERING:
            lowering = True
        elif code.co_name in _ASKING:
            asking = True
        elif code in SENDERS:
            names, where = SENDERS[code]
            variables = frame.f_locals
            if all(name in variables for name in names):
                scheduler = where(variables)
                return Target(pilot_behind(scheduler), scheduler, lowering and not asking, code)
        frame = frame.f_back
    return Target(default_pilot(), None, lowering and not asking)


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
    if configured is not None and configured not in _CLIENT_NAMES:
        if isinstance(configured, str):
            configured = dask.base.named_schedulers.get(configured.lower())
        return pilot_behind(configured)
    try:
        return pilot_of(Client.current(allow_global=True))
    except ValueError:
        return None
