"""The words that scheduler plugin and worker plugin exchange.

Requests (`REQUEST_*`) are calls that a worker makes and waits for.  Orders (`ORDER_*`) go down the
scheduler's stream to a worker and reports (`REPORT_*`) up a worker's stream: both are ordered, and
ordered among the messages that start and free tasks, which the run protocol relies on.
"""

from __future__ import annotations

from dataclasses import dataclass

PLUGIN_NAME = "rcylon-pilot"

#: A rank tells the scheduler that it is one.
REQUEST_JOIN = "rcylon_join"
#: The first put of a stage on a rank asks for the run and the spec.
REQUEST_OPEN = "rcylon_open"
#: The barrier task asks for the exchange and waits until it is done.
REQUEST_EXCHANGE = "rcylon_exchange"
#: A get that finds no bucket asks to be sent to its owner, or for the stage to start again.
REQUEST_LOCATE = "rcylon_locate"

ORDER_EXCHANGE = "rcylon-exchange"
ORDER_FORGET = "rcylon-forget"
ORDER_FREE = "rcylon-free-communicator"

REPORT_DONE = "rcylon-done"


def barrier_key(stage: str) -> str:
    """Return the key of a stage's barrier task."""
    return f"rcylon-exchange-{stage}"


def stage_of(key: object) -> str | None:
    """Return the stage whose barrier task has this key, or None if it is another task's."""
    if isinstance(key, str) and key.startswith("rcylon-exchange-"):
        return key.removeprefix("rcylon-exchange-")
    return None


@dataclass(frozen=True)
class ExchangeOrder:
    """Everything a rank must know to take part in an exchange.

    Attributes
    ----------
    stage : str
        The stage.
    run : int
        Its run.
    spec : bytes
        The pickled spec, for ranks that had no put of it.
    communicator : int
        Number of the communicator.
    gang : tuple of int
        World ranks of the gang.
    bounds : tuple of int
        Member g owns the buckets ``bounds[g] .. bounds[g+1]-1``.
    settled : bytes
        What the spec settled, pickled.
    message_bytes : int
        The longest message.
    timeout : float
        Seconds without progress after which the exchange is given up.
    """

    stage: str
    run: int
    spec: bytes
    communicator: int
    gang: tuple[int, ...]
    bounds: tuple[int, ...]
    settled: bytes
    message_bytes: int
    timeout: float
