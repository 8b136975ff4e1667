"""Frames keep their labels, dtypes and index."""

import datetime

import numpy as np
import pandas as pd
import pytest

from dask_rcylon.columns.schema import FrameSchema

#: Objects from which pandas' constructors would make strings, numbers or times.
OBJECTS = {
    "strings": ["a", "b", "c", "d"],
    "strings and null": ["a", None, "c", np.nan],
    "integers": [1, 2, 3, 4],
    "floats": [0.5, None, 2.0, 1.0],
    "booleans": [True, False, None, True],
    "timestamps": list(pd.date_range("2026", periods=4)),
    "datetimes": [datetime.datetime(2026, 1, day) for day in (1, 2, 3, 4)],
    "timedeltas": list(pd.timedelta_range("1s", periods=4)),
    "periods": list(pd.period_range("2026", periods=4)),
    "nulls": [None, np.nan, pd.NaT, pd.NA],
}


@pytest.mark.parametrize("kind", OBJECTS)
@pytest.mark.parametrize("where", ["column", "index", "level"])
def test_objects_stay_objects(kind, where, send):
    values = pd.Series(OBJECTS[kind], dtype=object)
    frame = pd.DataFrame({"x": values, "i": range(4)})
    if where == "index":
        frame.index = pd.Index(values, dtype=object)
    if where == "level":
        frame.index = pd.MultiIndex.from_arrays([pd.Index(values, dtype=object), range(4)])
    for number, found in enumerate(send([frame], parts=2)):
        expected = frame.iloc[number::2]
        assert found.x.dtype == object
        assert found.index.get_level_values(0).dtype == expected.index.get_level_values(0).dtype
        pd.testing.assert_frame_equal(found, expected, check_index_type=False)
        assert list(map(type, found.x)) == list(map(type, expected.x))


def test_rows_in_another_order_keep_objects():
    frame = pd.DataFrame({"x": pd.Series(["a", "b"], dtype=object)})
    schema = FrameSchema.from_meta(frame, index=False)
    assert schema.take(frame, np.array([1, 0])).x.dtype == object
