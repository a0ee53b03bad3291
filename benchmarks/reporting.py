"""Reports of the results: as a table, as JSON, and compared with an earlier run."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from measuring import THREADS, Comparison, Target, Way

DISTRIBUTIONS = (
    "frameboost", "polars", "duckdb", "numba", "numpy", "sqlglot", "pyarrow", "xgboost-cpu", "xgboost", "lightgbm",
    "scikit-learn", "catboost", "orbital",
)  # fmt: skip
HEADS = ("workload", "way", "best", "ratio", "judged by", "target")
_LEFT = (True, True, False, False, False, True)


def record(workload: str, comparison: Comparison) -> list[dict[str, Any]]:
    """Return one row for each way, with values that JSON can hold."""
    by_name = {way.name: way for way in comparison.ways}
    first = comparison.ways[0].best
    unit = "CPU s" if comparison.timed and comparison.by_cpu else comparison.unit
    return [
        {
            "workload": workload, "title": comparison.title, "way": way.name, "unit": unit,
            "values": way.values, "wall": way.wall, "cpu": way.cpu, "best": way.best,
            "ratio": _over(way.best, first), "skipped": way.lacking,
            "quality": {"name": comparison.quality, "value": way.quality} if comparison.quality else None,
            "targets": [_held_to(target, way, by_name) for target in way.targets],
        }
        for way in comparison.ways
    ]  # fmt: skip


def _over(value: float | None, other: float | None) -> float | None:
    return value / other if value is not None and other else None


def _held_to(target: Target, way: Way, by_name: dict[str, Way]) -> dict[str, Any]:
    found = way.quality if target.of_quality else way.best
    if target.of is not None:
        names = (target.of,) if isinstance(target.of, str) else target.of
        found = _over(found, min((best for name in names if (best := by_name[name].best) is not None), default=None))
    met = None if found is None else found <= target.at_most
    return {"at_most": target.at_most, "of": target.of, "of_quality": target.of_quality, "found": found, "met": met}


def cells(row: dict[str, Any]) -> tuple[str, ...]:
    """Return a row of the table."""
    if row["best"] is None:
        return row["workload"], row["way"], "", "", "", f"skipped: {row['skipped']}"
    quality = row["quality"]
    judged = "" if not quality or quality["value"] is None else f"{quality['name']} {quality['value']:.5g}"
    targets = "; ".join(map(_target_text, row["targets"]))
    return (
        row["workload"],
        row["way"],
        f"{_short(row['best'])} {row['unit']}",
        _ratio_text(row["ratio"]),
        judged,
        targets,
    )


def _ratio_text(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _target_text(target: dict[str, Any]) -> str:
    of = target["of"] if isinstance(target["of"], str) or not target["of"] else "the best of the others"
    wanted = f"≤ {target['at_most']:.3g}" + (f" × {of}" if of else "")
    if target["met"] is None:
        return f"{wanted}: unknown"
    return f"{wanted}: {_short(target['found'])}, {'met' if target['met'] else 'MISSED'}"


def table(rows: Sequence[tuple[str, ...]], left: Sequence[bool] = _LEFT) -> str:
    """Return text in columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        aligned = (c.ljust(w) if is_left else c.rjust(w) for c, w, is_left in zip(row, widths, left, strict=True))
        lines.append("  ".join(aligned).rstrip())
    return "\n".join(lines)


def about(settings: dict[str, Any]) -> dict[str, Any]:
    """Return what the times depend on: versions, the machine, the settings of the run."""
    versions = {"python": platform.python_version()}
    for name in DISTRIBUTIONS:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    machine = {"processor": _processor(), "threads": THREADS, "memory_gb": _memory(), "system": platform.platform()}
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {"when": now, "load_before": load(), "versions": versions, "machine": machine, "settings": settings}


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    named = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")]
    return named[0] if named else platform.machine()


def _memory() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError, OSError):
        return None


def load() -> float | None:
    """Return the load average of the last minute."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def write(path: Path, found: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def changes(old: dict[str, Any], new: dict[str, Any]) -> str:
    """Return a table of the ratios then and now; ratios depend less on the machine than times do."""
    before = {(row["workload"], row["way"]): row for row in old["results"]}
    rows = [("workload", "way", "best then", "now", "ratio then", "now", "change")]
    for row in new["results"]:
        was = before.get((row["workload"], row["way"]))
        if was is None or was["best"] is None or row["best"] is None:
            continue
        if was["title"] != row["title"]:
            rows.append((row["workload"], row["way"], f"of other sizes: {was['title']}", "", "", "", ""))
            continue
        change = f"{100 * (row['ratio'] / was['ratio'] - 1):+.0f} %" if row["ratio"] and was["ratio"] else ""
        times, ratios = [_short(r["best"]) for r in (was, row)], [_ratio_text(r["ratio"]) for r in (was, row)]
        rows.append((row["workload"], row["way"], *times, *ratios, change))
    differ = {
        f"{name} {old['versions'].get(name)} then, {version} now"
        for name, version in new["versions"].items()
        if old["versions"].get(name) != version
    }
    if old["machine"] != new["machine"]:
        differ.add(f"on another machine then: {old['machine']}")
    return "\n".join([table(rows, (True, True, False, False, False, False, False)), *sorted(differ)])


def read(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        sys.exit(f"{path} can't be compared with: {error}")
