"""Names that XGBoost and LightGBM have for parameters: the name here where the meaning is the same, else what to do.

The first table has exact equivalents only: XGBoost's parameters, the keywords of its estimators, and LightGBM's
parameters with their aliases. A value is passed on as it is, but None is the default, and
-1 or 0 threads are all cores. LightGBM's and scikit-learn's names of `max_leaves` also set how these libraries grow
such trees: leaf by leaf, and without a limit of depth by default. The second table has names of things that work in
another way here; each is refused with a sentence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from frameboost.checks.messages import shown
from frameboost.errors import ParameterError

__all__ = ["ALIASES", "DIFFERENT", "under_our_names"]

ALIASES: Mapping[str, str] = {
    alias: name
    for name, aliases in {
        "n_estimators": (
            "num_boost_round", "num_round", "num_rounds", "n_rounds", "nrounds", "num_iterations", "num_iteration",
            "n_iter", "num_tree", "num_trees", "max_iter",
        ),
        "learning_rate": ("eta", "shrinkage_rate"),
        "max_leaves": ("num_leaves", "num_leaf", "max_leaf", "max_leaf_nodes"),
        "min_child_weight": (
            "min_sum_hessian_in_leaf", "min_sum_hessian_per_leaf", "min_sum_hessian", "min_hessian",
        ),
        "gamma": ("min_split_loss",),
        "reg_lambda": ("lambda", "lambda_", "lambda_l2", "l2_regularization"),
        "reg_alpha": ("alpha", "lambda_l1", "l1_regularization"),
        "max_delta_step": ("max_tree_output", "max_leaf_output"),
        "max_bin": ("max_bins",),
        "subsample": ("bagging_fraction", "sub_row", "bagging"),
        "linear_tree": ("linear_trees",),
        "colsample_bytree": ("feature_fraction", "sub_feature"),
        "colsample_bynode": ("feature_fraction_bynode", "sub_feature_bynode"),
        "seed": ("random_state", "random_seed"),
        "num_class": ("num_classes",),
        "monotone_constraints": ("monotone_constraint", "monotonic_cst"),
        "interaction_constraints": ("interaction_cst",),
        "early_stopping_rounds": ("early_stopping_round", "early_stopping", "n_iter_no_change"),
        "n_jobs": ("nthread", "nthreads", "n_thread", "num_thread", "num_threads"),
    }.items()
    for alias in aliases
}  # fmt: skip
"""The name here of each parameter of XGBoost and LightGBM that means the same."""

# Names of `max_leaves` in libraries that grow leaf by leaf and have no limit of depth by default. (LightGBM also takes
# `max_leaves` for it, which is XGBoost's name here.)
_LEAF_BY_LEAF = frozenset({"num_leaves", "num_leaf", "max_leaf", "max_leaf_nodes"})

_ROWS = "counts rows; min_child_weight is the least sum of hessians, a number of rows for reg:squarederror alone"
_GAIN = "stops at a split of less gain, where gamma, as XGBoost's, prunes it unless a split below it gains enough"
_FREQUENCY = "draws rows for several trees at once; subsample draws them anew for each tree"
_BOOSTING = "names LightGBM's ways of boosting; booster='dart', num_parallel_tree and sampling_method are ours"
_GOSS = "is of LightGBM's one-side sampling; sampling_method='gradient_based' with subsample is XGBoost's"
_DROP = "is LightGBM's, which weighs the trees otherwise; rate_drop, with booster='dart', is XGBoost's"

DIFFERENT: Mapping[str, str] = {
    **dict.fromkeys(
        ("min_child_samples", "min_data_in_leaf", "min_data_per_leaf", "min_data", "min_samples_leaf"), _ROWS
    ),
    **dict.fromkeys(("min_gain_to_split", "min_split_gain"), _GAIN),
    **dict.fromkeys(("bagging_freq", "subsample_freq"), _FREQUENCY),
    **dict.fromkeys(("boosting", "boosting_type", "boost"), _BOOSTING),
    **dict.fromkeys(("top_rate", "other_rate"), _GOSS),
    "drop_rate": _DROP,
    "is_unbalance": "weighs the classes by their numbers; scale_pos_weight is the factor itself",
    "categorical_feature": "names the categories; here every string, Enum and Categorical column is one",
    "enable_categorical": "is not needed: every string, Enum and Categorical column is a category",
}
"""What to do instead, of names that mean something else than any parameter here."""


def under_our_names(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Return keyword arguments under the names here; those that are no aliases stay as they are.

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
    for name, value in keywords.items():
        if name in DIFFERENT:
            raise ParameterError(f"unknown parameter {shown(name)}: it {DIFFERENT[name]}")
        ours = ALIASES.get(name, name)
        if ours != name and value is None:  # the default of both libraries' estimators
            continue
        if ours == "n_jobs" and type(value) is int and (value == -1 or (value == 0 and name != ours)):
            value = None  # all cores
        if ours in parameters:
            both = f"{written_as[ours]}={shown(parameters[ours])} and {name}={shown(value)}"
            raise ParameterError(f"{both} are one parameter, {ours}; give it once")
        parameters[ours], written_as[ours] = value, name
    if written_as.get("max_leaves") in _LEAF_BY_LEAF:
        parameters.setdefault("grow_policy", "lossguide")
        if parameters.get("max_depth") in (None, -1):  # -1 is LightGBM's word for no limit
            parameters["max_depth"] = 0
    return parameters
