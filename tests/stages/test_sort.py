import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest


def frame(rows=500, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "a": rng.integers(0, 20, rows),
            "b": rng.normal(size=rows),
            "s": pd.array(
                [None if x == 0 else f"{'z' * (x % 3)}{x}" for x in rng.integers(0, 30, rows)],
                dtype="str",
            ),
            "row": np.arange(rows),
        }
    )


SORTS = {
    "one column": {"by": "a"},
    "descending": {"by": "a", "ascending": False},
    "several": {"by": ["a", "b"]},
    "each its way": {"by": ["s", "a", "b"], "ascending": [False, True, False]},
    "strings": {"by": "s"},
    "nulls first": {"by": ["s", "b"], "na_position": "first"},
    "nulls first, descending": {"by": "s", "ascending": False, "na_position": "first"},
}


@pytest.mark.parametrize("options", SORTS.values(), ids=SORTS)
def test_order(client, stages, options):
    ddf = dd.from_pandas(frame(), npartitions=6)
    df = ddf.compute(scheduler="sync")
    with stages(client, sort=1):
        found = client.compute(ddf.sort_values(**options)).result()
    pd.testing.assert_frame_equal(found, df.sort_values(**options, kind="stable"))


@pytest.mark.parametrize("parts", [1, 2, 13])
def test_npartitions(client2, parts):
    df = frame()
    result = dd.from_pandas(df, npartitions=4).sort_values("b", npartitions=parts)
    assert result.npartitions == parts
    found = client2.gather(client2.compute(result.to_delayed()))
    assert len(found) == parts
    assert pd.concat(found)["row"].tolist() == df.sort_values("b")["row"].tolist()


def test_ignore_index(client2):
    result = dd.from_pandas(frame(), npartitions=4).sort_values("b", ignore_index=True)
    for part in client2.gather(client2.compute(result.to_delayed())):
        assert part.index.equals(pd.RangeIndex(len(part)))


def test_frequent_value_is_spread(client, stages):
    df = frame(1000)
    df["a"] = np.where(df["row"] % 10 == 0, df["a"] - 10, 5)
    ddf = dd.from_pandas(df, npartitions=8)
    df = ddf.compute(scheduler="sync")
    result = ddf.sort_values("a")
    with stages(client, sort=1):
        parts = client.gather(client.compute(client.persist(result).to_delayed()))
    sizes = [len(part) for part in parts]
    assert max(sizes) < 1.3 * len(df) / len(parts), sizes
    pd.testing.assert_frame_equal(pd.concat(parts), df.sort_values("a", kind="stable"))


def test_input_is_read_once(client2, tmp_path):
    def read(number):
        (tmp_path / f"{number}-{np.random.default_rng().integers(1 << 60)}").touch()
        return frame(50, number)

    ddf = dd.from_map(read, range(4), meta=frame(2).iloc[:0])
    client2.compute(ddf.sort_values("a")).result()
    assert len(list(tmp_path.iterdir())) == 4


DTYPES = {
    "int8": lambda v: v.astype("int8"),
    "uint64": lambda v: v.astype("uint64") + 2**63,
    "float with nan": lambda v: np.where(v % 7 == 0, np.nan, v - 10.5),
    "infinity": lambda v: np.where(v % 7 == 0, np.inf, np.where(v % 5 == 0, -np.inf, v)),
    "bool": lambda v: v % 2 == 0,
    "Int64": lambda v: pd.array(np.where(v % 7 == 0, None, v - 10), dtype="Int64"),
    "date": lambda v: pd.Timestamp("1969-12-20") + pd.to_timedelta(v, unit="D"),
    "date with null": lambda v: pd.Series(
        pd.Timestamp("1969-12-20") + pd.to_timedelta(v, unit="D")
    ).where(v % 7 != 0),
    "time zone": lambda v: (
        pd.Timestamp("2026-03-29", tz="Europe/Berlin") + pd.to_timedelta(v, unit="h")
    ),
    "category": lambda v: pd.Categorical(
        [None if x % 7 == 0 else f"c{x}" for x in v], [f"c{x}" for x in range(20, -1, -1)]
    ),
    "long strings": lambda v: pd.array(["x" * 300 + str(x) for x in v], dtype="str"),
    "zero bytes": lambda v: pd.array(["a" + "\0" * (x % 4) for x in v], dtype="str"),
    "arrow float": lambda v: pd.array(np.where(v % 7 == 0, None, v / 2), dtype="double[pyarrow]"),
    "decimal": lambda v: pd.array([f"{x - 10}.5" for x in v], dtype="string[pyarrow]").astype(
        pd.ArrowDtype(__import__("pyarrow").decimal128(12, 2))
    ),
}


@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("kind", DTYPES)
def test_key_types(client2, stages, kind, ascending):
    df = frame(200)
    df["a"] = DTYPES[kind](df["a"].to_numpy())
    ddf = dd.from_pandas(df, npartitions=4)
    df = ddf.compute(scheduler="sync")
    with stages(client2, sort=1):
        found = client2.compute(ddf.sort_values("a", ascending=ascending)).result()
    pd.testing.assert_frame_equal(found, df.sort_values("a", ascending=ascending, kind="stable"))


def test_five_rows_on_four_ranks(clusters):
    client = clusters.client(4)
    df = pd.DataFrame({"a": [3, 1, 2, 5, 4]})
    with client.as_current():
        found = client.compute(dd.from_pandas(df, npartitions=5).sort_values("a")).result()
    assert found.a.tolist() == [1, 2, 3, 4, 5]


def test_all_partitions_empty(client2):
    ddf = dd.from_pandas(frame(), npartitions=4)
    found = client2.compute(ddf[ddf.a < 0].sort_values("a")).result()
    assert len(found) == 0
    assert list(found.columns) == ["a", "b", "s", "row"]


def test_groups_of_a_sorted_aggregation_stay_together(client2):
    df = frame(600)
    ddf = dd.from_pandas(df, npartitions=6)
    found = client2.compute(ddf.groupby("a", sort=True).b.sum(split_out=4)).result()
    pd.testing.assert_series_equal(found, df.groupby("a").b.sum())
