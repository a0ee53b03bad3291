"""A team of threads within kernels: one shares out items of work, and others, which wait in a kernel, take some.

To wake a thread takes up to half a millisecond, and Python's lock stands between it and a kernel; one that waits in a
kernel starts within a microsecond. OpenMP's teams are kept waiting for the same reason.

A team is an int64 array; what is written often stands in cache lines of its own:

- ``team[TICKET]``: how often items were shared out, times 2³², plus how many are left this time. Who lowers it has the
  item of that number. It is lowered only if it is what it was when it was read, so nobody gets an item of another time.
- ``team[FUNCTION]`` and ``team[VALUES]``: what to do with an item (see `frameboost.runtime.team_intrinsics.outlined`).
- ``team[DONE]``: how many are done.
"""

from __future__ import annotations

from frameboost.runtime.kernel import kernel
from frameboost.runtime.team_intrinsics import add_atomic, call, give_way, load_atomic, pause, replace_atomic

__all__ = ["SIZE", "serve", "share_out"]

_TICKET, _FUNCTION, _VALUES, _DONE, SIZE = 0, 8, 9, 16, 24
_BITS = 32
_MOST = (1 << _BITS) - 1


@kernel
def _take_item(team):  # type: ignore[no-untyped-def]
    """Do one of the items that are left; return whether there was one."""
    ticket = load_atomic(team, _TICKET)
    left = ticket & _MOST
    if left == 0:
        return False
    function, values = load_atomic(team, _FUNCTION), load_atomic(team, _VALUES)
    if replace_atomic(team, _TICKET, ticket, ticket - 1):
        call(function, values, left - 1)
        add_atomic(team, _DONE, 1)
    return True


@kernel
def _wait(turns):  # type: ignore[no-untyped-def]
    """Wait a moment; now and then let others go first, where threads are more than processors."""
    pause()
    if turns & 31 == 0:
        give_way()


@kernel
def serve(team, patience):  # type: ignore[no-untyped-def]
    """Do items until there have been none ``patience`` times running, some 50 ns each."""
    turns = 0
    while turns < patience:
        if _take_item(team):
            turns = 0
        else:
            turns += 1
            _wait(turns)


@kernel
def share_out(team, item, count):  # type: ignore[no-untyped-def]
    """Have items 0 to ``count - 1`` done by this thread and all that serve, and return when all are.

    ``item`` is what `frameboost.runtime.team_intrinsics.outlined` has made; ``count`` is below 2³².
    """
    team[_DONE], team[_FUNCTION], team[_VALUES] = 0, item[0], item[1]
    add_atomic(team, _TICKET, (1 << _BITS) + count)
    while _take_item(team):
        pass
    turns = 0
    while load_atomic(team, _DONE) < count:
        turns += 1
        _wait(turns)
