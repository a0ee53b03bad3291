"""What is public is documented, with an example that runs."""

import doctest
import inspect

import pytest

import frameboost as fb

ERRORS = [fb.FrameboostError, fb.DataError, fb.ParameterError, fb.ModelFileError]
METHODS = [name for name, _ in inspect.getmembers(fb.Model, inspect.isfunction) if not name.startswith("_")]
PROPERTIES = [name for name, _ in inspect.getmembers(fb.Model, lambda m: isinstance(m, property))]


def test_the_public_names():
    assert set(fb.__all__) == {
        "DataError", "FrameboostError", "Model", "ModelFileError", "ParameterError", "__version__", "fit", "load",
    }  # fmt: skip
    assert METHODS == [
        "explain",
        "explain_interactions",
        "explain_query",
        "expr",
        "importance",
        "partial_dependence",
        "predict",
        "query",
        "register",
        "save",
        "sql",
        "to_json",
    ]
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
