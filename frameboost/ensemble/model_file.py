"""The model file: canonical JSON (equal models have equal files), of which every field is checked when it is read.

Its binary form is UBJSON: the text of all but the trees, and the trees as arrays of numbers (see `tree_columns`).
``docs/model-file.md`` documents both field by field.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from operator import lt
from typing import Any

import numpy as np
import numpy.typing as npt

from frameboost.checks.json_files import (
    check_keys,
    fail,
    is_finite,
    is_integer,
    parse_json,
    read_list,
    read_ubjson,
    shown_json,
    to_text,
    to_ubjson,
)
from frameboost.ensemble.ensemble import Ensemble, Labels
from frameboost.ensemble.interval_file import interval_fields, read_interval
from frameboost.ensemble.joins_file import joins_fields, read_joins
from frameboost.ensemble.linear_file import check_linear
from frameboost.ensemble.plain_trees import are_plain
from frameboost.ensemble.training_record import TrainingRecord, read_training, training_fields
from frameboost.ensemble.tree_columns import ColumnTrees, TreeColumns, are_linear
from frameboost.ensemble.tree_file import check_tree, read_float, read_tree, tree_fields, writable
from frameboost.errors import FrameboostError, ModelFileError, ParameterError
from frameboost.expressions.expression import Expression
from frameboost.losses.built_in import get_loss
from frameboost.losses.custom import FOREIGN_FIELDS, Objective, read_foreign_loss
from frameboost.losses.loss import Loss, multi_target_loss
from frameboost.losses.offset import EXPOSURE, Offset, offset_of
from frameboost.parameters.parameters import Parameters
from frameboost.schema.types import Feature, FeatureType
from frameboost.trees.leaf_grid import NodeValues, are_on_leaf_grid, largest_leaves, largest_values, on_leaf_grid
from frameboost.trees.tree import Tree

__all__ = ["BINARY_START", "FORMAT", "VERSION", "dump_binary", "dump_model", "read_model", "with_training"]

FORMAT = "frameboost"
VERSION = 1

# A binary file starts with the field of the text, which no file of XGBoost has.
_TEXT, _TREES = "frameboost", "trees"
BINARY_START = to_ubjson({_TEXT: ""})[: -len(to_ubjson("")) - 1]

_FIELDS_BUT_TREES = (
    "format",
    "version",
    "objective",
    "labels",
    "parameters",
    "base_margin",
    "calibration",
    "interval",
    "joins",
    "offset",
    "training",
    "features",
)
_FIELDS = (*_FIELDS_BUT_TREES, "trees")
IntArray = npt.NDArray[np.int64]
_MAX_TARGETS = 10_000
_FEATURES = '\n"features": ['  # where that line starts, as no string in JSON has a line's end in it
_OBJECTIVE_FIELDS = ("gradient", "hessian", "link", "metric")


# --- writing ----------------------------------------------------------------------------------------------------------


def dump_model(ensemble: Ensemble) -> str:
    """Return the text of a model file, with a line for each feature and each tree, so that diff can compare models.

    It does not say how the model was trained, so that equal models have equal texts.
    """
    trees = [tree_fields(tree, ensemble.loss.n_outputs) for tree in ensemble.trees]
    return _text(ensemble, trees)


def with_training(text: str, record: TrainingRecord) -> str:
    """Return the text of a model file with a line that says how the model was trained, if that is known."""
    fields = training_fields(record)
    return text.replace(_FEATURES, f'\n"training": {to_text(fields)},{_FEATURES}', 1) if fields else text


def dump_binary(ensemble: Ensemble) -> bytes:
    """Return the binary form of a model file."""
    trees = TreeColumns.of(ensemble.trees).fields(ensemble.loss.n_outputs)
    return to_ubjson({_TEXT: with_training(_text(ensemble), ensemble.training), _TREES: trees})


def _text(ensemble: Ensemble, *lists: Sequence[object]) -> str:
    """Return the text of a file, with the list of trees if it is given."""
    features = [
        {"name": f.name, "type": f.type.name}
        | ({"categories": [writable(value) for value in f.categories]} if f.type.is_categorical else {})
        | ({"zero_is_missing": True} if f.zero_is_missing else {})
        for f in ensemble.features
    ]
    head: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "objective": ensemble.loss.name if ensemble.loss.definition is None else dict(ensemble.loss.definition),
        **({"labels": list(ensemble.labels)} if ensemble.labels else {}),
        "parameters": dict(sorted(ensemble.parameters.items())),
        "base_margin": ensemble.base_margins[0] if ensemble.loss.n_outputs == 1 else list(ensemble.base_margins),
    }
    if ensemble.calibration is not None:
        head["calibration"] = ensemble.calibration.text
    if ensemble.interval is not None:
        head["interval"] = interval_fields(ensemble.interval)
    if ensemble.joins:
        head["joins"] = joins_fields(ensemble.joins)
    if ensemble.offset is not None:
        head["offset"] = ensemble.offset.arguments
    lines = [f"{to_text(key)}: {to_text(value)}" for key, value in head.items()]
    lines += [f'"features": {_lines(features)}', *(f'"trees": {_lines(trees)}' for trees in lists)]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _lines(items: Sequence[object]) -> str:
    return "[\n" + ",\n".join(map(to_text, items)) + "\n]"


# --- reading ----------------------------------------------------------------------------------------------------------


def read_model(data: bytes) -> Ensemble:
    """Read and check a model file.

    Raises
    ------
    ModelFileError
        If the file is not a model, or is damaged; the message says what is wrong, and where.
    """
    data, binary_trees = _parts(data)
    document = parse_json(data, "not a frameboost model: the file is not JSON", "damaged model", strict=True)
    if not isinstance(document, dict):
        raise ModelFileError("not a frameboost model: the file holds no JSON object")
    if document.get("format") != FORMAT:
        fail("not a frameboost model", "format", f'"{FORMAT}"', document.get("format"))
    version = document.get("version")
    if not is_integer(version) or version != VERSION:
        raise ModelFileError(f"the model file has version {shown_json(version)}; this release reads version {VERSION}")
    check_keys(document, _FIELDS if binary_trees is None else _FIELDS_BUT_TREES, "damaged model")
    if binary_trees is not None:
        document["trees"] = TreeColumns.read(binary_trees)
    read, parameters = _parameters(document)
    loss = _loss(document, read)
    features = tuple(_feature(item, i) for i, item in enumerate(read_list(document, "features")))
    names = [feature.name for feature in features]
    if not names:
        raise ModelFileError("damaged model: it has no features")
    if len(set(names)) < len(names):
        raise ModelFileError("damaged model: two features have the same name")
    base_margins = _base_margins(document, loss)
    trees, given = _trees(document, features, loss.n_outputs), document["trees"]
    nodes = given.node_values() if isinstance(given, TreeColumns) else NodeValues.of(trees)
    _check_rounds(nodes.output, loss, parameters)
    _check_sums(base_margins, trees, nodes)
    calibration, labels = _calibration(document, loss), _labels(document, loss)
    interval = read_interval(document["interval"], loss) if "interval" in document else None
    joins = read_joins(read_list(document, "joins")) if "joins" in document else ()
    offset = _offset(document["offset"], loss, names) if "offset" in document else None
    training = read_training(document["training"]) if "training" in document else TrainingRecord()
    return Ensemble(
        loss, parameters, features, base_margins, trees, calibration, labels, interval, joins, offset, training
    )


def _parts(data: bytes) -> tuple[bytes, dict[str, Any] | None]:
    """Return the text of a file, and the trees where they are not in the text."""
    if not data.startswith(BINARY_START):
        return data, None
    binary = read_ubjson(data, "damaged model: it is not UBJSON", arrays=True)
    check_keys(binary, (_TEXT, _TREES), "damaged model")
    if not isinstance(binary[_TEXT], str):
        fail("damaged model", _TEXT, "text", "something else")
    if not isinstance(binary.get(_TREES), dict):
        fail("damaged model", _TREES, "an object", None)
    return binary[_TEXT].encode("utf-8"), binary[_TREES]


def _trees(document: Mapping[str, Any], features: Sequence[Feature], n_outputs: int) -> Sequence[Tree]:
    given = document.get("trees")
    if not isinstance(given, TreeColumns):
        items = enumerate(read_list(document, "trees"))
        return tuple(read_tree(item, i, features, n_outputs) for i, item in items)
    if are_plain(given, features, n_outputs):
        if not given.linear:
            return ColumnTrees(given)
        trees = given.trees()
        for i, tree in enumerate(trees):
            check_linear(tree, features, f"damaged model, tree {i}")
        return trees
    return tuple(check_tree(tree, i, features, n_outputs) for i, tree in enumerate(given.trees()))


def _loss(document: Mapping[str, Any], parameters: Parameters) -> Loss:
    given = document.get("objective")
    try:
        if isinstance(given, dict):
            check_keys(given, FOREIGN_FIELDS if "links" in given else _OBJECTIVE_FIELDS, "damaged model, objective")
            if "links" in given:
                _check_outputs(document, len(given["links"]) if isinstance(given["links"], list) else 1)
                return read_foreign_loss(given)
            return _of_targets(Objective(**{key: _string(given, key) for key in given}).loss(), document)
        if not isinstance(given, str):
            fail("damaged model", "objective", "a name or an object", given)
        if given.startswith("multi:"):
            _check_classes(document, parameters.num_class)
        return _of_targets(get_loss(given, parameters.as_dict()), document)
    except (FrameboostError, TypeError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"damaged model: {error}") from error


def _check_classes(document: Mapping[str, Any], num_class: int | None) -> None:
    """Check that there are a margin and a tree for each class, before a loss of that many classes is made."""
    margins = document.get("base_margin")
    n_margins = len(margins) if isinstance(margins, list) else 1
    if num_class is None or n_margins != num_class:
        fail("damaged model", "base_margin", f"a list of {num_class} finite numbers", margins)
    _check_outputs(document, num_class)


def _check_outputs(document: Mapping[str, Any], n_outputs: int) -> None:
    """Check that there is a tree for each output, before a loss of that many outputs is made."""
    trees = document.get("trees")
    n_trees = len(trees if isinstance(trees, TreeColumns) else read_list(document, "trees"))
    if n_trees < n_outputs:
        raise ModelFileError(f"damaged model: its {n_trees} trees are not whole rounds of {n_outputs} outputs")


def _of_targets(loss: Loss, document: Mapping[str, Any]) -> Loss:
    """Return the loss over one target for each base margin, if the loss itself has one output."""
    margins = document.get("base_margin")
    if loss.n_outputs == 1 and isinstance(margins, list) and 1 < len(margins) <= _MAX_TARGETS:
        _check_outputs(document, len(margins))
        return multi_target_loss(loss, len(margins))
    return loss


def _string(item: Mapping[str, Any], key: str) -> str:
    if not isinstance(item[key], str):
        fail("damaged model, objective", key, "a string", item[key])
    return str(item[key])


def _base_margins(document: Mapping[str, Any], loss: Loss) -> tuple[float, ...]:
    given = document.get("base_margin")
    values = [given] if loss.n_outputs == 1 else given
    if not isinstance(values, list) or len(values) != loss.n_outputs or not all(map(is_finite, values)):
        wanted = "a finite number" if loss.n_outputs == 1 else f"a list of {loss.n_outputs} finite numbers"
        fail("damaged model", "base_margin", wanted, given)
    return tuple(map(float, values))


def _calibration(document: Mapping[str, Any], loss: Loss) -> Expression | None:
    text = document.get("calibration")
    if text is None:
        return None
    if not isinstance(text, str) or loss.n_outputs > 1:
        fail("damaged model", "calibration", "a SQL expression, of a model with one output", text)
    try:
        return Expression(text, ("margin",)).required_number("the link")
    except FrameboostError as error:
        raise ModelFileError(f"damaged model, calibration: {error}") from error


def _offset(given: object, loss: Loss, features: Sequence[str]) -> Offset | None:
    kinds = ("base_margin", EXPOSURE)
    if not isinstance(given, dict) or len(given) != 1 or next(iter(given)) not in kinds:
        fail("damaged model", "offset", 'an object with "base_margin" or "exposure"', given)
    [(kind, named)] = given.items()
    names = [named] if isinstance(named, str) else named
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        fail("damaged model, offset", kind, "a string or a list of strings", named)
    if kind == EXPOSURE and not isinstance(named, str):
        fail("damaged model, offset", kind, "a string", named)
    if taken := [name for name in names if name in features]:
        fail("damaged model, offset", kind, "no feature of the model", taken[0])
    try:
        return offset_of(loss, given)
    except ParameterError as error:
        raise ModelFileError(f"damaged model, offset: {error}") from error


def _labels(document: Mapping[str, Any], loss: Loss) -> Labels:
    if "labels" not in document:
        return ()
    given = document["labels"]
    if loss.classes == 2 and to_text(given) == "[false, true]":
        return (False, True)
    if not isinstance(given, list) or not all(isinstance(label, str) for label in given) or len(loss.labels) > 1:
        fail("damaged model", "labels", "a list of strings or [false, true], of a model of classes", given)
    if not loss.classes or len(given) != loss.classes or len(set(given)) < len(given):
        fail("damaged model", "labels", f"the different labels of the {loss.classes} classes", given)
    return tuple(given)


def _check_rounds(outputs: IntArray, loss: Loss, parameters: Mapping[str, Any]) -> None:
    """Check that the trees are whole rounds: ``num_parallel_tree`` trees for each output in turn."""
    side_by_side, n_trees = int(parameters.get("num_parallel_tree", 1)), len(outputs)
    if not n_trees:
        raise ModelFileError("damaged model: it has no trees")
    in_order = (outputs == np.arange(n_trees) // side_by_side % loss.n_outputs).all()
    if n_trees % (side_by_side * loss.n_outputs) or not in_order:
        raise ModelFileError(
            f"damaged model: its {n_trees} trees are not whole rounds of {side_by_side} for each of "
            f"{loss.n_outputs} outputs in turn"
        )


def _parameters(document: Mapping[str, Any]) -> tuple[Parameters, dict[str, Any]]:
    """Return the parameters, with defaults for those that the file lacks, and those that it has."""
    given = document.get("parameters")
    if not isinstance(given, dict):
        fail("damaged model", "parameters", "an object", given)
    try:
        parameters = Parameters.from_keywords(given)
    except FrameboostError as error:
        raise ModelFileError(f"damaged model: {error}") from error
    read = parameters.shaping()
    check_keys(given, tuple(read), "damaged model, parameters")
    for name, value in given.items():
        if value != read[name]:  # such as "auto", which training replaces by a value
            fail("damaged model, parameters", name, to_text(read[name]), value)
    # Parameters that the file lacks, as files of older releases do, are not filled in.
    return parameters, {name: read[name] for name in given}


def _feature(item: object, number: int) -> Feature:
    where = f"damaged model, feature {number}"
    if not isinstance(item, dict) or not isinstance(item.get("name"), str):
        raise ModelFileError(f"{where}: it must be an object with a name")
    check_keys(item, ("name", "type", "categories", "zero_is_missing"), where)
    try:
        kind = FeatureType(item.get("type"))  # type: ignore[arg-type]
    except (ValueError, TypeError):
        fail(where, "type", "a feature type", item.get("type"))
    if not kind.is_categorical:
        check_keys(item, ("name", "type", "zero_is_missing"), where)
        zero_is_missing = item.get("zero_is_missing", False)
        if not isinstance(zero_is_missing, bool) or (zero_is_missing and not kind.is_float):
            fail(where, "zero_is_missing", "true, on a float feature, or false", zero_is_missing)
        return Feature(item["name"], kind, zero_is_missing=zero_is_missing)
    check_keys(item, ("name", "type", "categories"), where)
    categories = given = read_list(item, "categories", where)
    if kind.is_float:
        categories = [read_float(kind, value) for value in given]
    # There may be a hundred thousand strings, for which a call for each takes longest.
    are_accepted = set(map(type, categories)) <= {str} if kind.name == "string" else all(map(kind.accepts, categories))
    if not are_accepted or not all(map(lt, categories, categories[1:])):
        what = {"string": "strings", "codes": "integers"}.get(kind.name, f"values of type {kind.values}")
        fail(where, "categories", f"sorted, distinct {what}", given)
    return Feature(item["name"], kind, tuple(categories))


def _check_sums(base_margins: Sequence[float], trees: Sequence[Tree], nodes: NodeValues) -> None:
    """Check that leaves are on their grid and sums are finite, so that every sum is exact and equal in every engine."""
    linear = trees if are_linear(trees) else ()  # others stay columns
    largest = largest_values(nodes, linear) if linear else largest_leaves(nodes)
    if not math.isfinite(sum([*map(abs, base_margins), *largest])):
        raise ModelFileError("damaged model: its margins are not finite")
    with suppress(OverflowError):  # the value of an inner node may be far beyond those of the leaves
        if are_on_leaf_grid(base_margins, nodes, linear, largest):
            return
    leaves = [
        replace(tree, value=tuple(v if tree.is_leaf(node) else 0.0 for node, v in enumerate(tree.value)))
        for tree in trees
    ]
    bases_on_grid, on_grid = on_leaf_grid(base_margins, leaves)
    if bases_on_grid != tuple(base_margins):
        fail("damaged model", "base_margin", "on the grid of the leaf values", list(base_margins))
    for number, (tree, rounded) in enumerate(zip(leaves, on_grid, strict=True)):
        for node, value in enumerate(tree.value):
            if rounded.value[node] != value:
                fail(f"damaged model, tree {number}, node {node}", "value", "on the grid of the leaf values", value)
        if rounded.linear != tree.linear:
            raise ModelFileError(f'damaged model, tree {number}: "linear" must be on the grid of the leaf values')
