"""How a model was trained, beside what it is: metrics of rounds, the best of them, a search's trials, a hint."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from frameboost.checks.json_files import check_keys, fail, is_finite, is_integer, read_list

__all__ = ["TrainingRecord", "read_training", "training_fields"]

_WHERE = "damaged model, training"
_FIELDS = ("history", "best_iteration", "best_score", "hint", "leaderboard")
# The columns of a leaderboard; the second is the metric, by its name.
_BEHIND = {
    "weight": pl.Float64(), "fits": pl.Int64(), "rounds": pl.Float64(), "seconds": pl.Float64(),
    "settings": pl.String(),
}  # fmt: skip
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_LONGEST_HINT = 10_000


@dataclass(frozen=True, repr=False)
class TrainingRecord:
    """What is known of a fit; two models that differ in it only are equal.

    Attributes
    ----------
    history
        The metrics of each round: ``round``, and a column for each; without columns of metrics nothing was evaluated.
    best_round, best_score
        The round, from 1, with the best last metric, and that metric.
    hint
        A last line for the text of the model.
    leaderboard
        What `frameboost.auto` tried.
    """

    history: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema={"round": pl.Int64}))
    best_round: int | None = None
    best_score: float | None = None
    hint: str = ""
    leaderboard: pl.DataFrame = field(default_factory=pl.DataFrame)

    def of_rounds(self, start: int, stop: int, n_rounds: int) -> TrainingRecord:
        """Return the record of a slice of a model of so many rounds: of first ones the best, if it is one of them."""
        if (start, stop) == (0, n_rounds):
            return self
        if start > 0 or self.best_round is None or self.best_round > stop:
            return self.without_rounds()
        return replace(self.without_rounds(), best_round=self.best_round, best_score=self.best_score)

    def without_rounds(self) -> TrainingRecord:
        """Return the record of a model whose leaves are others: without metrics."""
        return TrainingRecord(hint=self.hint, leaderboard=self.leaderboard)


def training_fields(record: TrainingRecord) -> dict[str, Any]:
    """Return the record as a JSON object, of what there is."""
    fields: dict[str, Any] = {}
    if record.history.width > 1:
        fields["history"] = _columns(record.history)
    if record.best_round is not None:
        fields["best_iteration"] = record.best_round
    if record.best_score is not None:
        fields["best_score"] = _writable(record.best_score)
    if record.hint and record.hint.isprintable():
        fields["hint"] = record.hint
    if record.leaderboard.width:
        fields["leaderboard"] = _columns(record.leaderboard)
    return fields


def _columns(frame: pl.DataFrame) -> dict[str, list[Any]]:
    return {column.name: [_writable(value) for value in column.to_list()] for column in frame.iter_columns()}


def _writable(value: Any) -> Any:
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def read_training(item: object) -> TrainingRecord:
    """Return the record that a file has, or raise `ModelFileError`."""
    if not isinstance(item, dict):
        fail("damaged model", "training", "an object", item)
    check_keys(item, _FIELDS, _WHERE)
    best, score, hint = item.get("best_iteration"), item.get("best_score"), item.get("hint", "")
    if best is not None and (not is_integer(best) or best < 1):
        fail(_WHERE, "best_iteration", "an integer of at least 1", best)
    if score is not None and _number(score) is None:
        fail(_WHERE, "best_score", "a number", score)
    if not isinstance(hint, str) or not hint.isprintable() or len(hint) > _LONGEST_HINT:
        fail(_WHERE, "hint", "a line of text", hint)
    read: dict[str, Any] = {"best_round": best, "best_score": None if score is None else _number(score), "hint": hint}
    if "history" in item:
        read["history"] = _history(item["history"])
    if "leaderboard" in item:
        read["leaderboard"] = _leaderboard(item["leaderboard"])
    return TrainingRecord(**read)


def _history(given: object) -> pl.DataFrame:
    names = list(given) if isinstance(given, dict) else []
    if names[:1] != ["round"] or len(names) < 2:
        fail(_WHERE, "history", 'an object of "round" and of metrics, a list each', given)
    frame = _frame("history", given, dict.fromkeys(names, pl.Float64()) | {"round": pl.Int64()})  # type: ignore[arg-type]
    rounds = frame["round"].to_list()
    if not rounds or rounds != list(range(rounds[0], rounds[0] + len(rounds))) or rounds[0] < 1:
        fail(f"{_WHERE}, history", "round", "ascending numbers from 1", rounds)
    return frame


def _leaderboard(given: object) -> pl.DataFrame:
    names = list(given) if isinstance(given, dict) else []
    if names[:1] != ["trial"] or names[2:] != list(_BEHIND):
        fail(_WHERE, "leaderboard", 'an object of "trial", a metric and the other columns, a list each', given)
    types = {"trial": pl.String(), names[1]: pl.Float64(), **_BEHIND}
    return _frame("leaderboard", given, types)  # type: ignore[arg-type]


def _frame(key: str, given: Mapping[str, Any], types: Mapping[str, pl.DataType]) -> pl.DataFrame:
    columns = {name: read_list(given, name, f"{_WHERE}, {key}") for name in types}
    if len(set(map(len, columns.values()))) > 1:
        fail(_WHERE, key, "columns of the same length", {name: len(values) for name, values in columns.items()})
    return pl.DataFrame([_series(key, name, values, types[name]) for name, values in columns.items()])


def _series(key: str, name: str, values: Sequence[Any], kind: pl.DataType) -> pl.Series:
    where = f"{_WHERE}, {key}"
    if isinstance(kind, pl.Float64):
        numbers = list(map(_number, values))
        if any(number is None for number in numbers):
            fail(where, name, "a list of numbers", values)
        return pl.Series(name, numbers, pl.Float64)
    is_text = isinstance(kind, pl.String)
    if not all(isinstance(value, str) if is_text else is_integer(value) and abs(value) < 2**63 for value in values):
        fail(where, name, "a list of strings" if is_text else "a list of integers", values)
    return pl.Series(name, values, kind)


def _number(value: object) -> float | None:
    """Return a number as `_writable` writes it; None of anything else."""
    if isinstance(value, str):
        return _NOT_FINITE.get(value)
    return float(value) if is_finite(value) else None  # type: ignore[arg-type]
