import gc
import os

import numpy as np
import pytest

from dask_rcylon.pilot.store import Store

MIB = 1 << 20


def test_over_the_budget_arrays_go_to_disk(tmp_path):
    store = Store(3 * MIB, str(tmp_path))
    arrays = [store.allocate(2 * MIB) for _ in range(3)]
    assert (store.in_memory, store.on_disk) == (2 * MIB, 4 * MIB)
    for number, array in enumerate(arrays):
        array[:] = number
    assert [int(array[-1]) for array in arrays] == [0, 1, 2]
    assert list(tmp_path.iterdir()) == []  # the files have no names


def test_memory_counts_until_the_last_view_is_gone(tmp_path):
    store = Store(MIB, str(tmp_path))
    memory, disk = store.allocate(MIB)[:10], store.allocate(MIB)[:10]
    gc.collect()
    assert (store.in_memory, store.on_disk) == (MIB, MIB)
    del memory, disk
    gc.collect()
    assert (store.in_memory, store.on_disk) == (0, 0)
    assert store.spilled == MIB


def test_a_directory_that_is_gone(tmp_path):
    store = Store(0, str(tmp_path / "gone"))
    with pytest.raises(OSError, match="rcylon.store.memory"):
        store.allocate(MIB)
    assert (store.in_memory, store.on_disk) == (0, 0)


def test_a_full_disk(tmp_path, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    store = Store(0, str(tmp_path))
    with pytest.raises(OSError, match="No space left"):
        store.allocate(MIB)
    assert isinstance(store.allocate(10), np.ndarray)
