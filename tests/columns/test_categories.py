"""Categories of fragments that differ."""

import gc

import numpy as np
import pandas as pd
import pytest
from pandas.api.types import union_categoricals

from dask_rcylon.columns import categories

C = pd.Categorical

#: Partitions, and the categories that buckets should have.
UNITED = {
    "different": ([C(["b", "a", "b"]), C(["c", "a"]), C(["d"])], ["a", "b", "c", "d"]),
    "same in another order": ([C(["a", "b"], ["a", "b"]), C(["a", "b"], ["b", "a"])], ["a", "b"]),
    "all null last": ([C(["a", "b", None]), C([None] * 3)], ["a", "b"]),
    "all null first": ([C([None] * 3), C(["a", "b", None])], ["a", "b"]),
    "no rows first": ([C([]), C(["a", "b"])], ["a", "b"]),
    "all null": ([C([None] * 3), C([None] * 2)], []),
    "str and object": (
        [C(["a", "b"]), C(["a", "c"], pd.Index(["a", "c"], dtype=object))],
        ["a", "b", "c"],
    ),
    "integers and floats": ([C([1, 2]), C([1.0, 2.5])], [1, 2, 2.5]),
    "integers and strings": ([C([1, 2]), C(["a"])], [1, 2, "a"]),
    "times": (
        [
            C(pd.date_range("2026", periods=2, tz="UTC")),
            C(pd.date_range("2027", periods=1, tz="UTC")),
        ],
        list(pd.to_datetime(["2026-01-01", "2026-01-02", "2027-01-01"], utc=True)),
    ),
    "intervals": (
        [C(pd.interval_range(0, 2)), C(pd.interval_range(1, 3))],
        list(pd.interval_range(0, 3)),
    ),
    "ordered, all null": ([C(["a", "b"], ordered=True), C([None], ordered=True)], ["a", "b"]),
}


@pytest.mark.parametrize("kind", UNITED)
@pytest.mark.parametrize("where", ["column", "index"])
def test_categories_are_united_in_the_order_of_the_partitions(kind, where, send):
    parts, expected = UNITED[kind]
    frames = [pd.DataFrame({"x": part, "i": range(len(part))}) for part in parts]
    if where == "index":
        frames = [frame.set_index("x") for frame in frames]
    for number, found in enumerate(send(frames, parts=2)):
        column = found.x if where == "column" else found.index
        values = [value for part in parts for value in list(part)[number::2]]
        assert [None if pd.isna(v) else v for v in column] == [
            None if pd.isna(v) else v for v in values
        ]
        assert list(column.dtype.categories) == expected
        assert column.dtype.ordered == parts[0].ordered


def test_the_union_is_that_of_pandas(send):
    rng = np.random.default_rng(0)
    parts = [C(rng.integers(0, 50, 40)) for _ in range(5)]
    buckets = send([pd.DataFrame({"x": part}) for part in parts])
    for bucket in buckets:
        assert bucket.x.dtype == union_categoricals(parts).dtype
        assert bucket.x.cat.categories.tolist() == union_categoricals(parts).categories.tolist()


@pytest.mark.parametrize(
    "parts",
    [
        [C(["a", "b"], ordered=True), C(["c", "a"], ordered=True)],
        [C([1, 2]), C([True, False])],
    ],
    ids=["ordered", "booleans"],
)
def test_what_cannot_be_united_becomes_values_in_every_bucket(parts, send):
    frames = [pd.DataFrame({"x": part}) for part in parts]
    expected = pd.concat(frames)
    found = send(frames, parts=3)
    assert {bucket.x.dtype for bucket in found} == {expected.x.dtype}
    assert [v for b in found for v in b.x] == [
        v for n in range(3) for f in frames for v in f.x[n::3]
    ]


def test_a_union_lives_as_long_as_its_parts():
    before = len(categories._unions)
    known = [pd.Index(["a", "b"]), pd.Index(["b", "c"])]
    codes = np.array([0, 1, -1, 1], np.int32)
    found = [categories.unite(codes, known, [2, 2], False) for _ in range(2)]
    assert list(found[0]) == ["a", "b", np.nan, "c"]
    assert found[0].categories is found[1].categories, "found once for all buckets"
    assert len(categories._unions) == before + 1
    del known
    gc.collect()
    assert len(categories._unions) == before
    same = [pd.Index(["a", "b"])] * 2
    categories.unite(codes, same, [2, 2], False)
    del same
    gc.collect()
    assert len(categories._unions) == before
