"""The plan of a fit: all decisions before work starts, with their reasons."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from frameboost.binning.given_cuts import bins_from_cuts
from frameboost.checks.messages import counted, listed, shown
from frameboost.data.database_table import DatabaseTable
from frameboost.data.feature_columns import categorical_names, weights_by_name
from frameboost.data.held_out import HeldOut, count_missing, deals_groups, held_out_sources, is_splitter
from frameboost.data.opening import open_source
from frameboost.data.sources import Source
from frameboost.data.spark_source import SparkSource
from frameboost.engines.choose import choose_engine
from frameboost.engines.contract import EngineDescription, HistogramEngine, VectorEngine, data_kind
from frameboost.engines.dask.cluster import Dask
from frameboost.engines.spark.cluster import Spark
from frameboost.ensemble.ensemble import Ensemble, Labels
from frameboost.errors import DataError, ParameterError
from frameboost.losses.built_in import ALPHAS, LOSSES, OTHER_NAMES, adjusted, get_loss
from frameboost.losses.custom import Objective, with_function
from frameboost.losses.loss import family_of
from frameboost.losses.transforms import is_smeared
from frameboost.metrics.metric import is_of_queries, metrics_of
from frameboost.model.continuation import with_margins
from frameboost.model.model import Model
from frameboost.parameters.parameters import Parameters, constraints_by_name, rate_of, under_our_names, with_rates
from frameboost.runtime.interrupts import defer_signals
from frameboost.runtime.workers import require_numba
from frameboost.schema.types import Feature, FeatureType
from frameboost.training.data_checks import (
    TrainingTarget,
    as_categories,
    find_roles,
    labelled_columns,
    pick_features,
    read_target,
    with_group,
)
from frameboost.training.open_nodes import Constraints

if TYPE_CHECKING:
    from frameboost.training.train import TreeMethod

__all__ = ["FitPlan", "plan_fit", "read_once"]

_Added = Mapping[str, Any]  # the arguments that name an offset, by their names


@dataclass(frozen=True)
class FitPlan:
    """All decisions before the rows of a fit are read.

    Attributes
    ----------
    data
        The opened data.
    source, held_out
        The training rows, and the held-out sets by name, with classes as numbers.
    target
        The columns to predict.
    objective
        The objective: the user's, or the default for the target's type.
    labels
        The labels of the classes.
    roles
        The columns by role: ``label``, ``weight``, ``qid``, ...
    features
        The columns to predict from, with their types.
    settings
        The parameters, with the defaults that depend on the objective.
    method
        The tree method: how splits are proposed and searched.
    engine
        The engine that computes the histograms.
    initial
        The ensemble to continue from.
    offset
        The names of the offset columns, by argument.
    cuts
        The user's cuts, by column.
    folds
        The number of folds, the column or the positions that tell them, or a splitter of scikit-learn, if each fold is
        held out from a fit of its own.
    groups
        The column whose rows of one value are in one fold: of a ranking the queries.
    may_be_classes
        Whether the target was taken as numeric by default, to warn if its values are 0 and 1.
    stratified
        Whether the folds are stratified by class.
    """

    data: Any
    source: Source
    held_out: Mapping[str, Source]
    target: tuple[str, ...]
    objective: str | Objective
    labels: Labels
    roles: Mapping[str, str]
    features: tuple[Feature, ...]
    settings: Parameters
    method: TreeMethod
    engine: EngineDescription
    initial: Ensemble | None
    offset: _Added
    cuts: Mapping[str, Iterable[Any]]
    folds: Any
    groups: str | None
    may_be_classes: bool
    stratified: bool = False

    def of_part(
        self, training: Any, held_out: Any = None, settings: Mapping[str, Any] = MappingProxyType({})
    ) -> FitPlan:
        """Return the plan for a part of the rows, with another part held out and with other parameters."""
        from frameboost.training.train import choose_tree_method

        others = {} if held_out is None else {"valid": open_source(held_out)}
        parameters = replace(self.settings, **settings)
        return replace(
            self, source=open_source(training), held_out=others, settings=parameters,
            method=choose_tree_method(parameters), folds=None, may_be_classes=False,
        )  # fmt: skip

    @property
    def is_smeared(self) -> bool:
        """Whether predictions are smeared by the errors of the fit (see `frameboost.losses.transforms`)."""
        return self.settings.target_transform is not None and is_smeared(self.objective, self.settings.smearing)

    @property
    def is_of_function(self) -> bool:
        """Whether the objective is a Python function over arrays."""
        return isinstance(self.objective, Objective) and self.objective.is_function

    @property
    def chooses_threshold(self) -> bool:
        """Whether the classification threshold is chosen after training."""
        return not isinstance(self.settings.threshold, float | None)

    def __str__(self) -> str:
        settings, defaults = self.settings.as_dict(), _for_objective(self.objective, Parameters()).as_dict()
        kinds = Counter(str(feature.type) for feature in self.features)
        objective = self.objective if isinstance(self.objective, str) else "an objective of your own"
        more = "" if self.initial is None else f" after {counted(self.initial.n_rounds, 'round')} of init_model"
        lines = {
            "target": f"{listed(self.target)}, {objective}",
            "labels": listed(self.labels),
            "features": f"{len(self.features):,}: {', '.join(f'{n:,} {kind}' for kind, n in kinds.items())}",
            "roles": ", ".join(f"{role} {shown(name)}" for role, name in self.roles.items() if "label" not in role),
            "rows": data_kind(self.source) + (f", {listed(self.held_out)} held out" if self.held_out else ""),
            "leaves": self._leaves(),
            "scans": self._scans(),
            "folds": "" if self.folds is None else shown(self.folds),
            "together": "" if self.groups is None else f"rows of one {shown(self.groups)}",
            "engine": ", ".join(filter(None, (self.engine.name, self.engine.summary))),
            "splits": f"{self.method.setting}: {self.method.summary}",
            "rounds": f"{settings.pop('n_estimators'):,}{more}",
            "parameters": ", ".join(f"{k}={shown(v)}" for k, v in settings.items() if v != defaults[k]),
        }
        width = max(map(len, lines))
        return "\n".join(f"{name:{width}}  {text}" for name, text in lines.items() if text)

    def _leaves(self) -> str:
        """Return what leaves the database in this fit; nothing for data outside of one."""
        if not isinstance(self.source, DatabaseTable):
            return ""
        table = f"{shown(self.source.name)} of {self.source.dialect.name}"
        if self.engine.name == "sql":
            made = "temporary tables" if self.source.scratch is None else f"tables in {shown(self.source.scratch)}"
            return f"{table}: cuts, and sums by bin; {made} are made there, and dropped"
        what = "the numbers of its bins" if self.method.contract in (HistogramEngine, VectorEngine) else "its values"
        names = listed(dict.fromkeys(self.roles.values()))
        return f"{table}: of each row {what}, {names}; and the cuts"

    def _scans(self) -> str:
        """Return how much of a database table this fit reads, at 8 bytes a number, as BigQuery bills it."""
        if not isinstance(self.source, DatabaseTable):
            return ""
        types, roles = self.source.types(), list(dict.fromkeys(self.roles.values()))
        are_binned = self.method.contract in (HistogramEngine, VectorEngine)
        times = dict.fromkeys(roles, 2 if are_binned else 1)
        times |= dict.fromkeys((f.name for f in self.features), 3 if are_binned else 1)
        are_text = [name for name in times if (kind := types[name]) is not None and kind.is_categorical]
        n_bytes = sum(8 * n for name, n in times.items() if name not in are_text)
        how_often = "features three times, other columns twice" if are_binned else "each column once"
        strings = f", and the characters of {listed(are_text)}" if are_text else ""
        levels = "; for each level of a tree, the codes of all rows" if self.engine.name == "sql" else ""
        return f"{how_often}: {n_bytes:,} bytes of a row{strings}{levels}"


def plan_fit(
    data: Any, target: str | Sequence[str], *, objective: Any, positive: str | None, features: Any,
    exclude: Any, weight: str | None, base_margin: str | Sequence[str] | None, exposure: str | None,
    label_upper_bound: str | None, group: str | None, valid: Any, folds: Any, stratified: bool,
    time: str | None, eval_metric: Any, init_model: Model | None, engine: str | Dask | Spark, shards: int | None,
    cuts: Mapping[str, Iterable[Any]] | None, parameters: Mapping[str, Any],
) -> FitPlan:  # fmt: skip
    """Decide all that can be decided without reading the rows; the arguments are those of `frameboost.fit`.

    Raises
    ------
    ParameterError, DataError
        As `frameboost.fit`.
    """
    require_numba("fit")
    with defer_signals():  # numba cannot be imported again after Ctrl-C has interrupted its import
        from frameboost.training.train import choose_tree_method
    objective, parameters = _under_our_name(objective, parameters)
    parameters = with_rates(constraints_by_name(under_our_names(parameters), _in_order(features, init_model)))
    settings = _settings(objective, parameters, has_held_out=valid is not None or folds is not None)
    method = choose_tree_method(settings)
    cuts = {name: read_once(values) for name, values in cuts.items()} if isinstance(cuts, Mapping) else cuts
    method.check_cuts(cuts)
    initial, features, added = _continued(init_model, features, {"base_margin": base_margin, "exposure": exposure})
    if folds is None:
        opened: Source = open_source(data, clusters=True, types=_known_types(initial, target))
    else:
        if isinstance(data, DatabaseTable) and group is not None:
            data.check_apart("group", group)
        opened = open_source(data)
    source, held_out = held_out_sources(opened, valid, time, group, settings.seed)
    description = choose_engine(engine, source, method.contract, method.setting, settings.n_jobs, shards)
    if isinstance(objective, Objective) and objective.is_function:
        description.check_arrays(f"objective {shown(objective.name)}")
    if settings.lambdarank_pair_method == "mean" and not description.has_arrays:
        raise ParameterError(
            f"lambdarank_pair_method='mean' draws pairs of rows in memory, and engine {shown(description.name)} has "
            "none there; use 'topk', or an engine of this machine, such as 'numba'"
        )
    margins: dict[str, str] = {}
    if initial is not None:
        held_out = {key: HeldOut(with_margins(part.source, initial)[0]) for key, part in held_out.items()}
        source, names = with_margins(source, initial)
        margins = {f"init_{margin}": name for margin, name in zip(initial.loss.margins, names, strict=True)}
    roles = find_roles(source, target, weight, added["base_margin"], label_upper_bound, added["exposure"])
    roles = with_group(source, roles | margins, group)
    chosen = pick_features(source, features, roles, folds if valid is None else valid, exclude)
    if initial is not None or settings.categorical_features is not None or settings.feature_weights is not None:
        chosen, settings = _told_of_features(chosen, settings, initial)
    Constraints.of(settings, chosen)  # raises before any work starts, as the next line does
    if cuts:
        bins_from_cuts(cuts, chosen, [0] * len(chosen))
    goal = read_target(opened, source, held_out, target, objective, settings.num_class, initial, positive)
    if stratified:
        _check_stratified(goal.objective, folds, target, group)
    if group is not None and not _is_of_queries(goal.objective, eval_metric):
        roles = _dealt_by_group(opened, group, roles, goal.objective, valid, folds)
    parts = {key: part.like(goal.source, chosen, roles, key) for key, part in goal.held_out.items()}
    return FitPlan(
        opened, goal.source, parts, (target,) if isinstance(target, str) else tuple(target), goal.objective,
        goal.labels, roles, chosen, _for_target(goal, settings), method, description, initial, added, cuts or {}, folds,
        group, objective is None, stratified,
    )  # fmt: skip


def _in_order(features: object, init_model: Model | None) -> list[str] | None:
    """Return the features in the user's order or that of ``init_model``; None without either."""
    if features is None and isinstance(init_model, Model):
        return init_model.features
    if isinstance(features, list | tuple) and all(isinstance(name, str) for name in features):
        return list(features)
    return None


def _told_of_features(
    features: tuple[Feature, ...], settings: Parameters, initial: Ensemble | None
) -> tuple[tuple[Feature, ...], Parameters]:
    """Return the features, with categorical ones marked, and the parameters that refer to features by name.

    Categories and the learning rates of rounds are inherited from ``initial``.
    """
    all_names = [each.name for each in features]
    names = categorical_names(settings.categorical_features, all_names)
    if initial is not None:
        names += [each.name for each in initial.features if each.type.name.startswith("category(")]
    if initial is not None and settings.learning_rates is not None:
        earlier = [rate_of(initial.parameters, round_) for round_ in range(initial.n_rounds)]
        settings = replace(settings, learning_rates=(*earlier, *settings.learning_rates))
    weights = weights_by_name(settings.feature_weights, all_names)
    settings = replace(settings, categorical_features=list(dict.fromkeys(names)), feature_weights=weights)
    return as_categories(features, names), settings


def _is_of_queries(objective: str | Objective, eval_metric: Any) -> bool:
    """Whether the objective or a metric needs the query of each row."""
    metrics = [] if eval_metric is None else metrics_of(eval_metric)
    return family_of(objective) == "rank" or any(map(is_of_queries, metrics))


def _dealt_by_group(
    source: Source, group: str, roles: Mapping[str, str], objective: str | Objective, valid: Any, folds: Any
) -> dict[str, str]:
    """Return the roles without the query: the column only keeps rows together when rows are held out.

    Raises
    ------
    ParameterError
        If no rows are held out by it.
    DataError
        If a row has no group.
    """
    if not (deals_groups(source, valid) if folds is None else isinstance(folds, int) or is_splitter(folds)):
        raise ParameterError(
            "group is for the rank:* objectives, for the metrics ndcg, map and pre, and to keep rows of one value "
            "together where folds is a number or valid a share, such as folds=5 or valid=0.2; objective "
            f"{shown(objective)} does not use it"
        )
    if folds is None and not isinstance(source, SparkSource) and (n_missing := count_missing(source, group)):
        raise DataError(f"group {shown(group)} is NULL or NaN in {n_missing:,} rows; set a group in every row")
    return {role: name for role, name in roles.items() if role != "qid"}


def _check_stratified(objective: str | Objective, folds: Any, target: str | Sequence[str], group: str | None) -> None:
    """Raise `ParameterError` if folds can't be stratified by class."""
    if group is not None:
        raise ParameterError("group can't be combined with stratified=True: rows of one value stay in one fold")
    if not isinstance(folds, int):
        column = "column " if isinstance(folds, str) else ""
        what = "there are none" if folds is None else f"{column}{shown(folds)} assigns the rows"
        raise ParameterError(f"stratified needs a number of folds, such as folds=5, and {what}")
    name = objective if isinstance(objective, str) else ""
    if not name.startswith(("binary:", "multi:")) or not isinstance(target, str):
        raise ParameterError(f"stratified is for one target of classes, not for objective {shown(objective)}")


def read_once(value: Any) -> Any:
    """Return a value that several fits can read: one-time iterables, such as generators, as lists."""
    return list(value) if isinstance(value, Iterator) else value


def _known_types(initial: Ensemble | None, target: str | Sequence[str]) -> dict[str, FeatureType]:
    return {} if initial is None else {col.name: col.type for col in labelled_columns(initial, target)}


def _continued(model: object, features: Any, added: _Added) -> tuple[Ensemble | None, Any, _Added]:
    """Return the ensemble of ``init_model`` or None, with the features and the offset, by default the ensemble's."""
    if model is None:
        return None, features, added
    if not isinstance(model, Model):
        way = "; read its file with fb.load(path)" if isinstance(model, str | os.PathLike) else ""
        raise ParameterError(f"init_model must be a Model, not {shown(model)}{way}")
    own: dict[str, Any] = {**dict.fromkeys(added), **model.offset}
    for name, given in added.items():
        if given is not None and given != own[name] and given != [own[name]]:
            recorded = f"was trained with {model.ensemble.offset}" if model.offset else "has no offset"
            raise ParameterError(
                f"{name} can't be combined with an init_model that {recorded}: the new trees start from its margins"
            )
    return model.ensemble, model.features if features is None else features, own


def _under_our_name(objective: Any, parameters: Mapping[str, Any]) -> tuple[Any, Mapping[str, Any]]:
    """Return the objective for a name of LightGBM or scikit-learn; it may read ``alpha``."""
    if not isinstance(objective, str) or objective not in OTHER_NAMES:
        return objective if isinstance(objective, str | None) else with_function(objective), parameters
    names = {"alpha": ALPHAS[objective]} if objective in ALPHAS else {}
    return OTHER_NAMES[objective], {names.get(name, name): value for name, value in parameters.items()}


def _settings(objective: object, keywords: Mapping[str, Any], *, has_held_out: bool) -> Parameters:
    """Return the parameters under frameboost's names, checked as far as possible without the data."""
    settings = Parameters.from_keywords(dict(keywords))
    if settings.early_stopping_rounds is not None and not has_held_out:
        raise ParameterError("early_stopping_rounds needs held-out rows; pass them as valid=..., or folds=5")
    if objective is None:
        return settings
    if not isinstance(objective, Objective) and (not isinstance(objective, str) or objective not in LOSSES):
        get_loss(objective, {})  # type: ignore[arg-type]  # which says what there is
    return _for_objective(objective, settings)  # type: ignore[arg-type]


def _for_target(goal: TrainingTarget, settings: Parameters) -> Parameters:
    return _for_objective(goal.objective, replace(settings, num_class=goal.num_class))


def _for_objective(objective: str | Objective, settings: Parameters) -> Parameters:
    """Return the parameters with the defaults of the objective, checked against it."""
    if settings.max_delta_step is None:
        settings = replace(settings, max_delta_step=0.7 if objective == "count:poisson" else 0.0)
    if family_of(objective) != "multi" and settings.num_class is not None:
        raise ParameterError("num_class is for objectives 'multi:softmax' and 'multi:softprob'")
    known = settings.as_dict()
    if isinstance(settings.base_score, tuple):  # one per output; the target determines their number
        known["base_score"] = None
    if family_of(objective) == "multi":
        like = get_loss("multi:softprob", {"num_class": 2})
        adjusted(like, known | {"class_weight": None})  # factors are those of all classes
        return settings
    adjusted(objective.loss() if isinstance(objective, Objective) else get_loss(objective, known), known)
    return settings
