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
import dask.base

from dask_rcylon.routing import claims, locks, merge, method, set_index, shuffle, sort
from dask_rcylon.routing.internals import (
    BlockwiseMerge,
    MaybeAlignPartitions,
    Merge,
    RearrangeByColumn,
    SetPartition,
    Shuffle,
    ShuffleReduce,
    SortValues,
    _collection,
    _shuffle,
)
from dask_rcylon.routing.target import SCHEDULER_NAME, default_pilot, target

#: Schedulers that have a name while routing is on; `dask_rcylon.scheduler` enters its own.
schedulers: dict[str, Any] = {}

_originals: dict[tuple[Any, str], Any] = {}


def _lower_merge(original: Any, self: Any) -> Any:
    return merge.lower(self, target(), original) if type(self) is Merge else original(self)


def _merge_claims(original: Any, self: Any) -> Any:
    return original(self) if target().pilot is None else claims.of_merge(self)


def _blockwise_merge_claims(original: Any, self: Any) -> Any:
    return original(self) if target().pilot is None else claims.of_blockwise_merge(self)


def _lower_rearrange(original: Any, self: Any) -> Any:
    stage = shuffle.lower(self, target())
    return original(self) if stage is None else stage


def _lower_shuffle(original: Any, self: Any) -> Any:
    if type(self) is Shuffle:
        self = self.substitute_parameters(
            {"method": method.dasks(self.method, target(), self.frame)}
        )
    return original(self)


def _lower_sort(original: Any, self: Any) -> Any:
    stage = sort.lower(self, target())
    return original(self) if stage is None else stage


def _sort_divisions(original: Any, self: Any) -> Any:
    return sort.divisions(self) if sort.reason(self, target()) is None else original(self)


def _simplify_sort(original: Any, self: Any, parent: Any, dependents: Any) -> Any:
    if sort.keeps_parallel(self, parent, target()):
        return None
    return original(self, parent, dependents)


def _lower_set_partition(original: Any, self: Any) -> Any:
    stage = set_index.lower(self, target())
    return original(self) if stage is None else stage


def _compute_divisions(original: Any, *args: Any, **kwargs: Any) -> Any:
    """Compute quantiles where the expression that needs them is going to run."""
    where = target()
    if where.pilot is not None and where.scheduler is not None:
        kwargs.setdefault("scheduler", where.scheduler)
    return original(*args, **kwargs)


def _lower_shuffle_reduce(original: Any, self: Any) -> Any:
    return sort.colocate(original(self), self)


def _lower_align(original: Any, self: Any) -> Any:
    return shuffle.align(original(self), self, target())


def _default_method(original: Any) -> str:
    """Tell ``DataFrame.shuffle`` that P2P, and what it can't do, is not what it will be."""
    if dask.config.get("dataframe.shuffle.method", None) is None and default_pilot() is not None:
        return SCHEDULER_NAME
    return original()  # type: ignore[no-any-return]


def _preferring_order(original: Any, wanted: str | None) -> str | None:
    """Tell a method that Dask fills in from one that the user asks for."""
    if method.asked(wanted) is not None:
        return original(wanted)  # type: ignore[no-any-return]
    return method.DefaultMethod(original(None))


_CLAIMS = "unique_partition_mapping_columns_from_shuffle"

#: Where Dask is changed: object, attribute, wrapper.
HOOKS: list[tuple[Any, str, Callable[..., Any]]] = [
    (Merge, "_lower", _lower_merge),
    (Merge, _CLAIMS, _merge_claims),
    (BlockwiseMerge, _CLAIMS, _blockwise_merge_claims),
    (RearrangeByColumn, "_lower", _lower_rearrange),
    (Shuffle, "_lower", _lower_shuffle),
    (SortValues, "_lower", _lower_sort),
    (SortValues, "_divisions", _sort_divisions),
    (SortValues, "_simplify_up", _simplify_sort),
    (SetPartition, "_lower", _lower_set_partition),
    (_shuffle, "compute", _compute_divisions),
    (ShuffleReduce, "_lower", _lower_shuffle_reduce),
    (MaybeAlignPartitions, "_lower", _lower_align),
    (_collection, "get_default_shuffle_method", _default_method),
    (_collection, "_get_shuffle_preferring_order", _preferring_order),
]


def install() -> None:
    """Put the wrappers in and name our schedulers; a second call does nothing."""
    locks.unlock()
    for owner, name, wrapper in HOOKS:
        if (owner, name) not in _originals:
            original = vars(owner)[name]
            _originals[owner, name] = original
            setattr(owner, name, _wrap(original, wrapper))
    dask.base.named_schedulers.update(schedulers)


def uninstall() -> None:
    """Take the wrappers and names out: Dask is as it was."""
    locks.lock()
    while _originals:
        (owner, name), original = _originals.popitem()
        setattr(owner, name, original)
    for name in schedulers:
        dask.base.named_schedulers.pop(name, None)


def installed() -> bool:
    """Tell whether the wrappers are in."""
    return bool(_originals)


def _wrap(original: Any, wrapper: Callable[..., Any]) -> Any:
    getter = getattr(original, "func", None) or getattr(original, "fget", None)
    if getter is not None:
        # What a property answers depends on where the expression goes: it is not kept.
        return property(functools.partial(wrapper, getter))

    @functools.wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return wrapper(original, *args, **kwargs)

    return wrapped
