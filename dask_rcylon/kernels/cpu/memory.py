"""Raw memory in compiled code: copy and compare bytes at addresses.

A loop over the bytes of short strings costs several times what the C library's ``memcpy`` and
``memcmp`` need, and slices of arrays cost more than the copy itself.
"""

from __future__ import annotations

from typing import Any

from numba.core import cgutils, types
from numba.extending import intrinsic


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


#: ``memcmp(address, address, nbytes)`` of the C library.
compare_bytes = types.ExternalFunction("memcmp", types.int32(types.int64, types.int64, types.int64))
