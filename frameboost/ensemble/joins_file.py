"""The field ``joins`` of a model file: written, and checked when it is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from frameboost.checks.json_files import check_keys, fail
from frameboost.joins.aggregates import COUNT, FUNCTIONS, Aggregation, Value
from frameboost.joins.star_sources import KeyColumn, TableJoin
from frameboost.schema.types import FeatureType

__all__ = ["joins_fields", "read_joins"]

_FIELDS = ("table", "on", "columns", "aggregation")
_KEY_FIELDS = ("left", "right", "text")
_AGGREGATION_FIELDS = ("by", "values", "time", "before", "types")
_VALUE_FIELDS = ("function", "column")


def joins_fields(joins: Sequence[TableJoin]) -> list[dict[str, Any]]:
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
    values = {name: {"function": each.function, "column": each.column} for name, each in aggregation.values.items()}
    time = {} if aggregation.time is None else {"time": aggregation.time, "before": aggregation.is_before}
    types = {name: kind.name for name, kind in aggregation.types.items()}
    return {"by": list(aggregation.by), "values": values, **time, **({"types": types} if types else {})}


def read_joins(items: Sequence[object]) -> tuple[TableJoin, ...]:
    """Return the joins that a file has, or raise `ModelFileError`."""
    joins = tuple(_join(item, f"damaged model, join {number}") for number, item in enumerate(items))
    names = [name for join in joins for name in join.columns]
    if len(set(names)) < len(names):
        fail("damaged model, joins", "columns", "names that no other join has", sorted(names))
    return joins


def _join(item: object, where: str) -> TableJoin:
    if not isinstance(item, dict):
        fail(where, "join", "an object", item)
    check_keys(item, _FIELDS, where)
    table, on, columns = item.get("table"), item.get("on"), item.get("columns")
    if not isinstance(table, str) or not table:
        fail(where, "table", "a name", table)
    if not isinstance(on, list) or not on:
        fail(where, "on", "a list of columns of a key", on)
    if not isinstance(columns, dict) or not all(isinstance(own, str) for own in columns.values()):
        fail(where, "columns", "an object of names", columns)
    keys = tuple(_key(key, where) for key in on)
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
    by, given, time, is_before = item.get("by"), item.get("values"), item.get("time"), item.get("before", False)
    if not isinstance(by, list) or not by or not all(isinstance(name, str) for name in by):
        fail(where, "by", "a list of names", by)
    if not isinstance(given, dict):
        fail(where, "values", "an object", given)
    if not (time is None or isinstance(time, str)):
        fail(where, "time", "a name", time)
    if not isinstance(is_before, bool) or (is_before and time is None):
        fail(where, "before", "true or false, and true only beside a time", is_before)
    values = {name: _value(value, where) for name, value in given.items()}
    if time is None and any(value.function == "last" for value in values.values()):
        fail(where, "time", "the column of times that last needs", None)
    return Aggregation(tuple(by), values, time, is_before, _types(item.get("types", {}), values, where))


def _types(item: object, values: Mapping[str, Value], where: str) -> dict[str, FeatureType]:
    columns = {value.column for value in values.values() if value.column}
    if not isinstance(item, dict) or not item.keys() <= columns:
        fail(where, "types", "an object of columns that are aggregated", item)
    try:
        return {name: FeatureType(kind) for name, kind in item.items()}
    except (TypeError, ValueError):
        fail(where, "types", "types of columns", item)


def _value(item: object, where: str) -> Value:
    if not isinstance(item, dict):
        fail(where, "values", "objects", item)
    check_keys(item, _VALUE_FIELDS, where)
    function, name = item.get("function"), item.get("column")
    if function not in FUNCTIONS:
        fail(where, "function", " or ".join(f'"{each}"' for each in FUNCTIONS), function)
    if not isinstance(name, str) or (function == COUNT) != (name == ""):
        fail(where, "column", "a name, which only a count has none of", name)
    return Value(str(function), name)


def _key(item: object, where: str) -> KeyColumn:
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
