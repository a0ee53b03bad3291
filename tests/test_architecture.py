"""The package is read top-down: imports point one way, kernels stand alone, files and functions stay small."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "frameboost"
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}

# From the public face down; a module may import what stands below it, or beside it in its own group.
LAYERS = [
    ["__main__"],
    ["cli"],
    ["cli.convert", "cli.score", "cli.show", "cli.sql", "cli.train"],
    ["cli.arguments"],
    ["frameboost"],
    ["namespace", "sklearn"],
    ["estimator"],
    ["cross_validation"],
    ["api"],
    ["interop.open_model"],
    ["interop.catboost", "interop.lightgbm", "interop.sklearn", "interop.xgboost"],
    ["continuing"],
    ["model"],
    ["calibration", "labelled", "refitting"],
    ["explaining_model", "exporting_model"],
    ["sql_scorer"],
    ["functions", "interop.xgboost_writer", "udf"],
    ["scorer"],
    ["drift", "explain", "inspect", "model_file", "partial_dependence"],
    ["ranking_checks", "tree_file", "validation"],
    ["boosting", "checks", "engines.choose"],
    ["dart", "symmetric"],
    ["growing", "log", "sampling", "starting"],
    ["proposals"],
    ["splitting"],
    ["constraints", "histograms"],
    ["nodes"],
    ["engines.numba_approx", "engines.polars_approx", "engines.sql_approx"],
    ["engines.exact", "engines.held_out", "engines.numba", "engines.polars", "engines.sql"],
    ["engines.ranked", "engines.row_partition"],
    ["engines.arrays", "engines.sql_binning", "engines.sql_histograms", "engines.sql_nodes"],
    ["engines.programs"],
    ["engines.sql_cells", "engines.sql_rows", "engines.sql_widths"],
    ["categorical", "engines.frame"],
    ["engines.frame_queries", "engines.session", "engines.sql_queries", "metrics", "scoring", "terms"],
    ["ranking_metrics"],
    ["metric"],
    ["sources", "tables"],
    ["predicates"],
    ["engines.contract"],
    ["engines.node_bins", "gradients"],
    ["compile.contributions", "compile.explain_sql", "compile.forms", "sql_header"],
    ["compile.bit_vectors", "compile.drift_sql", "compile.tree_table"],
    ["compile.feature_groups", "compile.leaf_words", "compile.scoring_sql"],
    ["compile.batch_scorer", "compile.deep_trees"],
    ["compile.byte_trees"],
    ["compile.arrays", "compile.feature_codes", "compile.polars", "compile.sql"],
    ["compile.constant_rows", "compile.sql_columns", "compile.stages"],
    ["array_binning"],
    ["columns", "given_cuts", "interop.xgboost_features", "interop.xgboost_objectives", "outputs"],
    ["dialects.known"],
    ["dialects.duckdb", "dialects.sqlite"],
    ["dialects.dialect"],
    ["dialects.limits"],
    ["sql_text"],
    ["interop.catboost_columns", "interop.catboost_loss", "interop.lightgbm_file"],
    ["interop.given", "interop.parts"],
    ["foreign_loss", "losses", "objective"],
    ["aft", "interop.xgboost_trees", "ranking"],
    ["binning", "expectations", "interop.xgboost_document", "leaf_grid", "loss", "parameters"],
    ["interop.catboost_hash", "interop.float32", "interop.ubjson", "query_terms"],
    ["constraint_values", "expressions", "json_checks", "parameter_fields", "schema", "tree"],
    ["expression_trees"],
    ["compile", "dialects", "engines", "interop"],
    ["dbt"],
    ["arguments"],
    ["closing", "draws", "errors", "files", "grid", "interrupts", "parallel", "polars_names", "progress", "spelling",
     "sql_files", "types"],
    ["messages"],
    ["compile.batch_kernels"],
    ["binning_kernels", "compile.byte_kernels", "compile.predict_kernels", "compile.shap_kernels",
     "engines.exact_kernels", "engines.gradient_kernels", "engines.histogram_kernels", "engines.partition_kernels",
     "engines.program_kernels", "engines.ranking_kernels", "engines.proposal_kernels", "calibration_kernels",
     "split_kernels", "symmetric_kernels"],
    ["category_kernels", "team_kernels"],
    ["engines.intrinsics", "gain", "team_intrinsics"],
    ["kernel"],
]  # fmt: skip
DEPTH = {
    "frameboost" if name == "frameboost" else f"frameboost.{name}": depth
    for depth, names in enumerate(LAYERS)
    for name in names
}
# What needs more than the package depends on: a distribution that is the extra of that name.
OPTIONAL = {
    "frameboost.sklearn.estimator": {"sklearn"},
    "frameboost.sklearn": {"sklearn"},
    "frameboost.model.udf": {"pyarrow"},
    "frameboost.interop.catboost.category_hash": {"clickhouse_cityhash"},
}
DISTRIBUTIONS = {
    "sklearn": ("sklearn", "scikit-learn"),
    "pyarrow": ("arrow", "pyarrow"),
    "clickhouse_cityhash": ("catboost", "clickhouse-cityhash"),
}  # of a module: the extra, and the distribution
INTRINSICS = {"frameboost.runtime.intrinsics", "frameboost.runtime.team_intrinsics"}
KERNELS = {"frameboost.splits.gain", "frameboost.runtime.kernel", *INTRINSICS} | {
    name for name in MODULES if name.endswith("_kernels")
}


def imported(path: Path, *, only_top: bool = False) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = tree.body if only_top else ast.walk(tree)
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module)
    return found


def test_every_module_has_its_layer():
    assert set(DEPTH) == set(MODULES)


@pytest.mark.parametrize("name", MODULES)
def test_imports_only_point_down(name):
    for other in imported(MODULES[name]):
        if other.partition(".")[0] == "frameboost":
            assert DEPTH[other] > DEPTH[name], f"{name} imports {other}, which stands no lower"


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_kernels_import_nothing_but_numpy_and_numba(name):
    numba = {"numba.core", "numba.extending", "llvmlite", "typing"} if name in INTRINSICS else set()
    if name == "frameboost.runtime.kernel":
        numba = {"numba.core.caching", "numba.core.dispatcher", "numba.core.sigutils"}
        numba |= {"collections.abc", "functools", "typing", "warnings"}
    assert imported(MODULES[name]) <= {"__future__", "numpy", "numba"} | KERNELS | numba


@pytest.mark.parametrize("name", MODULES)
def test_kernels_are_compiled_in_one_way(name):
    # Numba's own decorators let an error of the cache's disk out of a fit.
    assert name == "frameboost.runtime.kernel" or not re.search(
        r"\b(n?jit|vectorize)\b", MODULES[name].read_text("utf-8")
    )


@pytest.mark.parametrize("name", MODULES)
def test_engines_are_told_apart_in_one_place(name):
    engines = {"polars", "duckdb", "numba"}
    for node in ast.walk(ast.parse(MODULES[name].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Compare):
            compared = {c.value for c in ast.walk(node) if isinstance(c, ast.Constant) and isinstance(c.value, str)}
            assert not compared & engines or name == "frameboost.engines.choose"


@pytest.mark.parametrize("name", MODULES)
def test_files_and_functions_stay_small(name):
    text = MODULES[name].read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 400
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            documented = ast.get_docstring(node) is not None
            start = node.body[1 if documented and len(node.body) > 1 else 0].lineno
            assert node.end_lineno - start < 55, f"{name}.{node.name}"


_AT_IMPORT = """
import sys
before = set(sys.modules)
import frameboost
heavy = {"pandas", "pyarrow", "sklearn", "xgboost", "lightgbm", "matplotlib", "IPython", "tqdm",
         "numba", "llvmlite", "sqlglot"}
print(sorted(heavy & set(sys.modules)))
assert frameboost.fit and "fit" in dir(frameboost)
from frameboost.training import calibration_kernels
from frameboost.splits import category_kernels
from frameboost.splits import gain
from frameboost.splits import kernels as split_kernels
from frameboost.splits import symmetric_kernels
from frameboost.engines.memory import exact_kernels
from frameboost.engines.memory import histogram_kernels
from frameboost.engines.memory import partition_kernels
from frameboost.engines.memory import ranking_kernels
from frameboost.compile.arrays.flat_trees import predict_kernels
from frameboost.compile.arrays.flat_trees import shap_kernels
import numba
kernels = [f for m in (split_kernels, gain, exact_kernels, histogram_kernels, partition_kernels, ranking_kernels,
                       predict_kernels, shap_kernels, calibration_kernels, category_kernels, symmetric_kernels)
           for f in vars(m).values() if isinstance(f, numba.core.registry.CPUDispatcher)]
print(len(kernels) > 8, [k.__name__ for k in kernels if k.signatures])
"""


def test_importing_is_light_and_compiles_nothing():
    done = subprocess.run([sys.executable, "-c", _AT_IMPORT], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\nTrue []\n"


def test_dependencies_are_those_that_are_imported():
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    declared = {requirement.split(">")[0] for requirement in project["dependencies"]}
    used = set()
    for name, path in MODULES.items():
        others = {module.partition(".")[0] for module in imported(path)}
        used |= others - OPTIONAL.get(name, set())
        for extra in others & OPTIONAL.get(name, set()):
            named, distribution = DISTRIBUTIONS[extra]
            requirements = project["optional-dependencies"][named]
            assert [requirement.split(">")[0] for requirement in requirements] == [distribution]
    # llvmlite is numba's other half: which version there is is numba's choice.
    assert used - set(sys.stdlib_module_names) - {"frameboost", "llvmlite"} == declared


def test_what_is_optional_is_imported_when_it_is_asked_for():
    everything = "import sys, frameboost as fb; from frameboost import *; fb.fit; print('sklearn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", everything], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
