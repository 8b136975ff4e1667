"""Whatever memory pandas, Arrow or the network hand out, the kernels that are warm suffice."""

import importlib

import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher

from dask_rcylon.kernels import cpu
from dask_rcylon.kernels.cpu.memory import as_input
from dask_rcylon.kernels.warmup import warm_up

NOUNS = ("hashing", "partition", "unpack", "join", "sort", "gather")


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


def strided(array):
    return np.repeat(array, 2, axis=-1)[..., ::2]


def unaligned(array):
    memory = np.empty(array.nbytes + 1, np.uint8)
    view = memory[1:].view(array.dtype).reshape(array.shape)
    view[...] = array
    return view


KINDS = [read_only, strided, unaligned]


def compiled():
    found = {}
    for noun in NOUNS:
        module = importlib.import_module(f"dask_rcylon.kernels.cpu.{noun}")
        for name, value in vars(module).items():
            if isinstance(value, Dispatcher):
                found[f"{noun}.{name}"] = list(value.signatures)
    return found


def run_all(make):
    """Run every kernel on inputs made by `make`; return all results."""
    n, parts = 600, 4
    rng = np.random.default_rng(0)
    numbers = make(rng.integers(-50, 50, n))
    floats = make(rng.normal(size=n))
    validity = make(rng.integers(0, 2, n).astype(np.uint8))
    lengths = make(rng.integers(0, 20, n).astype(np.uint32))
    offsets = make(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))
    data = make(rng.integers(0, 3, int(offsets[-1])).astype(np.uint8))
    out = np.empty(n, np.uint64)
    results = []
    cpu.hash_numbers(floats, validity, out)
    cpu.hash_numbers(numbers, None, out, True)
    cpu.hash_ticks(numbers, 1000, validity, out, True)
    cpu.hash_bytes(offsets, data, validity, out, True)
    cpu.hash_codes(make(rng.integers(-1, 9, n)), make(out[:9]), out, True)
    results.append(out)
    ids = cpu.partition_ids(make(out), parts)
    results += [ids, cpu.count_ids(make(ids), parts), cpu.count_bytes(lengths, make(ids), parts)]
    dest = np.zeros((n + parts) * 16 * 8, np.uint8)
    room = np.arange(parts) * (n + 1) * 16
    for width in (1, 2, 4, 8):
        values = make(rng.integers(0, 100, n).astype(f"u{width}"))
        cpu.scatter_fixed(values, make(ids), dest, make(room))
        results.append(cpu.take_fixed(values, make(np.arange(n)[::-1].copy())))
    cpu.scatter_fixed(make(rng.integers(0, 9, (n, 2)).astype(np.uint64)), make(ids), dest, room)
    cpu.scatter_var(offsets, data, make(ids), dest, make(room))
    results += [dest, *cpu.take_var(offsets, data, make(np.arange(n)[::-1].copy()))]
    results += [cpu.lengths_to_offsets(lengths), cpu.offsets_to_lengths(offsets)]
    target = np.zeros(16, np.uint8)
    counts, widths = make(np.array([[2]])), make(np.array([8]))
    results.append(cpu.bucket_bytes(counts, widths))
    place = make(np.zeros((1, 1), np.int64))
    source = make(np.arange(16, dtype=np.uint8))
    cpu.unpack(source, counts, widths, make(np.array([[target.ctypes.data]])), place)
    words = make(rng.integers(0, 300, (2, n)).astype(np.uint64))
    results += [target, *cpu.join_fixed(words[:1], None, words[1:], None)]
    results += cpu.join_fixed(words, validity, words, validity, True, True)
    for join in (cpu.join_bytes, cpu.factorize_bytes):
        results += join(offsets, data, validity, offsets, data, None)
    results.append(cpu.argsort(words))
    places = make(np.zeros(3, np.int64))
    splitters = make(np.array([[1, 2], [1, 9], [200, 0]], np.uint64))
    results += [cpu.split_ids(words, 0, splitters, places, places)]
    results.append(cpu.string_words(offsets, data, 2, True))
    results.append(cpu.searchsorted_numbers(numbers, make(np.arange(-30, 30, 10))))
    results.append(cpu.searchsorted_numbers(floats, make(np.arange(-1.0, 1.0, 0.5))))
    return results


@pytest.mark.parametrize("make", KINDS)
def test_kernels_take_any_memory_without_compiling_again(make):
    warm_up()
    expected = run_all(np.copy)
    before = compiled()
    found = run_all(make)
    assert compiled() == before
    for one, two in zip(found, expected, strict=True):
        assert np.array_equal(one, two)


def test_warm_up_compiles_all_that_is_used():
    warm_up()
    before = compiled()
    run_all(np.copy)
    assert compiled() == before


def test_as_input_copies_only_where_it_must():
    array = np.arange(6)
    assert np.shares_memory(as_input(array), array)
    assert array.flags.writeable
    for make in (strided, unaligned):
        made = make(array)
        assert as_input(made).tolist() == array.tolist()
        assert as_input(made).flags.aligned and as_input(made).flags.c_contiguous
