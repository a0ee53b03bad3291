"""Machine instructions for kernels that numba does not offer: prefetch, pairs of float64, blocks of bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

__all__ = [
    "AHEAD", "BYTES", "STRIDE", "STRIDE_OF_WHOLE", "WIDTH", "add_pair", "add_pairs", "add_whole", "as_pointer", "fused",
    "lowest_bit", "move_bytes", "prefetch", "prefetch_all", "read_eight", "read_four", "write_eight",
]  # fmt: skip

# How many rows ahead to prefetch: time enough for memory to arrive, and few enough that it is still in the cache.
AHEAD = np.uint64(64)
# Codes that `add_pairs` takes at once.
WIDTH = 4
# Distance between two features' first bins, in float64 values: 256 pairs and one cache line. Without that line, equal
# codes would be 4,096 bytes apart, and each load would wait for the store before it (4K aliasing).
STRIDE = 2 * 256 + 8
# The same for 256 int64 (see `add_whole`).
STRIDE_OF_WHOLE = 256 + 8
_PAIR = ir.VectorType(ir.DoubleType(), 2)
# Bytes that `move_bytes` takes at once.
BYTES = 64
_BYTE = ir.IntType(8).as_pointer()
# Bytes of a cache line; and of a row that mostly lies in one.
LINE, _IN_ONE = 64, 16
_BYTES = ir.VectorType(ir.IntType(8), BYTES)


def _prefetch_address(builder: Any, address: Any) -> None:
    flag = ir.IntType(32)
    call = ir.FunctionType(ir.VoidType(), [_BYTE, flag, flag, flag])
    function = cgutils.get_or_insert_function(builder.module, call, "llvm.prefetch")  # type: ignore[no-untyped-call]
    builder.call(function, [address, flag(0), flag(3), flag(1)])  # to read, into all caches, data


def _prefetch(_context: Any, array: Any, index: Any) -> Any:
    """Prefetch the cache line of ``array[index]`` (one axis), which may lie outside the array.

    The rows of a node are scattered in memory, so the hardware cannot predict the next one; the row numbers tell.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        items = context.make_array(signature.args[0])(context, builder, arguments[0])
        distance = cgutils.unpack_tuple(builder, items.strides, 1)[0]  # type: ignore[no-untyped-call]
        start = builder.bitcast(items.data, _BYTE)
        _prefetch_address(builder, builder.gep(start, [builder.mul(arguments[1], distance)]))
        return context.get_dummy_value()

    return types.void(array, index), generate


prefetch: Any = intrinsic(_prefetch)


def _prefetch_all(_context: Any, array: Any, first: Any, count: Any) -> Any:
    """Prefetch the cache lines of ``array[first : first + count]`` (one axis, C-contiguous).

    Of more than `_IN_ONE` bytes, the last may be in another line than the first.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        items = context.make_array(signature.args[0])(context, builder, arguments[0])
        word = ir.IntType(64)
        start = builder.bitcast(builder.gep(items.data, [arguments[1]]), _BYTE)
        size = builder.mul(arguments[2], items.itemsize)
        _prefetch_address(builder, start)
        with builder.if_then(builder.icmp_unsigned(">", size, word(_IN_ONE))):
            _prefetch_address(builder, builder.gep(start, [builder.sub(size, word(1))]))
            with cgutils.for_range_slice(builder, word(LINE), size, word(LINE), intp=word) as (at, _):
                _prefetch_address(builder, builder.gep(start, [at]))
        return context.get_dummy_value()

    return types.void(array, types.uint64, types.uint64), generate


prefetch_all: Any = intrinsic(_prefetch_all)


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


def _lowest_bit(_context: Any, word: Any) -> Any:
    """Return the position of the lowest bit of a uint64 that is 1; it must have one."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(1))

    return types.uint64(types.uint64), generate


lowest_bit: Any = intrinsic(_lowest_bit)


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


def _add_whole(_context: Any, array: Any, index: Any, codes: Any, start: Any, value: Any) -> Any:
    """Do as `add_pairs` for one int64: for k = 0, 1, ... at ``index + k * STRIDE_OF_WHOLE + codes[start + k]``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        items = context.make_array(signature.args[0])(context, builder, arguments[0])
        bytes_ = context.make_array(signature.args[2])(context, builder, arguments[2])
        whole = ir.IntType(64)
        base = builder.gep(items.data, [arguments[1]])
        codes_from_start = builder.gep(bytes_.data, [arguments[3]])
        for k in range(WIDTH):
            code = builder.zext(builder.load(builder.gep(codes_from_start, [whole(k)])), whole)
            address = builder.gep(builder.gep(base, [whole(k * STRIDE_OF_WHOLE)]), [code])
            builder.store(builder.add(builder.load(address), arguments[4]), address)
        return context.get_dummy_value()

    return types.void(array, index, codes, start, value), generate


add_whole: Any = intrinsic(_add_whole)


def _read_four(_context: Any, array: Any, index: Any) -> Any:
    """Return the four bytes from ``array[index]`` on (uint8, C-contiguous, one axis) as one uint32, lowest first."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        items = context.make_array(signature.args[0])(context, builder, arguments[0])
        address = builder.bitcast(builder.gep(items.data, [arguments[1]]), ir.IntType(32).as_pointer())
        return builder.load(address, align=1)

    return types.uint32(array, index), generate


read_four: Any = intrinsic(_read_four)


def _as_word(builder: Any, context: Any, signature: Any, arguments: Any) -> Any:
    """Return the address of ``array[index]`` as that of an int64."""
    items = context.make_array(signature.args[0])(context, builder, arguments[0])
    return builder.bitcast(builder.gep(items.data, [arguments[1]]), ir.IntType(64).as_pointer())


def _read_eight(_context: Any, array: Any, index: Any) -> Any:
    """Return the eight bytes from ``array[index]`` on (uint8, C-contiguous, one axis) as one int64, lowest first."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_as_word(builder, context, signature, arguments), align=1)

    return types.int64(array, index), generate


read_eight: Any = intrinsic(_read_eight)


def _write_eight(_context: Any, array: Any, index: Any, value: Any) -> Any:
    """Write an int64 as the eight bytes from ``array[index]`` on, lowest first (see `read_eight`)."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[2], _as_word(builder, context, signature, arguments), align=1)
        return context.get_dummy_value()

    return types.void(array, index, value), generate


write_eight: Any = intrinsic(_write_eight)


def _in_all(builder: Any, byte: Any) -> Any:
    """Return a vector with this byte in all places."""
    first = builder.insert_element(ir.Constant(_BYTES, ir.Undefined), byte, ir.IntType(32)(0))
    return builder.shuffle_vector(
        first, ir.Constant(_BYTES, ir.Undefined), ir.Constant(ir.VectorType(ir.IntType(32), BYTES), [0] * BYTES)
    )


def _move_bytes(
    _: Any, codes: Any, at: Any, nodes: Any, blocks: Any, here: Any, below: Any, equal: Any, left: Any, other: Any
) -> Any:
    """Move rows that are in the node ``here`` to ``left`` if their code is less than ``below``, or is ``equal``.

    Otherwise they move to ``other``. The arrays are uint8 with one axis, C-contiguous, and are read to the end of the
    last of ``blocks`` blocks of `BYTES` rows: ``codes`` from ``at`` on, ``nodes`` from its start. The compiler alone
    tests, for each node, whether the arrays overlap and how many rows the last block has, which takes as long as to
    move 500 rows.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        codes_, nodes_ = (context.make_array(signature.args[i])(context, builder, arguments[i]) for i in (0, 2))
        own = builder.bitcast(builder.gep(codes_.data, [arguments[1]]), _BYTES.as_pointer())
        start = builder.bitcast(nodes_.data, _BYTES.as_pointer())
        here_, below_, equal_, left_, other_ = (_in_all(builder, byte) for byte in arguments[4:])
        with cgutils.for_range(builder, arguments[3]) as loop:
            code = builder.load(builder.gep(own, [loop.index]), align=1)
            address = builder.gep(start, [loop.index])
            node = builder.load(address, align=1)
            goes_left = builder.or_(builder.icmp_unsigned("<", code, below_), builder.icmp_unsigned("==", code, equal_))
            child = builder.select(goes_left, left_, other_)
            builder.store(builder.select(builder.icmp_unsigned("==", node, here_), child, node), address, align=1)
        return context.get_dummy_value()

    byte = types.uint8
    return types.void(codes, types.uint64, nodes, types.uint64, byte, byte, byte, byte, byte), generate


move_bytes: Any = intrinsic(_move_bytes)
