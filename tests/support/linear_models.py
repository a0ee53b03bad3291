"""Random models with linear leaves, and rows for them."""

from __future__ import annotations

import random

import numpy as np

import frameboost as fb
from frameboost.schema.types import FeatureType
from tests.support.random_models import random_model, random_values

__all__ = ["N_ROWS", "drawn"]

N_ROWS = 60


def drawn(seed: int, type_names: list[str]) -> tuple[fb.Model, list[FeatureType], dict[str, list]]:
    """Return a model with linear leaves, and rows of odd and of usual values."""
    rng = random.Random(seed)
    kinds = [FeatureType(name) for name in ["float64", *type_names]]
    names = [f"x{i}" for i in range(len(kinds))]
    model = random_model(kinds, names, rng, n_trees=4, depth=3, linear=True)
    columns = {name: random_values(kind, N_ROWS, rng) for name, kind in zip(names, kinds, strict=True)}
    for name, kind in zip(names, kinds, strict=True):
        if kind.is_float or kind.is_integer:
            usual = [rng.uniform(0, 100) for _ in range(N_ROWS // 2)]
            exact = [float(np.float32(v)) if kind.name == "float32" else v if kind.is_float else int(v) for v in usual]
            columns[name][: N_ROWS // 2] = exact
    return model, kinds, columns
