"""Python objects as bytes and back.

Strings travel as UTF-8 and nulls as their tag, all at once; every other value is pickled by itself,
which is slow, and right for whatever can be pickled at all.
"""

from __future__ import annotations

import pickle
from typing import Any

import cloudpickle
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dask_rcylon.columns import arrow

UInt8 = npt.NDArray[np.uint8]
Int64 = npt.NDArray[np.int64]
Objects = npt.NDArray[Any]

_NONE, _NAN, _STR, _PICKLE = range(4)
_TEXT = {str, float, type(None)}


def to_bytes(items: Objects) -> tuple[UInt8, Int64, UInt8]:
    """Write objects to bytes.

    Parameters
    ----------
    items : object array (n,)
        Values of any kind.

    Returns
    -------
    tags, offsets, data : uint8 (n,), int64 (n + 1,), uint8
        What each value is, and where its bytes lie.

    Raises
    ------
    TypeError, pickle.PicklingError, or what a value's own method raises
        If a value can't be pickled.
    """
    text = _text(items)
    if text is not None:
        return text
    tags = np.empty(len(items), np.uint8)
    chunks: list[bytes] = []
    for i, item in enumerate(items):
        tags[i], chunk = _one(item)
        chunks.append(chunk)
    lengths = np.fromiter(map(len, chunks), np.int64, len(chunks))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return tags, offsets, np.frombuffer(b"".join(chunks), np.uint8)


def _text(items: Objects) -> tuple[UInt8, Int64, UInt8] | None:
    """Write strings, None and NaN; None if there is anything else."""
    # Exact types: a subclass of str has to come back as what it is.
    if not set(map(type, items)) <= _TEXT:
        return None
    try:
        chunk = arrow.single(pa.array(items, type=pa.large_string(), from_pandas=True))
    except (pa.ArrowException, TypeError, ValueError):
        return None  # a number, or a lone surrogate, which is no UTF-8
    tags = np.full(len(items), _STR, np.uint8)
    validity = arrow.validity_bytes(chunk)
    if validity is not None:
        nulls = np.flatnonzero(validity == 0)
        tags[nulls] = [_NONE if item is None else _NAN for item in items[nulls]]
    return (tags, *arrow.var_buffers(chunk))


def _one(item: Any) -> tuple[int, bytes]:
    if item is None:
        return _NONE, b""
    if type(item) is float and item != item:
        return _NAN, b""
    if type(item) is str:
        try:
            return _STR, item.encode()
        except UnicodeEncodeError:
            pass
    try:
        return _PICKLE, pickle.dumps(item, pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError):
        # What a user's script or notebook defines has come to the worker by value.
        return _PICKLE, cloudpickle.dumps(item)


def from_bytes(tags: UInt8, offsets: Int64, data: UInt8) -> Objects:
    """Make objects of what `to_bytes` has written: object array (n,)."""
    pickled = np.flatnonzero(tags == _PICKLE)
    if len(pickled) == len(tags):
        items = np.empty(len(tags), object)
    else:
        content = data
        if len(pickled):
            lengths = np.diff(offsets)
            content = data[np.repeat(tags != _PICKLE, lengths)]
            lengths[pickled] = 0
            text = np.concatenate([[0], np.cumsum(lengths)])
        else:
            text = offsets
        strings = arrow.from_var(pa.large_string(), text, content, None)
        items = np.array(strings.to_numpy(zero_copy_only=False), dtype=object)
        items[tags == _NONE] = None
        items[tags == _NAN] = np.nan
    for i in pickled.tolist():
        items[i] = pickle.loads(data.data[offsets[i] : offsets[i + 1]])
    return items
