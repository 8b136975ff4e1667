"""Arrow arrays as NumPy buffers and back.

Kernels want validity as a byte per row and values as whole bytes; Arrow keeps both as bits.  All
else is taken over without a copy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

UInt8 = npt.NDArray[np.uint8]
Int64 = npt.NDArray[np.int64]

_EMPTY = np.empty(0, np.uint8)
#: Bytes that strings with 32-bit offsets can hold in one chunk.
_MOST_BYTES = 2**31 - 1


def single(array: Any) -> pa.Array:
    """Make one chunk of an Arrow array, with 64-bit offsets if 32 bits don't suffice for all."""
    if isinstance(array, pa.ChunkedArray):
        if is_var(array.type) and array.num_chunks > 1 and array.nbytes > _MOST_BYTES:
            array = array.cast(_large(array.type))
        array = array.combine_chunks()
        if isinstance(array, pa.ChunkedArray):
            array = pa.concat_arrays(array.chunks) if array.num_chunks else array.chunk(0)
    return array


def is_fixed(type_: pa.DataType) -> bool:
    """Tell whether values of a type are 1, 2, 4, 8 or 16 bytes in one buffer."""
    return (
        pa.types.is_boolean(type_)
        or pa.types.is_integer(type_)
        or pa.types.is_floating(type_)
        or (pa.types.is_temporal(type_) and not pa.types.is_interval(type_))
        or pa.types.is_decimal128(type_)
    )


def is_var(type_: pa.DataType) -> bool:
    """Tell whether values of a type are strings of bytes."""
    return (
        pa.types.is_string(type_)
        or pa.types.is_large_string(type_)
        or pa.types.is_binary(type_)
        or pa.types.is_large_binary(type_)
    )


def storage_type(type_: pa.DataType) -> pa.DataType:
    """Return a type of the same buffers whose values are the same as Python objects and back.

    Times become integers: Python's own have no nanoseconds, and not every year.  Fields get numbers
    for names: a ``dict`` can't hold two of one name.
    """
    if pa.types.is_date32(type_) or pa.types.is_time32(type_):
        return pa.int32()
    if pa.types.is_interval(type_):
        return pa.binary(type_.bit_width // 8)
    if pa.types.is_temporal(type_):
        return pa.int64()
    if pa.types.is_struct(type_):
        fields = enumerate(type_.fields)
        return pa.struct([pa.field(str(n), storage_type(field.type)) for n, field in fields])
    if pa.types.is_map(type_):
        return pa.map_(storage_type(type_.key_type), storage_type(type_.item_type))
    if pa.types.is_fixed_size_list(type_):
        return pa.list_(storage_type(type_.value_type), type_.list_size)
    if pa.types.is_list(type_):
        return pa.list_(storage_type(type_.value_type))
    return pa.large_list(storage_type(type_.value_type)) if pa.types.is_large_list(type_) else type_


def validity_bytes(array: pa.Array) -> UInt8 | None:
    """Return 1 for each value that is present, 0 for nulls: uint8 (n,), or None without nulls."""
    if array.null_count == 0:
        return None
    bitmap = array.buffers()[0]
    if bitmap is None:
        return np.zeros(len(array), np.uint8)
    return _bits(bitmap, array.offset, len(array))


def fixed_buffer(array: pa.Array) -> npt.NDArray[Any]:
    """Return values as unsigned integers: (n,), or (n, 2) for 16 bytes; nulls hold anything."""
    data = array.buffers()[1]
    if pa.types.is_boolean(array.type):
        return _EMPTY if data is None else _bits(data, array.offset, len(array))
    width = array.type.bit_width // 8
    unsigned = np.dtype("u8" if width == 16 else f"u{width}")
    per_value = width // unsigned.itemsize
    if data is None or len(array) == 0:
        values = np.empty(0, unsigned)
    else:
        values = np.frombuffer(data, unsigned, len(array) * per_value, array.offset * width)
    return values.reshape(-1, 2) if per_value == 2 else values


def var_buffers(array: pa.Array) -> tuple[Int64, UInt8]:
    """Return offsets int64 (n + 1,), starting at 0, and the bytes they point into."""
    large = array.type == _large(array.type)
    _, offsets, data = array.buffers()
    if offsets is None or len(array) == 0:
        return np.zeros(1, np.int64), _EMPTY
    kind = np.dtype(np.int64 if large else np.int32)
    bounds = np.frombuffer(offsets, kind, len(array) + 1, array.offset * kind.itemsize)
    low, high = int(bounds[0]), int(bounds[-1])
    content = _EMPTY if data is None else np.frombuffer(data, np.uint8, high - low, low)
    bounds = bounds.astype(np.int64, copy=False)
    return (bounds - low if low else bounds), content


def from_fixed(type_: pa.DataType, values: npt.NDArray[Any], validity: UInt8 | None) -> pa.Array:
    """Make an Arrow array of fixed-width values."""
    length = len(values)
    data = np.packbits(values, bitorder="little") if pa.types.is_boolean(type_) else values
    return pa.Array.from_buffers(
        type_, length, [_bitmap(validity), pa.py_buffer(np.ascontiguousarray(data))]
    )


def from_var(
    type_: pa.DataType, offsets: Int64, data: UInt8, validity: UInt8 | None
) -> pa.Array | pa.ChunkedArray:
    """Make an Arrow array of strings or binaries, of several chunks if one can't hold them."""
    length = len(offsets) - 1
    buffers = [_bitmap(validity), pa.py_buffer(offsets), pa.py_buffer(data)]
    if type_ == _large(type_):
        return pa.Array.from_buffers(type_, length, buffers)
    if offsets[-1] <= _MOST_BYTES:
        buffers[1] = pa.py_buffer(offsets.astype(np.int32))
        return pa.Array.from_buffers(type_, length, buffers)
    whole = pa.Array.from_buffers(_large(type_), length, buffers)
    chunks = []
    low = 0
    while low < length:
        # As many rows as fit; one value always does, for it has come from such a chunk.
        high = int(np.searchsorted(offsets, offsets[low] + _MOST_BYTES, side="right")) - 1
        chunks.append(_rebased(whole.slice(low, high - low)).cast(type_))
        low = high
    return pa.chunked_array(chunks)


def _rebased(array: pa.Array) -> pa.Array:
    """Make the offsets of a slice start at 0, without copying what they point into."""
    offsets, data = var_buffers(array)
    buffers = [_bitmap(validity_bytes(array)), pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(array.type, len(array), buffers)


def _large(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_string(type_):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary(type_) else type_


def _bitmap(validity: UInt8 | None) -> pa.Buffer | None:
    if validity is None:
        return None
    return pa.py_buffer(np.packbits(validity, bitorder="little"))


def _bits(buffer: pa.Buffer, offset: int, length: int) -> UInt8:
    first = offset // 8
    raw = np.frombuffer(buffer, np.uint8)[first : (offset + length + 7) // 8]
    bits = np.unpackbits(raw, bitorder="little")
    return bits[offset - 8 * first : offset - 8 * first + length]
