"""How much memory a fit may use: what the machine has left, or what the process's control groups allow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

__all__ = ["MemoryBudget", "available_memory"]


class MemoryBudget:
    """The memory that the engines of a fit share: what is available when first asked, less what they have reserved.

    Parameters
    ----------
    at_most
        Bytes that the process may allocate, if that is less than the system has.
    n_processes
        The processes that share what the system has.
    """

    def __init__(self, at_most: int | None = None, n_processes: int = 1) -> None:
        self._at_most = at_most
        self._n_processes = n_processes
        self._available: int | None = None
        self._reserved = 0

    def left(self) -> int | None:
        """Return the bytes that are left, None where the system does not say what is available."""
        if self._available is None:
            machine = available_memory()
            known = [self._at_most, None if machine is None else machine // self._n_processes]
            self._available = min((size for size in known if size is not None), default=None)
        return None if self._available is None else max(0, self._available - self._reserved)

    def reserve(self, size: int) -> None:
        """Take bytes for an engine."""
        self._reserved += size


def available_memory(root: Path = Path("/")) -> int | None:
    """Return the bytes of memory that can still be allocated; None where the system does not say (not Linux).

    The page cache counts as free: the kernel drops it when memory is short. ``root`` is where the system's files are.

    The file /proc/meminfo says it of the machine. A control group (cgroup v1 or v2, such as of a container or a job)
    has a limit of its own, and so may the groups above it.
    """
    try:
        machine = _field((root / "proc/meminfo").read_text(), "MemAvailable:") * 1024
        groups = list(_groups(root))
    except (OSError, ValueError):
        return None
    return max(0, min([machine, *(limit - used for limit, used in groups)]))


def _groups(root: Path) -> Iterator[tuple[int, int]]:
    """Yield limit and allocated bytes of the control groups of this process that have a limit."""
    for line in (root / "proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            mount, limit_name, used_name = root / "sys/fs/cgroup", "memory.max", "anon"
        elif "memory" in controllers.split(","):
            mount, limit_name, used_name = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes", "total_rss"
        else:
            continue
        # Inside a container the path may be the host's: then only the mount itself is there, which is the container's.
        own = mount / path.lstrip("/")
        for folder in [own, *own.parents]:
            if (folder / limit_name).is_file() and (limit := (folder / limit_name).read_text().strip()) != "max":
                yield int(limit), _field((folder / "memory.stat").read_text(), f"{used_name} ")
            if folder == mount:
                break


def _field(text: str, name: str) -> int:
    """Return the number after a name at the start of a line."""
    return next(int(line.removeprefix(name).split()[0]) for line in text.splitlines() if line.startswith(name))
