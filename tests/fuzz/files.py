"""Kind of case: damaged model files of every supported format.

Reading one gives a model that works, or an error that says what is wrong.
"""

from __future__ import annotations

import json
import math
import random
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import frameboost as fb
from frameboost.loading import open_model
from frameboost.schema.types import Feature
from tests.fuzz.original_files import FORMATS, original
from tests.support.random_models import random_values, to_polars

__all__ = ["MAX_MEGABYTES", "MAX_SECONDS", "Case", "check", "generate", "shrink"]

MAX_SECONDS, MAX_MEGABYTES = 10, 500

# Replacements of a field. (A column name of 300,000 characters costs polars hundreds of megabytes.)
_REPLACEMENTS = [
    None, True, False, 0, -1, 1, 2, 1.5, -0.0, 1e308, 5e-324, 2**31, 2**53 + 1, 2**63, 2**64, -(2**63), 10**30, 10**400,
    "", "0", "-1", "1e9", "99999999999", "nan", "NaN", "Infinity", "x" * 10_000, "\x00", "\ud800", "é", "[0]", "string",
    [], {}, [[]], [None], [0] * 10_000, {"a": {}}, [1e308, 1e308], ["x", "x"], math.nan, math.inf,
]  # fmt: skip


@dataclass(frozen=True)
class Case:
    """The bytes of a damaged file, its original format, and the damages as text."""

    format: str
    data: bytes
    damages: tuple[str, ...] = ()


def generate(rng: np.random.Generator) -> Case:
    python = random.Random(int(rng.integers(2**62)))
    format_ = python.choice(FORMATS)
    case = Case(format_, original(format_))
    for _ in range(python.choice([1, 1, 1, 2, 4])):
        case = _damaged(case, python)
    return case


def _damaged(case: Case, rng: random.Random) -> Case:
    damages = [_flip, _truncate, _cut_out, _repeat]
    if case.format in ("frameboost", "frameboost classes", "xgboost", "catboost", "catboost leafwise"):
        damages += [_edit_json] * 8 + [_nest]
    else:
        damages += [_edit_text] * 4
    damage = rng.choice(damages)
    data, what = damage(case.data, rng)
    return Case(case.format, data, (*case.damages, what))


def _flip(data: bytes, rng: random.Random) -> tuple[bytes, str]:
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 3, 10])):
        if changed:
            changed[rng.randrange(len(changed))] = rng.choice([rng.randrange(256), 0, 0xFF, *b"9-e"])
    return bytes(changed), "bytes replaced"


def _truncate(data: bytes, rng: random.Random) -> tuple[bytes, str]:
    at = rng.randrange(len(data) + 1)
    return data[:at], f"cut off at {at}"


def _cut_out(data: bytes, rng: random.Random) -> tuple[bytes, str]:
    at, n = rng.randrange(len(data) + 1), rng.choice([1, 2, 30])
    return data[:at] + data[at + n :], f"{n} bytes from {at} on cut out"


def _repeat(data: bytes, rng: random.Random) -> tuple[bytes, str]:
    at, n = rng.randrange(len(data) + 1), rng.choice([1, 5, 200])
    return data[: at + n] + data[at : at + n] * rng.choice([1, 50]) + data[at + n :], f"{n} bytes from {at} on repeated"


def _edit_text(data: bytes, rng: random.Random) -> tuple[bytes, str]:
    """Replace a part of a text file between two separators: a line, a word or a value."""
    separator = rng.choice([b"\n", b" ", b"="])
    parts = data.split(separator)
    at = rng.randrange(len(parts))
    value = rng.choice([v for v in _REPLACEMENTS if not isinstance(v, list | dict)])
    new = rng.choice([b"", str(value).encode(errors="replace"), rng.choice(parts)])
    return separator.join([*parts[:at], new, *parts[at + 1 :]]), f"part {at} at {separator!r} replaced by {new[:40]!r}"


def _edit_json(data: bytes, rng: random.Random) -> tuple[bytes, str]:
    """Replace, remove, duplicate or reorder a random field of a JSON document."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return _flip(data, rng)
    path: list[Any] = []
    holder, key, at = None, None, document
    while isinstance(at, list | dict) and at and (holder is None or rng.random() < 0.8):
        key = rng.choice(list(at)) if isinstance(at, dict) else rng.randrange(len(at))
        holder, at = at, at[key]
        path.append(key)
    if holder is None or key is None:
        return _flip(data, rng)
    how = rng.random()
    if how < 0.15:
        del holder[key]
        what = f"{path} removed"
    elif how < 0.25 and isinstance(holder, list):
        holder.insert(rng.randrange(len(holder) + 1), at)
        what = f"{path} doubled"
    elif how < 0.35 and isinstance(at, list):
        holder[key] = at[:: rng.choice([-1, 2])]
        what = f"{path} reordered"
    elif how < 0.5 and isinstance(at, list) and at:
        value = rng.choice(_REPLACEMENTS)
        holder[key] = [value] * len(at)
        what = f"all of {path} = {value!r:.60}"
    else:
        value = rng.choice(_REPLACEMENTS)
        holder[key] = str(value) if isinstance(at, str) and rng.random() < 0.5 else value
        what = f"{path} = {value!r:.60}"
    return _as_json(document), what


def _as_json(document: object) -> bytes:
    return json.dumps(document).encode()


def _nest(data: bytes, rng: random.Random) -> tuple[bytes, str]:
    """Insert lists or objects nested deeper than any recursion limit."""
    depth = rng.choice([50, 900, 100_000])
    start, end = rng.choice([(b"[", b"]"), (b'{"left":', b"}")])
    nested = start * depth + b"0" + end * depth
    at = data.find(b":", rng.randrange(len(data) + 1)) + 1
    return data[:at] + nested + b"," + data[at:], f"nested {depth} deep at {at}"


def check(case: Case) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        path.write_bytes(case.data)
        for read in _readers(case.format):
            try:
                model = read(path)
            except (fb.ModelFileError, fb.ParameterError) as error:
                message = str(error)
                assert 0 < len(message) <= 1000, f"a message of {len(message):,} characters: {message:.300}"
                assert message.count("\n") <= 1, f"a message of {message.count(chr(10)) + 1} lines: {message:.300}"
                continue
            check_works(model)


def _readers(format_: str) -> list:
    own = {"frameboost": fb.load, "xgboost": fb.from_xgboost, "lightgbm": fb.from_lightgbm,
           "catboost": fb.from_catboost}[format_.partition(" ")[0]]  # fmt: skip
    return [own, open_model]


def check_works(model: fb.Model) -> None:
    """Use the model in every way that needs no database: a broken model must be refused when it is read."""
    repr(model)
    rng = random.Random(0)
    frame = pl.DataFrame({feature.name: _column(feature, rng) for feature in model.ensemble.features})
    margins = model.predict(frame, "margin").to_list()
    assert not any(value != value for row in margins for value in (row if isinstance(row, list) else [row])), margins
    model.predict(frame)
    assert frame.select(model.expr("margin")).to_series().to_list() == margins
    text = model.to_json()
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "again")
        assert fb.load(Path(folder) / "again").to_json() == text
    try:
        model.query("t")
    except fb.ParameterError:  # such as names that differ only in case
        return


def _column(feature: Feature, rng: random.Random) -> pl.Series:
    if feature.type.name == "codes":
        return pl.Series(feature.name, [None, -1, 0, 1, 2, 3, 7, 2**31, 0, 1])
    return to_polars(feature.type, [None, *random_values(feature.type, 9, rng)], feature.name)


def shrink(case: Case) -> Iterator[Case]:
    """Yield the file with one of the damaged top-level fields restored."""
    if case.format not in ("frameboost", "frameboost classes", "xgboost", "catboost", "catboost leafwise"):
        return
    try:
        damaged, whole = json.loads(case.data), json.loads(original(case.format))
    except (ValueError, RecursionError):
        return
    if isinstance(damaged, dict) and isinstance(whole, dict):
        for key in whole:
            if damaged.get(key) != whole[key]:
                yield replace(case, data=_as_json(damaged | {key: whole[key]}))
