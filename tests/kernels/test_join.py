"""Joins: keys that are hard, and data that would be slow."""

import numpy as np
import pandas as pd
import pytest

from dask_rcylon.kernels import cpu
from dask_rcylon.kernels.cpu import join as module

MOST = 2**64 - 1
FLAGS = [
    pytest.param((False, False, False), id="inner"),
    pytest.param((True, False, False), id="left"),
    pytest.param((False, True, False), id="right"),
    pytest.param((True, True, False), id="outer"),
    pytest.param((False, False, True), id="semi"),
]


def pairs(indexers):
    return sorted(zip(*(i.tolist() for i in indexers), strict=True))


def expected_pairs(left, right, keep_left, keep_right, semi):
    a = pd.DataFrame({"k": pd.Series(left, dtype=object), "i": range(len(left))})
    b = pd.DataFrame({"k": pd.Series(right, dtype=object), "j": range(len(right))})
    if semi:
        return sorted((i, -1) for i in a.i[a.k.isin(b.k)])
    how = {(0, 0): "inner", (1, 0): "left", (0, 1): "right", (1, 1): "outer"}
    found = a.merge(b, on="k", how=how[keep_left, keep_right])
    return sorted(zip(found.i.fillna(-1).astype(int), found.j.fillna(-1).astype(int), strict=True))


def packed(items):
    data = [b"" if item is None else item.encode() for item in items]
    offsets = np.concatenate([[0], np.cumsum([len(d) for d in data])]).astype(np.int64)
    null = np.array([item is None for item in items], np.uint8)
    return offsets, np.frombuffer(b"".join(data), np.uint8), null


@pytest.mark.parametrize("flags", FLAGS)
def test_extreme_keys(flags):
    left = np.array([0, 1, 2**63 - 1, 2**63, MOST, MOST], np.uint64)
    right = np.array([MOST, 2**63, 5, 0, 0], np.uint64)
    found = cpu.join_fixed(left[None], None, right[None], None, *flags)
    assert pairs(found) == expected_pairs(left.tolist(), right.tolist(), *flags)


@pytest.mark.parametrize("flags", FLAGS)
def test_null_and_zero_are_two_keys(flags):
    left, left_null = np.zeros(3, np.uint64), np.array([0, 1, 1], np.uint8)
    right, right_null = np.zeros(2, np.uint64), np.array([1, 0], np.uint8)
    found = cpu.join_fixed(left[None], left_null, right[None], right_null, *flags)
    assert pairs(found) == expected_pairs(left_null.tolist(), right_null.tolist(), *flags)
    # No null on one side only: then the nulls of the other have no partner.
    found = cpu.join_fixed(left[None], left_null, right[None], None, *flags)
    assert pairs(found) == expected_pairs(left_null.tolist(), [0, 0], *flags)


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("sizes", [(0, 0), (0, 5), (5, 0), (5, 3)])
def test_strings_that_are_empty_null_or_long(sizes, flags):
    pool = ["", None, "a", "a\0", "x" * 5000, "x" * 4999 + "y", "é"]
    rng = np.random.default_rng(0)
    left, right = ([pool[i] for i in rng.integers(0, len(pool), 20 * size)] for size in sizes)
    (lo, ld, ln), (ro, rd, rn) = packed(left), packed(right)
    found = cpu.join_bytes(lo, ld, ln, ro, rd, rn, *flags)
    assert pairs(found) == expected_pairs(left, right, *flags)
    if len(left) and len(right):
        one, two = cpu.factorize_bytes(lo, ld, ln, ro, rd, rn)
        codes = dict(zip(left + right, np.concatenate([one, two]).tolist(), strict=True))
        assert len(set(codes.values())) == len(codes) == len(set(left + right))
        assert [codes[item] for item in left + right] == np.concatenate([one, two]).tolist()


def test_nulls_match_whatever_bytes_lie_under_them():
    offsets, data = np.array([0, 2, 3]), np.frombuffer(b"abc", np.uint8)
    null = np.ones(2, np.uint8)
    found = cpu.join_bytes(offsets, data, null, offsets, data, null)
    assert pairs(found) == [(0, 0), (0, 1), (1, 0), (1, 1)]


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("sizes", [(60_000, 50_000), (50_000, 60_000)])
@pytest.mark.parametrize("words", [1, 2])
def test_many_partitions_with_a_frequent_key(words, sizes, flags):
    # Both sides have more rows than fit one radix partition, so each is built once.
    rng = np.random.default_rng(words)
    sides = [rng.integers(0, 40_000, size) for size in sizes]
    for side, count in zip(sides, (500, 100), strict=True):
        side[:count] = 7
    tables = [np.stack([side, side % 3][:words]).astype(np.uint64) for side in sides]
    li, ri = cpu.join_fixed(tables[0], None, tables[1], None, *flags)
    keep_left, keep_right, semi = flags
    counts = [np.bincount(side, minlength=40_000) for side in sides]
    if semi:
        assert (ri == -1).all()
        assert np.array_equal(np.sort(li), np.flatnonzero(np.isin(sides[0], sides[1])))
        return
    both = (li >= 0) & (ri >= 0)
    assert (sides[0][li[both]] == sides[1][ri[both]]).all()
    assert both.sum() == (counts[0] * counts[1]).sum()
    assert len(np.unique(li[both] * 60_000 + ri[both])) == both.sum()
    lone = [np.flatnonzero(~np.isin(*order)) for order in (sides, sides[::-1])]
    assert np.array_equal(np.sort(li[ri < 0]), lone[0] if keep_left else [])
    assert np.array_equal(np.sort(ri[li < 0]), lone[1] if keep_right else [])


def unmixed(hashes):
    """Return the keys that have these hashes: the inverse of murmur3's fmix64."""
    s = np.uint64(33)
    for factor in (0xC4CEB9FE1A85EC53, 0xFF51AFD7ED558CCD):
        hashes = (hashes ^ hashes >> s) * np.uint64(pow(factor, -1, 1 << 64))
    return hashes ^ hashes >> s


@pytest.mark.parametrize("parts", [1, 16, 128, 2048])
def test_keys_of_one_bucket_spread_over_the_radix_partitions(parts):
    # The hash of times and floats is that of the join, so one bucket has its high bits in common.
    n = 200_000
    random = np.random.default_rng(parts).integers(0, 2**64, n, dtype=np.uint64)
    keys = unmixed(random // np.uint64(parts))
    hashes = np.empty(n, np.uint64)
    cpu.hash_ticks(keys.view(np.int64), 1, None, hashes)
    assert set(cpu.partition_ids(hashes, parts).tolist()) == {0}
    bits = module._bits(n)
    _, _, bounds = module._scattered(keys, bits)
    assert bits >= 4
    assert np.diff(bounds).max() < 1.2 * n / 2**bits
