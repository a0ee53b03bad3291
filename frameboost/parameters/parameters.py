"""The training parameters: one source for their names, defaults, ranges, documentation and validation.

Names, defaults and meanings are XGBoost's, in scikit-learn's spelling.
"""

from __future__ import annotations

import typing
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Literal

from frameboost.checks.messages import did_you_mean, shown
from frameboost.errors import ParameterError
from frameboost.parameters.fields import checked, declared, values_text
from frameboost.parameters.readers import interaction_sets, monotone_directions, quantiles

__all__ = ["Parameters", "markdown_table", "parameter_table"]

_MOST = 1_000_000_000  # more than can be meant, and less than the integers of kernels hold


@dataclass(frozen=True, kw_only=True, slots=True)
class Parameters:
    """The parameters of one fit, validated when they are given (see ``parameter_table`` for their documentation)."""

    n_estimators: int = declared(100, "Number of boosting rounds, one tree each.", low=1, high=_MOST)
    learning_rate: float = declared(0.3, "Shrinkage: every leaf is multiplied by it.", above=0, high=1, symbol="η")
    max_depth: int = declared(
        6, "Deepest level of a leaf, the root being 0; 0 is no limit (not for exact).", low=0, high=64
    )
    max_leaves: int = declared(
        0, "Most leaves a tree may have; 0 is no limit (not for exact).", low=0, high=_MOST, symbol="T"
    )
    grow_policy: Literal["depthwise", "lossguide", "symmetric"] = declared(
        "depthwise",
        "Split level by level, or always the open node with the largest gain, or each level by one split that all of "
        "its nodes share, which scores fastest in SQL (the latter two not for exact).",
    )
    min_child_weight: float = declared(
        1.0, "Least sum of hessians H in a child; a split that leaves less is not made.", low=0
    )
    gamma: float = declared(
        0.0,
        "Least gain of a split, in XGBoost's measure of gain, which has no ½ (twice the paper's γ). "
        "`hist` refuses such a split while growing, `exact` grows first and prunes from the bottom up.",
        low=0,
        symbol="2γ",
    )
    reg_lambda: float = declared(1.0, "L2 penalty on leaf values.", low=0, symbol="λ")
    reg_alpha: float = declared(0.0, "L1 penalty on leaf values.", low=0, symbol="α")
    max_delta_step: float | None = declared(
        None,
        "Largest magnitude of a leaf before shrinkage; 0 is no limit. By default 0, for count:poisson 0.7.",
        low=0,
    )
    max_bin: int = declared(
        256,
        "Most bins of a numeric feature, the one for missing values included (hist and approx).",
        low=2,
        high=65_535,
    )
    tree_method: Literal["auto", "hist", "approx", "exact"] = declared(
        "auto",
        "How splits are proposed: `hist`, at quantiles found once (what `auto` takes), `approx`, at quantiles weighted "
        "by the hessians, found anew as `proposal` says, or `exact`, at every value.",
        engines="all; `exact`: numba",
    )
    proposal: Literal["global", "local"] = declared(
        "global",
        "When `approx` proposes: `global`, before each tree, or `local`, in each node from the rows in it, which needs "
        "fewer bins but takes longer (approx only).",
    )
    base_score: float | None = declared(
        None,
        "The prediction before the first tree, on the scale of the target; by default the weighted mean target.",
    )
    monotone_constraints: Mapping[str, int] | None = declared(
        None,
        "Columns along which the prediction never falls (1) or never rises (-1), all else being equal: "
        "`{'distance': 1}`.",
        kind="dict of column name to -1, 0 or 1, or None",
        read=monotone_directions,
    )
    interaction_constraints: Sequence[Sequence[str]] | None = declared(
        None,
        "Sets of columns that may interact: those on one path of a tree are all of one set, `[['a', 'b'], ['c']]`; "
        "a column in no set stays alone.",
        kind="list of lists of column names, or None",
        read=interaction_sets,
    )
    max_cat_to_onehot: int = declared(
        4,
        "With fewer categories than that a string column is split by one category against the rest.",
        low=1,
        high=_MOST,
    )
    max_cat_threshold: int = declared(
        64,
        "With more, the categories of a node are sorted by weight, and the lowest or the highest, fewer than this, are "
        "parted from the rest.",
        low=1,
        high=_MOST,
    )
    cat_smooth: float = declared(
        0.0,
        "Least sum of hessians H of a category that a sorted partition may single out, rarer ones go with missing; and "
        "what is added to each H for that sort.",
        low=0,
    )
    subsample: float = declared(
        1.0, "Share of the rows that a tree is grown on, drawn anew for each tree.", above=0, high=1
    )
    sampling_method: Literal["uniform", "gradient_based"] = declared(
        "uniform",
        "How `subsample` draws: every row alike, or in proportion to √(g² + λh²), with gradients scaled up to make up "
        "for it.",
    )
    colsample_bytree: float = declared(1.0, "Share of the features that a tree may split on.", above=0, high=1)
    colsample_bylevel: float = declared(1.0, "Share of those that a level of it may split on.", above=0, high=1)
    colsample_bynode: float = declared(1.0, "Share of those that a node of it may split on.", above=0, high=1)
    booster: Literal["gbtree", "dart"] = declared(
        "gbtree",
        "`dart` drops some of the earlier trees in each round, so that no tree leans on them (Rashmi & "
        "Gilad-Bachrach 2015).",
    )
    rate_drop: float = declared(0.0, "Share of the earlier trees that dart drops.", low=0, high=1)
    one_drop: bool = declared(False, "Whether dart drops at least one tree.")
    skip_drop: float = declared(0.0, "Probability that dart drops nothing in a round.", low=0, high=1)
    sample_type: Literal["uniform", "weighted"] = declared(
        "uniform", "Whether dart drops all trees alike, or in proportion to their weight."
    )
    normalize_type: Literal["tree", "forest"] = declared(
        "tree", "Whether a new tree of dart weighs as much as each of the dropped ones, or as all of them together."
    )
    num_parallel_tree: int = declared(
        1,
        "Trees grown side by side in each round, of which the mean counts: with one round, a random forest.",
        low=1,
        high=1_000_000,
    )
    seed: int = declared(
        0, "What all draws depend on; the same seed draws the same in every engine.", low=0, high=2**63 - 1
    )
    scale_pos_weight: float = declared(
        1.0, "What the weight of rows of label 1 is multiplied by (objectives with two classes).", above=0
    )
    num_class: int | None = declared(
        None,
        "Classes of the multi:* objectives, labelled from 0; by default one more than the largest label.",
        low=2,
        high=10_000,
    )
    quantile_alpha: tuple[float, ...] = declared(
        (0.5,),
        "The quantiles that reg:quantileerror predicts, each by trees of its own.",
        kind="float between 0 and 1, or a list of them",
        read=quantiles,
    )
    huber_slope: float = declared(
        1.0, "δ of reg:pseudohubererror: errors well below it count as squares, well above as sizes.", above=0
    )
    tweedie_variance_power: float = declared(
        1.5, "ρ of reg:tweedie, whose variance grows as the mean to the ρ (1 Poisson, 2 gamma).", above=1, below=2
    )
    aft_loss_distribution: Literal["normal", "logistic", "extreme"] = declared(
        "normal", "Distribution of Z in survival:aft, ln y = ŷ + σZ."
    )
    aft_loss_distribution_scale: float = declared(1.0, "σ of survival:aft.", above=0)
    lambdarank_pair_method: Literal["topk"] = declared(
        "topk", "Which rows of a query rank:* pairs: its first by score with all behind them."
    )
    lambdarank_num_pair_per_sample: int | None = declared(
        None, "How many rows of a query count as its first; by default 32.", low=1, high=_MOST
    )
    lambdarank_normalization: bool = declared(
        True, "Whether the gradients of a query with many pairs are scaled down, to the logarithm of their sum."
    )
    lambdarank_score_normalization: bool = declared(
        True, "Whether what a pair counts is divided by the difference of its scores."
    )
    ndcg_exp_gain: bool = declared(
        True, "Whether NDCG takes a row of relevance r to be worth 2^r - 1, or r itself (rank:ndcg, the metric ndcg)."
    )
    early_stopping_rounds: int | None = declared(
        None,
        "Stop when the last metric on the last validation set has not got better for as many rounds, and keep the "
        "trees up to the best round.",
        low=1,
        high=_MOST,
        shapes_model=False,
    )
    n_jobs: int | None = declared(
        None,
        "Threads of the numba engine; by default all cores.",
        low=1,
        high=4_096,
        engines="numba",
        shapes_model=False,
    )

    def __post_init__(self) -> None:
        hints = _hints()
        for item in fields(self):
            object.__setattr__(self, item.name, checked(item, hints[item.name], getattr(self, item.name)))
        if self.tree_method == "auto":
            object.__setattr__(self, "tree_method", "hist")
        if self.tree_method == "exact":
            self._check_exact()
        if self.proposal != "global" and self.tree_method != "approx":
            raise ParameterError(
                f"proposal={shown(self.proposal)} is for tree_method='approx'; "
                f"tree_method={shown(self.tree_method)} proposes no splits anew"
            )
        if self.booster != "dart":
            self._check_no_dart()
        if self.grow_policy == "symmetric" and self.tree_method == "approx":
            raise ParameterError("grow_policy='symmetric' does not go with tree_method='approx'; use 'hist'")
        if self.grow_policy == "symmetric" and not 1 <= self.max_depth <= 16:
            raise ParameterError(
                f"grow_policy='symmetric' needs a max_depth from 1 to 16, as each level has all of its nodes, not "
                f"{self.max_depth}"
            )

    def _check_exact(self) -> None:
        if self.max_depth == 0:
            raise ParameterError(
                "max_depth=0 (no limit) does not go with tree_method='exact'; give a depth of 1 or more"
            )
        if self.max_leaves or self.grow_policy != "depthwise":
            raise ParameterError(
                "max_leaves and grow_policy='lossguide' do not go with tree_method='exact'; use 'hist'"
            )

    def _check_no_dart(self) -> None:
        for name in ("rate_drop", "one_drop", "skip_drop", "sample_type", "normalize_type"):
            if (value := getattr(self, name)) != type(self).__dataclass_fields__[name].default:
                raise ParameterError(f"{name}={shown(value)} is for booster='dart', not for {shown(self.booster)}")

    @classmethod
    def from_keywords(cls, keywords: dict[str, Any]) -> Parameters:
        """Return the parameters given by keyword, or raise `ParameterError` that suggests the nearest name."""
        known = {item.name for item in fields(cls)}
        for name in keywords:
            if name not in known:
                raise ParameterError(f"unknown parameter {shown(name)}{_suggestion(name, known)}")
        return cls(**keywords)

    def as_dict(self) -> dict[str, Any]:
        """Return the parameters by name."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

    def shaping(self) -> dict[str, Any]:
        """Return the parameters that the model depends on (a thread count is not one of them)."""
        values = self.as_dict()
        shaping = {item.name: values[item.name] for item in fields(self) if item.metadata["shapes_model"]}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in shaping.items()}


@cache
def _hints() -> dict[str, Any]:
    """Return the parameters' types by name: evaluated once, as they are asked for in every fit."""
    return typing.get_type_hints(Parameters)


# XGBoost's and LightGBM's other names for what is called differently here.
_OTHER_NAMES = {
    "eta": "learning_rate",
    "lambda": "reg_lambda",
    "lambda_": "reg_lambda",
    "lambda_l2": "reg_lambda",
    "alpha": "reg_alpha",
    "lambda_l1": "reg_alpha",
    "min_split_loss": "gamma",
    "num_boost_round": "n_estimators",
    "num_round": "n_estimators",
    "n_rounds": "n_estimators",
    "num_rounds": "n_estimators",
    "n_trees": "n_estimators",
    "num_trees": "n_estimators",
    "max_iter": "n_estimators",
    "iterations": "n_estimators",
    "num_leaves": "max_leaves",
    "max_bins": "max_bin",
    "nthread": "n_jobs",
    "num_threads": "n_jobs",
    "sample_weight": "weight",
    "weights": "weight",
    "label": "target",
    "qid": "group",
    "query_id": "group",
    "loss": "objective",
    "monotonic_cst": "monotone_constraints",
    "interaction_cst": "interaction_constraints",
}
_FIT_ARGUMENTS = (
    "target", "objective", "features", "weight", "group", "base_margin", "label_upper_bound", "valid", "eval_metric",
    "callbacks", "init_model", "engine", "cuts", "verbose",
)  # fmt: skip


def _suggestion(name: str, known: set[str]) -> str:
    if name in _OTHER_NAMES:
        return f"; here it is called {shown(_OTHER_NAMES[name])}"
    near = did_you_mean(name, [*known, *_FIT_ARGUMENTS], _OTHER_NAMES)
    return near or f"; the parameters are {', '.join(sorted(known))}"


def parameter_table(without: Collection[str] = ()) -> str:
    """Return the documentation of all parameters but those, in numpydoc's form."""
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
