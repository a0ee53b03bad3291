"""dbt, which has requirements that other tools of the tests can't be installed beside: in an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.package import ROOT

__all__ = ["run_dbt"]

# Several commands in one process: most of the time of each would be that of imports and of parsing the project.
_DRIVER = """
import json, sys
from dbt.cli.main import dbtRunner
runner, found = dbtRunner(), []
for command in json.loads(sys.argv[1]):
    done = runner.invoke(command)
    results = getattr(done.result, "results", None) or []
    found.append({
        "error": done.exception and str(done.exception),
        "nodes": {r.node.unique_id: [str(r.status), r.message] for r in results if hasattr(r, "node")},
    })
json.dump(found, open(sys.argv[2], "w"))
"""


@cache
def _python() -> Path:
    environment = Path(os.environ.get("DBT_ENVIRONMENT", ROOT / ".venv-dbt"))
    python = environment / "bin" / "python"
    if not python.exists():
        pytest.skip(
            "dbt is not installed: python3 -m venv .venv-dbt; .venv-dbt/bin/pip install 'dbt-core<1.12' dbt-duckdb "
            "dbt-postgres"
        )
    return python


def run_dbt(project: Path, *commands: str, **environment: str) -> list[dict[str, Any]]:
    """Return of each command of dbt its error and the status and message of each node by its id.

    What is deprecated is an error.
    """
    python, out = _python(), project / "found.json"
    options = ["--warn-error-options", '{"error": ["Deprecations"]}', "--no-use-colors"]
    arguments = json.dumps([[*options, *command.split(), "--profiles-dir", str(project)] for command in commands])
    done = subprocess.run(
        [str(python), "-c", _DRIVER, arguments, str(out)], cwd=project, capture_output=True, text=True, check=False,
        env={**os.environ, "DBT_SEND_ANONYMOUS_USAGE_STATS": "false", **environment}, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(out.read_text())
