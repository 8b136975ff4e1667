"""Dask's private names and parameters that routing uses; one that has moved is named here."""

import inspect

import dask
import pytest

from dask_rcylon.routing import internals

PARAMETERS = {
    "Merge": [
        "left",
        "right",
        "how",
        "left_on",
        "right_on",
        "left_index",
        "right_index",
        "suffixes",
        "indicator",
        "shuffle_method",
        "_npartitions",
        "broadcast",
    ],
    "RearrangeByColumn": [
        "frame",
        "partitioning_index",
        "npartitions_out",
        "ignore_index",
        "method",
        "index_shuffle",
        "original_partitioning_index",
    ],
    "Shuffle": ["frame", "method"],
    "SortValues": [
        "frame",
        "by",
        "ascending",
        "na_position",
        "npartitions",
        "sort_function",
        "sort_function_kwargs",
        "ignore_index",
        "shuffle_method",
    ],
    "SetPartition": ["frame", "_other", "drop", "npartitions", "shuffle_method"],
    "ShuffleReduce": ["frame", "shuffle_method", "sort"],
    "Repartition": ["frame", "new_partitions"],
}

ATTRIBUTES = {
    "Merge": [
        "_is_single_partition_broadcast",
        "is_broadcast_join",
        "broadcast_side",
        "merge_indexed_left",
        "merge_indexed_right",
        "_on_condition_already_partitioned",
        "kwargs",
        "unique_partition_mapping_columns_from_shuffle",
    ],
    "RearrangeByColumn": ["_partitioning_index"],
    "Expr": ["divisions", "npartitions", "walk", "find_operations", "substitute_parameters"],
    "CoreExpr": ["lower_completely", "lower_once", "optimize"],
    "Blockwise": ["_preserves_partitioning_information", "operation"],
}


@pytest.mark.parametrize("name", internals.__all__)
def test_name(name):
    assert hasattr(internals, name)


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters(name):
    missing = [p for p in PARAMETERS[name] if p not in getattr(internals, name)._parameters]
    assert not missing, f"dask {dask.__version__} has moved parameters of {name}: {missing}"


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_attributes(name):
    missing = [a for a in ATTRIBUTES[name] if not hasattr(getattr(internals, name), a)]
    assert not missing, f"dask {dask.__version__} has moved attributes of {name}: {missing}"


def test_users_of_sorts():
    """Who else makes a SortValues may count on equal keys being in one partition."""
    users = [
        name
        for name in ("_collection", "_expr", "_merge", "_reductions")
        if "SortValues(" in inspect.getsource(getattr(internals, name))
    ]
    assert users == ["_collection", "_reductions"], (
        f"dask {dask.__version__} sorts in other places than sort_values() and ShuffleReduce: see "
        "whether they need ColocatedSort"
    )
    assert inspect.getsource(internals._collection).count(" SortValues(") == 1


def test_users_of_shuffles():
    """Who shuffles several frames alike must have them shuffled by one hash."""
    import dask.dataframe.dask_expr._groupby as groupby

    counts = {
        module.__name__.rsplit(".", 1)[-1]: inspect.getsource(module).count(" RearrangeByColumn(")
        for module in (internals._collection, internals._expr, internals._merge, groupby)
    }
    assert counts == {"_collection": 1, "_expr": 1, "_merge": 4, "_groupby": 2}, (
        f"dask {dask.__version__} shuffles in other places: see whether frames are shuffled to meet"
    )
