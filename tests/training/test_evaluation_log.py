"""Early stopping by a metric that has no finite value: in all rounds, in some, in some folds; a warning says so."""

import math

import duckdb
import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.cli import main
from frameboost.errors import DataError, FrameboostWarning
from frameboost.training.evaluation_log import EvaluationLog
from tests.support.cases import cases

N = 40
X = np.arange(N) % 10 * 1.0
FIRST = np.arange(N) % 4 == 0  # the rows to validate on


def frame(y) -> pl.DataFrame:
    return pl.DataFrame({"x": X, "y": y, "v": FIRST, "fold": np.arange(N) % 4})


ONE_IS_ZERO = frame(np.where(np.arange(N) == 4, 0.0, X + 1))


class Scores:
    """A metric of these values, one a round."""

    name = "score"

    def __init__(self, values, maximize=False):
        self.values, self.maximize, self.terms = iter(values), maximize, {}

    def evaluate(self, rows):
        return next(self.values)


NAN, INF = math.nan, math.inf


@cases(
    ("values", "maximize", "patience", "best", "n_rounds"),
    [
        ([NAN] * 9, False, 2, None, 9),
        ([INF] * 9, False, 2, None, 9),
        ([-INF] * 9, False, 2, None, 9),  # which would be the best possible value
        ([INF] * 9, True, 2, None, 9),
        ([-INF] * 9, True, 2, None, 9),
        ([NAN, NAN, NAN, 5, 4, 6, 6, 1], False, 2, 5, 7),  # patience is of rounds with a value
        ([3, NAN, NAN, NAN, 2, 4, 4], False, 2, 5, 7),
        ([3, -INF, INF, 2, 4, 4], False, 2, 4, 6),
        ([3, INF, NAN, 4, 2, 3], True, 2, 4, 6),
        ([3, 4, NAN, 5, 1], False, 2, 1, 4),
    ],
)
def test_a_round_without_a_finite_value_neither_stops_nor_is_the_best(values, maximize, patience, best, n_rounds):
    log = EvaluationLog({"valid": None}, [Scores(values, maximize)], patience)
    with pytest.warns(FrameboostWarning, match="eval_metric 'score' is -?(nan|inf) on 'valid' in round") as seen:
        for _ in values:
            if log.end_round():
                break
    assert (log.best_round, log.n_rounds) == (best, n_rounds)
    assert log.best_score == (None if best is None else values[best - 1])
    assert len(seen) == 1  # once, not each round
    assert log.frame()["valid_score"].to_list() == pytest.approx(values[:n_rounds], nan_ok=True)


LABELS = {
    "negative": X - 5,
    "one class": np.where(FIRST, 0, X % 2 == 0) * 1.0,
    "class": X % 2,
    "zero": ONE_IS_ZERO["y"],
}


@cases(
    ("number", "labels", "metric", "cause", "more"),
    [(number, *case) for number, case in enumerate([
        ("zero", "mape", "a label there is 0", {}),
        ("negative", "rmsle", "-1 or less", {}),
        ("negative", "poisson-nloglik", "negative", {}),
        ("negative", "tweedie-nloglik@1.5", "0 or less", {}),
        ("one class", "auc", "rows of each class", {"objective": "binary:logistic"}),
        ("one class", "aucpr", "rows of each class", {"objective": "binary:logistic"}),
        ("negative", fb.Metric("mine", "AVG(LN(label))"), "", {}),
        ("zero", fb.Metric("mine", "AVG(LN(label))"), "", {}),  # -inf, less than any number
        ("zero", fb.Metric("mine", "AVG(1 / label)", maximize=True), "", {}),
        ("zero", fb.Metric("mine", "SUM(label) / SUM(0 * label)"), "", {}),
        ("zero", fb.Metric("mine", "MAX(CASE WHEN label < 0 THEN label END)"), "", {}),  # NULL
    ])],
)  # fmt: skip
@pytest.mark.slow
def test_each_metric_of_degenerate_rows_is_named_and_stops_nothing(number, labels, metric, cause, more):
    container = duckdb.from_arrow if number % 5 == 1 else pl.DataFrame
    data = container(frame(LABELS[labels]))
    name = metric if isinstance(metric, str) else metric.name
    more = {"valid": "v", "features": ["x"], "n_estimators": 3, "early_stopping_rounds": 1, **more}
    with pytest.warns(FrameboostWarning, match=f"eval_metric '{name}' is .* on 'valid' in round 1.*{cause}.* stopping"):
        model = fb.fit(data, "y", eval_metric=metric, **more)
    assert (model.n_rounds, model.best_iteration, model.best_score) == (3, None, None)
    with pytest.warns(FrameboostWarning, match=f"eval_metric '{name}' is .* on the data"):
        evaluated = model.evaluate(data.filter("v") if container is not pl.DataFrame else data.filter(FIRST), "y",
                                   eval_metric=metric)  # fmt: skip
    assert not math.isfinite(evaluated.metrics["value"][0])


def test_the_last_set_decides_and_each_set_is_named():
    good = frame(X + 1)
    with pytest.warns(FrameboostWarning, match="on 'first' in round 1, as a label there is 0$"):
        model = fb.fit(good, "y", features=["x"], valid={"first": ONE_IS_ZERO, "last": good}, eval_metric="mape",
                       n_estimators=30, early_stopping_rounds=1, learning_rate=1.0)  # fmt: skip
    assert model.best_iteration == model.n_rounds < 30


def test_cv_keeps_all_rounds_and_folds_all_trees():
    options = {"features": ["x"], "folds": "fold", "n_estimators": 4, "eval_metric": "mape"}
    with pytest.warns(FrameboostWarning, match="'mape' is inf"):
        assert len(fb.cv(ONE_IS_ZERO, "y", early_stopping_rounds=1, **options)) == 4
    with pytest.warns(FrameboostWarning, match="'mape' is inf"):
        model = fb.fit(ONE_IS_ZERO, "y", early_stopping_rounds=1, **options)
    assert model.n_rounds >= 4  # of the fold that has the 0


@pytest.mark.slow
def test_auto_chooses_by_the_folds_that_have_a_value_and_refuses_to_search_without_end():
    quick = {"features": ["x"], "eval_metric": "mape", "max_depth": 2, "verbose": False}
    with pytest.warns(FrameboostWarning, match="'mape' is inf"):
        found = fb.auto(ONE_IS_ZERO, "y", n_estimators=3, **quick)
    assert math.isfinite(found.leaderboard["mape"][0])
    never = "without fold ., eval_metric 'mape' is inf on that fold after each of 5 rounds, as a label there is 0"
    with pytest.warns(FrameboostWarning), pytest.raises(DataError, match=never):
        fb.auto(ONE_IS_ZERO, "y", n_estimators=9, early_stopping_rounds=5, **quick)


def test_an_estimator_has_no_best_round():
    model = fb.FrameBoostRegressor(n_estimators=3, early_stopping_rounds=1, eval_metric="mape")
    with pytest.warns(FrameboostWarning, match="'mape' is inf on 'validation_0'"):
        model.fit(X[:, None], ONE_IS_ZERO["y"], eval_set=[(X[:, None], ONE_IS_ZERO["y"])])
    assert (model.best_iteration_, model.best_score_, model.model_.n_rounds) == (None, None, 3)


def test_a_checkpoint_takes_up_the_rounds_without_a_value(tmp_path):
    options = {"valid": "v", "features": ["x"], "eval_metric": "mape", "early_stopping_rounds": 1}
    with pytest.warns(FrameboostWarning):
        whole = fb.fit(ONE_IS_ZERO, "y", n_estimators=4, **options)
    for n in (2, 4):
        with pytest.warns(FrameboostWarning):
            model = fb.fit(ONE_IS_ZERO, "y", n_estimators=n, checkpoint=tmp_path / "c", **options)
    assert model.to_json() == whole.to_json()


def test_the_command_line_says_it_in_one_line(tmp_path, capsys):
    ONE_IS_ZERO.write_parquet(tmp_path / "t.parquet")
    command = ["train", str(tmp_path / "t.parquet"), "--target", "y", "--valid", "v", "--eval-metric", "mape",
               "--n-estimators", "3", "--early-stopping-rounds", "1", "-o", str(tmp_path / "m.json")]  # fmt: skip
    assert main(command) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
    assert len(lines) == 1
    assert lines[0].startswith("frameboost: warning: --eval-metric 'mape' is inf on 'valid' in round 1, as a label")
