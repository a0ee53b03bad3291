"""The choice of an engine by data and parameters, and what each engine refuses."""

import re

import duckdb
import polars as pl
import pytest

import frameboost as fb
from frameboost.engines.choose import ENGINES
from frameboost.engines.duckdb.memory import DuckDBMemoryEngine
from frameboost.engines.memory.engine import MemoryEngine
from frameboost.engines.memory.exact import ExactEngine
from frameboost.engines.polars.engine import PolarsEngine
from frameboost.parameters.parameters import Parameters
from frameboost.schema.types import Feature, FeatureType
from tests.support.cases import cases
from tests.support.engines import open_engine

SHAPE = {"n_estimators": 2, "max_depth": 3}


def good() -> pl.DataFrame:
    return pl.DataFrame({"x": [1.0, 2.0, 3.0, 4.0] * 9, "y": [0.0, 1.0, 0.0, 3.0] * 9})


def relation() -> duckdb.DuckDBPyRelation:
    return duckdb.connect().from_arrow(good().to_arrow())


@cases(
    ("data", "tree_method", "engine", "expected"),
    [
        (good, "hist", "auto", MemoryEngine), (lambda: good().lazy(), "hist", "auto", MemoryEngine),
        (lambda: good().to_arrow(), "hist", "auto", MemoryEngine), (relation, "hist", "auto", DuckDBMemoryEngine),
        (good, "exact", "auto", ExactEngine), (relation, "exact", "auto", ExactEngine),
        (relation, "hist", "numba", MemoryEngine), (relation, "hist", "polars", PolarsEngine),
        (good, "hist", "polars", PolarsEngine), (good, "hist", "duckdb", DuckDBMemoryEngine),
        (good, "exact", "numba", ExactEngine),
    ],
)  # fmt: skip
def test_auto_stays_in_the_database_and_takes_kernels_for_everything_else(data, tree_method, engine, expected):
    feature = Feature("x", FeatureType("float64"))
    made = open_engine(engine, data(), [feature], {"label": "y"}, Parameters(tree_method=tree_method))
    assert type(made) is expected
    assert made.n_rows == 36
    assert made.features == (feature,)
    made.close()


def test_the_documentation_of_fit_names_every_engine():
    documented = re.search(r"engine : {(.*)}, Dask or Spark, default 'auto'", fb.fit.__doc__)
    assert documented[1] == ", ".join(map(repr, ENGINES))


@pytest.mark.parametrize("tree_method", ["hist", "exact"])
def test_a_relation_is_read_into_memory_where_the_engine_needs_it(tree_method):
    options = {"tree_method": tree_method, "n_jobs": 2, **SHAPE}
    if tree_method == "hist":
        with pytest.raises(fb.ParameterError, match=r"^n_jobs is for engine='numba'; duckdb takes .* SET threads$"):
            fb.fit(relation(), "y", **options)
    options["engine"] = "numba"
    assert fb.fit(relation(), "y", **options) == fb.fit(good(), "y", **options)


@pytest.mark.slow
@cases(
    ("options", "message"),
    [
        ({"engine": name}, f"engine must be one of 'auto', 'numba', 'polars', 'duckdb', 'sql', not {name!r}")
        for name in ("spark", "DuckDB", "", None, ["numba"])
    ]
    + [
        ({"engine": "duckdb", "tree_method": "exact"}, "tree_method='exact' needs engine='numba', not 'duckdb'"),
        ({"engine": "polars", "tree_method": "exact"}, "tree_method='exact' needs engine='numba', not 'polars'"),
        ({"engine": "duckdb", "n_jobs": 2},
         "n_jobs is for engine='numba'; duckdb takes its number of threads from SET threads"),
        ({"engine": "polars", "n_jobs": 1},
         "n_jobs is for engine='numba'; polars takes its number of threads from the environment variable "
         "POLARS_MAX_THREADS"),
    ],
)  # fmt: skip
@cases("data", [good, relation])
def test_engines_refuse_unsupported_data_and_parameters(data, options, message):
    with pytest.raises(fb.ParameterError) as error:
        fb.fit(data(), "y", **options, **SHAPE)
    assert str(error.value) == message
