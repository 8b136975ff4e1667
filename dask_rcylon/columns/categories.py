"""Categories of several fragments, united.

Codes travel as they are, and each fragment brings the categories that its codes refer to.  Where
these differ, the codes of a bucket are moved to the union, which lists categories in the order of
the input partitions, as `pandas.api.types.union_categoricals` does.  All fragments take part,
whether or not they have rows in the bucket: every bucket then gets the same categories.  For the
same reason the union is found once for all buckets and not once for each.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class _Union:
    """How the codes of several fragments become codes of one list of categories.

    Attributes
    ----------
    categories : Index or None
        The union; None if there is none and values have to be decoded.
    moves, starts : int32 array and int64 array (F,), or None
        Code c of fragment f becomes ``moves[starts[f] + c]``, also for the code -1 of nulls; None
        if codes can stay as they are.
    kept : tuple
        The fragments' categories, so that their ids stay theirs.
    """

    categories: pd.Index | None
    moves: Int32 | None = None
    starts: Int64 | None = None
    kept: tuple[pd.Index, ...] = ()


#: Unions by the ids of their parts; one is dropped together with its first part.
_unions: dict[tuple[int, ...], _Union] = {}


def unite(
    codes: Int32, categories: Sequence[pd.Index], rows: Sequence[int], ordered: bool | None
) -> Any:
    """Make one array of codes that refer to the categories of several fragments.

    Parameters
    ----------
    codes : int32 array (n,)
        Codes, -1 for null; those of one fragment after those of another.
    categories : sequence (F,) of Index
        Categories of each fragment.
    rows : sequence (F,) of int
        Rows of each fragment; they add up to n.
    ordered : bool
        Whether the categories have an order.

    Returns
    -------
    Categorical, or an array of values
        Values, as `pandas.concat` makes them, where ordered categories differ.
    """
    union = _union_of(categories, ordered)
    if union.categories is None:
        return _decoded(codes, categories, rows, ordered)
    if union.moves is not None and union.starts is not None:
        codes = union.moves[codes + np.repeat(union.starts, rows)]
    dtype = pd.CategoricalDtype(union.categories, ordered=ordered)
    return pd.Categorical.from_codes(codes, dtype=dtype, validate=False)  # type: ignore[call-overload]


def common_dtype(
    one: pd.CategoricalDtype, other: pd.CategoricalDtype
) -> pd.CategoricalDtype | None:
    """Return the dtype that holds the categories of both; None if there is none.

    Categories are listed as they are in the first, then those that only the second has.
    """
    union = _unite([one.categories, other.categories], one.ordered or other.ordered)
    if union.categories is None or one.ordered != other.ordered:
        return None
    return pd.CategoricalDtype(union.categories, ordered=one.ordered)


def _union_of(categories: Sequence[pd.Index], ordered: bool | None) -> _Union:
    key = (*map(id, categories), int(bool(ordered)))
    union = _unions.get(key)
    if union is None:
        union = _unite(categories, ordered)
        _unions[key] = union
        weakref.finalize(categories[0], _unions.pop, key, None).atexit = False
    return union


def _unite(categories: Sequence[pd.Index], ordered: bool | None) -> _Union:
    # Without categories all is null: such a partition says nothing, not even by its dtype.
    known = [index for index in categories if len(index)] or [categories[0]]
    first, *rest = known
    kept = tuple(index for index in categories if index is not categories[0])
    if all(_same(first, index) for index in rest):
        if first is categories[0]:
            first = first.view()  # the union must not keep its first part alive
        return _Union(first, kept=kept)
    booleans = [pd.api.types.is_bool_dtype(index.dtype) for index in known]
    if ordered or any(booleans) != all(booleans):
        # Next to 1, True can't be a category.
        return _Union(None, kept=kept)
    union = first.append(rest).unique()
    moves = [np.append(np.int32(-1), union.get_indexer(index)) for index in categories]
    bounds = np.cumsum([0, *map(len, moves)])
    return _Union(union, np.concatenate(moves).astype(np.int32), bounds[:-1] + 1, kept)


def _same(one: pd.Index, other: pd.Index) -> bool:
    return one is other or (one.dtype == other.dtype and one.equals(other))


def _decoded(
    codes: Int32, categories: Sequence[pd.Index], rows: Sequence[int], ordered: bool | None
) -> Any:
    bounds = np.cumsum([0, *rows])
    parts = [
        pd.Series(
            pd.Categorical.from_codes(
                codes[low:high],  # type: ignore[arg-type]
                dtype=pd.CategoricalDtype(known, ordered=ordered),
            )
        )
        for known, low, high in zip(categories, bounds[:-1], bounds[1:], strict=True)
    ]
    return pd.concat(parts, ignore_index=True).array
