"""Order rows by words: stable radix sort, and the cut by splitters.

A row's sort key is a list of unsigned 64-bit words, most significant first.  The sort is the least
significant digit radix sort with 11-bit digits (three digits cover the range of most integer keys),
which is stable by construction; digits in which no two rows differ are skipped, so small ranges and
common prefixes cost one read.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

from dask_rcylon.kernels.cpu.memory import as_input, load_word, swap_bytes
from dask_rcylon.kernels.cpu.partition import Ids, id_dtype

UInt8 = npt.NDArray[np.uint8]
UInt64 = npt.NDArray[np.uint64]
Int64 = npt.NDArray[np.int64]

_DIGIT = 11
_RADIX = 1 << _DIGIT
#: Up to this many bounds it is faster to compare with all, several at once, than to search.
_FEW = 24
#: Values that are searched for together.
_BLOCK = 512


@nb.njit(nogil=True, cache=True)
def _sort_word(keys: Any, order: Any, keys2: Any, order2: Any) -> Any:
    """Sort (keys, order) by keys, using the second pair as scratch; say which pair has it."""
    n = len(keys)
    varying = np.uint64(0)
    in_order = True
    for i in range(1, n):
        varying |= keys[i] ^ keys[0]
        in_order &= keys[i - 1] <= keys[i]
    if in_order:
        return False
    counts = np.empty(_RADIX, np.int64)
    swapped = False
    shift = 0
    while shift < 64:
        # Start each digit at the next bit that varies: sparse keys need fewer passes.
        while shift < 64 and (varying >> np.uint64(shift)) & np.uint64(1) == 0:
            shift += 1
        if shift >= 64:
            break
        source, source_order = (keys2, order2) if swapped else (keys, order)
        dest, dest_order = (keys, order) if swapped else (keys2, order2)
        s = np.uint64(shift)
        mask = np.uint64(_RADIX - 1)
        counts[:] = 0
        for i in range(n):
            counts[(source[i] >> s) & mask] += 1
        total = 0
        for d in range(_RADIX):
            c = counts[d]
            counts[d] = total
            total += c
        for i in range(n):
            d = (source[i] >> s) & mask
            to = counts[d]
            dest[to] = source[i]
            dest_order[to] = source_order[i]
            counts[d] = to + 1
        swapped = not swapped
        shift += _DIGIT
    return swapped


@nb.njit(nogil=True, cache=True)
def _argsort(words: Any, order: Any, order2: Any) -> Any:
    n = words.shape[1]
    keys = np.empty(n, np.uint64)
    keys2 = np.empty(n, np.uint64)
    for k in range(words.shape[0] - 1, -1, -1):
        for i in range(n):
            keys[i] = words[k, order[i]]
        if _sort_word(keys, order, keys2, order2):
            order, order2 = order2, order
    return order


def argsort(words: UInt64) -> Int64:
    """Return the stable order of rows.

    Parameters
    ----------
    words : uint64 array (k, n)
        Sort words, most significant first.

    Returns
    -------
    int64 array (n,)
        Row numbers in order.
    """
    n = words.shape[1]
    number = np.uint32 if n < 2**32 else np.int64
    order = np.arange(n, dtype=number)
    if n == 0:
        return order.astype(np.int64)
    sorted_ = _argsort(as_input(words), order, np.empty(n, number))
    return sorted_.astype(np.int64, copy=False)  # type: ignore[no-any-return]


@nb.njit(nogil=True, cache=True)
def _count_reached(bounds: Any, values: Any, reached: Any) -> None:
    """Count, for each of a block of values, the bounds that it has reached; NaN reaches all.

    A binary search mispredicts every other branch and then waits for memory.  Here all values of a
    block take the same step at a time, without branches (Khuong and Morin 2017, "Array layouts for
    comparison-based searching"): the steps of different values overlap, in vector registers.
    """
    for j in range(len(values)):
        reached[j] = 0
    if len(bounds) <= _FEW:
        for bound in bounds:
            for j in range(len(values)):
                reached[j] += not (values[j] < bound)
        return
    length = len(bounds)
    while length > 0:
        half = (length + 1) // 2
        step, last = np.uint32(half), np.uint32(half - 1)
        for j in range(len(values)):
            # Unsigned, so that no check for negative indices is in the way.
            at = reached[j]
            is_below = not (values[j] < bounds[np.uint64(at + last)])
            reached[j] = at + step * np.uint32(is_below)
        length -= half


@nb.njit(nogil=True, cache=True)
def _split_ids(
    words: Any, first: Any, leading: Any, splitters: Any, parts: Any, rows: Any, out: Any
) -> None:
    reached = np.empty(_BLOCK, np.uint32)
    for start in range(0, words.shape[1], _BLOCK):
        stop = min(start + _BLOCK, words.shape[1])
        _count_reached(leading, words[0, start:stop], reached)
        for i in range(start, stop):
            high = np.int64(reached[i - start])
            # Where leading words are equal, further words and the place in the input decide.
            low = 0 if high > 0 and leading[high - 1] == words[0, i] else high
            while low < high:
                middle = (low + high) // 2
                # Is the splitter not after the row?
                passed = parts[middle] < first or (parts[middle] == first and rows[middle] <= i)
                for k in range(words.shape[0]):
                    if splitters[middle, k] != words[k, i]:
                        passed = splitters[middle, k] < words[k, i]
                        break
                if passed:
                    low = middle + 1
                else:
                    high = middle
            out[i] = low


def split_ids(
    words: UInt64, first: int, splitters: UInt64, splitter_part: Int64, splitter_row: Int64
) -> Ids:
    """Tell how many splitters each row has reached.

    Parameters
    ----------
    words : uint64 array (k, n)
        Sort words of the rows of one input partition.
    first : int
        The partition's number.
    splitters : uint64 array (S, k)
        Sort words of the splitters, in order.
    splitter_part, splitter_row : int64 arrays (S,)
        Partition and row of each splitter, which decide between equal words; partition -1 lets
        every row of equal words count as beyond the splitter.

    Returns
    -------
    unsigned array (n,)
        Numbers from 0 to S.
    """
    out = np.zeros(words.shape[1], id_dtype(len(splitters) + 1))
    if len(splitters):
        leading = as_input(splitters[:, 0])
        places = as_input(splitter_part), as_input(splitter_row)
        _split_ids(as_input(words), first, leading, as_input(splitters), *places, out)
    return out


@nb.njit(nogil=True, cache=True)
def _string_words(offsets: Any, data: Any, chunks: Any, flip: Any, out: Any) -> None:
    memory = np.int64(data.ctypes.data)
    for i in range(len(offsets) - 1):
        low, high = offsets[i], offsets[i + 1]
        for c in range(chunks):
            word = np.uint64(0)
            start = low + 8 * c
            if start + 8 <= high:
                word = swap_bytes(load_word(memory + start))
            else:
                for j in range(start, high):
                    word |= np.uint64(data[j]) << np.uint64(56 - 8 * (j - start))
            out[c, i] = word ^ flip
        out[chunks, i] = np.uint64(min(high - low, 8 * chunks + 1)) ^ flip


def string_words(offsets: Int64, data: UInt8, chunks: int, descending: bool) -> UInt64:
    """Return sort words of strings, in order of their bytes (for UTF-8: of their code points).

    Parameters
    ----------
    offsets, data
        String i is ``data[offsets[i]:offsets[i+1]]``.
    chunks : int
        8-byte chunks to use; strings that are longer are cut.
    descending : bool
        Whether to reverse the order.

    Returns
    -------
    uint64 array (chunks + 1, n)
        The chunks, zero padded, and the length, which tells padding from zero bytes; all strings
        that are cut have the same.
    """
    out = np.empty((chunks + 1, len(offsets) - 1), np.uint64)
    flip = np.uint64(0xFFFFFFFFFFFFFFFF if descending else 0)
    _string_words(as_input(offsets), as_input(data), chunks, flip, out)
    return out


@nb.njit(nogil=True, cache=True)
def _searchsorted(values: Any, inner: Any, out: Any) -> None:
    reached = np.empty(_BLOCK, np.uint32)
    for start in range(0, len(values), _BLOCK):
        stop = min(start + _BLOCK, len(values))
        _count_reached(inner, values[start:stop], reached)
        for i in range(start, stop):
            out[i] = reached[i - start]


def searchsorted_numbers(values: npt.NDArray[Any], bounds: npt.NDArray[Any]) -> Ids:
    """Find each number's place among divisions.

    Parameters
    ----------
    values : int64 or float64 array (n,)
        Numbers; NaN goes to the last partition.
    bounds : array (P + 1,) of the same dtype
        Divisions: partition p is ``bounds[p] <= value < bounds[p+1]``, the last one closed.

    Returns
    -------
    unsigned array (n,)
        Partition numbers; what lies outside goes to the nearest.
    """
    out = np.empty(len(values), id_dtype(len(bounds) - 1))
    # Partition p holds what has reached bound p but not bound p + 1; the ends take the rest.
    _searchsorted(as_input(values), as_input(bounds[1:-1]), out)
    return out
