"""What each peer gets of this rank's fragments.

A fragment is packed when the first peer's lane asks for its share, and dropped when the last has
taken its own: of all fragments only a few exist in packed form at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from dask_rcylon.columns.frame import Fragment
from dask_rcylon.kernels.cpu import bucket_bytes
from dask_rcylon.pilot.spec import Allocate


class Shares:
    """Fragments, cut along the bounds of their buckets' owners.

    Parameters
    ----------
    fragments : list of Fragment
        In the order in which every peer gets its share of them.
    bounds : sequence (G + 1,) of int
        Peer g owns the buckets ``bounds[g] .. bounds[g+1]-1``.
    allocate : callable(nbytes) -> uint8 array
        Source of memory.
    """

    def __init__(
        self, fragments: list[Fragment], bounds: Sequence[int], allocate: Allocate
    ) -> None:
        self._allocate = allocate
        self._waiting: dict[int, Fragment] = dict(enumerate(fragments))
        self._packed: dict[int, npt.NDArray[np.uint8]] = {}
        self._owed = [len(bounds) - 1] * len(fragments)
        self._edges: list[list[int]] = []
        for fragment in fragments:
            ends = np.cumsum(bucket_bytes(fragment.counts, fragment.widths))
            self._edges.append([int(ends[bound - 1]) if bound else 0 for bound in bounds])

    def sizes(self, peer: int) -> list[int]:
        """Return the bytes of a peer's share of each fragment."""
        return [edges[peer + 1] - edges[peer] for edges in self._edges]

    def parcels(self, peer: int) -> Iterator[npt.NDArray[np.uint8]]:
        """Yield a peer's share of each fragment; once per peer."""
        for number, edges in enumerate(self._edges):
            yield self._take(number)[edges[peer] : edges[peer + 1]]

    def _take(self, number: int) -> npt.NDArray[np.uint8]:
        if number not in self._packed:
            self._packed[number] = self._waiting.pop(number).pack(self._allocate)
        self._owed[number] -= 1
        return self._packed[number] if self._owed[number] else self._packed.pop(number)
