"""Notebooks: run their cells, keep what they show, and write them as pages.

A notebook is stored with the plain text that its cells show. ``python -m docs.site.notebooks`` runs all notebooks and
stores what they show now; the tests run them and compare.
"""

from __future__ import annotations

import ast
import io
import json
import os
import tempfile
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Any

__all__ = ["notebooks", "page_of", "run", "store"]

FOLDER = Path(__file__).parents[1] / "notebooks"


def notebooks() -> list[Path]:
    """Return the notebooks of the documentation."""
    return sorted(FOLDER.glob("*.ipynb"))


def page_of(path: Path) -> str:
    """Return a notebook as Markdown: its text, its code, and what the code shows."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(text)
            continue
        parts.append(f"```python\n{text}\n```")
        if shown := _stored(cell):
            parts.append(f"```text\n{shown.rstrip()}\n```")
    return "\n\n".join([*parts, f"[Download this notebook]({path.name})"]) + "\n"


def run(path: Path) -> list[tuple[str, str]]:
    """Run the cells of a notebook in an empty folder; return what each shows now, and what is stored of it."""
    names: dict[str, Any] = {"__name__": "__main__"}
    shown = []
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        for number, cell in enumerate(_code_cells(json.loads(path.read_text(encoding="utf-8")))):
            shown.append((_run_cell("".join(cell["source"]), names, f"{path.name}[{number}]"), _stored(cell)))
    return shown


def store(path: Path) -> None:
    """Run a notebook and store what its cells show, as plain text."""
    shown = run(path)
    notebook = json.loads(path.read_text(encoding="utf-8"))
    for number, (cell, (text, _)) in enumerate(zip(_code_cells(notebook), shown, strict=True), 1):
        lines = text.splitlines(keepends=True)
        cell["execution_count"] = number
        cell["outputs"] = [{"name": "stdout", "output_type": "stream", "text": lines}] if lines else []
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def _stored(cell: dict[str, Any]) -> str:
    return "".join("".join(output["text"]) for output in cell["outputs"])


def _run_cell(source: str, names: dict[str, Any], where: str) -> str:
    r"""Run one cell and return what it prints, and its last value as a notebook shows it.

    >>> _run_cell("x = 2\nprint(x)\nx + 1", {}, "cell")
    '2\n3\n'
    """
    body = ast.parse(source, where).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    output = io.StringIO()
    with redirect_stdout(output):
        exec(compile(ast.Module(body, []), where, "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), where, "eval"), names)
            if value is not None:
                print(repr(value))
    return output.getvalue()


if __name__ == "__main__":
    os.environ.setdefault("COLUMNS", "120")
    for notebook in notebooks():
        store(notebook)
        print(notebook)
