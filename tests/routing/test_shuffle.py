"""Which shuffles become stages."""

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from dask_rcylon import explain
from dask_rcylon.stages import ShuffleStage


def stage_of(collection):
    found = list(collection.optimize(fuse=False).expr.find_operations(ShuffleStage))
    assert len(found) == 1, explain(collection)
    return found[0]


@pytest.mark.parametrize(
    ("on", "keys"),
    [("k", "'k'"), (["k", "s"], "'k', 's'"), (["idx"], "'idx'"), (["k", "idx"], "'k', 'idx'")],
)
def test_labels(on, keys, left, routed):
    left.index = left.index.rename("idx")
    shuffled = left.shuffle(on, npartitions=9)
    (decision,) = explain(shuffled).stages
    assert decision.reason is None
    assert decision.keys == keys
    assert (decision.inputs, decision.outputs) == ((6,), 9)
    assert shuffled.optimize().npartitions == 9
    assert list(shuffled.optimize().columns) == list(left.columns)


def test_index(left, routed):
    shuffled = left.shuffle(on_index=True)
    (decision,) = explain(shuffled).stages
    assert decision.keys == "index"
    assert stage_of(shuffled).index_shuffle
    assert stage_of(left.shuffle(left.index)).index_shuffle


@pytest.mark.parametrize("on", ["series", "frame"])
def test_expressions(on, left, routed):
    on = left.k + 1 if on == "series" else left[["k", "x"]] + 1
    shuffled = left.shuffle(on)
    stage = stage_of(shuffled)
    assert len(stage.operand("drop")) == (1 if on.ndim == 1 else 2)
    assert list(shuffled.optimize().columns) == list(left.columns)
    pd.testing.assert_frame_equal(shuffled.optimize()._meta, left._meta)


def test_helper_columns_have_free_names(left, routed):
    left = left.assign(__rcylon_key=1)
    stage = stage_of(left.shuffle(left.k + 1))
    assert stage.operand("drop") == ["__rcylon_key_1"]


def test_series(left, routed):
    for series in (left.x, left.x.rename(None)):
        shuffled = dd.dask_expr.new_collection(
            dd.dask_expr._shuffle.RearrangeByColumn(series.expr, None, 4, index_shuffle=True)
        ).optimize()
        assert explain(shuffled).stages == ()
        assert shuffled.ndim == 1
        assert shuffled.name == series.name
        assert shuffled.npartitions == 4


def test_labels_that_are_no_strings(routed):
    df = dd.from_pandas(pd.DataFrame({0: range(6), 1: range(6)}), npartitions=3)
    for on in (0, [0, 1], df[0] + 1):
        shuffled = df.shuffle(on)
        assert explain(shuffled).routed == ["shuffle"]
        pd.testing.assert_frame_equal(shuffled.optimize()._meta, df._meta)


@pytest.mark.parametrize(
    "make",
    [
        lambda df: df.groupby("k").apply(len, meta=(None, int)),
        lambda df: df.groupby("k").x.transform("sum", meta=("x", float)),
        lambda df: df.groupby("k").x.shift(1, meta=("x", float)),
        lambda df: df.groupby(df.k + 1).apply(len, meta=(None, int)),
        lambda df: df.groupby("k").agg({"x": "sum"}, split_out=3),
        lambda df: df.groupby("k").x.median(),
        lambda df: df.groupby("k").x.nunique(split_out=2),
        lambda df: df.drop_duplicates(),
        lambda df: df.drop_duplicates("k", keep="last"),
        lambda df: df.s.unique(),
        lambda df: df.s.nunique(),
        lambda df: df.s.value_counts(split_out=2),
    ],
    ids=range(12),
)
def test_whatever_shuffles(make, left, routed):
    assert "shuffle" in explain(make(left)).routed


def test_method_asked_for(left, routed, classes):
    assert "tasks" in explain(left.shuffle("k", shuffle_method="tasks")).stages[0].reason
    assert "TaskShuffle" in classes(left.shuffle("k", shuffle_method="tasks"))
    grouped = left.groupby("k").apply(len, shuffle_method="tasks", meta=(None, int))
    assert "tasks" in explain(grouped).stages[0].reason
    with dask.config.set({"dataframe.shuffle.method": "tasks"}):
        assert "tasks" in explain(left.groupby("k").x.median()).stages[0].reason


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (pd.DataFrame({"k": np.arange(4) * 1j, "x": 1}), "complex128"),
        (pd.DataFrame([[1, 2, 3]] * 4, columns=["k", "a", "a"]), "labels are not unique: ['a']"),
    ],
)
def test_what_stays_is_shuffled_by_dask(frame, reason, routed, classes):
    df = dd.from_pandas(frame, npartitions=2)
    for method in (None, "rcylon"):
        shuffled = df.shuffle("k", shuffle_method=method)
        assert reason in explain(shuffled).stages[0].reason
        assert "TaskShuffle" in classes(shuffled)
    assert "P2PShuffle" in classes(
        dd.from_pandas(frame.iloc[:, :1].assign(z=1), npartitions=2).shuffle(
            "z", shuffle_method="p2p"
        )
        if reason.startswith("labels")
        else dd.from_pandas(frame[["x"]], npartitions=2).shuffle("x", shuffle_method="p2p")
    )


def unknown(frame, npartitions):
    """Make a collection without divisions."""
    return dd.from_map(lambda i: frame.iloc[i::npartitions], range(npartitions), meta=frame)


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_aligned_frames_are_shuffled_by_one_hash(frame, other, routed, classes):
    ours, theirs = unknown(frame, 6), unknown(other, 4)
    filled = ours.x.fillna(theirs.y)
    assert classes(filled).count("ShuffleStage") == 2
    assert explain(filled).routed == ["shuffle", "shuffle"]
    other.index = other.index.astype(complex)
    names = classes(ours.x.fillna(unknown(other, 4).y))
    assert "ShuffleStage" not in names
    assert names.count("TaskShuffle") == 2
    with dask.config.set({"dataframe.shuffle.method": "tasks"}):
        assert classes(filled).count("TaskShuffle") == 2


def test_rcylon_asked_for_without_ranks(left, not_routed):
    with pytest.raises(ValueError, match=r"enable\(client\)"):
        left.shuffle("k", shuffle_method="rcylon").compute()
    with dask.config.set({"dataframe.shuffle.method": "rcylon"}):
        shuffled = left.shuffle("k")
        assert shuffled.npartitions == 6
        with pytest.raises(ValueError, match=r"dataframe\.shuffle\.method"):
            shuffled.compute()
        with pytest.raises(ValueError, match="MPI ranks"):
            left.merge(left, on="k").compute()
        with pytest.raises(ValueError, match="MPI ranks"):
            left.sort_values("k").persist()
