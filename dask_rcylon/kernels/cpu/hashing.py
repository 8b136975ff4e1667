"""The universal hash: equal values hash alike, whatever type holds them.

Two stages that partition by the same key must send equal values to the same partition, also where
one holds integers and the other floats.  So numbers of all types hash as the float64 they equal
(integers beyond 2**53 share a hash with their neighbours, which costs nothing but balance), times
as nanoseconds modulo 2**64, strings as UTF-8 bytes.  Null and NaN have one hash.

The finaliser is murmur3's fmix64 (Appleby 2011); bytes are consumed eight at a time by the same
multiply-and-rotate step as MurmurHash64.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

from dask_rcylon.kernels.cpu.memory import as_input, load_byte, load_word

UInt64 = npt.NDArray[np.uint64]

#: Hash of null, NaN, NaT and None.
NULL_HASH = np.uint64(0x9E3779B97F4A7C15)

_C1 = np.uint64(0xFF51AFD7ED558CCD)
_C2 = np.uint64(0xC4CEB9FE1A85EC53)
_M = np.uint64(0xC6A4A7935BD1E995)
_S33 = np.uint64(33)
_S47 = np.uint64(47)
_NO_VALIDITY = np.empty(0, np.uint8)
_NAT = np.int64(np.iinfo(np.int64).min)


@nb.njit(nogil=True, inline="always")
def mix(x: Any) -> Any:
    """Finalise 64 bits: every input bit moves every output bit."""
    x ^= x >> _S33
    x *= _C1
    x ^= x >> _S33
    x *= _C2
    x ^= x >> _S33
    return x


@nb.njit(nogil=True, inline="always")
def _emit(out: Any, i: Any, h: Any, combine: Any) -> None:
    if combine:
        out[i] = mix(out[i] * _M + h)
    else:
        out[i] = h


@nb.njit(nogil=True, cache=True)
def _hash_float_bits(values: Any, bits: Any, validity: Any, out: Any, combine: Any) -> None:
    masked = len(validity) > 0
    for i in range(len(values)):
        if values[i] != values[i] or (masked and validity[i] == 0):
            h = NULL_HASH
        elif values[i] == 0.0:
            h = mix(np.uint64(0))
        else:
            h = mix(bits[i])
        _emit(out, i, h, combine)


@nb.njit(nogil=True, cache=True)
def _hash_ticks(values: Any, factor: Any, validity: Any, out: Any, combine: Any) -> None:
    masked = len(validity) > 0
    for i in range(len(values)):
        if values[i] == _NAT or (masked and validity[i] == 0):
            h = NULL_HASH
        else:
            h = mix(np.uint64(values[i]) * factor)
        _emit(out, i, h, combine)


@nb.njit(nogil=True, inline="always")
def _fold(h: Any, word: Any) -> Any:
    word *= _M
    word ^= word >> _S47
    word *= _M
    return (h ^ word) * _M


@nb.njit(nogil=True, inline="always")
def _hash_one(start: Any, low: Any, high: Any) -> Any:
    # Addresses, no array: references to it would be counted for every row.
    h = np.uint64(high - low) * _M
    i = low
    while i + 8 <= high:
        h = _fold(h, load_word(start + i))
        i += 8
    if i < high:
        word = np.uint64(0)
        if high - low >= 8:
            # The last 8 bytes, without those that have been consumed.
            word = load_word(start + high - 8) >> np.uint64((i + 8 - high) * 8)
        else:
            for j in range(i, high):
                word |= np.uint64(load_byte(start + j)) << np.uint64((j - i) * 8)
        h = _fold(h, word)
    return mix(h)


@nb.njit(nogil=True, cache=True)
def _hash_bytes(offsets: Any, data: Any, validity: Any, out: Any, combine: Any) -> None:
    masked = len(validity) > 0
    start = np.int64(data.ctypes.data)
    for i in range(len(offsets) - 1):
        if masked and validity[i] == 0:
            h = NULL_HASH
        else:
            h = _hash_one(start, offsets[i], offsets[i + 1])
        _emit(out, i, h, combine)


@nb.njit(nogil=True, cache=True)
def _hash_codes(codes: Any, table: Any, out: Any, combine: Any) -> None:
    for i in range(len(codes)):
        h = table[codes[i]] if codes[i] >= 0 else NULL_HASH
        _emit(out, i, h, combine)


def _mask(validity: npt.NDArray[np.uint8] | None) -> npt.NDArray[np.uint8]:
    return as_input(_NO_VALIDITY if validity is None else validity)


def hash_numbers(
    values: npt.NDArray[Any],
    validity: npt.NDArray[np.uint8] | None,
    out: UInt64,
    combine: bool = False,
) -> None:
    """Hash numbers of any width by value.

    Parameters
    ----------
    values : bool, integer or float array (n,)
        Numbers.
    validity : uint8 array (n,) or None
        0 where a value is null.
    out : uint64 array (n,)
        Receives the hashes.
    combine : bool
        Whether to combine with what `out` holds (a further key column) or to overwrite it.
    """
    floats = as_input(values.astype(np.float64, copy=False))
    _hash_float_bits(floats, floats.view(np.uint64), _mask(validity), out, combine)


def hash_ticks(
    values: npt.NDArray[np.int64],
    factor: int,
    validity: npt.NDArray[np.uint8] | None,
    out: UInt64,
    combine: bool = False,
) -> None:
    """Hash times: `values` ticks of `factor` nanoseconds each, modulo 2**64; see `hash_numbers`."""
    ticks = as_input(values.astype(np.int64, copy=False))
    _hash_ticks(ticks, np.uint64(factor), _mask(validity), out, combine)


def hash_bytes(
    offsets: npt.NDArray[np.int64],
    data: npt.NDArray[np.uint8],
    validity: npt.NDArray[np.uint8] | None,
    out: UInt64,
    combine: bool = False,
) -> None:
    """Hash strings: value i is ``data[offsets[i]:offsets[i+1]]``; see `hash_numbers`."""
    _hash_bytes(as_input(offsets), as_input(data), _mask(validity), out, combine)


def hash_codes(
    codes: npt.NDArray[np.int64], table: UInt64, out: UInt64, combine: bool = False
) -> None:
    """Hash dictionary codes by the hashes of what they stand for; negative codes are null."""
    _hash_codes(as_input(codes), as_input(table), out, combine)
