"""The universal hash: what it must tell apart, and what it must not read."""

import numpy as np
import pytest

from dask_rcylon.kernels import cpu

WORD = (1 << 64) - 1


def mix(x):
    """murmur3's fmix64, in Python's integers."""
    x = (x ^ x >> 33) * 0xFF51AFD7ED558CCD & WORD
    x = (x ^ x >> 33) * 0xC4CEB9FE1A85EC53 & WORD
    return x ^ x >> 33


def hash_text(text):
    """The hash of bytes as its definition has it, byte by byte."""
    m = 0xC6A4A7935BD1E995
    h = len(text) * m & WORD
    for start in range(0, len(text), 8):
        word = int.from_bytes(text[start : start + 8], "little") * m & WORD
        word = (word ^ word >> 47) * m & WORD
        h = (h ^ word) * m & WORD
    return mix(h)


@pytest.mark.parametrize("length", range(26))
def test_bytes_of_every_length(length):
    # The string ends where the buffer ends: nothing behind it may be read or count.
    text = bytes(np.random.default_rng(length).integers(0, 256, 3 + length).astype(np.uint8))
    out = np.empty(2, np.uint64)
    cpu.hash_bytes(np.array([0, 3, 3 + length]), np.frombuffer(text, np.uint8), None, out)
    assert out.tolist() == [hash_text(text[:3]), hash_text(text[3:])]


def test_what_lies_around_a_string_does_not_matter():
    one, two = (np.full(40, fill, np.uint8) for fill in (1, 255))
    for length in range(30):
        one[5 : 5 + length] = two[5 : 5 + length] = 7
        bounds = np.array([0, 5, 5 + length, 40])
        first, second = np.empty(3, np.uint64), np.empty(3, np.uint64)
        cpu.hash_bytes(bounds, one, None, first)
        cpu.hash_bytes(bounds, two, None, second)
        assert first[1] == second[1]


def test_trailing_zero_bytes_count():
    texts = [b"a" * n + b"\0" * k for n in range(10) for k in range(10)]
    offsets = np.concatenate([[0], np.cumsum([len(t) for t in texts])])
    out = np.empty(len(texts), np.uint64)
    cpu.hash_bytes(offsets, np.frombuffer(b"".join(texts), np.uint8), None, out)
    assert len(set(out.tolist())) == len(set(texts))


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63), 2**53 + 1, -1, 0])
def test_extreme_integers_hash_as_the_float_they_round_to(value):
    number = np.array([value])
    out, expected = np.empty(1, np.uint64), np.empty(1, np.uint64)
    cpu.hash_numbers(number, None, out)
    cpu.hash_numbers(number.astype(np.float64), None, expected)
    assert out == expected != cpu.NULL_HASH


def test_units_of_time_hash_alike_also_beyond_the_range_of_nanoseconds():
    seconds = np.array([2**40, -(2**40)])
    one, two = np.empty(2, np.uint64), np.empty(2, np.uint64)
    cpu.hash_ticks(seconds, 10**9, None, one)
    cpu.hash_ticks(seconds * 10**3, 10**6, None, two)
    assert (one == two).all()


def test_every_nan_is_null():
    bits = np.array([0x7FF8000000000000, 0xFFF8000000000001, 0x7FF0000000000001], np.uint64)
    out = np.empty(3, np.uint64)
    cpu.hash_numbers(bits.view(np.float64), None, out)
    assert (out == cpu.NULL_HASH).all()


def test_codes_hash_as_what_they_stand_for():
    table = np.array([11, 22], np.uint64)
    out = np.empty(3, np.uint64)
    cpu.hash_codes(np.array([1, -1, 0]), table, out)
    assert out.tolist() == [22, int(cpu.NULL_HASH), 11]


def test_nothing_to_hash():
    out = np.empty(0, np.uint64)
    cpu.hash_numbers(np.empty(0), None, out)
    cpu.hash_bytes(np.zeros(1, np.int64), np.empty(0, np.uint8), None, out)
    cpu.hash_codes(np.empty(0, np.int64), np.empty(0, np.uint64), out)
    assert cpu.partition_ids(out, 4).tolist() == []


@pytest.mark.parametrize("parts", [1, 3, 16, 2048])
def test_partitions_are_by_multiply_shift_on_the_high_half(parts):
    hashes = np.random.default_rng(0).integers(0, WORD, 1000, dtype=np.uint64, endpoint=True)
    hashes[:2] = 0, WORD
    expected = [(h >> 32) * parts >> 32 for h in hashes.tolist()]
    assert cpu.partition_ids(hashes, parts).tolist() == expected
