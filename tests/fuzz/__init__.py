"""Fuzzing: random cases of five kinds. Each case can be reproduced alone.

A kind is a module that has

- ``generate(rng)``: draws a case with a numpy generator;
- ``check(case)``: raises if the package breaks a promise (each module's docstring says which);
- ``Case``: what it draws, whose repr makes it again without the generator;
- ``shrink(case)``: yields simpler versions of the case, the smallest first (none if it can't be shrunk);
- ``MAX_SECONDS`` and ``MAX_MEGABYTES``: the time and the memory that a case may take.

Case n of a seed is drawn with ``numpy.random.default_rng([seed, number of the kind, n])``. See README.md.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import numpy as np

__all__ = ["KINDS", "draw_case", "kind_module", "script"]

# A kind's position in the list is part of its cases' seeds: append new kinds at the end.
KINDS = ["frames", "models", "calls", "files", "faults"]


def kind_module(kind: str) -> ModuleType:
    """Return the module of a kind."""
    return importlib.import_module(f"tests.fuzz.{kind}")


def draw_case(kind: str, seed: int, number: int) -> Any:
    """Draw a case of a kind by its seed and number."""
    return kind_module(kind).generate(np.random.default_rng([seed, KINDS.index(kind), number]))


def script(kind: str, case: Any) -> str:
    """Return a program that checks a case without the generator."""
    imports = (
        f"from math import inf, nan\nfrom tests.fuzz.columns import Column\nfrom tests.fuzz.{kind} import Case, check"
    )
    return f"{imports}\ncheck({case!r})\n"
