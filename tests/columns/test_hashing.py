"""One hash for equal values, whatever holds them."""

import datetime
import os
import subprocess
import sys
import uuid

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dask_rcylon.columns.hashing import hash_keys
from dask_rcylon.columns.scalars import hash_scalar


def arrow(values, type_):
    return pd.array(values, dtype=pd.ArrowDtype(type_))


HOURS = [datetime.time(1), None, datetime.time(2, 30, 0, 5)]
FAR = ["9999-12-31", "0001-01-01", "2026-01-01"]

#: Columns of equal values.
ALIKE = {
    "complex": [
        np.array([1, 0, np.nan], "complex64"),
        np.array([1, -0.0, np.nan]),
        pd.Series([1 + 0j, 0, None], dtype=object),
        pd.Series([True, False, None], dtype=object),
    ],
    "truly complex": [
        np.array([1 + 2j, -1j], "complex128"),
        np.array([1 + 2j, -1j], "complex64"),
        pd.Series([1 + 2j, -1j], dtype=object),
    ],
    "times of day": [
        arrow(HOURS, pa.time64("us")),
        arrow([HOURS[0], None, HOURS[2]], pa.time64("ns")),
        pd.Series(HOURS, dtype=object),
    ],
    "far dates": [
        pd.array(np.array(FAR, "M8[s]")),
        pd.array(np.array(FAR, "M8[us]")),
        arrow([datetime.date.fromisoformat(day) for day in FAR], pa.date32()),
        pd.Series([datetime.datetime.fromisoformat(day) for day in FAR], dtype=object),
        pd.Series([np.datetime64(day, "us") for day in FAR], dtype=object),
    ],
    "long spans": [
        pd.array(np.array([10**13, -(10**13)], "m8[s]")),
        pd.Series(np.array([10**13, -(10**13)], "m8[s]")).astype(object),
    ],
    "periods": [
        pd.array(pd.period_range("2026-01", periods=3, freq="M")),
        pd.Series(list(pd.period_range("2026-01", periods=3, freq="M")), dtype=object),
        pd.Categorical(pd.period_range("2026-01", periods=3, freq="M")),
    ],
    "intervals": [
        pd.arrays.IntervalArray.from_breaks([0, 1, 2]),
        pd.Series(list(pd.arrays.IntervalArray.from_breaks([0.0, 1, 2])), dtype=object),
        pd.Categorical(pd.arrays.IntervalArray.from_breaks([0, 1, 2])),
    ],
    "sparse": [pd.arrays.SparseArray([0, 1, 0, 5]), np.array([0, 1, 0, 5.0])],
    "strings": [
        pd.array(["a", None, "é"], dtype="str"),
        arrow(["a", None, "é"], pa.dictionary(pa.int8(), pa.string())),
        pd.Series(["a", np.nan, "é"], dtype=object),
        pd.Categorical(["a", None, "é"]),
    ],
    "bytes": [
        arrow([b"ab", None], pa.binary()),
        arrow([b"ab", None], pa.binary(2)),
        pd.Series([b"ab", None], dtype=object),
    ],
    "decimals": [
        arrow([1, None, -3], pa.decimal128(10, 2)),
        arrow([1, None, -3], pa.decimal256(50, 9)),
        pd.array([1, None, -3], dtype="Int8"),
    ],
    "large integers": [
        np.array([2**63 - 1, 2**53 + 1]),
        pd.Series([2**63 - 1, 2**53 + 1], dtype=object),
        np.array([2**63 - 1, 2**53 + 1], "uint64"),
        np.array([2**63 - 1, 2**53 + 1], "float64"),
    ],
    "objects of one kind and of many": [
        pd.Series([1, None, 2**70], dtype=object),
        pd.Series([1, None, np.float64(2.0**70)], dtype=object),
        np.array([1, np.nan, 2.0**70]),
    ],
}


@pytest.mark.parametrize("kind", ALIKE)
def test_equal_values_hash_alike(kind):
    columns = [pd.Series(values) for values in ALIKE[kind]]
    first = hash_keys([columns[0]])
    assert len(set(first.tolist())) == len(set(columns[0].map(str)))
    for column in columns:
        for form in (column, column.array):
            assert hash_keys([form]).tolist() == first.tolist(), column.dtype
        assert [hash_scalar(item) for item in column.astype(object)] == first.tolist()


def test_views_of_strings_hash_as_strings():
    """pandas can hold them, and do next to nothing with them."""
    texts = ["a", None, "é" * 20]
    for view, type_ in ((pa.string_view(), pa.string()), (pa.binary_view(), pa.binary())):
        assert (hash_keys([arrow(texts, view)]) == hash_keys([arrow(texts, type_)])).all()


def test_identifiers_spread():
    hashes = hash_keys([pd.Series([uuid.UUID(int=i) for i in range(100)], dtype=object)])
    assert len(set(hashes.tolist())) == 100


def test_what_is_not_known_has_one_hash():
    hashes = hash_keys([pd.Series([[1], {"a": 1}, {1, 2}, np.arange(3)], dtype=object)])
    assert len(set(hashes.tolist())) == 1


def test_keys_are_combined_in_order():
    one, two = pd.Series([1, 2]), pd.Series([2, 1])
    assert hash_keys([one, two])[0] == hash_keys([two, one])[1]
    assert hash_keys([one, two])[0] != hash_keys([two, one])[0]
    columns = {dtype: pd.Series([1, 2]).astype(dtype) for dtype in ("int8", "float64", "object")}
    hashes = [hash_keys([one, column, one]) for column in columns.values()]
    assert all((found == hashes[0]).all() for found in hashes)


_HASHES = """
import pandas as pd
from dask_rcylon.columns.hashing import hash_keys
mixed = pd.Series(["a", 1, b"x", (1, "b"), None], dtype=object)
print(hash_keys([mixed, pd.Series(list("abcde"))]).tolist())
"""


def test_hashes_are_the_same_in_every_process():
    found = {
        subprocess.run(
            [sys.executable, "-c", _HASHES],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1
