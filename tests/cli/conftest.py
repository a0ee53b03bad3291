"""A folder with data and models of it, for the tests of the command line."""

import pytest

import frameboost as fb
from tests.cli.commands import FEATURES, flights, write_data


@pytest.fixture(scope="package")
def made(tmp_path_factory):
    """A folder with data, and models of it."""
    folder = tmp_path_factory.mktemp("cli")
    write_data(folder)
    df = flights()
    shared = {"features": FEATURES, "n_estimators": 4, "max_depth": 3}
    fb.fit(df, "arr_delay", **shared).save(folder / "delay.json")
    fb.fit(df, "late", objective="binary:logistic", **shared).save(folder / "late.json")
    fb.fit(df, "kind", objective="multi:softprob", **shared).save(folder / "kind.json")
    return folder


@pytest.fixture
def here(made, tmp_path, monkeypatch):
    """Another folder to work in, with the same files."""
    for file in made.iterdir():
        (tmp_path / file.name).symlink_to(file)
    monkeypatch.chdir(tmp_path)
    return tmp_path
