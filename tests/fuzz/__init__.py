"""Fuzzing: random cases of five kinds, each of which can be repeated alone.

A kind is a module that has

- ``generate(rng)``: a case, drawn with a numpy generator;
- ``check(case)``: raises where the package does not keep what it promises;
- ``script(case)``: a program that repeats the case without the generator;
- ``smaller(case)``: yields cases with less in them, the smallest first (none, if a case can't be shrunk);
- ``MOST_SECONDS`` and ``MOST_MEGABYTES``: what a case may take.

Case n of a seed is drawn with ``numpy.random.default_rng([seed, number of the kind, n])``. See README.md.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import numpy as np

__all__ = ["KINDS", "draw_case", "kind_module"]

# A kind's place in the list is part of the seeds of its cases: append new ones.
KINDS = ["frames", "models", "calls", "files", "faults"]


def kind_module(kind: str) -> ModuleType:
    """Return the module of a kind."""
    return importlib.import_module(f"tests.fuzz.{kind}")


def draw_case(kind: str, seed: int, number: int) -> Any:
    """Return the case of that number."""
    return kind_module(kind).generate(np.random.default_rng([seed, KINDS.index(kind), number]))
