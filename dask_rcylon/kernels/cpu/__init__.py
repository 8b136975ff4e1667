"""Kernels for CPUs: Numba, without the GIL, compiled once per machine."""

from dask_rcylon.kernels.cpu.factorize import factorize_bytes
from dask_rcylon.kernels.cpu.gather import (
    lengths_to_offsets,
    offsets_to_lengths,
    take_fixed,
    take_var,
)
from dask_rcylon.kernels.cpu.hashing import (
    NULL_HASH,
    hash_bytes,
    hash_codes,
    hash_numbers,
    hash_ticks,
)
from dask_rcylon.kernels.cpu.join import both_nulls, join_bytes, join_fixed
from dask_rcylon.kernels.cpu.partition import (
    Ids,
    count_bytes,
    count_ids,
    id_dtype,
    partition_ids,
    scatter_fixed,
    scatter_var,
)
from dask_rcylon.kernels.cpu.sort import argsort, searchsorted_numbers, split_ids, string_words
from dask_rcylon.kernels.cpu.unpack import bucket_bytes, unpack

__all__ = [
    "NULL_HASH",
    "Ids",
    "argsort",
    "both_nulls",
    "bucket_bytes",
    "count_bytes",
    "count_ids",
    "factorize_bytes",
    "hash_bytes",
    "hash_codes",
    "hash_numbers",
    "hash_ticks",
    "id_dtype",
    "join_bytes",
    "join_fixed",
    "lengths_to_offsets",
    "offsets_to_lengths",
    "partition_ids",
    "scatter_fixed",
    "scatter_var",
    "searchsorted_numbers",
    "split_ids",
    "string_words",
    "take_fixed",
    "take_var",
    "unpack",
]
