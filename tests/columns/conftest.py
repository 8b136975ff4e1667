"""What several tests of columns need: input partitions sent through fragments to buckets."""

import pickle

import numpy as np
import pytest

from dask_rcylon.columns import frame as frame_module
from dask_rcylon.columns.frame import BucketColumns, cut, to_columns, to_frame
from dask_rcylon.columns.schema import FrameSchema
from dask_rcylon.kernels.cpu import unpack


def _filled(nbytes):
    """Memory that is not zero by chance."""
    return np.full(nbytes, 0xEE, np.uint8)


def _send(frames, parts=3, index=True):
    """Send input partitions of one layout through fragments; return the buckets as frames.

    Row i of each partition goes to bucket i modulo `parts`.
    """
    schema = FrameSchema.from_meta(frames[0], index=index)
    fragments = [
        fragment
        for f in frames
        for fragment in cut(
            to_columns(f, schema), (np.arange(len(f)) % parts).astype(np.uint16), parts
        )
    ]
    counts = np.stack([fragment.counts for fragment in fragments])
    starts = np.cumsum(counts, axis=0) - counts
    widths = np.array([fragment.widths for fragment in fragments])
    merged = np.where((widths < 0).any(axis=0), widths.min(axis=0), widths.max(axis=0))
    buckets = [
        BucketColumns.allocate(fragments[0].layout, merged, row[0], row[1:], _filled)
        for row in counts.sum(axis=0)
    ]
    addresses = np.array([bucket.addresses() for bucket in buckets]).reshape(parts, -1)
    for fragment, start in zip(fragments, starts, strict=True):
        unpack(fragment.pack(_filled), fragment.counts, fragment.widths, addresses, start)
    extras = pickle.loads(pickle.dumps([fragment.extras for fragment in fragments]))
    return [
        to_frame(schema, bucket, extras, counts[:, place, 0].tolist())
        for place, bucket in enumerate(buckets)
    ]


@pytest.fixture(params=[frame_module._FRAGMENT_BYTES, 50], ids=["whole", "cut"])
def send(request, monkeypatch):
    """Return the function that sends partitions through fragments to buckets."""
    monkeypatch.setattr(frame_module, "_FRAGMENT_BYTES", request.param)
    return _send
