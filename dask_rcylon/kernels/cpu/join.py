"""Which rows of two key columns match: a radix-partitioned hash join.

Both sides are first scattered by some bits of their hash until the build side of a partition, with
its table, fits the L2 cache; then each partition is joined by a chained hash table.  The scheme is
the partitioned join of Balkesen, Teubner, Alonso and Özsu ("Main-memory hash joins on multi-core
CPUs: tuning to the underlying hardware", ICDE 2013) with one pass; their second pass only pays
where one pass would need more partitions than the TLB has entries.  Only keys and row numbers are
scattered: payload columns are gathered once, by the caller.

Equality is always verified.  A single key of up to 8 bytes is its own proof; for strings and for
several keys the table holds 64-bit hashes and candidates are compared in full.

All rows of a bucket agree in the high bits of their hash: that is how they came to it (see
`partition`), and for times and floats it is the very hash that is used here.  So partitions are
told apart by low bits, and slots of the tables by those in the middle.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

from dask_rcylon.kernels.cpu.hashing import hash_bytes, mix
from dask_rcylon.kernels.cpu.memory import as_input, compare_bytes, copy_bytes

UInt8 = npt.NDArray[np.uint8]
UInt64 = npt.NDArray[np.uint64]
Int64 = npt.NDArray[np.int64]
Indexers = tuple[Int64, Int64]

#: Build rows per partition: 8 Ki rows of 12 bytes, and 8 bytes of table each, are 160 KiB.
_BUILD_ROWS = 1 << 13
_MOST_BITS = 12

_KEY, _WORDS, _BYTES = 0, 1, 2
#: Bits of the mixed key above those that tell partitions apart.
_S20 = np.uint64(20)
_ONE = np.uint64(1)
_NO_WORDS = np.empty((1, 0), np.uint64)
_NO_BYTES = np.empty(0, np.uint8)
_NO_OFFSETS = np.empty(1, np.int64)


@nb.njit(nogil=True, cache=True)
def _radix(keys: Any, bits: Any, out_keys: Any, out_rows: Any) -> Any:
    """Scatter keys and row numbers by the low bits of the mixed key; return the bounds."""
    parts = 1 << bits
    mask = np.uint64(parts - 1)
    bounds = np.zeros(parts + 1, np.int64)
    if bits == 0:
        bounds[1] = len(keys)
        for i in range(len(keys)):
            out_keys[i] = keys[i]
            out_rows[i] = i
        return bounds
    for i in range(len(keys)):
        bounds[np.int64(mix(keys[i]) & mask) + 1] += 1
    for p in range(parts):
        bounds[p + 1] += bounds[p]
    next_ = bounds.copy()
    for i in range(len(keys)):
        part = np.int64(mix(keys[i]) & mask)
        to = next_[part]
        out_keys[to] = keys[i]
        out_rows[to] = i
        next_[part] = to + 1
    return bounds


@nb.njit(nogil=True, cache=True)
def _build(keys: Any, heads: Any, chain: Any, mask: Any) -> None:
    """Chain the rows of a partition by hash, from the last to the first: chains are in order."""
    heads[: mask + np.uint64(1)] = -1
    for j in range(len(keys) - 1, -1, -1):
        h = (mix(keys[j]) >> _S20) & mask
        chain[j] = heads[h]
        heads[h] = j


@nb.njit(nogil=True, cache=True)
def _probe(
    keys1: Any,
    rows1: Any,
    keys2: Any,
    rows2: Any,
    heads: Any,
    chain: Any,
    mask: Any,
    hit: Any,
    mode: Any,
    proof1: Any,
    proof2: Any,
    keep1: Any,
    semi: Any,
    out1: Any,
    out2: Any,
    used: Any,
) -> Any:
    """Probe a partition; return the pairs there are then, or -1 if they did not fit."""
    words1, offsets1, data1, null1 = proof1
    words2, offsets2, data2, null2 = proof2
    room = len(out1)
    masked = len(null1) > 0
    bytes1, bytes2 = np.int64(data1.ctypes.data), np.int64(data2.ctypes.data)
    for i in range(len(keys1)):
        key = keys1[i]
        row = rows1[i]
        found = False
        j = heads[(mix(key) >> _S20) & mask]
        while j >= 0:
            at = np.uint64(j)
            same = keys2[at] == key
            # Written out: a call would count references to all these arrays for every pair.
            if same and mode == _WORDS:
                for k in range(words1.shape[0]):
                    if words1[k, i] != words2[k, at]:
                        same = False
                        break
            elif same and mode == _BYTES:
                start1, start2 = offsets1[i], offsets2[at]
                length = offsets1[i + 1] - start1
                same = length == offsets2[at + _ONE] - start2
                missing = False
                if masked:
                    missing = null1[i] != 0
                    same = (null2[at] != 0) if missing else same and null2[at] == 0
                if same and not missing:
                    same = compare_bytes(bytes1 + start1, bytes2 + start2, length) == 0
            if same:
                if used >= room:
                    return -1
                out1[used] = row
                out2[used] = -1 if semi else np.int64(rows2[at])
                used += 1
                found = True
                if len(hit) > 0:
                    hit[at] = 1
                if semi:
                    break
            j = chain[at]
        if keep1 and not found:
            if used >= room:
                return -1
            out1[used] = row
            out2[used] = -1
            used += 1
    return used


@nb.njit(nogil=True, cache=True)
def _missed(rows2: Any, hit: Any, out1: Any, out2: Any, used: Any) -> Any:
    """Append the build rows without a match; return the pairs, or -1 if they did not fit."""
    for j in range(len(rows2)):
        if hit[j] == 0:
            if used >= len(out1):
                return -1
            out1[used] = -1
            out2[used] = rows2[j]
            used += 1
    return used


@nb.njit(nogil=True, cache=True)
def _scratch(proof: Any, rows: Any, mode: Any) -> Any:
    """Make room for what `_localised` takes for up to `rows` rows."""
    words, _, _, null = proof
    return (
        np.empty((words.shape[0], rows if mode == _WORDS else 0), np.uint64),
        np.empty(rows + 1 if mode == _BYTES else 1, np.int64),
        np.empty(16 * rows if mode == _BYTES else 0, np.uint8),
        np.empty(rows if mode == _BYTES and len(null) > 0 else 0, np.uint8),
    )


@nb.njit(nogil=True, cache=True)
def _localised(proof: Any, rows: Any, mode: Any, scratch: Any) -> Any:
    """Bring what proves equality of some rows together: in cache when it is compared."""
    words, offsets, data, null = proof
    own_words, own_offsets, own_data, own_null = scratch
    if mode == _WORDS:
        for k in range(words.shape[0]):
            for i in range(len(rows)):
                own_words[k, i] = words[k, rows[i]]
    elif mode == _BYTES:
        own_offsets[0] = 0
        for i in range(len(rows)):
            length = offsets[rows[i] + _ONE] - offsets[rows[i]]
            own_offsets[i + 1] = own_offsets[i] + length
        if own_offsets[len(rows)] > len(own_data):
            own_data = np.empty(2 * own_offsets[len(rows)], np.uint8)
        source, dest = np.int64(data.ctypes.data), np.int64(own_data.ctypes.data)
        for i in range(len(rows)):
            start = own_offsets[i]
            length = own_offsets[i + 1] - start
            copy_bytes(dest + start, source + offsets[rows[i]], length)
        if len(null) > 0:
            for i in range(len(rows)):
                own_null[i] = null[rows[i]]
    return own_words, own_offsets, own_data, own_null


@nb.njit(nogil=True, cache=True)
def _most_rows(bounds: Any) -> Any:
    most = 0
    for p in range(len(bounds) - 1):
        most = max(most, bounds[p + 1] - bounds[p])
    return most


@nb.njit(nogil=True, cache=True)
def _join_partitions(
    keys1: Any,
    rows1: Any,
    bounds1: Any,
    keys2: Any,
    rows2: Any,
    bounds2: Any,
    mode: Any,
    proof1: Any,
    proof2: Any,
    keep1: Any,
    keep2: Any,
    semi: Any,
) -> Any:
    """Join partition by partition: build on side 2, probe with side 1."""
    # Room for an eighth more pairs than rows: a join of random keys has about as many as rows.
    rows = max(len(keys1), len(keys2))
    out1 = np.empty(rows + rows // 8 + 64, np.int64)
    out2 = np.empty(len(out1), np.int64)
    largest = _most_rows(bounds2)
    near1 = _scratch(proof1, _most_rows(bounds1), mode)
    near2 = _scratch(proof2, largest, mode)
    size = 1
    while size < 2 * largest:
        size <<= 1
    heads = np.empty(size, np.int32)
    chain = np.empty(max(largest, 1), np.int32)
    hits = np.empty(largest if keep2 else 0, np.uint8)
    used = 0
    for p in range(len(bounds2) - 1):
        part1 = slice(bounds1[p], bounds1[p + 1])
        part2 = slice(bounds2[p], bounds2[p + 1])
        count = bounds2[p + 1] - bounds2[p]
        size = 1
        while size < 2 * count:
            size <<= 1
        mask = np.uint64(size - 1)
        _build(keys2[part2], heads, chain, mask)
        near1 = _localised(proof1, rows1[part1], mode, near1)
        near2 = _localised(proof2, rows2[part2], mode, near2)
        hit = hits[: count if keep2 else 0]
        before = used
        used = -1
        # Pairs can outnumber rows. The inner loops don't grow their output, which would cost them
        # half their speed: a partition whose pairs don't fit is done again with more room.
        while used < 0:
            hit[:] = 0
            used = _probe(
                keys1[part1],
                rows1[part1],
                keys2[part2],
                rows2[part2],
                heads,
                chain,
                mask,
                hit,
                mode,
                near1,
                near2,
                keep1,
                semi,
                out1,
                out2,
                before,
            )
            if used >= 0 and keep2:
                used = _missed(rows2[part2], hit, out1, out2, used)
            if used < 0:
                out1 = _grown(out1, before)
                out2 = _grown(out2, before)
    return out1[:used], out2[:used]


@nb.njit(nogil=True, cache=True)
def _grown(array: Any, used: Any) -> Any:
    larger = np.empty(len(array) * 2, np.int64)
    larger[:used] = array[:used]
    return larger


def _bits(build_rows: int) -> int:
    bits = 0
    while bits < _MOST_BITS and (build_rows >> bits) > _BUILD_ROWS:
        bits += 1
    return bits


def _scattered(keys: UInt64, bits: int) -> tuple[UInt64, npt.NDArray[np.uint32], Int64]:
    if len(keys) >= 2**32:
        raise ValueError(f"a bucket has {len(keys)} rows; use more partitions (at most 2**32 rows)")
    out_keys = np.empty(len(keys), np.uint64)
    out_rows = np.empty(len(keys), np.uint32)
    bounds = _radix(as_input(keys), bits, out_keys, out_rows)
    if np.diff(bounds).max(initial=0) >= 2**31:
        raise ValueError("a key has more than 2**31 rows in one bucket")
    return out_keys, out_rows, bounds


class _Side:
    """One side of a join: what its table holds, and what proves equality."""

    def __init__(
        self,
        keys: UInt64,
        words: UInt64 = _NO_WORDS,
        offsets: Int64 = _NO_OFFSETS,
        data: UInt8 = _NO_BYTES,
        null: UInt8 | None = None,
    ) -> None:
        self.keys: UInt64 | None = keys
        self.rows = len(keys)
        self.proof = tuple(
            as_input(array) for array in (words, offsets, data, _NO_BYTES if null is None else null)
        )

    def take_keys(self) -> UInt64:
        """Return the keys, once: hashes are of no use when they have been scattered."""
        keys, self.keys = self.keys, None
        assert keys is not None
        return keys


def _join(
    left: _Side, right: _Side, mode: int, keep_left: bool, keep_right: bool, semi: bool
) -> Indexers:
    # The smaller side is built, except that a semi join must probe with the left.
    swap = left.rows < right.rows and not semi
    probe, build = (right, left) if swap else (left, right)
    keep = (keep_right, keep_left) if swap else (keep_left, keep_right)
    bits = _bits(build.rows)
    probed, built = _scattered(probe.take_keys(), bits), _scattered(build.take_keys(), bits)
    out = _join_partitions(*probed, *built, mode, probe.proof, build.proof, *keep, semi)
    return (out[1], out[0]) if swap else out  # type: ignore[no-any-return]


@nb.njit(nogil=True, cache=True)
def _mix_words(words: Any, out: Any) -> None:
    for i in range(words.shape[1]):
        h = np.uint64(0)
        for k in range(words.shape[0]):
            h = mix(h * np.uint64(0xC6A4A7935BD1E995) + words[k, i])
        out[i] = h


def both_nulls(
    left: UInt8 | None, left_rows: int, right: UInt8 | None, right_rows: int
) -> tuple[UInt8, UInt8] | None:
    """Return the nulls of both sides, made of zeros where only the other side has any."""
    if left is None and right is None:
        return None
    return (
        np.zeros(left_rows, np.uint8) if left is None else left,
        np.zeros(right_rows, np.uint8) if right is None else right,
    )


def join_fixed(
    left: UInt64,
    left_null: UInt8 | None,
    right: UInt64,
    right_null: UInt8 | None,
    keep_left: bool = False,
    keep_right: bool = False,
    semi: bool = False,
) -> Indexers:
    """Match rows by keys of fixed width.

    Parameters
    ----------
    left, right : uint64 arrays (k, n) and (k, m)
        Key words of both sides; rows match if all k words are equal. Words of nulls must be 0.
    left_null, right_null : uint8 arrays (n,), (m,) or None
        Non-zero where the key is null; nulls match nulls only.
    keep_left, keep_right : bool
        Whether rows without a match appear too, with -1 on the other side.
    semi : bool
        Whether a left row appears once if it has a match, with -1 on the right.

    Returns
    -------
    left_indexer, right_indexer : int64 arrays
        Row numbers of the pairs, in no particular order.
    """
    nulls = both_nulls(left_null, left.shape[1], right_null, right.shape[1])
    if nulls is not None:
        left, right = (
            np.vstack([words, null]).astype(np.uint64, copy=False)
            for words, null in zip((left, right), nulls, strict=True)
        )
    if left.shape[0] == 1:
        sides = (_Side(left[0]), _Side(right[0]))
        return _join(*sides, _KEY, keep_left, keep_right, semi)
    both = []
    for words in (left, right):
        hashes = np.empty(words.shape[1], np.uint64)
        _mix_words(as_input(words), hashes)
        both.append(_Side(hashes, words=words))
    return _join(both[0], both[1], _WORDS, keep_left, keep_right, semi)


def string_hashes(offsets: Int64, data: UInt8, null: UInt8 | None) -> UInt64:
    """Hash strings of which some are null: uint64 array (n,)."""
    hashes = np.empty(len(offsets) - 1, np.uint64)
    hash_bytes(offsets, data, None if null is None else (null == 0).view(np.uint8), hashes)
    return hashes


def _string_side(offsets: Int64, data: UInt8, null: UInt8 | None) -> _Side:
    return _Side(string_hashes(offsets, data, null), offsets=offsets, data=data, null=null)


def join_bytes(
    left_offsets: Int64,
    left_data: UInt8,
    left_null: UInt8 | None,
    right_offsets: Int64,
    right_data: UInt8,
    right_null: UInt8 | None,
    keep_left: bool = False,
    keep_right: bool = False,
    semi: bool = False,
) -> Indexers:
    """Match rows by strings, ``data[offsets[i]:offsets[i+1]]``; see `join_fixed`."""
    nulls = both_nulls(left_null, len(left_offsets) - 1, right_null, len(right_offsets) - 1)
    if nulls is not None:
        left_null, right_null = nulls
    return _join(
        _string_side(left_offsets, left_data, left_null),
        _string_side(right_offsets, right_data, right_null),
        _BYTES,
        keep_left,
        keep_right,
        semi,
    )
