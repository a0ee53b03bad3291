"""Machine instructions for kernels over arrays that numba does not offer: prefetch, and the sum of two float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

__all__ = ["AHEAD", "add_pair", "as_pointer", "prefetch"]

# How many rows ahead to prefetch: time enough for memory to arrive, and few enough that it is still in the cache.
AHEAD = np.uint64(24)
_PAIR = ir.VectorType(ir.DoubleType(), 2)


def _prefetch(_context: Any, array: Any, index: Any) -> Any:
    """Prefetch the cache line of ``array[index]`` (C-contiguous, one axis), which may lie outside the array.

    The rows of a node are scattered in memory, so the hardware cannot predict the next one; the row numbers tell.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        items = context.make_array(signature.args[0])(context, builder, arguments[0])
        byte = ir.IntType(8).as_pointer()
        address = builder.bitcast(builder.gep(items.data, [arguments[1]]), byte)
        flag = ir.IntType(32)
        call = ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag])
        function = cgutils.get_or_insert_function(builder.module, call, "llvm.prefetch")  # type: ignore[no-untyped-call]
        builder.call(function, [address, flag(0), flag(3), flag(1)])  # to read, into all caches, data
        return context.get_dummy_value()

    return types.void(array, index), generate


prefetch: Any = intrinsic(_prefetch)


def _as_pointer(_context: Any, address: Any) -> Any:
    """Return an address as a pointer for `numba.carray`, which makes an array of it; for a varying number of arrays."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.voidptr(address), generate


as_pointer: Any = intrinsic(_as_pointer)


def _as_pair(builder: Any, first: Any, second: Any) -> Any:
    pair = ir.Constant(_PAIR, ir.Undefined)
    for i, value in enumerate((first, second)):
        pair = builder.insert_element(pair, value, ir.IntType(32)(i))
    return pair


def _add_at(builder: Any, address: Any, addend: Any) -> None:
    builder.store(builder.fadd(builder.load(address, align=8), addend), address, align=8)


def _add_pair(_context: Any, array: Any, index: Any, first: Any, second: Any) -> Any:
    """Add to ``array[index]`` and ``array[index + 1]`` (float64, C-contiguous, one axis) with one vector addition.

    The compiler alone emits two scalar additions, since it cannot rule out that arrays overlap.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        items = context.make_array(signature.args[0])(context, builder, arguments[0])
        address = builder.bitcast(builder.gep(items.data, [arguments[1]]), _PAIR.as_pointer())
        _add_at(builder, address, _as_pair(builder, *arguments[2:]))
        return context.get_dummy_value()

    return types.void(array, index, first, second), generate


add_pair: Any = intrinsic(_add_pair)
