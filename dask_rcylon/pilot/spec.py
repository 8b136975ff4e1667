"""What a stage tells the pilot about itself.

The pilot moves rows; it does not know what a join or a sort is.  A stage hands it a spec: frozen,
picklable, and sent once to each rank.  Its methods are the moments of a stage's life that touch
data.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from dask_rcylon.columns.column import Column
from dask_rcylon.columns.frame import BucketColumns
from dask_rcylon.kernels.cpu import Ids

Allocate = Callable[[int], npt.NDArray[np.uint8]]


@dataclass(frozen=True)
class Piece:
    """Rows of one bucket that share a layout.

    Attributes
    ----------
    columns : BucketColumns
        The buffers.
    extras : list of list
        For each fragment in the piece, in order of input partition, the categories of its columns.
    rows : list of int
        Rows of the bucket that came from each of these fragments.
    """

    columns: BucketColumns
    extras: list[list[Any]]
    rows: list[int]


@dataclass(frozen=True)
class StageSpec(ABC):
    """A stage, as the ranks see it.

    Attributes
    ----------
    id : str
        Unique name of the stage: the token of its expression.
    npartitions : int
        Buckets, which is output partitions before any are filtered out.
    inputs : tuple of int
        Input partitions of each side.
    parts_out : tuple of int or None
        The output partitions that are wanted, None for all.
    """

    #: ``"join"``, ``"sort"``, ``"set_index"`` or ``"shuffle"``.
    kind: ClassVar[str]
    #: Whether `settle` must see every partition's sample before the rows of any have a bucket.
    settles: ClassVar[bool] = False

    id: str
    npartitions: int
    inputs: tuple[int, ...]
    parts_out: tuple[int, ...] | None

    @abstractmethod
    def columns(self, side: int, partition: int, frame: pd.DataFrame) -> list[Column]:
        """Take an input partition apart: the columns that must travel."""

    @abstractmethod
    def ids(self, side: int, partition: int, frame: pd.DataFrame, settled: Any) -> Ids:
        """Tell the bucket of each row of an input partition."""

    def sample(self, partition: int, frame: pd.DataFrame) -> Any:
        """Return what `settle` must know of an input partition."""
        return None

    def settle(self, samples: Sequence[Any]) -> Any:
        """Decide from all samples what `ids` needs, e.g. a sort's splitters."""
        return None

    @abstractmethod
    def finish(self, partition: int, sides: Sequence[Sequence[Piece]]) -> pd.DataFrame:
        """Make an output partition of its bucket, given as pieces for each side."""
