"""The places where Dask is changed, all of them.

Dask decides how rows move when expressions are lowered, and has no registry for other ways; so the
methods that decide are wrapped.  Each wrapper asks a rule, and calls the original where the rule
says that the stage stays with Dask.  `install` and `uninstall` put the wrappers in and take them
out; `tests/routing/test_hooks.py` names each and fails when Dask has moved one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import dask
from dask.dataframe.dask_expr import _collection, _expr, _merge, _reductions, _shuffle

from dask_rcylon.routing import merge, set_index, shuffle, sort
from dask_rcylon.routing.decision import DefaultMethod, dask_method
from dask_rcylon.routing.target import SCHEDULER_NAME, default_pilot, target

_originals: dict[tuple[Any, str], Any] = {}


def _lower_merge(original: Any, self: Any) -> Any:
    if type(self) is not _merge.Merge:
        return original(self)
    return merge.lower(self, target(), original)


def _lower_rearrange(original: Any, self: Any) -> Any:
    stage = shuffle.lower(self, target())
    return original(self) if stage is None else stage


def _lower_shuffle(original: Any, self: Any) -> Any:
    if type(self) is _shuffle.Shuffle and self.method == SCHEDULER_NAME:
        values = dict(zip(self._parameters, self.operands, strict=False))
        self = type(self)(**{**values, "method": dask_method(SCHEDULER_NAME)})
    return original(self)


def _lower_sort(original: Any, self: Any) -> Any:
    stage = sort.lower(self, target())
    return original(self) if stage is None else stage


def _sort_divisions(original: Any, self: Any) -> Any:
    if sort.reason(self, target()) is None:
        return (None,) * (sort.outputs(self) + 1)
    return original(self)


def _lower_set_partition(original: Any, self: Any) -> Any:
    stage = set_index.lower(self, target())
    return original(self) if stage is None else stage


def _lower_shuffle_reduce(original: Any, self: Any) -> Any:
    return sort.colocate(original(self), self.frame)


def _lower_align(original: Any, self: Any) -> Any:
    """Shuffle frames that are to be aligned all by one hash."""
    lowered = original(self)
    frames = [op for op in lowered.operands if isinstance(op, _shuffle.RearrangeByColumn)]
    where = target()
    if frames and any(shuffle.reason(frame, where) is not None for frame in frames):
        return merge._by_dasks_hash(lowered)
    return lowered


def _default_method(original: Any) -> str:
    """Tell a method that Dask chose from one that the user asked for."""
    if dask.config.get("dataframe.shuffle.method", None) is None:
        if default_pilot() is not None:
            return SCHEDULER_NAME
        return DefaultMethod(original())
    return original()  # type: ignore[no-any-return]


def _preferring_order(original: Any, method: str | None) -> str | None:
    if method is not None or dask.config.get("dataframe.shuffle.method", None) is not None:
        return original(method)  # type: ignore[no-any-return]
    chosen = original(None)
    return None if chosen == SCHEDULER_NAME else DefaultMethod(chosen)


#: Where Dask is changed: object, attribute, wrapper.
HOOKS: list[tuple[Any, str, Callable[..., Any]]] = [
    (_merge.Merge, "_lower", _lower_merge),
    (_shuffle.RearrangeByColumn, "_lower", _lower_rearrange),
    (_shuffle.Shuffle, "_lower", _lower_shuffle),
    (_shuffle.SortValues, "_lower", _lower_sort),
    (_shuffle.SortValues, "_divisions", _sort_divisions),
    (_shuffle.SetPartition, "_lower", _lower_set_partition),
    (_reductions.ShuffleReduce, "_lower", _lower_shuffle_reduce),
    (_expr.MaybeAlignPartitions, "_lower", _lower_align),
    (_collection, "get_default_shuffle_method", _default_method),
    (_collection, "_get_shuffle_preferring_order", _preferring_order),
]


def install() -> None:
    """Put the wrappers in; a second call does nothing."""
    for owner, name, wrapper in HOOKS:
        if (owner, name) in _originals:
            continue
        original = vars(owner)[name]
        _originals[owner, name] = original
        setattr(owner, name, _wrap(original, wrapper))


def uninstall() -> None:
    """Take the wrappers out: Dask is as it was."""
    while _originals:
        (owner, name), original = _originals.popitem()
        setattr(owner, name, original)


def installed() -> bool:
    """Tell whether the wrappers are in."""
    return bool(_originals)


def _wrap(original: Any, wrapper: Callable[..., Any]) -> Any:
    @functools.wraps(original)
    def wrapped(*args: Any) -> Any:
        return wrapper(original, *args)

    return wrapped
