"""A lock-free work queue inside kernels: one thread shares out items, and threads that spin in `serve` take some.

Waking a sleeping thread takes up to half a millisecond, and it needs Python's lock to reach a kernel. A thread that
spins in a kernel starts within a microsecond; OpenMP keeps its teams spinning for the same reason.

A team is an int64 array, with fields that are written often in cache lines of their own:

- ``team[TICKET]``: (the number of calls of `share_out`) << 32 | (the number of items left in this one). A thread takes
  an item by a compare-and-swap that lowers the ticket by 1. The call's number makes every ticket unique, so a thread
  that was suspended between reading and swapping fails, and never runs an item of an earlier call (the ABA problem).
- ``team[FUNCTION]`` and ``team[VALUES]``: the function of an item and its arguments, by address (see
  `outlined`).
- ``team[DONE]``: the number of items done.

Say the fifth call shares out 3 items (tickets as call:left)::

    caller          server          TICKET   DONE
    share_out                       5:3      0
    takes item 2                    5:2      0
                    takes item 1    5:1      0
    done; item 0                    5:0      1
                    done; none left 5:0      2
    done; returns                   5:0      3
"""

from __future__ import annotations

from typing import Any

from llvmlite import binding, ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from frameboost.runtime.kernel import kernel

__all__ = ["SIZE", "do_alone", "outlined", "serve", "share_out"]


_TICKET, _FUNCTION, _VALUES, _DONE, SIZE = 0, 8, 9, 16, 24
_SHIFT = 32
_MAX_COUNT = (1 << _SHIFT) - 1


@kernel
def _take_item(team):  # type: ignore[no-untyped-def]
    """Try to take an item and run it; return whether any was left."""
    ticket = load_atomic(team, _TICKET)
    left = ticket & _MAX_COUNT
    if left == 0:
        return False
    function, values = load_atomic(team, _FUNCTION), load_atomic(team, _VALUES)
    if replace_atomic(team, _TICKET, ticket, ticket - 1):
        call(function, values, left - 1)
        add_atomic(team, _DONE, 1)
    return True


@kernel
def _wait(turns):  # type: ignore[no-untyped-def]
    """Pause for some 50 ns, and yield the processor every 32nd turn: there may be more threads than processors."""
    pause()
    if turns & 31 == 0:
        give_way()


@kernel
def serve(team, patience):  # type: ignore[no-untyped-def]
    """Run items until ``patience`` turns in a row (some 50 ns each) have found none."""
    turns = 0
    while turns < patience:
        if _take_item(team):
            turns = 0
        else:
            turns += 1
            _wait(turns)


@kernel
def do_alone(item, count):  # type: ignore[no-untyped-def]
    """Run items 0 to ``count - 1`` on this thread: what little work is done with soonest."""
    for index in range(count):
        call(item[0], item[1], index)


@kernel
def share_out(team, item, count):  # type: ignore[no-untyped-def]
    """Run items 0 to ``count - 1`` on this thread and all that serve, and return when all are done.

    ``item`` comes from `outlined`; ``count`` is below 2³². With an empty team this thread runs all.
    """
    if len(team) == 0 or count < 2:
        do_alone(item, count)
        return
    team[_DONE], team[_FUNCTION], team[_VALUES] = 0, item[0], item[1]
    add_atomic(team, _TICKET, (1 << _SHIFT) + count)
    while _take_item(team):
        pass
    turns = 0
    while load_atomic(team, _DONE) < count:
        turns += 1
        _wait(turns)


# --- atomic operations, spin waits, and calls of kernels by address ---------------------------------------------------


_WHOLE = ir.IntType(64)
_BYTES = ir.IntType(8).as_pointer()
_ITEM = ir.FunctionType(ir.VoidType(), [_BYTES, _WHOLE])  # (address of the values, item), see `outlined`


def _index(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Return the address of ``array[index]``, given the two as the first arguments."""
    return builder.gep(context.make_array(signature.args[0])(context, builder, arguments[0]).data, [arguments[1]])


def _load_atomic(_context: Any, array: Any, index: Any) -> Any:
    """Load ``array[index]`` (int64), sequentially consistent."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load_atomic(_index(context, builder, signature, arguments), "seq_cst", 8)

    return types.int64(array, types.int64), generate


load_atomic: Any = intrinsic(_load_atomic)


def _add_atomic(_context: Any, array: Any, index: Any, addend: Any) -> Any:
    """Add to ``array[index]`` (int64) atomically; return the value before."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.atomic_rmw("add", _index(context, builder, signature, arguments), arguments[2], "seq_cst")

    return types.int64(array, types.int64, types.int64), generate


add_atomic: Any = intrinsic(_add_atomic)


def _replace_atomic(_context: Any, array: Any, index: Any, expected: Any, replacement: Any) -> Any:
    """Compare and swap: set ``array[index]`` (int64) to ``replacement`` if it is ``expected``; return if so."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        at = _index(context, builder, signature, arguments)
        pair = builder.cmpxchg(at, arguments[2], arguments[3], "seq_cst", "seq_cst")
        return builder.extract_value(pair, 1)

    return types.boolean(array, types.int64, types.int64, types.int64), generate


replace_atomic: Any = intrinsic(_replace_atomic)


def _pause(context: Any) -> Any:
    """Hint to the processor that this is a spin loop (x86 only)."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if builder.module.triple.startswith("x86_64"):
            function = ir.FunctionType(ir.VoidType(), [])
            builder.call(cgutils.get_or_insert_function(builder.module, function, "llvm.x86.sse2.pause"), [])  # type: ignore[no-untyped-call]
        return context.get_dummy_value()

    return types.void(), generate


pause: Any = intrinsic(_pause)


def _give_way(_context: Any) -> Any:
    """Yield the processor to another thread, where the system has ``sched_yield``."""
    name = "sched_yield"

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if binding.address_of_symbol(name):
            function = ir.FunctionType(ir.IntType(32), [])
            builder.call(cgutils.get_or_insert_function(builder.module, function, name), [])  # type: ignore[no-untyped-call]
        return context.get_dummy_value()

    return types.void(), generate


give_way: Any = intrinsic(_give_way)


def _call(_context: Any, function: Any, arguments: Any, item: Any) -> Any:
    """Call a function from `outlined` on an item."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        run = builder.inttoptr(values[0], _ITEM.as_pointer())
        builder.call(run, [builder.inttoptr(values[1], _BYTES), values[2]])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


call: Any = intrinsic(_call)


def _borrowed(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """Return a value whose arrays, also those in tuples, have no owner to count references to."""
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value)
        array.meminfo = cgutils.get_null_value(array.meminfo.type)  # type: ignore[no-untyped-call]
        array.parent = cgutils.get_null_value(array.parent.type)  # type: ignore[no-untyped-call]
        return array._getvalue()
    kinds: Any = kind if isinstance(kind, types.BaseTuple) else ()
    if kinds:
        each = [_borrowed(context, builder, own, builder.extract_value(value, i)) for i, own in enumerate(kinds)]
        return context.make_tuple(builder, kind, each)
    return value


def outlined(kernel: Any) -> Any:
    """Return an intrinsic that binds the values of ``kernel(*values, item)``, so `call` can run it on any item.

    The arrays among the values are borrowed: views of them are not counted, as threads that count references to one
    array wait for each other at each view.

    The intrinsic takes the tuple of values and returns two addresses: of a compiled function, and of the values on the
    caller's stack. Both are valid until the calling kernel returns. ``kernel`` must return nothing and raise nothing.
    """

    def outline(_context: Any, values: Any) -> Any:
        of_kernel = types.void(*values.types, types.int64)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            compiled = context.compile_subroutine(builder, kernel.py_func, of_kernel)
            given = _borrowed(context, builder, signature.args[0], arguments[0])
            kept = cgutils.alloca_once_value(builder, given)  # type: ignore[no-untyped-call]
            function = ir.Function(builder.module, _ITEM, f"{builder.function.name}.{compiled.fndesc.unique_name}.item")
            function.linkage = "internal"
            inner = ir.IRBuilder(function.append_basic_block("entry"))
            loaded = inner.load(inner.bitcast(function.args[0], arguments[0].type.as_pointer()))
            each = [inner.extract_value(loaded, i) for i in range(len(values))]
            context.call_internal_no_propagate(inner, compiled.fndesc, of_kernel, [*each, function.args[1]])
            inner.ret_void()
            both = [builder.ptrtoint(function, _WHOLE), builder.ptrtoint(kept, _WHOLE)]
            return context.make_tuple(builder, signature.return_type, both)

        return types.UniTuple(types.int64, 2)(values), generate  # type: ignore[no-untyped-call]

    return intrinsic(outline)
