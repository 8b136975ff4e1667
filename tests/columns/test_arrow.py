"""Arrow arrays of all shapes come back as they went."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dask_rcylon.columns import arrow

ROWS = 60
TEXTS = [None if i % 7 == 0 else f"value-{i}é" * (i % 4) for i in range(ROWS)]
VALUES = {
    pa.string(): TEXTS,
    pa.large_string(): TEXTS,
    pa.binary(): [None if text is None else text.encode() for text in TEXTS],
    pa.int32(): [None if i % 5 == 0 else i for i in range(ROWS)],
    pa.bool_(): [None if i % 5 == 0 else i % 3 == 0 for i in range(ROWS)],
    pa.decimal128(20, 2): [None if i % 5 == 0 else i for i in range(ROWS)],
    pa.list_(pa.int8()): [None if i % 5 == 0 else [i] * (i % 3) for i in range(ROWS)],
}


def column(array):
    return pd.DataFrame({"x": pd.arrays.ArrowExtensionArray(array)})


@pytest.fixture(params=VALUES, ids=str)
def array(request):
    return pa.array(VALUES[request.param], type=request.param)


@pytest.fixture(params=[None, 40], ids=["as-it-is", "limited"])
def limit(request, monkeypatch):
    """A chunk of strings holds 2 GiB at most; the same with a limit that small data reach."""
    if request.param:
        monkeypatch.setattr(arrow, "_MOST_BYTES", request.param)


SHAPES = {
    "sliced": lambda a: [column(a.slice(3, 29))],
    "sliced in the middle of a byte": lambda a: [column(a.slice(13, 1)), column(a.slice(9))],
    "chunked": lambda a: [column(pa.chunked_array([a.slice(5, 20), a.slice(0, 3), a.slice(31)]))],
    "no chunks": lambda a: [column(pa.chunked_array([], type=a.type)), column(a)],
    "no rows": lambda a: [column(a.slice(0, 0))],
    "only nulls": lambda a: [column(pa.nulls(5, a.type)), column(a)],
    "no nulls": lambda a: [column(a.drop_null()), column(a), column(a.drop_null())],
}


@pytest.mark.usefixtures("limit")
@pytest.mark.parametrize("shape", SHAPES)
def test_arrays_come_back(array, shape, send):
    frames = SHAPES[shape](array)
    for place, found in enumerate(send(frames, parts=2)):
        expected = pd.concat([frame.iloc[place::2] for frame in frames])
        pd.testing.assert_frame_equal(found, expected, check_index_type=False)
        assert found.x.dtype == frames[0].x.dtype
        pa.array(found.x.array).validate(full=True)


def test_values_and_nulls_are_taken_over_without_a_copy():
    numbers = pa.array(np.arange(1000))
    assert arrow.fixed_buffer(numbers.slice(8)).ctypes.data == numbers.buffers()[1].address + 64
    text = pa.array(["abc"] * 10, type=pa.large_string()).slice(2)
    offsets, data = arrow.var_buffers(text)
    assert data.ctypes.data == text.buffers()[2].address + 6
    assert offsets[0] == 0


LISTS = pa.array([[1, None], None, [], [10**18 + 1], [2, 3]], pa.list_(pa.int64()))
NESTED = {
    "lists of one length": pa.array([[1, 2], [3, 4], [5, 6], [7, 8]]),
    **{
        f"lists of {type_}": LISTS.cast(pa.list_(type_))
        for type_ in (pa.timestamp("ns"), pa.timestamp("us", "Europe/Berlin"), pa.duration("ns"))
    },
    "lists of time": pa.array([[1], None, [86_399 * 10**9 + 1]], pa.list_(pa.int64())).cast(
        pa.list_(pa.time64("ns"))
    ),
    "lists of years to come": pa.array([[2**62], None, [-(2**62)]]).cast(
        pa.list_(pa.timestamp("s"))
    ),
    "lists of lists": pa.array([[[1], None], None, [], [[2, 3], []]]),
    "lists of bytes": pa.array([[b"\xff"], None, [], [b"", b"a"]]),
    "large lists": pa.array([[1], None, []], pa.large_list(pa.date32())),
    "lists of fixed size": pa.array([[1, 2], None, [3, None]], pa.list_(pa.date64(), 2)),
    "structs": pa.array([{"a": 1, "b": None}, None, {"a": None, "b": "x"}]),
    "structs with a name twice": pa.StructArray.from_arrays(
        [pa.array([1, 2]), pa.array([3, 4], pa.timestamp("ns"))], names=["a", "a"]
    ),
    "maps": pa.array([[("a", 1), ("b", None)], None, []], pa.map_(pa.string(), pa.duration("ns"))),
    "intervals": pa.array([(1, 2, 3), None, (0, 0, 0)], pa.month_day_nano_interval()),
    "dictionaries": pa.array(["a", None, "b", "a"]).dictionary_encode(),
    "large decimals": pa.array([1, None, 3]).cast(pa.decimal256(60, 3)),
    "bytes of fixed size": pa.array([b"ab", None, b"cd"], pa.binary(2)),
}


@pytest.mark.parametrize("kind", NESTED)
def test_nested_values_come_back(kind, send):
    array = NESTED[kind]
    for place, found in enumerate(send([column(array), column(array.slice(1))], parts=2)):
        rows = [*range(place, len(array), 2)], [*range(1 + place, len(array), 2)]
        expected = pa.concat_arrays([array.take(pa.array(row, pa.int64())) for row in rows])
        values = pa.array(found.x.array)
        assert values.type == array.type
        assert values.equals(
            expected if isinstance(values, pa.Array) else pa.chunked_array(expected)
        )
