"""Machine instructions for kernels over arrays that numba does not offer: prefetch, and the sum of two float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

__all__ = ["AHEAD", "STRIDE", "WIDTH", "add_pair", "add_pairs", "as_pointer", "fused", "prefetch"]

# How many rows ahead to prefetch: time enough for memory to arrive, and few enough that it is still in the cache.
AHEAD = np.uint64(24)
# Codes that `add_pairs` takes at once.
WIDTH = 4
# Distance between two features' first bins, in float64 values: 256 pairs and one cache line. Without that line, equal
# codes would be 4,096 bytes apart, and each load would wait for the store before it (4K aliasing).
STRIDE = 2 * 256 + 8
_PAIR = ir.VectorType(ir.DoubleType(), 2)


def _prefetch(_context: Any, array: Any, index: Any) -> Any:
    """Prefetch the cache line of ``array[index]`` (one axis), which may lie outside the array.

    The rows of a node are scattered in memory, so the hardware cannot predict the next one; the row numbers tell.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        items = context.make_array(signature.args[0])(context, builder, arguments[0])
        byte = ir.IntType(8).as_pointer()
        distance = cgutils.unpack_tuple(builder, items.strides, 1)[0]  # type: ignore[no-untyped-call]
        start = builder.bitcast(items.data, byte)
        address = builder.gep(start, [builder.mul(arguments[1], distance)])
        flag = ir.IntType(32)
        call = ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag])
        function = cgutils.get_or_insert_function(builder.module, call, "llvm.prefetch")  # type: ignore[no-untyped-call]
        builder.call(function, [address, flag(0), flag(3), flag(1)])  # to read, into all caches, data
        return context.get_dummy_value()

    return types.void(array, index), generate


prefetch: Any = intrinsic(_prefetch)


def _fused(_context: Any, a: Any, b: Any, c: Any) -> Any:
    """Return a·b + c (float64), rounded once."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fma(*arguments)

    return types.float64(types.float64, types.float64, types.float64), generate


fused: Any = intrinsic(_fused)


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


def _add_pairs(_context: Any, array: Any, index: Any, codes: Any, start: Any, first: Any, second: Any) -> Any:
    """Do as `add_pair` for `WIDTH` features: for k = 0, 1, ... at ``index + k * STRIDE + 2 * codes[start + k]``.

    ``codes`` are uint8. The constant offsets are part of the instructions. To look them up takes as long as to add.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        items = context.make_array(signature.args[0])(context, builder, arguments[0])
        bytes_ = context.make_array(signature.args[2])(context, builder, arguments[2])
        whole = ir.IntType(64)
        base = builder.bitcast(builder.gep(items.data, [arguments[1]]), _PAIR.as_pointer())
        codes_from_start = builder.gep(bytes_.data, [arguments[3]])
        addend = _as_pair(builder, *arguments[4:])
        for k in range(WIDTH):
            code = builder.zext(builder.load(builder.gep(codes_from_start, [whole(k)])), whole)
            _add_at(builder, builder.gep(builder.gep(base, [whole(k * STRIDE // 2)]), [code]), addend)
        return context.get_dummy_value()

    return types.void(array, index, codes, start, first, second), generate


add_pairs: Any = intrinsic(_add_pairs)
