import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest


def frame(rows=300):
    rng = np.random.default_rng(2)
    return pd.DataFrame(
        {
            "k": rng.integers(0, 30, rows),
            "s": rng.choice(["p", "q", "r"], rows),
            "x": rng.normal(size=rows),
        }
    )


def partitions(client, ddf):
    return client.gather(client.compute(client.persist(ddf).to_delayed()))


@pytest.mark.parametrize("on", ["k", ["k", "s"], "s"])
def test_equal_keys_share_a_partition(client, stages, on):
    ddf = dd.from_pandas(frame(), npartitions=6)
    df = ddf.compute(scheduler="sync")
    with stages(client, shuffle=1):
        parts = partitions(client, ddf.shuffle(on))
    pd.testing.assert_frame_equal(pd.concat(parts).sort_index(), df)
    keys = [on] if isinstance(on, str) else on
    owners = pd.concat([p[keys].drop_duplicates() for p in parts])
    assert not owners.duplicated().any()


def test_npartitions_index_and_series(client2, stages):
    df = frame()
    ddf = dd.from_pandas(df, npartitions=4)
    with stages(client2, shuffle=3):
        assert len(partitions(client2, ddf.shuffle("k", npartitions=9))) == 9
        by_index = partitions(client2, ddf.set_index("k", sort=False).shuffle(on_index=True))
        by_series = partitions(client2, ddf.shuffle(ddf.k % 3))
    for parts, key in ((by_index, lambda p: p.index), (by_series, lambda p: p.k % 3)):
        owners = pd.concat([pd.Series(key(p)).drop_duplicates() for p in parts])
        assert not owners.duplicated().any()
        assert sum(map(len, parts)) == len(df)
    assert all(list(p.columns) == ["k", "s", "x"] for p in by_series)


def test_ignore_index(client2):
    ddf = dd.from_pandas(frame(), npartitions=4).shuffle("k", ignore_index=True)
    assert all(p.index.equals(pd.RangeIndex(len(p))) for p in partitions(client2, ddf))


@pytest.mark.parametrize("labels", [(0, 1, 2), ("a b", ("t", 1), 3.5)])
def test_labels_need_not_be_strings(client2, labels):
    df = frame().set_axis(pd.Index(labels, tupleize_cols=False), axis=1)
    ddf = dd.from_pandas(df, npartitions=3)
    df = ddf.compute(scheduler="sync")
    found = pd.concat(partitions(client2, ddf.shuffle([labels[0]])))
    pd.testing.assert_frame_equal(found.sort_index(), df)


def test_groupby_apply(client, stages):
    df = frame()
    ddf = dd.from_pandas(df, npartitions=5)
    with stages(client, shuffle=1):
        result = ddf.groupby("k").apply(lambda g: g.x.max(), meta=("x", "f8"))
        found = client.compute(result).result()
    expected = df.groupby("k").apply(lambda g: g.x.max())
    pd.testing.assert_series_equal(found.sort_index(), expected, check_names=False)


def test_groupby_transform(client2, stages):
    df = frame()
    ddf = dd.from_pandas(df, npartitions=5)
    with stages(client2, shuffle=1):
        result = ddf.groupby("k").x.transform("sum", meta=("x", "f8"))
        found = client2.compute(result).result()
    pd.testing.assert_series_equal(found.sort_index(), df.groupby("k").x.transform("sum"))


def test_groupby_agg_with_split_out(client2, stages):
    df = frame()
    ddf = dd.from_pandas(df, npartitions=8)
    with stages(client2, shuffle=1):
        found = client2.compute(ddf.groupby(["k", "s"]).x.sum(split_out=4)).result()
    expected = df.groupby(["k", "s"]).x.sum()
    found.index = found.index.set_levels(found.index.levels[1].astype("str"), level=1)
    pd.testing.assert_series_equal(found.sort_index(), expected, check_index_type=False)


def test_drop_duplicates_keeps_the_first(client2, stages):
    df = frame()
    ddf = dd.from_pandas(df, npartitions=5)
    df = ddf.compute(scheduler="sync")
    with stages(client2, shuffle=1):
        found = client2.compute(ddf.drop_duplicates(subset=["k"])).result()
    pd.testing.assert_frame_equal(found.sort_index(), df.drop_duplicates(subset=["k"]))


def test_nunique_and_unique(client2, stages):
    df = frame()
    ddf = dd.from_pandas(df, npartitions=5)
    with stages(client2, shuffle=2):
        assert client2.compute(ddf.k.nunique()).result() == df.k.nunique()
        assert sorted(client2.compute(ddf.k.unique()).result()) == sorted(df.k.unique())


@pytest.mark.parametrize("parts", [127, 128, 129, 130, 256, 257])
def test_many_partitions(client2, parts):
    df = pd.DataFrame({"k": np.arange(1000), "x": np.arange(1000.0)})
    left = dd.from_pandas(df, npartitions=parts)
    right = dd.from_pandas(df.iloc[::-1], npartitions=4, sort=False)
    found = client2.compute(left.merge(right, on="k", broadcast=False)).result()
    assert sorted(found.k) == list(range(1000))


def test_only_the_wanted_partitions_are_made(client2, stages):
    ddf = dd.from_pandas(frame(), npartitions=5).shuffle("k", npartitions=6)
    whole = partitions(client2, ddf)
    with stages(client2, shuffle=1):
        some = partitions(client2, ddf.partitions[[4, 1]])
    for found, expected in zip(some, (whole[4], whole[1]), strict=True):
        pd.testing.assert_frame_equal(found, expected)
