"""What is public is documented, with an example that runs."""

import doctest
import inspect
import re
from pathlib import Path

import pytest

import frameboost as fb

SQL = Path(__file__).parent.parent / "sql"
ERRORS = [fb.FrameboostError, fb.DataError, fb.ParameterError, fb.ModelFileError]
METHODS = [name for name, _ in inspect.getmembers(fb.Model, inspect.isfunction) if not name.startswith("_")]
PROPERTIES = [name for name, _ in inspect.getmembers(fb.Model, lambda m: isinstance(m, property))]


def test_the_public_names():
    assert set(fb.__all__) == {
        "DataError", "FrameboostError", "Model", "ModelFileError", "ParameterError", "__version__", "fit", "load",
    }  # fmt: skip
    assert METHODS == ["expr", "importance", "predict", "query", "register", "save", "sql", "to_json"]
    assert PROPERTIES == ["base_margin", "features", "n_trees", "objective", "parameters", "trees"]


def test_errors_are_value_errors():
    for error in ERRORS[1:]:
        assert issubclass(error, fb.FrameboostError)
        assert issubclass(error, ValueError)


@pytest.mark.parametrize("thing", [fb.fit, fb.load, fb.Model, *ERRORS, *(getattr(fb.Model, name) for name in METHODS)],
                         ids=lambda thing: thing.__name__)  # fmt: skip
def test_everything_public_has_an_example_that_runs(thing):
    assert doctest.DocTestParser().get_examples(inspect.getdoc(thing))


@pytest.mark.parametrize("name", PROPERTIES)
def test_every_property_has_an_example_that_runs(name):
    assert doctest.DocTestParser().get_examples(inspect.getdoc(getattr(fb.Model, name)))


# --- sql/ -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(SQL.glob("*.sql")), ids=lambda path: path.stem)
def test_every_sql_file_says_what_goes_in_and_what_comes_out(path):
    header, _, body = path.read_text(encoding="utf-8").partition("\n\n")
    assert all(line.startswith("--") for line in header.splitlines())
    assert "-- in: " in header
    assert "-- out:" in header
    parts = set(re.findall(r"{(\w+)}", body))
    assert parts - {"in_order"} <= set(re.findall(r"{(\w+)}", header))


def test_every_sql_file_is_run_by_the_engine():
    package = "".join(path.read_text(encoding="utf-8") for path in (SQL.parent / "frameboost").rglob("*.py"))
    for path in SQL.glob("*.sql"):
        assert f'"{path.stem}"' in package, f"{path.name} is not used"
