"""CatBoost's loss functions, and the links from margins to predictions that they imply."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from frameboost.checks.json_fields import shown_json
from frameboost.checks.messages import reason, shown
from frameboost.errors import FrameboostError, ModelFileError
from frameboost.interop.ensemble_checks import native_loss
from frameboost.losses.foreign import foreign_loss
from frameboost.losses.loss import Loss, margin_names

__all__ = ["catboost_loss", "class_names"]

# Losses that frameboost has too: its name, and its parameters with CatBoost's names and defaults.
_COUNTERPARTS: dict[str, tuple[str, dict[str, tuple[str, str]]]] = {
    "RMSE": ("reg:squarederror", {}),
    "MAE": ("reg:absoluteerror", {}),
    "Quantile": ("reg:quantileerror", {"quantile_alpha": ("alpha", "0.5")}),
    "Poisson": ("count:poisson", {"max_delta_step": ("max_delta_step", "0.7")}),
    "Tweedie": ("reg:tweedie", {"tweedie_variance_power": ("variance_power", "1.5")}),
    "Logloss": ("binary:logistic", {}),
    "CrossEntropy": ("reg:logistic", {}),
}


def catboost_loss(document: Mapping[str, Any], n_outputs: int) -> tuple[Loss, dict[str, Any]]:
    """Return the loss of a model, and the parameters that it takes.

    For most losses CatBoost predicts the margin itself. The same holds for a model without a loss, such as a sum of
    models.

    Raises
    ------
    ModelFileError
        If the loss does not go with the number of outputs.
    """
    name, options = _loss_function(document)
    margins = margin_names(n_outputs)
    sigmoids = [f"1 / (1 + EXP(-{margin}))" for margin in margins]
    if name == "MultiClass" and n_outputs > 1:
        return native_loss("multi:softprob", {"num_class": n_outputs})
    if name == "MultiClassOneVsAll" and n_outputs > 1:
        return foreign_loss("catboost:MultiClassOneVsAll", sigmoids, classes=n_outputs), {}
    if name in ("MultiLogloss", "MultiCrossEntropy"):
        return foreign_loss(f"catboost:{name}", sigmoids), {}
    if name == "RMSEWithUncertainty" and n_outputs == 2:
        return foreign_loss("catboost:RMSEWithUncertainty", ["margin_0", "EXP(2 * margin_1)"]), {}
    if name == "Focal" and n_outputs == 1:
        return foreign_loss("catboost:Focal", sigmoids, classes=2), {}
    if name in (*_COUNTERPARTS, "MultiClass", "MultiClassOneVsAll", "RMSEWithUncertainty", "Focal"):
        if n_outputs > 1 or name not in _COUNTERPARTS:
            raise ModelFileError(f"damaged CatBoost model: the loss {shown(name)} does not go with {n_outputs} outputs")
        counterpart, taken = _COUNTERPARTS[name]
        try:
            return native_loss(counterpart, {ours: float(options.get(*theirs)) for ours, theirs in taken.items()})
        except (FrameboostError, TypeError, ValueError) as error:
            raise ModelFileError(
                f"damaged CatBoost model: the loss {shown(name)} has parameters {shown_json(options)}"
            ) from error
    return foreign_loss(f"catboost:{name}", margins), {}


def class_names(document: Mapping[str, Any]) -> list[Any] | None:
    """Return the labels of the classes, None where the model has none."""
    info = document.get("model_info")
    classes = info.get("class_params") if isinstance(info, dict) else None
    names = classes.get("class_names") if isinstance(classes, dict) else None
    return names if isinstance(names, list) else None


def _loss_function(document: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the name of the loss and its parameters."""
    info = document.get("model_info")
    parameters = info.get("params") if isinstance(info, dict) else None
    if isinstance(parameters, str):  # as older releases wrote it
        try:
            parameters = json.loads(parameters)
        except (ValueError, RecursionError) as error:
            raise ModelFileError(f"damaged CatBoost model: its params are not JSON ({reason(error)})") from error
    loss = parameters.get("loss_function") if isinstance(parameters, dict) else None
    if loss is None:
        return "unknown", {}
    name, options = (loss.get("type"), loss.get("params", {})) if isinstance(loss, dict) else (None, None)
    if not isinstance(name, str) or not name.isidentifier() or not isinstance(options, dict):
        raise ModelFileError(f"damaged CatBoost model: its loss_function is {shown_json(loss)}")
    return name, options
