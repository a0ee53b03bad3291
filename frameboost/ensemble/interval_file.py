"""The field ``interval`` of a model file: written, and checked when it is read."""

from __future__ import annotations

from collections.abc import Mapping
from operator import lt
from typing import Any, cast

from frameboost.checks.json_files import check_keys, fail, is_finite, is_integer, read_list
from frameboost.errors import ModelFileError, ParameterError
from frameboost.losses.loss import Loss
from frameboost.losses.outputs import DISTANCE, LOOKUP_TYPES, Interval, Lookup, kind_of
from frameboost.schema.types import FeatureType

__all__ = ["interval_fields", "read_interval"]

_WHERE = "damaged model, interval"
_FIELDS = ("coverage", "rows", "kind", "distance", "quantiles", "groups")
_GROUP_FIELDS = ("column", "type", "values", "distances")


def interval_fields(interval: Interval) -> dict[str, Any]:
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


def read_interval(item: object, loss: Loss) -> Interval:
    """Return the interval that a file has, or raise `ModelFileError`."""
    if not isinstance(item, dict):
        fail("damaged model", "interval", "an object", item)
    check_keys(item, _FIELDS, _WHERE)
    coverage, rows, kind = item.get("coverage"), item.get("rows"), item.get("kind")
    if not is_finite(coverage) or not 0 < cast("float", coverage) < 1:
        fail(_WHERE, "coverage", "a number between 0 and 1", coverage)
    if not is_integer(rows) or cast("int", rows) < 1:
        fail(_WHERE, "rows", "an integer of at least 1", rows)
    _check_kind(kind, loss)
    of_quantiles = kind == "quantiles"
    distance = _distance(item.get("distance"), "distance", may_be_negative=of_quantiles)
    quantiles = _quantiles(item, loss) if of_quantiles or "quantiles" in item else ()
    groups = _groups(item["groups"], distance, may_be_negative=of_quantiles) if "groups" in item else None
    return Interval(float(cast("float", coverage)), cast("int", rows), cast("Any", kind), distance, quantiles, groups)


def _check_kind(kind: object, loss: Loss) -> None:
    try:
        usual = kind_of(loss)
    except ParameterError as error:
        raise ModelFileError(f"{_WHERE}: {error}") from error
    # A loss that scales may also have intervals of one width.
    wanted = ("scaled", "absolute") if usual == "scaled" else (usual,)
    if kind not in wanted:
        fail(_WHERE, "kind", " or ".join(f'"{name}"' for name in wanted), kind)


def _distance(value: object, key: str, *, may_be_negative: bool) -> float:
    if not is_finite(value) or (cast("float", value) < 0 and not may_be_negative):
        fail(_WHERE, key, "a finite number" + ("" if may_be_negative else " of 0 or more"), value)
    return float(cast("float", value))


def _quantiles(item: Mapping[str, Any], loss: Loss) -> tuple[int, int]:
    given = read_list(item, "quantiles", _WHERE)
    are_two = len(given) == 2 and all(map(is_integer, given)) and item["kind"] == "quantiles"
    if not are_two or not 0 <= given[0] < given[1] < loss.n_outputs:
        fail(_WHERE, "quantiles", "the numbers of two quantiles in ascending order, of intervals of that kind", given)
    return given[0], given[1]


def _groups(item: object, otherwise: float, *, may_be_negative: bool) -> Lookup:
    if not isinstance(item, dict):
        fail(_WHERE, "groups", "an object", item)
    where = f"{_WHERE}, groups"
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
    own = tuple(map(int, values)) if is_boolean else tuple(values)
    return Lookup(DISTANCE, column, kind, own, numbers, otherwise)
