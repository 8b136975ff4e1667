"""Python objects come back as what they were."""

import datetime
import enum
import threading
import uuid
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from dask_rcylon.columns.objects import from_bytes, to_bytes


class Text(str):
    """A string with a class of its own."""


class Colour(enum.Enum):
    RED = 1


def array(*items):
    made = np.empty(len(items), object)
    for place, item in enumerate(items):
        made[place] = item
    return made


OBJECTS = {
    "none": array(),
    "strings": array("a", "", "é" * 99, "a\0b"),
    "strings and nulls": array("a", None, np.nan, "", None),
    "nulls": array(None, np.nan, None),
    "all nulls there are": array(None, np.nan, pd.NA, pd.NaT, np.datetime64("NaT")),
    "numbers": array(1, 2.5, True, 10**40, Decimal("1.50"), 1j, np.int8(3), np.float64(0.5)),
    "strings and numbers": array("a", 1, None, "b", 2.5),
    "bytes": array(b"a", b"", "a"),
    "lone surrogates": array("a", "\ud800", None),
    "subclasses": array(Text("a"), "a", Colour.RED),
    "times": array(datetime.date(2026, 1, 1), pd.Timestamp("2026", tz="UTC"), pd.Timedelta("1s")),
    "containers": array([1, [2]], (1,), {"a": None}, frozenset({1}), np.arange(3)),
    "identifiers": array(uuid.UUID(int=1), uuid.UUID(int=2)),
}


@pytest.mark.parametrize("kind", OBJECTS)
def test_objects_come_back(kind):
    items = OBJECTS[kind]
    found = from_bytes(*to_bytes(items))
    assert found.dtype == object
    assert list(map(type, found)) == list(map(type, items))
    assert list(map(repr, found)) == list(map(repr, items))
    assert [item is None or item is pd.NA for item in found] == [
        item is None or item is pd.NA for item in items
    ]


def test_what_has_no_importable_name_comes_back():
    local = type("Local", (), {"__module__": "__main__"})
    item = local()
    item.value = 5
    found = from_bytes(*to_bytes(array(item, lambda: 7)))
    assert found[0].value == 5
    assert found[1]() == 7


def test_what_cannot_be_pickled_is_an_error():
    with pytest.raises(TypeError, match="lock"):
        to_bytes(array("a", threading.Lock()))
