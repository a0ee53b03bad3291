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


class _Parameters(TypedDict, total=False):
    """Parameters that all of them take."""

    n_estimators: int
    learning_rate: float | Iterable[float] | Callable[[int], float]
    max_learning_rate: float | None
    learning_rates: Iterable[float] | Callable[[int], float] | None
    max_depth: int
    max_leaves: int
    grow_policy: Literal["depthwise", "lossguide", "symmetric"]
    min_child_weight: float
    min_child_samples: int
    gamma: float
    reg_lambda: float
    reg_alpha: float
    max_delta_step: float | None
    max_bin: int
    tree_method: Literal["auto", "hist", "approx", "exact"]
    proposal: Literal["global", "local"]
    base_score: float | Iterable[float] | Literal["zero"] | None
    monotone_constraints: Mapping[str, int] | Mapping[int, int] | Iterable[int] | str | None
    interaction_constraints: Iterable[Iterable[str | int]] | str | None
    categorical_features: Iterable[str | int | bool] | str | None
    max_cat_to_onehot: int
    max_cat_threshold: int
    cat_smooth: float
    linear_tree: bool
    linear_lambda: float
    multi_strategy: Literal["one_output_per_tree", "multi_output_tree"]
    subsample: float
    feature_weights: Mapping[str, float] | Iterable[float] | None
    sampling_method: Literal["uniform", "gradient_based"]
    subsample_freq: int
    colsample_bytree: float
    colsample_bylevel: float
    colsample_bynode: float
    booster: Literal["gbtree", "dart"]
    rate_drop: float
    one_drop: bool
    skip_drop: float
    sample_type: Literal["uniform", "weighted"]
    normalize_type: Literal["tree", "forest", "dart"]
    num_parallel_tree: int
    scale_pos_weight: float
    num_class: int | None
    quantile_alpha: float | Iterable[float]
    expectile_alpha: float | Iterable[float]
    huber_slope: float
    fair_c: float
    tweedie_variance_power: float
    aft_loss_distribution: Literal["normal", "logistic", "extreme"]
    aft_loss_distribution_scale: float
    lambdarank_pair_method: Literal["topk", "mean"]
    lambdarank_num_pair_per_sample: int | None
    lambdarank_normalization: bool
    lambdarank_score_normalization: bool
    ndcg_exp_gain: bool
    class_weight: Mapping[str, float] | Sequence[float] | str | None
    threshold: float | Mapping[str, float] | str | None
    target_transform: Literal["log", "log1p", "sqrt", "asinh"] | None
    smearing: Sequence[float] | bool | None
    min_delta: float
    n_jobs: int | None
    num_boost_round: int | None
    num_round: int | None
    num_rounds: int | None
    n_rounds: int | None
    nrounds: int | None
    num_iterations: int | None
    num_iteration: int | None
    n_iter: int | None
    num_tree: int | None
    num_trees: int | None
    max_iter: int | None
    iterations: int | None
    eta: float | Iterable[float] | Callable[[int], float] | None
    shrinkage_rate: float | Iterable[float] | Callable[[int], float] | None
    depth: int | None
    num_leaves: int | None
    num_leaf: int | None
    max_leaf: int | None
    max_leaf_nodes: int | None
    min_sum_hessian_in_leaf: float | None
    min_sum_hessian_per_leaf: float | None
    min_sum_hessian: float | None
    min_hessian: float | None
    min_data_in_leaf: int | None
    min_data_per_leaf: int | None
    min_data: int | None
    min_samples_leaf: int | None
    min_split_loss: float | None
    min_gain_to_split: float | None
    min_split_gain: float | None
    lambda_: float | None
    lambda_l2: float | None
    l2_regularization: float | None
    l2_leaf_reg: float | None
    alpha: float | None
    lambda_l1: float | None
    l1_regularization: float | None
    max_tree_output: float | None
    max_leaf_output: float | None
    max_bins: int | None
    categorical_feature: Iterable[str | int | bool] | str | None
    cat_feature: Iterable[str | int | bool] | str | None
    categorical_column: Iterable[str | int | bool] | str | None
    cat_column: Iterable[str | int | bool] | str | None
    cat_features: Iterable[str | int | bool] | str | None
    feature_types: Iterable[str | int | bool] | str | None
    bagging_fraction: float | None
    sub_row: float | None
    bagging: float | None
    bagging_freq: int | None
    drop_rate: float | None
    lambdarank_truncation_level: int | None
    lambdarank_norm: bool | None
    linear_trees: bool | None
    feature_fraction: float | None
    sub_feature: float | None
    rsm: float | None
    feature_fraction_bynode: float | None
    sub_feature_bynode: float | None
    max_features: float | None
    random_state: int | None
    random_seed: int | None
    num_classes: int | None
    monotone_constraint: Mapping[str, int] | Mapping[int, int] | Iterable[int] | str | None
    monotonic_cst: Mapping[str, int] | Mapping[int, int] | Iterable[int] | str | None
    mc: Mapping[str, int] | Mapping[int, int] | Iterable[int] | str | None
    interaction_cst: Iterable[Iterable[str | int]] | str | None
    early_stopping_round: int | None
    early_stopping: int | None
    n_iter_no_change: int | None
    early_stopping_min_delta: float | None
    tol: float | None
    nthread: int | None
    nthreads: int | None
    n_thread: int | None
    num_thread: int | None
    num_threads: int | None
    metric: str | Metric | Callable[..., Any] | Iterable[str | Metric | Callable[..., Any]] | None
    metrics: str | Metric | Callable[..., Any] | Iterable[str | Metric | Callable[..., Any]] | None
    metric_types: str | Metric | Callable[..., Any] | Iterable[str | Metric | Callable[..., Any]] | None


class TrainingParameters(_Parameters, total=False):
    """Of `frameboost.fit`."""

    seed: int
    early_stopping_rounds: int | None


class _Options(_Parameters, total=False):
    """Arguments of `fit` that the others take."""

    objective: str | Objective | Callable[..., Any] | None
    positive: str | None
    features: Any
    exclude: Any
    weight: str | None
    base_margin: str | Sequence[str] | None
    exposure: str | None
    label_upper_bound: str | None
    group: str | None
    stratified: bool
    eval_metric: str | Metric | Callable[..., Any] | Iterable[str | Metric | Callable[..., Any]] | None
    engine: str | Dask | Spark
    shards: int | None
    cuts: Mapping[str, Iterable[Any]] | None
    checkpoint_every: int


class CvOptions(_Options, total=False):
    """Of `frameboost.cv`."""

    train_metrics: bool
    verbose: bool | int | None


class AutoOptions(_Options, total=False):
    """Of `frameboost.auto`."""

    early_stopping_rounds: int | None


class PlanOptions(_Options, total=False):
    """Of `frameboost.plan`."""

    seed: int
    early_stopping_rounds: int | None
    valid: Any
    folds: Any
    time: str | None
    train_metrics: bool
    callbacks: Sequence[Callback]
    init_model: Model | None
    checkpoint: str | os.PathLike[str] | None
    max_sql: str | int | None
    verbose: bool | int | None
