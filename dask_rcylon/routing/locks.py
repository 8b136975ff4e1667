"""Python 3.11: divisions that have to be computed must not stop the scheduler.

Up to Python 3.11 a ``functools.cached_property`` holds one lock for all objects of its class while
it evaluates.  Dask's ``Expr.divisions`` is one, and evaluating it computes quantiles for a
``set_index`` (and for a sort that stays with Dask).  Where the scheduler lives in the same process,
as `distributed.LocalCluster`'s and ours do, its thread needs divisions to make the graph of those
very quantiles: both wait for ever.  Python 3.12 took the lock away, and so does this.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from typing import Any

from dask_rcylon.routing.internals import CoreExpr

_taken: list[tuple[Any, Any]] = []


def unlock() -> None:
    """Make the cached properties of Dask's expressions what they are from Python 3.12 on."""
    if sys.version_info >= (3, 12) or _taken:
        return
    waiting: list[Any] = [CoreExpr]
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        for value in vars(kind).values():
            if isinstance(value, functools.cached_property):
                _taken.append((value, value.lock))  # type: ignore[attr-defined]
                value.lock = contextlib.nullcontext()  # type: ignore[attr-defined]


def lock() -> None:
    """Give the cached properties their locks back."""
    while _taken:
        value, own = _taken.pop()
        value.lock = own
