"""Models of LightGBM: from its text to the same trees, which predict the same.

Differences to frameboost, and how each is translated:

- Splits are ``x <= t`` in float64, which is ``x < u`` with u the next float64 above t. LightGBM first replaces numbers
  within 1e-35 of 0 by 0.
- Each split has a missing type. NaN: NaN goes to the default side. None: NaN is replaced by 0.0. Zero: NaN and numbers
  within 1e-35 of 0 go to the default side.
- Categories are integers, and a split is a bit set: categories in the set go left, all others and NaN right.
- A linear leaf has a constant and slopes of the numbers as they are; a row that lacks one of them has the leaf's other
  value. Here numbers are rounded to 2^-22 of their range in training, and clipped some way outside of it.
- A random forest averages its trees; here each leaf is divided by the number of trees.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from frameboost.checks.json_fields import is_finite
from frameboost.checks.messages import shown
from frameboost.ensemble.ensemble import Ensemble
from frameboost.errors import ModelFileError, ParameterError
from frameboost.expressions.grid import bit_step
from frameboost.interop.ensemble_checks import category_codes, checked_ensemble, native_loss
from frameboost.interop.lightgbm.file import LightGBMFile, LightGBMTree, parse_lightgbm
from frameboost.interop.model_argument import bytes_of_file, comes_from, unreadable
from frameboost.interop.tree_builder import LeafNode, SplitNode, at_most, build_tree
from frameboost.losses.foreign import foreign_loss
from frameboost.losses.loss import Loss, margin_names
from frameboost.schema.feature import ZERO, Feature
from frameboost.schema.types import FeatureType
from frameboost.trees.linear_leaf import MAX_STEPS, MAX_TERMS, LinearLeaf, LinearTerm, may_have_slope
from frameboost.trees.tree import Tree

__all__ = ["read_lightgbm"]

_CATEGORICAL, _DEFAULT_LEFT = 1, 2
_WIDEST = 2.0**350  # range of a feature that linear leaves have slopes of
_RANGE = re.compile(r"\[([^:]+):([^:]+)\]")
_NONE, _ZERO, _NAN = 0, 1, 2

# Objectives of one output whose prediction is the margin itself, and which frameboost does not have.
_IDENTITIES = ("huber", "fair", "mape", "lambdarank", "rank_xendcg", "custom")
# Objectives that frameboost has too: its name, and its parameters by LightGBM's names.
_COUNTERPARTS: dict[str, tuple[str, dict[str, str]]] = {
    "regression": ("reg:squarederror", {}),
    "regression_l1": ("reg:absoluteerror", {}),
    "quantile": ("reg:quantileerror", {"quantile_alpha": "alpha"}),
    "poisson": ("count:poisson", {"max_delta_step": "poisson_max_delta_step"}),
    "gamma": ("reg:gamma", {}),
    "tweedie": ("reg:tweedie", {"tweedie_variance_power": "tweedie_variance_power"}),
    "cross_entropy": ("reg:logistic", {}),
}
# Other names of objectives that LightGBM takes in a file, as in its parameters.
_ALIASES = {
    alias: name
    for name, aliases in {
        "regression": (
            "regression_l2", "l2", "mean_squared_error", "mse", "l2_root", "root_mean_squared_error", "rmse",
        ),
        "regression_l1": ("l1", "mean_absolute_error", "mae"),
        "mape": ("mean_absolute_percentage_error",),
        "multiclass": ("softmax",),
        "multiclassova": ("multiclass_ova", "ova", "ovr"),
        "cross_entropy": ("xentropy",),
        "cross_entropy_lambda": ("xentlambda",),
        "rank_xendcg": ("xendcg", "xe_ndcg", "xe_ndcg_mart", "xendcg_mart"),
        "custom": ("none", "null", "na"),
    }.items()
    for alias in aliases
}  # fmt: skip
_DEFAULTS = {"alpha": 0.9, "poisson_max_delta_step": 0.7, "tweedie_variance_power": 1.5}
# ln(1 + e^margin) without loss of digits where e^margin is small: ln(1 + u) u / ((1 + u) - 1) (Kahan).
_U = "EXP(-ABS(margin))"
_SOFT_PLUS = f"GREATEST(margin, 0) + CASE WHEN 1 + {_U} = 1 THEN {_U} ELSE LN(1 + {_U}) * {_U} / ((1 + {_U}) - 1) END"


def read_lightgbm(model: Any) -> Ensemble:
    """Return a model of LightGBM's as an ensemble that predicts the same (see `frameboost.from_lightgbm`)."""
    file = parse_lightgbm(_text(model))
    columns = _columns(file)
    terms = _terms(file, columns)
    share = len(file.trees) // file.n_outputs if file.is_average else 1
    trees = [
        _tree(tree, columns, terms, share, number % file.n_outputs, f"damaged LightGBM model, tree {number}")
        for number, tree in enumerate(file.trees)
    ]
    loss, parameters = _loss(file)
    features = [column.feature for column in columns]
    labels = getattr(model, "classes_", None)  # of an estimator; the file has none
    return checked_ensemble(loss, parameters, features, (0.0,) * file.n_outputs, trees, labels)


def _text(model: Any) -> bytes:
    if (data := bytes_of_file(model, "lightgbm")) is not None:
        return data
    is_booster = hasattr(model, "model_to_string")
    if not comes_from(model, "lightgbm") or isinstance(model, type) or not (is_booster or hasattr(model, "fit")):
        raise unreadable(model, "a Booster or an estimator of LightGBM's, or a file of one")
    if not is_booster and not model.__sklearn_is_fitted__():
        raise ParameterError(f"the {type(model).__name__} is not fitted")
    booster = model if is_booster else model.booster_
    return str(booster.model_to_string()).encode()


# --- columns ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _LightGBMColumn:
    """A feature; ``codes`` maps LightGBM's category numbers to positions in `Feature.categories`."""

    feature: Feature
    codes: Mapping[int, int]


def _columns(file: LightGBMFile) -> list[_LightGBMColumn]:
    asked: list[set[int]] = [set() for _ in file.names]  # missing types of the splits; -1 for a split by category
    named: list[set[int]] = [set() for _ in file.names]
    for number, tree in enumerate(file.trees):
        for f, kind, threshold in zip(tree.split_feature, tree.decision_type, tree.threshold, strict=True):
            asked[f].add(-1 if kind & _CATEGORICAL else kind >> 2 & 3)
            if kind & _CATEGORICAL:
                if threshold not in range(len(tree.sets)):
                    raise ModelFileError(f"damaged LightGBM model, tree {number}: it lacks a set of categories")
                named[f].update(tree.sets[int(threshold)])
    declared = _declared_categorical(file)
    lists = _pandas_categories(file, declared)
    columns = []
    for f, name in enumerate(file.names):
        if -1 in asked[f] and len(asked[f]) > 1:
            raise ModelFileError(f"damaged LightGBM model: feature {shown(name)} is split by order and by category")
        if f in lists:
            columns.append(_pandas_column(name, lists[f], named[f]))
        elif -1 in asked[f] or (f in declared and not asked[f]):
            codes = tuple(sorted(named[f]))
            feature = Feature(name, FeatureType("codes"), codes)
            columns.append(_LightGBMColumn(feature, {code: index for index, code in enumerate(codes)}))
        else:
            columns.append(
                _LightGBMColumn(Feature(name, FeatureType("float64"), zero_is_missing=_ZERO in asked[f]), {})
            )
    return columns


def _declared_categorical(file: LightGBMFile) -> list[int]:
    """Return the numbers of the features that were declared categorical."""
    given = file.parameters.get("categorical_feature")
    if given is not None and all(re.fullmatch(r"[0-9]{0,9}", part) for part in given.split(",")):
        return sorted({int(part) for part in given.split(",") if part and int(part) < len(file.names)})
    # feature_infos has ``[min:max]`` for a number, and the categories for a categorical feature.
    return [f for f, info in enumerate(file.infos) if info != "none" and not info.startswith("[")]


def _pandas_categories(file: LightGBMFile, declared: Sequence[int]) -> dict[int, list[Any]]:
    """Return the pandas categories by feature; the file has the lists, in order, without the features' names."""
    if not file.pandas_categories:
        return {}
    if len(file.pandas_categories) != len(declared):
        raise ParameterError(
            f"the LightGBM model has {len(file.pandas_categories)} columns of pandas categories and {len(declared)} "
            "categorical features, and can't say which is which; train it with all of them as unordered categories"
        )
    return dict(zip(declared, file.pandas_categories, strict=True))


def _pandas_column(name: str, values: list[Any], named: set[int]) -> _LightGBMColumn:
    if any(code >= len(values) for code in named):
        raise ModelFileError(f"damaged LightGBM model: a split names a category that {shown(name)} does not have")
    feature, indices = category_codes(values, name)
    return _LightGBMColumn(feature, dict(enumerate(indices)))


# --- trees ------------------------------------------------------------------------------------------------------------


def _terms(file: LightGBMFile, columns: Sequence[_LightGBMColumn]) -> dict[int, LinearTerm]:
    """Return the grid of each feature that leaves have slopes of, as a term of slope 1 (see `linear_leaf`).

    It has the numbers of training, and as many beside them.
    """
    terms = {}
    for f in sorted({f for tree in file.trees for _, slopes in tree.linear for f in slopes}):
        feature, span = columns[f].feature, _RANGE.fullmatch(file.infos[f])
        if span is None or not may_have_slope(feature):
            raise ParameterError(
                f"the LightGBM model has linear leaves (linear_tree) over feature {shown(feature.name)}, whose range "
                "it does not tell"
            )
        try:
            low, high = map(float, span.groups())
        except ValueError:
            low = high = math.nan
        if not is_finite(high - low) or high - low > _WIDEST:
            raise ModelFileError(f"damaged LightGBM model: feature_infos of {shown(feature.name)} is no range")
        # A step for which both the numbers and the centre of the grid have few enough steps.
        step = bit_step(max(high - low, max(abs(low), abs(high)) * 2.0**-29, 1 / _WIDEST), MAX_STEPS.bit_length() - 1)
        most = MAX_STEPS * step
        terms[f] = LinearTerm(f, 1.0, step, round((low / 2 + high / 2) / step) * step, -most, most)
    return terms


def _linear_leaf(
    constant: float, slopes: Mapping[int, float], terms: Mapping[int, LinearTerm], share: int
) -> LinearLeaf:
    if len(slopes) > MAX_TERMS:
        raise ParameterError(
            f"the LightGBM model has linear leaves (linear_tree) over {len(slopes)} features, and at most {MAX_TERMS} "
            "can be had here; train it with fewer leaves, or a max_depth"
        )
    own = tuple(terms[f]._replace(slope=slope / share) for f, slope in slopes.items())
    return LinearLeaf((constant + sum(slope * terms[f].centre for f, slope in slopes.items())) / share, own)


def _tree(
    tree: LightGBMTree, columns: Sequence[_LightGBMColumn], terms: Mapping[int, LinearTerm], share: int, output: int,
    where: str,
) -> Tree:  # fmt: skip
    def leaf(number: int) -> LeafNode:
        value, linear = tree.leaf_value[number], None
        if tree.linear:
            constant, slopes = tree.linear[number]
            if slopes:
                linear = _linear_leaf(constant, slopes, terms, share)
            else:
                value = constant
        return LeafNode(value / share, tree.leaf_count[number], linear)

    def look_up(number: int) -> SplitNode | LeafNode:
        question: dict[str, Any] | bool = True
        while number >= 0:
            question = _question(tree, number, columns[tree.split_feature[number]], where)
            if not isinstance(question, bool):
                break
            number = (tree.left_child if question else tree.right_child)[number]
        if isinstance(question, bool):
            return leaf(~number)
        return SplitNode(
            tree.split_feature[number], tree.left_child[number], tree.right_child[number], **question,
            gain=tree.split_gain[number], cover=tree.internal_count[number],
            value=tree.internal_value[number] / share,
        )  # fmt: skip

    return build_tree(0 if tree.split_feature else -1, look_up, output)


def _question(tree: LightGBMTree, number: int, column: _LightGBMColumn, where: str) -> dict[str, Any] | bool:
    """Return the fields of a `SplitNode`, or the side (True: left) that all rows go to."""
    kind, threshold = tree.decision_type[number], tree.threshold[number]
    if kind & _CATEGORICAL:
        codes = tuple(sorted(column.codes[code] for code in tree.sets[int(threshold)]))
        return {"categories": codes} if codes else False
    missing = kind >> 2 & 3
    if missing not in (_NONE, _ZERO, _NAN):
        raise ModelFileError(f"{where}: decision_type {kind} has an unknown kind of missing values")
    missing_left = threshold >= 0.0 if missing == _NONE else bool(kind & _DEFAULT_LEFT)
    # If another split of the feature treats zeros as missing, zeros must go with NaN here too.
    if column.feature.zero_is_missing and missing != _ZERO and (threshold >= 0.0) != missing_left:
        raise ParameterError(
            f"feature {shown(column.feature.name)} of the LightGBM model has zeros that are missing in some splits only"
        )
    # LightGBM has replaced numbers within 1e-35 of 0 by 0 before it compares.
    bound = threshold if abs(threshold) > ZERO else ZERO if threshold >= 0.0 else math.nextafter(-ZERO, -math.inf)
    return at_most(bound, missing_left=missing_left)


# --- the objective ----------------------------------------------------------------------------------------------------


def _loss(file: LightGBMFile) -> tuple[Loss, dict[str, Any]]:
    """Return the loss and the parameters that it takes."""
    name, *options = file.objective.split() or ["custom"]
    name = _ALIASES.get(name, name)
    given = dict(option.partition(":")[::2] for option in options)
    n = file.n_outputs
    margins = margin_names(n)
    if name == "custom":
        return foreign_loss("lightgbm:custom", margins), {}
    if name in ("multiclass", "multiclassova"):
        if given.get("num_class") != str(n) or n < 2:
            raise ModelFileError(f"damaged LightGBM model: {shown(file.objective)} does not go with {n} trees a round")
        if name == "multiclass":
            return native_loss("multi:softprob", {"num_class": n})
        links = [_sigmoid(_number(given, "sigmoid", 1.0), margin) for margin in margins]
        return foreign_loss("lightgbm:multiclassova", links, classes=n), {}
    if n > 1:
        raise ModelFileError(f"damaged LightGBM model: {shown(file.objective)} does not go with {n} trees a round")
    if name == "binary":
        steepness = _number(given, "sigmoid", 1.0)
        if steepness == 1.0:
            return native_loss("binary:logistic", {})
        return foreign_loss("lightgbm:binary", [_sigmoid(steepness, "margin")], classes=2), {}
    if "sqrt" in given:
        return foreign_loss(f"lightgbm:{name} sqrt", ["SIGN(margin) * margin * margin"]), {}
    if name == "cross_entropy_lambda":
        return foreign_loss("lightgbm:cross_entropy_lambda", [_SOFT_PLUS]), {}
    if name in _IDENTITIES:
        return foreign_loss(f"lightgbm:{name}", margins), {}
    if name not in _COUNTERPARTS:
        raise ParameterError(f"the LightGBM model has the objective {shown(name)}, which is not known here")
    counterpart, taken = _COUNTERPARTS[name]
    return native_loss(counterpart, {ours: _number(file.parameters, theirs, _DEFAULTS[theirs])
                              for ours, theirs in taken.items()})  # fmt: skip


def _sigmoid(steepness: float, margin: str) -> str:
    return f"1 / (1 + EXP(-{steepness!r} * {margin}))"


def _number(given: Mapping[str, str], name: str, default: float) -> float:
    try:
        value = float(given.get(name, default))
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise ModelFileError(
            f"damaged LightGBM model: {name} must be a number greater than 0, not {shown(given[name])}"
        )
    return value
