"""Random models with linear leaves, and rows for them."""

from __future__ import annotations

import random

import numpy as np

import frameboost as fb
from tests.support.random_models import random_case

__all__ = ["N_ROWS", "drawn"]

N_ROWS = 60


def drawn(seed: int, type_names: list[str]) -> tuple[fb.Model, dict[str, list]]:
    """Return a model with linear leaves, and rows of odd and of usual values."""
    rng = random.Random(seed)
    model, columns, _ = random_case(["float64", *type_names], rng, N_ROWS, depth=3, linear=True)
    for name, kind in ((feature.name, feature.type) for feature in model.ensemble.features):
        if kind.is_float or kind.is_integer:
            usual = [rng.uniform(0, 100) for _ in range(N_ROWS // 2)]
            exact = [float(np.float32(v)) if kind.name == "float32" else v if kind.is_float else int(v) for v in usual]
            columns[name][: N_ROWS // 2] = exact
    return model, columns
