"""The key columns of a frame, wherever they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd


def key_arrays(frame: pd.DataFrame, labels: Sequence[Any] | None) -> list[Any]:
    """Return the arrays of the columns or index levels that `labels` name.

    Parameters
    ----------
    frame : DataFrame
        An input partition.
    labels : sequence or None
        Column labels; one that is no column names an index level. None stands for the whole index.

    Returns
    -------
    list of arrays (n,)
    """
    if labels is None:
        index = frame.index
        return [index.get_level_values(level).array for level in range(index.nlevels)]
    return [
        frame[label].array if label in frame.columns else frame.index.get_level_values(label).array
        for label in labels
    ]


def uses_index(frame: pd.DataFrame, labels: Sequence[Any]) -> bool:
    """Tell whether one of the labels is the name of an index level."""
    return any(label not in frame.columns for label in labels)
