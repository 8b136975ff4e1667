"""Where the fragments of one side become buckets.

Headers come first: how many rows and bytes each fragment has for each bucket.  They fix where every
row will lie, so that pieces can be copied to their final place in whatever order they arrive, and
the order of rows does not depend on timing: input partitions in their order, rows in theirs.

Fragments whose layouts differ (the data of a partition deviating from the frame's meta) can't share
buffers.  Each run of fragments with one layout then makes a piece of its own, and pandas
concatenates the pieces when the partition is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from dask_rcylon.columns.frame import BucketColumns, Fragment, Layout
from dask_rcylon.kernels.cpu import bucket_bytes, unpack
from dask_rcylon.pilot.spec import Allocate, Piece

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Header:
    """What a rank must know of a fragment to receive its share of it.

    Attributes
    ----------
    place : pair of int
        Numbers of the input partition and of the fragment within it, which order the rows.
    layout : Layout
        dtypes and buffers of its columns.
    widths : int64 array (K,)
        Bytes per row of each buffer; negative for a variable one, 0 for one that is absent.
    extras : list
        Categories per column, or None.
    counts : int64 array (B, 1 + V)
        For each bucket of the share: rows, and bytes of each variable buffer.
    """

    place: tuple[int, int]
    layout: Layout
    widths: Int64
    extras: list[Any]
    counts: Int64

    @classmethod
    def of(cls, place: tuple[int, int], fragment: Fragment, low: int, high: int) -> Header:
        """Describe the share ``low .. high-1`` of the buckets of a fragment."""
        counts = fragment.counts[low:high]
        return cls(place, fragment.layout, fragment.widths, fragment.extras, counts)

    @property
    def nbytes(self) -> int:
        """Bytes of the share."""
        return int(bucket_bytes(self.counts, self.widths).sum())


class Assembly:
    """The buckets of one side that this rank owns.

    Parameters
    ----------
    headers : sequence of Header
        Of all fragments of the side, in order of their places.
    low, high : int
        The buckets ``low .. high-1`` are this rank's.
    allocate : callable(nbytes) -> uint8 array
        Source of memory.
    """

    def __init__(self, headers: Sequence[Header], low: int, high: int, allocate: Allocate) -> None:
        self._low = low
        self._places: dict[tuple[int, int], tuple[_Group, int]] = {}
        self._groups: list[_Group] = []
        for _, same in groupby(headers, key=lambda header: header.layout):
            group = _Group(list(same), high - low, allocate)
            for number, header in enumerate(group.headers):
                self._places[header.place] = (group, number)
            self._groups.append(group)

    def receive(self, place: tuple[int, int], data: npt.NDArray[np.uint8]) -> None:
        """Copy this rank's share of a fragment to where it belongs."""
        group, number = self._places[place]
        group.receive(number, data)

    def pieces(self, bucket: int) -> list[Piece]:
        """Return the pieces of a bucket.

        Raises
        ------
        KeyError
            If the bucket has been discarded.
        """
        return [group.piece(bucket - self._low) for group in self._groups]

    def discard(self, bucket: int) -> None:
        """Free a bucket."""
        for group in self._groups:
            group.columns.pop(bucket - self._low, None)


class _Group:
    """Buckets of fragments that share a layout."""

    def __init__(self, headers: list[Header], buckets: int, allocate: Allocate) -> None:
        self.headers = headers
        counts = np.stack([header.counts for header in headers])
        totals = counts.sum(axis=0)
        # Where each fragment's rows start: those of all fragments before it come first.
        self._starts: Int64 = np.cumsum(counts, axis=0) - counts
        self._rows: Int64 = counts[:, :, 0]
        # A buffer that some fragments lack (validity without nulls) is made if any has it.
        widths = np.array([header.widths for header in headers])
        merged = np.where((widths < 0).any(axis=0), widths.min(axis=0), widths.max(axis=0))
        self.columns: dict[int, BucketColumns] = {
            bucket: BucketColumns.allocate(
                headers[0].layout, merged, int(totals[bucket, 0]), totals[bucket, 1:], allocate
            )
            for bucket in range(buckets)
        }
        self._addresses: Int64 = np.array(
            [self.columns[bucket].addresses() for bucket in range(buckets)], np.int64
        ).reshape(buckets, len(merged))

    def receive(self, number: int, data: npt.NDArray[np.uint8]) -> None:
        header = self.headers[number]
        unpack(data, header.counts, header.widths, self._addresses, self._starts[number])

    def piece(self, bucket: int) -> Piece:
        return Piece(
            self.columns[bucket],
            [header.extras for header in self.headers],
            [int(rows) for rows in self._rows[:, bucket]],
        )
