"""One run of a stage on one rank: fragments in, buckets out.

A stage that has to start again (a rank died, a bucket was asked for twice) gets a new run with a
higher id.  What belongs to an older run is dropped, and what arrives for it is refused.
"""

from __future__ import annotations

import itertools
import pickle
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pandas as pd

from dask_rcylon.columns.frame import Fragment, cut
from dask_rcylon.comm.exchange import Exchange
from dask_rcylon.pilot.assembly import Assembly, Header
from dask_rcylon.pilot.shares import Shares
from dask_rcylon.pilot.spec import StageSpec
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
        self._unsettled: list[dict[int, Any]] = [{} for _ in spec.inputs]
        self._fragments: list[dict[int, list[Fragment]]] = [{} for _ in spec.inputs]
        self._held = 0
        self._assemblies: list[Assembly] | None = None
        self._owned = range(0)

    def put(self, side: int, partition: int, frame: pd.DataFrame) -> PutReport:
        """Take an input partition in.

        Its fragments stay views of it until the exchange packs them, if memory allows: the copies
        are then made, sent and dropped a few at a time.
        """
        columns = self.spec.columns(side, partition, frame)
        if self.spec.settles:
            kept: tuple[list[dict[int, Any]], Any] = (self._unsettled, (frame, columns))
        else:
            ids = self.spec.ids(side, partition, frame, None)
            fragments = cut(columns, ids, self.spec.npartitions)
            kept = (self._fragments, fragments)
            for fragment in fragments:
                nbytes = fragment.nbytes
                if not self._store.has_room(self._held + nbytes):
                    fragment.pack(self._store.allocate)
                else:
                    self._held += nbytes
        with self._lock:
            if self.cancelled.is_set():
                raise RunClosed(f"run {self.number} of stage {self.spec.id} is over")
            kept[0][side][partition] = kept[1]
        return PutReport(self.number, self.rank, len(frame), self.spec.sample(partition, frame))

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
        self._cut(settled)
        # One side after the other: the fragments of the first are gone when the buckets of the
        # second are made, and their memory serves again.
        assemblies = [
            self._exchange_side(side, exchange, bounds) for side in range(len(self.spec.inputs))
        ]
        with self._lock:
            if self.cancelled.is_set():
                raise RunClosed(f"run {self.number} of stage {self.spec.id} is over")
            self._assemblies = assemblies
            self._owned = range(bounds[exchange.rank], bounds[exchange.rank + 1])

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
            self._unsettled = [{} for _ in self.spec.inputs]
            self._fragments = [{} for _ in self.spec.inputs]
            self._assemblies = None

    def _cut(self, settled: Any) -> None:
        """Cut the partitions that had to wait for what the spec settled."""
        for side, waiting in enumerate(self._unsettled):
            while waiting:
                partition, (frame, columns) = waiting.popitem()
                ids = self.spec.ids(side, partition, frame, settled)
                self._fragments[side][partition] = cut(columns, ids, self.spec.npartitions)

    def _exchange_side(self, side: int, exchange: Exchange, bounds: Sequence[int]) -> Assembly:
        """Exchange the fragments of one side; return the buckets of this rank."""
        fragments = {
            (partition, number): fragment
            for partition, pieces in sorted(self._fragments[side].items())
            for number, fragment in enumerate(pieces)
        }
        self._fragments[side] = {}
        incoming = [
            pickle.loads(header)
            for header in exchange.headers(
                [
                    pickle.dumps(
                        [Header.of(*item, low, high) for item in fragments.items()],
                        protocol=pickle.HIGHEST_PROTOCOL,
                    )
                    for low, high in pairwise(bounds)
                ]
            )
        ]
        headers = sorted(itertools.chain(*incoming), key=lambda header: header.place)
        low, high = bounds[exchange.rank], bounds[exchange.rank + 1]
        assembly = Assembly(headers, low, high, self._store.allocate)
        shares = Shares(list(fragments.values()), bounds, self._store.allocate)
        del fragments
        exchange.parcels(
            [(shares.sizes(peer), shares.parcels(peer)) for peer in range(exchange.size)],
            [[header.nbytes for header in peer] for peer in incoming],
            lambda peer, number, data: assembly.receive(incoming[peer][number].place, data),
        )
        return assembly
