"""The all-to-all of a stage: bytes per peer in, bytes per peer out.

An exchange moves *parcels*, arrays of bytes, from every rank of a gang to every other.  All sizes
travel before them, in a header.  No message is longer than `message_bytes`, which bounds memory and
keeps MPI's counts small however large the parcels are (see `lanes`).

Everything is non-blocking and polled.  A blocking collective can't be given up; a polled exchange
can: when a peer fails (`cancel`), or when nothing has moved for `timeout` seconds.  The world stays
usable, the communicator must then be abandoned.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from dask_rcylon.comm import mpi
from dask_rcylon.comm.lanes import LEAD, Deliver, Outgoing, Receiver, Sender

_HEADER_TAG = 1


class ExchangeCancelled(RuntimeError):
    """The exchange was given up because a peer failed or the run is over."""


class ExchangeTimeout(TimeoutError):
    """Nothing moved for longer than ``rcylon.exchange.timeout``."""


class Exchange(Protocol):
    """Move bytes between the ranks of a gang."""

    @property
    def rank(self) -> int:
        """Place of this process in the gang."""

    @property
    def size(self) -> int:
        """Number of ranks in the gang."""

    def headers(self, outgoing: Sequence[bytes]) -> list[bytes]:
        """Send ``outgoing[p]`` to peer p; return what each peer sent here."""

    def parcels(
        self,
        outgoing: Sequence[Outgoing],
        incoming: Sequence[Sequence[int]],
        deliver: Deliver,
    ) -> None:
        """Send ``outgoing[p]`` to peer p and deliver what arrives.

        Parameters
        ----------
        outgoing : sequence (size,) of (list of int, iterator of uint8 arrays)
            Sizes of the parcels for each peer, and the parcels. A parcel is asked for when its turn
            comes and dropped when it has left; the peers keep pace with each other. So only a few
            need exist at a time, also if those of one number are made together for all peers.
        incoming : sequence (size,) of sequences of int
            Sizes in bytes of the parcels each peer sends here.
        deliver : callable(peer, number, bytes)
            Called for each parcel that arrives, in order of their numbers per peer. The array is
            reused after the call.
        """


class LocalExchange:
    """`Exchange` of a gang of one: nothing leaves the process."""

    rank = 0
    size = 1

    def headers(self, outgoing: Sequence[bytes]) -> list[bytes]:
        """Return what was sent."""
        return list(outgoing)

    def parcels(
        self,
        outgoing: Sequence[Outgoing],
        incoming: Sequence[Sequence[int]],
        deliver: Deliver,
    ) -> None:
        """Deliver each parcel as it is."""
        for number, parcel in enumerate(outgoing[0][1]):
            deliver(0, number, parcel)


class MPIExchange:
    """`Exchange` over a private MPI communicator.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm
        Communicator of the gang; nothing else may use it meanwhile.
    message_bytes : int
        The longest message; both ends must agree.
    timeout : float
        Seconds without progress after which the exchange is given up.
    cancelled : threading.Event
        Set by another thread to give up.

    Notes
    -----
    To be used on the MPI thread. After an exception the communicator must be abandoned.
    """

    def __init__(
        self, comm: Any, message_bytes: int, timeout: float, cancelled: threading.Event
    ) -> None:
        if message_bytes < 1:
            raise ValueError(f"rcylon.exchange.message-bytes must be positive, got {message_bytes}")
        self._comm = comm
        self._message_bytes = message_bytes
        self._timeout = timeout
        self._cancelled = cancelled
        self.rank: int = comm.rank
        self.size: int = comm.size

    def headers(self, outgoing: Sequence[bytes]) -> list[bytes]:
        """Send ``outgoing[p]`` to peer p; return what each peer sent here."""
        mpi_module = mpi.load()
        received: list[bytes | None] = [None] * self.size
        received[self.rank] = outgoing[self.rank]
        peers = [p for p in range(self.size) if p != self.rank]
        sends = [
            self._comm.Isend([outgoing[p], mpi_module.BYTE], dest=p, tag=_HEADER_TAG) for p in peers
        ]
        # A header's size is not known here: probe for it, then receive just that message.
        waiting = set(peers)
        arriving: dict[int, tuple[Any, bytearray]] = {}

        def step() -> bool:
            moved = False
            for peer in list(waiting):
                status = mpi_module.Status()
                message = self._comm.Improbe(source=peer, tag=_HEADER_TAG, status=status)
                if message is not None:
                    buffer = bytearray(status.Get_count(mpi_module.BYTE))
                    arriving[peer] = (message.Irecv([buffer, mpi_module.BYTE]), buffer)
                    waiting.discard(peer)
                    moved = True
            for peer, (request, buffer) in list(arriving.items()):
                if request.Test():
                    received[peer] = bytes(buffer)
                    del arriving[peer]
                    moved = True
            return moved

        self._poll(step, lambda: not waiting and not arriving)
        self._poll(lambda: False, lambda: all(request.Test() for request in sends))
        return received  # type: ignore[return-value]

    def parcels(
        self,
        outgoing: Sequence[Outgoing],
        incoming: Sequence[Sequence[int]],
        deliver: Deliver,
    ) -> None:
        """Send ``outgoing[p]`` to peer p and deliver what arrives; see `Exchange`."""
        peers = [(self.rank + shift) % self.size for shift in range(1, self.size)]
        senders = [Sender(self._comm, p, outgoing[p], self._message_bytes) for p in peers]
        receivers = [
            Receiver(self._comm, p, incoming[p], self._message_bytes, deliver) for p in peers
        ]
        lanes: list[Sender | Receiver] = [*receivers, *senders]
        for lane in lanes:
            lane.step()
        stays = len(outgoing[self.rank][0])
        kept = outgoing[self.rank][1]
        here = 0

        def step() -> bool:
            nonlocal here
            going = [sender.taken for sender in senders if not sender.exhausted]
            last = min([*going, here] if here < stays else going, default=0) + LEAD
            for sender in senders:
                sender.last = last
            moved = [lane.step() for lane in lanes if not lane.done]
            # What stays here is unpacked while messages are on the wire, but not so late that
            # parcels are kept waiting for it.
            behind = any(here < sender.taken for sender in senders)
            if here < stays and (behind or (here <= last and not any(moved))):
                deliver(self.rank, here, next(kept))
                here += 1
                return True
            return any(moved)

        self._poll(step, lambda: here == stays and all(lane.done for lane in lanes))

    def _poll(self, step: Callable[[], bool], done: Callable[[], bool]) -> None:
        """Call `step` until `done`, watching for the cancellation and the deadline."""
        last = time.monotonic()
        pause = 0.0
        while not done():
            if self._cancelled.is_set():
                raise ExchangeCancelled("the exchange was cancelled: a peer failed or left the run")
            if step():
                last, pause = time.monotonic(), 0.0
                continue
            if time.monotonic() - last > self._timeout:
                raise ExchangeTimeout(
                    f"rank {self.rank} of {self.size}: nothing moved for {self._timeout:g} s "
                    "(rcylon.exchange.timeout)"
                )
            # An idle poll must leave the core to the tasks: ranks may outnumber cores.
            time.sleep(pause)
            pause = min(pause + 2e-5, 1e-3)
