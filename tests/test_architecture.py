"""The package is read top-down: imports point one way."""

import ast
import re
import subprocess
import sys
import tomllib
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.support import naive_kernels
from tests.support.package import MODULES, PACKAGE, ROOT

# From the public face down; a module may import from its own package, and from those below it.
LAYERS = [
    "__main__", "cli", "frameboost", "namespace", "report", "plots", "sklearn", "tuning", "cross_validation", "api",
    "keywords", "fold_models", "planning", "loading", "model", "evaluation", "database", "prediction", "interop",
    "compile", "training", "metrics", "engines", "splits", "ensemble", "losses", "parameters", "trees", "binning",
    "joins", "data", "dialects", "runtime", "expressions", "schema", "checks", "errors", "version",
]  # fmt: skip
# What needs more than the package depends on: a distribution that is the extra of that name.
OPTIONAL = {
    **{name: {"sklearn"} for name in MODULES if name.startswith("frameboost.sklearn")},
    **{name: {"altair"} for name in MODULES if name.startswith("frameboost.plots")},
    **{name: {"altair", "vl_convert"} for name in MODULES if name.startswith("frameboost.report")},
    "frameboost.metrics.functions": {"sklearn"},
    "frameboost.database.udf": {"pyarrow"},
    "frameboost.database.dbt_project": {"yaml"},
    "frameboost.cli": {"shtab"},
    "frameboost.cli.screen": {"rich"},
    "frameboost.prediction.contributions": {"shap"},
    "frameboost.interop.catboost": {"clickhouse_cityhash"},
    "frameboost.data.dask_source": {"dask"},
    "frameboost.engines.dask.cluster": {"dask", "distributed"},
    "frameboost.engines.dask.pool": {"dask", "distributed"},
    "frameboost.engines.dask.worker": {"dask", "distributed"},
    "frameboost.data.spark_source": {"pyarrow", "pyspark"},
    "frameboost.engines.spark.cluster": {"distributed", "pyarrow", "pyspark"},
    "frameboost.engines.spark.job": {"distributed", "pyarrow", "pyspark"},
    "frameboost.engines.spark.task": {"distributed", "pyarrow", "pyspark"},
}
DISTRIBUTIONS = {
    "altair": ("plots", "altair"),
    "vl_convert": ("report", "vl-convert-python"),
    "rich": ("cli", "rich"),
    "shtab": ("cli", "shtab"),
    "shap": ("shap", "shap"),
    "sklearn": ("sklearn", "scikit-learn"),
    "pyarrow": ("arrow", "pyarrow"),
    "yaml": ("dbt", "pyyaml"),
    "dask": ("dask", "distributed"),
    "distributed": ("dask", "distributed"),
    "pyspark": ("spark", "pyspark"),
    "clickhouse_cityhash": ("catboost", "clickhouse-cityhash"),
}  # of a module: the extra, and the distribution


def layer(module: str) -> int:
    return LAYERS.index(module.split(".")[1] if "." in module else module)


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imported(path: Path) -> set[str]:
    """Return the modules that a file imports, at its top or within functions, by a statement or by name."""
    found = set()
    for node in ast.walk(parsed(path)):
        called = getattr(node, "func", None)
        if getattr(called, "attr", getattr(called, "id", None)) in ("import_module", "__import__"):
            assert isinstance(node.args[0], ast.Constant), f"{path}: import of a name that is not known before it runs"
            found.add(node.args[0].value)
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (names & set(MODULES)) or {node.module}
    return found


def ours(path: Path) -> set[str]:
    return {name for name in imported(path) if name.partition(".")[0] == "frameboost"}


@pytest.mark.slow
def test_imports_point_down():
    up = [
        f"{name} imports {other}"
        for name, path in MODULES.items()
        for other in ours(path)
        if layer(other) < layer(name)
    ]
    assert up == []


@pytest.mark.slow
def test_no_imports_go_round():
    # Python itself lets modules of one package import each other.
    TopologicalSorter({name: ours(path) - {name} for name, path in MODULES.items()}).prepare()


# Of engines all that other packages may know; clusters are public.
OPEN_TO_ALL = {
    f"frameboost.engines.{name}" for name in ("contract", "choose", "programs", "dask.cluster", "spark.cluster")
}


@pytest.mark.slow
def test_no_engine_is_known_outside_engines():
    known = {
        f"{name} imports {other}"
        for name, path in MODULES.items()
        if not name.startswith("frameboost.engines")
        for other in ours(path)
        if other.startswith("frameboost.engines.") and other not in OPEN_TO_ALL
    }
    assert known == set()


@pytest.mark.slow
def test_every_kernel_has_a_plain_twin():
    kernels = {
        node.name
        for path in MODULES.values()
        for node in parsed(path).body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
        and any(ast.unparse(each).partition("(")[0] == "kernel" for each in node.decorator_list)
    }  # fmt: skip
    twins = {name.removeprefix("naive_") for name in naive_kernels.__all__ if name.startswith("naive_")}
    assert not twins & set(naive_kernels.TESTED_OTHERWISE)
    assert kernels == twins | set(naive_kernels.TESTED_OTHERWISE)
    assert all((ROOT / file).is_file() for file in naive_kernels.TESTED_OTHERWISE.values())


@pytest.mark.slow
def test_kernels_need_no_scipy():
    # Numba takes products of matrices and solvers from SciPy, which the package doesn't require.
    for name, path in MODULES.items():
        for kernel in parsed(path).body:
            if isinstance(kernel, ast.FunctionDef) and any("kernel" in ast.unparse(d) for d in kernel.decorator_list):
                nodes = list(ast.walk(kernel))
                called = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
                assert not called & {"convolve", "correlate", "dot", "linalg", "roots", "vdot"}, (name, kernel.name)
                assert not any(isinstance(node, ast.MatMult) for node in nodes), (name, kernel.name)


def test_kernels_are_compiled_in_one_way():
    # Numba's own decorators let an error of the cache's disk out of a fit.
    for name, path in MODULES.items():
        assert name == "frameboost.runtime.kernel" or not re.search(r"\b(n?jit|vectorize)\b", path.read_text("utf-8"))


@pytest.mark.slow
def test_engines_are_told_apart_in_one_place():
    engines = {"polars", "duckdb", "numba"}
    for name, path in MODULES.items():
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Compare) and name != "frameboost.engines.choose":
                compared = {c.value for c in ast.walk(node) if isinstance(c, ast.Constant) and isinstance(c.value, str)}
                assert not compared & engines, f"{name}:{node.lineno}"


_AT_IMPORT = """
import sys
before = set(sys.modules)
import frameboost
heavy = {"pandas", "pyarrow", "sklearn", "xgboost", "lightgbm", "matplotlib", "IPython", "tqdm", "altair",
         "vl_convert", "numba", "llvmlite", "sqlglot"}
print(sorted(heavy & set(sys.modules)))
assert frameboost.fit and "fit" in dir(frameboost)
of_package = set(sys.modules)
import frameboost.cli
added = {name.partition(".")[0] for name in set(sys.modules) - of_package} - set(sys.stdlib_module_names)
print(sorted(added - {"frameboost", "polars"}))
from frameboost import *
print("sklearn" in sys.modules)
import numba
from importlib import import_module
kernels = [f for name in sys.argv[1:] for f in vars(import_module(name)).values()
           if isinstance(f, numba.core.registry.CPUDispatcher)]
print(len(kernels) > 8, [k.__name__ for k in kernels if k.signatures])
"""


def test_packages_list_what_is_in_them():
    for folder in {path.parent for path in MODULES.values()} - {PACKAGE}:
        contents = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
        listed = {
            name for line in re.findall(r"^- (.*?):", contents, re.MULTILINE) for name in re.findall(r"`(\w+)`", line)
        }
        there = {path.stem for path in folder.glob("*.py")} | {
            path.parent.name for path in folder.glob("*/__init__.py")
        }
        assert listed == there - {"__init__"}, folder


@pytest.mark.slow
def test_importing_is_light_and_compiles_nothing():
    kernels = [name for name, path in MODULES.items() if "frameboost.runtime.kernel" in imported(path)]
    done = subprocess.run(
        [sys.executable, "-c", _AT_IMPORT, *kernels], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n[]\nFalse\nTrue []\n"


@pytest.mark.slow
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
            assert distribution in {requirement.split(">")[0] for requirement in requirements}
    # llvmlite is numba's other half: which version there is is numba's choice.
    assert used - set(sys.stdlib_module_names) - {"frameboost", "llvmlite"} == declared


def test_the_architecture_draws_the_layers_from_the_top_down():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    drawing = re.search(r"```\n(.*?)```", page, re.DOTALL).group(1)
    rows = re.findall(r"^\|  (\w+(?: \w+)*)", drawing, re.MULTILINE)
    assert [layer for row in rows for layer in row.split()] == LAYERS
