"""Words sort as pandas sorts."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dask_rcylon.columns.sortkeys import sort_words, string_chunks
from dask_rcylon.kernels.cpu import argsort

TEXTS = ["x" * 40 + "a", "x" * 40, None, "x" * 39, "", "a", "a\0", "a\0\0", "é", "\U0001f600"]
KEYS = {
    "floats": np.array([0.5, np.inf, 5e-324, np.nan, -5e-324, 2, 1.7e308, -1, 0.0, -0.0]),
    "float32": np.array([0.5, np.inf, 1, np.nan, -2, 2, 3, -1, 0.0, -0.0], "float32"),
    "integers": np.array([2**63 - 1, -(2**63), 0, -1, 1, 5, 4, 3, 2, 1]),
    "unsigned": np.array([2**64 - 1, 0, 2**63, 5, 4, 3, 2, 1, 9, 8], "uint64"),
    "times": np.array([5, "NaT", -5, 0, 1, 2, 3, 2**62, -(2**62), 9], "M8[ns]"),
    "strings": pd.array(TEXTS, dtype="str"),
    "strings in Python": pd.array(TEXTS, dtype="string[python]"),
    "integers and NA": pd.array([2**63 - 1, None, -(2**63), 0, 1, 2, None, 3, 4, 5], dtype="Int64"),
    "decimals": pd.array(
        [None if i == 3 else Decimal(i - 4) * 10**20 / 4 for i in range(10)],
        dtype=pd.ArrowDtype(pa.decimal128(30, 2)),
    ),
    "categories": pd.Categorical([*list("cabcabcab"), None], ["c", "a", "b"]),
}


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("ascending", [(True, True), (False, True), (True, False), (False, False)])
@pytest.mark.parametrize("na_position", ["first", "last"])
@pytest.mark.parametrize("wrapped", [True, False], ids=["array", "series"])
def test_two_columns_sort_as_in_pandas(kind, ascending, na_position, wrapped):
    frame = pd.DataFrame({"a": np.arange(10) % 3, "x": KEYS[kind]})
    frame = pd.concat([frame, frame.iloc[::-1]], ignore_index=True)
    keys = [frame[label].array if wrapped else frame[label] for label in frame]
    words = sort_words(keys, ascending, na_position, string_chunks(keys))
    expected = frame.sort_values(["a", "x"], ascending=list(ascending), na_position=na_position)
    assert argsort(words).tolist() == expected.index.tolist()


@pytest.mark.parametrize("na_position", ["first", "last"])
def test_minus_infinity_is_no_null(na_position):
    """pandas 3.1 mixes -inf and NaN if there are two keys and nulls come first; we do not."""
    frame = pd.DataFrame({"x": [-np.inf, np.nan, -np.inf, np.nan], "y": [3, 2, 1, 0]})
    order = argsort(sort_words([frame.x, frame.y], [True, True], na_position, 0))
    assert order.tolist() == ([3, 1, 2, 0] if na_position == "first" else [2, 0, 3, 1])


@pytest.mark.parametrize("kind", KEYS)
def test_the_number_of_words_follows_from_the_dtype(kind):
    """Partitions are sorted apart: their words must mean the same, nulls or not, rows or none."""
    series = pd.Series(KEYS[kind])
    chunks = string_chunks([series])
    whole = sort_words([series], [True], "last", chunks)
    for part in (series.dropna(), series[series.isna()], series.iloc[:0], series.iloc[3:]):
        words = sort_words([part], [True], "last", chunks)
        assert (words == whole[:, part.index]).all()
        assert len(words) == len(whole)
