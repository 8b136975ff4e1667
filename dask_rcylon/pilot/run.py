"""One run of a stage on one rank: fragments in, buckets out.

A stage that has to start again (a rank died, a bucket was asked for twice) gets a new run with a
higher id.  What belongs to an older run is dropped, and what arrives for it is refused.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from dask_rcylon.columns.frame import Packed
from dask_rcylon.comm.exchange import Exchange
from dask_rcylon.kernels.cpu import bucket_bytes
from dask_rcylon.pilot.assembly import Assembly, Header
from dask_rcylon.pilot.spec import Cut, StageSpec
from dask_rcylon.pilot.store import Store


class RunClosed(RuntimeError):
    """The run was superseded or forgotten while something still worked for it."""


class BucketGone(LookupError):
    """The bucket has been handed out already, or was never here."""


@dataclass(frozen=True)
class PutReport:
    """What a put task returns: proof that a fragment lies on a rank.

    Attributes
    ----------
    run : int
        Run for which it was made.
    rank : int
        Rank that holds it.
    rows : int
        Rows of the partition.
    sample : Any
        The spec's sample of the partition, or None.
    """

    run: int
    rank: int
    rows: int
    sample: Any


class StageRun:
    """Fragments and buckets of one stage on this rank.

    Parameters
    ----------
    spec : StageSpec
        The stage.
    number : int
        Run id.
    rank : int
        This process's rank in the world.
    store : Store
        Source of memory.

    Attributes
    ----------
    cancelled : threading.Event
        Set when the run is over; an exchange in progress gives up.
    """

    def __init__(self, spec: StageSpec, number: int, rank: int, store: Store) -> None:
        self.spec = spec
        self.number = number
        self.rank = rank
        self.cancelled = threading.Event()
        self._store = store
        self._lock = threading.Lock()
        self._cuts: list[dict[int, Cut]] = [{} for _ in spec.inputs]
        self._fragments: list[dict[int, Packed]] = [{} for _ in spec.inputs]
        self._assemblies: list[Assembly] | None = None
        self._owned = range(0)

    def put(self, side: int, partition: int, frame: pd.DataFrame) -> PutReport:
        """Take an input partition in."""
        cut = self.spec.cut(side, partition, frame)
        if self.spec.settles:
            kept: tuple[list[dict[int, Any]], Any] = (self._cuts, cut)
        else:
            kept = (self._fragments, cut.pack(None, self._store.allocate))
        with self._lock:
            if self.cancelled.is_set():
                raise RunClosed(f"run {self.number} of stage {self.spec.id} is over")
            kept[0][side][partition] = kept[1]
        return PutReport(self.number, self.rank, cut.rows, cut.sample)

    def exchange(self, exchange: Exchange, bounds: Sequence[int], settled: Any) -> None:
        """Bring every bucket to its owner.

        Parameters
        ----------
        exchange : Exchange
            Connects the ranks of the gang.
        bounds : sequence (gang size + 1,) of int
            Rank g of the gang owns the buckets ``bounds[g] .. bounds[g+1]-1``.
        settled : Any
            What `StageSpec.settle` decided.
        """
        self._pack(settled)
        mine = exchange.rank
        low, high = bounds[mine], bounds[mine + 1]
        order = [
            (side, partition)
            for side, fragments in enumerate(self._fragments)
            for partition in sorted(fragments)
        ]
        sizes = {
            key: np.concatenate(
                [[0], np.cumsum(bucket_bytes(packed.counts, packed.widths))]
            ).astype(np.int64)
            for key in order
            for packed in [self._fragments[key[0]][key[1]]]
        }
        incoming = self._announce(exchange, order, bounds)
        assemblies = [
            Assembly(
                sorted(
                    (header for peer in incoming for s, header in peer if s == side),
                    key=lambda header: header.partition,
                ),
                low,
                high,
                self._store.allocate,
            )
            for side in range(len(self.spec.inputs))
        ]

        def outgoing(peer: int) -> list[npt.NDArray[np.uint8]]:
            first, last = bounds[peer], bounds[peer + 1]
            return [
                self._fragments[side][partition].data[
                    sizes[side, partition][first] : sizes[side, partition][last]
                ]
                for side, partition in order
            ]

        def deliver(peer: int, number: int, data: npt.NDArray[np.uint8]) -> None:
            side, header = incoming[peer][number]
            assemblies[side].receive(header.partition, data)

        exchange.parcels(
            [outgoing(peer) for peer in range(exchange.size)],
            [[header.nbytes for _, header in peer] for peer in incoming],
            deliver,
        )
        with self._lock:
            self._fragments = [{} for _ in self.spec.inputs]
            if self.cancelled.is_set():
                raise RunClosed(f"run {self.number} of stage {self.spec.id} is over")
            self._assemblies, self._owned = assemblies, range(low, high)

    def get(self, partition: int) -> pd.DataFrame:
        """Make an output partition of its bucket, and free the bucket.

        Raises
        ------
        BucketGone
            If this rank does not have the bucket (any more).
        """
        with self._lock:
            if self._assemblies is None or partition not in self._owned:
                raise BucketGone(f"bucket {partition} of stage {self.spec.id} is not here")
            try:
                sides = [assembly.pieces(partition) for assembly in self._assemblies]
            except KeyError:
                raise BucketGone(
                    f"bucket {partition} of stage {self.spec.id} has been used up"
                ) from None
        frame = self.spec.finish(partition, sides)
        with self._lock:
            for assembly in self._assemblies or ():
                assembly.discard(partition)
        return frame

    def close(self) -> None:
        """Drop everything; whoever still works for the run finds it over."""
        with self._lock:
            self.cancelled.set()
            self._cuts = [{} for _ in self.spec.inputs]
            self._fragments = [{} for _ in self.spec.inputs]
            self._assemblies = None

    def _pack(self, settled: Any) -> None:
        for side, cuts in enumerate(self._cuts):
            while cuts:
                partition, cut = cuts.popitem()
                self._fragments[side][partition] = cut.pack(settled, self._store.allocate)

    def _announce(
        self, exchange: Exchange, order: list[tuple[int, int]], bounds: Sequence[int]
    ) -> list[list[tuple[int, Header]]]:
        """Tell every peer what it will get; return what this rank will get from each."""
        outgoing = [
            pickle.dumps(
                [
                    (
                        side,
                        Header.of(
                            partition,
                            self._fragments[side][partition],
                            bounds[peer],
                            bounds[peer + 1],
                        ),
                    )
                    for side, partition in order
                ],
                protocol=pickle.HIGHEST_PROTOCOL,
            )
            for peer in range(exchange.size)
        ]
        return [pickle.loads(header) for header in exchange.headers(outgoing)]
