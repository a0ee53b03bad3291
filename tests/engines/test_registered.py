"""Engines of other packages: found by entry point, used in training, refused with a reason if something is wrong."""

import importlib
import re
import sys
from pathlib import Path

import duckdb
import polars as pl
import pytest

import frameboost as fb
from frameboost.engines import choose
from tests.support.frames import FEATURES_BY_TYPE, every_type

DOCUMENTED = (Path(__file__).parents[2] / "docs" / "engines.md").read_text(encoding="utf-8")
EXAMPLE = re.search(r"```python\n(.*?)```", DOCUMENTED, re.DOTALL)[1]
SHAPE = {"n_estimators": 3, "max_depth": 3, "verbose": False}
FRAME = pl.DataFrame({"x": [1.0, 2.0, 3.0, 4.0] * 9, "y": [0.0, 1.0, 0.0, 3.0] * 9})
MODULES = ("counting_engine", "broken_engine")


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Return a function that installs a package: its modules, and a dist-info with its entry points."""
    monkeypatch.syspath_prepend(tmp_path)

    def install(package: str, entry_points: dict[str, str], **modules: str) -> None:
        information = tmp_path / f"{package}-1.0.dist-info"
        information.mkdir()
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        lines = [f"{name} = {value}" for name, value in entry_points.items()]
        (information / "entry_points.txt").write_text("\n".join(["[frameboost.engines]", *lines, ""]))
        for name, text in modules.items():
            (tmp_path / f"{name}.py").write_text(text)
        importlib.invalidate_caches()

    yield install
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.fixture
def counting(install):
    """Install the engine that the documentation shows."""
    install("counting-engine", {"counting": "counting_engine:description"}, counting_engine=EXAMPLE)


def broken(install, module: str, value: str = "broken_engine:description") -> None:
    install("broken-engine", {"broken": value}, broken_engine=module)


def with_method(name: str, parameters: str, passed_on: str) -> str:
    """Return the example as an engine ``broken`` with a method of these parameters, which calls that of its base."""
    method = f"    def {name}(self, {parameters}): return super().{name}({passed_on})\n\n\n"
    return EXAMPLE.replace('"counting"', '"broken"').replace("def open_counting", f"{method}def open_counting")


def refusal(**options: object) -> str:
    with pytest.raises(fb.ParameterError) as error:
        fb.fit(FRAME, "y", **SHAPE | options)
    return str(error.value)


@pytest.mark.parametrize("more", [{}, {"grow_policy": "lossguide", "max_leaves": 6}, {"grow_policy": "symmetric"}])
@pytest.mark.usefixtures("counting")
def test_a_registered_engine_trains_the_built_in_ones_model(more):
    frame = every_type(200)
    options = SHAPE | more | {"features": list(FEATURES_BY_TYPE), "valid": every_type(50, seed=1)}
    model = fb.fit(frame, "amount", engine="counting", **options)
    calls = sys.modules["counting_engine"].CountingEngine.calls
    assert model.to_json() == fb.fit(frame, "amount", engine="numba", **options).to_json()
    # One call for the root and one for each further level whose nodes may be split; held-out rows are not asked.
    # Leaf by leaf, one call may serve the nodes of several levels.
    assert calls == 3 * 3 if more.get("grow_policy") != "lossguide" else calls > 3
    assert sys.modules["counting_engine"].CountingEngine.calls == calls


@pytest.mark.usefixtures("counting")
def test_what_a_registered_engine_lacks_is_refused():
    more = "needs one of the engines 'numba', 'polars', 'duckdb', not 'counting'"
    for lacking, says in (
        ({"tree_method": "exact"}, "tree_method='exact' needs engine='numba', not 'counting'"),
        ({"tree_method": "approx"}, f"tree_method='approx' {more}"),
        ({"tree_method": "approx", "proposal": "local"}, f"tree_method='approx' and proposal='local' {more}"),
    ):
        assert refusal(engine="counting", **lacking) == says


@pytest.mark.usefixtures("counting")
def test_an_unknown_name_is_told_of_the_registered_ones():
    assert refusal(engine="count") == (
        "engine must be one of 'auto', 'numba', 'polars', 'duckdb', 'sql', 'counting', not 'count'"
    )
    assert "counting_engine" not in sys.modules  # to list a name is not to import it


def test_a_built_in_engine_keeps_its_name(install):
    """A package that takes the name of a built-in engine changes nothing, and is not told of twice."""
    install("another-numba", {"numba": "broken_engine:description"}, broken_engine="raise RuntimeError")
    assert fb.fit(FRAME, "y", engine="numba", **SHAPE).n_trees == 3
    assert refusal(engine="nmba") == "engine must be one of 'auto', 'numba', 'polars', 'duckdb', 'sql', not 'nmba'"


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("import no_such_module", "can't be imported from 'broken_engine:description': ModuleNotFoundError: No module "
         "named 'no_such_module'"),
        ("1 / 0", "can't be imported from 'broken_engine:description': ZeroDivisionError: division by zero"),
        ("other = 1", "can't be imported from 'broken_engine:description': AttributeError: "
         "module 'broken_engine' has no attribute 'description'"),
        ("description = 3", "must register a frameboost.engines.contract.EngineDescription, but "
         "'broken_engine:description' is 3"),
        (EXAMPLE, "describes itself as 'counting'; both names must be the same"),
    ],
)  # fmt: skip
def test_an_entry_point_that_is_no_engine_is_named(install, module, message):
    broken(install, module)
    assert refusal(engine="broken") == f"engine 'broken' of the package 'broken-engine' {message}"


def test_an_engine_without_the_methods_is_refused(install):
    broken(install, EXAMPLE.replace('"counting"', '"broken"').replace("return CountingEngine(", "return list(("
                                                                      ).replace("workers)", "workers))"))  # fmt: skip
    assert refusal(engine="broken") == (
        "engine 'broken' opened a list, which lacks 'add_columns', 'add_leaf_values', 'aggregate', 'apply_splits', "
        "'bin_columns', 'by_score', 'close', 'compute_gradients', 'count_missing', 'features' and 8 more "
        "of frameboost.engines.contract.HistogramEngine"
    )


@pytest.mark.parametrize(
    ("parameters", "is_taken"),
    [
        ("nodes, out, indices", True),
        ("nodes, out, indices, more=None", True),
        ("*arguments, **named", True),
        ("nodes, out, places", False),  # by another name
        ("nodes, indices, out", False),  # in another order
        ("nodes, out, *, indices", False),  # not by position
        ("nodes, out", False),
        ("nodes, out, indices, more", False),
    ],
)
def test_an_engine_takes_the_parameters_of_its_contract(install, parameters, is_taken):
    passed_on = "*arguments" if "*arguments" in parameters else "nodes, out, indices"
    broken(install, with_method("histograms", parameters, passed_on))
    if is_taken:
        assert fb.fit(FRAME, "y", engine="broken", **SHAPE) == fb.fit(FRAME, "y", **SHAPE)
        return
    assert refusal(engine="broken") == (
        f"engine 'broken' opened a CountingEngine, whose histograms takes ({parameters}), not (nodes, out, indices) as "
        "frameboost.engines.contract.HistogramEngine says"
    )


def test_a_shard_takes_what_is_asked_of_it(install):
    broken(install, with_method("compute_gradients", "gradients, others", "gradients, others"))
    assert fb.fit(FRAME, "y", engine="broken", **SHAPE) == fb.fit(FRAME, "y", **SHAPE)
    assert refusal(engine="broken", shards=2) == (
        "engine 'broken' opened a CountingEngine, whose compute_gradients takes (gradients, others), not (gradients, "
        "others, offsets=None) as frameboost.engines.contract.ShardEngine says"
    )


def test_an_engine_may_take_one_kind_of_data_and_have_threads_of_its_own(install):
    arguments = '"broken", {HistogramEngine: open_counting}, data=("relation",), threads_set_by="the cluster"'
    broken(install, EXAMPLE.replace('"counting", {HistogramEngine: open_counting}', arguments))
    assert refusal(engine="broken") == "engine 'broken' trains on DuckDB relations, not on frames"
    relation = duckdb.connect().from_arrow(FRAME.to_arrow())
    with pytest.raises(fb.ParameterError) as error:
        fb.fit(relation, "y", engine="broken", n_jobs=2)
    assert str(error.value) == "n_jobs is for engine='numba'; broken takes its number of threads from the cluster"
    assert fb.fit(relation, "y", engine="broken", **SHAPE) == fb.fit(FRAME, "y", **SHAPE)


@pytest.mark.usefixtures("counting")
def test_one_name_of_two_packages_is_refused(install):
    install("another-engine", {"counting": "counting_engine:description"})
    assert refusal(engine="counting") == (
        "engine 'counting' is registered by several packages, 'another-engine', 'counting-engine'; keep one of them"
    )


def test_built_in_engines_need_no_scan_of_entry_points(monkeypatch):
    def scan(**_):
        raise AssertionError("entry points are scanned")

    monkeypatch.setattr(choose, "entry_points", scan)
    for engine in ("auto", "numba", "polars", "duckdb"):
        fb.fit(FRAME, "y", engine=engine, n_estimators=1)
    with pytest.raises(AssertionError, match="are scanned"):
        fb.fit(FRAME, "y", engine="other", n_estimators=1)
