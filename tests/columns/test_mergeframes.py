"""Merges are pandas' own, whatever their keys are."""

import warnings
from collections import Counter
from decimal import Decimal
from itertools import product

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pandas.core.reshape import merge as pandas_merge

from dask_rcylon.columns.hashing import hash_keys
from dask_rcylon.columns.mergeframes import merge_frames

pytestmark = pytest.mark.filterwarnings("ignore")

HOWS = ["inner", "left", "right", "outer"]


def test_the_private_class_of_pandas_is_where_it_was():
    """What `mergeframes` names of pandas' own: if this fails, pandas has moved it."""
    assert hasattr(pandas_merge, "_MergeOperation"), "_MergeOperation has moved"
    for name in ("_get_join_indexers", "_get_join_info", "get_result", "_create_join_index"):
        assert hasattr(pandas_merge._MergeOperation, name), f"_MergeOperation.{name} has moved"
    frame = pd.DataFrame({"k": [1]})
    operation = pandas_merge._MergeOperation(frame, frame, on="k", sort=False)
    for name in ("left_join_keys", "right_join_keys", "left_index", "right_index", "how", "left"):
        assert hasattr(operation, name), f"_MergeOperation.{name} has moved"
    found = operation._get_join_info()
    assert len(found) == 3, "_get_join_info no longer returns the index and two indexers"


def test_our_indexers_are_used(monkeypatch):
    """pandas' own search must not run for keys that the kernels can do."""
    monkeypatch.setattr(pandas_merge, "get_join_indexers", None)
    monkeypatch.setattr(pandas_merge, "_left_join_on_index", None)
    monkeypatch.setattr(pd.Index, "join", None)
    left = pd.DataFrame({"k": [1, 2], "v": [1, 2]})
    right = pd.DataFrame({"k": [2, 3], "w": [1, 2]})
    for how in HOWS:
        merge_frames(left, right, how=how, left_on="k", right_on="k")
        merge_frames(left.set_index("k"), right, how=how, left_index=True, right_on="k")
        merge_frames(left, right.set_index("k"), how=how, left_on="k", right_index=True)
        sides = left.set_index("k"), right.set_index("k")
        merge_frames(*sides, how=how, left_index=True, right_index=True)


INTEGERS = [0, 1, 2, 2, 3, 1]
NULLABLE = [0, None, 2, 2, 3, None]
TEXTS = ["a", None, "", "é" * 9, "b", None]
TIMES = np.array([0, "NaT", 2, 2, 1000, 86400], "M8[s]")


def objects(*values):
    return pd.Series(list(values), dtype=object)


def arrow(values, type_):
    return pd.array(values, dtype=pd.ArrowDtype(type_))


def stamps(unit, zone=None):
    index = pd.DatetimeIndex(TIMES.astype(f"M8[{unit}]"))
    return index.tz_localize("UTC").tz_convert(zone) if zone else index.array


KEYS = {
    **{d: np.array(INTEGERS, d) for d in ("int8", "int64", "uint64", "float16", "complex128")},
    "bool": np.array([0, 1, 1, 0, 1, 1], bool),
    "float32": np.array([-0.0, np.nan, 2, 0.1, 3, 0.5], "float32"),
    "float64": np.array([0, np.nan, 2, -0.0, 3, 0.1]),
    "big floats": np.array([2.0**53, 2.0**63, 1e300, np.inf, -np.inf, -(2.0**63)]),
    "big int64": np.array([2**53, 2**53 + 1, 2**63 - 1, -(2**63), 1 - 2**63, 0]),
    "big uint64": np.array([2**53, 2**53 + 1, 2**63, 2**64 - 1, 2**63 - 1, 0], "uint64"),
    **{d: pd.array(NULLABLE, dtype=d) for d in ("Int8", "Int64", "UInt64", "Float64")},
    "Int64 without null": pd.array(INTEGERS, dtype="Int64"),
    "boolean": pd.array([True, None, False, True, False, None], dtype="boolean"),
    "arrow int": arrow(NULLABLE, pa.int64()),
    "arrow double": arrow(NULLABLE, pa.float64()),
    "arrow bool": arrow([True, None, False, True, False, None], pa.bool_()),
    "arrow decimal": arrow(
        [None if n is None else Decimal(n) for n in NULLABLE], pa.decimal128(9, 2)
    ),
    "arrow null": arrow([None] * 6, pa.null()),
    "datetime s": stamps("s"),
    "datetime ns": stamps("ns"),
    "datetime far": pd.array(np.array(["9999", "1970", "NaT", "0001", "2026", "1970"], "M8[us]")),
    "timedelta s": pd.array(TIMES.astype("i8").view("m8[s]")),
    "timedelta ns": pd.array(TIMES.astype("M8[ns]").astype("i8").view("m8[ns]")),
    "zone s": stamps("s", "UTC"),
    "zone ns": stamps("ns", "Europe/Berlin"),
    "arrow timestamp": arrow(list(pd.Series(TIMES)), pa.timestamp("us")),
    "arrow date": arrow([None if pd.isna(t) else t.date() for t in pd.Series(TIMES)], pa.date32()),
    "arrow duration": arrow(list(pd.Series(TIMES.astype("i8").view("m8[s]"))), pa.duration("ms")),
    "period": pd.array(
        pd.PeriodIndex(["2026-01", "2026-02", None, "1970-01"] + ["2026-02"] * 2, freq="M")
    ),
    "interval": pd.arrays.IntervalArray.from_tuples([(0, 1), (1, 2), None, (0, 1), (2, 3), (5, 6)]),
    "sparse": pd.arrays.SparseArray(INTEGERS),
    "str": pd.array(TEXTS, dtype="str"),
    "string python": pd.array(TEXTS, dtype="string[python]"),
    "string pyarrow": pd.array(TEXTS, dtype="string[pyarrow]"),
    "arrow string": arrow(TEXTS, pa.string()),
    "arrow binary": arrow([None if t is None else t.encode() for t in TEXTS], pa.binary()),
    "category str": pd.Categorical(pd.array(TEXTS, dtype="str")),
    "category str 2": pd.Categorical(["b", "x", None, "a", "", "b"], ["x", "b", "a", ""]),
    "category int": pd.Categorical(NULLABLE),
    "category int64": pd.Categorical(np.array(INTEGERS), [3, 2, 1, 0]),
    "category datetime": pd.Categorical(stamps("ns")),
    "category zone": pd.Categorical(stamps("s", "UTC")),
    "category decimal": pd.Categorical(arrow([Decimal(n) for n in INTEGERS], pa.decimal128(9, 2))),
    "category period": pd.Categorical(pd.period_range("1970-01", periods=6, freq="M")),
    "category ordered": pd.Categorical(INTEGERS, ordered=True),
    "category without": pd.Categorical([None] * 6),
    "object int": objects(*NULLABLE),
    "object float": objects(0.0, np.nan, 2.0, 2.5, 3.0, -0.0),
    "object numbers": objects(1, 1.0, True, Decimal(2), 2**70, 3 + 0j),
    "object str": objects("a", np.nan, "", "b", None, pd.NA),
    "object bytes": objects(b"a", b"b", b"", b"a", b"c", b"b"),
    "object mixed": objects("a", 1, None, 1.0, b"a", (1, 2)),
    "object times": objects(*pd.Series(TIMES)),
    "object nulls": objects(None, np.nan, pd.NA, pd.NaT, None, np.nan),
}


def token(value):
    """Name a value together with its type; all nulls alike."""
    return (
        "null" if pd.api.types.is_scalar(value) and pd.isna(value) else (type(value), repr(value))
    )


def rows(frame, index=False):
    columns = [[*map(token, frame.iloc[:, i].astype(object))] for i in range(frame.shape[1])]
    if index:
        columns.append([*map(token, frame.index)])
    return Counter(zip(*columns, strict=True))


def outcome(merge, *args, **options):
    try:
        return merge(*args, **options)
    except Exception as error:
        return type(error)


def assert_merged_alike(left, right, **options):
    expected = outcome(left.merge, right, **options)
    found = outcome(merge_frames, left, right, **options)
    if isinstance(expected, type) or isinstance(found, type):
        assert found is expected
        return None
    assert dict(found.dtypes) == dict(expected.dtypes)
    assert list(found.columns) == list(expected.columns)
    assert found.index.dtype == expected.index.dtype
    assert list(found.index.names) == list(expected.index.names)
    index = bool(options.get("left_index") or options.get("right_index"))
    assert rows(found, index) == rows(expected, index)
    return expected


@pytest.mark.parametrize("one", KEYS)
def test_every_pair_of_dtypes(one):
    hashes = {kind: hash_keys([pd.Series(values)]) for kind, values in KEYS.items()}
    for place, other in enumerate(KEYS):
        # The right is shifted: pandas takes a short cut where rows match one to one in order.
        right = pd.DataFrame({"k": KEYS[other], "w": range(6)}).iloc[[5, 0, 1, 2, 3, 4]]
        left = pd.DataFrame({"k": KEYS[one], "v": range(6)})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            matches = assert_merged_alike(left, right, how="inner", left_on="k", right_on="k")
            how = HOWS[1 + place % 3]
            assert_merged_alike(left, right, how=how, left_on="k", right_on="k")
        if matches is not None:
            same = hashes[one][matches.v] == hashes[other][matches.w]
            assert same.all(), f"{one} and {other}: equal values hash differently"


def variants(left, right):
    """Yield other ways to give the keys, and what else matters."""
    one, other = left.set_index("k"), right.set_index("k")
    on = {"left_on": "k", "right_on": "k"}
    yield left.iloc[:0], right, on
    yield left, right.iloc[:0], on
    yield one, other, {"left_index": True, "right_index": True}
    yield one.iloc[:0], other, {"left_index": True, "right_index": True}
    yield one[~one.index.duplicated()], other, {"left_index": True, "right_index": True}
    yield one, right, {"left_index": True, "right_on": "k"}
    yield left, other, {"left_on": "k", "right_index": True}
    yield one, right.rename(columns={"k": "q"}), {"left_index": True, "right_on": "q"}
    yield left.rename(columns={"k": "q"}), other, {"left_on": "q", "right_index": True}
    yield one.iloc[:0], right, {"left_index": True, "right_on": "k"}
    yield left, other.iloc[:0], {"left_on": "k", "right_index": True}
    yield one, right, on
    yield left, right.rename(columns={"k": "q"}), {"left_on": "k", "right_on": "q"}
    yield left, right, {**on, "indicator": True}
    yield left, right.rename(columns={"w": "v"}), {**on, "suffixes": (None, "_r")}
    j = {"left": list("ababab"), "right": list("abaabb")}
    both = {"left_on": ["k", "j"], "right_on": ["k", "j"]}
    yield left.assign(j=j["left"]), right.assign(j=j["right"]), both
    yield left.assign(j=1), right.assign(j=[1.0, 2, 1, 1, 2, 1]), both
    mixed = one.set_index(pd.Index(j["left"], name="j"), append=True)
    yield mixed, right.assign(j=j["right"]), {"left_index": True, "right_on": ["k", "j"]}


PAIRS = [
    *((kind, kind) for kind in KEYS if kind not in ("float16", "arrow null")),
    *product(["int8", "Int64", "float64", "object int", "category int64"], ["int64", "float32"]),
    *product(
        ["str", "string python", "object str", "category str"], ["arrow string", "category str 2"]
    ),
    *product(["datetime s", "category datetime"], ["datetime ns", "datetime far"]),
    ("zone s", "zone ns"),
    ("timedelta s", "timedelta ns"),
]


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_every_way_to_give_the_keys(pair):
    left = pd.DataFrame({"k": KEYS[pair[0]], "v": range(6)})
    right = pd.DataFrame({"k": KEYS[pair[1]], "w": range(6)}).iloc[[5, 0, 1, 2, 3, 4]]
    for number, (one, other, options) in enumerate(variants(left, right)):
        assert_merged_alike(one, other, how=HOWS[number % 4], **options)
        assert_merged_alike(one, other, how=HOWS[(number + 2) % 4], **options)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("keys", ["column", "index"])
@pytest.mark.parametrize("ordered", [True, False])
def test_keys_that_are_categorical_in_the_meta_remain_so(how, keys, ordered):
    left = pd.DataFrame({"k": pd.Categorical(list("abca")), "v": range(4)})
    right = pd.DataFrame({"k": pd.Categorical(list("bcd")), "w": range(3)})
    options = {"left_on": "k", "right_on": "k"}
    if ordered:
        left["k"] = left.k.cat.as_ordered()
        right["k"] = right.k.cat.as_ordered()
    if keys == "index":
        left, right = left.set_index("k"), right.set_index("k")
        options = {"left_index": True, "right_index": True}
    known = {"k": "category"}
    meta = pd.DataFrame({"k": [], "v": [], "w": []}).astype(known)
    meta = meta.set_index("k") if keys == "index" else meta
    found = merge_frames(left, right, how=how, meta=meta, **options).reset_index()
    expected = left.merge(right, how=how, **options).reset_index()
    if ordered:
        assert found.k.dtype == expected.k.dtype, "orders that differ can't be united"
    else:
        assert found.k.cat.categories.tolist() == list("abcd")
    columns = ["k", "v", "w"]
    assert rows(found[columns].astype(object)) == rows(expected[columns].astype(object))


def test_without_categories_in_the_meta_keys_become_what_pandas_makes_them():
    left = pd.DataFrame({"k": pd.Categorical(list("ab"))})
    right = pd.DataFrame({"k": pd.Categorical(list("bc"))})
    expected = left.merge(right, on="k")
    found = merge_frames(left, right, how="inner", left_on="k", right_on="k", meta=expected)
    pd.testing.assert_frame_equal(found, expected)


def test_left_semi_joins():
    left = pd.DataFrame({"k": [1, 2, 2, 3], "v": range(4)})
    right = pd.DataFrame({"k": [2, 2, 3, 3, 9]})
    found = merge_frames(left, right, how="leftsemi", left_on="k", right_on="k")
    assert sorted(found.v) == [1, 2, 3]
    assert list(found.columns) == ["k", "v"]
