"""Which fit a checkpoint is of: its arguments, and aggregates over its data that are exact in every engine."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from frameboost.binning.bins import Bins
from frameboost.checks.json_files import to_text
from frameboost.checks.messages import shortened, shown
from frameboost.engines.contract import Engine
from frameboost.ensemble.ensemble import Ensemble, Labels
from frameboost.ensemble.model_file import dump_model
from frameboost.errors import DataError, ParameterError
from frameboost.expressions.expression import Expression
from frameboost.expressions.grid import Aggregate, exact_sum
from frameboost.losses.loss import Loss
from frameboost.metrics.built_in import AnyMetric
from frameboost.parameters.parameters import Parameters
from frameboost.schema.types import Feature
from frameboost.training.data_checks import argument_of

__all__ = ["argument_facts", "check_arguments", "check_data", "data_facts"]

# Facts that are long, such as all cuts of a feature, are compared by their hash.
_HASH = "blake2b:"


def argument_facts(
    loss: Loss,
    parameters: Parameters,
    features: Sequence[Feature],
    roles: Mapping[str, str],
    metrics: Mapping[str, AnyMetric],
    init_model: Ensemble | None,
    labels: Labels = (),
) -> dict[str, Any]:
    """Return the arguments of a fit that decide on its model.

    ``n_estimators`` and ``early_stopping_rounds`` are left out: from the same rounds, another value of theirs leads to
    the model that an uninterrupted fit with that value has.

    Parameters
    ----------
    metrics
        The metrics by their column of the history.
    labels
        The labels of the classes.
    """
    columns: dict[str, Any] = {}
    for role, column in roles.items():
        if not role.startswith("init_"):  # names of no column of the user's
            columns.setdefault(argument_of(role), []).append(column)
    return {
        "objective": loss.name if loss.definition is None else dict(loss.definition),
        **({"labels": list(labels)} if any(isinstance(label, str) for label in labels) else {}),
        **{name: value for name, value in parameters.shaping().items() if name != "n_estimators"},
        "features": [feature.name for feature in features],
        **columns,
        "eval_metric": list(metrics),
        "SQL of eval_metric": {column: getattr(metric, "sql", metric.name) for column, metric in metrics.items()},
        "init_model": None if init_model is None else _hashed(dump_model(init_model)),
    }


def data_facts(
    engines: Mapping[str, Engine], loss: Loss, more_roles: Sequence[str], bins: Sequence[Bins], base: Sequence[float]
) -> dict[str, Any]:
    """Return aggregates over the rows of a fit, by which other data is told apart.

    Parameters
    ----------
    engines
        The engines by what they hold, such as ``training rows``, with their columns binned.
    loss
        The loss, whose labels and further columns are looked at.
    more_roles
        Further roles that hold numbers: weights, base margins.
    bins
        The bins of the features.
    base
        The base margins.
    """
    roles = [*loss.labels, *(role for role in loss.roles if role != "qid"), *more_roles]
    rows = {name: {"number": engine.n_rows} | _sums(engine, roles) for name, engine in engines.items()}
    features = {
        f"feature {b.feature.name!r}": {
            "type": b.feature.type.name,
            "categories": _hashed(to_text(b.feature.categories)),
            "cuts": _hashed(repr([cut + 0.0 if isinstance(cut, float) else cut for cut in b.cuts])),
        }
        for b in bins
    }
    return {**rows, **features, "base margins": list(base)}


def _sums(engine: Engine, roles: Sequence[str]) -> dict[str, Any]:
    """Return the least, the greatest and the sum of the finite values of some roles, and how many there are."""
    finite = {role: f"{role} - {role} = 0" for role in roles}  # bounds of times may be infinite or NULL
    present = {role: Expression(f"CASE WHEN {finite[role]} THEN {role} END", (role,)) for role in roles}
    ends = engine.aggregate({
        f"{function}_{role}": Aggregate(function, present[role]) for role in roles for function in ("min", "max")
    })  # fmt: skip
    terms = {}
    for role in roles:
        terms[f"sum_{role}"] = Expression(f"CASE WHEN {finite[role]} THEN {role} ELSE 0 END", (role,))
        terms[f"count_{role}"] = Expression(f"CASE WHEN {finite[role]} THEN 1 ELSE 0 END", (role,))
    sums = exact_sum(engine, terms)
    return {
        role: {
            "least": ends[f"min_{role}"], "greatest": ends[f"max_{role}"],
            "sum": sums[f"sum_{role}"] if math.isfinite(sums[f"sum_{role}"]) else None, "count": sums[f"count_{role}"],
        }
        for role in roles
    }  # fmt: skip


def _hashed(text: str) -> str:
    return _HASH + blake2b(text.encode(), digest_size=16).hexdigest()


# --- comparison -------------------------------------------------------------------------------------------------------


def check_arguments(path: str, saved: object, own: object) -> None:
    """Raise `ParameterError` that names the first argument that differs."""
    for what, there, here in _differences(saved, own):
        raise ParameterError(
            f"checkpoint {shown(path)} is of another fit: {_different(what, there, here)}; give the same arguments, or "
            "another checkpoint"
        )


def check_data(path: str, saved: object, own: object) -> None:
    """Raise `DataError` that names the first fact about the data that differs."""
    for what, there, here in _differences(saved, own):
        raise DataError(
            f"checkpoint {shown(path)} is of other data: {_different(what, there, here)}; give the same data, or "
            "another checkpoint"
        )


def _differences(saved: object, own: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, object, object]]:
    """Yield what differs between two objects of JSON, with its value in both."""
    if isinstance(saved, dict) and isinstance(own, dict):
        for key in [*own, *(key for key in saved if key not in own)]:
            yield from _differences(saved.get(key), own.get(key), (*path, key))
    elif saved != own:
        yield " of ".join(reversed(path)), saved, own


def _different(what: str, there: object, here: object) -> str:
    if any(isinstance(value, str) and value.startswith(_HASH) for value in (there, here)):
        return f"the {shortened(what)} differ"
    return f"{shortened(what)} is {shown(there)} in it, and now {shown(here)}"
