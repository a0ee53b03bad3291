"""Checkpoints of a fit: the rounds that are written to a file, and their return to the margins of all rows.

What a round hands on to the next is the margins alone: draws are hashes of the seed and the number of the tree. And
margins are sums of leaf values in the order of the trees, so a fit goes on by sending all rows through the saved trees
again, on whatever engine, in the order in which they were grown. JSON holds their leaf values exactly. The last saved
round is grown once more and compared, which finds other data that has the same aggregates.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from frameboost.binning.bins import Bins
from frameboost.checks.json_files import check_keys, fail, is_finite, is_integer, read_list, to_text
from frameboost.checks.messages import shown
from frameboost.engines.contract import Engine
from frameboost.ensemble.tree_file import read_tree, tree_fields
from frameboost.errors import DataError, ModelFileError
from frameboost.losses.loss import Loss
from frameboost.parameters.parameters import Parameters
from frameboost.schema.types import Feature, Physical
from frameboost.training.boosting import Growth, Progress, grow_round
from frameboost.training.checkpoint_facts import check_arguments, check_data, data_facts
from frameboost.training.checkpoint_file import CheckpointFile
from frameboost.training.evaluation_log import EvaluationLog
from frameboost.training.grown_trees import GrownTree
from frameboost.training.growths import FitEngines
from frameboost.trees.tree import Tree

__all__ = ["Checkpoint", "SavedRound"]

_CLOSE = 1e-9
# Of labels up to 1e150; sums of larger ones might overflow.
_LARGEST_VALUE = 1e160
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


@dataclass(frozen=True, slots=True)
class SavedRound:
    """A round of boosting.

    Attributes
    ----------
    trees
        Its trees, with the leaf values that were added to the margins.
    metrics
        Its row of the history.
    stopped_at
        If a callback stopped the fit after it, the ``n_estimators`` of that fit, else None.
    """

    trees: Sequence[Tree]
    metrics: Mapping[str, float]
    stopped_at: int | None = None


@dataclass(frozen=True, slots=True)
class Replay:
    """The saved rounds to repeat.

    Attributes
    ----------
    rounds
        The rounds.
    n_rounds
        How many rounds there are to be in all.
    best
        Which of them, from 1, were the best so far.
    """

    rounds: Sequence[SavedRound]
    n_rounds: int
    best: frozenset[int]

    @property
    def is_finished(self) -> bool:
        """Whether no round is left to grow."""
        return len(self.rounds) == self.n_rounds


class Checkpoint:
    """The checkpoint of one fit.

    Parameters
    ----------
    file
        Where it is.
    every
        Number of rounds from one write to the next.
    """

    def __init__(self, file: CheckpointFile, every: int) -> None:
        self._file = file
        self._every = every
        self._fit: dict[str, Any] = {}
        self._pending: list[str] = []  # rounds that are not written yet, as JSON

    # --- reading ------------------------------------------------------------------------------------------------------

    def check_arguments(self, arguments: Mapping[str, Any], missing: Sequence[int]) -> None:
        """Compare the fit with that of the checkpoint.

        Parameters
        ----------
        arguments
            The arguments of the fit (see `frameboost.training.checkpoint_facts.argument_facts`).
        missing
            The number of rows in which each feature is missing.

        Raises
        ------
        ParameterError
            If an argument differs.
        DataError
            If a number of missing values does.
        """
        named = zip(arguments["features"], missing, strict=True)
        self._compare("arguments", arguments, check_arguments)
        self._compare("missing", {f"missing values of {name!r}": n for name, n in named}, check_data)

    def resume(
        self, engines: FitEngines, loss: Loss, parameters: Parameters, bins: Sequence[Bins], base: Sequence[float],
        log: EvaluationLog,
    ) -> Replay:  # fmt: skip
        """Compare the data, whose columns are binned, with those of the checkpoint; return the saved rounds.

        The log takes their metrics.

        Raises
        ------
        DataError
            If the data differ.
        ModelFileError
            If a saved round can't be one of this fit.
        """
        p, best = parameters, set()
        rows = {f"validation rows {i}" if i else "training rows": engine for i, engine in enumerate(engines.all())}
        more = ["weight"] * engines.is_weighted + [f"init_{name}" for name in loss.margins] * engines.continues
        more += dict.fromkeys(role for offset in engines.offsets.values() for role in offset.columns)
        self._compare("data", data_facts(rows, loss, more, bins, base), check_data)
        saved, n_rounds = self._saved_rounds([b.feature for b in bins], loss, p, [*log.columns]), p.n_estimators
        for number, each in enumerate(saved, 1):
            stop = log.restore_round(each.metrics)
            if log.kept_round == log.n_rounds:
                best.add(number)
            if stop or (each.stopped_at or 0) >= p.n_estimators:
                n_rounds, saved = number, saved[:number]
                break
        return Replay(saved, n_rounds, frozenset(best))

    def repeat(
        self, replay: Replay, growth: Growth, loss: Loss, bin_of: Callable[[int, Physical | None], int],
        engines: Sequence[Engine], log: EvaluationLog, progress: Progress,
    ) -> None:  # fmt: skip
        """Add saved rounds to the margins of engines, that of the training rows first, as they were added.

        Unless the fit is finished, the last one is grown again and compared, to detect other data.
        """
        for number, each in enumerate(replay.rounds, 1):
            try:
                trees = [_repeated(tree, loss.margins[tree.output], bin_of) for tree in each.trees]
            except ValueError as error:
                raise self._damaged(f"round {number}: {error}") from error
            if number == len(replay.rounds) < replay.n_rounds:
                grow_round(engines[0], growth, loss, log.n_rounds - 1, progress)
                self._check_grown(each, progress.last_round(), log.evaluate())
            else:
                growth.start_round(log.rounds_before + number - 1)
                for tree in trees:
                    tree.add_to_margins(engines)
                growth.end_round(trees)
                progress.add(trees)
            if number in replay.best:
                progress.keep_best(growth.weights())

    def _compare(self, part: str, facts: Mapping[str, Any], check: Callable[[str, object, object], None]) -> None:
        self._fit[part] = json.loads(to_text(facts))
        if self._file.fit is not None:
            check(str(self._file.path), self._file.fit.get(part), self._fit[part])

    def _saved_rounds(
        self, features: Sequence[Feature], loss: Loss, parameters: Parameters, columns: Sequence[str]
    ) -> list[SavedRound]:
        """Return the saved rounds, at most ``n_estimators``; ``columns`` are those of the history."""
        items = [item for batch in self._file.batches for item in batch["rounds"]]
        self._file.batches.clear()  # large, and not needed again
        rounds = []
        for number, item in enumerate(items[: parameters.n_estimators], 1):
            try:
                rounds.append(_read_round(item, features, loss.n_outputs, parameters.num_parallel_tree, columns))
            except ModelFileError as error:
                raise self._damaged(f"round {number}: {error}") from error
        return rounds

    def _damaged(self, why: str) -> ModelFileError:
        """Return the error for a checkpoint that passes for undamaged, and can't be of this fit."""
        return ModelFileError(f"checkpoint {shown(str(self._file.path))} is damaged: {why}")

    def _check_grown(self, saved: SavedRound, trees: Sequence[Tree], metrics: Mapping[str, float]) -> None:
        """Compare a saved round with what has been grown in its place; raise `DataError` if they differ."""
        # Trees are the same in all engines; logarithms in a metric may differ in the last digit.
        both = zip(saved.metrics.values(), metrics.values(), strict=True)
        if list(saved.trees) != list(trees):
            what = "trees"
        elif not all(math.isclose(a, b, rel_tol=_CLOSE, abs_tol=_CLOSE) or (a != a and b != b) for a, b in both):
            what = "metrics"
        else:
            return
        raise DataError(
            f"checkpoint {shown(str(self._file.path))} is of other data: the {what} of its last round come out "
            "differently; give the same rows (with subsample in the same order), or another checkpoint"
        )

    # --- writing ------------------------------------------------------------------------------------------------------

    def end_round(self, round_: SavedRound, n_outputs: int, is_last: bool) -> None:
        """Take a round that is done, and write it if it is time."""
        self._pending.append(to_text(_round_fields(round_, n_outputs)))
        if is_last or len(self._pending) >= self._every:
            self.close()

    def close(self) -> None:
        """Write the rounds that are done."""
        if self._pending:
            rounds, self._pending = self._pending, []
            self._file.append(self._fit, rounds)


def _repeated(tree: Tree, margin: str, bin_of: Callable[[int, Physical | None], int]) -> GrownTree:
    """Return a saved tree with its moves, level by level; nodes have the numbers of the tree.

    ``bin_of`` gives the bin of a numeric split (see `frameboost.training.splitter.Splitter.bin_of`).
    """
    found = GrownTree.of(tree, margin, bin_of)
    calls = found.calls()  # which raises what it may raise
    return replace(found, calls=lambda: calls)


# --- a round as JSON --------------------------------------------------------------------------------------------------


def _round_fields(round_: SavedRound, n_outputs: int) -> dict[str, Any]:
    return {
        "metrics": {name: value if math.isfinite(value) else _name(value) for name, value in round_.metrics.items()},
        "trees": [tree_fields(tree, n_outputs) for tree in round_.trees],
    } | ({} if round_.stopped_at is None else {"stopped_at": round_.stopped_at})


def _name(value: float) -> str:
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


def _read_round(
    item: object, features: Sequence[Feature], n_outputs: int, parallel: int, columns: Sequence[str]
) -> SavedRound:
    if not isinstance(item, dict):
        raise ModelFileError("it must be an object")
    check_keys(item, ("metrics", "trees", "stopped_at"), "it has an")
    metrics, stopped_at = item.get("metrics"), item.get("stopped_at")
    if not isinstance(metrics, dict) or list(metrics) != list(columns):
        fail("it", "metrics", f"an object with {', '.join(columns)}", metrics)
    for value in metrics.values():
        if not is_finite(value) and (not isinstance(value, str) or value not in _NOT_FINITE):
            fail("it", "metrics", "numbers", metrics)
    if stopped_at is not None and not is_integer(stopped_at):
        fail("it", "stopped_at", "a whole number", stopped_at)
    trees = [read_tree(tree, number, features, n_outputs) for number, tree in enumerate(read_list(item, "trees", "it"))]
    if [tree.output for tree in trees] != [output for output in range(n_outputs) for _ in range(parallel)]:
        fail("it", "trees", f"{parallel} for each of {n_outputs} outputs in turn", [tree.output for tree in trees])
    for tree in trees:
        linear = [leaf for leaf in tree.linear if leaf is not None]
        slopes = [value for leaf in linear for value in (leaf.constant, *(term.slope for term in leaf.terms))]
        if largest := [value for value in (*tree.value, *slopes) if abs(value) > _LARGEST_VALUE]:
            fail("it", "trees", f"values within ±{_LARGEST_VALUE:g}", largest[0])
    numbers = {name: _NOT_FINITE[value] if isinstance(value, str) else float(value) for name, value in metrics.items()}
    return SavedRound(trees, numbers, stopped_at)
