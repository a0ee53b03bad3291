"""Model files: the library that wrote a file, and the argument of a reader, a file or another library's object."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from frameboost.checks.arguments import path as check_path
from frameboost.checks.json_files import other_form
from frameboost.checks.messages import shown
from frameboost.ensemble.model_file import BINARY_START, FORMAT
from frameboost.errors import ModelFileError, ParameterError

__all__ = ["bytes_of_file", "comes_from", "library_of_file", "read_bytes", "unreadable"]

# For JSON the first key, which spares parsing a large file twice. XGBoost's other forms are UBJSON and its old binary.
_STARTS = (
    ("frameboost", re.compile(re.escape(BINARY_START))),
    ("lightgbm", re.compile(rb"tree[ \t\r]*\n")),
    ("xgboost", re.compile(rb'\s*\{\s*"learner"\s*:|\{[iUIlL#]|binf')),
    ("frameboost", re.compile(rb'\s*\{\s*"format"\s*:\s*"%s"' % FORMAT.encode())),
    ("catboost", re.compile(rb'\s*\{\s*"(?:features_info|model_info|oblivious_trees)"\s*:')),
)


def library_of_file(data: bytes) -> str | None:
    """Return the library of files that start like this; None if there is none, or if JSON starts with another key."""
    return next((library for library, start in _STARTS if start.match(data)), None)


# What to say of an object of each library.
_READERS = {
    "frameboost": "which is a model already",
    "xgboost": "which from_xgboost reads",
    "lightgbm": "which from_lightgbm reads",
    "catboost": "which from_catboost reads",
}
# The base classes of the estimators that from_sklearn reads.
_TREES = {"BaseDecisionTree", "BaseForest", "BaseGradientBoosting", "BaseHistGradientBoosting"}
# What to say of a file of each library.
_FILES = {
    "frameboost": "it is frameboost's, which load reads",
    "xgboost": "it is XGBoost's, which from_xgboost reads",
    "lightgbm": "it is LightGBM's, which from_lightgbm reads",
    "catboost": "it is CatBoost's, which from_catboost reads",
}


def comes_from(value: object, library: str) -> bool:
    """Whether a value's class, or a base class, belongs to the library; compares names and imports nothing."""
    return any(kind.__module__.partition(".")[0] == library for kind in type(value).__mro__)


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Return the content of a file; raise `IsADirectoryError` for a folder."""
    if Path(path).is_dir():
        raise IsADirectoryError(f"{shown(str(path))} is a folder; pass a model file in it")
    return Path(path).read_bytes()


def bytes_of_file(model: Any, library: str) -> bytes | None:
    """Return the bytes of a file, from its path or its content; None for other kinds of objects.

    Parameters
    ----------
    model
        The user's argument.
    library
        The expected library.

    Raises
    ------
    ModelFileError
        If the file belongs to another library, or no reader supports its format.
    OSError
        If it can't be read.
    """
    if isinstance(model, bytes | bytearray | memoryview):
        data = bytes(model)
    elif isinstance(model, str | os.PathLike):
        check_path("model", model)
        data = read_bytes(model)
    else:
        return None
    writer = library_of_file(data)
    what = _FILES[writer] if writer and writer != library else None
    if what := what or other_form(data):
        raise ModelFileError(f"the file is not one that from_{library} reads: {what}")
    return data


def unreadable(model: Any, expected: str, argument: str = "model") -> ParameterError:
    """Return the error for an object that this reader does not support; it names the right reader, if there is one.

    ``expected`` describes the supported objects.
    """
    kind, is_class = (model, True) if isinstance(model, type) else (type(model), False)
    what = f"the class {kind.__qualname__}" if is_class else f"a {kind.__module__}.{kind.__qualname__}"
    passed, hint = shown(model) if kind.__module__ == "builtins" else what, ""
    if not is_class and comes_from(model, "sklearn") and hasattr(model, "steps"):
        hint = "; pass its last step, and the columns that the steps before it make"
    elif not is_class and hasattr(model, "predict"):
        of_trees = {base.__name__ for base in kind.__mro__} & _TREES
        hint = next(
            (f", {reader}" for library, reader in _READERS.items() if comes_from(model, library)),
            ", which from_sklearn reads" if of_trees else "",
        )
    return ParameterError(f"{argument} must be {expected}, not {passed}{hint}")
