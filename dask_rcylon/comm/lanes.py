"""The two directions between a rank and a peer: parcels to messages, and messages to parcels.

Sender and receiver both know the sizes of all parcels, so that both derive the same messages: small
parcels for one peer are packed into one message, a large one is cut into several.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from dask_rcylon.comm import mpi

Bytes = npt.NDArray[np.uint8]
Outgoing = tuple[Sequence[int], Iterator[Bytes]]
Deliver = Callable[[int, int, Bytes], None]

#: Messages in flight per peer and direction: one on the wire, one being packed or unpacked.
_WINDOW = 2
#: Parcels below this are packed together; larger ones leave from where they lie.
_PACK_BYTES = 1 << 20
#: No peer gets this many parcels more than another: what one has left open is kept for all.
LEAD = 4
_DATA_TAG = 2


def messages(sizes: Sequence[int], message_bytes: int) -> Iterator[tuple[int, int, int]]:
    """Cut a peer's parcels into units that are packed together or sent alone.

    Parameters
    ----------
    sizes : sequence of int
        Bytes of each parcel.
    message_bytes : int
        The longest message.

    Yields
    ------
    (first, last, nbytes)
        Parcels ``first .. last-1``, `nbytes` together. Several only if they are small together, so
        that more than `message_bytes` can only be a single parcel.
    """
    pack = min(message_bytes, _PACK_BYTES)
    first, total = 0, 0
    for number, size in enumerate(sizes):
        if number > first and total + size > pack:
            yield first, number, total
            first, total = number, 0
        total += size
    if first < len(sizes):
        yield first, len(sizes), total


class Sender:
    """The messages for one peer.

    Attributes
    ----------
    taken : int
        Parcels that have been asked for.
    last : int
        Number of the last parcel that may be asked for now.
    exhausted : bool
        Whether all have been asked for and handed to MPI.
    """

    def __init__(self, comm: Any, peer: int, outgoing: Outgoing, limit: int) -> None:
        self.taken = 0
        self.last = LEAD
        self.exhausted = False
        self._comm = comm
        self._peer = peer
        self._messages = self._cut(*outgoing, limit)
        self._flying: deque[tuple[Any, Bytes]] = deque()

    def _cut(
        self, sizes: Sequence[int], parcels: Iterator[Bytes], limit: int
    ) -> Iterator[Bytes | None]:
        """Yield the messages; None when it is the others' turn."""
        for first, last, nbytes in messages(sizes, limit):
            while first > self.last:
                yield None
            unit = [next(parcels) for _ in range(first, last)]
            self.taken = last
            whole = unit[0] if len(unit) == 1 else np.concatenate(unit)
            del unit
            for low in range(0, nbytes, limit):
                yield whole[low : low + limit]
            del whole

    @property
    def done(self) -> bool:
        """Whether nothing is left to do."""
        return self.exhausted and not self._flying

    def step(self) -> bool:
        """Do what can be done without waiting; return whether anything was."""
        moved = False
        while self._flying and self._flying[0][0].Test():
            self._flying.popleft()
            moved = True
        while len(self._flying) < _WINDOW and not self.exhausted:
            try:
                message = next(self._messages)
            except StopIteration:
                self.exhausted = True
            else:
                if message is None:
                    break
                byte = mpi.load().BYTE
                request = self._comm.Isend([message, byte], dest=self._peer, tag=_DATA_TAG)
                self._flying.append((request, message))
            moved = True
        return moved


class Receiver:
    """The messages from one peer, and the parcels they bring."""

    def __init__(
        self, comm: Any, peer: int, sizes: Sequence[int], limit: int, deliver: Deliver
    ) -> None:
        self._comm = comm
        self._peer = peer
        self._deliver = deliver
        self._sizes = sizes
        self._messages = self._cut(limit)
        self._flying: deque[tuple[Any, Bytes, tuple[int, int, Bytes] | None]] = deque()
        self._exhausted = False
        self._spare: list[Bytes] = []

    def _cut(self, limit: int) -> Iterator[tuple[Bytes, tuple[int, int, Bytes] | None]]:
        """Yield where each message lands, and with the last one of a unit what is then whole."""
        for first, last, nbytes in messages(self._sizes, limit):
            landing = self._landing(nbytes)
            if nbytes == 0:
                yield landing[:0], (first, last, landing)
            for low in range(0, nbytes, limit):
                whole = (first, last, landing) if low + limit >= nbytes else None
                yield landing[low : min(low + limit, nbytes)], whole

    def _landing(self, nbytes: int) -> Bytes:
        # Fresh pages cost as much as the copy into them: reuse what has been unpacked.
        for place, spare in enumerate(self._spare):
            if len(spare) >= nbytes:
                return self._spare.pop(place)
        self._spare.clear()
        return np.empty(nbytes, np.uint8)

    @property
    def done(self) -> bool:
        """Whether nothing is left to do."""
        return self._exhausted and not self._flying

    def step(self) -> bool:
        """Do what can be done without waiting; return whether anything was."""
        moved = False
        while self._flying and (self._flying[0][0] is None or self._flying[0][0].Test()):
            _, _, whole = self._flying.popleft()
            if whole is not None:
                self._unpack(*whole)
            moved = True
        while len(self._flying) < _WINDOW and not self._exhausted:
            message = next(self._messages, None)
            if message is None:
                self._exhausted = True
            else:
                place, whole = message
                request = None
                if len(place):
                    byte = mpi.load().BYTE
                    request = self._comm.Irecv([place, byte], source=self._peer, tag=_DATA_TAG)
                self._flying.append((request, place, whole))
            moved = True
        return moved

    def _unpack(self, first: int, last: int, landing: Bytes) -> None:
        bounds = np.concatenate([[0], np.cumsum(self._sizes[first:last])]).astype(np.int64)
        for number, (low, high) in enumerate(pairwise(bounds), start=first):
            self._deliver(self._peer, number, landing[low:high])
        self._spare.append(landing)
