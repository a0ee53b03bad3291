"""Machine instructions that kernels over arrays need and numba has no name for."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

__all__ = ["AHEAD", "WIDTH", "add_pair", "add_pairs", "as_pointer", "prefetch"]

# How many rows ahead memory is asked for: time enough for it to arrive, few enough that it is still there.
AHEAD = np.uint64(24)
# Codes that `add_pairs` takes at once.
WIDTH = 4
_PAIR = ir.VectorType(ir.DoubleType(), 2)


def _prefetch(_context: Any, array: Any, index: Any) -> Any:
    """Have the cache line of ``array[index]`` (C-contiguous, one axis) brought near; it may lie outside the array.

    Rows of a node lie scattered. Hardware does not foresee where the next one is, the array of row numbers does.
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
    """Return an address as a pointer, for `numba.carray`: arrays of which there are now more, now fewer."""

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
    """Add to ``array[index]`` and ``array[index + 1]`` (float64, C-contiguous, one axis) in one instruction.

    Left to itself, the compiler takes two of everything, as it can't know that the two never overlap.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        items = context.make_array(signature.args[0])(context, builder, arguments[0])
        address = builder.bitcast(builder.gep(items.data, [arguments[1]]), _PAIR.as_pointer())
        _add_at(builder, address, _as_pair(builder, *arguments[2:]))
        return context.get_dummy_value()

    return types.void(array, index, first, second), generate


add_pair: Any = intrinsic(_add_pair)


def _add_pairs(_context: Any, array: Any, index: Any, codes: Any, start: Any, first: Any, second: Any) -> Any:
    """Do as `add_pair` at `WIDTH` places: 512·k + 2·``codes[start + k]`` (uint8) further on than ``index``.

    Distances that are known beforehand are part of the instructions; looked up, they take as long again to find as the
    addition takes.
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
            _add_at(builder, builder.gep(builder.gep(base, [whole(256 * k)]), [code]), addend)
        return context.get_dummy_value()

    return types.void(array, index, codes, start, first, second), generate


add_pairs: Any = intrinsic(_add_pairs)
