"""Model files of any library: the content says which library wrote a file, and so which reader takes it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from frameboost.checks.arguments import path as check_path
from frameboost.checks.json_fields import other_form, parse_json
from frameboost.ensemble.ensemble import Ensemble
from frameboost.ensemble.model_file import FORMAT, read_model
from frameboost.errors import FrameboostError, ModelFileError
from frameboost.interop.catboost.columns import DAMAGED, refuse_statistics
from frameboost.interop.catboost.reader import read_catboost
from frameboost.interop.file_starts import library_of_file
from frameboost.interop.lightgbm.reader import read_lightgbm
from frameboost.interop.model_argument import read_bytes
from frameboost.interop.xgboost.reader import read_xgboost

__all__ = ["Categories", "read_any_file"]

_KNOWN = "it is none of frameboost's own and XGBoost's (JSON or UBJSON), LightGBM's (text) and CatBoost's (JSON)"
# Takes the names of categorical columns; returns the distinct values of each.
Categories = Callable[[list[str]], Mapping[str, Iterable[Any]]]


def read_any_file(path: str | Path, categories: Categories | None = None) -> Ensemble:
    """Read a model from a file of any library (see `frameboost.loading.open_model`)."""
    check_path("path", path)
    data = read_bytes(path)
    try:
        return _reader(data, categories)(data)
    except FrameboostError as error:
        raise type(error)(f"{path}: {error}") from error


def _reader(data: bytes, categories: Categories | None) -> Callable[[bytes], Ensemble]:
    readers: dict[str, Callable[[bytes], Ensemble]] = {
        "frameboost": read_model,
        "xgboost": read_xgboost,
        "lightgbm": read_lightgbm,
        "catboost": lambda text: read_catboost(text, categories and categories(_categorical(text))),
    }
    return readers[_writer(data)]


def _categorical(data: bytes) -> list[str]:
    """Return the names of a CatBoost model's categorical columns, whose categories it is worth asking for."""
    document = parse_json(data, "not a CatBoost model saved as JSON", DAMAGED)
    document = document if isinstance(document, dict) else {}
    for trees in (document.get(key) for key in ("trees", "oblivious_trees")):
        refuse_statistics(trees if isinstance(trees, list) else [])
    info = document.get("features_info")
    items = info.get("categorical_features") if isinstance(info, dict) else None
    found = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    return [str(item.get("feature_id") or item.get("flat_feature_index")) for item in found]


def _writer(data: bytes) -> str:
    """Return the library that wrote the file."""
    if library := library_of_file(data):
        return library
    if what := other_form(data):
        raise ModelFileError(f"not a model that can be read here: {what}")
    return _writer_of_json(data)


def _writer_of_json(text: bytes) -> str:
    try:
        document = json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"not a model that can be read here: {_KNOWN}") from error
    if isinstance(document, dict):
        if document.get("format") == FORMAT:
            return "frameboost"
        if "learner" in document:
            return "xgboost"
        if {"oblivious_trees", "features_info", "model_info"} & set(document):
            return "catboost"
        if "tree_info" in document:
            raise ModelFileError(
                "not a model that can be read here: it is LightGBM's JSON dump; save it with model.save_model(path)"
            )
    raise ModelFileError(f"not a model that can be read here: {_KNOWN}")
