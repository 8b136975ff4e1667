"""Shuffle methods: which was asked for, and which Dask shall use for what is not routed.

Dask writes ``shuffle_method`` into expressions, in some places (``drop_duplicates``, ``unique``)
its own default even before anybody knows where they will run.  A method that a user asked for is
obeyed; one that Dask filled in is not a wish.  The two are told apart by their type.
"""

from __future__ import annotations

from typing import Any

import dask
import pandas as pd

from dask_rcylon.routing.internals import Expr, check_dtype_support
from dask_rcylon.routing.target import SCHEDULER_NAME, Target

#: Methods of shuffling that are Dask's own.
DASK_METHODS = ("p2p", "tasks", "disk")


class _Method(str):
    """A method with a past.

    Dask keeps one object for expressions of equal tokens, and a token of strings is made of their
    `repr`: it must differ from the plain string's.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


class DefaultMethod(_Method):
    """A method that Dask chose and nobody asked for."""

    __slots__ = ()

    def __reduce__(self) -> Any:
        # Who unpickles it may not have this package.
        return str, (str(self),)


class DasksMethod(_Method):
    """The method of a shuffle that is part of a plan of Dask's, and must be by Dask's hash."""

    __slots__ = ()


def asked(method: str | None) -> str | None:
    """Return the method that the user asked for, in the call or by configuration."""
    if method is None or isinstance(method, DefaultMethod):
        return dask.config.get("dataframe.shuffle.method", None)  # type: ignore[no-any-return]
    return method


def dasks(method: str | None, target: Target, *frames: Expr) -> str | None:
    """Return the method by which Dask shall shuffle what is not routed.

    Parameters
    ----------
    method : str or None
        The expression's own.
    target : Target
        Where it goes.
    *frames : Expr
        What is shuffled.

    Returns
    -------
    str or None
        A method that Dask knows; None where it shall choose, as it does without this package.
    """
    wanted = asked(method)
    if wanted not in (None, SCHEDULER_NAME):
        return wanted
    if target.pilot is None:
        return method if wanted is None else "tasks"
    # Dask's choice depends on whether there is a default client, which the embedded cluster is not.
    return "p2p" if all(_suits_p2p(frame._meta) for frame in frames) else "tasks"


def _suits_p2p(meta: Any) -> bool:
    if isinstance(meta, pd.Series):
        meta = meta.to_frame("series")
    if not isinstance(meta, pd.DataFrame) or not meta.columns.is_unique:
        return False
    # The number of the partition travels as one more column.
    if not all(isinstance(label, str) for label in meta.columns):
        return False
    try:
        check_dtype_support(meta)
        check_dtype_support(meta.index.to_frame())
    except TypeError:
        return False
    return True
