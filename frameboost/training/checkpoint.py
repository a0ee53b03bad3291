"""Checkpoints of a fit: write rounds to a file, and restore the margins of all rows from them.

The only state between rounds is the margins, as draws are hashes of the seed and the tree index. Margins are sums of
leaf values in tree order, so a fit resumes by sending all rows through the saved trees in order, on any engine. JSON
stores leaf values exactly. The last saved round is grown again and compared, which detects other data with equal
aggregates.

The file is append-only lines of JSON, each with a checksum. The first line identifies the fit; every other line holds
the rounds that were written together::

    {"format": "frameboost checkpoint", "version": 1, "release": "0.1.0", "fit": {...}, "check": "0f3a..."}
    {"rounds": [...], "check": "77c1..."}

Tables in a user's schema outlive a killed process. Their engine records their name in a line at the beginning of the
fit, ``{"rounds": [], "tables": "5b0e...", "check": "2f81..."}``, and the resumed fit drops them at its end.

A write appends whole lines and waits for the disk (fsync), so its cost depends on the new rounds only, and a killed
process leaves at worst a truncated last line, without a newline, which is ignored. Any other damage is detected:
``check`` is a hash of the line and of the check before it.
"""

from __future__ import annotations

import json
import math
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, NoReturn

from frameboost.binning.bins import Bins
from frameboost.checks.json_files import (
    check_keys,
    fail,
    is_finite,
    is_integer,
    parse_json,
    read_list,
    shown_json,
    to_text,
)
from frameboost.checks.messages import reason, shortened, shown
from frameboost.engines.contract import Engine
from frameboost.ensemble.ensemble import Ensemble, Labels
from frameboost.ensemble.model_file import dump_model
from frameboost.ensemble.tree_file import read_tree, tree_fields
from frameboost.errors import DataError, ModelFileError, ParameterError
from frameboost.expressions.expression import Expression
from frameboost.expressions.grid import Aggregate, exact_sum
from frameboost.losses.loss import Loss
from frameboost.metrics.metric import AnyMetric
from frameboost.parameters.parameters import Parameters
from frameboost.schema.types import Feature, Physical
from frameboost.training.boosting import Growth, Progress, grow_round
from frameboost.training.data_checks import argument_of
from frameboost.training.evaluation_log import EvaluationLog
from frameboost.training.grower import GrownTree
from frameboost.training.growths import FitEngines
from frameboost.trees.tree import Tree
from frameboost.version import __version__

__all__ = ["Checkpoint", "CheckpointFile", "SavedRound", "argument_facts"]

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
        The trees, with the leaf values that were added to the margins.
    metrics
        Its row of the history.
    stopped_at
        The ``n_estimators`` of the fit if a callback stopped it after this round, else None.
    """

    trees: Sequence[Tree]
    metrics: Mapping[str, float]
    stopped_at: int | None = None


@dataclass(frozen=True, slots=True)
class Replay:
    """The saved rounds to replay.

    Attributes
    ----------
    rounds
        The rounds.
    n_rounds
        The total number of rounds of the fit.
    best
        The rounds, from 1, that were the best so far.
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
    path
        Its file, which is read.
    every
        The number of rounds between writes.
    """

    def __init__(self, path: str | os.PathLike[str], every: int) -> None:
        self._file = CheckpointFile(path)
        self._every = every
        self._fit: dict[str, Any] = {}
        self._pending: list[str] = []  # rounds that are not written yet, as JSON
        self._token = secrets.token_hex(6)
        self._tokens_before = [batch["tables"] for batch in self._file.batches if "tables" in batch]
        self._named: list[Callable[[str], None]] = []

    def name_tables(self, drop_too: Callable[[str], None]) -> str:
        """Return a unique name for the tables of an engine.

        Parameters
        ----------
        drop_too
            A function to call with the name of each earlier, possibly killed fit, once the data has been compared.
        """
        self._named.append(drop_too)
        return f"{self._token}_{len(self._named)}"

    # --- reading ------------------------------------------------------------------------------------------------------

    def check_arguments(self, arguments: Mapping[str, Any], missing: Sequence[int]) -> None:
        """Compare the fit with that of the checkpoint.

        Parameters
        ----------
        arguments
            The arguments of the fit (see `argument_facts`).
        missing
            The number of rows in which each feature is missing.

        Raises
        ------
        ParameterError
            If an argument differs.
        DataError
            If a number of missing values differs.
        """
        named = zip(arguments["features"], missing, strict=True)
        self._compare("arguments", arguments, _check_arguments)
        self._compare("missing", {f"missing values of {name!r}": n for name, n in named}, _check_data)

    def resume(
        self, engines: FitEngines, loss: Loss, parameters: Parameters, bins: Sequence[Bins], base: Sequence[float],
        log: EvaluationLog,
    ) -> Replay:  # fmt: skip
        """Compare the data, with binned columns, with the checkpoint; return the saved rounds.

        Their metrics are added to the log.

        Raises
        ------
        DataError
            If the data differ.
        ModelFileError
            If a saved round is impossible in this fit.
        """
        p, best = parameters, set()
        rows = {f"validation rows {i}" if i else "training rows": engine for i, engine in enumerate(engines.all())}
        more = ["weight"] * engines.is_weighted + [f"init_{name}" for name in loss.margins] * (
            engines.initial is not None
        )
        more += dict.fromkeys(role for offset in engines.offsets.values() for role in offset.columns)
        self._compare("data", _data_facts(rows, loss, more, bins, base), _check_data)
        if self._named:
            self._file.append(self._fit, [], self._token)
        for number, drop_too in enumerate(self._named, 1):
            for token in self._tokens_before:
                drop_too(f"{token}_{number}")
        if self._file.batches:
            log.evaluate()  # by which functions say their names, and whether larger values are better
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
        """Replay saved rounds on the margins of engines, the training engine first.

        Unless the fit is finished, the last round is grown again and compared, to detect other data.
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
        """Return at most ``n_estimators`` saved rounds; ``columns`` are those of the history."""
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
        """Return the error for a checkpoint that is intact but impossible for this fit."""
        return ModelFileError(f"checkpoint {shown(str(self._file.path))} is damaged: {why}")

    def _check_grown(self, saved: SavedRound, trees: Sequence[Tree], metrics: Mapping[str, float]) -> None:
        """Compare a saved round with the regrown one; raise `DataError` if they differ."""
        # Trees are the same in all engines; logarithms in a metric may differ in the last digit.
        both = zip(saved.metrics.values(), metrics.values(), strict=True)
        if list(saved.trees) != list(trees):
            what = "trees"
        elif not all(math.isclose(a, b, rel_tol=_CLOSE, abs_tol=_CLOSE) or (a != a and b != b) for a, b in both):
            what = "metrics"
        else:
            return
        raise DataError(
            f"checkpoint {shown(str(self._file.path))} belongs to other data: the {what} of its last round "
            "differ; pass the same rows (with subsample in the same order), or another checkpoint"
        )

    # --- writing ------------------------------------------------------------------------------------------------------

    def end_round(self, round_: SavedRound, n_outputs: int, is_last: bool) -> None:
        """Add a finished round; write if it is time."""
        self._pending.append(to_text(_round_fields(round_, n_outputs)))
        if is_last or len(self._pending) >= self._every:
            self.close()

    def close(self) -> None:
        """Write all finished rounds."""
        if self._pending:
            rounds, self._pending = self._pending, []
            self._file.append(self._fit, rounds)


def _repeated(tree: Tree, margin: str, bin_of: Callable[[int, Physical | None], int]) -> GrownTree:
    """Return a saved tree with its moves, level by level, by node index of the tree.

    ``bin_of`` returns the bin of a numeric split (see `frameboost.training.splitter.Splitter.bin_of`).
    """
    grown = GrownTree.of(tree, margin, bin_of)
    calls = grown.calls()  # here, where its errors are caught
    return replace(grown, calls=lambda: calls)


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


# --- which fit a checkpoint is of -------------------------------------------------------------------------------------

# Facts that are long, such as all cuts of a feature, are compared by their hash.
_HASH = "blake2b:"


def argument_facts(
    loss: Loss,
    parameters: Parameters,
    features: Sequence[Feature],
    roles: Mapping[str, str],
    metrics: Mapping[str, AnyMetric],
    init_model: Ensemble | None,
    labels: Labels = (),
) -> dict[str, Any]:
    """Return the arguments of a fit that determine its model.

    ``n_estimators`` and ``early_stopping_rounds`` are not compared: from the same rounds, other values lead to the
    model of an uninterrupted fit with these values.

    Parameters
    ----------
    metrics
        The metrics by their column of the history.
    labels
        The class labels.
    """
    columns: dict[str, Any] = {}
    for role, column in roles.items():
        if not role.startswith("init_"):  # names of no column of the user's
            columns.setdefault(argument_of(role), []).append(column)
    return {
        "objective": loss.name if loss.definition is None else dict(loss.definition),
        **({"labels": list(labels)} if any(isinstance(label, str) for label in labels) else {}),
        **{name: value for name, value in parameters.shaping().items() if name != "n_estimators"},
        "features": [feature.name for feature in features],
        **columns,
        "eval_metric": list(metrics),
        "SQL of eval_metric": {column: getattr(metric, "sql", metric.name) for column, metric in metrics.items()},
        "init_model": None if init_model is None else _hashed(dump_model(init_model)),
    }


def _data_facts(
    engines: Mapping[str, Engine], loss: Loss, more_roles: Sequence[str], bins: Sequence[Bins], base: Sequence[float]
) -> dict[str, Any]:
    """Return aggregates over the rows of a fit that identify the data.

    Parameters
    ----------
    engines
        The engines by what they hold, such as ``training rows``, with their columns binned.
    loss
        The loss; its labels and further columns are compared.
    more_roles
        Further numeric roles: weights, base margins.
    bins
        The bins of the features.
    base
        The base margins.
    """
    roles = [*loss.labels, *(role for role in loss.roles if role != "qid"), *more_roles]
    rows = {name: {"number": engine.n_rows} | _sums(engine, roles) for name, engine in engines.items()}
    features = {
        f"feature {b.feature.name!r}": {
            "type": b.feature.type.name,
            "categories": _hashed(to_text(b.feature.categories)),
            "cuts": _hashed(repr([cut + 0.0 if isinstance(cut, float) else cut for cut in b.cuts])),
        }
        for b in bins
    }
    return {**rows, **features, "base margins": list(base)}


def _sums(engine: Engine, roles: Sequence[str]) -> dict[str, Any]:
    """Return minimum, maximum, sum and count of the finite values of some roles."""
    finite = {role: f"{role} - {role} = 0" for role in roles}  # bounds of times may be infinite or NULL
    present = {role: Expression(f"CASE WHEN {finite[role]} THEN {role} END", (role,)) for role in roles}
    ends = engine.aggregate({
        f"{function}_{role}": Aggregate(function, present[role]) for role in roles for function in ("min", "max")
    })  # fmt: skip
    terms = {}
    for role in roles:
        terms[f"sum_{role}"] = Expression(f"CASE WHEN {finite[role]} THEN {role} ELSE 0 END", (role,))
        terms[f"count_{role}"] = Expression(f"CASE WHEN {finite[role]} THEN 1 ELSE 0 END", (role,))
    sums = exact_sum(engine, terms)
    return {
        role: {
            "least": ends[f"min_{role}"], "greatest": ends[f"max_{role}"],
            "sum": sums[f"sum_{role}"] if math.isfinite(sums[f"sum_{role}"]) else None, "count": sums[f"count_{role}"],
        }
        for role in roles
    }  # fmt: skip


def _hashed(text: str) -> str:
    return _HASH + blake2b(text.encode(), digest_size=16).hexdigest()


# --- comparison -------------------------------------------------------------------------------------------------------


def _check_arguments(path: str, saved: object, current: object) -> None:
    """Raise `ParameterError` that names the first argument that differs."""
    for what, there, here in _differences(saved, current):
        raise ParameterError(
            f"checkpoint {shown(path)} belongs to another fit: {_different(what, there, here)}; pass the same "
            "arguments, or another checkpoint"
        )


def _check_data(path: str, saved: object, current: object) -> None:
    """Raise `DataError` that names the first fact about the data that differs."""
    for what, there, here in _differences(saved, current):
        raise DataError(
            f"checkpoint {shown(path)} belongs to other data: {_different(what, there, here)}; pass the same data, or "
            "another checkpoint"
        )


def _differences(saved: object, current: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, object, object]]:
    """Yield the differences between two JSON objects, with both values."""
    if isinstance(saved, dict) and isinstance(current, dict):
        for key in [*current, *(key for key in saved if key not in current)]:
            yield from _differences(saved.get(key), current.get(key), (*path, key))
    elif saved != current:
        yield " of ".join(reversed(path)), saved, current


def _different(what: str, there: object, here: object) -> str:
    if any(isinstance(value, str) and value.startswith(_HASH) for value in (there, here)):
        return f"the {shortened(what)} differ"
    return f"{shortened(what)} is {shown(there)} in it, and now {shown(here)}"


# --- the file ---------------------------------------------------------------------------------------------------------

_FORMAT = "frameboost checkpoint"
_VERSION = 1

_START = f'{{"format": {to_text(_FORMAT)}, '.encode()
_CHECK_BYTES = 16


class CheckpointFile:
    """A checkpoint on disk, read and verified when opened.

    Parameters
    ----------
    path
        The file; the first `append` creates it if it does not exist.

    Attributes
    ----------
    fit
        The identity of the fit, None if nothing has been written.
    batches
        The objects of all other lines.

    Raises
    ------
    ParameterError
        If the file can't be read or written.
    ModelFileError
        If it is not a checkpoint, is damaged, or comes from another release.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._path = self.path.absolute()  # stays where it is if a callback changes the folder
        self.fit: dict[str, Any] | None = None
        self.batches: list[dict[str, Any]] = []
        self._check = ""  # of the last line
        self._end = 0  # of the last line; what follows is cut
        self._size: int | None = None  # None where there is no file
        try:
            data = self._bytes()
        except OSError as error:
            raise ParameterError(f"checkpoint {shown(str(path))} can't be read: {reason(error)}") from error
        self._require_writable()
        self._read(data)

    # --- reading ------------------------------------------------------------------------------------------------------

    def _bytes(self) -> bytes:
        if self._path.exists() and not self._path.is_file():
            self._refuse(f"is no file but a {'folder' if self._path.is_dir() else 'device'}")
        if not self._path.exists():
            return b""
        data = self._path.read_bytes()
        self._size = len(data)
        return data

    def _require_writable(self) -> None:
        folder = self._path.parent
        if not folder.is_dir():
            self._refuse(f"can't be written: there is no folder {shown(str(folder))}")
        target = folder if self._size is None else self._path
        if not os.access(target, os.W_OK):
            self._refuse(f"can't be written: no permission to write to {shown(str(target))}")

    def _refuse(self, why: str) -> NoReturn:
        raise ParameterError(f"checkpoint {shown(str(self.path))} {why}")

    def _read(self, data: bytes) -> None:
        if not (data.startswith(_START) or _START.startswith(data)):
            raise ModelFileError(f"{shown(str(self.path))} is not a checkpoint of fit; use another path")
        *lines, _ = data.split(b"\n")
        for number, line in enumerate(lines):
            item = self._line(line, number)
            self._end += len(line) + 1
            if number:
                self.batches.append(item)
            else:
                self.fit = item["fit"]

    def _line(self, line: bytes, number: int) -> dict[str, Any]:
        where = f"checkpoint {shown(str(self.path))} is damaged"
        item = parse_json(line, f"{where}: line {number + 1} is not JSON", where, strict=True)
        if not isinstance(item, dict):
            raise ModelFileError(f"{where}: line {number + 1} is not an object")
        if not number:
            self._check_version(item)
        check = _check_of(self._check, _without_check(line))
        if item.get("check") != check:
            raise ModelFileError(f"{where}: line {number + 1} does not match its checksum; delete it to start again")
        self._check = check
        check_keys(item, ("rounds", "tables", "check") if number else (*_head({}), "check"), where)
        if "tables" in item and not re.fullmatch("[0-9a-f]{12}", str(item["tables"])):
            fail(f"{where}: line {number + 1}", "tables", "12 hexadecimal digits", item["tables"])
        if not isinstance(item.get("rounds" if number else "fit"), list if number else dict):
            raise ModelFileError(
                f"{where}: line {number + 1} has no {'rounds' if number else 'description of the fit'}"
            )
        return item

    def _check_version(self, head: Mapping[str, Any]) -> None:
        version, release = head.get("version"), head.get("release")
        if not is_integer(version) or version != _VERSION:
            raise ModelFileError(
                f"checkpoint {shown(str(self.path))} has version {shown_json(version)}; this release reads {_VERSION}"
            )
        if release != __version__:  # which may grow other trees
            raise ModelFileError(
                f"checkpoint {shown(str(self.path))} is of release {shown_json(release)}, and this is {__version__}; "
                "resume with that release, or delete it to start again"
            )

    # --- writing ------------------------------------------------------------------------------------------------------

    def append(self, fit: Mapping[str, Any], rounds: Sequence[str], tables: str | None = None) -> None:
        """Append a line of rounds, each as JSON, and the name of tables; the first line identifies the fit.

        Raises
        ------
        DataError
            If another process changed the file meanwhile.
        OSError
            If the disk is full, or gone.
        """
        check, lines = self._check, []
        bodies = [] if self._end else [to_text(_head(fit))]
        named = "" if tables is None else f', "tables": {to_text(tables)}'
        for body in (*bodies, f'{{"rounds": [{", ".join(rounds)}]{named}}}'):
            check = _check_of(check, body.encode())
            lines.append(f'{body[:-1]}, "check": "{check}"}}\n'.encode())
        added = b"".join(lines)
        self._write(added)
        self._check = check
        self._end = self._size = self._end + len(added)

    def _write(self, added: bytes) -> None:
        try:
            with self._path.open("xb" if self._size is None else "r+b") as file:
                if file.seek(0, os.SEEK_END) != (self._size or 0):
                    raise FileExistsError
                file.seek(self._end)
                file.truncate()
                file.write(added)
                file.flush()
                os.fsync(file.fileno())
        except (FileExistsError, FileNotFoundError) as error:
            raise DataError(
                f"checkpoint {shown(str(self.path))} was changed or deleted while the fit ran; use one file for "
                "each fit"
            ) from error
        except OSError as error:  # the next fit ignores a line that is cut
            what = f"checkpoint {shown(str(self.path))} can't be written: {error.strerror}"
            raise OSError(error.errno, what) from error


def _head(fit: Mapping[str, Any]) -> dict[str, Any]:
    return {"format": _FORMAT, "version": _VERSION, "release": __version__, "fit": fit}


def _check_of(before: str, body: bytes) -> str:
    """Return the checksum of a line, from that of the line before."""
    return blake2b(before.encode() + body, digest_size=_CHECK_BYTES).hexdigest()


def _without_check(line: bytes) -> bytes:
    """Return the line without the checksum at its end."""
    return line[: -len(', "check": ""}') - 2 * _CHECK_BYTES] + b"}"
