"""Memory as compiled code takes it: one type of array, and copies, comparisons and loads of bytes.

A loop over the bytes of short strings costs several times what the C library's ``memcpy`` and
``memcmp`` need, and slices of arrays cost more than the copy itself.

Numba compiles a function once more for arrays that are read-only or strided, and takes for granted
that they are aligned.  pandas hands out read-only arrays, Arrow and the network hand out slices: so
every wrapper passes what it reads through `as_input`, and there is one specialisation, which
`warm_up` knows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba.core import cgutils, types
from numba.extending import intrinsic


def as_input(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a read-only view, or a copy if the array is not aligned and in C order."""
    flags = array.flags
    view = array.view() if flags.c_contiguous and flags.aligned else np.array(array, order="C")
    view.flags.writeable = False
    return view


@intrinsic  # type: ignore[untyped-decorator]
def copy_bytes(typingctx: Any, dest: Any, source: Any, nbytes: Any) -> Any:
    """Copy `nbytes` bytes from address `source` to address `dest`."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        to = builder.inttoptr(args[0], cgutils.voidptr_t)
        at = builder.inttoptr(args[1], cgutils.voidptr_t)
        cgutils.raw_memcpy(builder, to, at, args[2], 1)
        return context.get_dummy_value()

    return types.none(types.int64, types.int64, types.int64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def fill_bytes(typingctx: Any, dest: Any, nbytes: Any, value: Any) -> Any:
    """Set `nbytes` bytes at address `dest` to `value`."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        to = builder.inttoptr(args[0], cgutils.voidptr_t)
        cgutils.memset(builder, to, args[1], builder.trunc(args[2], cgutils.int8_t))
        return context.get_dummy_value()

    return types.none(types.int64, types.int64, types.int64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def load_word(typingctx: Any, address: Any) -> Any:
    """Return the 8 bytes at `address`, which need not be aligned, as uint64 in native order."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = context.get_value_type(types.uint64)
        return builder.load(builder.inttoptr(args[0], word.as_pointer()), align=1)

    return types.uint64(types.int64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def load_byte(typingctx: Any, address: Any) -> Any:
    """Return the byte at `address`."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(builder.inttoptr(args[0], cgutils.voidptr_t))

    return types.uint8(types.int64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def swap_bytes(typingctx: Any, word: Any) -> Any:
    """Return a uint64 with its bytes in reverse order."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bswap(args[0])

    return types.uint64(types.uint64), codegen


#: ``memcmp(address, address, nbytes)`` of the C library.
compare_bytes = types.ExternalFunction("memcmp", types.int32(types.int64, types.int64, types.int64))
