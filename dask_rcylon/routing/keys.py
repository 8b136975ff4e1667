"""Labels and dtypes of the keys that stages partition by."""

from __future__ import annotations

from typing import Any

import pandas as pd


def levels(index: pd.Index) -> list[tuple[Any, Any]]:
    """Return name and dtype of each level of an index."""
    return [
        (index.names[level], index.get_level_values(level).dtype) for level in range(index.nlevels)
    ]


def unused(stem: str, meta: Any) -> str:
    """Return a label that no column and no index level has."""
    taken = {*getattr(meta, "columns", ()), *meta.index.names}
    label, number = stem, 0
    while label in taken:
        number += 1
        label = f"{stem}_{number}"
    return label
