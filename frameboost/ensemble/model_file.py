"""The model file: canonical JSON (equal models have equal files), validated field by field when read.

The binary form is UBJSON: text for all but the trees, and the trees as arrays (see `tree_file`). ``docs/model-file.md``
documents both field by field.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from operator import lt
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import polars as pl

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
from frameboost.ensemble.baseline import baseline_fields, read_baseline
from frameboost.ensemble.ensemble import Ensemble, Labels, TrainingRecord
from frameboost.ensemble.metadata import Metadata, metadata_fields, read_metadata
from frameboost.ensemble.tree_file import (
    parse_tree_lines,
    read_float,
    read_tree_arrays,
    read_trees,
    tree_arrays,
    tree_lines,
    writable,
)
from frameboost.errors import FrameboostError, ModelFileError, ParameterError
from frameboost.expressions.expression import Expression
from frameboost.joins.aggregates import COUNT, FUNCTIONS, Aggregation, Value
from frameboost.joins.star_sources import KeyColumn, TableJoin
from frameboost.losses.built_in import adjusted, get_loss
from frameboost.losses.custom import FOREIGN_FIELDS, SOFTMAX, Objective, read_foreign_loss
from frameboost.losses.loss import EXPOSURE, Loss, Offset, multi_target_loss, offset_of
from frameboost.losses.outputs import DISTANCE, LOOKUP_TYPES, Interval, Lookup, kind_of
from frameboost.parameters.parameters import Parameters
from frameboost.schema.types import Feature, FeatureType
from frameboost.trees.tree import NodeValues, Tree, TreeColumns, are_on_leaf_grid, largest_values, on_leaf_grid

__all__ = [
    "BINARY_START", "FORMAT", "VERSION", "dump_binary", "dump_file", "dump_model", "model_hash", "read_model",
]  # fmt: skip

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
    "metadata",
    "training",
    "baseline",
    "features",
)
_FIELDS = (*_FIELDS_BUT_TREES, "trees")
IntArray = npt.NDArray[np.int64]
_MAX_TARGETS = 10_000
# How the trees start and the file ends, as no string in JSON has a line's end in it.
_TREES_START, _TREES_END, _END = ',\n"trees": [\n', "\n]\n}\n", "\n}\n"
_OBJECTIVE_FIELDS = ("gradient", "hessian", "link", "metric")


# --- writing ----------------------------------------------------------------------------------------------------------


def dump_model(ensemble: Ensemble) -> str:
    """Return the text of a model file, with a line for each feature and tree, so that diff can compare models.

    It excludes the training record, so that equal models have equal texts.
    """
    return _text(ensemble, has_records=False)


def model_hash(ensemble: Ensemble) -> str:
    """Return the SHA-256 of the text of a model file; equal models have equal hashes."""
    return sha256(dump_model(ensemble.in_file or ensemble).encode("utf-8")).hexdigest()


def dump_file(ensemble: Ensemble) -> str:
    """Return the text of a model file including the records that do not affect equality."""
    return _text(ensemble)


def dump_binary(ensemble: Ensemble) -> bytes:
    """Return the binary form of a model file."""
    trees = tree_arrays(TreeColumns.of(ensemble.trees), ensemble.loss.n_outputs)
    return to_ubjson({_TEXT: _text(ensemble, has_trees=False), _TREES: trees})


def _text(ensemble: Ensemble, *, has_records: bool = True, has_trees: bool = True) -> str:
    """Return the text of a file, with a line for each record of training and data, and the lines of the trees."""
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
        head["interval"] = _interval_fields(ensemble.interval)
    if ensemble.joins:
        head["joins"] = _joins_fields(ensemble.joins)
    if ensemble.offset is not None:
        head["offset"] = ensemble.offset.arguments
    if has_records:
        records = {
            "metadata": metadata_fields(ensemble.metadata),
            "training": _training_fields(ensemble.training),
            "baseline": {} if ensemble.baseline is None else baseline_fields(ensemble.baseline),
        }
        head |= {key: fields for key, fields in records.items() if fields}
    lines = [f"{to_text(key)}: {to_text(value)}" for key, value in head.items()]
    lines.append('"features": [\n' + ",\n".join(map(to_text, features)) + "\n]")
    parts = ["{\n", ",\n".join(lines), _END]
    if has_trees:
        trees = tree_lines(TreeColumns.of(ensemble.trees), ensemble.loss.n_outputs)
        parts[2:] = [_TREES_START, trees, _TREES_END]
    return "".join(parts)


# --- reading ----------------------------------------------------------------------------------------------------------


def read_model(data: bytes) -> Ensemble:
    """Read and check a model file.

    Raises
    ------
    ModelFileError
        If the file is not a model, or is damaged; the message contains the fault and its path in the file.
    """
    data, columns = _parts(data)
    document = parse_json(data, "not a frameboost model: the file is not JSON", "damaged model", strict=True)
    if not isinstance(document, dict):
        raise ModelFileError("not a frameboost model: the file holds no JSON object")
    if document.get("format") != FORMAT:
        fail("not a frameboost model", "format", f'"{FORMAT}"', document.get("format"))
    version = document.get("version")
    if not is_integer(version) or version != VERSION:
        raise ModelFileError(f"the model file has version {shown_json(version)}; this release reads version {VERSION}")
    check_keys(document, _FIELDS if columns is None else _FIELDS_BUT_TREES, "damaged model")
    if columns is not None:
        document["trees"] = read_tree_arrays(columns) if isinstance(columns, dict) else columns
    read, parameters = _parameters(document)
    loss = _loss(document, read)
    features = tuple(_feature(item, i) for i, item in enumerate(read_list(document, "features")))
    names = [feature.name for feature in features]
    if not names:
        raise ModelFileError("damaged model: it has no features")
    if len(set(names)) < len(names):
        raise ModelFileError("damaged model: two features have the same name")
    base_margins = _base_margins(document, loss)
    stored = document["trees"] if columns is not None else read_list(document, "trees")
    trees = read_trees(stored, features, loss.n_outputs)
    nodes = stored.node_values() if isinstance(stored, TreeColumns) else NodeValues.of(trees)
    _check_rounds(nodes.output, loss, parameters)
    _check_sums(base_margins, trees, nodes)
    calibration, labels = _calibration(document, loss), _labels(document, loss)
    interval = _read_interval(document["interval"], loss) if "interval" in document else None
    joins = _read_joins(read_list(document, "joins")) if "joins" in document else ()
    offset = _offset(document["offset"], loss, names) if "offset" in document else None
    training = _read_training(document["training"]) if "training" in document else TrainingRecord()
    metadata = read_metadata(document["metadata"]) if "metadata" in document else Metadata()
    baseline = read_baseline(document["baseline"], features, loss.n_predictions) if "baseline" in document else None
    return Ensemble(
        loss, parameters, features, base_margins, trees, calibration, labels, interval, joins, offset, training,
        metadata, baseline,
    )  # fmt: skip


def _parts(data: bytes) -> tuple[bytes, TreeColumns | dict[str, Any] | None]:
    """Return the text of a file without its trees, and these; None for trees that must be read node by node."""
    if not data.startswith(BINARY_START):
        head, start, lines = data.partition(_TREES_START.encode())
        is_as_written = start and lines.endswith(_TREES_END.encode()) and b'"trees"' not in head
        trees = parse_tree_lines(lines[: -len(_TREES_END)]) if is_as_written else None
        return (data, None) if trees is None else (head + _END.encode(), trees)
    binary = read_ubjson(data, "damaged model: it is not UBJSON", arrays=True)
    check_keys(binary, (_TEXT, _TREES), "damaged model")
    if not isinstance(binary[_TEXT], str):
        fail("damaged model", _TEXT, "text", "something else")
    if not isinstance(binary.get(_TREES), dict):
        fail("damaged model", _TREES, "an object", None)
    return binary[_TEXT].encode("utf-8"), binary[_TREES]


def _loss(document: Mapping[str, Any], parameters: Parameters) -> Loss:
    try:
        return adjusted(_unadjusted(document, parameters), parameters.as_dict())
    except (FrameboostError, TypeError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"damaged model: {error}") from error


def _unadjusted(document: Mapping[str, Any], parameters: Parameters) -> Loss:
    item = document.get("objective")
    if isinstance(item, dict):
        check_keys(item, FOREIGN_FIELDS if "links" in item else _OBJECTIVE_FIELDS, "damaged model, objective")
        if "links" in item:
            links, classes = item["links"], item.get("classes")
            n_outputs: Any = len(links) if isinstance(links, list) else classes if links == SOFTMAX else 1
            _check_outputs(document, n_outputs if is_integer(n_outputs) else 1)
            return _of_targets(read_foreign_loss(item), document)
        return _of_targets(Objective(**{key: _string(item, key) for key in item}).loss(), document)
    if not isinstance(item, str):
        fail("damaged model", "objective", "a name or an object", item)
    if item.startswith("multi:"):
        _check_classes(document, parameters.num_class)
    return _of_targets(get_loss(item, parameters.as_dict()), document)


def _check_classes(document: Mapping[str, Any], num_class: int | None) -> None:
    """Check that each class has a margin and a tree, before constructing a loss of that many classes."""
    margins = document.get("base_margin")
    n_margins = len(margins) if isinstance(margins, list) else 1
    if num_class is None or n_margins != num_class:
        fail("damaged model", "base_margin", f"a list of {num_class} finite numbers", margins)
    _check_outputs(document, num_class)


def _check_outputs(document: Mapping[str, Any], n_outputs: int) -> None:
    """Check that each output has a tree, before constructing a loss of that many outputs."""
    trees = document.get("trees")
    n_trees = len(trees if isinstance(trees, TreeColumns) else read_list(document, "trees"))
    if n_trees < n_outputs:
        raise ModelFileError(f"damaged model: its {n_trees} trees are not whole rounds of {n_outputs} outputs")


def _of_targets(loss: Loss, document: Mapping[str, Any]) -> Loss:
    """Return the loss over one target per base margin, if the loss itself has one output."""
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
    item = document.get("base_margin")
    values = [item] if loss.n_outputs == 1 else item
    if not isinstance(values, list) or len(values) != loss.n_outputs or not all(map(is_finite, values)):
        expected = "a finite number" if loss.n_outputs == 1 else f"a list of {loss.n_outputs} finite numbers"
        fail("damaged model", "base_margin", expected, item)
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


def _offset(item: object, loss: Loss, features: Sequence[str]) -> Offset | None:
    kinds = ("base_margin", EXPOSURE)
    if not isinstance(item, dict) or len(item) != 1 or next(iter(item)) not in kinds:
        fail("damaged model", "offset", 'an object with "base_margin" or "exposure"', item)
    [(kind, named)] = item.items()
    names = [named] if isinstance(named, str) else named
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        fail("damaged model, offset", kind, "a string or a list of strings", named)
    if kind == EXPOSURE and not isinstance(named, str):
        fail("damaged model, offset", kind, "a string", named)
    if feature_names := [name for name in names if name in features]:
        fail("damaged model, offset", kind, "no feature of the model", feature_names[0])
    try:
        return offset_of(loss, item)
    except ParameterError as error:
        raise ModelFileError(f"damaged model, offset: {error}") from error


def _labels(document: Mapping[str, Any], loss: Loss) -> Labels:
    if "labels" not in document:
        return ()
    item = document["labels"]
    if loss.classes == 2 and to_text(item) == "[false, true]":
        return (False, True)
    if not isinstance(item, list) or not all(isinstance(label, str) for label in item) or len(loss.labels) > 1:
        fail("damaged model", "labels", "a list of strings or [false, true], of a model of classes", item)
    if not loss.classes or len(item) != loss.classes or len(set(item)) < len(item):
        fail("damaged model", "labels", f"the different labels of the {loss.classes} classes", item)
    return tuple(item)


def _check_rounds(outputs: IntArray, loss: Loss, parameters: Mapping[str, Any]) -> None:
    """Check that trees form whole rounds: ``num_parallel_tree`` trees for each output in turn."""
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
    """Return the parameters, with defaults for missing ones, and those in the file."""
    item = document.get("parameters")
    if not isinstance(item, dict):
        fail("damaged model", "parameters", "an object", item)
    try:
        parameters = Parameters.from_keywords(item)
    except FrameboostError as error:
        raise ModelFileError(f"damaged model: {error}") from error
    read = parameters.shaping()
    check_keys(item, tuple(read), "damaged model, parameters")
    for name, value in item.items():
        if value != read[name]:  # such as "auto", which training replaces by a value
            fail("damaged model, parameters", name, to_text(read[name]), value)
    # Parameters that the file lacks, as files of older releases do, are not filled in.
    return parameters, {name: read[name] for name in item}


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
    values = read_list(item, "categories", where)
    categories: list[Any] = [read_float(kind, value) for value in values] if kind.is_float else values
    # There may be a hundred thousand strings, for which a call for each takes longest.
    are_accepted = set(map(type, categories)) <= {str} if kind.name == "string" else all(map(kind.accepts, categories))
    if not are_accepted or not all(map(lt, categories, categories[1:])):
        what = {"string": "strings", "codes": "integers"}.get(kind.name, f"values of type {kind.values}")
        fail(where, "categories", f"sorted, distinct {what}", values)
    return Feature(item["name"], kind, tuple(categories))


def _check_sums(base_margins: Sequence[float], trees: Sequence[Tree], nodes: NodeValues) -> None:
    """Check that leaves are on their grid and sums are finite, so that every sum is exact in every engine."""
    largest = largest_values(nodes)
    if not math.isfinite(sum([*map(abs, base_margins), *largest])):
        raise ModelFileError("damaged model: its margins are not finite")
    with suppress(OverflowError):  # the value of an inner node may be far beyond those of the leaves
        if are_on_leaf_grid(base_margins, nodes, largest):
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


# --- intervals --------------------------------------------------------------------------------------------------------

_INTERVAL = "damaged model, interval"
_INTERVAL_FIELDS = ("coverage", "rows", "kind", "distance", "quantiles", "groups")
_GROUP_FIELDS = ("column", "type", "values", "distances")


def _interval_fields(interval: Interval) -> dict[str, Any]:
    """Return the interval as a JSON object."""
    fields: dict[str, Any] = {
        "coverage": interval.coverage, "rows": interval.rows, "kind": interval.kind, "distance": interval.distance,
    }  # fmt: skip
    if interval.quantiles:
        fields["quantiles"] = list(interval.quantiles)
    if (groups := interval.groups) is not None:
        values = [bool(value) for value in groups.values] if groups.type.name == "boolean" else list(groups.values)
        fields["groups"] = {
            "column": groups.column, "type": groups.type.name, "values": values, "distances": list(groups.numbers),
        }  # fmt: skip
    return fields


def _read_interval(item: object, loss: Loss) -> Interval:
    """Return the interval in a file, or raise `ModelFileError`."""
    if not isinstance(item, dict):
        fail("damaged model", "interval", "an object", item)
    check_keys(item, _INTERVAL_FIELDS, _INTERVAL)
    coverage, rows, kind = item.get("coverage"), item.get("rows"), item.get("kind")
    if not is_finite(coverage) or not 0 < cast("float", coverage) < 1:
        fail(_INTERVAL, "coverage", "a number between 0 and 1", coverage)
    if not is_integer(rows) or cast("int", rows) < 1:
        fail(_INTERVAL, "rows", "an integer of at least 1", rows)
    _check_interval_kind(kind, loss)
    of_quantiles = kind == "quantiles"
    distance = _distance(item.get("distance"), "distance", may_be_negative=of_quantiles)
    quantiles = _quantiles(item, loss) if of_quantiles or "quantiles" in item else ()
    groups = _groups(item["groups"], distance, may_be_negative=of_quantiles) if "groups" in item else None
    return Interval(float(cast("float", coverage)), cast("int", rows), cast("Any", kind), distance, quantiles, groups)


def _check_interval_kind(kind: object, loss: Loss) -> None:
    try:
        usual = kind_of(loss)
    except ParameterError as error:
        raise ModelFileError(f"{_INTERVAL}: {error}") from error
    # A loss that scales may also have intervals of one width.
    allowed = ("scaled", "absolute") if usual == "scaled" else (usual,)
    if kind not in allowed:
        fail(_INTERVAL, "kind", " or ".join(f'"{name}"' for name in allowed), kind)


def _distance(value: object, key: str, *, may_be_negative: bool) -> float:
    if not is_finite(value) or (cast("float", value) < 0 and not may_be_negative):
        fail(_INTERVAL, key, "a finite number" + ("" if may_be_negative else " of 0 or more"), value)
    return float(cast("float", value))


def _quantiles(item: Mapping[str, Any], loss: Loss) -> tuple[int, int]:
    numbers = read_list(item, "quantiles", _INTERVAL)
    are_two = len(numbers) == 2 and all(map(is_integer, numbers)) and item["kind"] == "quantiles"
    if not are_two or not 0 <= numbers[0] < numbers[1] < loss.n_outputs:
        expected = "the numbers of two quantiles in ascending order, of intervals of that kind"
        fail(_INTERVAL, "quantiles", expected, numbers)
    return numbers[0], numbers[1]


def _groups(item: object, otherwise: float, *, may_be_negative: bool) -> Lookup:
    if not isinstance(item, dict):
        fail(_INTERVAL, "groups", "an object", item)
    where = f"{_INTERVAL}, groups"
    check_keys(item, _GROUP_FIELDS, where)
    column, name = item.get("column"), item.get("type")
    if not isinstance(column, str):
        fail(where, "column", "a string", column)
    if not isinstance(name, str) or name not in LOOKUP_TYPES:
        fail(where, "type", " or ".join(f'"{kind}"' for kind in LOOKUP_TYPES), name)
    kind = FeatureType(name)
    values, distances = read_list(item, "values", where), read_list(item, "distances", where)
    is_boolean = kind.name == "boolean"
    accepted = (isinstance(value, bool) if is_boolean else kind.accepts(value) for value in values)
    if not values or not all(accepted) or not all(map(lt, values, values[1:])):
        fail(where, "values", "sorted, distinct values of its type", values)
    if len(distances) != len(values):
        fail(where, "distances", "a number for each value", distances)
    numbers = tuple(_distance(value, "distances", may_be_negative=may_be_negative) for value in distances)
    physical = tuple(map(int, values)) if is_boolean else tuple(values)
    return Lookup(DISTANCE, column, kind, physical, numbers, otherwise)


# --- joins ------------------------------------------------------------------------------------------------------------

_JOIN_FIELDS = ("table", "on", "columns", "aggregation")
_KEY_FIELDS = ("left", "right", "text")
_AGGREGATION_FIELDS = ("by", "values", "time", "before", "types")
_VALUE_FIELDS = ("function", "column")


def _joins_fields(joins: Sequence[TableJoin]) -> list[dict[str, Any]]:
    """Return the joins as JSON objects."""
    return [
        {
            "table": join.table,
            "on": [{"left": key.left, "right": key.right, "text": key.is_text} for key in join.keys],
            "columns": dict(join.columns),
            **({} if join.aggregation is None else {"aggregation": _aggregation_fields(join.aggregation)}),
        }
        for join in joins
    ]


def _aggregation_fields(aggregation: Aggregation) -> dict[str, Any]:
    values = {name: {"function": value.function, "column": value.column} for name, value in aggregation.values.items()}
    time = {} if aggregation.time is None else {"time": aggregation.time, "before": aggregation.is_before}
    types = {name: kind.name for name, kind in aggregation.types.items()}
    return {"by": list(aggregation.by), "values": values, **time, **({"types": types} if types else {})}


def _read_joins(items: Sequence[object]) -> tuple[TableJoin, ...]:
    """Return the joins in a file, or raise `ModelFileError`."""
    joins = tuple(_join(item, f"damaged model, join {number}") for number, item in enumerate(items))
    names = [name for join in joins for name in join.columns]
    if len(set(names)) < len(names):
        fail("damaged model, joins", "columns", "names that no other join has", sorted(names))
    return joins


def _join(item: object, where: str) -> TableJoin:
    if not isinstance(item, dict):
        fail(where, "join", "an object", item)
    check_keys(item, _JOIN_FIELDS, where)
    table, on, columns = item.get("table"), item.get("on"), item.get("columns")
    if not isinstance(table, str) or not table:
        fail(where, "table", "a name", table)
    if not isinstance(on, list) or not on:
        fail(where, "on", "a list of columns of a key", on)
    if not isinstance(columns, dict) or not all(isinstance(original, str) for original in columns.values()):
        fail(where, "columns", "an object of names", columns)
    keys = tuple(_join_key(key, where) for key in on)
    if "aggregation" not in item:
        return TableJoin(table, keys, columns)
    aggregation = _aggregation(item["aggregation"], f"{where}, aggregation")
    if aggregation.key != tuple(key.right for key in keys):
        fail(where, "on", "the key of the aggregation", list(aggregation.key))
    if not set(columns.values()) <= aggregation.values.keys():
        fail(where, "columns", "values of the aggregation", columns)
    return TableJoin(table, keys, columns, aggregation)


def _aggregation(item: object, where: str) -> Aggregation:
    if not isinstance(item, dict):
        fail(where, "aggregation", "an object", item)
    check_keys(item, _AGGREGATION_FIELDS, where)
    by, items, time, is_before = item.get("by"), item.get("values"), item.get("time"), item.get("before", False)
    if not isinstance(by, list) or not by or not all(isinstance(name, str) for name in by):
        fail(where, "by", "a list of names", by)
    if not isinstance(items, dict):
        fail(where, "values", "an object", items)
    if not (time is None or isinstance(time, str)):
        fail(where, "time", "a name", time)
    if not isinstance(is_before, bool) or (is_before and time is None):
        fail(where, "before", "true or false, and true only beside a time", is_before)
    values = {name: _aggregated_value(value, where) for name, value in items.items()}
    if time is None and any(value.function == "last" for value in values.values()):
        fail(where, "time", "the column of times that last needs", None)
    return Aggregation(tuple(by), values, time, is_before, _aggregated_types(item.get("types", {}), values, where))


def _aggregated_types(item: object, values: Mapping[str, Value], where: str) -> dict[str, FeatureType]:
    columns = {value.column for value in values.values() if value.column}
    if not isinstance(item, dict) or not item.keys() <= columns:
        fail(where, "types", "an object of columns that are aggregated", item)
    try:
        return {name: FeatureType(kind) for name, kind in item.items()}
    except (TypeError, ValueError):
        fail(where, "types", "types of columns", item)


def _aggregated_value(item: object, where: str) -> Value:
    if not isinstance(item, dict):
        fail(where, "values", "objects", item)
    check_keys(item, _VALUE_FIELDS, where)
    function, name = item.get("function"), item.get("column")
    if function not in FUNCTIONS:
        fail(where, "function", " or ".join(f'"{known}"' for known in FUNCTIONS), function)
    if not isinstance(name, str) or (function == COUNT) != (name == ""):
        fail(where, "column", "a name, which only a count has none of", name)
    return Value(str(function), name)


def _join_key(item: object, where: str) -> KeyColumn:
    if not isinstance(item, dict):
        fail(where, "on", "a list of objects", item)
    check_keys(item, _KEY_FIELDS, where)
    left, right, is_text = item.get("left"), item.get("right"), item.get("text")
    for key, name in (("left", left), ("right", right)):
        if not isinstance(name, str):
            fail(where, key, "a name", name)
    if not isinstance(is_text, bool):
        fail(where, "text", "true or false", is_text)
    return KeyColumn(str(left), str(right), is_text)


# --- training ---------------------------------------------------------------------------------------------------------

_TRAINING = "damaged model, training"
_TRAINING_FIELDS = ("history", "best_iteration", "best_score", "hint", "leaderboard")
# The columns of a leaderboard; the second is the metric, by its name.
_BEHIND = {
    "weight": pl.Float64(), "fits": pl.Int64(), "rounds": pl.Float64(), "leaves": pl.Int64(),
    "seconds": pl.Float64(), "settings": pl.String(),
}  # fmt: skip
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_LONGEST_HINT = 10_000


def _training_fields(record: TrainingRecord) -> dict[str, Any]:
    """Return the record as a JSON object of the known fields."""
    fields: dict[str, Any] = {}
    if record.history.width > 1:
        fields["history"] = _columns(record.history)
    if record.best_round is not None:
        fields["best_iteration"] = record.best_round
    if record.best_score is not None:
        fields["best_score"] = _writable_number(record.best_score)
    if record.hint and record.hint.isprintable():
        fields["hint"] = record.hint
    if record.leaderboard.width:
        fields["leaderboard"] = _columns(record.leaderboard)
    return fields


def _columns(frame: pl.DataFrame) -> dict[str, list[Any]]:
    return {column.name: [_writable_number(value) for value in column.to_list()] for column in frame.iter_columns()}


def _writable_number(value: Any) -> Any:
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _read_training(item: object) -> TrainingRecord:
    """Return the record in a file, or raise `ModelFileError`."""
    if not isinstance(item, dict):
        fail("damaged model", "training", "an object", item)
    check_keys(item, _TRAINING_FIELDS, _TRAINING)
    best, score, hint = item.get("best_iteration"), item.get("best_score"), item.get("hint", "")
    if best is not None and (not is_integer(best) or best < 1):
        fail(_TRAINING, "best_iteration", "an integer of at least 1", best)
    if score is not None and _read_number(score) is None:
        fail(_TRAINING, "best_score", "a number", score)
    if not isinstance(hint, str) or not hint.isprintable() or len(hint) > _LONGEST_HINT:
        fail(_TRAINING, "hint", "a line of text", hint)
    read: dict[str, Any] = {
        "best_round": best,
        "best_score": None if score is None else _read_number(score),
        "hint": hint,
    }
    if "history" in item:
        read["history"] = _history(item["history"])
    if "leaderboard" in item:
        read["leaderboard"] = _leaderboard(item["leaderboard"])
    return TrainingRecord(**read)


def _history(item: object) -> pl.DataFrame:
    names = list(item) if isinstance(item, dict) else []
    if names[:1] != ["round"] or len(names) < 2:
        fail(_TRAINING, "history", 'an object of "round" and of metrics, a list each', item)
    frame = _frame("history", item, dict.fromkeys(names, pl.Float64()) | {"round": pl.Int64()})  # type: ignore[arg-type]
    rounds = frame["round"].to_list()
    if not rounds or rounds != list(range(rounds[0], rounds[0] + len(rounds))) or rounds[0] < 1:
        fail(f"{_TRAINING}, history", "round", "ascending numbers from 1", rounds)
    return frame


def _leaderboard(item: object) -> pl.DataFrame:
    names = list(item) if isinstance(item, dict) else []
    if names[:1] != ["trial"] or names[2:] != list(_BEHIND):
        fail(_TRAINING, "leaderboard", 'an object of "trial", a metric and the other columns, a list each', item)
    types = {"trial": pl.String(), names[1]: pl.Float64(), **_BEHIND}
    return _frame("leaderboard", item, types)  # type: ignore[arg-type]


def _frame(key: str, item: Mapping[str, Any], types: Mapping[str, pl.DataType]) -> pl.DataFrame:
    columns = {name: read_list(item, name, f"{_TRAINING}, {key}") for name in types}
    if len(set(map(len, columns.values()))) > 1:
        fail(_TRAINING, key, "columns of the same length", {name: len(values) for name, values in columns.items()})
    return pl.DataFrame([_series(key, name, values, types[name]) for name, values in columns.items()])


def _series(key: str, name: str, values: Sequence[Any], kind: pl.DataType) -> pl.Series:
    where = f"{_TRAINING}, {key}"
    if isinstance(kind, pl.Float64):
        numbers = list(map(_read_number, values))
        if any(number is None for number in numbers):
            fail(where, name, "a list of numbers", values)
        return pl.Series(name, numbers, pl.Float64)
    is_text = isinstance(kind, pl.String)
    if not all(isinstance(value, str) if is_text else is_integer(value) and abs(value) < 2**63 for value in values):
        fail(where, name, "a list of strings" if is_text else "a list of integers", values)
    return pl.Series(name, values, kind)


def _read_number(value: object) -> float | None:
    """Parse a number written by `_writable_number`; None for anything else."""
    if isinstance(value, str):
        return _NOT_FINITE.get(value)
    return float(value) if is_finite(value) else None  # type: ignore[arg-type]
