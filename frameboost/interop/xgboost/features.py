"""The features of an XGBoost model: names, types and categories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from frameboost.checks.json_fields import read_list
from frameboost.checks.messages import shown
from frameboost.errors import ParameterError
from frameboost.interop.ensemble_checks import category_codes, checked_names
from frameboost.interop.xgboost.document import fail_damaged, integers, read_count, read_object
from frameboost.interop.xgboost.trees import XGBoostTree
from frameboost.schema.feature import Feature
from frameboost.schema.types import FeatureType

__all__ = ["count_features", "read_features"]

_MAX_WITHOUT_NAMES = 100_000  # with names, the file has one for each feature


def count_features(learner: Mapping[str, Any]) -> int:
    """Return the number of features."""
    count = read_count(read_object(learner, "learner_model_param"), "num_feature")
    if count == 0:
        fail_damaged("it has no features")
    if count > _MAX_WITHOUT_NAMES and not learner.get("feature_names"):
        raise ParameterError(
            f"the XGBoost model has {count:,} features without names, and at most {_MAX_WITHOUT_NAMES:,} can be had "
            "here; give it feature_names"
        )
    return count


def read_features(
    learner: Mapping[str, Any], model: Mapping[str, Any], trees: Sequence[XGBoostTree]
) -> tuple[tuple[Feature, ...], dict[int, dict[int, int]]]:
    """Return the features, and for each categorical one the position of each code in `Feature.categories`.

    Raises
    ------
    ModelFileError
        If the document is damaged.
    ParameterError
        If a feature has no counterpart in frameboost.
    """
    count = count_features(learner)
    names = checked_names(_texts(learner, "feature_names", count) or [f"f{i}" for i in range(count)])
    types = _texts(learner, "feature_types", count) or ["float"] * count
    codes: dict[int, set[int]] = {i: set() for i, kind in enumerate(types) if kind == "c"}
    compared: set[int] = set()
    no_booleans: set[int] = set()
    for tree in trees:
        for node, chosen in tree.chosen.items():
            codes.setdefault(int(tree.feature[node]), set()).update(chosen)
        for node in tree.numeric.tolist():
            compared.add(int(tree.feature[node]))
            if not _fits_boolean(float(tree.threshold[node]), bool(tree.missing_left[node])):
                no_booleans.add(int(tree.feature[node]))
    features, indices = [], {}
    names_of_categories = _category_names(model, names)
    for i, (name, kind) in enumerate(zip(names, types, strict=True)):
        if i in codes:
            if i in compared:
                raise ParameterError(f"feature {shown(name)} is compared with numbers and with categories")
            feature, indices[i] = _categorical(name, sorted(codes[i]), names_of_categories.get(i))
            features.append(feature)
        else:
            is_boolean = kind == "i" and i not in no_booleans
            features.append(Feature(name, FeatureType("boolean" if is_boolean else "float64")))
    return tuple(features), indices


def _fits_boolean(threshold: float, missing_left: bool) -> bool:
    """Whether a threshold separates false from true, or present from missing values.

    For the latter XGBoost writes 2.000001: twice the largest value and a little more.
    """
    return threshold <= 1 or (2 < threshold < 2.1 and not missing_left)


def _texts(learner: Mapping[str, Any], key: str, count: int) -> list[str]:
    """Return a field that has a string for each feature; an empty list if the field is empty or not there."""
    found = read_list(learner, key, "damaged XGBoost model") if key in learner else []
    if not all(isinstance(text, str) for text in found) or len(found) not in (0, count):
        fail_damaged(f'"{key}" must be a list of {count} strings')
    return found


def _categorical(name: str, codes: list[int], category_names: list[Any] | None) -> tuple[Feature, dict[int, int]]:
    if category_names is None:
        return Feature(name, FeatureType("codes"), tuple(codes)), {code: index for index, code in enumerate(codes)}
    if codes and codes[-1] >= len(category_names):
        fail_damaged(f"feature {shown(name)} has {len(category_names)} categories, and a split by number {codes[-1]}")
    feature, found = category_codes(category_names, name)
    return feature, dict(enumerate(found))


def _category_names(model: Mapping[str, Any], names: Sequence[str]) -> dict[int, list[Any]]:
    """Return the names of categories by feature; XGBoost 3.1 and later keep them if trained on a frame."""
    if "cats" not in model:
        return {}
    encodings = read_list(read_object(model, "cats"), "enc", "damaged XGBoost model, cats")
    if len(encodings) not in (0, len(names)):
        fail_damaged(f'"enc" must have an entry for each of {len(names)} features', "cats")
    found = {}
    for i, item in enumerate(encodings):
        where = f"categories of feature {shown(names[i])}"
        if not isinstance(item, dict):
            fail_damaged("they must be an object", where)
        values = integers(item, "values", None, where)
        if "offsets" in item:
            found[i] = _strings(values, integers(item, "offsets", None, where).tolist(), where)
        else:
            found[i] = values.tolist()
    return {i: values for i, values in found.items() if values}


def _strings(values: np.ndarray[Any, Any], offsets: list[int], where: str) -> list[str]:
    """Return UTF-8 strings from their concatenated bytes, written as signed numbers, and their offsets.

    Returns an empty list if an offset is within a character: for pandas names that are not ASCII, XGBoost 3.1 and 3.2
    write offsets in characters instead of bytes, and the names are lost.
    """
    if len(values) and (values.min() < -128 or values.max() > 255):
        fail_damaged("their text is no bytes", where)
    text = (values % 256).astype(np.uint8).tobytes()
    if offsets and (offsets[0] != 0 or sorted(offsets) != offsets or offsets[-1] != len(text)):
        fail_damaged("their text ends elsewhere than it should", where)
    try:
        return [text[start:end].decode("utf-8") for start, end in pairwise(offsets)]
    except UnicodeDecodeError:
        return []
