"""XGBoost's objectives: the loss for each, its parameters, and base scores as margins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from frameboost.checks.json_fields import fail
from frameboost.checks.messages import shown
from frameboost.errors import ParameterError
from frameboost.interop.float32 import log32, logit32, shortest
from frameboost.interop.xgboost.document import fail_damaged, read_count, read_numbers, read_object
from frameboost.losses.built_in import LOSSES, get_loss
from frameboost.losses.foreign import foreign_loss
from frameboost.losses.loss import Loss, multi_target_loss
from frameboost.parameters.parameters import Parameters

__all__ = ["LOGARITHMIC", "LOGISTIC", "OBJECTIVE_PARAMETERS", "count_outputs", "read_objective"]

# By objective: the document's object with its parameters, and their names, which are frameboost's too.
_OF_RANKING = ("lambdarank_param", ("lambdarank_num_pair_per_sample", "lambdarank_normalization",
                                    "lambdarank_score_normalization", "ndcg_exp_gain"))  # fmt: skip
_OF_POSITIVES = ("reg_loss_param", ("scale_pos_weight",))
_OF_CLASSES = ("softmax_multiclass_param", ("num_class",))
OBJECTIVE_PARAMETERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "reg:squarederror": _OF_POSITIVES,
    "reg:logistic": _OF_POSITIVES,
    "binary:logistic": _OF_POSITIVES,
    "binary:logitraw": _OF_POSITIVES,
    "reg:gamma": _OF_POSITIVES,
    "reg:pseudohubererror": ("pseudo_huber_param", ("huber_slope",)),
    "reg:quantileerror": ("quantile_loss_param", ("quantile_alpha",)),
    "reg:expectileerror": ("expectile_loss_param", ("expectile_alpha",)),
    "reg:tweedie": ("tweedie_regression_param", ("tweedie_variance_power",)),
    "count:poisson": ("poisson_regression_param", ("max_delta_step",)),
    "multi:softmax": _OF_CLASSES,
    "multi:softprob": _OF_CLASSES,
    "survival:aft": ("aft_loss_param", ("aft_loss_distribution", "aft_loss_distribution_scale")),
    "rank:pairwise": _OF_RANKING,
    "rank:ndcg": _OF_RANKING,
    "rank:map": _OF_RANKING,
}
# Objectives whose base margin is the logit or the logarithm of the base score; for all others both are equal.
LOGISTIC = frozenset({"reg:logistic", "binary:logistic"})
LOGARITHMIC = frozenset({"count:poisson", "reg:gamma", "reg:tweedie", "survival:aft", "survival:cox"})

_OLD_NAMES = {"reg:linear": "reg:squarederror"}
_MAX_OUTPUTS = 10_000
_NO_LIMIT = 2**32 - 1
_POISSON_STEP = 0.7


def count_outputs(learner: Mapping[str, Any]) -> int:
    """Return the number of margins.

    Raises
    ------
    ModelFileError
        If there are too many.
    """
    of_model = read_object(learner, "learner_model_param")
    n_outputs = max(read_count(of_model, "num_class", 0), read_count(of_model, "num_target", 1), 1)
    if n_outputs > _MAX_OUTPUTS:
        fail_damaged(f"it has {n_outputs} outputs")
    return n_outputs


def read_objective(
    learner: Mapping[str, Any], is_custom: bool = False
) -> tuple[Loss, dict[str, Any], tuple[float, ...]]:
    """Return the loss, the training parameters that the document has, and the base margin of each output.

    The loss has only a link, and no gradients, if frameboost cannot train it: for objectives and parameters that it
    does not have, and for a user's own function (``is_custom``), whose document names only the objective of the link.

    Raises
    ------
    ModelFileError
        If the document is damaged.
    ParameterError
        If the objective is not known.
    """
    given = read_object(learner, "objective")
    of_model = read_object(learner, "learner_model_param")
    n_outputs = count_outputs(learner)
    name = given.get("name")
    if not isinstance(name, str):
        fail("damaged XGBoost model, objective", "name", "a string", name)
    name = _OLD_NAMES.get(name, name)
    if name == "reg:expectileerror" and n_outputs > 1:
        raise ParameterError(
            f"XGBoost's models of {n_outputs} expectiles are not read, as their predictions are not sums of trees; "
            "those of one are"
        )
    if name not in LOSSES:
        raise ParameterError(f"XGBoost's objective {shown(name)} is not known here")
    parameters, same_training = _read_parameters(given, name)
    if name.startswith("multi:"):
        parameters["num_class"] = read_count(of_model, "num_class", 0)
    loss = _loss(name, parameters, same_training, n_outputs)
    if is_custom and not loss.link_terms:
        loss = _known_by_link("xgboost:custom", loss)
    return loss, parameters if loss.is_trainable else {}, _base_margins(of_model, name, n_outputs)


def _loss(name: str, parameters: Mapping[str, Any], same_training: bool, n_outputs: int) -> Loss:
    try:
        loss = get_loss(name, Parameters(**parameters).as_dict())
    except ParameterError:  # a parameter out of frameboost's range
        if name.startswith("multi:"):
            raise
        same_training, loss = False, get_loss(name, Parameters(max_delta_step=_POISSON_STEP).as_dict())
    if loss.n_outputs == 1 < n_outputs:
        loss = multi_target_loss(loss, n_outputs)
    if loss.n_outputs != n_outputs:
        fail_damaged(f"objective {shown(name)} has {loss.n_outputs} outputs, the model {n_outputs}")
    return loss if same_training else _known_by_link(f"xgboost:{name}", loss)


def _known_by_link(name: str, loss: Loss) -> Loss:
    return foreign_loss(name, [link.text for link in loss.links], loss.classes)


def _base_margins(of_model: Mapping[str, Any], name: str, n_outputs: int) -> tuple[float, ...]:
    """Return the base margins of base scores, which documents of all versions have on the scale of the prediction.

    Before XGBoost 3.1 one score stood for all outputs. The inverse link is computed in float32, as in XGBoost.
    """
    scores = read_numbers(of_model.get("base_score"), "base_score")
    if len(scores) not in (1, n_outputs):
        fail_damaged(f'"base_score" has {len(scores)} numbers, for {n_outputs} outputs')
    if name in LOGISTIC and not ((scores >= 0) & (scores <= 1)).all():
        fail_damaged(f'"base_score" must be from 0 to 1 for {shown(name)}')
    margins = logit32(scores) if name in LOGISTIC else log32(scores) if name in LOGARITHMIC else scores
    if not np.isfinite(margins).all():
        fail_damaged(f'"base_score" leads to no finite margin for {shown(name)}')
    return tuple(map(float, margins)) * (n_outputs // len(scores))


# --- parameters -------------------------------------------------------------------------------------------------------


def _read_parameters(given: Mapping[str, Any], name: str) -> tuple[dict[str, Any], bool]:
    """Return the objective's parameters, and whether they are all that frameboost needs to train it."""
    holder, names = OBJECTIVE_PARAMETERS.get(name, ("", ()))
    held = read_object(given, holder, "objective") if holder in given else {}
    found = {key: _READERS.get(key, _number)(held[key], key) for key in names if key in held}
    if name == "count:poisson" and "max_delta_step" not in found:
        found["max_delta_step"] = _POISSON_STEP
    # Before XGBoost 2 pairs were drawn at random; such documents have another object.
    same = held.get("lambdarank_pair_method", "topk") == "topk" and held.get("lambdarank_unbiased", "0") in ("0", 0)
    return {key: value for key, value in found.items() if value is not None}, same and "lambda_rank_param" not in given


def _number(text: object, key: str) -> float:
    """Return a float32 as the float64 with its shortest decimal text: ``0.699999988`` becomes 0.7."""
    numbers = read_numbers(text, key)
    if len(numbers) > 1:
        fail("damaged XGBoost model, objective", key, "one number", text)
    return shortest(float(numbers[0]))


def _numbers(text: object, key: str) -> list[float]:
    return [shortest(float(number)) for number in read_numbers(text, key)]


def _flag(text: object, key: str) -> bool:
    if text not in ("0", "1"):
        fail("damaged XGBoost model, objective", key, "0 or 1", text)
    return text == "1"


def _pairs(text: object, key: str) -> int | None:
    count = read_count({key: text}, key)
    return None if count == _NO_LIMIT else count


_READERS: dict[str, Callable[[object, str], Any]] = {
    "quantile_alpha": _numbers,
    "num_class": lambda text, key: read_count({key: text}, key),
    "aft_loss_distribution": lambda text, key: text,
    "lambdarank_num_pair_per_sample": _pairs,
    "lambdarank_normalization": _flag,
    "lambdarank_score_normalization": _flag,
    "ndcg_exp_gain": _flag,
}
