"""A method that a user asks for is obeyed; one that Dask fills in is not a wish."""

import pickle

import dask
import dask.dataframe as dd
import pandas as pd
import pytest
from dask.tokenize import tokenize

from dask_rcylon.routing.method import DasksMethod, DefaultMethod, asked, dasks
from dask_rcylon.routing.target import Target


def test_kinds_of_methods_are_different_tokens():
    assert len({tokenize(kind("tasks")) for kind in (str, DefaultMethod, DasksMethod)}) == 3
    assert DefaultMethod("tasks") == "tasks"


def test_default_is_pickled_as_a_plain_string():
    again = pickle.loads(pickle.dumps(DefaultMethod("tasks")))
    assert type(again) is str
    assert again == "tasks"


def test_asked():
    assert asked(None) is None
    assert asked(DefaultMethod("tasks")) is None
    assert asked("tasks") == "tasks"
    with dask.config.set({"dataframe.shuffle.method": "p2p"}):
        assert asked(None) == "p2p"
        assert asked(DefaultMethod("tasks")) == "p2p"
        assert asked("rcylon") == "rcylon"


@pytest.mark.parametrize("method", [None, "tasks", "p2p", "disk", DefaultMethod("tasks")])
def test_without_a_pilot_dask_chooses(method, left):
    assert dasks(method, Target(None), left.expr) is method


def test_with_a_pilot(fake, left):
    where = Target(fake.info)
    assert dasks("disk", where, left.expr) == "disk"
    for method in (None, "rcylon", DefaultMethod("tasks")):
        assert dasks(method, where, left.expr) == "p2p"
        assert dasks(method, where, left.x.expr) == "p2p"


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"a": [1j]}),
        pd.DataFrame({"a": pd.arrays.SparseArray([1.0])}),
        pd.DataFrame({0: [1]}),
        pd.DataFrame([[1, 2]], columns=["a", "a"]),
    ],
    ids=["complex", "sparse", "label", "duplicate"],
)
def test_what_p2p_cannot_do_is_done_by_tasks(frame, fake):
    expr = dd.from_pandas(frame, npartitions=1).expr
    assert dasks(None, Target(fake.info), expr) == "tasks"


@pytest.mark.parametrize(
    "make",
    [
        lambda df, **kw: df.drop_duplicates("k", **kw),
        lambda df, **kw: df.s.unique(**kw),
        lambda df, **kw: df.s.drop_duplicates(**kw),
    ],
)
def test_filled_in_is_not_asked_for(make, left, routed, classes):
    """They are different expressions: Dask keeps one object for equal ones."""
    default, explicit = make(left), make(left, shuffle_method="tasks")
    assert default._name != explicit._name
    assert "ShuffleStage" in classes(default)
    assert "TaskShuffle" in classes(explicit)
    assert "ShuffleStage" in classes(default)
    with dask.config.set({"dataframe.shuffle.method": "tasks"}):
        assert "TaskShuffle" in classes(make(left))


def test_p2p_is_not_checked_for_where_it_is_not_used(fake):
    df = dd.from_pandas(pd.DataFrame({0: [1, 2], "a": [1j, 2]}), npartitions=2)
    with dask.config.set(scheduler=fake):
        df.shuffle(0)
