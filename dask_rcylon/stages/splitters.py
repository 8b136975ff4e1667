"""Where a sort cuts the order of all rows into partitions.

Each put task draws a sample of its partition's keys; the splitters are quantiles of all samples
together, each sample row weighted by the rows it stands for.  This is sample sort (Blelloch et al.
1991, "A comparison of sorting algorithms for the Connection Machine"), with one addition: a row is
ordered by its keys *and then* by its place in the input.  So a splitter may fall between two rows
of equal keys, a frequent value spreads over as many partitions as it needs, and the sort is stable.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dask_rcylon.columns.sortkeys import MAX_CHUNKS, sort_words

Words = npt.NDArray[np.uint64]
Int64 = npt.NDArray[np.int64]

#: Sample rows wanted for each output partition: its size is then right to about 1/sqrt(512) = 4 %.
_PER_OUTPUT = 512
_FEWEST, _MOST = 256, 8192


@dataclass(frozen=True)
class Sample:
    """Keys of some rows of a partition.

    Attributes
    ----------
    partition : int
        Number of the input partition.
    total : int
        Rows of the partition.
    rows : int64 array (s,)
        Positions of the sampled rows, ascending.
    keys : list of arrays (s,)
        Their keys, one array per sort column.
    chunks : int
        8-byte chunks the partition's longest string key needs.
    """

    partition: int
    total: int
    rows: Int64
    keys: list[Any]
    chunks: int


@dataclass(frozen=True)
class Splitters:
    """Cuts between output partitions; a row belongs behind as many as are not after it.

    Attributes
    ----------
    words : uint64 array (S, k)
        Sort words of each splitter.
    parts, rows : int64 array (S,)
        Its place in the input; part -1 where equal keys must stay together.
    chunks : int
        Chunks of a string key, so that all partitions make equal words.
    """

    words: Words
    parts: Int64
    rows: Int64
    chunks: int


def draw(partition: int, total: int, inputs: int, outputs: int) -> Int64:
    """Choose the rows of a partition's sample.

    Parameters
    ----------
    partition : int
        Its number; the choice is a function of it, so that a recomputed partition samples the same.
    total : int
        Its rows.
    inputs, outputs : int
        Partitions before and after the sort.

    Returns
    -------
    int64 array, ascending
    """
    wanted = min(max(math.ceil(_PER_OUTPUT * outputs / inputs), _FEWEST), _MOST)
    if total <= wanted:
        return np.arange(total, dtype=np.int64)
    # One row at random out of each of `wanted` equal stretches: as even as a stride, and immune to
    # data with a period.
    edges = np.linspace(0, total, wanted + 1).astype(np.int64)
    random = np.random.default_rng(partition).random(wanted)
    return edges[:-1] + (random * np.diff(edges)).astype(np.int64)


def choose(
    samples: Sequence[Sample],
    outputs: int,
    ascending: Sequence[bool],
    na_position: str,
    colocate: bool,
) -> Splitters:
    """Choose splitters that cut all rows into `outputs` partitions of about equal size.

    Parameters
    ----------
    samples : sequence of Sample
        Of all input partitions.
    outputs : int
        Output partitions.
    ascending, na_position : sequence of bool, str
        As in ``DataFrame.sort_values``.
    colocate : bool
        Whether equal keys must end up in one partition.

    Returns
    -------
    Splitters
    """
    chunks = max((sample.chunks for sample in samples), default=0)
    exact = chunks <= MAX_CHUNKS
    chunks = min(chunks, MAX_CHUNKS)
    filled = [sample for sample in samples if len(sample.rows)]
    if not filled or outputs == 1:
        empty = np.empty(0, np.int64)
        return Splitters(np.empty((0, 1), np.uint64), empty, empty, chunks)
    words = np.concatenate(
        [sort_words(sample.keys, ascending, na_position, chunks) for sample in filled], axis=1
    )
    parts = np.concatenate([np.full(len(s.rows), s.partition, np.int64) for s in filled])
    rows = np.concatenate([sample.rows for sample in filled])
    weights = np.concatenate([np.full(len(s.rows), s.total / len(s.rows)) for s in filled])
    order = np.lexsort((rows, parts, *words[::-1]))
    passed = np.cumsum(weights[order])
    targets = passed[-1] * np.arange(1, outputs) / outputs
    picked = order[np.searchsorted(passed, targets, side="left").clip(max=len(order) - 1)]
    if colocate or not exact:
        # Prefixes that are equal say nothing of the order of what follows them.
        parts = np.full(len(parts), -1, np.int64)
    return Splitters(np.ascontiguousarray(words[:, picked].T), parts[picked], rows[picked], chunks)
