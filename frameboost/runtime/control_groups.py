"""Limits of Linux control groups (cgroup v1 or v2, of a container or a job, for example) on this process."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

__all__ = ["cpu_quota", "memory_groups"]


def memory_groups(root: Path = Path("/")) -> Iterator[tuple[int, int]]:
    """Yield limit and usage in bytes of the groups of this process that have a limit.

    ``root`` is the root of the system's files.

    Raises
    ------
    OSError, ValueError
        If the files are missing, or not as documented.
    """
    for folder, is_first in _groups("memory", root):
        limit_name, used_name = ("memory.limit_in_bytes", "total_rss") if is_first else ("memory.max", "anon")
        if (folder / limit_name).is_file() and (limit := (folder / limit_name).read_text().strip()) != "max":
            text = (folder / "memory.stat").read_text()
            yield (
                int(limit),
                next(int(line.split()[1]) for line in text.splitlines() if line.startswith(f"{used_name} ")),
            )


@cache
def cpu_quota(root: Path = Path("/")) -> float | None:
    """Return the CPU quota of this process, such as 1.5 for Docker's ``--cpus=1.5``; None without a limit.

    The smallest quota of the groups and their ancestors applies. ``root`` is as for `memory_groups`. It is read once.
    """
    quotas = []
    try:
        for folder, is_first in _groups("cpu", root):
            if is_first:
                names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
                texts = [(folder / name).read_text() for name in names if (folder / name).is_file()]
            else:
                texts = (folder / "cpu.max").read_text().split() if (folder / "cpu.max").is_file() else []
            if len(texts) == 2 and texts[0] != "max" and int(texts[0]) > 0:  # -1 is no limit
                quotas.append(int(texts[0]) / int(texts[1]))
    except (OSError, ValueError, ZeroDivisionError):  # of a system that is not Linux, or lets nobody look
        return None
    return min(quotas, default=None)


def _groups(controller: str, root: Path) -> Iterator[tuple[Path, bool]]:
    """Yield the folders of a controller's groups of this process, and whether they are cgroup v1."""
    for line in (root / "proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        is_first = controllers != ""
        if is_first and controller not in controllers.split(","):
            continue
        mount = root / "sys/fs/cgroup"
        if is_first:  # its folder may be named after several controllers
            mount = next(
                (each for name in (controllers, controller) if (each := mount / name).is_dir()), mount / controller
            )
        # Inside a container the path may be the host's: then only the mount itself is there, which is the container's.
        group = mount / path.lstrip("/")
        for folder in [group, *group.parents]:
            yield folder, is_first
            if folder == mount:
                break
