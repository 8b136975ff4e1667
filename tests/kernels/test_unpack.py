"""Fragments through scatter and unpack: what went in comes out, in order."""

import numpy as np
import pytest

from dask_rcylon.kernels import cpu


@pytest.mark.parametrize("parts", [1, 3, 2048])
@pytest.mark.parametrize("fragments", [(), (0,), (5, 0, 700)])
def test_fragments_become_buckets(fragments, parts):
    # Buffers: 8 bytes, 1 byte, strings (lengths and bytes), and a validity that only some have.
    widths = np.array([8, 1, 4, -1, 1])
    rng = np.random.default_rng(parts)
    rows, expected = [], [[[], [], [], b"", []] for _ in range(parts)]
    for place, n in enumerate(fragments):
        ids = rng.integers(0, parts, n).astype(np.uint16)
        lengths = rng.integers(0, 9, n).astype(np.uint32)
        text = rng.integers(0, 256, int(lengths.sum())).astype(np.uint8)
        whole = [rng.integers(0, 2**60, n), rng.integers(0, 99, n), lengths, text]
        valid = rng.integers(0, 2, n).astype(np.uint8) if place % 2 == 0 else None
        rows.append((ids, whole, valid))
        offsets = cpu.lengths_to_offsets(lengths)
        for i, p in enumerate(ids):
            bucket = expected[p]
            for k in range(3):
                bucket[k].append(int(whole[k][i]))
            bucket[3] += text[offsets[i] : offsets[i + 1]].tobytes()
            bucket[4].append(1 if valid is None else int(valid[i]))
    buffers = [
        [
            np.zeros(len(b[0]), np.uint64),
            np.zeros(len(b[0]), np.uint8),
            np.zeros(len(b[0]), np.uint32),
            np.zeros(len(b[3]), np.uint8),
            np.full(len(b[0]), 9, np.uint8),
        ]
        for b in expected
    ]
    dest = np.array([[buffer.ctypes.data for buffer in bucket] for bucket in buffers])
    position = np.zeros((parts, 2), np.int64)
    for ids, (longs, shorts, lengths, text), valid in rows:
        counts = np.stack([cpu.count_ids(ids, parts), cpu.count_bytes(lengths, ids, parts)], axis=1)
        own = widths if valid is not None else np.array([8, 1, 4, -1, 0])
        nbytes = np.where(own < 0, counts[:, 1:], counts[:, :1] * own)
        sizes = (nbytes + 7) // 8 * 8
        assert np.array_equal(cpu.bucket_bytes(counts, own), sizes.sum(axis=1))
        starts = np.cumsum(sizes.ravel()).reshape(sizes.shape) - sizes
        packed = np.full(sizes.sum(), 77, np.uint8)
        columns = [longs.astype(np.uint64), shorts.astype(np.uint8), lengths]
        for k, values in enumerate(columns):
            cpu.scatter_fixed(values, ids, packed, starts[:, k].copy())
        offsets = cpu.lengths_to_offsets(lengths)
        cpu.scatter_var(offsets, text, ids, packed, starts[:, 3].copy())
        if valid is not None:
            cpu.scatter_fixed(valid, ids, packed, starts[:, 4].copy())
        cpu.unpack(packed, counts, own, dest, position)
        position += counts
    for bucket, wanted in zip(buffers, expected, strict=True):
        assert [b.tolist() for b in bucket[:3]] == wanted[:3]
        assert bucket[3].tobytes() == wanted[3]
        assert bucket[4].tolist() == wanted[4]


def test_a_value_of_4_gib_is_refused():
    with pytest.raises(ValueError, match="row 1 is longer than 4 GiB"):
        cpu.offsets_to_lengths(np.array([0, 2**32 - 1, 2**33]))
    assert cpu.offsets_to_lengths(np.array([0, 2**32 - 1])).tolist() == [2**32 - 1]
    assert cpu.offsets_to_lengths(np.array([3, 5, 5], np.int32)).tolist() == [2, 0]
