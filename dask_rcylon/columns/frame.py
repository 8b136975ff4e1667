"""Frames to packed fragments, and buckets to frames.

A fragment is one array of bytes: bucket by bucket, in each bucket buffer by buffer, each padded to
8 bytes.  A peer's share is then one stretch of it.  A bucket is one array too, with each buffer in
one piece, so that columns are made of it without a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from dask_rcylon.columns.categories import unite
from dask_rcylon.columns.column import (
    BUFFERS,
    CATEGORY,
    DATA,
    LENGTHS,
    VALIDITY,
    VALUES,
    Column,
    decode,
    encode,
    form_of,
    value_width,
)
from dask_rcylon.columns.schema import FrameSchema
from dask_rcylon.kernels.cpu import (
    Ids,
    bucket_bytes,
    count_bytes,
    count_ids,
    lengths_to_offsets,
    offsets_to_lengths,
    scatter_fixed,
    scatter_var,
)

UInt8 = npt.NDArray[np.uint8]
Int64 = npt.NDArray[np.int64]
Allocate = Callable[[int], UInt8]

#: About the size of a fragment.
_FRAGMENT_BYTES = 2 << 20


@dataclass(frozen=True)
class Layout:
    """dtypes of the columns of a fragment; equal layouts have equal buffers.

    Attributes
    ----------
    dtypes : tuple
        One per column, index levels last. A categorical's categories are left out of it.
    """

    dtypes: tuple[Any, ...]

    @classmethod
    def of(cls, columns: Sequence[Column]) -> Layout:
        """Return the layout of columns."""
        return cls(
            tuple(
                pd.CategoricalDtype(ordered=c.dtype.ordered) if c.form == CATEGORY else c.dtype
                for c in columns
            )
        )

    def widths(self) -> Int64:
        """Return bytes per row of every buffer: ``-1 - v`` for variable buffer v."""
        widths: list[int] = []
        variable = 0
        for dtype in self.dtypes:
            for kind in BUFFERS[form_of(dtype)]:
                if kind == DATA:
                    variable += 1
                    widths.append(-variable)
                else:
                    widths.append({VALUES: value_width(dtype), LENGTHS: 4, VALIDITY: 1}[kind])
        return np.array(widths, np.int64)


def to_columns(frame: pd.DataFrame, schema: FrameSchema) -> list[Column]:
    """Take a frame apart."""
    columns = []
    for array in schema.arrays(frame):
        try:
            columns.append(encode(array))
        except Exception as error:
            error.add_note(f"(column {array.name!r}, dtype {array.dtype})")
            raise
    return columns


def cut(columns: Sequence[Column], ids: Ids, parts: int) -> list[Fragment]:
    """Cut the rows of an input partition into fragments of some MiB; see `Fragment`.

    A fragment is packed, sent and unpacked as a whole, so its size is what an exchange needs
    besides input and output, times the few that are on their way.
    """
    nbytes = sum(column.nbytes for column in columns)
    # Not so small that a bucket's bit of a fragment costs more in its header than it holds.
    pieces = max(1, min(-(-nbytes // _FRAGMENT_BYTES), len(ids) // parts))
    edges = [len(ids) * piece // pieces for piece in range(pieces + 1)]
    return [
        Fragment([column[low:high] for column in columns], ids[low:high], parts)
        for low, high in pairwise(edges)
    ]


class Fragment:
    """Some rows of an input partition, cut into buckets.

    What each bucket holds is counted at once; the rows are brought into the order of their buckets
    when `pack` is called. Until then the fragment is but a view of the partition.

    Parameters
    ----------
    columns : sequence of Column
        Of n rows.
    ids : unsigned array (n,)
        Bucket of each row.
    parts : int
        Number of buckets P.

    Attributes
    ----------
    counts : int64 array (P, 1 + V)
        For each bucket: rows, and bytes of each variable buffer.
    widths : int64 array (K,)
        For each buffer: bytes per row, ``-1 - v`` for variable buffer v, 0 if absent.
    layout : Layout
        dtypes.
    extras : list
        Categories of each column, or None.

    Raises
    ------
    ValueError
        If a bucket number is not below `parts`, or a value is 4 GiB or longer.
    """

    def __init__(self, columns: Sequence[Column], ids: Ids, parts: int) -> None:
        self._columns = columns
        self._ids = ids
        self._data: UInt8 | None = None
        self.layout = Layout.of(columns)
        self.extras = [column.categories for column in columns]
        counts = [count_ids(ids, parts)]
        for column in columns:
            if column.offsets is not None:
                counts.append(count_bytes(offsets_to_lengths(column.offsets), ids, parts))
        self.counts: Int64 = np.stack(counts, axis=1)
        self.widths = self.layout.widths()
        for place, column in self._buffers_of(VALIDITY):
            if column.validity is None:
                self.widths[place] = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the packed fragment."""
        return int(bucket_bytes(self.counts, self.widths).sum())

    def pack(self, allocate: Allocate) -> UInt8:
        """Bring the rows into the order of their buckets.

        Parameters
        ----------
        allocate : callable(nbytes) -> uint8 array
            Source of memory.

        Returns
        -------
        uint8 array
            Bucket by bucket, in each bucket buffer by buffer, each padded to 8 bytes.
        """
        if self._data is None:
            sizes = _buffer_bytes(self.counts, self.widths)
            starts = np.cumsum(sizes.ravel()).reshape(sizes.shape) - sizes
            data = allocate(int(sizes.sum()))
            for place, kind, column in self._buffers():
                self._scatter(kind, column, data, np.ascontiguousarray(starts[:, place]))
            self._data = data
            self._columns, self._ids = (), np.empty(0, np.uint16)
        return self._data

    def _scatter(self, kind: str, column: Column, data: UInt8, starts: Int64) -> None:
        values: Any = column.validity
        if kind == DATA:
            scatter_var(column.offsets, column.data, self._ids, data, starts)  # type: ignore[arg-type]
            return
        if kind == VALUES:
            values = column.values
        elif kind == LENGTHS:
            values = offsets_to_lengths(column.offsets)  # type: ignore[arg-type]
        if values is not None:
            scatter_fixed(values, self._ids, data, starts)

    def _buffers(self) -> list[tuple[int, str, Column]]:
        kinds = [(kind, column) for column in self._columns for kind in BUFFERS[column.form]]
        return [(place, kind, column) for place, (kind, column) in enumerate(kinds)]

    def _buffers_of(self, kind: str) -> list[tuple[int, Column]]:
        return [(place, column) for place, found, column in self._buffers() if found == kind]


def _buffer_bytes(counts: Int64, widths: Int64) -> Int64:
    """Return the padded bytes of each buffer of each bucket: int64 (P, K)."""
    nbytes = np.empty((len(counts), len(widths)), np.int64)
    for k, width in enumerate(widths):
        nbytes[:, k] = counts[:, -width] if width < 0 else counts[:, 0] * width
    return (nbytes + 7) // 8 * 8


class BucketColumns:
    """The buffers of one bucket, each in one piece."""

    def __init__(self, layout: Layout, buffers: list[UInt8 | None]) -> None:
        self._layout = layout
        self._buffers = buffers

    @classmethod
    def allocate(
        cls, layout: Layout, widths: Int64, rows: int, var_bytes: Int64, allocate: Allocate
    ) -> BucketColumns:
        """Make room for a bucket.

        Parameters
        ----------
        layout : Layout
            dtypes.
        widths : int64 array (K,)
            Buffers, as in `Fragment`; absent ones are not made.
        rows : int
            Rows.
        var_bytes : int64 array (V,)
            Bytes of each variable buffer.
        allocate : callable(nbytes) -> uint8 array
            Source of memory.
        """
        sizes = _buffer_bytes(np.array([[rows, *var_bytes]], np.int64), widths)[0]
        exact = [int(var_bytes[-1 - w]) if w < 0 else rows * int(w) for w in widths]
        memory = allocate(int(sizes.sum()))
        starts = np.cumsum(sizes) - sizes
        buffers = [
            None if width == 0 else memory[start : start + nbytes]
            for width, start, nbytes in zip(widths, starts, exact, strict=True)
        ]
        return cls(layout, buffers)

    def addresses(self) -> list[int]:
        """Return the address of each buffer, 0 for absent ones."""
        return [
            0 if buffer is None else buffer.__array_interface__["data"][0]
            for buffer in self._buffers
        ]

    def to_arrays(self, extras: Sequence[Sequence[Any]], rows: Sequence[int]) -> list[Any]:
        """Make the pandas arrays of the columns.

        Parameters
        ----------
        extras : sequence of lists
            Categories per column, for each fragment that the rows came from.
        rows : sequence of int
            Rows that came from each of these fragments, in order.
        """
        buffers = iter(self._buffers)
        arrays = []
        for place, dtype in enumerate(self._layout.dtypes):
            form = form_of(dtype)
            found = {kind: next(buffers) for kind in BUFFERS[form]}
            column = Column(dtype, form, data=found.get(DATA), validity=found.get(VALIDITY))
            if VALUES in found:
                column.values = _typed(found[VALUES], value_width(dtype))
            if LENGTHS in found:
                column.offsets = lengths_to_offsets(_typed(found[LENGTHS], 4))
            if form == CATEGORY:
                codes: Any = column.values
                known = [extra[place] for extra in extras]
                arrays.append(unite(codes.view(np.int32), known, rows, dtype.ordered))
            else:
                arrays.append(decode(column))
        return arrays


def to_frame(
    schema: FrameSchema,
    bucket: BucketColumns,
    extras: Sequence[Sequence[Any]],
    rows: Sequence[int],
) -> pd.DataFrame:
    """Put a frame together; see `BucketColumns.to_arrays`."""
    return schema.frame(bucket.to_arrays(extras, rows), sum(rows))


def _typed(buffer: UInt8 | None, width: int) -> npt.NDArray[Any]:
    assert buffer is not None
    if width == 16:
        return buffer.view(np.uint64).reshape(-1, 2)
    return buffer.view(f"u{width}")
