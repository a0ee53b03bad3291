"""Constructors of estimators that take XGBoost's and LightGBM's names of parameters.

scikit-learn reads an estimator's parameters from the signature of its constructor, and ``clone`` gives them to a new
one. So the signature keeps to the names here, and other names are translated before they are stored:
``FrameBoostRegressor(eta=0.1)`` is ``FrameBoostRegressor(learning_rate=0.1)``, and ``get_params`` says so.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from frameboost.checks.messages import did_you_mean, shown
from frameboost.errors import ParameterError
from frameboost.parameters.aliases import ALIASES, under_our_names

__all__ = ["by_any_name", "seed_of", "under_names_of", "with_inherited"]

_Init = TypeVar("_Init", bound=Callable[..., None])

_ELSEWHERE = {
    "num_class": "is the number of labels in y",
    "sample_weight": "is an argument of fit",
    "eval_set": "is an argument of fit",
    "qid": "is an argument of the ranker's fit",
    "group": "is of XGBoost's ranker; here fit takes the query of each row, as qid",
    "verbosity": "is not needed: the estimators print nothing",
    "verbose": "is not needed: the estimators print nothing",
    "silent": "is not needed: the estimators print nothing",
    "missing": "is NULL and NaN; replace another value by one of them",
    "importance_type": "is a choice of model_.importance(kind); feature_importances_ is its mean gain",
    "device": "is always the CPU",
    "use_label_encoder": "is not needed: y may hold labels of any kind",
    "warm_start": "is not there; fb.fit(..., init_model=estimator.model_) grows more trees",
}
"""Where to find what estimators of other libraries take in their constructors."""


def by_any_name(*, inherited: Callable[..., None] | None = None) -> Callable[[_Init], _Init]:
    """Return a decorator of a constructor, which then takes its parameters by any name in `aliases`.

    A constructor with ``**parameters`` passes them on to the ``inherited`` one, and has its signature too.
    """

    def decorate(init: _Init) -> _Init:
        declared = list(inspect.signature(init).parameters.values())
        if inherited is not None:
            first, *own = (p for p in declared if p.kind is not p.VAR_KEYWORD)
            declared = [first, *list(inspect.signature(inherited).parameters.values())[1:], *own]
        names = [p.name for p in declared[1:]]

        @wraps(init)
        def construct(self: Any, **parameters: Any) -> None:
            init(self, **under_names_of(names, parameters))

        construct.__signature__ = inspect.Signature(declared)  # type: ignore[attr-defined]
        return construct  # type: ignore[return-value]

    return decorate


def with_inherited(init: Callable[..., None], inherited: Callable[..., None]) -> tuple[str, ...] | None:
    """Give a constructor with ``**parameters`` the signature that has the ``inherited`` ones, for scikit-learn.

    Returns the names that it has itself; None where it passes nothing on.
    """
    declared = list(inspect.signature(init).parameters.values())
    named = [p for p in declared if p.kind is not p.VAR_KEYWORD]
    if len(named) == len(declared):
        return None
    known = {p.name for p in named}
    passed = (p for p in inspect.signature(inherited).parameters.values() if p.name not in known)
    more = [p.replace(kind=p.KEYWORD_ONLY) for p in passed]
    init.__signature__ = inspect.Signature([*named, *more])  # type: ignore[attr-defined]
    return tuple(p.name for p in named[1:])


def under_names_of(names: Iterable[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters under the names that an estimator has for them.

    Raises
    ------
    ParameterError
        If a name is of no parameter, or two are of one.

    Examples
    --------
    >>> under_names_of(["learning_rate", "n_jobs"], {"eta": 0.1, "n_jobs": 2})
    {'learning_rate': 0.1, 'n_jobs': 2}
    """
    known = set(names)
    if known.issuperset(given):  # as clone gives them, who wants the same objects back
        return dict(given)
    # An estimator's own names, of which some are aliases in `frameboost.fit`, as `random_state` is.
    own = {name: value for name, value in given.items() if name in known and name in ALIASES}
    found = own | under_our_names({name: value for name, value in given.items() if name not in own})
    for name in found:
        if name in _ELSEWHERE and name not in known:
            raise ParameterError(f"{name} is no parameter of the estimators: it {_ELSEWHERE[name]}")
        if name not in known:
            raise ParameterError(f"unknown parameter {shown(name)}{did_you_mean(name, known)}")
    return found


def seed_of(random_state: Any, seed: Any) -> Any:
    """Return the seed that ``random_state`` stands for; `frameboost.fit` checks it."""
    most = np.iinfo(np.int32).max
    if random_state is None:
        return seed
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(most))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(most))
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool) and random_state >= 0:
        return int(random_state)
    raise ParameterError(
        "random_state must be an integer of at least 0, a RandomState or a Generator of numpy's, or None, not "
        f"{shown(random_state)}"
    )
