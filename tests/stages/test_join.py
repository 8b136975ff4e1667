import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest


def frames(rows=300, seed=0):
    rng = np.random.default_rng(seed)
    left = pd.DataFrame(
        {
            "k": rng.integers(0, 60, rows),
            "j": rng.integers(0, 3, rows),
            "x": rng.normal(size=rows),
            "v": rng.integers(0, 9, rows),
        }
    )
    right = pd.DataFrame(
        {
            "k": rng.integers(20, 90, rows),
            "j": rng.integers(0, 3, rows),
            "y": rng.normal(size=rows),
            "v": rng.integers(0, 9, rows),
        }
    )
    return left, right


def dasked(left, right, parts=(5, 7)):
    return (
        dd.from_pandas(left, npartitions=parts[0], sort=False),
        dd.from_pandas(right, npartitions=parts[1], sort=False),
    )


@pytest.mark.parametrize("how", ["inner", "left", "right", "outer"])
def test_every_how(client, stages, assert_same_rows, how):
    left, right = frames()
    a, b = dasked(left, right)
    with stages(client, join=1):
        found = client.compute(a.merge(b, on="k", how=how)).result()
    assert_same_rows(found, left.merge(right, on="k", how=how))


def test_leftsemi(client2, stages, assert_same_rows):
    left, right = frames()
    a, b = dasked(left, right)
    with stages(client2, join=1):
        found = client2.compute(a.merge(b[["k"]], on="k", how="leftsemi")).result()
    assert_same_rows(found, left[left.k.isin(right.k)].reset_index(drop=True))


OPTIONS = {
    "several keys": {"on": ["k", "j"]},
    "other names": {"left_on": "k", "right_on": "v"},
    "several of other names": {"left_on": ["k", "j"], "right_on": ["v", "j"]},
    "suffixes": {"on": "k", "suffixes": ("_left", "")},
    "indicator": {"on": "k", "how": "outer", "indicator": True},
    "named indicator": {"on": "k", "how": "left", "indicator": "where"},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_options(client2, stages, assert_same_rows, options):
    left, right = frames()
    a, b = dasked(left, right)
    with stages(client2, join=1):
        found = client2.compute(a.merge(b, **options)).result()
    assert_same_rows(found, left.merge(right, **options))


def test_npartitions(client2, assert_same_rows):
    left, right = frames()
    a, b = dasked(left, right)
    joined = a.merge(b, on="k", npartitions=11)
    assert joined.npartitions == 11
    parts = client2.gather(client2.compute(joined.to_delayed()))
    assert len(parts) == 11
    assert_same_rows(pd.concat(parts, ignore_index=True), left.merge(right, on="k"))


@pytest.mark.parametrize("how", ["inner", "left", "right", "outer"])
@pytest.mark.parametrize("index", ["left", "right", "both"])
def test_index_as_key(client2, stages, how, index):
    left, right = frames()
    options = {"how": how}
    if index in ("left", "both"):
        left = left.set_index("k")
        options["left_index"] = True
    else:
        options["left_on"] = "k"
    if index in ("right", "both"):
        right = right.set_index("k")
        options["right_index"] = True
    else:
        options["right_on"] = "k"
    a, b = (frame.clear_divisions() for frame in dasked(left, right))
    with stages(client2, join=1):
        found = client2.compute(a.merge(b, **options)).result()
    expected = left.merge(right, **options)
    # pandas leaves -1 or NaN in an index that has no value for a row; compare it where it has.
    columns = list(expected.columns)
    pd.testing.assert_frame_equal(
        found[columns].sort_values(columns).reset_index(drop=True),
        expected.sort_values(columns).reset_index(drop=True),
    )
    if how == "inner":
        assert sorted(found.index) == sorted(expected.index)


def test_index_name_among_the_keys(client2, assert_same_rows):
    left, right = frames()
    left = left.set_index("k")
    a, b = dasked(left, right)
    a = a.clear_divisions()
    found = client2.compute(a.merge(b, on=["k", "j"])).result()
    expected = left.merge(right, on=["k", "j"])
    columns = list(expected.columns)
    assert list(found.columns) == columns
    assert_same_rows(found.reset_index(drop=True), expected.reset_index(drop=True))


def test_frequent_key(client, assert_same_rows):
    left, right = frames(rows=400)
    left.loc[::2, "k"] = 33
    right.loc[::3, "k"] = 33
    a, b = dasked(left, right)
    found = client.compute(a.merge(b, on="k")).result()
    assert_same_rows(found, left.merge(right, on="k"))


KEYS = {
    "int32": lambda v: v.astype("int32"),
    "uint8": lambda v: v.astype("uint8"),
    "negative": lambda v: v - 45,
    "large": lambda v: v + 2**62,
    "float": lambda v: v.astype("float64") / 3,
    "nan": lambda v: np.where(v % 5 == 0, np.nan, v.astype("float64")),
    "zeros": lambda v: np.where(v % 2 == 0, 0.0, -0.0),
    "bool": lambda v: v % 2 == 0,
    "Int64": lambda v: pd.array(np.where(v % 5 == 0, None, v), dtype="Int64"),
    "str": lambda v: pd.array([f"ключ-{x}" for x in v], dtype="str"),
    "string with null": lambda v: pd.array(
        [None if x % 5 == 0 else "x" * (x % 7) for x in v], dtype="string"
    ),
    "date": lambda v: pd.Timestamp("2026-01-01") + pd.to_timedelta(v, unit="D"),
    "date with null": lambda v: pd.Series(
        pd.Timestamp("2026-01-01") + pd.to_timedelta(v, unit="D")
    ).where(v % 5 != 0),
    "time zone": lambda v: (
        pd.Timestamp("2026-03-29", tz="Europe/Berlin") + pd.to_timedelta(v, unit="h")
    ),
    "timedelta": lambda v: pd.to_timedelta(v, unit="s"),
    "category": lambda v: pd.Categorical([f"c{x}" for x in v], [f"c{x}" for x in range(95)]),
    "decimal": lambda v: pd.array(
        [None if x % 5 == 0 else f"{x}.25" for x in v], dtype="string[pyarrow]"
    ).astype(pd.ArrowDtype(pa.decimal128(12, 2))),
    "arrow int": lambda v: pd.array(np.where(v % 5 == 0, None, v), dtype="int64[pyarrow]"),
    "period": lambda v: pd.PeriodIndex.from_ordinals(v, freq="D"),
    "object": lambda v: np.array([(int(x), "a") for x in v] + [None], dtype=object)[:-1],
}


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("how", ["inner", "outer"])
def test_key_types(client2, stages, assert_same_rows, kind, how):
    left, right = frames(rows=120)
    left["k"] = KEYS[kind](left.k.to_numpy())
    right["k"] = KEYS[kind](right.k.to_numpy())
    a, b = dasked(left, right, (3, 4))
    left, right = (frame.compute(scheduler="sync") for frame in (a, b))
    with stages(client2, join=1):
        found = client2.compute(a.merge(b, on="k", how=how)).result()
    if kind == "zeros":
        found["k"], left["k"], right["k"] = found.k.abs(), left.k.abs(), right.k.abs()
    assert_same_rows(found, left.merge(right, on="k", how=how))


PAIRS = {
    "int32 and int64": ("int32", "int64"),
    "int and float": ("int64", "float64"),
    "uint64 and int64": ("uint64", "int64"),
    "float32 and float64": ("float32", "float64"),
    "bool and int": ("bool", "int64"),
    "Int64 and int64": ("Int64", "int64"),
    "seconds and nanoseconds": ("datetime64[s]", "datetime64[ns]"),
    "timedelta units": ("timedelta64[ms]", "timedelta64[ns]"),
    "string storages": ("string[python]", "string[pyarrow]"),
    "object and string": ("object", "string[pyarrow]"),
}


@pytest.mark.filterwarnings("ignore:Merging dataframes with merge column data type mismatches")
@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_keys_of_different_types(client2, stages, assert_same_rows, pair):
    left, right = frames(rows=80)
    for frame, dtype in zip((left, right), pair, strict=True):
        values = frame.k % 2 if "bool" in pair else frame.k
        if dtype.startswith("datetime"):
            values = pd.to_datetime(values, unit="D")
        elif dtype.startswith("timedelta"):
            values = pd.to_timedelta(values, unit="D")
        text = dtype == "object" or dtype.startswith("string")
        frame["k"] = values.astype(str).astype(dtype) if text else values.astype(dtype)
    with dask.config.set({"dataframe.convert-string": False}):
        a, b = dasked(left, right, (3, 4))
        with stages(client2, join=1):
            found = client2.compute(a.merge(b, on="k")).result()
    assert len(found) > 0
    assert_same_rows(found, left.merge(right, on="k"))


def test_payload_of_every_kind(client2, assert_same_rows):
    rows = 60
    left, right = frames(rows=rows)
    numbers = np.arange(rows)
    left["object"] = [{"a": i} if i % 3 else None for i in range(rows)]
    left["list"] = pd.array([[i, i + 1] for i in range(rows)], pd.ArrowDtype(pa.list_(pa.int64())))
    left["struct"] = pd.array(
        [{"a": i, "b": str(i)} for i in range(rows)],
        pd.ArrowDtype(pa.struct([("a", pa.int64()), ("b", pa.string())])),
    )
    left["binary"] = pd.array([bytes([i]) for i in range(rows)], pd.ArrowDtype(pa.binary()))
    left["complex"] = numbers + 1j
    left["half"] = numbers.astype("float16")
    left["Boolean"] = pd.array(np.where(numbers % 3 == 0, None, numbers % 2 == 0), "boolean")
    left["category"] = pd.Categorical(numbers % 4, ordered=True)
    a, b = dasked(left, right, (3, 4))
    left, right = (frame.compute(scheduler="sync") for frame in (a, b))
    found = client2.compute(a.merge(b, on="k")).result()
    expected = left.merge(right, on="k")
    assert found.dtypes.equals(expected.dtypes)
    assert_same_rows(found, expected)


@pytest.mark.parametrize("how", ["inner", "left", "outer"])
def test_keys_that_are_categorical_remain_so(client2, stages, how):
    """As in Dask, whose meta says so; pandas makes values of categories that differ."""
    left = pd.DataFrame({"k": [0, 1, 2, 3], "x": [4, 5, 6, 7]})
    right = pd.DataFrame({"k": [0, 1, 2, 4], "y": [4, 5, 7, 7]})
    sides = [dd.from_pandas(side, npartitions=2) for side in (left, right)]
    sides = [side.assign(k=side.k.astype("category")) for side in sides]
    result = sides[0].merge(sides[1], on="k", how=how, broadcast=False)
    assert result.k.dtype == "category"
    with stages(client2, join=1):
        found = client2.compute(result).result()
    assert found.k.cat.categories.tolist() == [0, 1, 2, 3, 4]
    expected = left.merge(right, on="k", how=how).sort_values("k")
    pd.testing.assert_frame_equal(
        found.astype({"k": "int64"}).sort_values("k").reset_index(drop=True),
        expected.reset_index(drop=True),
    )


def test_categories_of_partitions_are_united(client2):
    parts = [
        pd.DataFrame({"k": [1, 2], "c": pd.Categorical(["a", "b"])}),
        pd.DataFrame({"k": [1, 3], "c": pd.Categorical(["c", "a"])}),
    ]
    meta = parts[0].iloc[:0]
    left = dd.from_map(lambda i: parts[i], range(2), meta=meta)
    right = dd.from_pandas(pd.DataFrame({"k": [1, 2, 3, 4], "y": range(4)}), npartitions=2)
    joined = left.merge(right, on="k", broadcast=False)
    found = client2.gather(client2.compute(joined.to_delayed()))
    assert all(list(part.c.cat.categories) == ["a", "b", "c"] for part in found)
    values = pd.concat(found).sort_values(["k", "c"]).c.astype(str).tolist()
    assert values == ["a", "c", "b", "a"]


@pytest.mark.parametrize("how", ["inner", "left", "right", "outer"])
@pytest.mark.parametrize("empty", ["left", "right", "both"])
def test_empty_frames(client2, assert_same_rows, how, empty):
    left, right = frames(rows=20)
    a, b = dasked(left, right, (3, 2))
    if empty in ("left", "both"):
        a, left = a[a.k < 0], left[left.k < 0]
    if empty in ("right", "both"):
        b, right = b[b.k < 0], right[right.k < 0]
    found = client2.compute(a.merge(b, on="k", how=how)).result()
    expected = left.merge(right, on="k", how=how)
    assert list(found.columns) == list(expected.columns)
    assert_same_rows(found, expected, check_dtype=len(expected) > 0)


def test_more_ranks_than_rows(clusters, assert_same_rows):
    client = clusters.client(4)
    left = pd.DataFrame({"k": [1, 2], "x": [1.0, 2.0]})
    right = pd.DataFrame({"k": [2, 3], "y": [3.0, 4.0]})
    a, b = dasked(left, right, (2, 2))
    with client.as_current():
        found = client.compute(a.merge(b, on="k", how="outer", broadcast=False)).result()
    assert_same_rows(found, left.merge(right, on="k", how="outer"))


def test_partition_that_differs_from_the_meta(client2):
    meta = pd.DataFrame({"k": [1], "x": [1.0]}).iloc[:0]
    left = dd.from_map(
        lambda i: pd.DataFrame({"k": [1, 2], "wrong": [1.0, 2.0]}), range(3), meta=meta
    )
    right = dd.from_pandas(pd.DataFrame({"k": [1, 2], "y": [1, 2]}), npartitions=2)
    with pytest.raises(ValueError, match="do not match the columns.*\n.*wrong"):
        client2.compute(left.merge(right, on="k", broadcast=False)).result()
    # The pilot goes on with the next stage.
    again = right.merge(right, on="k", broadcast=False)
    assert len(client2.compute(again).result()) == 2


def test_dtype_that_differs_from_the_meta(client2, assert_same_rows):
    """A left join before may have made floats of integers in some partitions only."""
    parts = [
        pd.DataFrame({"k": [1, 2, 3], "x": [1, 2, 3]}),
        pd.DataFrame({"k": [1.0, np.nan, 3.0], "x": [1.5, np.nan, 3.0]}),
    ]
    left = dd.from_map(lambda i: parts[i], range(2), meta=parts[0].iloc[:0])
    right = pd.DataFrame({"k": [1, 3, 5], "y": [1, 2, 3]})
    b = dd.from_pandas(right, npartitions=2)
    found = client2.compute(left.merge(b, on="k", broadcast=False)).result()
    expected = pd.concat(parts, ignore_index=True).merge(right, on="k")
    assert_same_rows(found.astype(float), expected.astype(float))
