"""Write `frameboost.keywords`, what editors know of ``**``: ``python -m tests.support.keywords``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Set
from pathlib import Path

import frameboost as fb
from frameboost.parameters.parameters import ALIASES, FIT_ALIASES, Parameters

__all__ = ["FILE", "text"]

FILE = Path(fb.__file__).parent / "keywords.py"
# What is given in more forms than it is kept in.
WIDER = {
    "monotone_constraints": "Mapping[str, int] | Mapping[int, int] | Iterable[int] | str | None",
    "interaction_constraints": "Iterable[Iterable[str | int]] | str | None",
    "categorical_features": "Iterable[str | int | bool] | str | None",
    "learning_rates": "Iterable[float] | Callable[[int], float] | None",
    "feature_weights": "Mapping[str, float] | Iterable[float] | None",
    "learning_rate": "float | Iterable[float] | Callable[[int], float]",
    "quantile_alpha": "float | Iterable[float]",
    "expectile_alpha": "float | Iterable[float]",
    "base_score": 'float | Iterable[float] | Literal["zero"] | None',
}
HEAD = '''\
"""What the ``**`` arguments of `fit`, `cv`, `auto` and `plan` take, as editors and type checkers know it.

``python -m tests.support.keywords`` writes this file from `Parameters`, their aliases, and the signature of `fit`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypedDict

from frameboost.engines.dask.cluster import Dask
from frameboost.engines.spark.cluster import Spark
from frameboost.losses.custom import Objective
from frameboost.metrics.metric import Metric
from frameboost.model.model import Model
from frameboost.training.evaluation_log import Callback

__all__ = ["AutoOptions", "CvOptions", "PlanOptions", "TrainingParameters"]
'''


def text() -> str:
    """Return what the file is to hold."""
    declared = {name: each.replace("'", '"') for name, each in inspect.get_annotations(Parameters).items()}
    parameters = declared | WIDER
    for alias, name in ALIASES.items():
        if alias != "lambda":  # which is no keyword
            parameters[alias] = f"{parameters[name].removesuffix(' | None')} | None"
    of_fit = {name: each.annotation for name, each in inspect.signature(fb.fit).parameters.items()}
    parameters |= {alias: of_fit[name] for alias, name in FIT_ALIASES.items()}
    named = {name: kind for name, kind in of_fit.items() if name not in ("data", "target", "parameters")}
    everything = parameters | named
    no_several = {"valid", "init_model", "callbacks"}
    taken = {
        "CvOptions": everything.keys() - own(fb.cv) - no_several - {"checkpoint", "max_sql"},
        "AutoOptions": everything.keys() - own(fb.auto) - no_several - {"folds", "train_metrics", "max_sql"},
        "PlanOptions": everything.keys(),
    }
    common = set.intersection(*map(set, taken.values()))
    classes = [
        written("_Parameters", "TypedDict", "Parameters that all of them take.", parameters, common),
        written("TrainingParameters", "_Parameters", "Of `frameboost.fit`.", parameters, parameters.keys() - common),
        written("_Options", "_Parameters", "Arguments of `fit` that the others take.", named, common),
    ]
    for name, of_function in taken.items():
        what = f"Of `frameboost.{name.removesuffix('Options').lower()}`."
        classes.append(written(name, "_Options", what, everything, of_function - common))
    return "\n\n".join([HEAD, *classes])


def own(function: Callable[..., object]) -> set[str]:
    return set(inspect.signature(function).parameters)


def written(name: str, base: str, what: str, kinds: Mapping[str, str], taken: Set[str]) -> str:
    lines = [f"    {key}: {kinds[key]}" for key in kinds if key in taken]
    return "\n".join([f"class {name}({base}, total=False):", f'    """{what}"""', "", *lines, ""])


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
