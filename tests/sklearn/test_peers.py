"""The same code over our estimators and those of XGBoost, LightGBM and scikit-learn: what it shows holds of each."""

import pickle
import warnings
from inspect import signature

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import average_precision_score

import frameboost as fb
from tests.support.cases import cases
from tests.support.estimator_frames import numbers

xgboost, lightgbm = pytest.importorskip("xgboost"), pytest.importorskip("lightgbm")
# LightGBM 4.6 names the columns of arrays, and has scikit-learn warn of it.
pytestmark = pytest.mark.filterwarnings("ignore:X does not have valid feature names, but LGBM:UserWarning")

X, Y = numbers()
CLASS = np.digitize(Y, [-50, 50])
ROWS, REST = slice(0, 140), slice(140, None)
OURS = (fb.FrameBoostRegressor, fb.FrameBoostClassifier, fb.FrameBoostRanker)
XGBOOST = (xgboost.XGBRegressor, xgboost.XGBClassifier, xgboost.XGBRanker)
LIGHTGBM = (lightgbm.LGBMRegressor, lightgbm.LGBMClassifier, lightgbm.LGBMRanker)
SKLEARN = (HistGradientBoostingRegressor, HistGradientBoostingClassifier)
SIZES, QID = [20] * 10, np.repeat(np.arange(10), 20)


def like(peer, **parameters):
    """Return our estimator with the parameters of another library's, as its users would write it."""
    return OURS[next(i for kinds in (XGBOOST, LIGHTGBM, SKLEARN) for i, kind in enumerate(kinds) if kind is peer)](
        **peer(**parameters).get_params()
    )


@cases("peer", [*XGBOOST[:2], *LIGHTGBM[:2], *SKLEARN])
def test_the_parameters_of_an_estimator_give_a_model_as_good(peer):
    few = {"max_iter": 20} if peer in SKLEARN else {"n_estimators": 20, "n_jobs": 1}
    few |= {"verbosity": -1} if peer in LIGHTGBM else {}
    y = CLASS if "Classifier" in peer.__name__ else Y
    theirs, ours = peer(**few).fit(X, y), like(peer, **few).fit(X, y)
    assert ours.score(X, y) == pytest.approx(theirs.score(X, y), abs=0.05)
    parameters = ours.get_params()
    assert type(ours)(**parameters).get_params() == parameters


@cases(("peer", "parameters", "expected"), [
    (xgboost.XGBRegressor, {"max_depth": 3, "eta": 0.1, "reg_alpha": 1}, {"max_depth": 3, "learning_rate": 0.1}),
    (xgboost.XGBClassifier, {"num_class": 3, "missing": np.nan, "device": "cpu"}, {"learning_rate": 0.3}),
    (xgboost.XGBRanker, {"objective": "rank:map", "early_stopping_rounds": 4}, {"early_stopping_rounds": 4}),
    (lightgbm.LGBMRegressor, {"max_depth": -1, "n_jobs": -1}, {"max_depth": 0, "max_leaves": 31}),
    (lightgbm.LGBMRegressor, {"objective": "regression_l1"}, {"objective": "reg:absoluteerror"}),
    (lightgbm.LGBMRegressor, {"objective": "quantile", "alpha": 0.9}, {"quantile_alpha": 0.9, "reg_alpha": 0.0}),
    (lightgbm.LGBMRegressor, {"objective": "huber", "alpha": 2.0}, {"objective": "reg:huber", "huber_slope": 2.0}),
    (lightgbm.LGBMClassifier, {"class_weight": "balanced"}, {"class_weight": "balanced"}),
    (lightgbm.LGBMClassifier, {"num_classes": 3, "verbose": -1}, {"verbose": -1}),
    (lightgbm.LGBMClassifier, {"objective": "binary", "metric": "binary_logloss"}, {"eval_metric": "logloss"}),
    (lightgbm.LGBMRanker, {"subsample": 0.5, "subsample_freq": 1}, {"subsample": 0.5}),
    (HistGradientBoostingRegressor, {"loss": "quantile", "quantile": 0.2}, {"quantile_alpha": 0.2}),
    (HistGradientBoostingRegressor, {"loss": "poisson", "max_features": 0.5}, {"colsample_bynode": 0.5}),
    (HistGradientBoostingRegressor, {"max_leaf_nodes": None, "max_iter": 7}, {"max_leaves": 0, "max_depth": 0}),
    (HistGradientBoostingClassifier, {"monotonic_cst": [1, 0, 0, 0, 0]}, {"monotone_constraints": [1, 0, 0, 0, 0]}),
    (HistGradientBoostingClassifier, {"interaction_cst": "pairwise"}, {"interaction_constraints": "pairwise"}),
])  # fmt: skip
def test_parameters_are_what_they_are_there(peer, parameters, expected):
    assert expected.items() <= like(peer, **parameters).get_params().items()


@cases(("parameters", "message"), [
    ({"missing": 0.0}, "^missing is no parameter of the estimators: it is NULL and NaN; replace another value"),
    ({"device": "cuda"}, "^device is no parameter of the estimators: it is always the CPU$"),
    ({"eval_at": [1]}, "^unknown parameter 'eval_at': it has the positions of ranking metrics, which are part of"),
    ({"first_metric_only": True}, "^unknown parameter 'first_metric_only': it is not needed: early stopping watches"),
    ({"verbosity": 2}, "^verbosity is no parameter of the estimators: it is not needed"),
    ({"boosting_type": "goss"}, "^unknown parameter 'boosting_type': it is 'gbdt', 'dart' or 'rf' here; 'goss' is of"),
    ({"boosting_type": "rf"}, "^boosting_type='rf' needs a subsample, colsample_bytree or colsample_bynode of less"),
    ({"loss": "squared_error", "objective": "reg:squarederror"}, "^loss and objective are the same parameter"),
])  # fmt: skip
def test_parameters_that_are_not_there_are_refused(parameters, message):
    with pytest.raises(fb.ParameterError, match=message):
        fb.FrameBoostRegressor(**parameters)


def best_round(regressor) -> int:
    """Return the best round, from 0."""
    is_lightgbms = isinstance(regressor, lightgbm.LGBMModel)
    return regressor.best_iteration_ - 1 if is_lightgbms else regressor.best_iteration


HAS_EVAL_X = "eval_X" in signature(lightgbm.LGBMRegressor.fit).parameters  # from 4.7 on


def test_training_stops_where_rows_to_validate_on_say_so():
    rows, rule = {"eval_set": [(X[REST], Y[REST])]}, {"early_stopping_rounds": 3}
    of_lightgbm = {"callbacks": [lightgbm.early_stopping(3, verbose=False), lightgbm.log_evaluation(0)]}
    as_lightgbm = {"eval_X": (X[REST],), "eval_y": (Y[REST],), **of_lightgbm}
    of_xgboost = {"callbacks": [xgboost.callback.EarlyStopping(rounds=3)]}
    kinds = [
        (fb.FrameBoostRegressor(**rule), rows), (xgboost.XGBRegressor(**rule), rows | {"verbose": False}),
        (fb.FrameBoostRegressor(), rows | of_lightgbm),
        (lightgbm.LGBMRegressor(n_estimators=300, verbosity=-1), as_lightgbm if HAS_EVAL_X else rows | of_lightgbm),
        (fb.FrameBoostRegressor(), as_lightgbm), (fb.FrameBoostRegressor(), rows | of_xgboost),
    ]  # fmt: skip
    for regressor, arguments in kinds:
        assert 3 < best_round(regressor.fit(X[ROWS], Y[ROWS], **arguments)) < 290
    ours, theirs = kinds[0][0], kinds[1][0]
    for model in (ours, theirs):
        history = model.evals_result()["validation_0"]["rmse"]
        assert len(history) == model.best_iteration + 4
        assert model.best_score == history[model.best_iteration] == min(history)
    for regressor in (kinds[2][0], kinds[4][0], kinds[5][0]):
        assert (regressor.n_iter_, regressor.best_iteration_) == (ours.n_iter_, ours.best_iteration + 1)
    # scikit-learn's names of the rows.
    fast = {"early_stopping": True, "learning_rate": 0.5}
    for regressor in (fb.FrameBoostRegressor(**fast), HistGradientBoostingRegressor(**fast)):
        assert regressor.fit(X[ROWS], Y[ROWS], X_val=X[REST], y_val=Y[REST]).n_iter_ < 100


def test_what_a_callback_records_and_what_has_no_meaning():
    recorded = {}
    arguments = {"eval_set": (X, Y), "eval_metric": ["l1", "rmse"], "eval_names": ["rows"]}
    ours = fb.FrameBoostRegressor(n_estimators=3).fit(
        X, Y, callbacks=[lightgbm.record_evaluation(recorded)], **arguments
    )
    assert recorded == ours.evals_result_
    assert list(recorded["rows"]) == ["mae", "rmse"]
    assert recorded["rows"]["rmse"][-1] == pytest.approx(np.sqrt(np.mean((ours.predict(X) - Y) ** 2)))
    other = lightgbm.reset_parameter(num_leaves=[4, 5, 6])
    with pytest.raises(fb.ParameterError, match=r"^callbacks has a _ResetParameterCallback of lightgbm's, which"):
        fb.FrameBoostRegressor().fit(X, Y, callbacks=[other])
    with pytest.raises(fb.ParameterError, match=r"^a callback that stops early needs an evaluation set"):
        fb.FrameBoostRegressor().fit(X, Y, callbacks=[xgboost.callback.EarlyStopping(rounds=3)])


def test_callbacks_in_the_form_of_xgboost_read_what_it_gives():
    class Watch:
        def __init__(self):
            self.seen = []

        def before_training(self, model):
            self.seen.append("before")
            return model

        def after_iteration(self, model, epoch, evals_log):
            lengths = {rows: {metric: len(values) for metric, values in of.items()} for rows, of in evals_log.items()}
            self.seen.append((epoch, lengths))
            return epoch == 2

        def after_training(self, model):
            self.seen.append("after")
            return model

    class OfXGBoost(Watch, xgboost.callback.TrainingCallback):
        pass

    made = {"n_estimators": 9, "eval_metric": ["mlogloss", "merror"]}
    pairs = [(X, CLASS), (X[REST], CLASS[REST])]
    theirs, ours, plain = OfXGBoost(), OfXGBoost(), Watch()
    xgboost.XGBClassifier(**made, callbacks=[theirs]).fit(X, CLASS, eval_set=pairs, verbose=False)
    fitted = fb.FrameBoostClassifier(**made, callbacks=[ours]).fit(X, CLASS, eval_set=pairs)
    fb.FrameBoostClassifier(**made).fit(X, CLASS, eval_set=pairs, callbacks=[plain])
    assert plain.seen == ours.seen == theirs.seen
    assert ours.seen[-2][0] == 2 and fitted.n_iter_ == 3


@pytest.mark.parametrize(("ours", "theirs", "y", "metrics"), [
    (fb.FrameBoostClassifier, lightgbm.LGBMClassifier, CLASS, "multi_error"),
    (fb.FrameBoostRegressor, lightgbm.LGBMRegressor, Y, ["l1", "l2"]), (
        fb.FrameBoostRegressor, lightgbm.LGBMRegressor, Y, None),
])  # fmt: skip
def test_callbacks_in_the_form_of_lightgbm_read_what_it_gives(ours, theirs, y, metrics):
    class PrunedError(Exception):
        pass

    def watch(environment):
        seen.append((environment.iteration, environment.begin_iteration, environment.end_iteration))
        named.append({(rows, metric): better for rows, metric, _, better in environment.evaluation_result_list})
        if environment.iteration == 2:
            raise PrunedError

    ways, held_out = [], {"eval_X": X[REST], "eval_y": y[REST]}
    held_out = held_out if HAS_EVAL_X else {"eval_set": [(X[REST], y[REST])]}
    for kind in (theirs, ours):
        seen, named = [], []
        with pytest.raises(PrunedError):
            kind(n_estimators=5, **({"verbose": -1} if kind is theirs else {})).fit(
                X, y, **held_out, eval_metric=metrics, callbacks=[watch]
            )
        ways.append((seen, named))
    assert ways[0][0] == ways[1][0]
    wanted = {"multi_error", "l1", "l2"}
    found = [{names: better for names, better in each.items() if names[1] in wanted} for each in ways[1][1]]
    assert found == [{n: better for n, better in each.items() if n[1] in wanted} for each in ways[0][1]]


def test_a_callback_has_no_model_to_ask():
    class Asks:
        def after_iteration(self, model, epoch, evals_log):
            assert not hasattr(model, "num_trees")
            model.save_model("m.json")

    with pytest.raises(fb.ParameterError, match=r"^a callback reads 'save_model' of the model"):
        fb.FrameBoostRegressor(n_estimators=2, callbacks=[Asks()]).fit(X, Y)


@pytest.mark.slow
def test_a_callback_may_choose_the_metric_and_the_rows_that_stop():
    stop = xgboost.callback.EarlyStopping
    pairs, metrics = [(X[REST], Y[REST]), (X, Y)], ["mae", "rmse"]
    made = {"n_estimators": 40, "learning_rate": 0.7, "max_depth": 3}
    errors = {"mae": lambda off: np.mean(np.abs(off)), "rmse": lambda off: np.sqrt(np.mean(off**2))}
    rounds = []
    for name, rows in (("mae", "validation_0"), ("rmse", "validation_0"), ("mae", "validation_1"), (None, None)):
        rule = stop(rounds=40, metric_name=name, data_name=rows)
        ours = fb.FrameBoostRegressor(**made, eval_metric=metrics, callbacks=[rule]).fit(
            X[ROWS], Y[ROWS], eval_set=pairs
        )
        whole = fb.FrameBoostRegressor(**made).fit(X[ROWS], Y[ROWS])
        table, target = pairs[rows != "validation_0"]
        watched = [errors[name or "rmse"](staged - target) for staged in whole.staged_predict(table)]
        rounds.append(ours.best_iteration)
        assert ours.best_iteration == int(np.argmin(watched)) and ours.n_iter_ == ours.best_iteration + 1
        assert ours.best_score_ == pytest.approx(min(watched))
        assert {s: sorted(m) for s, m in ours.evals_result().items()} == {
            "validation_0": ["mae", "rmse"], "validation_1": ["mae", "rmse"],
        }  # fmt: skip
    assert len(set(rounds)) > 1
    first = lightgbm.early_stopping(40, first_metric_only=True, min_delta=[0.0, 0.5], verbose=False)
    ours = fb.FrameBoostRegressor(**made).fit(X, Y, eval_set=pairs, eval_metric=metrics, callbacks=[first])
    assert ours.best_score_ == min(ours.evals_result_["validation_1"]["mae"])
    for name, rows, message in (
        ("auc", None, "^a callback watches the metric 'auc'; eval_metric is 'mae', 'rmse'$"),
        (None, "test", "^a callback watches the rows 'test'; there are 'validation_0', 'validation_1'$"),
    ):
        rule = stop(rounds=3, metric_name=name, data_name=rows)
        with pytest.raises(fb.ParameterError, match=message):
            fb.FrameBoostRegressor(callbacks=[rule], eval_metric=metrics).fit(X, Y, eval_set=pairs)


def measured_by(peer, table, target, pairs, metric=None) -> dict:
    """Return ``evals_result_`` of a LightGBM estimator."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # eval_set is old-fashioned from 4.7 on
        return peer.fit(table, target, eval_set=pairs, eval_metric=metric).evals_result_


def test_lightgbms_names_find_what_was_measured(tmp_path):
    labels = np.where(Y.mean() < Y, "late", "early")
    recorded: dict = {}
    pairs = [(X, labels), (X[REST], labels[REST])]
    metrics = ["binary_logloss", "average_precision", "auc"]
    metrics += [lambda y, p: ("share right", float(np.mean((p > 0.5) == y)), True)]
    theirs = measured_by(lightgbm.LGBMClassifier(n_estimators=2, verbosity=-1), X, labels, pairs, metrics[:3])
    ours = fb.FrameBoostClassifier(n_estimators=2).fit(
        X, labels, eval_set=pairs, eval_metric=metrics, callbacks=[lightgbm.record_evaluation(recorded)]
    )
    assert list(ours.evals_result_) == ["validation_0", "validation_1"]
    assert list(recorded) == list(theirs) == ["training", "valid_1"]
    for name, metric in (("validation_0", "training"), ("validation_1", "valid_1")):
        by_ours, by_theirs = ours.evals_result_[name], ours.evals_result_[metric]
        assert list(by_ours) == ["logloss", "average_precision", "auc", "share right"]
        table, its_labels = pairs[name == "validation_1"]
        precision = average_precision_score(its_labels == "late", ours.predict_proba(table)[:, 1])
        assert by_theirs["average_precision"][-1] == pytest.approx(precision)
        assert by_theirs["binary_logloss"] == by_ours["logloss"] == recorded[metric]["binary_logloss"]
        assert all(each in by_theirs for each in theirs[metric])
        assert by_theirs["share right"][-1] == pytest.approx(ours.score(*pairs[name == "validation_1"]))
    copied = pickle.loads(pickle.dumps(ours.evals_result_))
    assert copied == ours.evals_result_ and "training" in copied and copied.get("valid_7", 0) == 0
    with pytest.raises(KeyError, match="valid_0"):
        ours.evals_result_["valid_0"]
    ours.save_model(tmp_path / "model.json")
    loaded = fb.FrameBoostClassifier().load_model(tmp_path / "model.json").evals_result_
    assert loaded["training"]["binary_logloss"] == loaded["validation_0"]["logloss"] == recorded["training"]["logloss"]
    regressor = fb.FrameBoostRegressor(n_estimators=2).fit(X, Y, eval_set=[(X[REST], Y[REST])])
    l2 = measured_by(lightgbm.LGBMRegressor(n_estimators=2, verbosity=-1), X, Y, [(X[REST], Y[REST])])
    assert list(l2["valid_0"]) == ["l2"]
    squared = np.mean((regressor.predict(X[REST]) - Y[REST]) ** 2)
    assert regressor.evals_result_["valid_0"]["l2"][-1] == pytest.approx(squared)
    named = fb.FrameBoostRegressor(n_estimators=2).fit(X, Y, eval_set=[(X, Y)], eval_names=["rows"]).evals_result_
    assert list(named) == ["rows"] and "training" not in named


def test_lightgbms_word_for_no_metric():
    pair = {"eval_set": [(X[REST], Y[REST])]}

    def worst(y, predicted):
        return "worst", float(np.abs(y - predicted).max()), False

    for metric, measured in (("None", {}), (["None"], None), ("none", {})):
        fitted = fb.FrameBoostRegressor(n_estimators=2, metric=metric).fit(X, Y, **pair)
        if measured is not None:
            assert fitted.evals_result_ == measured
    fitted = fb.FrameBoostRegressor(n_estimators=2, metric="None").fit(X, Y, **pair, eval_metric=worst)
    assert list(fitted.evals_result_["valid_0"]) == ["worst"]
    off = np.abs(fitted.predict(X[REST]) - Y[REST]).max()
    assert fitted.evals_result_["valid_0"]["worst"][-1] == pytest.approx(off)
    with pytest.raises(fb.ParameterError, match=r"^early stopping needs a metric, and eval_metric is 'None'; name"):
        fb.FrameBoostRegressor(metric="None", early_stopping_rounds=3).fit(X, Y, **pair)


def test_learning_rates_of_callbacks_are_those_of_rounds():
    rates, made = [0.5, 0.1, 0.3], {"n_estimators": 3, "max_depth": 2}
    table = np.round(X)  # few values, so that the cuts are XGBoost's
    # XGBoost 3.2 itself is a round late with them: its first round has the default.
    as_xgboost = {"min_child_samples": 1, "reg_lambda": 1.0, "verbosity": -1}
    theirs = lightgbm.LGBMRegressor(**as_xgboost, **made)
    theirs.fit(table, Y, callbacks=[lightgbm.reset_parameter(learning_rate=rates)])
    for schedule in (
        xgboost.callback.LearningRateScheduler(rates),
        xgboost.callback.LearningRateScheduler(lambda number: rates[number]),
        lightgbm.reset_parameter(learning_rate=rates),
        lightgbm.reset_parameter(learning_rate=lambda number: rates[number]),
    ):
        ours = fb.FrameBoostRegressor(**made).fit(table, Y, callbacks=[schedule])
        np.testing.assert_allclose(ours.predict(table), theirs.predict(table), rtol=1e-6)


@cases(("arguments", "message"), [
    ({"early_stopping_rounds": 3}, r"^early_stopping_rounds is not an argument of fit, but a parameter of the constru"
                                   r"ctor: FrameBoostClassifier\(early_stopping_rounds=3\)$"),
    ({"eta": 0.1}, r"^eta is not an argument of fit, .*: FrameBoostClassifier\(learning_rate=0.1\)$"),
    ({"feature_weights": [1]}, "^feature_weights is not an argument of fit: it is a parameter of the constructor$"),
    ({"evel_set": []}, "^unknown argument of fit: 'evel_set'; did you mean 'eval_set'"),
    ({"init_model": 3, "xgb_model": 4}, "^init_model and xgb_model are the same argument, init_model; pass only that$"),
    ({"X_val": X}, "^X_val and y_val form an evaluation set; pass both$"),
    ({"callbacks": [3]}, "^callbacks must be functions of a round and its metrics, or in the form of XGBoost's or"),
    ({"callbacks": [lambda: None]}, "^callbacks must be functions of a round and .* callbacks, not <function"),
    ({"eval_X": X}, "^eval_X and eval_y form an evaluation set; pass both$"),
    ({"eval_X": (X, X), "eval_y": CLASS}, "^eval_X and eval_y must be tuples of the same length, or one of each$"),
    ({"eval_X": X, "eval_y": CLASS, "eval_set": []}, "^eval_set and eval_X are both evaluation sets; pass one of"),
    ({"verbose": "yes"}, "^verbose must be True or False, or a number, not 'yes'$"),
    ({"eval_set": [(X, CLASS)], "eval_names": ["a", "b"]}, "^eval_names must be a name for each pair of eval_set"),
])  # fmt: skip
def test_arguments_of_fit_are_taken_or_refused(arguments, message):
    with pytest.raises(fb.ParameterError, match=message):
        fb.FrameBoostClassifier().fit(X, CLASS, **arguments)


def test_classes_of_rows_to_validate_on_have_weights():
    words = np.array(["a", "b", "c"])[CLASS]
    own, factors = np.arange(200) % 3 + 1.0, {"a": 1.0, "b": 5.0, "c": 0.5}
    balanced = (200 / 3 / np.bincount(CLASS))[CLASS]
    ours = fb.FrameBoostClassifier(n_estimators=2).fit(
        X, words, eval_set=[(X, words)] * 3, eval_class_weight=["balanced", None, factors],
        eval_sample_weight=[None, None, own],
    )  # fmt: skip
    losses = -np.log(ours.predict_proba(X)[np.arange(200), CLASS])
    for i, weight in enumerate((balanced, np.ones(200), own * [factors[word] for word in words])):
        found = ours.evals_result_[f"validation_{i}"]["mlogloss"][-1]
        assert found == pytest.approx(np.average(losses, weights=weight))
    for wrong, message in (
        ("balanced", " must be a list with an item for each"),
        (["even"], r"\[0\] must be a dict of"),
    ):
        with pytest.raises(fb.ParameterError, match=f"^eval_class_weight{message}"):
            ours.fit(X, words, eval_set=[(X, words)], eval_class_weight=wrong)
    with pytest.raises(fb.ParameterError, match=r"^unknown argument of fit: 'eval_class_weight'"):
        fb.FrameBoostRegressor().fit(X, Y, eval_class_weight=[None])


def test_values_have_names_too():
    for name in ("objective", "loss", "app"):
        assert fb.FrameBoostRegressor(**{name: "regression_l1"}).objective == "reg:absoluteerror"
        assert fb.FrameBoostRegressor().set_params(**{name: "poisson"}).objective == "count:poisson"
    assert fb.FrameBoostRegressor(metric=["l1", "rmse"]).eval_metric == ["mae", "rmse"]
    metrics = ["mae", "rmse"]
    assert fb.FrameBoostRegressor(eval_metric=metrics).eval_metric is metrics  # which clone asks for
    weight = np.arange(200) + 1.0
    squares = fb.FrameBoostRegressor(n_estimators=2, metric="l2").fit(
        X, Y, weight, eval_set=(X, Y), eval_sample_weight=[weight]
    )
    expected = np.average((squares.predict(X) - Y) ** 2, weights=weight)
    assert squares.evals_result_["validation_0"]["l2"][-1] == pytest.approx(expected)
    positive = fb.FrameBoostRegressor(n_estimators=2, loss="gamma", metric="gamma")
    amounts = np.abs(Y) + 1
    positive.fit(X, amounts, eval_set=(X, amounts))
    ratio = amounts / positive.predict(X)
    metrics = positive.evals_result_["validation_0"]
    assert metrics["gamma-nloglik"][-1] == pytest.approx(np.mean(ratio + np.log(positive.predict(X))))
    for y, metric in ((CLASS, "multi_logloss"), (CLASS, "binary_logloss"), (CLASS > 0, "multi_logloss")):
        classifier = fb.FrameBoostClassifier(n_estimators=1).fit(X, y, eval_set=(X, y), eval_metric=metric)
        assert list(classifier.evals_result_["validation_0"]) == ["mlogloss" if y is CLASS else "logloss"]
    default = fb.FrameBoostClassifier(n_estimators=1).fit(X, CLASS, eval_set=(X, CLASS), eval_metric=[])
    assert list(default.evals_result_["validation_0"]) == ["mlogloss"]
    assert fb.FrameBoostRegressor(n_estimators=1, n_jobs=-2).fit(X, Y).n_iter_ == 1
    two = fb.FrameBoostClassifier(objective="multiclass", num_classes=2, n_estimators=1).fit(X, CLASS > 0)
    assert two.predict(X, raw_score=True).shape == (200, 2)


def test_attributes_have_the_names_of_all_libraries():
    ours = fb.FrameBoostClassifier(n_estimators=3).fit(X, CLASS)
    theirs = lightgbm.LGBMClassifier(n_estimators=3, verbosity=-1).fit(X, CLASS)
    assert ours.booster_ is ours.get_booster() is ours.model_
    assert ours.n_classes_ == theirs.n_classes_ == 3
    assert ours.n_estimators_ == theirs.n_estimators_ == ours.n_iter_ == theirs.n_iter_ == 3
    assert len(ours.feature_name_) == len(theirs.feature_name_)
    assert (ours.objective_, theirs.objective_) == ("multi:softprob", "multiclass")
    assert ours.get_num_boosting_rounds() == xgboost.XGBClassifier(n_estimators=3).get_num_boosting_rounds() == 3
    assert fb.FrameBoostRegressor(n_estimators=None).get_num_boosting_rounds() == 100
    given = {"max_depth": 3, "eta": 0.1}
    both = fb.FrameBoostClassifier(warm_start=True, **given), xgboost.XGBClassifier(importance_type="gain", **given)
    for made in both:
        found = made.get_xgb_params()
        assert found["max_depth"] == 3
        assert {"warm_start", "importance_type"}.isdisjoint(found)


def test_a_progress_bar_is_shown_where_it_is_asked_for(capsys):
    for verbose in (None, False, 0):
        fb.FrameBoostRegressor(n_estimators=1).fit(X, Y, verbose=verbose)
    assert capsys.readouterr().err == ""


def test_rounds_are_chosen_in_predict():
    ours, theirs = (kind(n_estimators=5, max_depth=2).fit(X, CLASS) for kind in (OURS[1], XGBOOST[1]))
    for model in (ours, theirs):
        first = type(model)(n_estimators=2, max_depth=2).fit(X, CLASS)
        for name in ("predict", "predict_proba"):
            few = getattr(model, name)(X, iteration_range=(0, 2))
            np.testing.assert_allclose(few, getattr(first, name)(X), rtol=1e-5)
            np.testing.assert_array_equal(getattr(model, name)(X, iteration_range=(0, 0)), getattr(model, name)(X))
        margins = model.predict(X, output_margin=True)
        powers = np.exp(margins - margins.max(axis=1, keepdims=True))
        np.testing.assert_allclose(model.predict_proba(X), powers / powers.sum(axis=1, keepdims=True), rtol=1e-5)
        assert model.apply(X, iteration_range=(0, 2)).shape == (200, 6)
    quiet = {"verbosity": -1}
    ours, theirs = (kind(n_estimators=5, num_leaves=4, **quiet).fit(X, Y) for kind in (OURS[0], LIGHTGBM[0]))
    for model in (ours, theirs):
        first = type(model)(n_estimators=2, num_leaves=4, **quiet).fit(X, Y)
        np.testing.assert_allclose(model.predict(X, num_iteration=2), first.predict(X))
        np.testing.assert_array_equal(model.predict(X, num_iteration=-1), model.predict(X))
        np.testing.assert_array_equal(model.predict(X, raw_score=True), model.predict(X))
        assert model.predict(X, pred_leaf=True).shape == (200, 5)
        np.testing.assert_allclose(model.predict(X, pred_contrib=True).sum(axis=1), model.predict(X))
    with pytest.raises(
        fb.ParameterError, match=r"^iteration_range must be a pair of rounds, \(first, after the last\), not 3$"
    ):
        ours.predict(X, iteration_range=3)
    with pytest.raises(fb.ParameterError, match=r"^iteration_range and num_iteration are the same argument"):
        ours.predict(X, iteration_range=(0, 2), num_iteration=2)
    for name in ("raw_scores", "pred_early_stop"):
        with pytest.raises(fb.ParameterError, match=f"^unknown argument of predict: '{name}'"):
            ours.predict(X, **{name: True})
    np.testing.assert_array_equal(ours.predict(X, pred_early_stop=False, validate_features=True), ours.predict(X))


def test_contributions_of_classes_have_lightgbms_shape():
    ours, theirs = (kind(n_estimators=2, max_depth=2).fit(X, CLASS) for kind in (OURS[1], LIGHTGBM[1]))
    found, expected = (estimator.predict(X, pred_contrib=True) for estimator in (ours, theirs))
    assert found.shape == expected.shape == (200, 18)
    for each, estimator, margins in ((found, ours, "output_margin"), (expected, theirs, "raw_score")):
        sums = each.reshape(200, 3, 6).sum(axis=2)  # five features and the bias of a class follow each other
        np.testing.assert_allclose(sums, estimator.predict(X, **{margins: True}))


@pytest.mark.parametrize("name", ["categorical_feature", "cat_features", "categorical_features"])
def test_fit_takes_the_columns_of_categories(name):
    rng = np.random.default_rng(5)
    table = np.column_stack([rng.integers(0, 6, 300), rng.normal(size=300)])
    target = np.isin(table[:, 0], [1, 4]) * 3.0  # no threshold splits these
    made = {"n_estimators": 1, "max_depth": 1, "learning_rate": 1.0, "reg_lambda": 0.0, "min_child_weight": 0.0}
    fitted = fb.FrameBoostRegressor(**made, cat_smooth=0.0).fit(table, target, **{name: [0]})
    np.testing.assert_allclose(fitted.predict(table), target, atol=1e-9)
    assert (
        fitted.model_
        == fb.FrameBoostRegressor(**made, cat_smooth=0.0, categorical_features=[0]).fit(table, target).model_
    )
    named = pd.DataFrame(table, columns=["c", "x"])
    again = fb.FrameBoostRegressor(**made, cat_smooth=0.0, categorical_features=["x"]).fit(
        named, target, **{name: ["c"]}
    )
    np.testing.assert_allclose(again.predict(named), target, atol=1e-9)
    assert again.categorical_features == ["x"]  # the constructor's parameter stays as it is
    with pytest.raises(fb.ParameterError, match="categorical_features"):
        fitted.fit(table, target, **{name: [7]})


@cases("kind", ["weight", "gain", "cover", "total_gain", "total_cover"])
def test_importances_are_xgboosts(kind):
    table = np.round(X)  # few values, so that the cuts are XGBoost's
    ours, theirs = (
        each(n_estimators=3, max_depth=3, importance_type=kind).fit(table, Y) for each in (OURS[0], XGBOOST[0])
    )
    np.testing.assert_allclose(ours.feature_importances_, theirs.feature_importances_, rtol=1e-3)
    assert ours.get_booster() is ours.model_
    if kind == "weight":
        split = OURS[0](n_estimators=3, max_depth=3, importance_type="split").fit(table, Y)
        np.testing.assert_array_equal(split.feature_importances_, ours.feature_importances_)


def test_an_importance_that_is_not_there_is_refused():
    with pytest.raises(
        fb.ParameterError, match=r"^importance_type must be one of 'gain', 'weight', 'split', 'cover', 'total_gain'"
    ):
        _ = fb.FrameBoostRegressor(n_estimators=1, importance_type="shap").fit(X, Y).feature_importances_


@cases("columns", [X, pd.DataFrame(X, columns=list("abcde"))])
def test_constraints_by_position_hold_of_all(columns):
    up, target = {"monotone_constraints": (0, 1, 0, -1, 0)}, X[:, 1] - X[:, 3] + np.sin(3 * X[:, 1]) + X[:, 0]
    kinds = [fb.FrameBoostRegressor(n_estimators=9, **up), xgboost.XGBRegressor(n_estimators=9, **up),
             lightgbm.LGBMRegressor(n_estimators=9, verbosity=-1, **up),
             HistGradientBoostingRegressor(max_iter=9, monotonic_cst=up["monotone_constraints"]),
             fb.FrameBoostRegressor(n_estimators=9, monotonic_cst="(0,1,0,-1,0)")]  # fmt: skip
    for regressor in kinds:
        regressor.fit(columns, target)
        for column, direction in ((1, 1), (3, -1)):
            moved = np.zeros((50, 5))
            moved[:, column] = np.linspace(-3, 3, 50)
            steps = np.diff(regressor.predict(moved if columns is X else pd.DataFrame(moved, columns=columns.columns)))
            assert (direction * steps >= 0).all()
            assert (steps != 0).any()


@pytest.mark.slow
def test_a_query_is_told_in_every_way():
    y, frame = CLASS, pd.DataFrame(X, columns=list("abcde")).assign(qid=QID)
    for ranker in (fb.FrameBoostRanker, xgboost.XGBRanker):
        made = {"n_estimators": 4, "max_depth": 2}
        by_qid = ranker(**made).fit(X, y, qid=QID).predict(X)
        by_group = ranker(**made).fit(X, y, group=SIZES, eval_set=[(X, y)], eval_group=[SIZES], verbose=False)
        by_column = ranker(**made).fit(frame, y, eval_set=[(frame, y)], verbose=False)
        np.testing.assert_allclose(by_group.predict(X), by_qid, rtol=1e-6)
        np.testing.assert_allclose(by_column.predict(frame), by_qid, rtol=1e-6)
        assert 0.9 < by_column.score(frame, y) <= 1
        weighted = ranker(**made).fit(X, y, qid=QID, sample_weight=np.arange(10) + 1.0).predict(X)
        assert not np.allclose(weighted, by_qid)
    ours = fb.FrameBoostRanker(**made).fit(frame, y)
    assert ours.feature_names_in_.tolist() == list("abcde")
    rows = {"group": np.array(SIZES) * 1.0, "eval_X": X, "eval_y": y, "eval_group": [SIZES]}
    at = fb.FrameBoostRanker(**made).fit(X, y, eval_at=(1, 3), **rows).evals_result_["validation_0"]
    assert list(at) == ["ndcg@1", "ndcg@3"]
    assert (
        ours.score(frame, y) == ours.score(frame.drop(columns="qid"), y, qid=QID) == ours.score(frame, y, group=SIZES)
    )
    for given in (frame[list("abcde")], X):  # fitted without the column, which is then beside the features
        ours, theirs = (ranker(**made).fit(given, y, qid=QID) for ranker in (fb.FrameBoostRanker, xgboost.XGBRanker))
        scored = frame.rename(columns={name: k for k, name in enumerate("abcde")}) if given is X else frame
        assert ours.score(scored, y) == ours.score(given, y, qid=QID)
        assert ours.score(scored, y) == pytest.approx(theirs.score(scored, y), abs=1e-3)
        assert ours.predict(scored).tolist() == ours.predict(given).tolist()
    with_name = fb.FrameBoostRanker(**made).fit(frame, y, qid=QID)  # where the column is one like others
    assert with_name.n_features_in_ == 6
    lightgbms = lightgbm.LGBMRanker(verbosity=-1, **made).fit(X, y, group=SIZES)
    assert np.corrcoef(lightgbms.predict(X), by_qid)[0, 1] > 0.8


def test_weights_of_queries_come_in_their_order():
    order = np.random.default_rng(0).permutation(200)
    qid, made, weight = (
        np.array([f"q{9 - q}" for q in QID])[order],
        {"n_estimators": 3, "max_depth": 2},
        np.arange(10.0),
    )
    first = list(dict.fromkeys(qid))
    per_row = np.array([weight[first.index(q)] for q in qid])
    ranker = fb.FrameBoostRanker(**made).fit(X[order], CLASS[order], qid=qid, sample_weight=weight)
    same = fb.FrameBoostRanker(**made).fit(X[order], CLASS[order], qid=qid, sample_weight=per_row)
    assert ranker.model_ == same.model_
    assert ranker.score(X[order], CLASS[order], weight, qid=qid) == ranker.score(
        X[order], CLASS[order], per_row, qid=qid
    )
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples"):
        ranker.fit(X[order], CLASS[order], qid=qid, sample_weight=weight[:7])


@cases(("arguments", "message"), [
    ({"group": [150]}, r"^group must have the number of rows of each query, 200 together, not \[150\]; the query"),
    ({"group": [100.5, 99.5]}, "^group must have the number of rows of each query"),
    ({"group": SIZES, "qid": QID}, "^qid and group both name the queries; pass one of them$"),
    ({"eval_set": [(X, CLASS)], "eval_group": [SIZES, SIZES]}, "^eval_qid and eval_group must be lists with an item"),
    ({"eval_set": [(X, CLASS)], "group": SIZES}, "^eval_set needs the queries of its rows, as fit has queries"),
])  # fmt: skip
def test_queries_that_contradict_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        fb.FrameBoostRanker().fit(X, CLASS, **arguments)


def test_stages_and_warm_starts_are_as_many_as_rounds():
    for kind, name in ((fb.FrameBoostClassifier, "n_estimators"), (HistGradientBoostingClassifier, "max_iter")):
        classifier = kind(**{name: 3}, warm_start=True).fit(X, CLASS)
        assert len(list(classifier.staged_predict_proba(X))) == classifier.n_iter_ == 3
        first = list(classifier.staged_predict(X))
        classifier.set_params(**{name: 5}).fit(X, CLASS)
        stages = list(classifier.staged_predict(X))
        assert len(stages) == classifier.n_iter_ == 5
        np.testing.assert_array_equal(stages[:3], first)
