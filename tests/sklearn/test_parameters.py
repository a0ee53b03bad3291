"""Parameters of the estimators: by any name, as scikit-learn has them, and as the seed and the weights of classes."""

import inspect
import pickle

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.ensemble import BaggingRegressor
from sklearn.utils.class_weight import compute_sample_weight

import frameboost as fb
from tests.support.cases import cases
from tests.support.estimator_frames import ESTIMATORS, SHAPE, numbers


class Named(fb.FrameBoostRegressor):
    """Names what it takes, and fixes a parameter."""

    def __init__(self, *, shift=0.0, n_estimators=3, random_state=None):
        super().__init__(n_estimators=n_estimators, random_state=random_state, max_depth=2)
        self.shift = shift


class PassedOn(fb.FrameBoostClassifier):
    """Passes parameters on, and gives one of its own accord; two are called as LightGBM's and XGBoost's are."""

    def __init__(self, shift=0.0, num_leaves=31, alpha=0.5, **parameters):
        super().__init__(max_depth=2, **parameters)
        self.shift, self.num_leaves, self.alpha = shift, num_leaves, alpha


class OfSubclass(PassedOn):
    """Adds one more."""

    def __init__(self, *, scale=1.0, **parameters):
        super().__init__(**parameters)
        self.scale = scale


class Plain(fb.FrameBoostRanker):
    """Adds nothing."""


@pytest.mark.slow
@cases("kind", [Named, PassedOn, OfSubclass, Plain])
def test_subclasses_may_have_parameters_of_their_own(kind):
    X, y = numbers()[0], np.arange(200) % 2
    estimator = kind(n_estimators=2, **({} if kind is Plain else {"shift": 1.5}))
    parent = next(base for base in kind.__mro__ if base.__module__.startswith("frameboost"))
    expected = parent(n_estimators=2, **({} if kind is Plain else {"max_depth": 2})).fit(X, y)
    assert estimator.fit(X, y).model_ == expected.model_
    parameters = estimator.get_params()
    for copy in (clone(estimator), pickle.loads(pickle.dumps(estimator))):
        assert type(copy) is kind
        assert copy.get_params() == parameters
        assert copy.fit(X, y).model_ == expected.model_
    if kind is not Plain:
        assert parameters["shift"] == 1.5
        assert "shift=1.5" in repr(estimator)
    changed = estimator.set_params(n_estimators=1).fit(X, y)
    assert changed.model_ == expected.set_params(n_estimators=1).fit(X, y).model_
    if issubclass(kind, PassedOn):
        changed.set_params(eta=0.1, num_leaves=5, alpha=0.25, max_depth=3)
        chosen = {"learning_rate": 0.1, "num_leaves": 5, "alpha": 0.25, "max_depth": 3, "reg_alpha": 0.0}
        assert chosen.items() <= clone(changed).get_params().items()


@cases("kind", ESTIMATORS)
def test_other_names_are_stored_under_ours(kind):
    estimator = kind(eta=0.1, num_boost_round=7, lambda_l2=2.0, nthread=-1, random_state=5)
    assert estimator.learning_rate == 0.1
    shown = {"learning_rate": 0.1, "n_estimators": 7, "reg_lambda": 2.0, "n_jobs": None, "random_state": 5}
    assert estimator.get_params() == kind().get_params() | shown
    assert clone(estimator).get_params() == estimator.get_params()
    assert "eta" not in inspect.signature(kind).parameters
    assert estimator.set_params(eta=0.2, max_depth=2, min_split_loss=1.0).get_params() == estimator.get_params()
    assert (estimator.learning_rate, estimator.max_depth, estimator.gamma) == (0.2, 2, 1.0)


def test_num_leaves_lifts_the_limit_of_depth_unless_one_is_chosen():
    leaf_by_leaf = {"max_leaves": 31, "grow_policy": "lossguide", "max_depth": 0}
    assert leaf_by_leaf.items() <= fb.FrameBoostRegressor(num_leaves=31, max_depth=-1).get_params().items()
    assert leaf_by_leaf.items() <= fb.FrameBoostRegressor().set_params(num_leaves=31).get_params().items()
    chosen = fb.FrameBoostRegressor(max_depth=4).set_params(num_leaves=31)
    assert (leaf_by_leaf | {"max_depth": 4}).items() <= chosen.get_params().items()


@cases(
    ("given", "message"),
    [
        (
            {"eta": 0.1, "learning_rate": 0.2},
            "^eta=0.1 and learning_rate=0.2 are the same parameter, learning_rate; set ",
        ),
        (
            {"bagging_freq": 0, "subsample": 0.5},
            "^bagging_freq=0 never draws rows, and subsample is less than 1; leave",
        ),
        ({"verbosity": 3}, "^verbosity is no parameter of the estimators: it is not needed: the estimators print no"),
        ({"eval_set": []}, "^eval_set is no parameter of the estimators: it is an argument of fit$"),
        ({"lerning_rate": 1}, "^unknown parameter 'lerning_rate'; did you mean 'learning_rate'"),
    ],
)
def test_other_names_are_refused_with_a_sentence(given, message):
    with pytest.raises(fb.ParameterError, match=message):
        fb.FrameBoostClassifier(**given)
    with pytest.raises(fb.ParameterError, match=message):
        fb.FrameBoostClassifier().set_params(**given)


def test_parameters_go_by_keyword():
    with pytest.raises(TypeError, match="takes 1 positional argument but 2 were given"):
        fb.FrameBoostRegressor(100)


def test_a_random_state_is_the_seed():
    X, y = numbers()

    def model(**given):
        return fb.FrameBoostRegressor(subsample=0.5, **SHAPE, **given).fit(X, y).model_

    assert model(random_state=7) == model(seed=7) == model(seed=1, random_state=np.int64(7)) != model()
    drawn = int(np.random.RandomState(3).randint(np.iinfo(np.int32).max))
    assert model(random_state=np.random.RandomState(3)) == model(seed=drawn)
    generator = np.random.default_rng(3)
    assert model(random_state=generator) == model(seed=int(np.random.default_rng(3).integers(2**31 - 1)))
    assert model(random_state=generator) != model(random_state=np.random.default_rng(3))  # the next number
    assert model(random_state=None) == model(seed=0)
    for bad in (-1, "7", True, 0.5):
        with pytest.raises(fb.ParameterError, match=r"^random_state must be an integer of at least 0, a RandomState"):
            model(random_state=bad)


def test_bagging_sets_the_random_state():
    X, y = numbers()
    bagged = BaggingRegressor(fb.FrameBoostRegressor(seed=3, **SHAPE), n_estimators=2, random_state=0).fit(X, y)
    assert len({estimator.random_state for estimator in bagged.estimators_}) == 2


@cases("labels, class_weight, is_weighted", [
    (["no", "yes"], "balanced", True), (["no", "yes"], {"no": 0.5, "yes": 2}, False), ([3, -1], {-1: 5.0}, True),
    ([True, False], {True: 0.5, False: 2}, True), (["a", "b", "c"], "balanced", False),
])  # fmt: skip
def test_class_weights_are_scikit_learns(labels, class_weight, is_weighted):
    X, _ = numbers()
    y = np.array(labels)[np.minimum(np.arange(200) % 7, len(labels) - 1)]
    weight = np.arange(200) % 3 + 1.0 if is_weighted else np.ones(200)
    expected = fb.FrameBoostClassifier(**SHAPE).fit(X, y, compute_sample_weight(class_weight, y) * weight)
    found = fb.FrameBoostClassifier(class_weight=class_weight, **SHAPE).fit(X, y, weight if is_weighted else None)
    assert found.model_ == expected.model_


@cases(
    ("class_weight", "message"),
    [
        ("balance", "^class_weight must be a dict of label to factor, 'balanced' or None, not 'balance'$"),
        ({"no": -1.0}, "^class_weight of 'no' must be a finite number of at least 0, not -1.0$"),
        ({"no": "heavy"}, "^class_weight of 'no' must be a finite number of at least 0, not 'heavy'$"),
        ({"no": 0, "yes": 0}, "^class_weight is zero for every class of y; at least one must be positive$"),
        ({"maybe": 2, "no": 1}, "The classes, .* are not in class_weight"),
    ],
)
def test_bad_class_weights(class_weight, message):
    classifier = fb.FrameBoostClassifier(class_weight=class_weight)
    with pytest.raises(ValueError, match=message):
        classifier.fit(pl.DataFrame({"x": range(40)}), ["no", "yes"] * 20)
