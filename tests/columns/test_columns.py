"""Frames to fragments and back, hashes, merges: pandas is the judge."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dask_rcylon.columns.frame import BucketColumns, Fragment, to_columns, to_frame
from dask_rcylon.columns.hashing import hash_keys
from dask_rcylon.columns.mergeframes import merge_frames
from dask_rcylon.columns.scalars import hash_scalar
from dask_rcylon.columns.schema import FrameSchema, unsupported
from dask_rcylon.columns.sortkeys import sort_words, sortable
from dask_rcylon.kernels.cpu import argsort, unpack

N = 40
NUMBERS = np.arange(N) % 11 - 4
NULL = np.arange(N) % 5 == 0


def nullable(values, dtype):
    return pd.array([None if n else v for v, n in zip(values, NULL, strict=True)], dtype=dtype)


def arrow(values, type_):
    values = [None if n else v for v, n in zip(values, NULL, strict=True)]
    return pd.array(values, dtype=pd.ArrowDtype(type_))


DAYS = [datetime.date(2026, 1, 1) + datetime.timedelta(int(n)) for n in NUMBERS]
ARRAYS = {
    **{f"numpy {d}": NUMBERS.astype(d) for d in ("int8", "int64", "float16", "float32", "bool")},
    "numpy uint64": NUMBERS.astype("uint64"),
    "numpy complex": NUMBERS + 1j,
    "datetime s": pd.array(NUMBERS.astype("M8[s]")),
    "datetime ns": pd.array(np.where(NULL, np.datetime64("NaT"), NUMBERS.astype("M8[ns]"))),
    "timedelta": pd.array(NUMBERS.astype("m8[ms]")),
    "time zone": pd.array(pd.date_range("2026-03-28", periods=N, freq="h", tz="Europe/Berlin")),
    "period": pd.array(pd.period_range("2026-01", periods=N, freq="M")),
    "Int8": nullable(NUMBERS, "Int8"),
    "Float64": nullable(NUMBERS / 2, "Float64"),
    "boolean": nullable(NUMBERS > 0, "boolean"),
    "str": nullable([f"é{n}" for n in NUMBERS], "str"),
    "string python": nullable([f"é{n}" for n in NUMBERS], "string[python]"),
    "string pyarrow": nullable(["" if n < 0 else "x" * 99 for n in NUMBERS], "string[pyarrow]"),
    "category": pd.Categorical(nullable([f"c{n}" for n in NUMBERS], "str")),
    "ordered category": pd.Categorical(NUMBERS, ordered=True),
    "arrow int": arrow(NUMBERS.tolist(), pa.int16()),
    "arrow double": arrow((NUMBERS / 2).tolist(), pa.float64()),
    "arrow bool": arrow((NUMBERS > 0).tolist(), pa.bool_()),
    "arrow string": arrow([str(n) for n in NUMBERS], pa.string()),
    "arrow binary": arrow([bytes([abs(n)]) for n in NUMBERS], pa.binary()),
    "arrow date": arrow(DAYS, pa.date32()),
    "arrow timestamp": arrow([pd.Timestamp(d) for d in DAYS], pa.timestamp("us")),
    "arrow decimal": arrow([Decimal(int(n)) / 4 for n in NUMBERS], pa.decimal128(20, 2)),
    "arrow list": arrow([[int(n)] * 2 for n in NUMBERS], pa.list_(pa.int64())),
    "arrow struct": arrow([{"a": int(n)} for n in NUMBERS], pa.struct([("a", pa.int32())])),
    "interval": pd.arrays.IntervalArray.from_breaks(np.arange(N + 1)),
    "sparse": pd.arrays.SparseArray(NUMBERS, fill_value=0),
    "object": np.array([{"a": 1}, None, np.nan, "text", 3, (1, 2), b"x", pd.NaT] * 5, object),
}


def through_buckets(frame, parts=3, index=True):
    """Send a frame through a fragment and back; return the buckets as frames."""
    schema = FrameSchema.from_meta(frame, index=index)
    ids = (np.arange(len(frame)) % parts).astype(np.uint16)
    fragment = Fragment(to_columns(frame, schema), ids, parts)
    allocate = lambda nbytes: np.full(nbytes, 0xEE, np.uint8)  # noqa: E731
    totals = fragment.counts
    buckets = [
        BucketColumns.allocate(fragment.layout, fragment.widths, row[0], row[1:], allocate)
        for row in totals
    ]
    addresses = np.array([bucket.addresses() for bucket in buckets]).reshape(parts, -1)
    data = fragment.pack(allocate)
    assert len(data) == fragment.nbytes
    unpack(data, totals, fragment.widths, addresses, np.zeros_like(totals))
    return [
        to_frame(schema, bucket, [fragment.extras], [int(rows)])
        for bucket, rows in zip(buckets, totals[:, 0], strict=True)
    ]


@pytest.mark.parametrize("kind", ARRAYS)
@pytest.mark.parametrize("part", ["whole", "slice", "empty"])
def test_frames_come_back_as_they_went(kind, part):
    frame = pd.DataFrame({"x": ARRAYS[kind], 7: np.arange(N)})
    frame = {"whole": frame, "slice": frame.iloc[3:29], "empty": frame.iloc[:0]}[part]
    for number, found in enumerate(through_buckets(frame)):
        pd.testing.assert_frame_equal(found, frame.iloc[number::3], check_index_type=False)


@pytest.mark.parametrize(
    "index",
    [
        pd.Index([f"r{i}" for i in range(N)], name="label"),
        pd.date_range("2026", periods=N, name="t"),
        pd.MultiIndex.from_arrays([np.arange(N), list("ab") * (N // 2)], names=["i", None]),
    ],
    ids=["strings", "dates", "levels"],
)
def test_the_index_travels(index):
    frame = pd.DataFrame({"x": np.arange(N)}, index=index)
    found = pd.concat(through_buckets(frame)).sort_values("x")
    pd.testing.assert_frame_equal(found, frame, check_freq=False)
    for found in through_buckets(frame, index=False):
        assert found.index.equals(pd.RangeIndex(len(found)))


def test_a_partition_with_other_columns():
    schema = FrameSchema.from_meta(pd.DataFrame({"a": [1], "b": [2]}), index=False)
    with pytest.raises(ValueError, match=r"partition 3[\s\S]*'c'[\s\S]*'b'"):
        schema.check(pd.DataFrame({"a": [1], "c": [2]}), 3)
    with pytest.raises(ValueError, match="Order"):
        schema.check(pd.DataFrame({"b": [1], "a": [2]}), 3)


def test_frames_that_cannot_travel():
    assert unsupported(pd.DataFrame({"a": [1]})) is None
    assert "not unique" in unsupported(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    columns = pd.MultiIndex.from_tuples([("a", "b")])
    assert "more than one level" in unsupported(pd.DataFrame([[1]], columns=columns))
    assert "not pandas" in unsupported(object())


ALIKE = {
    "one": [1, 1.0, True, np.int8(1), np.float32(1), Decimal("1.00")],
    "half": [0.5, np.float32(0.5), Decimal("0.50")],
    "zero": [0, 0.0, -0.0, False],
    "null": [None, np.nan, pd.NA, pd.NaT, float("nan")],
    "text": ["x", np.str_("x")],
    "day": [
        pd.Timestamp("2026-01-01"),
        datetime.datetime(2026, 1, 1),
        np.datetime64("2026-01-01"),
        datetime.date(2026, 1, 1),
    ],
    "span": [pd.Timedelta("1s"), datetime.timedelta(seconds=1), np.timedelta64(1000, "ms")],
}


@pytest.mark.parametrize("values", ALIKE.values(), ids=ALIKE)
def test_equal_objects_hash_alike(values):
    assert len({int(hash_scalar(value)) for value in values}) == 1


SAME_COLUMNS = {
    "ints": ["int8", "int64", "uint16", "float64", "Int32", "int64[pyarrow]", "object"],
    "texts": ["str", "string[python]", "string[pyarrow]", "object", "category"],
    "times": ["M8[s]", "M8[ms]", "M8[ns]", "timestamp[us][pyarrow]", "category"],
}


@pytest.mark.parametrize("kind", SAME_COLUMNS)
def test_equal_columns_hash_alike(kind):
    values = pd.Series(np.arange(20))
    if kind == "texts":
        values = "t" + values.astype("str")
    if kind == "times":
        values = values.astype("M8[s]")
    hashes = [hash_keys([values.astype(dtype)]) for dtype in SAME_COLUMNS[kind]]
    for found in hashes[1:]:
        assert (found == hashes[0]).all()
    assert len(set(hashes[0].tolist())) == 20


def test_decimals_of_different_scales_hash_alike():
    values = [Decimal("1.5"), Decimal("123456789012345.25"), None, Decimal("-3")]
    one = pd.Series(values, dtype=pd.ArrowDtype(pa.decimal128(20, 2)))
    two = pd.Series(values, dtype=pd.ArrowDtype(pa.decimal128(30, 9)))
    assert (hash_keys([one]) == hash_keys([two])).all()
    assert hash_keys([one])[3] == hash_scalar(-3)


def rows(frame):
    frame = frame.reset_index(drop=True)
    order = frame.astype(str).sort_values(list(frame.columns)).index
    return frame.loc[order].reset_index(drop=True)


PAIRS = [
    ("int64", "int64"),
    ("int32", "int64"),
    ("int64", "float64"),
    ("uint64", "int64"),
    ("float32", "float64"),
    ("bool", "int64"),
    ("Int64", "int64"),
    ("Int64", "Int8"),
    ("Float64", "float64"),
    ("M8[s]", "M8[ns]"),
    ("m8[ms]", "m8[ns]"),
    ("str", "str"),
    ("str", "object"),
    ("string[python]", "string[pyarrow]"),
    ("category", "category"),
    ("int64[pyarrow]", "int64[pyarrow]"),
    ("double[pyarrow]", "double[pyarrow]"),
    ("object", "object"),
]


@pytest.mark.filterwarnings("ignore:You are merging on int and float columns")
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
@pytest.mark.parametrize("how", ["inner", "left", "right", "outer"])
@pytest.mark.parametrize("keys", [["k"], ["k", "j"]], ids=["one", "two"])
def test_merges_are_those_of_pandas(pair, how, keys):
    rng = np.random.default_rng(0)
    frames = []
    for number, dtype in enumerate(pair):
        values = pd.Series(rng.integers(0, 9, 30) + 3 * number)
        if dtype == "bool":
            values = values % 2 == 0
        if dtype in ("str", "string[python]", "string[pyarrow]", "category") or "str" in pair:
            values = "t" + values.astype("str")
        values = values.astype(dtype)
        if dtype not in ("bool", "int64", "int32", "uint64"):
            values[rng.integers(0, 30, 4)] = None
        frames.append(
            pd.DataFrame({"k": values, "j": rng.integers(0, 2, 30), f"v{number}": range(30)})
        )
    found = merge_frames(*frames, how=how, left_on=keys, right_on=keys)
    expected = frames[0].merge(frames[1], how=how, on=keys)
    assert type(found.index) is type(expected.index)
    pd.testing.assert_frame_equal(rows(found), rows(expected))


@pytest.mark.parametrize("how", ["inner", "left", "right", "outer"])
@pytest.mark.parametrize("options", [{}, {"suffixes": ("", "_r")}, {"indicator": True}])
def test_merge_options(how, options):
    left = pd.DataFrame({"k": [1, 2, 2, 9], "v": [1, 2, 3, 4], "c": pd.Categorical(list("abca"))})
    right = pd.DataFrame({"k": [2, 2, 1, 7], "v": [True, False, True, True]})
    found = merge_frames(left, right, how=how, left_on="k", right_on="k", **options)
    expected = left.merge(right, how=how, on="k", **options)
    pd.testing.assert_frame_equal(rows(found), rows(expected))


@pytest.mark.parametrize("how", ["inner", "left", "right", "outer"])
@pytest.mark.parametrize("index", ["left", "right", "both"])
def test_merges_on_an_index(how, index):
    left = pd.DataFrame({"a": range(6)}, index=pd.Index([1, 2, 2, 3, 5, 8], name="k"))
    right = pd.DataFrame({"b": range(5)}, index=pd.Index([2, 3, 3, 7, 9], name="k"))
    options = {"left_index": True, "right_index": True}
    if index == "left":
        right, options = right.reset_index(), {"left_index": True, "right_on": "k"}
    if index == "right":
        left, options = left.reset_index(), {"right_index": True, "left_on": "k"}
    found = merge_frames(left, right, how=how, **options)
    expected = left.merge(right, how=how, **options)
    assert found.index.name == expected.index.name
    both = [
        frame.reset_index(names="index_").sort_values(list("ab")) for frame in (found, expected)
    ]
    pd.testing.assert_frame_equal(*(frame.reset_index(drop=True) for frame in both))


def test_what_pandas_refuses_is_refused():
    left, right = pd.DataFrame({"k": [1]}), pd.DataFrame({"k": ["a"]})
    with pytest.raises(ValueError, match="You are trying to merge on"):
        merge_frames(left, right, how="inner", left_on="k", right_on="k")
    with pytest.raises(KeyError, match="missing"):
        merge_frames(left, right, how="inner", left_on="missing", right_on="k")


@pytest.mark.parametrize("kind", [k for k, a in ARRAYS.items() if sortable(a.dtype)])
@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("na_position", ["first", "last"])
def test_words_are_in_the_order_of_pandas(kind, ascending, na_position):
    frame = pd.DataFrame({"x": ARRAYS[kind]}).sample(frac=1, random_state=0, ignore_index=True)
    words = sort_words([frame.x.array], [ascending], na_position, 16)
    expected = frame.sort_values("x", ascending=ascending, na_position=na_position, kind="stable")
    assert argsort(words).tolist() == expected.index.tolist()


def test_extreme_values_sort():
    values = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 1.7e308])
    order = argsort(sort_words([values], [True], "last", 0))
    assert values[order][:-1].tolist() == sorted(values[~np.isnan(values)].tolist())
    integers = np.array([2**63 - 1, -(2**63), 0, -1, 1])
    order = argsort(sort_words([integers], [False], "last", 0))
    assert integers[order].tolist() == sorted(integers.tolist(), reverse=True)
