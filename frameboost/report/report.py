"""The sections of a report in their order, and the file that they are written to."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from frameboost.checks.messages import counted, shortened
from frameboost.data.table_files import check_writable, output_path
from frameboost.model.model import Model
from frameboost.report.about import about
from frameboost.report.calibration import calibration
from frameboost.report.drift import drift
from frameboost.report.importance import importance
from frameboost.report.markup import Raw, Section, escaped
from frameboost.report.material import Material, Wanted, gather
from frameboost.report.over_time import over_time
from frameboost.report.page import page
from frameboost.report.parameters import parameters
from frameboost.report.quality import quality
from frameboost.report.response import response
from frameboost.report.sql import sql
from frameboost.report.training import training
from frameboost.report.weak_segments import weak_segments

__all__ = ["report_html", "write_report"]

_SECTIONS: tuple[Callable[[Material], Section | None], ...] = (
    about, quality, weak_segments, importance, response, calibration, over_time, drift, training, sql, parameters,
)  # fmt: skip


def write_report(model: Model, data: Any, path: str | os.PathLike[str], wanted: Wanted) -> None:
    """Write the report of a model to a file, atomically; `frameboost.Model.report` describes the arguments.

    Raises
    ------
    OSError
        If the file can't be written, before any work starts.
    """
    check_writable(os.fspath(path))
    text = report_html(model, data, wanted)
    with output_path(os.fspath(path)) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")


def report_html(model: Model, data: Any, wanted: Wanted) -> str:
    """Return the page."""
    material = gather(model, data, wanted)
    sections = [found for section in _SECTIONS if (found := section(material)) is not None]
    title = wanted.title or (f"Model of {shortened(_targets(wanted), 80)}" if wanted.target else "Report of a model")
    return page(title, _subtitle(material), sections)


def _targets(wanted: Wanted) -> str:
    return wanted.target if isinstance(wanted.target, str) else ", ".join(wanted.target or ())


def _subtitle(material: Material) -> Raw:
    model = material.model
    return Raw(
        f"{escaped(model.objective)} &middot; {counted(model.n_trees, 'tree')} &middot; "
        f"{counted(len(model.features), 'feature')} &middot; {counted(material.n_rows, 'row')}"
    )
