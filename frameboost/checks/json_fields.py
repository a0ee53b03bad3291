"""Parsing of JSON files that hold models, and checks of their fields; each error says what was found where."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from frameboost.checks.messages import reason
from frameboost.errors import ModelFileError

__all__ = [
    "OTHER_FORMS", "check_keys", "fail", "is_finite", "is_integer", "parse_json", "read_list", "shown_json", "to_text",
]  # fmt: skip

_LONGEST = 80


# The first bytes of formats that are not read, and what the user can do.
OTHER_FORMS = {
    b"CBM1": "it is in CatBoost's own binary format; save it with model.save_model(path, format='json')",
    b"\x80": "it is a pickle, which is not opened, as that would run what is in it; save the model as the library does",
    b"PK": "it is a zip archive; a model is a JSON, UBJSON or text file",
    b"\x1f\x8b": "it is compressed by gzip; unpack it first",
    b"\xef\xbb\xbf": "it starts with a byte order mark; save it as UTF-8 without one",
    b"\xff\xfe": "it is UTF-16; save it as UTF-8",
    b"\xfe\xff": "it is UTF-16; save it as UTF-8",
}


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
    for start, form in OTHER_FORMS.items():
        if data.startswith(start):
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
