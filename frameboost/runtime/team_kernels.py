"""A lock-free work queue inside kernels: one thread shares out items, and threads that spin in `serve` take some.

Waking a sleeping thread takes up to half a millisecond, and it needs Python's lock to reach a kernel. A thread that
spins in a kernel starts within a microsecond; OpenMP keeps its teams spinning for the same reason.

A team is an int64 array, with fields that are written often in cache lines of their own:

- ``team[TICKET]``: (the number of calls of `share_out`) << 32 | (the number of items left in this one). A thread takes
  an item by a compare-and-swap that lowers the ticket by 1. The call's number makes every ticket unique, so a thread
  that was suspended between reading and swapping fails, and never runs an item of an earlier call (the ABA problem).
- ``team[FUNCTION]`` and ``team[VALUES]``: the function of an item and its arguments, by address (see
  `frameboost.runtime.team_intrinsics.outlined`).
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

from frameboost.runtime.kernel import kernel
from frameboost.runtime.team_intrinsics import add_atomic, call, give_way, load_atomic, pause, replace_atomic

__all__ = ["SIZE", "do_alone", "serve", "share_out"]

_TICKET, _FUNCTION, _VALUES, _DONE, SIZE = 0, 8, 9, 16, 24
_BITS = 32
_MAX_COUNT = (1 << _BITS) - 1


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

    ``item`` comes from `frameboost.runtime.team_intrinsics.outlined`; ``count`` is below 2³². Without a team (None)
    this thread runs all.
    """
    if team is None:
        do_alone(item, count)
        return
    team[_DONE], team[_FUNCTION], team[_VALUES] = 0, item[0], item[1]
    add_atomic(team, _TICKET, (1 << _BITS) + count)
    while _take_item(team):
        pass
    turns = 0
    while load_atomic(team, _DONE) < count:
        turns += 1
        _wait(turns)
