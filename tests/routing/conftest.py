"""A pilot that is none: what routing decides can be seen without ranks."""

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from dask_rcylon.pilot.world import PilotInfo
from dask_rcylon.routing import hooks


class FakeScheduler:
    """A scheduler with a pilot; it computes nothing."""

    def __init__(self, info=None):
        self.info = info or PilotInfo(ranks=2, world="w", reason=None)

    def pilot(self):
        return self.info

    def __call__(self, expr, keys, **kwargs):
        raise AssertionError("nothing was to be computed")


@pytest.fixture
def fake():
    return FakeScheduler()


@pytest.fixture
def routed(fake):
    """Everything goes to a pilot."""
    with dask.config.set(scheduler=fake):
        yield fake


@pytest.fixture
def not_routed():
    with dask.config.set(scheduler="sync"):
        yield


@pytest.fixture(autouse=True)
def hooks_are_in():
    yield
    hooks.install()


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "k": rng.integers(0, 40, 200),
            "j": rng.integers(0, 5, 200).astype("int32"),
            "x": rng.normal(size=200),
            "s": rng.choice(list("abcdefg"), 200),
        }
    )


@pytest.fixture
def other():
    rng = np.random.default_rng(1)
    return pd.DataFrame({"k": rng.integers(0, 50, 90), "y": np.arange(90.0)})


@pytest.fixture
def left(frame):
    return dd.from_pandas(frame, npartitions=6, sort=False)


@pytest.fixture
def right(other):
    return dd.from_pandas(other, npartitions=4, sort=False)


@pytest.fixture
def classes():
    """Names of the expressions that a collection is lowered to."""

    def names(collection):
        return [type(node).__name__ for node in collection.optimize(fuse=False).expr.walk()]

    return names
