"""Arrays in memory-mapped files, and how much memory there is."""

import resource

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import frameboost as fb
from frameboost.runtime import storage as memory
from frameboost.runtime.storage import FileStorage, MemoryBudget, Storage, available_memory
from tests.support.cases import cases

GIGABYTE = 2**30


def in_file(array: np.ndarray) -> bool:
    base = array
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    return type(base.obj if isinstance(base, memoryview) else base).__name__ in ("mmap", "_Mapping")


def test_arrays_in_files():
    storage = FileStorage(memory=1000)
    array = storage.empty((3, 5), np.uint16)
    assert (array.shape, array.dtype, array.flags.c_contiguous, array.flags.writeable) == (
        (3, 5),
        np.uint16,
        True,
        True,
    )
    assert in_file(array)
    array[:] = 7
    storage.release_pages()
    assert array.sum() == 105
    values = np.arange(10.0)[::2]
    assert storage.kept(values).tolist() == [0, 2, 4, 6, 8]
    assert storage.empty((0,), np.float64).shape == (0,)
    # 1,000 bytes of arrays that are rewritten are in memory: 800, then not 400 more, then 200.
    rewritten = [in_file(storage.empty((n,), np.int64, is_rewritten=True)) for n in (100, 50, 25)]
    assert rewritten == [False, True, False]
    assert not in_file(Storage().empty((3,), np.float64))


def test_frames_in_files():
    frame = pl.DataFrame({"x": [0.5, -0.0, 3], "n": [1, 2, 3], "gaps": [1.0, None, 2.0], "text": ["a", "b", "c"]})
    kept = FileStorage().kept_frame(frame)
    assert_frame_equal(kept, frame)
    assert Storage().kept_frame(frame) is frame


def test_a_full_disk_is_told():
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000_000, hard))
    try:
        with pytest.raises(fb.DataError, match=r"temporary file of 80,000,000 bytes can't be made in '.*': File too"):
            FileStorage().empty((10_000_000,), np.float64)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@cases(("files", "expected"), [
    ({}, 20),
    ({"proc/self/cgroup": "0::/jobs/a", "sys/fs/cgroup/jobs/a/memory.max": "max"}, 20),
    ({"proc/self/cgroup": "0::/jobs/a", "sys/fs/cgroup/jobs/a/memory.max": "max",
      "sys/fs/cgroup/jobs/memory.max": str(8 * GIGABYTE),
      "sys/fs/cgroup/jobs/memory.stat": f"anon {GIGABYTE}\nfile 1\n"}, 7),
    ({"proc/self/cgroup": "9:name=systemd:/\n4:cpu,memory:/b", "sys/fs/cgroup/memory/b/memory.limit_in_bytes": "1024",
      "sys/fs/cgroup/memory/b/memory.stat": f"rss 1\ntotal_rss {GIGABYTE}\n"}, 0),
    # The path of the host is not there in a container.
    ({"proc/self/cgroup": "4:memory:/docker/b\n0::/", "sys/fs/cgroup/memory/memory.limit_in_bytes": str(4 * GIGABYTE),
      "sys/fs/cgroup/memory/memory.stat": "total_rss 0\n"}, 4),
])  # fmt: skip
def test_available_memory(tmp_path_factory, files, expected):
    root = tmp_path_factory.mktemp("root")
    machine = {"proc/meminfo": f"MemFree: 5 kB\nMemAvailable:   {20 * 2**20} kB\n", "proc/self/cgroup": ""}
    for name, text in (machine | files).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    assert available_memory(root) == expected * GIGABYTE


def test_no_answer_means_no_limit(tmp_path):
    assert available_memory(tmp_path) is None


def test_a_budget_is_measured_once():
    budget = MemoryBudget()
    left = budget.left()
    assert left is None or left > 0
    budget.reserve(1000)
    assert budget.left() == (None if left is None else left - 1000)


def test_a_budget_of_one_process_of_several(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 9000)
    assert [MemoryBudget(at_most, n).left() for at_most, n in [(None, 3), (2500, 3), (4000, 3), (0, 1)]] == [
        3000, 2500, 3000, 0
    ]  # fmt: skip
    monkeypatch.setattr(memory, "available_memory", lambda: None)
    assert [MemoryBudget(at_most, 3).left() for at_most in (None, 2500)] == [None, 2500]
