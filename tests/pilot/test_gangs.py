"""Stages at the same time, on gangs that overlap."""

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import wait

from dask_rcylon.pilot.attach import pilot_of
from tests.waiting import wait_until


def table(seed, rows=200):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"k": rng.integers(0, 50, rows), f"v{seed}": rng.normal(size=rows)})


def placed(client, frame, workers, parts=2):
    ddf = client.persist(dd.from_pandas(frame, npartitions=parts), workers=workers)
    wait(ddf)
    return ddf


def test_overlapping_gangs_many_times(clusters):
    client = clusters.client(4)
    workers = list(client.scheduler_info()["workers"])
    with client.as_current():
        # Inputs on two ranks each, so that gangs of two and three ranks share some of them.
        pairs = [[workers[i], workers[(i + 1) % 4]] for i in range(4)]
        tables = [table(i) for i in range(8)]
        placed_tables = [placed(client, t, pairs[i % 4]) for i, t in enumerate(tables)]
        before = pilot_of(client).stages.get("join", 0)
        for turn in range(12):
            futures, expected = [], []
            for i in range(4):
                j = (i + 1 + turn % 3) % 8
                joined = placed_tables[i].merge(
                    placed_tables[j], on="k", npartitions=1 + turn % 4, broadcast=False
                )
                futures.append(client.compute(joined))
                futures.append(client.compute(placed_tables[j].sort_values(f"v{j}")))
                expected.append(len(tables[i].merge(tables[j], on="k")))
                expected.append(len(tables[j]))
            assert [len(frame) for frame in client.gather(futures)] == expected
        assert pilot_of(client).stages["join"] - before == 12 * 4


def test_gang_is_no_larger_than_its_partitions(clusters):
    client = clusters.client(4)
    workers = list(client.scheduler_info()["workers"])
    plugin = client.cluster.scheduler.plugins["rcylon-pilot"]
    with client.as_current():
        left = placed(client, table(0), workers[:2])
        right = placed(client, table(1), workers[:2])
        known = set(plugin._communicators)
        client.compute(left.merge(right, on="k", npartitions=2, broadcast=False)).result()
        assert all(len(gang) == 2 for _, gang in set(plugin._communicators) - known)


def test_a_lowered_message_limit(client2):
    """Shares that take several messages, as those over 2 GiB do."""
    frame = pd.DataFrame({"k": np.arange(20_000), "s": [f"text-{i}" for i in range(20_000)]})
    ddf = dd.from_pandas(frame, npartitions=4)
    with dask.config.set({"rcylon.exchange.message-bytes": 1000}):
        found = client2.compute(ddf.merge(ddf[["k"]], on="k", broadcast=False)).result()
    assert sorted(found.s) == sorted(frame.s)


@pytest.fixture
def small_fragments(client2):
    """Have the ranks cut partitions into fragments of 1,000 bytes."""

    def limit(nbytes):
        from dask_rcylon.columns import frame

        was, frame._FRAGMENT_BYTES = frame._FRAGMENT_BYTES, nbytes
        return was

    (usual,) = set(client2.run(limit, 1000).values())
    yield
    client2.run(limit, usual)


def test_partitions_of_many_fragments(client2, small_fragments, stages, assert_same_rows):
    """As those of more than a few MiB are; rows of one partition keep their order."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "k": rng.integers(0, 50, 3_000),
            "n": range(3_000),
            "s": [None if i % 7 == 0 else f"text-{i % 90}" for i in range(3_000)],
            "c": pd.Categorical([f"c{i % 5}" for i in range(3_000)]),
        }
    )
    ddf = dd.from_pandas(frame, npartitions=4)
    frame = ddf.compute()
    with stages(client2, sort=1, join=1):
        ordered = client2.compute(ddf.sort_values("k")).result()
        joined = client2.compute(ddf.merge(ddf, on=["n", "s"], broadcast=False)).result()
    pd.testing.assert_frame_equal(ordered, frame.sort_values("k", kind="stable"))
    assert_same_rows(joined, frame.merge(frame, on=["n", "s"]))


@pytest.mark.parametrize("value", ["0 B", "3 GiB"])
def test_message_limit_out_of_range(client2, value):
    ddf = dd.from_pandas(table(0), npartitions=2)
    with (
        dask.config.set({"rcylon.exchange.message-bytes": value}),
        pytest.raises(ValueError, match="rcylon.exchange.message-bytes"),
    ):
        client2.compute(ddf.sort_values("k")).result()
    assert len(client2.compute(ddf.shuffle("k")).result()) == 200


def test_partition_asked_for_again_starts_the_stage_again(client2):
    """Only one partition is kept; the others' buckets are gone when they are wanted."""
    ddf = dd.from_pandas(table(3), npartitions=4).shuffle("k")
    parts = ddf.to_delayed()
    first = client2.compute(parts[0]).result()
    rest = client2.gather(client2.compute(parts))
    pd.testing.assert_frame_equal(rest[0], first)
    assert sum(map(len, rest)) == 200


def fail(frame):
    raise RuntimeError("broken on purpose")


def test_an_error_in_a_put_or_get_leaves_the_pilot_usable(client2):
    ddf = dd.from_pandas(table(4), npartitions=4)
    meta = table(4).iloc[:0]
    before = ddf.map_partitions(fail, meta=meta).merge(ddf, on="k", broadcast=False)
    after = ddf.merge(ddf, on="k", broadcast=False).map_partitions(fail, meta=before._meta)
    for bad in (before, after):
        with pytest.raises(RuntimeError, match="broken on purpose"):
            client2.compute(bad).result()
    assert len(client2.compute(ddf.sort_values("k")).result()) == 200


def test_nothing_is_held_when_a_stage_is_over(client2):
    ddf = dd.from_pandas(table(5), npartitions=4)
    client2.compute(ddf.merge(ddf, on="k", broadcast=False)).result()
    cancelled = client2.compute(ddf.sort_values("k"))
    cancelled.cancel()
    # Puts of a stage that another put has made fail come too late in most of these.
    failed = [dd.from_pandas(table(seed), npartitions=4) for seed in range(10)]
    for seed, frame in enumerate(failed):
        bad = frame.map_partitions(fail, meta=table(seed).iloc[:0])
        with pytest.raises(RuntimeError, match="broken on purpose"):
            client2.compute(bad.merge(frame, on="k", broadcast=False)).result()

    def held(dask_worker):
        return len(dask_worker.plugins["rcylon-pilot"]._runs)

    assert wait_until(lambda: not any(client2.run(held).values()), 10)


def test_rows_over_the_budget_go_to_disk(clusters):
    client = clusters.client(2)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"k": rng.integers(0, 400_000, 400_000), "x": rng.normal(size=400_000)})

    def limit(dask_worker, nbytes):
        store = dask_worker.plugins["rcylon-pilot"]._store
        before, store.limit = store.limit, nbytes
        return before

    def spilled(dask_worker):
        return dask_worker.plugins["rcylon-pilot"]._store.spilled

    with client.as_current():
        ddf = dd.from_pandas(frame, npartitions=2)
        before = client.run(limit, nbytes=1 << 20)
        try:
            found = client.compute(ddf.merge(ddf, on=["k", "x"], broadcast=False)).result()
            assert all(client.run(spilled).values())
        finally:
            client.run(limit, nbytes=next(iter(before.values())))
    assert len(found) == len(frame)
