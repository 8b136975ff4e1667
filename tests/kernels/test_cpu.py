"""Kernels against NumPy and pandas."""

import numpy as np
import pandas as pd
import pytest

from dask_rcylon.kernels import cpu
from dask_rcylon.kernels.warmup import warm_up

SIZES = [0, 1, 7, 1000]


def strings(count, seed=0, longest=20):
    rng = np.random.default_rng(seed)
    items = ["é" * n + str(n % 5) * int(n > 3) for n in rng.integers(0, longest, count)]
    data = [item.encode() for item in items]
    offsets = np.concatenate([[0], np.cumsum([len(d) for d in data])]).astype(np.int64)
    return items, offsets, np.frombuffer(b"".join(data), np.uint8)


def test_equal_numbers_hash_alike_whatever_their_type():
    values = np.array([0, 1, 2, 100])
    expected = np.empty(4, np.uint64)
    cpu.hash_numbers(values, None, expected)
    for dtype in ("int8", "uint64", "float32", "float64", "float16"):
        out = np.empty(4, np.uint64)
        cpu.hash_numbers(values.astype(dtype), None, out)
        assert (out == expected).all()
    cpu.hash_numbers(np.array([-0.0, 1.0, 2.0, 100.0]), None, out)
    assert (out == expected).all()
    assert len(set(expected.tolist())) == 4


def test_nulls_hash_alike():
    out = np.empty(2, np.uint64)
    cpu.hash_numbers(np.array([np.nan, 1.0]), np.array([1, 0], np.uint8), out)
    assert (out == cpu.NULL_HASH).all()
    cpu.hash_ticks(np.array([np.iinfo(np.int64).min, 5]), 1, np.array([1, 0], np.uint8), out)
    assert (out == cpu.NULL_HASH).all()


def test_units_of_time_hash_alike():
    one, two = np.empty(3, np.uint64), np.empty(3, np.uint64)
    cpu.hash_ticks(np.array([-3, 0, 5]), 1000, None, one)
    cpu.hash_ticks(np.array([-3000, 0, 5000]), 1, None, two)
    assert (one == two).all()


def test_combined_hashes_depend_on_the_order():
    a, b = np.arange(5), np.arange(5)[::-1].copy()
    one, two = np.empty(5, np.uint64), np.empty(5, np.uint64)
    for out, columns in ((one, (a, b)), (two, (b, a))):
        for number, column in enumerate(columns):
            cpu.hash_numbers(column, None, out, number > 0)
    assert (one != two).sum() >= 4


@pytest.mark.parametrize("parts", [1, 2, 16, 2048, 70_000])
def test_partitions_are_about_equal(parts):
    hashes = np.empty(200_000, np.uint64)
    cpu.hash_numbers(np.arange(200_000) * 64, None, hashes)
    ids = cpu.partition_ids(hashes, parts)
    assert ids.dtype == (np.uint16 if parts <= 65_536 else np.uint32)
    rows = cpu.count_ids(ids, parts)
    assert rows.sum() == 200_000
    if parts <= 16:
        assert rows.max() < 1.05 * 200_000 / parts


def test_a_partition_out_of_range():
    with pytest.raises(ValueError, match="row 1 is for partition 5"):
        cpu.count_ids(np.array([0, 5], np.uint16), 3)


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("count", SIZES)
def test_scatter_is_stable(width, count):
    rng = np.random.default_rng(1)
    parts = 5
    ids = rng.integers(0, parts, count).astype(np.uint16)
    values = np.arange(count).astype(f"u{min(width, 8)}")
    if width == 16:
        values = np.stack([values, values + np.uint64(7)], axis=1)
    rows = cpu.count_ids(ids, parts)
    sizes = (rows * width + 7) // 8 * 8
    starts = np.cumsum(sizes) - sizes
    dest = np.zeros(sizes.sum(), np.uint8)
    cpu.scatter_fixed(values, ids, dest, starts)
    for p in range(parts):
        got = dest[starts[p] : starts[p] + rows[p] * width].view(values.dtype)
        assert np.array_equal(got.reshape(values[ids == p].shape), values[ids == p])


@pytest.mark.parametrize("count", SIZES)
def test_scatter_and_take_strings(count):
    items, offsets, data = strings(count)
    ids = np.random.default_rng(2).integers(0, 3, count).astype(np.uint16)
    lengths = cpu.offsets_to_lengths(offsets)
    nbytes = cpu.count_bytes(lengths, ids, 3)
    starts = np.cumsum(nbytes) - nbytes
    dest = np.zeros(nbytes.sum(), np.uint8)
    cpu.scatter_var(offsets, data, ids, dest, starts)
    for p in range(3):
        text = dest[starts[p] : starts[p] + nbytes[p]].tobytes().decode()
        assert text == "".join(item for item, i in zip(items, ids, strict=True) if i == p)
    rows = np.arange(count)[::-1].copy()
    new, out = cpu.take_var(offsets, data, rows)
    assert out.tobytes().decode() == "".join(items[::-1])
    assert np.array_equal(cpu.lengths_to_offsets(lengths[::-1].copy()), new)


def test_unpack_puts_pieces_in_their_places():
    # Two buckets; buffers: 4 bytes a row, variable, validity that this fragment lacks.
    widths = np.array([4, -1, 0])
    counts = np.array([[2, 3], [1, 5]])
    assert cpu.bucket_bytes(counts, widths).tolist() == [16, 16]
    source = np.zeros(32, np.uint8)
    source[:8].view(np.uint32)[:] = [1, 2]
    source[8:11] = [7, 8, 9]
    source[16:20].view(np.uint32)[:] = [3]
    source[24:29] = 4
    buffers = [
        [np.zeros(4, np.uint32), np.zeros(9, np.uint8), np.zeros(4, np.uint8)] for _ in range(2)
    ]
    dest = np.array([[b.ctypes.data for b in bucket] for bucket in buffers])
    cpu.unpack(source, counts, widths, dest, np.array([[1, 2], [0, 0]]))
    assert buffers[0][0].tolist() == [0, 1, 2, 0]
    assert buffers[0][1].tolist() == [0, 0, 7, 8, 9, 0, 0, 0, 0]
    assert buffers[0][2].tolist() == [0, 1, 1, 0]
    assert buffers[1][0].tolist() == [3, 0, 0, 0]


def pairs(indexers):
    return sorted(zip(*(i.tolist() for i in indexers), strict=True))


def expected_pairs(left, right, keep_left, keep_right, semi):
    a = pd.DataFrame({"k": left, "i": range(len(left))})
    b = pd.DataFrame({"k": right, "j": range(len(right))})
    if semi:
        return sorted((i, -1) for i in a.i[a.k.isin(b.k)])
    how = {(0, 0): "inner", (1, 0): "left", (0, 1): "right", (1, 1): "outer"}
    found = a.merge(b, on="k", how=how[keep_left, keep_right])
    return sorted(zip(found.i.fillna(-1).astype(int), found.j.fillna(-1).astype(int), strict=True))


FLAGS = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0), (0, 0, 1)]


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("sizes", [(0, 0), (0, 5), (5, 0), (300, 200), (200, 900)])
def test_join_of_numbers(sizes, flags):
    rng = np.random.default_rng(3)
    left, right = (rng.integers(0, 100, size).astype(np.uint64) for size in sizes)
    found = cpu.join_fixed(left[None], None, right[None], None, *map(bool, flags))
    assert pairs(found) == expected_pairs(left, right, *flags)


@pytest.mark.parametrize("flags", FLAGS)
def test_join_of_strings_with_nulls(flags):
    left, lo, ld = strings(300, 1)
    right, ro, rd = strings(200, 2)
    ln, rn = (np.random.default_rng(s).integers(0, 2, n) for s, n in ((1, 300), (2, 200)))
    left = [None if null else item for item, null in zip(left, ln, strict=True)]
    right = [None if null else item for item, null in zip(right, rn, strict=True)]
    ln, rn = ln.astype(np.uint8), rn.astype(np.uint8)
    found = cpu.join_bytes(lo, ld, ln, ro, rd, rn, *map(bool, flags))
    assert pairs(found) == expected_pairs(left, right, *flags)


def test_join_of_several_words_and_nulls():
    rng = np.random.default_rng(4)
    left, right = (rng.integers(0, 4, (2, n)).astype(np.uint64) for n in (80, 90))
    null = (left[0] == 0).astype(np.uint8)
    found = cpu.join_fixed(left, null, right, None)
    a = [(*w, n) for w, n in zip(left.T.tolist(), null, strict=True)]
    b = [(*w, 0) for w in right.T.tolist()]
    assert pairs(found) == expected_pairs(a, b, 0, 0, 0)


def test_join_whose_pairs_outnumber_its_rows():
    left = np.zeros((1, 2000), np.uint64)
    right = np.zeros((1, 1500), np.uint64)
    found = cpu.join_fixed(left, None, right, None)
    assert len(found[0]) == 2000 * 1500
    assert np.bincount(found[0]).tolist() == [1500] * 2000


def test_join_over_many_radix_partitions():
    rng = np.random.default_rng(5)
    left, right = rng.permutation(100_000), rng.permutation(150_000)
    found = cpu.join_fixed(
        left.astype(np.uint64)[None], None, right.astype(np.uint64)[None], None, False, True
    )
    assert len(found[0]) == 150_000
    hit = found[0] >= 0
    assert (left[found[0][hit]] == right[found[1][hit]]).all()
    assert hit.sum() == 100_000


def test_factorize_strings():
    left, lo, ld = strings(200, 6)
    right, ro, rd = strings(150, 7)
    one, two = cpu.factorize_bytes(lo, ld, None, ro, rd, None)
    codes = pd.DataFrame({"item": left + right, "code": np.concatenate([one, two])})
    assert (codes.groupby("item").code.nunique() == 1).all()
    assert (codes.groupby("code").item.nunique() == 1).all()


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("most", [2, 2**11, 2**40, 2**63])
def test_argsort_is_stable(count, most):
    words = np.random.default_rng(8).integers(0, most, (2, count), dtype=np.uint64)
    assert cpu.argsort(words).tolist() == np.lexsort(words[::-1]).tolist()


@pytest.mark.parametrize("descending", [False, True])
def test_string_words_are_in_order_of_the_strings(descending):
    items = ["", "a", "a\0", "a\0\0", "aa", "é", "z" * 8, "z" * 9, "z" * 15 + "a", "z" * 16]
    data = [item.encode() for item in items]
    offsets = np.concatenate([[0], np.cumsum([len(d) for d in data])]).astype(np.int64)
    words = cpu.string_words(offsets, np.frombuffer(b"".join(data), np.uint8), 2, descending)
    expected = sorted(range(len(items)), key=lambda i: data[i], reverse=descending)
    assert cpu.argsort(words).tolist() == expected


@pytest.mark.parametrize("splitters", [1, 3, 24, 100])
def test_split_ids_count_the_splitters_reached(splitters):
    rng = np.random.default_rng(9)
    words = rng.integers(0, 6, (2, 400)).astype(np.uint64)
    cut = rng.integers(0, 6, (splitters, 2)).astype(np.uint64)
    parts, rows = rng.integers(-1, 3, splitters), rng.integers(0, 400, splitters)
    order = np.lexsort((rows, parts, cut[:, 1], cut[:, 0]))
    cut, parts, rows = cut[order], parts[order], rows[order]
    found = cpu.split_ids(words, 1, cut, parts, rows)
    for i in range(400):
        place = (*words[:, i].tolist(), 1, i)
        reached = [(*c, p, r) <= place for c, p, r in zip(cut.tolist(), parts, rows, strict=True)]
        assert found[i] == sum(reached)


@pytest.mark.parametrize("bounds", [2, 5, 40])
@pytest.mark.parametrize("dtype", ["int64", "float64"])
def test_searchsorted(bounds, dtype):
    rng = np.random.default_rng(10)
    divisions = np.sort(rng.integers(0, 50, bounds)).astype(dtype)
    values = rng.integers(-5, 60, 500).astype(dtype)
    last = bounds - 2
    expected = (np.searchsorted(divisions, values, side="right") - 1).clip(0, last)
    expected[values >= divisions[-1]] = last
    assert cpu.searchsorted_numbers(values, divisions).tolist() == expected.tolist()
    if dtype == "float64":
        assert cpu.searchsorted_numbers(np.array([np.nan]), divisions).tolist() == [last]


def test_warm_up_runs_every_kernel():
    assert warm_up() >= 0
