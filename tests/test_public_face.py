"""What is public is documented, with an example that runs."""

import doctest
import inspect
from pathlib import Path

import frameboost as fb
from frameboost.namespace import FrameNamespace, LazyFrameNamespace
from tests.support.cases import cases

ERRORS = [fb.FrameboostError, fb.DataError, fb.ParameterError, fb.TooLargeError, fb.ModelFileError]


def methods(kind: type) -> list[str]:
    return [name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")]


METHODS, OF_DATABASE = methods(fb.Model), methods(fb.DatabaseModel)
PROPERTIES = [name for name, _ in inspect.getmembers(fb.Model, lambda m: isinstance(m, property))
              if not name.startswith("_")]  # fmt: skip
ESTIMATORS = [fb.FrameBoostClassifier, fb.FrameBoostRanker, fb.FrameBoostRegressor]
NAMESPACES = [FrameNamespace, LazyFrameNamespace]


def test_the_public_names():
    assert set(fb.__all__) == {
        "ClusterError", "Dask", "DataError", "DatabaseModel", "FrameboostError", "FrameboostWarning",
        "Metric", "Model",
        "ModelFileError",
        "Objective", "ParameterError", "Spark", "TooLargeError", "__version__", "aggregate", "auto", "compare", "cv",
        "fit", "from_catboost",
        "from_lightgbm", "from_sklearn", "from_xgboost", "join", "load", "plan", "table",
    }  # fmt: skip
    assert {estimator.__name__ for estimator in ESTIMATORS} == set(dir(fb)) - set(vars(fb)) - {"plots"}
    assert "plots" in dir(fb)
    assert fb.plots.__all__ == [
        "calibration", "confusion", "drift", "gains", "importance", "learning_curves", "lift", "partial_dependence",
        "precision_recall", "residuals", "roc", "shap_dependence", "shap_summary", "threshold_costs", "tree",
        "waterfall",
    ]  # fmt: skip
    assert not hasattr(fb, "FrameBoost")
    assert METHODS == [
        "calibrate", "conform", "database", "evaluate", "explain", "expr", "importance", "partial_dependence",
        "predict", "query", "refit", "register", "report", "save", "sql", "to_json", "to_xgboost", "tree",
        "with_baseline", "with_metadata", "with_threshold",
    ]  # fmt: skip
    assert OF_DATABASE == [
        "append_history_sql", "baseline", "check_columns_query", "compare_query", "create_function_sql",
        "create_history_sql", "create_table_sql", "create_view_sql", "deploy_statements", "drift_query",
        "evaluate_query", "explain_query", "explain_table_sql", "explain_view_sql",
        "monitor_query", "query", "rollback_statements", "self_test_query", "sql", "table_frame", "table_statements",
        "to_dbt", "to_sql", "update_sql",
    ]  # fmt: skip
    assert list(fb.DatabaseModel.__dataclass_fields__) == [
        "ensemble", "dialect", "columns", "column_names", "star", "paramstyle", "rename",
    ]  # fmt: skip
    assert PROPERTIES == [
        "base_margin", "baseline", "best_iteration", "best_score", "classes", "ensemble", "features", "history",
        "leaderboard", "metadata", "n_rounds", "n_trees", "objective", "offset", "out_of_fold", "parameters", "sha256",
        "trees",
    ]  # fmt: skip


def test_errors_are_value_errors():
    for error in ERRORS[1:]:
        assert issubclass(error, fb.FrameboostError)
        assert issubclass(error, ValueError)


READERS = [fb.load, fb.from_catboost, fb.from_lightgbm, fb.from_sklearn, fb.from_xgboost]
PUBLIC = [
    fb.compare, fb.cv, fb.fit, *READERS, fb.Metric, fb.Model, fb.DatabaseModel, fb.Objective, *ERRORS,
    *(getattr(fb.Model, name) for name in METHODS), *(getattr(fb.DatabaseModel, name) for name in OF_DATABASE),
]  # fmt: skip


@cases("thing", PUBLIC)
def test_everything_public_has_an_example_that_runs(thing):
    assert doctest.DocTestParser().get_examples(inspect.getdoc(thing))


def test_every_chart_is_documented_with_an_example_that_runs():
    page = (Path(__file__).parents[1] / "docs" / "plots.md").read_text(encoding="utf-8")
    examples = "".join(example.source for example in doctest.DocTestParser().get_examples(page))
    for name in fb.plots.__all__:
        assert inspect.getdoc(getattr(fb.plots, name))
        assert f"fb.plots.{name}(" in examples, name


@cases("thing", [*ESTIMATORS, *NAMESPACES, *(m for n in NAMESPACES for m in (n.fit, n.predict))])  # fmt: skip
def test_namespaces_and_estimators_have_examples(thing):
    assert doctest.DocTestParser().get_examples(inspect.getdoc(thing))


@cases("name", PROPERTIES)
def test_every_property_has_an_example_that_runs(name):
    assert doctest.DocTestParser().get_examples(inspect.getdoc(getattr(fb.Model, name)))
