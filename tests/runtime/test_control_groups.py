"""Quotas of processors in control groups of both versions, and how many threads there are then."""

import os

import polars as pl
import pytest

import frameboost as fb
from frameboost.runtime import workers
from frameboost.runtime.control_groups import cpu_quota
from tests.support.cases import cases

V2, V1 = "sys/fs/cgroup", "sys/fs/cgroup/cpu"


@cases(("files", "expected"), [
    ({}, None),  # not Linux
    ({"proc/self/cgroup": "0::/"}, None),
    ({"proc/self/cgroup": "0::/", f"{V2}/cpu.max": "max 100000\n"}, None),
    ({"proc/self/cgroup": "0::/", f"{V2}/cpu.max": "150000 100000\n"}, 1.5),
    ({"proc/self/cgroup": "0::/", f"{V2}/cpu.max": "20000\n"}, None),  # damaged
    ({"proc/self/cgroup": "0::/", f"{V2}/cpu.max": "many few"}, None),
    ({"proc/self/cgroup": "0::/", f"{V2}/cpu.max": "100000 0"}, None),
    # Kubernetes: the pod has less than the container in it.
    ({"proc/self/cgroup": "0::/pod/a", f"{V2}/pod/a/cpu.max": "400000 100000", f"{V2}/pod/cpu.max": "300000 100000",
      f"{V2}/cpu.max": "max 100000"}, 3.0),
    ({"proc/self/cgroup": "0::/host/path", f"{V2}/cpu.max": "50000 100000"}, 0.5),  # the host's path, in a container
    ({"proc/self/cgroup": "4:cpu:/b\n3:memory:/", f"{V1}/b/cpu.cfs_quota_us": "250000",
      f"{V1}/b/cpu.cfs_period_us": "100000"}, 2.5),
    ({"proc/self/cgroup": "4:cpu:/\n", f"{V1}/cpu.cfs_quota_us": "-1", f"{V1}/cpu.cfs_period_us": "100000"}, None),
    ({"proc/self/cgroup": "4:cpu,cpuacct:/docker/b\n0::/", f"{V1},cpuacct/cpu.cfs_quota_us": "200000",
      f"{V1},cpuacct/cpu.cfs_period_us": "50000"}, 4.0),
    ({"proc/self/cgroup": "4:cpu,cpuacct:/\n0::/", f"{V1}/cpu.cfs_quota_us": "200000",
      f"{V1}/cpu.cfs_period_us": "100000"}, 2.0),
])  # fmt: skip
def test_quotas_of_processors(tmp_path_factory, files, expected):
    root = tmp_path_factory.mktemp("root")
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    assert cpu_quota(root) == expected


@cases(("quota", "cores", "expected"), [(None, 3, 3), (2.5, 8, 2), (0.5, 8, 1), (64.0, 3, 3), (3.0, 3, 3)])
def test_there_are_no_more_threads_than_the_quota_has_processors(monkeypatch, quota, cores, expected):
    monkeypatch.setattr(workers, "cpu_quota", lambda: quota)
    if hasattr(os, "sched_getaffinity"):
        monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(cores)))
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    assert workers.available_cores() == expected
    assert workers.Workers().n_jobs == expected


@cases(("n_jobs", "expected"), [(None, 3), (1, 1), (5, 5), (-1, 3)])
def test_predictions_take_so_many_threads(monkeypatch, n_jobs, expected):
    monkeypatch.setattr(workers, "available_cores", lambda: 3)
    monkeypatch.setattr(workers, "_kept", {})
    counts, kept = [], workers.kept_workers
    for module in ("prediction.predictor", "compile.arrays.flat_trees"):
        monkeypatch.setattr(f"frameboost.{module}.kept_workers", lambda: counts.append(kept().n_jobs) or kept())
    frame = pl.DataFrame({"x": range(4000), "y": [0.0, 1.0] * 2000})
    model = fb.fit(frame, "y", n_estimators=2)
    assert model.predict(frame, n_jobs=n_jobs).equals(model.predict(frame))
    assert set(counts[: len(counts) // 2]) == {expected} and set(counts[len(counts) // 2 :]) == {3}
    estimator = fb.FrameBoostRegressor(n_estimators=2, n_jobs=n_jobs).fit(frame.select("x"), frame["y"].to_numpy())
    counts.clear()
    estimator.predict(frame.select("x"))
    assert set(counts) == {expected}
    for pool in workers._kept.values():
        pool.close()


def test_a_wrong_number_of_threads_is_refused():
    frame = pl.DataFrame({"x": [1, 2], "y": [0.0, 1.0]})
    for n_jobs in (0, -2, 1.5, True, "2"):
        with pytest.raises(fb.ParameterError, match="n_jobs must be an integer of at least 1, or -1 for all cores"):
            fb.fit(frame, "y", n_estimators=1).predict(frame, n_jobs=n_jobs)
