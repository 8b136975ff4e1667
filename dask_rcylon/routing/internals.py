"""The private names of Dask that routing stands on, all of them.

Dask offers no way to say how rows are to move, so routing works with its expressions as they are.
Other modules of this package import them from here: what to look at when Dask has changed is one
file, and `tests/routing/test_internals.py` says which name or parameter has gone.
"""

from __future__ import annotations

from dask._expr import Expr as CoreExpr
from dask.dataframe.dask_expr import _collection, _expr, _merge, _reductions, _shuffle
from dask.dataframe.dask_expr._collection import FrameBase
from dask.dataframe.dask_expr._expr import (
    Assign,
    Blockwise,
    ColumnsSetter,
    Expr,
    MaybeAlignPartitions,
    Projection,
    RenameSeries,
    ToFrame,
)
from dask.dataframe.dask_expr._merge import BlockwiseMerge, BroadcastJoin, HashJoinP2P, Merge
from dask.dataframe.dask_expr._reductions import ShuffleReduce
from dask.dataframe.dask_expr._repartition import Repartition
from dask.dataframe.dask_expr._shuffle import (
    RearrangeByColumn,
    SetPartition,
    Shuffle,
    ShuffleBase,
    SortValues,
)
from dask.dataframe.utils import UNKNOWN_CATEGORIES
from distributed.shuffle._arrow import check_dtype_support

__all__ = [
    "UNKNOWN_CATEGORIES",
    "Assign",
    "Blockwise",
    "BlockwiseMerge",
    "BroadcastJoin",
    "ColumnsSetter",
    "CoreExpr",
    "Expr",
    "FrameBase",
    "HashJoinP2P",
    "MaybeAlignPartitions",
    "Merge",
    "Projection",
    "RearrangeByColumn",
    "RenameSeries",
    "Repartition",
    "SetPartition",
    "Shuffle",
    "ShuffleBase",
    "ShuffleReduce",
    "SortValues",
    "ToFrame",
    "_collection",
    "_expr",
    "_merge",
    "_reductions",
    "_shuffle",
    "check_dtype_support",
]
