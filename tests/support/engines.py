"""Opens an engine as a fit does, for tests that call its methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from frameboost.data.opening import open_source
from frameboost.engines.choose import choose_engine
from frameboost.engines.description import EngineRequest
from frameboost.parameters.parameters import Parameters
from frameboost.runtime.workers import Workers
from frameboost.schema.feature import Feature
from frameboost.training.tree_methods import choose_tree_method

__all__ = ["open_engine"]


def open_engine(
    engine: str, data: object, features: Sequence[Feature], roles: Mapping[str, str], parameters: Parameters
) -> Any:
    """Return the engine over training rows that a fit with these parameters would open."""
    source, method = open_source(data), choose_tree_method(parameters)
    description = choose_engine(engine, source, method.contract, method.setting, parameters.n_jobs)
    request = EngineRequest(source, tuple(features), roles, parameters, Workers(parameters.n_jobs))
    return method.open_training(description, request)
