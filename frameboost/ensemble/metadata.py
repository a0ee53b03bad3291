"""The metadata of a model, which does not affect predictions: its name, and the date and data of its training.

It is a separate line of the model file, which `frameboost.Model.to_json` and the model's hash exclude, so that the same
data and parameters give the same text at any time, in every engine.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from frameboost.checks.json_files import check_keys, fail, is_integer
from frameboost.checks.messages import shown
from frameboost.errors import ParameterError
from frameboost.version import __version__

__all__ = ["LIBRARY", "Metadata", "check_tags", "check_word", "metadata_fields", "read_metadata"]

LIBRARY = f"frameboost {__version__}"

_LONGEST = 200
_MOST_TAGS, _LONGEST_TAG = 100, 1000
_MOMENT = "%Y-%m-%dT%H:%M:%SZ"
_HASH = re.compile(r"[0-9a-f]{64}")
_LIBRARY = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._+-]{0,99}")  # which may stand in a comment of a SQL file
_AT_FAULT = "damaged model, metadata"


@dataclass(frozen=True)
class Metadata:
    """The metadata of a model, returned by `frameboost.Model.metadata`.

    Attributes
    ----------
    name, version
        The user's name and version, see `frameboost.Model.with_metadata`.
    trained
        The time when training ended, in UTC.
    rows
        The number of training rows, without held-out rows.
    library
        The library that trained it, and its version: ``"frameboost 0.1.0"``.
    query
        The SHA-256 of the text of the training query, for a DuckDB relation.
    data
        The SHA-256 of a frame, see `frameboost.Model.with_metadata`.
    tags
        Texts by name.
    """

    name: str | None = None
    version: str | None = None
    trained: dt.datetime | None = None
    rows: int | None = None
    library: str | None = None
    query: str | None = None
    data: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_training(cls, rows: int) -> Metadata:
        """Return the metadata of a model just trained on this many rows."""
        return cls(trained=dt.datetime.now(dt.UTC).replace(microsecond=0), rows=rows, library=LIBRARY)

    def of_another_model(self) -> Metadata:
        """Return the metadata of a model derived from this one: without the version."""
        return replace(self, version=None)

    @property
    def moment(self) -> str | None:
        """The time of training as ISO 8601 text."""
        return None if self.trained is None else self.trained.strftime(_MOMENT)

    @property
    def title(self) -> str:
        """The name and the version, if set: ``churn, version 3``."""
        version = "" if self.version is None else f"version {self.version}"
        return ", ".join(filter(None, [self.name, version]))

    @property
    def training(self) -> str:
        """The time, the number of rows and the library of training, if known."""
        rows = "" if self.rows is None else f"on {self.rows:,} row{'' if self.rows == 1 else 's'}"
        by = "" if self.library is None else f"by {self.library}"
        return " ".join(filter(None, [self.moment, rows, by]))


def metadata_fields(metadata: Metadata) -> dict[str, Any]:
    """Return the metadata as a JSON object of the known fields."""
    fields = {
        "name": metadata.name, "version": metadata.version, "trained": metadata.moment, "rows": metadata.rows,
        "library": metadata.library, "query": metadata.query, "data": metadata.data,
        "tags": dict(sorted(metadata.tags.items())) or None,
    }  # fmt: skip
    return {name: value for name, value in fields.items() if value is not None}


def read_metadata(item: object) -> Metadata:
    """Return the metadata in a file, or raise `ModelFileError`."""
    if not isinstance(item, dict):
        fail("damaged model", "metadata", "an object", item)
    check_keys(item, tuple(Metadata.__dataclass_fields__), _AT_FAULT)
    if "library" in item and not (isinstance(item["library"], str) and _LIBRARY.fullmatch(item["library"])):
        fail(_AT_FAULT, "library", "a name and a version, such as frameboost 0.1.0", item["library"])
    for key in ("name", "version"):
        if key in item and not _is_word(item[key]):
            fail(_AT_FAULT, key, f"a line of text of 1 to {_LONGEST} characters", item[key])
    for key in ("query", "data"):
        if key in item and not (isinstance(item[key], str) and _HASH.fullmatch(item[key])):
            fail(_AT_FAULT, key, "64 hexadecimal digits", item[key])
    if "rows" in item and not (is_integer(item["rows"]) and 0 < item["rows"] < 2**63):
        fail(_AT_FAULT, "rows", "a number of rows", item["rows"])
    try:
        check_tags(item.get("tags", {}))
    except ParameterError:
        fail(_AT_FAULT, "tags", "an object of lines of text", item["tags"])
    return Metadata(**{**item, "trained": _moment(item["trained"]) if "trained" in item else None})


def _moment(text: object) -> dt.datetime:
    read = None
    with suppress(TypeError, ValueError):
        read = dt.datetime.strptime(text, _MOMENT).replace(tzinfo=dt.UTC)  # type: ignore[arg-type]
    if read is None or text != read.strftime(_MOMENT):
        fail(_AT_FAULT, "trained", "a time such as 2026-11-27T09:30:00Z", text)
    return read


def check_word(argument: str, value: object) -> None:
    """Raise `ParameterError` if a name or a version is not a line of text."""
    if value is not None and not _is_word(value):
        raise ParameterError(f"{argument} must be a line of text of 1 to {_LONGEST} characters, not {shown(value)}")


def check_tags(tags: object) -> None:
    """Raise `ParameterError` if tags are not a few lines of text by name."""
    if not isinstance(tags, Mapping) or len(tags) > _MOST_TAGS:
        raise ParameterError(f"tags must be a dict of at most {_MOST_TAGS} texts, not {shown(tags)}")
    for name, value in tags.items():
        if not _is_word(name) or not isinstance(value, str) or len(value) > _LONGEST_TAG or not value.isprintable():
            raise ParameterError(
                f"tags must be lines of text by name, at most {_LONGEST_TAG:,} characters each, not {shown(name)}: "
                f"{shown(value)}"
            )


def _is_word(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _LONGEST and value.isprintable()
