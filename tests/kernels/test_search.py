"""Cuts by splitters and divisions over more rows than a block, against NumPy and Dask."""

import numpy as np
import pandas as pd
import pytest
from dask.dataframe.shuffle import set_partitions_pre

from dask_rcylon.kernels import cpu

BOUNDS = [2, 3, 25, 26, 27, 28, 100, 2049]


@pytest.mark.parametrize("rows", [0, 1, 511, 512, 513, 3000])
@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("dtype", ["int64", "float64"])
def test_divisions_are_as_dask_has_them(dtype, bounds, rows):
    rng = np.random.default_rng(bounds)
    divisions = np.sort(rng.integers(-1000, 1000, bounds)).astype(dtype)
    low, high = int(divisions[0]), int(divisions[-1])
    # Above the divisions, too; below them see the next test.
    values = rng.integers(low, high + 200, rows).astype(dtype)
    values[:3] = [low, high, divisions[bounds // 2]][:rows]
    if dtype == "float64" and rows > 10:
        values[5:7] = np.nan, np.inf
    expected = set_partitions_pre(pd.Series(values), pd.Series(divisions))
    assert cpu.searchsorted_numbers(values, divisions).tolist() == list(expected)


def test_values_below_the_divisions_go_to_the_first_partition():
    # Dask puts them into the last one, out of order.
    values, divisions = pd.Series([-np.inf, -5.0, -0.0]), pd.Series([0.0, 10.0, 20.0])
    found = cpu.searchsorted_numbers(values.to_numpy(), divisions.to_numpy())
    assert found.tolist() == [0, 0, 0]
    assert set_partitions_pre(values, divisions).tolist() == [1, 1, 0]


def test_extreme_integers():
    low, high = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    found = cpu.searchsorted_numbers(np.array([low, -1, 0, high]), np.array([low, 0, high, high]))
    assert found.tolist() == [0, 0, 1, 2]


@pytest.mark.parametrize("count", BOUNDS)
@pytest.mark.parametrize("spread", [3, 10**6])
def test_splitters_with_and_without_ties(count, spread):
    rng = np.random.default_rng(count)
    words = rng.integers(0, spread, (1, 2000)).astype(np.uint64)
    words[0, :2] = 0, 2**64 - 1
    cut = np.sort(rng.integers(0, spread, count)).astype(np.uint64)[:, None]
    together = np.full(count, -1)
    found = cpu.split_ids(words, 0, cut, together, np.zeros(count, np.int64))
    assert found.tolist() == np.searchsorted(cut[:, 0], words[0], side="right").tolist()


def test_equal_rows_are_cut_at_the_splitters_place():
    words = np.full((2, 1500), 5, np.uint64)
    cut = np.full((3, 2), 5, np.uint64)
    parts, rows = np.array([0, 1, 1]), np.array([9, 600, 1100])
    found = cpu.split_ids(words, 1, cut, parts, rows)
    assert found.tolist() == [1] * 600 + [2] * 500 + [3] * 400
    assert cpu.split_ids(words, 0, cut, parts, rows).tolist() == [0] * 9 + [1] * 1491
    assert cpu.split_ids(words, 2, cut, parts, rows).tolist() == [3] * 1500


def test_no_splitters():
    words = np.zeros((1, 3), np.uint64)
    none = np.empty(0, np.int64)
    assert cpu.split_ids(words, 0, np.empty((0, 1), np.uint64), none, none).tolist() == [0, 0, 0]


@pytest.mark.parametrize("descending", [False, True])
def test_string_words_of_every_length(descending):
    rng = np.random.default_rng(0)
    data = [bytes(rng.integers(0, 3, n % 27).astype(np.uint8)) for n in range(500)]
    offsets = np.concatenate([[0], np.cumsum([len(d) for d in data])]).astype(np.int64)
    words = cpu.string_words(offsets, np.frombuffer(b"".join(data), np.uint8), 4, descending)
    expected = sorted(range(500), key=lambda i: data[i], reverse=descending)
    assert [data[i] for i in cpu.argsort(words)] == [data[i] for i in expected]
