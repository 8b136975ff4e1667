"""A column as buffers.

Five forms hold every dtype; the form follows from the dtype alone:

=========  =============================================  ==========================================
form       buffers                                        dtypes
=========  =============================================  ==========================================
plain      values                                         NumPy numbers, times, time zones, periods
masked     values, validity                               nullable, Arrow numbers, times, decimals
bytes      lengths, bytes, validity                       strings, Arrow strings and binaries
category   codes                                          categoricals
object     tags, lengths, bytes                           Python objects, nested Arrow, all the rest
=========  =============================================  ==========================================

The object form keeps strings as UTF-8 and pickles every other value: slow, and right.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from dask_rcylon.columns import arrow, objects

UInt8 = npt.NDArray[np.uint8]
UInt32 = npt.NDArray[np.uint32]
Int64 = npt.NDArray[np.int64]

PLAIN, MASKED, BYTES, CATEGORY, OBJECT = "plain", "masked", "bytes", "category", "object"

VALUES, LENGTHS, DATA, VALIDITY = "values", "lengths", "data", "validity"

#: Buffers of each form, in their order. Validity may be absent.
BUFFERS = {
    PLAIN: (VALUES,),
    MASKED: (VALUES, VALIDITY),
    BYTES: (LENGTHS, DATA, VALIDITY),
    CATEGORY: (VALUES,),
    OBJECT: (VALUES, LENGTHS, DATA),
}


@dataclass
class Column:
    """One column of some rows.

    Attributes
    ----------
    dtype : dtype
        The pandas dtype.
    form : str
        How it is held.
    values : unsigned array (n,) or (n, 2), or None
        Fixed-width values, codes or tags.
    offsets, data : int64 array (n + 1,) and uint8 array, or None
        Strings of bytes.
    validity : uint8 array (n,) or None
        1 where present; None if all are.
    categories : Index or None
        What codes stand for.
    """

    dtype: Any
    form: str
    values: npt.NDArray[Any] | None = None
    offsets: Int64 | None = None
    data: UInt8 | None = None
    validity: UInt8 | None = None
    categories: pd.Index | None = field(default=None)

    def __getitem__(self, rows: slice) -> Column:
        """Return the column of a range of rows, a view."""
        ends = slice(rows.start, rows.stop + 1)
        return replace(
            self,
            values=None if self.values is None else self.values[rows],
            offsets=None if self.offsets is None else self.offsets[ends],
            validity=None if self.validity is None else self.validity[rows],
        )

    @property
    def nbytes(self) -> int:
        """Bytes of the values."""
        fixed = sum(a.nbytes for a in (self.values, self.validity) if a is not None)
        if self.offsets is None:
            return fixed
        return fixed + 4 * (len(self.offsets) - 1) + int(self.offsets[-1] - self.offsets[0])


def form_of(dtype: Any) -> str:
    """Return the form in which a dtype is held."""
    if isinstance(dtype, np.dtype):
        return PLAIN if dtype.kind in "biufcmM" and dtype.itemsize <= 16 else OBJECT
    if isinstance(dtype, (pd.DatetimeTZDtype, pd.PeriodDtype)):
        return PLAIN
    if isinstance(dtype, pd.StringDtype):
        return BYTES
    if isinstance(dtype, pd.CategoricalDtype):
        return CATEGORY
    if isinstance(dtype, pd.ArrowDtype):
        type_ = dtype.pyarrow_dtype
        return MASKED if arrow.is_fixed(type_) else BYTES if arrow.is_var(type_) else OBJECT
    return MASKED if is_masked(dtype) else OBJECT


def is_masked(dtype: Any) -> bool:
    """Tell whether a dtype is one of pandas' nullable numbers or its nullable bool."""
    return type(dtype) is pd.BooleanDtype or (
        hasattr(dtype, "numpy_dtype")
        and not isinstance(dtype, pd.ArrowDtype)
        and pd.api.types.is_numeric_dtype(dtype)
        and pd.api.types.is_extension_array_dtype(dtype)
    )


def unwrapped(array: Any) -> Any:
    """Return the array that a Series or Index is made of: NumPy's own for NumPy dtypes.

    ``Series.array`` wraps NumPy's arrays in a class with a dtype of its own, which would be taken
    for one of pandas' nullable dtypes.
    """
    array = getattr(array, "array", array)
    # Arrays of strings are derived from the wrapper.
    return array.to_numpy() if type(array) is pd.arrays.NumpyExtensionArray else array


def numpy_dtype(dtype: Any) -> np.dtype[Any]:
    """Return the dtype of the values of one of pandas' nullable numbers or its nullable bool."""
    return np.dtype(bool if isinstance(dtype, pd.BooleanDtype) else dtype.numpy_dtype)


def value_width(dtype: Any) -> int:
    """Return the bytes per value of a dtype that is held as values; a code has 4, a tag 1."""
    form = form_of(dtype)
    if form in (CATEGORY, OBJECT):
        return 4 if form == CATEGORY else 1
    if isinstance(dtype, np.dtype):
        return dtype.itemsize
    if isinstance(dtype, pd.ArrowDtype) and form == MASKED:
        type_ = dtype.pyarrow_dtype
        return 1 if pa.types.is_boolean(type_) else type_.bit_width // 8
    if is_masked(dtype):
        return int(numpy_dtype(dtype).itemsize)
    return 8


def encode(array: Any) -> Column:
    """Hold a Series, Index or array as buffers, without a copy where there need be none."""
    array = unwrapped(array)
    dtype = array.dtype
    form = form_of(dtype)
    if form == PLAIN:
        return Column(dtype, form, values=unsigned(plain_values(array)))
    if form == MASKED:
        values, validity = masked_values(array)
        return Column(dtype, form, values=unsigned(values), validity=validity)
    if form == BYTES:
        offsets, data, validity = string_buffers(array)
        return Column(dtype, form, offsets=offsets, data=data, validity=validity)
    if form == CATEGORY:
        categorical = getattr(array, "array", array)
        codes = np.asarray(categorical.codes).astype(np.int32).view(np.uint32)
        return Column(dtype, form, values=codes, categories=categorical.categories)
    return _encode_objects(array)


def plain_values(array: Any) -> npt.NDArray[Any]:
    """Return the values of a plain column: numbers as they are, time zones and periods as int64."""
    dtype = array.dtype
    if isinstance(dtype, np.dtype):
        return np.ascontiguousarray(np.asarray(array))
    return np.ascontiguousarray(np.asarray(getattr(array, "array", array).view("i8")))


def masked_values(array: Any) -> tuple[npt.NDArray[Any], UInt8 | None]:
    """Return values and validity of a masked column."""
    if isinstance(array.dtype, pd.ArrowDtype):
        chunk = to_arrow(array)
        return arrow.fixed_buffer(chunk), arrow.validity_bytes(chunk)
    array = getattr(array, "array", array)
    dtype = numpy_dtype(array.dtype)
    missing = np.asarray(array.isna())
    if not missing.any():
        return np.ascontiguousarray(array.to_numpy(dtype=dtype)), None
    values = array.to_numpy(dtype=dtype, na_value=dtype.type(0))
    return np.ascontiguousarray(values), (~missing).view(np.uint8)


def string_buffers(array: Any) -> tuple[Int64, UInt8, UInt8 | None]:
    """Return offsets, bytes and validity of a column of strings."""
    chunk = to_arrow(array)
    return (*arrow.var_buffers(chunk), arrow.validity_bytes(chunk))


def to_arrow(array: Any) -> pa.Array:
    """Return one Arrow array of a string or Arrow-backed column."""
    type_ = pa.large_string() if isinstance(array.dtype, pd.StringDtype) else None
    return arrow.single(pa.array(getattr(array, "array", array), type=type_, from_pandas=True))


def all_strings(items: npt.NDArray[Any]) -> pa.Array | None:
    """Return an object array as Arrow strings, or None if it holds anything but str and nulls."""
    # Arrow would take bytes for strings.
    if pd.api.types.infer_dtype(items, skipna=True) not in ("string", "empty"):
        return None
    try:
        return arrow.single(pa.array(items, type=pa.large_string(), from_pandas=True))
    except (pa.ArrowException, TypeError, ValueError):
        return None


def unsigned(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """View values as unsigned integers of their width; 16 bytes as two of 8."""
    if values.ndim == 2:
        return values
    if values.dtype.itemsize == 16:
        return values.view(np.uint64).reshape(-1, 2)
    return values.view(f"u{values.dtype.itemsize}")


def _encode_objects(array: Any) -> Column:
    if isinstance(array.dtype, pd.ArrowDtype):
        chunk = to_arrow(array)
        values = chunk.view(arrow.storage_type(chunk.type)).to_pylist()
        # Not an array of the list: lists in it would become further dimensions.
        items = np.fromiter(values, object, len(values))
    else:
        items = np.asarray(array, dtype=object)
    tags, offsets, data = objects.to_bytes(items)
    return Column(array.dtype, OBJECT, values=tags, offsets=offsets, data=data)


def decode(column: Column) -> Any:
    """Make the pandas array of a column: the inverse of `encode`."""
    dtype = column.dtype
    if column.form == PLAIN:
        return _decode_plain(dtype, column.values)
    if column.form == MASKED:
        return _decode_masked(dtype, column.values, column.validity)
    if column.form == BYTES:
        assert column.offsets is not None and column.data is not None
        if isinstance(dtype, pd.ArrowDtype):
            type_ = dtype.pyarrow_dtype
            array = arrow.from_var(type_, column.offsets, column.data, column.validity)
            return pd.arrays.ArrowExtensionArray(array)
        text = arrow.from_var(pa.large_string(), column.offsets, column.data, column.validity)
        return dtype.__from_arrow__(text)
    if column.form == CATEGORY:
        assert column.values is not None
        return pd.Categorical.from_codes(
            column.values.view(np.int32),  # type: ignore[arg-type]
            dtype=pd.CategoricalDtype(column.categories, ordered=dtype.ordered),
        )
    return _decode_objects(dtype, column)


def _decode_plain(dtype: Any, values: Any) -> Any:
    if isinstance(dtype, np.dtype):
        return values.reshape(-1).view(dtype)
    if isinstance(dtype, pd.PeriodDtype):
        return pd.arrays.PeriodArray(values.view(np.int64), dtype=dtype)
    utc = pd.DatetimeIndex(values.view(f"M8[{dtype.unit}]"), copy=False).tz_localize("UTC")
    return utc.tz_convert(dtype.tz).array


def _decode_masked(dtype: Any, values: Any, validity: UInt8 | None) -> Any:
    if isinstance(dtype, pd.ArrowDtype):
        array = arrow.from_fixed(dtype.pyarrow_dtype, values, validity)
        return pd.arrays.ArrowExtensionArray(array)
    mask = np.zeros(len(values), bool) if validity is None else validity == 0
    if isinstance(dtype, pd.BooleanDtype):
        return pd.arrays.BooleanArray(values.view(bool), mask)
    numbers = values.view(dtype.numpy_dtype)
    kind = pd.arrays.FloatingArray if numbers.dtype.kind == "f" else pd.arrays.IntegerArray
    return kind(numbers, mask)


def _decode_objects(dtype: Any, column: Column) -> Any:
    assert column.values is not None and column.offsets is not None and column.data is not None
    items = objects.from_bytes(column.values, column.offsets, column.data)
    if isinstance(dtype, np.dtype):
        return items.astype(dtype, copy=False)
    if isinstance(dtype, pd.ArrowDtype):
        type_ = dtype.pyarrow_dtype
        array = pa.array(items.tolist(), type=arrow.storage_type(type_)).view(type_)
        return pd.arrays.ArrowExtensionArray(array)
    return dtype.construct_array_type()._from_sequence(items, dtype=dtype)
