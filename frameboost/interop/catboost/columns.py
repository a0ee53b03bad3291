"""The columns of a CatBoost model: names, the side that NaN goes to, and the codes of categories by their hashes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from frameboost.checks.json_fields import fail, is_finite, is_integer, shown_json
from frameboost.checks.messages import shown
from frameboost.errors import ModelFileError, ParameterError
from frameboost.interop.catboost.category_hash import category_hash
from frameboost.interop.ensemble_checks import category_codes, checked_names
from frameboost.schema.feature import Feature
from frameboost.schema.types import FeatureType

__all__ = [
    "DAMAGED", "CatBoostColumn", "CatBoostColumns", "read_columns", "read_list", "read_numbers", "read_whole",
    "refuse_statistics",
]  # fmt: skip

DAMAGED = "damaged CatBoost model"
_NAN_GOES_RIGHT = {"AsIs": False, "AsFalse": False, "AsTrue": True}


def read_list(item: Any, key: str, where: str) -> list[Any]:
    """Return a field that must be a list; the item must be an object."""
    value = item.get(key) if isinstance(item, dict) else None
    if not isinstance(value, list):
        fail(where, key, "a list", value)
    return value


def read_numbers(item: Any, key: str, where: str) -> list[float]:
    """Return a field that must be a list of finite numbers."""
    values = read_list(item, key, where)
    if not all(map(is_finite, values)):
        fail(where, key, "a list of finite numbers", values)
    return list(map(float, values))


def read_whole(item: Mapping[str, Any], key: str, where: str) -> int:
    """Return a field that must be a whole number."""
    value = item.get(key)
    if not is_integer(value):
        fail(where, key, "a whole number", value)
    return int(value)  # type: ignore[arg-type]


@dataclass(frozen=True)
class CatBoostColumn:
    """A feature, its number, and for a categorical one the codes of each hash (several where hashes collide)."""

    feature: Feature
    index: int
    nan_goes_right: bool = False
    codes: Mapping[int, tuple[int, ...]] | None = None


# The key is the kind, "float" or "cat", and CatBoost's number within the kind.
CatBoostColumns = Mapping[tuple[str, int], CatBoostColumn]


def read_columns(
    document: Mapping[str, Any], trees: Sequence[Any], categories: Mapping[str, Iterable[Any]]
) -> CatBoostColumns:
    """Return the columns of a model.

    Raises
    ------
    ModelFileError
        If their descriptions are damaged.
    ParameterError
        If ``categories`` lacks a column, or has one that is not categorical.
    """
    found = _descriptions(document)
    names = checked_names([item.get("feature_id") or str(flat) for flat, _, item in found])
    categorical = [name for name, (_, kind, _) in zip(names, found, strict=True) if kind == "cat"]
    for name in categories:
        if name not in categorical:
            raise ParameterError(
                f"categories are given for {shown(name)}, which the model has not as a categorical column"
            )
    asked = _split_hashes(trees)
    columns: dict[tuple[str, int], CatBoostColumn] = {}
    for name, (_, kind, item) in zip(names, found, strict=True):
        key_of_column = (kind, item["feature_index"])
        if key_of_column in columns:
            raise ModelFileError(f"{DAMAGED}: two features have the same number")
        if kind == "float":
            treatment = item.get("nan_value_treatment", "AsIs")
            if not isinstance(treatment, str) or treatment not in _NAN_GOES_RIGHT:
                fail(
                    f"{DAMAGED}, feature {shown_json(name)}",
                    "nan_value_treatment",
                    "AsIs, AsFalse or AsTrue",
                    treatment,
                )
            feature = Feature(name, FeatureType("float64"))
            columns[key_of_column] = CatBoostColumn(feature, len(columns), _NAN_GOES_RIGHT[treatment])
        elif name in categories or item["feature_index"] in asked:
            hashes = asked.get(item["feature_index"], set())
            columns[key_of_column] = _categorical(name, hashes, categories.get(name), len(columns))
    if not columns:
        raise ModelFileError("the model has no features")
    return columns


def _descriptions(document: Mapping[str, Any]) -> list[tuple[int, str, dict[str, Any]]]:
    """Return for each column its number among all, its kind and its description."""
    info, found = document.get("features_info"), []
    for kind, key in (("float", "float_features"), ("cat", "categorical_features")):
        for item in read_list(info, key, DAMAGED) if isinstance(info, dict) and key in info else []:
            if not isinstance(item, dict):
                raise ModelFileError(f"{DAMAGED}: a feature must be an object, not {shown_json(item)}")
            indices = [read_whole(item, number, DAMAGED) for number in ("flat_feature_index", "feature_index")]
            found.append((indices[0], kind, item))
    return sorted(found, key=lambda entry: entry[:2])


def refuse_statistics(trees: Sequence[Any]) -> None:
    """Raise `ParameterError` if splits compare statistics of categories."""
    if any(split.get("split_type") == "OnlineCtr" for split in _splits(trees)):
        raise ParameterError(
            "the CatBoost model has splits on statistics of categories (CTRs), which are not supported; train it with "
            "one_hot_max_size not less than the number of categories"
        )


def _splits(trees: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Yield the splits of all trees that are objects; reading a tree raises the error of any other."""
    waiting = list(trees)
    while waiting:
        node = waiting.pop()
        if not isinstance(node, dict):
            continue
        splits = node.get("splits")
        found = [node.get("split"), *(splits if isinstance(splits, list) else [])]
        yield from (split for split in found if isinstance(split, dict))
        waiting += [node.get("left"), node.get("right")]


def _split_hashes(trees: Sequence[Any]) -> dict[int, set[int]]:
    """Return for each categorical feature the hashes that its splits compare with."""
    asked: dict[int, set[int]] = {}
    for split in _splits(trees):
        if split.get("split_type") == "OneHotFeature":
            feature, value = split.get("cat_feature_index"), split.get("value")
            if is_integer(feature) and is_integer(value):
                asked.setdefault(feature, set()).add(value)  # type: ignore[arg-type]
    return asked


def _categorical(name: str, hashes: set[int], given: Iterable[Any] | None, index: int) -> CatBoostColumn:
    if given is None:
        raise ParameterError(
            f"the CatBoost model knows the categories of column {shown(name)} only by their hashes; give them as "
            f"categories={{{shown(name)}: [...]}}"
        )
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable) or hasattr(given, "columns"):
        raise ParameterError(f"the categories of column {shown(name)} must be a list of values, not {shown(given)}")
    plain = [value.item() if isinstance(value, np.generic) else value for value in given]
    for value in plain:
        if value is not None and not isinstance(value, str | int | float):
            raise ParameterError(
                f"the categories of column {shown(name)} must be all strings or all whole numbers, not {shown(value)}"
            )
    present = list(dict.fromkeys(v for v in plain if v is not None))
    feature, _ = category_codes(present, name, "column")
    codes: dict[int, tuple[int, ...]] = {}
    for code, category in enumerate(feature.categories):
        number = category_hash(category)  # of Booleans as of 0 and 1
        codes[number] = (*codes.get(number, ()), code)
    if unknown := hashes - set(codes):
        raise ParameterError(
            f"the CatBoost model asks column {shown(name)} for {len(unknown)} categories that are not among the "
            f"{len(feature.categories)} given"
        )
    return CatBoostColumn(feature, index, codes=codes)
