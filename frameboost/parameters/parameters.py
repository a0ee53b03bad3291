"""The training parameters: one source for their names, defaults, ranges, documentation and validation.

Names, defaults and meanings are XGBoost's, in scikit-learn's spelling. First comes what declares a parameter and checks
its value, then `Parameters`, then the names that XGBoost and LightGBM have for them.

Of these names the first table has exact equivalents only: XGBoost's parameters, the keywords of its estimators, and
LightGBM's parameters with their aliases. A value is passed on as it is, but None is the default, -1 or 0 threads are
all cores, and a depth of -1 has no limit. LightGBM's and scikit-learn's names of `max_leaves` also set how these
libraries grow such trees: leaf by leaf, and without a limit of depth by default. The second table has names of things
that work in another way here; each is refused with a sentence, but for the values of the third, which are how it is
here anyway. LightGBM's ways of boosting stand for several parameters each.
"""

from __future__ import annotations

import json
import math
import numbers
import re
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from decimal import Decimal
from functools import cache, partial
from itertools import combinations
from typing import Any, Literal

import numpy as np

from frameboost.checks.arguments import is_among, is_iterable
from frameboost.checks.messages import counted, did_you_mean, listed, shown
from frameboost.errors import ParameterError

__all__ = [
    "ALIASES",
    "DIFFERENT",
    "FIT_ALIASES",
    "Parameters",
    "category_columns",
    "checked",
    "constraints_by_name",
    "declared",
    "interaction_sets",
    "levels",
    "markdown_table",
    "monotone_directions",
    "parameter_table",
    "rate_of",
    "rates_of_rounds",
    "shrinkage_of",
    "under_our_names",
    "values_text",
    "weights_of_features",
    "with_rates",
]


def declared(default: Any, doc: str, *, low: float | None = None, above: float | None = None,
               high: float | None = None, below: float | None = None, symbol: str = "", engines: str = "all",
               shapes_model: bool = True, kind: str = "",
               read: Callable[[object], Any] | None = None) -> Any:  # fmt: skip
    """Declare a parameter: its default, its documentation, its range (``above`` and ``below`` are exclusive).

    For a parameter that is no scalar, ``kind`` describes its values, and ``read`` checks a value and returns it as in
    the model file, of dicts and lists.
    """
    metadata = {
        "doc": doc,
        "low": low,
        "above": above,
        "high": high,
        "below": below,
        "symbol": symbol,
        "engines": engines,
        "shapes_model": shapes_model,
        "kind": kind,
        "read": read,
    }
    return field(default=default, metadata=metadata)


def checked(item: Field[Any], hint: Any, value: Any) -> Any:
    """Return ``value`` in the parameter's type, or raise `ParameterError`."""
    if item.metadata["read"] is not None:
        return item.metadata["read"](value)
    if typing.get_origin(hint) is Literal:
        choices = typing.get_args(hint)
        if not isinstance(value, str) or value not in choices:
            raise ParameterError(
                f"{item.name} must be one of {listed(choices, None)}, not {shown(value)}{did_you_mean(value, choices)}"
            )
        return str(value)
    if hint is bool:
        if not isinstance(value, bool | np.bool_):
            raise ParameterError(f"{item.name} must be True or False, not {shown(value)}")
        return bool(value)
    options = typing.get_args(hint) or (hint,)
    if value is None and type(None) in options:
        return None
    kind = int if int in options else float
    number = _as_number(value, kind)
    low, above, high, below = (item.metadata[key] for key in ("low", "above", "high", "below"))
    outside = number is None or (
        (low is not None and number < low)
        or (above is not None and number <= above)
        or (high is not None and number > high)
        or (below is not None and number >= below)
    )
    if outside:
        what = "an integer" if kind is int else "a finite number"
        raise ParameterError(f"{item.name} must be {what}{_range_text(item)}, not {shown(value)}")
    return number


def _as_number(value: Any, kind: type) -> int | float | None:
    """Return ``value`` (numpy's scalars too) as an int or a finite float, or None if it isn't one."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real | Decimal):
        return None
    try:
        if kind is int:
            whole = int(typing.cast("float", value))
            return whole if whole == value else None
        number = float(value) + 0.0  # turns -0.0 into 0.0, so that equal models have equal files
    except (ValueError, OverflowError):  # NaN and infinities, and integers beyond any float
        return None
    return number if math.isfinite(number) else None


def _range_text(item: Field[Any]) -> str:
    """Return a parameter's range in words, such as `` of at least 0``."""
    low, above, high, below = (item.metadata[key] for key in ("low", "above", "high", "below"))
    parts = []
    if low is not None:
        parts.append(f" of at least {_number(low)}")
    if above is not None:
        parts.append(f" greater than {_number(above)}")
    if high is not None:
        parts.append(f"{' and' if parts else ' of'} at most {_number(high)}")
    if below is not None:
        parts.append(f"{' and' if parts else ''} less than {_number(below)}")
    return "".join(parts)


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) and value >= 1_000_000 else f"{value:g}"


def values_text(item: Field[Any], hint: Any) -> str:
    """Return the accepted values of a parameter as text."""
    if item.metadata["kind"]:
        return str(item.metadata["kind"])
    options = typing.get_args(hint) or (hint,)
    if typing.get_origin(hint) is Literal:
        return "{" + ", ".join(map(repr, options)) + "}"
    number = f"{options[0].__name__}{_range_text(item)}"
    return f"{number}{',' if _range_text(item) else ''} or None" if type(None) in options else number


# --- parameters that are no scalars -----------------------------------------------------------------------------------

# Whether the data has the columns that constraints name is checked in `frameboost.training.open_nodes`.


def constraints_by_name(parameters: Mapping[str, Any], names: Sequence[str] | None) -> dict[str, Any]:
    """Return parameters with the positions of columns in constraints replaced by names.

    ``monotone_constraints`` may be a direction for each column, ``(1, 0, -1)`` or ``"(1,0,-1)"``, or a dict by
    position; ``interaction_constraints`` may be sets of positions, ``[[0, 1], [2]]`` or its text, or scikit-learn's
    ``"pairwise"`` or ``"no_interactions"``.

    Parameters
    ----------
    parameters
        Parameters by frameboost's names.
    names
        The columns in order; None if they have no order.

    Raises
    ------
    ParameterError
        If a position is out of range, the number of directions differs from that of columns, or columns have no order.

    Examples
    --------
    >>> constraints_by_name({"monotone_constraints": "(1,0,-1)"}, ["a", "b", "c"])
    {'monotone_constraints': {'a': 1, 'b': 0, 'c': -1}}
    >>> constraints_by_name({"interaction_constraints": [[0, "c"]]}, ["a", "b", "c"])
    {'interaction_constraints': [['a', 'c']]}
    """
    named = dict(parameters)
    for parameter, resolved in (("monotone_constraints", _directions), ("interaction_constraints", _sets)):
        value = _from_text(named.get(parameter))
        if value == "pairwise" if isinstance(value, str) else is_iterable(value):
            named[parameter] = resolved(value, partial(_ordered, parameter, names))
    return named


_Order = Callable[[], Sequence[str]]  # the columns in their order, or the error that they have none


def _directions(value: Any, order: _Order) -> dict[str, Any]:
    if isinstance(value, Mapping):
        named = {_name_of("monotone_constraints", key, order): direction for key, direction in value.items()}
        if len(named) < len(value):
            raise ParameterError("monotone_constraints has a column by its name and by its position; list it once")
        return named
    directions, columns = list(value), order()
    if len(directions) != len(columns):
        has = counted(len(directions), "direction")
        raise ParameterError(f"monotone_constraints has {has} for {counted(len(columns), 'column')}; set one for each")
    return dict(zip(columns, directions, strict=True))


def _sets(value: Any, order: _Order) -> list[Any]:
    if isinstance(value, str):
        return list(combinations(order(), 2))
    return [
        [_name_of("interaction_constraints", member, order) for member in members]
        if is_iterable(members) and not isinstance(members, str | bytes | Mapping)
        else members
        for members in value
    ]


def _from_text(value: Any) -> Any:
    """Return the list that a text in XGBoost's notation of constraints stands for; anything else unchanged."""
    if not isinstance(value, str):
        return value
    if value == "no_interactions":
        return []
    try:
        items = json.loads(re.sub(r"^\s*\((.*?),?\s*\)\s*$", r"[\1]", value))
    except ValueError:
        return value
    return items if isinstance(items, list) else value


def _ordered(parameter: str, names: Sequence[str] | None) -> Sequence[str]:
    if names is None:
        raise ParameterError(f"{parameter} counts columns, which have no order here; name them, or pass features=[...]")
    return names


def _name_of(parameter: str, key: Any, order: _Order) -> Any:
    """Return the name of a column, which may be referred to by position."""
    if not isinstance(key, int | np.integer) or isinstance(key, bool):
        return key
    columns = order()
    if not 0 <= key < len(columns):
        raise ParameterError(f"{parameter} names column {key}, and there are {len(columns):,}, from 0")
    return columns[int(key)]


def monotone_directions(value: object) -> dict[str, int] | None:
    """Return the directions other than 0 by column name, sorted by name; None if there are none.

    Raises
    ------
    ParameterError
        If ``value`` is not a dict of column name to -1, 0 or 1.
    """
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise ParameterError(
            "monotone_constraints must be a dict of column name to -1, 0 or 1, such as {'age': 1}, or a direction for "
            f"each column, "
            f"not {shown(value)}"
        )
    directions = {}
    for name, direction in value.items():
        if not isinstance(name, str):
            raise ParameterError(f"monotone_constraints must name columns, not {shown(name)}")
        is_number = isinstance(direction, numbers.Real) and not isinstance(direction, bool)
        if not is_number or direction not in (-1, 0, 1):
            raise ParameterError(f"monotone_constraints[{shown(name)}] must be -1, 0 or 1, not {shown(direction)}")
        if direction:
            directions[str(name)] = int(direction)
    return dict(sorted(directions.items())) or None


def interaction_sets(value: object) -> list[list[str]] | None:
    """Return the sets sorted, without duplicates; in an empty list every column interacts with none.

    Raises
    ------
    ParameterError
        If ``value`` is not a list of lists of column names.
    """
    if value is None:
        return None
    sets = set()
    for members in _members(value, value):
        names = set()
        for name in _members(value, members):
            if not isinstance(name, str):
                raise ParameterError(f"interaction_constraints must name columns, not {shown(name)}")
            names.add(str(name))
        if not names:
            raise ParameterError("interaction_constraints holds an empty set; each must name at least one column")
        sets.add(tuple(sorted(names)))
    return [list(names) for names in sorted(sets)]


_BY_TYPE = ("from_dtype", "auto")  # scikit-learn's word, and LightGBM's, for what is the default here


def category_columns(value: object) -> list[str] | list[int] | list[bool] | None:
    """Return the columns of ``categorical_features``: names, positions or a Boolean for each feature; None for none.

    Examples
    --------
    >>> category_columns(["day", "day"]), category_columns((2, 0)), category_columns([False, True])
    (['day'], [2, 0], [False, True])
    >>> category_columns("name:day,hour"), category_columns("0,2")  # LightGBM's
    (['day', 'hour'], [0, 2])

    Raises
    ------
    ParameterError
        If ``value`` is none of these.
    """
    if value is None or (isinstance(value, str) and value in _BY_TYPE):
        return None
    if isinstance(value, str) and value.startswith("name:"):
        value = value.removeprefix("name:").split(",")
    elif isinstance(value, str) and re.fullmatch(r"\d+(,\d+)*", value):
        value = [int(position) for position in value.split(",")]
    elif isinstance(value, numbers.Integral) and not isinstance(value, bool | np.bool_):  # LightGBM's, of one column
        value = [value]
    if not isinstance(value, str | bytes | Mapping) and is_iterable(value):
        items = list(value)
        if all(isinstance(item, str) for item in items):
            return list(dict.fromkeys(map(str, items))) or None
        if all(isinstance(item, bool | np.bool_) for item in items):
            return [bool(item) for item in items]
        if all(isinstance(item, numbers.Integral) and not isinstance(item, bool | np.bool_) for item in items):
            return list(dict.fromkeys(map(int, items)))
    raise ParameterError(
        "categorical_features must be a list of column names, of positions or of Booleans, such as ['day', 'hour'], "
        f"not {shown(value)}"
    )


# XGBoost's names of the types of features: of categories, and of numbers.
_CATEGORY, _NUMBERS = "c", ("q", "int", "float", "i")


def _are_categories(types: object) -> object:
    """Return XGBoost's ``feature_types``, such as ``["q", "c"]``, as a Boolean for each feature."""
    if types is None or isinstance(types, str) or not is_iterable(types):
        return types
    names = list(types)
    unknown = [name for name in names if name not in (_CATEGORY, *_NUMBERS)]
    if unknown:
        raise ParameterError(
            f"feature_types must be a list of {listed((*_NUMBERS, _CATEGORY), None)}, one for each feature, not with "
            f"{shown(unknown[0])}"
        )
    return [name == _CATEGORY for name in names]


def rates_of_rounds(value: object) -> tuple[float, ...] | None:
    """Return the rates of ``learning_rates``."""
    if value is None:
        return None
    values = list(value) if is_iterable(value) and not isinstance(value, str | bytes | Mapping) else []
    rates = [_as_number(rate, float) for rate in values]
    inside = [float(rate) for rate in rates if rate is not None and 0 < rate <= 1]
    if not values or len(inside) < len(values):
        wrong = next((v for v, rate in zip(values, rates, strict=True) if rate is None or not 0 < rate <= 1), value)
        raise ParameterError(
            "learning_rates must be a number greater than 0 and at most 1 for each round, or a function of the round, "
            f"not {shown(wrong)}"
        )
    return tuple(inside)


def weights_of_features(value: object) -> dict[str, float] | list[float] | None:
    """Return the weights of ``feature_weights``, by column name or one for each feature; None if there are none.

    Raises
    ------
    ParameterError
        If ``value`` is not a dict or list of numbers of at least 0, or no number is positive.
    """
    if value is None:
        return None
    items = dict(value) if isinstance(value, Mapping) else value
    if isinstance(items, np.ndarray) and items.size == max(items.shape, default=0):  # a column or a row, as of XGBoost
        items = items.ravel()
    weights: dict[Any, Any] = {}
    if isinstance(items, dict):
        weights = items
    elif is_iterable(items) and not isinstance(items, str | bytes):
        weights = dict(enumerate(items))
    numbers_ = {key: _as_number(weight, float) for key, weight in weights.items()}
    wrong = next((weights[key] for key, number in numbers_.items() if number is None or number < 0), None)
    if not weights or wrong is not None or not any(numbers_.values()):
        raise ParameterError(
            "feature_weights must be a dict of column name to a number of at least 0, or a list with one for each "
            f"feature, and one of them positive, not {shown(value if wrong is None else wrong)}"
        )
    found = {key: float(number) for key, number in numbers_.items() if number is not None}
    return {str(key): number for key, number in found.items()} if isinstance(items, dict) else list(found.values())


def with_rates(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters with learning rates from a function or a list as numbers.

    >>> with_rates({"learning_rate": lambda round_: 0.5 ** (round_ + 1), "n_estimators": 3})
    {'n_estimators': 3, 'learning_rates': [0.5, 0.25, 0.125]}
    """
    named = dict(parameters)
    rate = named.get("learning_rate")
    if callable(rate) or (is_iterable(rate) and not isinstance(rate, str | bytes)):
        if named.get("learning_rates") is not None:
            raise ParameterError("learning_rate and learning_rates both set a rate for each round; set one of them")
        named["learning_rates"] = named.pop("learning_rate")
    if callable(rates := named.get("learning_rates")):
        n_rounds = named.get("n_estimators", Parameters.__dataclass_fields__["n_estimators"].default)
        known = isinstance(n_rounds, int | np.integer) and 0 < n_rounds <= _MAX_INTEGER  # otherwise an error says so
        named["learning_rates"] = [rates(round_) for round_ in range(int(n_rounds) if known else 1)]
    return named


def start_scores(value: object) -> float | tuple[float, ...] | Literal["zero"] | None:
    """Return the number of ``base_score``, or the numbers for several outputs.

    >>> start_scores([0.5]), start_scores((1, 2)), start_scores("zero")
    (0.5, (1.0, 2.0), 'zero')
    """
    if value is None or (isinstance(value, str) and value == "zero"):
        return value  # type: ignore[return-value]
    is_list = is_iterable(value) and not isinstance(value, str | bytes | Mapping)
    scores = [_as_number(score, float) for score in (typing.cast("Sequence[Any]", value) if is_list else [value])]
    known = tuple(float(score) for score in scores if score is not None)
    if not known or len(known) < len(scores):
        raise ParameterError(
            f"base_score must be a finite number, a list with one for each output, 'zero' or None, not {shown(value)}"
        )
    return known if len(known) > 1 else known[0]


def levels(name: str, value: object) -> tuple[float, ...]:
    """Return the levels of a parameter, ``quantile_alpha`` or ``expectile_alpha``, one or several."""
    values = list(value) if is_iterable(value) and not isinstance(value, str | bytes) else [value]
    alphas = [_as_number(alpha, float) for alpha in values]
    inside = [float(alpha) for alpha in alphas if alpha is not None and 0 < alpha < 1]
    if not values or len(inside) < len(values) or inside != sorted(set(inside)):
        raise ParameterError(
            f"{name} must be a number between 0 and 1, or several in ascending order, not {shown(value)}"
        )
    return tuple(inside)


def class_weights(value: object) -> dict[Any, float] | tuple[float, ...] | str | None:
    """Return class weights by label or by index, or the rule for them."""
    if value is None or (isinstance(value, str) and value == "balanced"):
        return value
    is_list = is_iterable(value) and not isinstance(value, str | bytes | Mapping)
    items: Any = (
        value.items()
        if isinstance(value, Mapping)
        else enumerate(typing.cast("Sequence[Any]", value) if is_list else ())
    )
    factors = {label: _as_number(factor, float) for label, factor in items}
    known = {label: float(factor) for label, factor in factors.items() if factor is not None and factor >= 0}
    if not factors or len(known) < len(factors):
        raise ParameterError(
            "class_weight must be a dict of label to a factor of 0 or more, 'balanced' or None, not " + shown(value)
        )
    return known if isinstance(value, Mapping) else tuple(known.values())


_COSTS = ("false_positive", "false_negative")


def threshold_or_rule(value: object) -> float | dict[str, float] | str | None:
    """Return a threshold, or the rule to choose it."""
    if value is None or (isinstance(value, str) and value == "f1"):
        return value
    if isinstance(value, Mapping):
        items = {name: _as_number(number, float) for name, number in value.items()}
        known = {str(name): float(number) for name, number in items.items() if number is not None and number >= 0}
        costs = set(items) <= set(_COSTS) and any(known.values())
        share = set(items) == {"share"} and 0 < known.get("share", 0) < 1
        if items and len(known) == len(items) and (costs or share):
            return {**dict.fromkeys(_COSTS, 1.0), **known} if costs else known
    elif (number := _as_number(value, float)) is not None and 0 < number < 1:
        return float(number)
    raise ParameterError(
        "threshold must be a number between 0 and 1, 'f1', costs such as {'false_positive': 1, 'false_negative': 5}, "
        f"{{'share': 0.1}} or None, not {shown(value)}"
    )


_TRANSFORMS = ("log", "log1p", "sqrt", "asinh")


def target_transform(value: object) -> str | None:
    """Return the name of a function of the target."""
    if value is not None and (not isinstance(value, str) or value not in _TRANSFORMS):
        raise ParameterError(
            f"target_transform must be one of {listed(_TRANSFORMS, None)} or None, not {shown(value)}"
            f"{did_you_mean(value, _TRANSFORMS)}"
        )
    return None if value is None else str(value)


def smearing_numbers(value: object) -> tuple[float, ...] | bool | None:
    """Return whether to smear, or the numbers to smear by."""
    if value is None or isinstance(value, bool):
        return value
    items = list(value) if is_iterable(value) and not isinstance(value, str | bytes | Mapping) else [None]
    numbers_of = [_as_number(item, float) for item in items]
    known = tuple(float(number) for number in numbers_of if number is not None)
    if not known or len(known) < len(items):
        raise ParameterError(f"smearing must be True, False, None or a list of finite numbers, not {shown(value)}")
    return known


def _members(sets: object, value: object) -> list[object]:
    """Return the items of a list, tuple or set within ``sets``, the user's argument."""
    if isinstance(value, str | bytes | Mapping) or not is_iterable(value):
        raise ParameterError(
            "interaction_constraints must be a list of lists of column names, such as [['a', 'b'], ['c', 'd']], "
            f"not {shown(sets)}"
        )
    return list(value)


# --- the parameters ---------------------------------------------------------------------------------------------------


_MAX_INTEGER = 1_000_000_000  # fits the 32-bit integers of the kernels


@dataclass(frozen=True, kw_only=True, slots=True)
class Parameters:
    """The parameters of one fit, validated on construction; ``parameter_table`` has their documentation."""

    n_estimators: int = declared(100, "Number of boosting rounds, one tree each.", low=1, high=_MAX_INTEGER)
    learning_rate: float = declared(0.3, "Shrinkage: factor of every leaf value.", above=0, high=1, symbol="η")
    max_learning_rate: float | None = declared(
        None,
        "Let the learning rate grow by 1 % of `learning_rate` a round, up to this value: small steps for models of "
        "few rounds, fewer rounds for the others. Not in XGBoost; not for dart.",
        above=0,
        high=1,
    )
    learning_rates: tuple[float, ...] | None = declared(
        None,
        "Learning rates by round, instead of `learning_rate`: a list, or a function of the round, from 0 on, as in "
        "LightGBM (XGBoost's scheduler begins with the second round). The model stores the numbers. Not for dart.",
        kind="list of a float greater than 0 and at most 1 for each round, a function of the round, or None",
        read=rates_of_rounds,
    )
    max_depth: int = declared(
        6, "Maximum depth of a tree; the root has depth 0. 0 means no limit (not for exact).", low=0, high=64
    )
    max_leaves: int = declared(
        0, "Maximum number of leaves of a tree. 0 means no limit (not for exact).", low=0, high=_MAX_INTEGER, symbol="T"
    )
    grow_policy: Literal["depthwise", "lossguide", "symmetric"] = declared(
        "depthwise",
        "Order of growth: `depthwise` splits level by level, `lossguide` splits the node with the largest gain, "
        "`symmetric` splits all nodes of a level alike, which scores fastest in SQL (the last two not for exact).",
    )
    min_child_weight: float = declared(1.0, "Minimum sum of hessians H in each child of a split.", low=0)
    min_child_samples: int = declared(
        0,
        "Minimum number of rows in each child of a split, unweighted (as in LightGBM, with default 20; scikit-learn's "
        "min_samples_leaf). Rows outside of the tree's sample and rows of weight 0 do not count. 0 means no limit.",
        low=0,
        high=_MAX_INTEGER,
    )
    gamma: float = declared(
        0.0,
        "Minimum gain of a split. The gain is XGBoost's, without the ½ of the paper (so this is twice the paper's γ). "
        "`hist` and `approx` do not make weaker splits; `exact` grows the tree and then prunes it bottom-up.",
        low=0,
        symbol="2γ",
    )
    reg_lambda: float = declared(1.0, "L2 penalty on leaf values.", low=0, symbol="λ")
    reg_alpha: float = declared(0.0, "L1 penalty on leaf values.", low=0, symbol="α")
    max_delta_step: float | None = declared(
        None,
        "Maximum absolute leaf value before shrinkage; 0 means no limit. By default 0, for count:poisson 0.7.",
        low=0,
    )
    max_bin: int = declared(
        256,
        "Maximum number of bins of a numeric feature, including the bin of missing values (hist and approx).",
        low=2,
        high=65_535,
    )
    tree_method: Literal["auto", "hist", "approx", "exact"] = declared(
        "auto",
        "Candidate splits: `hist` uses quantiles, computed once per fit (`auto` is `hist`), `approx` quantiles "
        "weighted by the hessians, recomputed according to `proposal`, `exact` all values.",
        engines="all; `exact`: numba",
    )
    proposal: Literal["global", "local"] = declared(
        "global",
        "When `approx` computes quantiles: `global` once per tree, `local` in each node from its rows, which needs "
        "fewer bins but takes longer.",
    )
    base_score: float | tuple[float, ...] | Literal["zero"] | None = declared(
        None,
        "The prediction before the first tree, on the scale of the target, one for all outputs or one for each. By "
        "default it is estimated, for most objectives as the weighted mean of the target. `'zero'` starts from a "
        "margin of 0 (LightGBM's `boost_from_average=False`).",
        kind="float, a list with one for each output, 'zero' or None",
        read=start_scores,
    )
    monotone_constraints: Mapping[str, int] | None = declared(
        None,
        "Directions by column: predictions never decrease (1) or never increase (-1) in it, all else being equal: "
        "`{'distance': 1}`. With ordered columns, as in `features=[...]`, also by position: `(1, 0, -1)`.",
        kind="dict of column name or position to -1, 0 or 1, a list of these for all columns, or None",
        read=monotone_directions,
    )
    interaction_constraints: Sequence[Sequence[str]] | None = declared(
        None,
        "Sets of columns that may interact: all columns on a path from the root belong to one set. With `[['a', 'b'], "
        "['c']]` a path splits on a and b, or on c; a column in no set interacts with none. With ordered columns also "
        "by position: `[[0, 1], [2]]`.",
        kind="list of lists of column names or positions, or None",
        read=interaction_sets,
    )
    categorical_features: Sequence[str | int | bool] | None = declared(
        None,
        "Numeric or time columns to treat as categories, by name, by position among the features, or as a Boolean for "
        "each; strings, Enums and Categoricals are always categories. 3 and 3.0 are the same category; NULL and NaN "
        "are missing. None is scikit-learn's `'from_dtype'`.",
        kind="list of column names, positions or Booleans, or None",
        read=category_columns,
    )
    max_cat_to_onehot: int = declared(
        4,
        "Categorical features with fewer categories than this are split one category against the rest.",
        low=1,
        high=2**31 - 1,  # which XGBoost's users write for every column
    )
    max_cat_threshold: int = declared(
        64,
        "With more categories, those of a node are sorted by −G/(H+λ), and a split takes the lowest or the highest "
        "ones, fewer than this, against the rest.",
        low=1,
        high=_MAX_INTEGER,
    )
    cat_smooth: float = declared(
        5.0,
        "Smoothing of that order, added to the H of each category, at most a twentieth of the node's H. Categories "
        "with a smaller H are not sorted, but go with missing. 0 is XGBoost's behaviour.",
        low=0,
    )
    linear_tree: bool = declared(
        False,
        "Whether to fit linear leaves: a constant plus slopes for up to six numeric features, those on the path to the "
        "leaf first (hist only).",
        engines="numba, polars, duckdb",
    )
    linear_lambda: float = declared(
        10.0,
        "L2 penalty on the slopes of linear leaves, each scaled by its feature's standard deviation in the leaf.",
        low=0,
    )
    multi_strategy: Literal["one_output_per_tree", "multi_output_tree"] = declared(
        "one_output_per_tree",
        "Trees for several classes, targets or quantiles: `one_output_per_tree` grows one tree per output and round, "
        "`multi_output_tree` one tree with vector leaves, and with SQL shorter by that factor (hist).",
        engines="numba, polars, duckdb, sql",
    )
    subsample: float = declared(1.0, "Share of the rows to grow each tree on.", above=0, high=1)
    feature_weights: Mapping[str, float] | Sequence[float] | None = declared(
        None,
        "Weights of columns in the draws of `colsample_bytree`, `colsample_bylevel` and `colsample_bynode`: "
        "`{'distance': 5}`, 1 for other columns, or a list with one for each feature; weight 0 excludes a column.",
        kind="dict of column name to a float of at least 0, a list of these, or None",
        read=weights_of_features,
    )
    sampling_method: Literal["uniform", "gradient_based"] = declared(
        "uniform",
        "Probabilities of `subsample`: uniform, or proportional to √(g² + λh²), with the gradients of a drawn row "
        "divided by its probability. In a tree for all outputs g² and h² are sums over them.",
    )
    subsample_freq: int = declared(
        1,
        "Number of rounds that share one sample of the rows (LightGBM's `bagging_freq`); by default every round draws "
        "anew.",
        low=1,
        high=_MAX_INTEGER,
    )
    colsample_bytree: float = declared(1.0, "Share of the features that each tree may split on.", above=0, high=1)
    colsample_bylevel: float = declared(
        1.0, "Share of the tree's features that each level may split on.", above=0, high=1
    )
    colsample_bynode: float = declared(
        1.0, "Share of the level's features that each node may split on.", above=0, high=1
    )
    booster: Literal["gbtree", "dart"] = declared(
        "gbtree",
        "`gbtree` is plain boosting; `dart` drops some of the earlier trees in each round, against "
        "over-specialisation (Rashmi & Gilad-Bachrach 2015).",
    )
    rate_drop: float = declared(0.0, "Probability that dart drops an earlier tree in a round.", low=0, high=1)
    one_drop: bool = declared(False, "Whether dart drops at least one tree in each round.")
    skip_drop: float = declared(0.0, "Probability that dart drops nothing in a round.", low=0, high=1)
    sample_type: Literal["uniform", "weighted"] = declared(
        "uniform", "Probabilities of dropout in dart: uniform, or proportional to the weights of the trees."
    )
    normalize_type: Literal["tree", "forest", "dart"] = declared(
        "tree",
        "Weight of a new tree in dart: that of each dropped tree (`tree`), or of all dropped trees together "
        "(`forest`). `dart` is `tree` without the learning rate in the weights, as in the paper and in LightGBM.",
    )
    num_parallel_tree: int = declared(
        1,
        "Number of trees to average in a round; with a single round, a random forest.",
        low=1,
        high=1_000_000,
    )
    seed: int = declared(0, "Seed of all sampling; every engine draws the same.", low=0, high=2**63 - 1)
    scale_pos_weight: float = declared(
        1.0, "Factor of the weights of rows with label 1 (objectives with two classes).", above=0
    )
    num_class: int | None = declared(
        None,
        "Number of classes of the multi:* objectives, labelled from 0. By default the largest label plus 1, or the "
        "number of distinct strings.",
        low=1,
        high=10_000,
    )
    quantile_alpha: tuple[float, ...] = declared(
        (0.5,),
        "The quantiles to predict with reg:quantileerror; each has separate trees.",
        kind="float between 0 and 1, or a list of them",
        read=partial(levels, "quantile_alpha"),
    )
    expectile_alpha: tuple[float, ...] = declared(
        (0.5,),
        "α of reg:expectileerror: labels above the prediction have weight α, labels below 1 − α. Each of several has "
        "separate trees.",
        kind="float between 0 and 1, or a list of them",
        read=partial(levels, "expectile_alpha"),
    )
    huber_slope: float = declared(
        1.0,
        "δ of reg:pseudohubererror and reg:huber: the loss is quadratic below δ and linear above, in the former with "
        "a smooth transition.",
        above=0,
    )
    fair_c: float = declared(1.0, "c of reg:fair: the loss is quadratic well below it and linear well above.", above=0)
    tweedie_variance_power: float = declared(
        1.5, "ρ of reg:tweedie: the variance is proportional to mean^ρ (1 Poisson, 2 gamma).", above=1, below=2
    )
    aft_loss_distribution: Literal["normal", "logistic", "extreme"] = declared(
        "normal", "Distribution of Z in survival:aft, where ln y = ŷ + σZ."
    )
    aft_loss_distribution_scale: float = declared(1.0, "σ of survival:aft.", above=0)
    lambdarank_pair_method: Literal["topk", "mean"] = declared(
        "topk",
        "Pairs of rows of a query for rank:*: `topk` pairs each of its top rows by score with every row ranked below, "
        "`mean` each row with rows of other labels, which are drawn.",
        engines="all; `mean`: numba, polars, duckdb",
    )
    lambdarank_num_pair_per_sample: int | None = declared(
        None,
        "Number of top rows of a query in pairs, by default 32; with `mean` the number of rows drawn for each row, by "
        "default 1.",
        low=1,
        high=_MAX_INTEGER,
    )
    lambdarank_normalization: bool = declared(
        True,
        "Whether to scale the gradients of a query by log2(1 + s) / s, with s their sum over its pairs; with `mean` by "
        "1 / `lambdarank_num_pair_per_sample`.",
    )
    lambdarank_score_normalization: bool = declared(
        True, "Whether to divide the weight of a pair by the difference of its scores."
    )
    ndcg_exp_gain: bool = declared(
        True, "Whether the gain of relevance r in NDCG is 2^r - 1, or r itself (rank:ndcg, the metric ndcg)."
    )
    class_weight: Mapping[str, float] | Sequence[float] | str | None = declared(
        None,
        "Weights of the classes by label (1 for others): `{'late': 5}`, or `'balanced'` for equal total weights. They "
        "multiply row weights in training, not in metrics. The model stores them by class index.",
        kind="dict of label to float, 'balanced', list of float or None",
        read=class_weights,
    )
    threshold: float | Mapping[str, float] | str | None = declared(
        None,
        "The probability above which the second of two classes is predicted, 0.5 by default; or how to choose it on "
        "the held-out rows, or else the training rows: `'f1'` maximises F1, `{'false_positive': 1, 'false_negative': "
        "5}` minimises the cost, `{'share': 0.1}` predicts the class for that share of rows. The model stores the "
        "number.",
        kind="float between 0 and 1, 'f1', dict of costs or of a share, or None",
        read=threshold_or_rule,
    )
    target_transform: Literal["log", "log1p", "sqrt", "asinh"] | None = declared(
        None,
        "Function of the target to train on, for objectives that predict the margin: `log1p` for amounts from 0, "
        "`asinh` for amounts of both signs. Predictions, metrics, intervals and SQL are on the scale of the target.",
        kind="{'log', 'log1p', 'sqrt', 'asinh'} or None",
        read=target_transform,
    )
    smearing: Sequence[float] | bool | None = declared(
        None,
        "Whether predictions of a transformed target are smeared to be means (Duan 1983), by default with "
        "reg:squarederror. False returns the plain inverse of the transform, close to the median. The model stores "
        "the estimated numbers.",
        kind="bool, list of float or None",
        read=smearing_numbers,
    )
    early_stopping_rounds: int | None = declared(
        None,
        "Stop when the last metric on the last held-out set has not improved for this many rounds, and keep the trees "
        "up to the best round.",
        low=1,
        high=_MAX_INTEGER,
        shapes_model=False,
    )
    min_delta: float = declared(
        0.0,
        "Minimum improvement of the metric that counts for early stopping.",
        low=0,
        shapes_model=False,
    )
    n_jobs: int | None = declared(
        None,
        "Number of threads of the numba engine; by default all cores.",
        low=1,
        high=4_096,
        engines="numba",
        shapes_model=False,
    )

    def __post_init__(self) -> None:
        hints = _hints()
        for item in _items():
            value = getattr(self, item.name)
            if value is not item.default:  # as few are
                object.__setattr__(self, item.name, checked(item, hints[item.name], value))
        if self.tree_method == "auto":
            object.__setattr__(self, "tree_method", "hist")
        for is_refused, message in _REFUSED_TOGETHER:
            if is_refused(self):
                raise ParameterError(message.format(p=self))
        if self.booster != "dart":
            self._check_no_dart()

    def _check_no_dart(self) -> None:
        for name in ("rate_drop", "one_drop", "skip_drop", "sample_type", "normalize_type"):
            if (value := getattr(self, name)) != type(self).__dataclass_fields__[name].default:
                raise ParameterError(f"{name}={shown(value)} is for booster='dart', not for {shown(self.booster)}")

    @classmethod
    def from_keywords(cls, keywords: dict[str, Any]) -> Parameters:
        """Return the parameters of these keywords, or raise `ParameterError` with the nearest name."""
        known = {item.name for item in _items()}
        for name in keywords:
            if name not in known:
                raise ParameterError(f"unknown parameter {shown(name)}{_suggestion(name, known)}")
        return cls(**keywords)

    def as_dict(self) -> dict[str, Any]:
        """Return the parameters by name."""
        return {item.name: getattr(self, item.name) for item in _items()}

    def shaping(self) -> dict[str, Any]:
        """Return the parameters that the model depends on; not the number of threads, for example."""
        values = self.as_dict()
        shaping = {item.name: values[item.name] for item in _items() if item.metadata["shapes_model"]}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in shaping.items()}


_VECTOR = "multi_strategy='multi_output_tree' can't be combined with"
_REFUSED_WITH_VECTOR_LEAVES: tuple[tuple[Callable[[Parameters], bool], str], ...] = (
    (lambda p: p.tree_method != "hist", "tree_method={p.tree_method!r}; use 'hist'"),
    (lambda p: p.booster == "dart", "booster='dart', which weights the trees of each output; use 'gbtree'"),
    (
        lambda p: bool(p.monotone_constraints),
        "monotone_constraints, which a split may keep for one output and break for another",
    ),
)
# Values that are valid alone and not together: the condition on the parameters, and the message about them.
_REFUSED_TOGETHER: tuple[tuple[Callable[[Parameters], bool], str], ...] = (
    (
        lambda p: p.tree_method == "exact" and p.max_depth == 0,
        "max_depth=0 (no limit) can't be combined with tree_method='exact'; set a depth of 1 or more",
    ),
    (
        lambda p: p.tree_method == "exact" and (p.max_leaves > 0 or p.grow_policy != "depthwise"),
        "max_leaves and grow_policy='lossguide' can't be combined with tree_method='exact'; use 'hist'",
    ),
    (
        lambda p: p.max_learning_rate is not None and p.max_learning_rate < p.learning_rate,
        "max_learning_rate={p.max_learning_rate:g} is less than learning_rate={p.learning_rate:g}, from which it grows",
    ),
    (
        lambda p: p.learning_rates is not None and len(p.learning_rates) < p.n_estimators,
        "learning_rates has fewer numbers than n_estimators={p.n_estimators}; set one for each round",
    ),
    (
        lambda p: p.learning_rates is not None and p.max_learning_rate is not None,
        "learning_rates and max_learning_rate={p.max_learning_rate:g} can't be combined; pass one of them",
    ),
    (
        lambda p: p.learning_rates is not None and p.booster == "dart",
        "learning_rates can't be combined with booster='dart', which scales the trees of earlier rounds",
    ),
    (
        lambda p: p.max_learning_rate is not None and p.booster == "dart",
        "max_learning_rate can't be combined with booster='dart', which scales the trees of earlier rounds",
    ),
    (
        lambda p: p.proposal != "global" and p.tree_method != "approx",
        "proposal={p.proposal!r} is for tree_method='approx'; tree_method={p.tree_method!r} proposes splits once",
    ),
    (
        lambda p: p.grow_policy == "symmetric" and p.tree_method == "approx",
        "grow_policy='symmetric' can't be combined with tree_method='approx'; use 'hist'",
    ),
    (
        lambda p: p.grow_policy == "symmetric" and not 1 <= p.max_depth <= 16,
        "grow_policy='symmetric' needs a max_depth from 1 to 16, as each level has all of its nodes, not {p.max_depth}",
    ),
    (
        lambda p: p.linear_tree and p.tree_method != "hist",
        "linear_tree=True can't be combined with tree_method={p.tree_method!r}; use 'hist'",
    ),
    (
        lambda p: p.linear_tree and p.booster == "dart",
        "linear_tree=True can't be combined with booster='dart', which gives trees new weights in each round; use "
        "'gbtree'",
    ),
    (
        lambda p: p.linear_tree and bool(p.monotone_constraints),
        "linear_tree=True can't be combined with monotone_constraints, to which slopes do not keep",
    ),
    *(
        (lambda p, is_refused=is_refused: p.multi_strategy == "multi_output_tree" and is_refused(p), f"{_VECTOR} {why}")
        for is_refused, why in _REFUSED_WITH_VECTOR_LEAVES
    ),
)


@cache
def _items() -> tuple[Field[Any], ...]:
    """Return the declarations of the parameters; cached, as every fit and every file that is read asks for them."""
    return fields(Parameters)


@cache
def _hints() -> dict[str, Any]:
    """Return the parameters' types by name; cached, as every fit reads them."""
    return typing.get_type_hints(Parameters)


# Names that other libraries have for arguments of `fit`, and the names here; `aliases` has those of parameters.
_OTHER_NAMES = {
    "n_trees": "n_estimators",
    "sample_weight": "weight",
    "weights": "weight",
    "label": "target",
    "qid": "group",
    "query_id": "group",
    "loss": "objective",
    "obj": "objective",
    "fobj": "objective",
    "feval": "eval_metric",
    "custom_metric": "eval_metric",
    "class_weights": "class_weight",
    "evals": "valid",
    "eval_set": "valid",
    "valid_sets": "valid",
    "xgb_model": "init_model",
    "init_score": "base_margin",
    "offset": "base_margin",
    "verbosity": "verbose",
    "verbose_eval": "verbose",
}
_FIT_ARGUMENTS = (
    "target", "objective", "features", "exclude", "weight", "group", "base_margin", "exposure", "label_upper_bound",
    "valid", "folds", "stratified", "time", "eval_metric", "callbacks", "init_model", "engine", "cuts", "checkpoint",
    "checkpoint_every", "max_sql", "verbose",
)  # fmt: skip


def _suggestion(name: str, known: set[str]) -> str:
    if ours := _OTHER_NAMES.get(name) or ALIASES.get(name):
        return f"; here it is called {shown(ours)}"
    if name in _CHANGES_NOTHING or name == "missing":
        values = listed(_CHANGES_NOTHING.get(name, (None, math.nan)), None)
        return f"; it is taken with {values} alone, which change nothing here"
    near = did_you_mean(name, [*known, *_FIT_ARGUMENTS], {**_OTHER_NAMES, **ALIASES})
    return near or f"; the parameters are {', '.join(sorted(known))}"


# How much a growing learning rate grows in a round, as a share of the first one.
_GROWTH = 0.01


def shrinkage_of(parameters: Mapping[str, Any], round_: int) -> float:
    """Return the factor of the leaf values in a round, counted from 0; parallel trees share the learning rate."""
    return rate_of(parameters, round_) / int(parameters.get("num_parallel_tree", 1))


def rate_of(parameters: Mapping[str, Any], round_: int) -> float:
    """Return the learning rate of a round, counted from 0.

    With ``max_learning_rate`` it grows by 1 % of the first one a round, up to that.

    >>> [rate_of({"learning_rate": 0.1, "max_learning_rate": 0.2}, round_) for round_ in (0, 50, 150)]
    [0.1, 0.15000000000000002, 0.2]
    >>> [rate_of({"learning_rate": 0.1, "learning_rates": [0.5, 0.25]}, round_) for round_ in (0, 1)]
    [0.5, 0.25]
    """
    rate, largest = parameters.get("learning_rate", 0.3), parameters.get("max_learning_rate")
    if (by_round := parameters.get("learning_rates")) is not None:
        rate = by_round[round_]
    elif largest is not None:
        rate = min(rate * (1.0 + _GROWTH * round_), largest)
    return float(rate)


def parameter_table(without: Collection[str] = ()) -> str:
    """Return the documentation of all parameters except ``without``, in numpydoc's format."""
    lines, hints = [], _hints()
    for item in (item for item in fields(Parameters) if item.name not in without):
        symbol = f" (in the paper: {item.metadata['symbol']})" if item.metadata["symbol"] else ""
        lines += [f"{item.name} : {values_text(item, hints[item.name])}, default {item.default!r}"]
        lines += [f"    {item.metadata['doc']}{symbol}"]
    return "\n".join(lines)


def markdown_table() -> str:
    """Return the documentation of all parameters as a table in Markdown."""
    hints = _hints()
    lines = ["| name | default | values | in the paper | engines | meaning |", "|---|---|---|---|---|---|"]
    for item in fields(Parameters):
        cells = [
            f"`{item.name}`",
            f"`{item.default!r}`",
            values_text(item, hints[item.name]),
        ]
        cells += [item.metadata[key] for key in ("symbol", "engines", "doc")]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


# --- names in other libraries -----------------------------------------------------------------------------------------


ALIASES: Mapping[str, str] = {
    alias: name
    for name, aliases in {
        "n_estimators": (
            "num_boost_round", "num_round", "num_rounds", "n_rounds", "nrounds", "num_iterations", "num_iteration",
            "n_iter", "num_tree", "num_trees", "max_iter", "iterations",
        ),
        "learning_rate": ("eta", "shrinkage_rate"),
        "max_depth": ("depth",),
        "max_leaves": ("num_leaves", "num_leaf", "max_leaf", "max_leaf_nodes"),
        "min_child_weight": (
            "min_sum_hessian_in_leaf", "min_sum_hessian_per_leaf", "min_sum_hessian", "min_hessian",
        ),
        "min_child_samples": ("min_data_in_leaf", "min_data_per_leaf", "min_data", "min_samples_leaf"),
        "gamma": ("min_split_loss", "min_gain_to_split", "min_split_gain"),
        "reg_lambda": ("lambda", "lambda_", "lambda_l2", "l2_regularization", "l2_leaf_reg"),
        "reg_alpha": ("alpha", "lambda_l1", "l1_regularization"),
        "max_delta_step": ("max_tree_output", "max_leaf_output"),
        "max_bin": ("max_bins",),
        "categorical_features": (
            "categorical_feature", "cat_feature", "categorical_column", "cat_column", "cat_features", "feature_types",
        ),
        "subsample": ("bagging_fraction", "sub_row", "bagging"),
        "subsample_freq": ("bagging_freq",),
        "rate_drop": ("drop_rate",),
        "lambdarank_num_pair_per_sample": ("lambdarank_truncation_level",),
        "lambdarank_normalization": ("lambdarank_norm",),
        "linear_tree": ("linear_trees",),
        "colsample_bytree": ("feature_fraction", "sub_feature"),
        "colsample_bylevel": ("rsm",),
        "colsample_bynode": ("feature_fraction_bynode", "sub_feature_bynode", "max_features"),
        "seed": ("random_state", "random_seed"),
        "num_class": ("num_classes",),
        "monotone_constraints": ("monotone_constraint", "monotonic_cst", "mc"),
        "interaction_constraints": ("interaction_cst",),
        "early_stopping_rounds": ("early_stopping_round", "early_stopping", "n_iter_no_change"),
        "min_delta": ("early_stopping_min_delta", "tol"),
        "n_jobs": ("nthread", "nthreads", "n_thread", "num_thread", "num_threads"),
    }.items()
    for alias in aliases
}  # fmt: skip
"""The name here of each parameter of XGBoost and LightGBM, and of some of CatBoost, that means the same."""

FIT_ALIASES: Mapping[str, str] = dict.fromkeys(("metric", "metrics", "metric_types"), "eval_metric")
"""The name here of each argument of `fit` that LightGBM has among its parameters."""

_OF_SUBSAMPLE = tuple(alias for alias, name in ALIASES.items() if name == "subsample")

# Names of `max_leaves` in libraries that grow leaf by leaf and have no limit of depth by default. (LightGBM also takes
# `max_leaves` for it, which is XGBoost's name here.)
_LEAF_BY_LEAF = frozenset({"num_leaves", "num_leaf", "max_leaf", "max_leaf_nodes"})

_GAIN = (
    "stops at a split of less gain, where gamma with tree_method='exact' prunes it unless a split below it gains enough"
)
_GOSS = "is of LightGBM's one-side sampling; sampling_method='gradient_based' with subsample is XGBoost's"
_CATEGORIES = "is of LightGBM's search for sets of categories; cat_smooth, max_cat_threshold and reg_lambda are ours"
_BINS = (
    "bounds LightGBM's bins; here they hold equally many rows, max_bin bounds their number, and fit takes cuts={...}"
)
_SEED = "seeds one kind of draws; seed (random_state) is that of all draws"
_COST = "is a cost of LightGBM's cost-efficient boosting; gamma is one of every split"
_BY_CLASS = "draws the rows of each class by itself; class_weight and scale_pos_weight weigh them"
_OF_PREDICT = "is an argument of predict, where it has its counterpart: output, or a model's first rounds, model[:10]"
_EARLY_SUM = "stops adding up trees early; every tree counts here"
_OF_FILES = "is of LightGBM's command line and its files; fit takes a path, and `frameboost train` is the command"
_CLUSTER = "is of LightGBM's clusters; engine=fb.Dask(client) trains on one here"
_GPU = "is for GPUs, which are not supported"
_LINEAR = "is for booster='gblinear', which has no trees and is not supported"

DIFFERENT: Mapping[str, str] = {
    name: why
    for names, why in {
        ("boosting", "boosting_type", "boost"): "is 'gbdt', 'dart' or 'rf' here; 'goss' " + _GOSS,
        ("data_sample_strategy", "top_rate", "other_rate"): _GOSS,
        ("max_drop",): "bounds how many trees dart drops, which are a share here, rate_drop",
        ("is_unbalance", "unbalance", "unbalanced_sets"):
            "weighs the classes by their numbers, as class_weight='balanced' does here",
        ("enable_categorical",):
            "is not needed: every string, Enum and Categorical column is a category, and those of categorical_features",
        ("use_missing",): "has no counterpart: each split learns where missing values go; fill them before",
        ("zero_as_missing",): "has no counterpart: NULL and NaN are missing; replace 0 by one of them before",
        ("min_data_in_bin", "max_bin_by_feature", "forcedbins_filename"): _BINS,
        ("cat_l2", "min_data_per_group"): _CATEGORIES,
        ("extra_trees", "extra_tree"): "draws thresholds by chance; colsample_bynode draws the features of a node",
        ("path_smooth",): "draws a leaf to its parent; reg_lambda draws it to 0, and min_child_samples gives it rows",
        ("monotone_constraints_method", "mc_method", "monotone_constraining_method"):
            "is 'basic' here: both sides of a split keep to the middle between them",
        ("monotone_penalty", "mc_penalty", "ms_penalty", "monotone_splits_penalty"):
            "forbids monotone splits near the root, which monotone_constraints allow here",
        ("feature_contri", "fc", "fp", "feature_contrib", "feature_penalty"):
            "is a factor of gains; feature_weights say how often a feature is drawn, and exclude leaves it out",
        ("forcedsplits_filename", "fs", "forced_splits", "forced_splits_file", "forced_splits_filename"):
            "forces splits; interaction_constraints and cuts bound what a tree may split on",
        ("cegb_tradeoff", "cegb_penalty_split", "cegb_penalty_feature_lazy", "cegb_penalty_feature_coupled"): _COST,
        ("neg_bagging_fraction", "neg_bagging", "neg_sub_row", "neg_subsample"): _BY_CLASS,
        ("pos_bagging_fraction", "pos_bagging", "pos_sub_row", "pos_subsample"): _BY_CLASS,
        ("bagging_by_query",): "draws whole queries; subsample draws rows of all",
        ("bagging_seed", "bagging_fraction_seed", "feature_fraction_seed", "drop_seed", "extra_seed", "objective_seed",
         "data_random_seed", "data_seed"): _SEED,
        ("reg_sqrt",): "is target_transform='sqrt' here",
        ("sigmoid",): "scales the margins of a logistic loss; learning_rate scales its trees",
        ("poisson_max_delta_step",): "is max_delta_step here, which bounds leaves too, as in XGBoost",
        ("multi_error_top_k", "auc_mu_weights"): "is of a metric; eval_metric takes a function, such as scikit-learn's",
        ("eval_at", "map_at", "ndcg_at", "map_eval_at", "ndcg_eval_at"):
            "has the positions of ranking metrics, which are part of their names: eval_metric=['ndcg@1', 'ndcg@3']",
        ("label_gain",): "has the gains of labels, which are 2^label - 1, or with ndcg_exp_gain=False the labels",
        ("lambdarank_unbiased", "lambdarank_bias_norm", "lambdarank_position_bias_regularization"):
            "learns the bias of clicks by position, of which nothing is here",
        ("first_metric_only",): "is not needed: early stopping watches one metric, the last of eval_metric",
        ("is_provide_training_metric", "train_metric", "training_metric", "is_training_metric"):
            "is train_metrics=True of fit",
        ("refit_decay_rate",): "is of LightGBM's refit; Model.refit learns leaves from new rows alone",
        ("saved_feature_importance_type",): "is the kind of Model.importance",
        ("raw_score", "predict_raw_score", "predict_rawscore", "is_predict_raw_score", "leaf_index",
         "predict_leaf_index",
         "is_predict_leaf_index", "predict_contrib", "contrib", "is_predict_contrib", "start_iteration_predict",
         "num_iteration_predict", "predict_disable_shape_check"): _OF_PREDICT,
        ("pred_early_stop", "pred_early_stop_freq", "pred_early_stop_margin"): _EARLY_SUM,
        ("snapshot_freq", "save_period"): "writes the model from time to time, as checkpoint and checkpoint_every do",
        ("config", "config_file", "data_filename", "train_data", "train_data_file", "test_data", "test_data_file",
         "valid_data", "valid_data_file", "valid_filenames", "model_in", "model_input", "input_model", "model_out",
         "model_output", "output_model", "output_result", "name_pred", "pred_name", "predict_name", "predict_result",
         "prediction_name", "prediction_result", "convert_model", "convert_model_file", "convert_model_language",
         "header", "has_header", "label_column", "weight_column", "group_column", "query_column", "group_id",
         "ignore_column", "ignore_feature", "blacklist", "save_binary", "is_save_binary", "is_save_binary_file",
         "parser_config_file", "task", "task_type"): _OF_FILES,
        ("machines", "nodes", "workers", "machine_list", "machine_list_file", "machine_list_filename", "mlist",
         "num_machine", "num_machines", "local_listen_port", "local_port", "port", "time_out", "tree", "tree_learner",
         "tree_learner_type", "tree_type", "top_k", "topk"): _CLUSTER,
        ("gpu_device_id", "gpu_device_id_list", "gpu_platform_id", "gpu_use_dp", "gpu_id", "num_gpu"): _GPU,
        ("updater", "process_type", "refresh_leaf"):
            "says how XGBoost works inside; tree_method chooses how trees grow, and Model.refit learns leaves again",
        ("feature_selector",): _LINEAR,
        ("max_cached_hist_node",): "bounds XGBoost's memory; here the histograms of all open nodes are kept",
        ("num_target",): "is the number of columns of the target",
    }.items()
    for name in names
}  # fmt: skip
"""What to do instead, of names that mean something else than any parameter here."""

# Values of names of the second table, and of some that have no other value here, that change nothing.
_CHANGES_NOTHING: Mapping[str, tuple[object, ...]] = {
    name: (None, *values)
    for names, values in {
        ("boosting", "boosting_type", "boost"): ("gbdt", "gbrt", "gbtree"),
        ("data_sample_strategy",): ("bagging",),
        ("max_drop",): (0, -1),
        ("device", "device_type"): ("cpu",),
        ("tree", "tree_learner", "tree_learner_type", "tree_type"): ("serial",),
        ("process_type",): ("default",),
        ("monotone_constraints_method", "mc_method", "monotone_constraining_method"): ("basic",),
        ("verbosity",): (-1, 0, 1),
        ("bin_construct_sample_cnt", "subsample_for_bin"): (200_000,),
        ("min_data_in_bin", "min_data_per_group", "multi_error_top_k", "num_machines", "num_machine", "sigmoid"): (1,),
        ("neg_bagging_fraction", "pos_bagging_fraction", "cegb_tradeoff"): (1,),
        ("poisson_max_delta_step",): (0.7,),
        ("cat_l2", "path_smooth", "monotone_penalty", "cegb_penalty_split", "refit_decay_rate"): (0,),
        ("lambdarank_position_bias_regularization",): (0,),
        ("boost_from_average", "use_missing"): (True,),
        ("zero_as_missing", "extra_trees", "extra_tree", "is_unbalance", "unbalance", "unbalanced_sets", "reg_sqrt",
         "lambdarank_unbiased", "use_label_encoder", "pred_early_stop",
         "bagging_by_query", "first_metric_only", "is_provide_training_metric", "training_metric",
         "is_training_metric"): (False,),
        ("disable_default_eval_metric",): (True, False),  # as eval_metric replaces that of the objective
        # Of speed, messages and memory, whatever they say; draws are those of a round's number anyway.
        ("silent", "validate_parameters", "enable_categorical", "force_col_wise", "force_row_wise", "deterministic",
         "feature_pre_filter", "enable_bundle", "bundle", "is_enable_bundle", "is_enable_sparse", "enable_sparse",
         "is_sparse", "sparse", "two_round", "two_round_loading", "use_two_round_loading", "pre_partition",
         "is_pre_partition", "precise_float_parser", "use_quantized_grad", "quant_train_renew_leaf",
         "stochastic_rounding", "gpu_use_dp", "seed_per_iteration", "debug_synchronize",
         "extmem_single_page"): (True, False),
    }.items()
    for name in names
}  # fmt: skip
_OF_SPEED = frozenset({
    "histogram_pool_size", "hist_pool_size", "num_grad_quant_bins", "metric_freq", "output_freq",
})  # fmt: skip
"""Names that change nothing, whatever their number."""


def _changes_nothing(name: str, value: object) -> bool:
    if name in _OF_SPEED:
        return True
    if name == "missing":
        return value is None or (isinstance(value, float | np.floating) and math.isnan(value))
    return is_among(value, _CHANGES_NOTHING.get(name, ()))


def under_our_names(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Return keyword arguments under frameboost's names; names that are not aliases are unchanged.

    Raises
    ------
    ParameterError
        If one parameter has two names, or a name means something else.

    Examples
    --------
    >>> under_our_names({"eta": 0.1, "max_depth": 3, "lambda_l2": 2})
    {'learning_rate': 0.1, 'max_depth': 3, 'reg_lambda': 2}
    >>> under_our_names({"num_leaves": 31})
    {'max_leaves': 31, 'grow_policy': 'lossguide', 'max_depth': 0}
    """
    parameters: dict[str, Any] = {}
    written_as: dict[str, str] = {}
    boosting = None
    for name, value in keywords.items():
        if _changes_nothing(name, value) or (name in _SAMPLED_NEVER and _samples_no_rows(value, keywords)):
            continue
        if name in _SAMPLED_NEVER and _is(value, 0):
            raise ParameterError(f"{name}=0 never draws rows, and subsample is less than 1; leave one of them out")
        if name in _BOOSTING and isinstance(value, str) and value in _AS_IN_LIGHTGBM:
            boosting = value
            continue
        if name in _FLAGS:
            name, value = _flag_as_value(name, value)
        if name in DIFFERENT:
            raise ParameterError(f"unknown parameter {shown(name)}: it {DIFFERENT[name]}")
        ours = ALIASES.get(name) or FIT_ALIASES.get(name, name)
        if name == "feature_types":
            value = _are_categories(value)
        if name == "max_leaf_nodes" and value is None:  # scikit-learn: no limit
            value = 0
        if value is None and (ours != name or _has_default(ours)):  # the default, as in both libraries' estimators
            continue
        if ours == "n_jobs" and _is(value, -1, 0 if name != ours else -1):
            value = None  # all cores
        if ours == "max_depth" and _is(value, -1):
            value = 0  # no limit
        if ours in parameters:
            both = f"{written_as[ours]}={shown(parameters[ours])} and {name}={shown(value)}"
            raise ParameterError(f"{both} are the same parameter, {ours}; set only that")
        parameters[ours], written_as[ours] = value, name
    if written_as.get("max_leaves") in _LEAF_BY_LEAF:
        parameters.setdefault("grow_policy", "lossguide")
        parameters.setdefault("max_depth", 0)
    if (gain := written_as.get("gamma")) in _OF_EACH_SPLIT and parameters.get("tree_method") == "exact":
        raise ParameterError(f"{gain} can't be combined with tree_method='exact': it {_GAIN}")
    return parameters if boosting is None else _AS_IN_LIGHTGBM[boosting](parameters)


# LightGBM's names of gamma, which hist and approx hold each split to.
_OF_EACH_SPLIT = frozenset({"min_gain_to_split", "min_split_gain"})

_BOOSTING = ("boosting", "boosting_type", "boost")


def _as_dart(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return parameters of LightGBM's dart, with its defaults."""
    defaults = {"rate_drop": 0.1, "skip_drop": 0.5, "sample_type": "weighted", "normalize_type": "dart"}
    return {"booster": "dart"} | defaults | parameters


def _as_forest(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return parameters of LightGBM's random forest: the mean of ``n_estimators`` trees, grown in one round."""
    shares = (parameters.get(name, 1) for name in ("subsample", "colsample_bytree", "colsample_bynode"))
    if all(share == 1 for share in shares):
        raise ParameterError(
            "boosting_type='rf' needs a subsample, colsample_bytree or colsample_bynode of less than 1, without which "
            "all trees are the same"
        )
    n_trees = parameters.get("n_estimators", Parameters.__dataclass_fields__["n_estimators"].default)
    return parameters | {"n_estimators": 1, "num_parallel_tree": n_trees, "learning_rate": 1.0}


_AS_IN_LIGHTGBM: Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "dart": _as_dart, "rf": _as_forest, "random_forest": _as_forest,
}  # fmt: skip

# LightGBM's names that are True or False, and what both are here.
_FLAGS: Mapping[str, tuple[str, str | None, str]] = {
    "uniform_drop": ("sample_type", "uniform", "weighted"),
    "xgboost_dart_mode": ("normalize_type", "tree", "dart"),
    "boost_from_average": ("base_score", None, "zero"),
}


def _flag_as_value(name: str, value: object) -> tuple[str, str | None]:
    ours, if_true, if_false = _FLAGS[name]
    if not isinstance(value, bool | np.bool_ | None):
        raise ParameterError(f"{name} must be True or False, not {shown(value)}")
    return ours, None if value is None else if_true if value else if_false


# LightGBM's names of how often rows are drawn, of which 0 is never.
_SAMPLED_NEVER = ("bagging_freq", "subsample_freq")


def _samples_no_rows(freq: object, keywords: Mapping[str, Any]) -> bool:
    """Whether rows are never drawn, as LightGBM's default has it, and none would be drawn here."""
    shares = [keywords[name] for name in ("subsample", *_OF_SUBSAMPLE) if name in keywords]
    return _is(freq, 0) and all(share in (None, 1) for share in shares)


def _is(value: object, *integers: int) -> bool:
    """Whether a value is one of these integers, and no Boolean."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) in integers


def _has_default(name: str) -> bool:
    """Whether a parameter has a default other than None."""
    declared_as = Parameters.__dataclass_fields__.get(name)
    return declared_as is not None and declared_as.default is not None
