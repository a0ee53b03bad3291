"""Parsing of JSON files that hold models, and checks of their fields; each error says what was found where."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from frameboost.checks.messages import reason
from frameboost.errors import ModelFileError

__all__ = [
    "check_keys", "fail", "is_finite", "is_integer", "other_form", "parse_json", "read_list", "shown_json", "to_text",
]  # fmt: skip

_LONGEST = 80

_AS_THE_LIBRARY = "save the model as its library does"
_SAVE_XGBOOST = "save the model with booster.save_model('model.json') or '.ubj'"
_NOT_OPENED = f"which is not opened, as that would run what is in it; {_AS_THE_LIBRARY}"
# How formats that are not read begin, and what the user can do.
_OTHER_FORMS = tuple(
    (re.compile(start, re.DOTALL), what)
    for start, what in (
        (rb"\Z", "it is empty"),
        (rb"CBM1", "it is in CatBoost's own binary format; save it with model.save_model(path, format='json')"),
        (rb"\x80|c[A-Za-z_][\w.]*\n\w+\n|\([dli][p.\n(]|[\]}]q\x00", f"it is a pickle, {_NOT_OPENED}"),
        (rb"x[\x01\x5e\x9c\xda]", f"it is compressed by zlib, as joblib writes pickles, {_NOT_OPENED}"),
        (rb"ZF0x", f"it is a file of joblib's, {_NOT_OPENED}"),
        (rb"PK", "it is a zip archive; a model is a JSON, UBJSON or text file"),
        (rb"\x1f\x8b", "it is compressed by gzip; unpack it first"),
        (rb"BZh", "it is compressed by bzip2; unpack it first"),
        (rb"\xfd7zXZ\x00|\]\x00\x00", "it is compressed by xz; unpack it first"),
        (rb"\x28\xb5\x2f\xfd", "it is compressed by Zstandard; unpack it first"),
        (rb"\x04\x22\x4d\x18", "it is compressed by LZ4; unpack it first"),
        (rb"\xef\xbb\xbf", "it starts with a byte order mark; save it as UTF-8 without one"),
        (rb"\xff\xfe|\xfe\xff", "it is UTF-16; save it as UTF-8"),
        (rb"\x89HDF\r\n", f"it is an HDF5 file, such as of Keras; {_AS_THE_LIBRARY}"),
        (rb".{8}DUCK", "it is a database of DuckDB, which has tables; give a model file"),
        (rb"SQLite format 3\0", "it is a database of SQLite, which has tables; give a model file"),
        (rb"PAR1|ARROW1", "it is a table in a file, not a model; give a model file"),
        (rb"\x93NUMPY", f"it is an array of numpy's; {_AS_THE_LIBRARY}"),
        (rb"\s*<", f"it is XML, such as PMML; {_AS_THE_LIBRARY}"),
        (rb"\x08[\x01-\x20][\x12:B]", f"it is ONNX; {_AS_THE_LIBRARY}, before it is converted"),
        (rb"booster\[\d+\]:", f"it is the text of XGBoost's dump_model, which has no objective; {_SAVE_XGBOOST}"),
        (
            rb'\s*\[\s*\{\s*"(?:nodeid|leaf)"',
            f"it is the JSON of XGBoost's dump_model, which has no objective; {_SAVE_XGBOOST}",
        ),
        (rb"\s*digraph\b", f"it is a drawing of a tree for Graphviz; {_AS_THE_LIBRARY}"),
        (
            rb".{100,200}?[\x01-\x60]\0{7}(?:reg|binary|multi|rank|count|survival):\w+",
            f"it is in XGBoost's old binary format; load it with an XGBoost before 3.1, and {_SAVE_XGBOOST}",
        ),
        (
            rb'\s*\{\s*"name"\s*:\s*"tree"',
            "it is the JSON of LightGBM's dump_model; save the model with booster.save_model('model.txt')",
        ),
    )
)  # fmt: skip


def other_form(data: bytes) -> str | None:
    """Return what a file is that no reader takes, and what the user can do, by how it begins; None of others."""
    return next((what for start, what in _OTHER_FORMS if start.match(data)), None)


def parse_json(data: bytes, what: str, damaged: str, *, strict: bool = False) -> Any:
    """Return the content of JSON in UTF-8, or raise `ModelFileError`.

    Parameters
    ----------
    data
        The whole file.
    what
        The message for a file that is not JSON.
    damaged
        The message for an object that has a field twice.
    strict
        Whether to refuse NaN, infinities and lone surrogates, too, which JSON can spell.
    """
    if form := other_form(data):
        raise ModelFileError(f"{what} ({form})")

    def refuse_constant(name: str) -> NoReturn:
        raise ModelFileError(f"{damaged}: it holds {name}, and every number must be finite")

    def refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        item = dict(pairs)
        if len(item) < len(pairs):
            counts = Counter(key for key, _ in pairs)
            raise ModelFileError(f"{damaged}: an object has {shown_json(counts.most_common(1)[0][0])} twice")
        return item

    try:
        text = data.decode("utf-8")
        document = json.loads(
            text,
            parse_constant=refuse_constant if strict else None,
            object_pairs_hook=refuse_duplicates,
        )
        if strict and "\\u" in text:  # UTF-8 itself has no surrogates
            json.dumps(document, ensure_ascii=False).encode("utf-8")
    except ModelFileError:
        raise
    except RecursionError as error:
        raise ModelFileError(f"{what} (lists in lists without end)") from error
    except ValueError as error:  # also for bad UTF-8 and for numbers of absurd length
        raise ModelFileError(f"{what} ({reason(error)})") from error
    return document


def check_keys(item: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    """Raise `ModelFileError` if an object has an unknown field."""
    for key in item:
        if key not in known:
            raise ModelFileError(f"{where}: unknown field {shown_json(key)}")


def fail(where: str, key: str, wanted: str, found: object) -> NoReturn:
    """Raise `ModelFileError`: the field must be ``wanted``."""
    raise ModelFileError(f'{where}: "{key}" must be {wanted}, not {shown_json(found)}')


def shown_json(found: object) -> str:
    """Return a value as JSON, cut to the length of a message, in time that does not grow with the value."""
    if isinstance(found, str):
        text = json.dumps(found[:_LONGEST], ensure_ascii=not found.isprintable())
    elif isinstance(found, list | dict) and len(found) > _LONGEST:
        return f"a list of {len(found):,} entries" if isinstance(found, list) else f"an object of {len(found):,} fields"
    elif isinstance(found, int) and abs(found) >= 10**_LONGEST:
        return f"a number of more than {_LONGEST} digits"
    else:
        try:
            text = json.dumps(found, ensure_ascii=False)  # may be infinite: 1e999 is read as infinity
        except RecursionError:
            return "lists in lists without end"
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def read_list(item: Mapping[str, Any], key: str, where: str = "damaged model") -> list[Any]:
    """Return a field that must be a list."""
    value = item.get(key)
    if not isinstance(value, list):
        fail(where, key, "a list", value)
    return value


def is_integer(value: object) -> bool:
    """Whether a value is an int and not a Boolean."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_finite(value: object) -> bool:
    """Whether a value is a number within the range of float64."""
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False


def to_text(value: object) -> str:
    """Return a value as JSON without NaN and infinities, which the standard does not have."""
    return json.dumps(value, allow_nan=False, ensure_ascii=False)
