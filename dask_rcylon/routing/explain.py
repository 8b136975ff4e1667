"""Say what will be routed, and why the rest will not.

The expression is optimised as it would be to run, with the rules noting what they decide: there is
no second account of the rules that could differ from the first.
"""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import Any

import dask
from dask.base import get_scheduler, is_dask_collection

from dask_rcylon.routing import hooks
from dask_rcylon.routing.decision import Decision, recorded
from dask_rcylon.routing.internals import FrameBase
from dask_rcylon.routing.target import SENDERS, code_of

_HEADINGS = ("stage", "keys", "partitions", "runs on")


@dataclass(frozen=True)
class Explanation:
    """The stages of a collection.

    Attributes
    ----------
    stages : tuple of Decision
        From the inputs up.
    note : str
        What else there is to say.
    """

    stages: tuple[Decision, ...]
    note: str = ""

    @property
    def routed(self) -> list[str]:
        """Kinds of the stages that run on ranks."""
        return [stage.kind for stage in self.stages if stage.reason is None]

    def _rows(self) -> list[tuple[str, str, str, str]]:
        return [
            (
                stage.kind,
                stage.keys,
                f"{' + '.join(map(str, stage.inputs))} → {stage.outputs}",
                stage.place,
            )
            for stage in self.stages
        ]

    def __str__(self) -> str:
        rows = self._rows()
        if not rows:
            return f"no stages{': ' + self.note if self.note else ''}"
        widths = [max(len(row[i]) for row in [_HEADINGS, *rows]) for i in range(3)]
        lines = [
            "  ".join([*(c.ljust(w) for c, w in zip(row[:3], widths, strict=True)), row[3]])
            for row in [_HEADINGS, *rows]
        ]
        return "\n".join(lines + ([self.note] if self.note else []))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = self._rows()
        if not rows:
            return f"<p>{html.escape(str(self))}</p>"
        head = "".join(f"<th>{heading}</th>" for heading in _HEADINGS)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in rows
        )
        note = f"<p>{html.escape(self.note)}</p>" if self.note else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}"


def explain(collection: Any, scheduler: Any = None) -> Explanation:
    """Say which stages of a collection run on MPI ranks, and why the others don't.

    Parameters
    ----------
    collection : Dask collection
        A DataFrame, a Series, or anything made of them.
    scheduler : str, callable or Client, optional
        Where it would be computed; as in ``collection.compute(scheduler=...)``.

    Returns
    -------
    Explanation
        Prints as a table; an HTML table in notebooks. `routed` lists the kinds of stages that run
        on ranks.

    Raises
    ------
    TypeError
        If it is no Dask collection.
    ValueError
        If there is no such scheduler, or ``shuffle_method="rcylon"`` was asked for without MPI
        ranks, as ``compute`` would raise it.

    Notes
    -----
    Nothing is computed for joins, sorts and shuffles. ``set_index`` without ``divisions=`` needs
    the quantiles of its column, which Dask computes while it optimises.
    """
    if not is_dask_collection(collection):
        raise TypeError(f"explain() takes a Dask collection, got {type(collection).__name__}")
    if not isinstance(collection, FrameBase):
        return Explanation((), f"a {type(collection).__name__} is not made of dataframe operations")
    if not hooks.installed():
        return Explanation((), "routing is disabled: dask_rcylon.enable() brings it back")
    schedule = _schedule(collection, scheduler)  # found by name on the stack: see `target`
    with recorded(code_of(explain)) as record:
        collection.expr.optimize(fuse=False)
    del schedule
    method = dask.config.get("dataframe.shuffle.method", None)
    note = "" if method is None else f"The option dataframe.shuffle.method is {method!r}."
    return Explanation(record.decisions, note)


SENDERS[code_of(explain)] = (("schedule",), lambda variables: variables["schedule"])


def _schedule(collection: Any, scheduler: Any) -> Any:
    try:
        return get_scheduler(scheduler=scheduler, collections=[collection])
    except RuntimeError:
        # The default client is asynchronous: it can't compute here, but it will run the stages.
        from distributed import Client

        return Client.current(allow_global=True)
