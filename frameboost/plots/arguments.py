"""Checks of arguments that several charts share."""

from __future__ import annotations

from frameboost.checks.arguments import instance_of
from frameboost.errors import ParameterError
from frameboost.model.model import Model

__all__ = ["a_model", "class_name", "margin_title", "one_target", "output_name", "output_number"]

a_model = instance_of(Model, "a frameboost.Model (an estimator's is its model_)")


def output_number(model: Model, output: int | str | None) -> int:
    """Return the number of the output to explain: that given, also by a class's label, or the only one.

    Raises
    ------
    ParameterError
        If there are several outputs and none is named, or there is no such output.
    """
    return model.ensemble.margin_number(output)


def output_name(model: Model, number: int) -> str:
    """Return what charts call an output: a class by its label, another by its number."""
    labels = model.ensemble.output_labels
    return str(labels[number] if labels else number)


def margin_title(model: Model, number: int) -> str:
    """Return the title of an axis of contributions to one margin."""
    link = model.ensemble.loss.links[0].text
    of_margin = "prediction" if link == "margin" and model.ensemble.calibration is None else "margin"
    if model.objective in ("binary:logistic", "reg:logistic") and model.ensemble.calibration is None:
        of_margin = "log-odds"
    of_output = "" if model.ensemble.n_outputs == 1 else f" of output {output_name(model, number)}"
    return f"contribution to the {of_margin}{of_output}"


def one_target(model: Model, what: str) -> None:
    """Raise `ParameterError` if the model has several targets."""
    if len(model.ensemble.loss.labels) > 1:
        raise ParameterError(
            f"{what} is for models of one target, not of {len(model.ensemble.loss.labels)}; train one for each"
        )


def class_name(name: str) -> str:
    """Return how charts call a class: by its label, or as ``class 3``."""
    return f"class {name}" if name.isdigit() else name
