"""Chains of operations, each by a method drawn at random: no row may be lost between two hashes."""

import random

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

METHODS = [None, "rcylon", "tasks", "tasks", "p2p"]


def draw(rng, name):
    """Make a small frame with nulls and duplicates among its keys."""
    rows = rng.randint(0, 60)
    frame = pd.DataFrame(
        {
            "k": [rng.choice([None, *range(8)]) for _ in range(rows)],
            "j": [rng.randint(0, 4) for _ in range(rows)],
            name: np.arange(rows),
        }
    )
    frame["k"] = frame["k"].astype(rng.choice(["float64", "Int64", "float32"]))
    frame["j"] = frame["j"].astype(rng.choice(["int64", "int8", "float64"]))
    partitions = min(rng.choice([1, 3, 5, 5, 9, 40]), max(rows, 1))
    return frame, dd.from_pandas(frame, npartitions=partitions, sort=False)


def merge(rng, frame, df, number):
    other, right = draw(rng, f"y{number}")
    if rng.random() < 0.4:
        right = right.shuffle(
            "k", npartitions=rng.choice([2, 3, 5]), shuffle_method=rng.choice(METHODS)
        )
    options = {
        "how": rng.choice(["inner", "left", "right", "outer"]),
        "suffixes": ("", f"_{number}"),
    }
    kind = rng.choice(["k", "k", "k", "kj", "different"])
    if kind == "different":
        other, right = (side.rename(columns={"k": f"m{number}"}) for side in (other, right))
        options |= {"left_on": "k", "right_on": f"m{number}"}
    else:
        options["on"] = list(kind)
    routed = {"shuffle_method": rng.choice(METHODS)}
    if rng.random() < 0.2:
        routed["npartitions"] = rng.choice([2, 4, 7])
    return frame.merge(other, **options), df.merge(right, **options, **routed)


def shuffle(rng, frame, df, number):
    on = rng.choice(["k", "j", ["k", "j"]])
    count = rng.choice([None, 2, 3, 5])
    return frame, df.shuffle(on, npartitions=count, shuffle_method=rng.choice(METHODS))


def repartition(rng, frame, df, number):
    return frame, df.repartition(npartitions=rng.choice([1, 2, 3, 6]))


def aggregate(rng, frame, df, number):
    by = rng.choice([["k"], ["k", "j"]])
    value = next(label for label in frame.columns if label not in ("k", "j"))
    options = {"split_out": rng.choice([1, 2, 3, True]), "shuffle_method": rng.choice(METHODS)}
    frame = frame.groupby(by, dropna=False)[value].agg("sum").reset_index()
    df = df.groupby(by, dropna=False)[value].agg("sum", **options).reset_index()
    return (frame, df) if "j" in by else (frame.assign(j=1), df.assign(j=1))


def rows(frame):
    """Return the rows as a sorted list; numbers by value, nulls alike."""
    frame = frame[sorted(frame.columns)].astype(object)
    return sorted(
        str([None if pd.isna(value) else float(value) for value in row])
        for row in frame.itertuples(index=False)
    )


@pytest.mark.filterwarnings("ignore:.*mismatches:UserWarning")
@pytest.mark.parametrize("seed", range(20))
def test_chain(seed, client2):
    rng = random.Random(seed)
    frame, df = draw(rng, "x")
    for number in range(rng.randint(2, 4)):
        step = rng.choice([merge, merge, merge, merge, shuffle, repartition, aggregate])
        frame, df = step(rng, frame, df, number)
    assert rows(df.compute()) == rows(frame)
