"""Compile or load the kernels before the first stage needs them.

Numba keeps compiled kernels on disk, so that only the first run on a machine compiles.  All ranks
start at once, though; a lock makes one compile while the others wait for what it leaves behind.
"""

from __future__ import annotations

import logging
import tempfile
import time
from pathlib import Path

import locket
import numpy as np

from dask_rcylon.kernels import cpu

logger = logging.getLogger("dask_rcylon")

#: Loading everything from disk takes well under this; longer means that something was compiled.
_COMPILED_SECONDS = 4.0


def warm_up() -> float:
    """Run every kernel once on a few rows.

    Returns
    -------
    float
        Seconds that it took, waiting for another process included.
    """
    start = time.monotonic()
    with locket.lock_file(Path(tempfile.gettempdir()) / _lock_name()):
        _run_all()
    seconds = time.monotonic() - start
    if seconds > _COMPILED_SECONDS:
        logger.info("Compiled the kernels in %.1f s; the next start finds them on disk", seconds)
    return seconds


def _lock_name() -> str:
    """One lock per user: another user's lock file may not be writable."""
    import getpass

    return f"dask-rcylon-{getpass.getuser()}.lock"


def _run_all() -> None:
    rows, parts = 4, 2
    out = np.empty(rows, np.uint64)
    integers = np.arange(rows)
    lengths = np.ones(rows, np.uint32)
    offsets = cpu.lengths_to_offsets(lengths)
    text = np.frombuffer(b"abcd", np.uint8).copy()
    cpu.offsets_to_lengths(offsets)
    cpu.hash_numbers(integers, None, out)
    cpu.hash_ticks(integers, 1, None, out)
    cpu.hash_bytes(offsets, text, None, out)
    cpu.hash_codes(integers, out.copy(), out)
    ids = cpu.partition_ids(out, parts)
    cpu.count_ids(ids, parts)
    cpu.count_bytes(lengths, ids, parts)
    fragment = np.zeros(parts * 8 * (rows + 1) * 2, np.uint8)
    starts = np.arange(parts) * 8 * rows * 2
    for width in (1, 2, 4, 8):
        cpu.scatter_fixed(np.zeros(rows, f"u{width}"), ids, fragment, starts)
        cpu.take_fixed(np.zeros(rows, f"u{width}"), integers)
    cpu.scatter_fixed(np.zeros((rows, 2), np.uint64), ids, fragment, starts)
    cpu.scatter_var(offsets, text, ids, fragment, starts)
    cpu.take_var(offsets, text, integers)
    counts, widths = np.array([[1]]), np.array([8])
    cpu.bucket_bytes(counts, widths)
    address = np.array([[fragment.ctypes.data]])
    cpu.unpack(np.zeros(8, np.uint8), counts, widths, address, np.zeros((1, 1), np.int64))
    words = np.zeros((2, rows), np.uint64)
    cpu.join_fixed(words[:1], None, words[:1], None)
    cpu.join_fixed(words, None, words, None)
    cpu.join_bytes(offsets, text, None, offsets, text, None)
    cpu.factorize_bytes(offsets, text, None, offsets, text, None)
    cpu.argsort(words)
    place = np.zeros(1, np.int64)
    cpu.split_ids(words, 0, np.zeros((1, 2), np.uint64), place, place)
    cpu.string_words(offsets, text, 1, False)
    cpu.searchsorted_numbers(integers, np.array([0, 2, 4]))
    cpu.searchsorted_numbers(integers.astype(float), np.array([0.0, 2.0, 4.0]))
