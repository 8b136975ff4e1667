import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask.dataframe.utils import assert_divisions


def frame(rows=400):
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "k": rng.integers(0, 100, rows),
            "f": rng.normal(size=rows),
            "s": pd.array([f"n{x:03d}" for x in rng.integers(0, 50, rows)], dtype="str"),
            "t": pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 90, rows), unit="D"),
            "i": pd.array(rng.integers(0, 100, rows), dtype="Int64"),
            "w": pd.array(rng.integers(0, 100, rows), dtype="int64[pyarrow]"),
            "h": rng.normal(size=rows).astype("float32"),
            "row": np.arange(rows),
        }
    )


@pytest.mark.parametrize("label", list("kfstiwh"))
def test_divisions_are_known_and_true(client, stages, label):
    ddf = dd.from_pandas(frame(), npartitions=5)
    df = ddf.compute(scheduler="sync")
    with stages(client, set_index=1):
        result = client.persist(ddf.set_index(label))
        found = client.compute(result).result()
    assert result.known_divisions
    assert_divisions(result, scheduler=client)
    pd.testing.assert_frame_equal(found, df.set_index(label).sort_index(kind="stable"))


OPTIONS = {
    "drop": {"drop": False},
    "npartitions": {"npartitions": 3},
    "divisions": {"divisions": (0, 10, 50, 60, 99)},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_options(client2, stages, options):
    ddf = dd.from_pandas(frame(), npartitions=5)
    df = ddf.compute(scheduler="sync")
    with stages(client2, set_index=1):
        result = client2.persist(ddf.set_index("k", **options))
        found = client2.compute(result).result()
    expected = df.set_index("k", drop=options.get("drop", True)).sort_index(kind="stable")
    pd.testing.assert_frame_equal(found.sort_values("row"), expected.sort_values("row"))
    assert found.index.is_monotonic_increasing
    assert_divisions(result, scheduler=client2)
    if "divisions" in options:
        assert result.divisions == options["divisions"]
    if "npartitions" in options:
        assert result.npartitions == options["npartitions"]


def test_series_as_index(client2, stages):
    ddf = dd.from_pandas(frame(), npartitions=5)
    df = ddf.compute(scheduler="sync")
    with stages(client2, set_index=1):
        found = client2.compute(ddf.set_index(ddf.k * 2)).result()
    expected = df.set_index(df.k * 2).sort_index(kind="stable")
    pd.testing.assert_frame_equal(found, expected)


OUTSIDE = {
    "int64": (lambda k: k, (20, 40, 60)),
    "int32": (lambda k: k.astype("int32"), (20, 40, 60)),
    "nullable": (lambda k: k.astype("Int64"), (20, 40, 60)),
    "time": (
        lambda k: pd.to_datetime(k, unit="D"),
        tuple(pd.to_datetime([20, 40, 60], unit="D")),
    ),
    "string": (lambda k: k.map("{:03}".format), ("020", "040", "060")),
}


@pytest.mark.parametrize("kind", OUTSIDE)
def test_values_outside_the_divisions_keep_the_order(client2, stages, kind):
    df = frame()
    make, divisions = OUTSIDE[kind]
    df["k"] = make(df.k)
    ddf = dd.from_pandas(df, npartitions=5).set_index("k", divisions=divisions)
    with stages(client2, set_index=1):
        parts = client2.gather(client2.compute(client2.persist(ddf).to_delayed()))
    found = pd.concat(parts)
    assert len(found) == len(df)
    assert found.index.is_monotonic_increasing
    assert [part.index.min() for part in parts][1] == divisions[1]


def test_equal_values_share_a_partition(client2):
    df = pd.DataFrame({"k": np.repeat([1, 2, 3], [10, 300, 10]), "x": range(320)})
    result = dd.from_pandas(df, npartitions=8).set_index("k", divisions=(1, 2, 3))
    parts = client2.gather(client2.compute(client2.persist(result).to_delayed()))
    assert [set(part.index) for part in parts] == [{1}, {2, 3}]


def test_many_divisions(client2):
    df = pd.DataFrame({"k": np.random.default_rng(0).permutation(4096), "x": range(4096)})
    divisions = [*range(0, 4096, 4), 4095]
    result = dd.from_pandas(df, npartitions=4).set_index("k", divisions=divisions)
    found = client2.compute(result).result()
    pd.testing.assert_frame_equal(found, df.set_index("k").sort_index())
