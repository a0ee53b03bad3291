"""Curves and tables of labels against predictions, compared with scikit-learn's and with small cases by hand."""

import math

import numpy as np
import polars as pl
import pytest
from sklearn import metrics as sk
from sklearn.calibration import calibration_curve as sk_calibration_curve

import frameboost as fb
from frameboost.evaluation.calibration_curve import calibration_curve, prediction_histogram
from frameboost.evaluation.confusion import confusion_matrix
from frameboost.evaluation.history import long_history
from frameboost.evaluation.residuals import residual_histogram, residual_quantiles
from frameboost.evaluation.scored_rows import score_rows
from frameboost.evaluation.threshold_curves import (
    average_precision,
    gains_curve,
    precision_recall_curve,
    roc_auc,
    roc_curve,
    threshold_costs,
)
from frameboost.prediction.predictor import Predictor


def scored(seed: int, *, weighted: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return labels, scores with many ties, and weights."""
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 30, 400) / 30
    labels = (rng.random(400) < scores).astype(float)
    return labels, scores, rng.integers(1, 5, 400).astype(float) if weighted else None


@pytest.mark.parametrize("weighted", [False, True])
def test_curves_are_those_of_scikit_learn(weighted):
    labels, scores, weights = scored(1, weighted=weighted)
    roc = roc_curve(labels, scores, weights)
    expected = sk.roc_curve(labels, scores, sample_weight=weights, drop_intermediate=False)
    for name, values in zip(("false_positive_rate", "true_positive_rate", "threshold"), expected, strict=True):
        np.testing.assert_allclose(roc[name], values, rtol=1e-12)
    assert roc_auc(roc) == pytest.approx(sk.roc_auc_score(labels, scores, sample_weight=weights), abs=1e-12)

    found = precision_recall_curve(labels, scores, weights)
    precision, recall, threshold = sk.precision_recall_curve(labels, scores, sample_weight=weights)
    np.testing.assert_allclose(found["precision"], precision[:-1][::-1])
    np.testing.assert_allclose(found["recall"], recall[:-1][::-1])
    np.testing.assert_array_equal(found["threshold"], threshold[::-1])
    expected_area = sk.average_precision_score(labels, scores, sample_weight=weights)
    assert average_precision(found) == pytest.approx(expected_area, abs=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_weight_counts_as_so_many_rows(weighted):
    labels, scores, weights = scored(2, weighted=True)
    times = weights.astype(int) if weighted else np.ones(400, int)
    repeated = [np.repeat(values, times) for values in (labels, scores)]
    given = (labels, scores, weights if weighted else None)
    for function in (roc_curve, precision_recall_curve, gains_curve, threshold_costs):
        found, expected = function(*given).fill_null(-1), function(*repeated).fill_null(-1)
        np.testing.assert_allclose(found.to_numpy(), expected.to_numpy(), rtol=1e-12)
    quantile = calibration_curve(*given, bins=7).drop("standard_error")
    assert np.allclose(quantile.to_numpy(), calibration_curve(*repeated, bins=7).drop("standard_error").to_numpy())
    one = residual_quantiles(*given, bins=1)
    np.testing.assert_allclose(one.to_numpy(), residual_quantiles(*repeated, bins=1).to_numpy())


def test_calibration_is_that_of_scikit_learn():
    labels, scores, _ = scored(3, weighted=False)
    for bins in (4, 10):
        found = calibration_curve(labels, scores, bins=bins, strategy="uniform")
        true, predicted = sk_calibration_curve(labels, scores, n_bins=bins, strategy="uniform")
        np.testing.assert_allclose(found["mean_label"], true)
        np.testing.assert_allclose(found["mean_prediction"], predicted)
        assert found["weight"].sum() == 400


def test_calibration_by_quantiles_keeps_equal_predictions_together():
    labels, scores = [0, 0, 1, 1, 0, 1], [0.1, 0.2, 0.2, 0.2, 0.9, 1.0]
    found = calibration_curve(labels, scores, bins=3)
    # The middles of the four distinct scores on the axis of rows: 1/12, 5/12, 9/12, 11/12.
    assert found.select("lowest", "highest", "mean_label", "weight").rows() == [
        (0.1, 0.1, 0.0, 1.0), (0.2, 0.2, pytest.approx(2 / 3), 3.0), (0.9, 1.0, 0.5, 2.0)
    ]  # fmt: skip
    # Of one row there is no standard error; of three √(2/9 / 2), of two √(1/4 / 1).
    assert found["standard_error"].to_list() == [None, pytest.approx(1 / 3), pytest.approx(0.5)]
    constant = calibration_curve([1, 2, 3], [5.0, 5.0, 5.0])
    assert constant.select("lowest", "highest", "mean_label", "weight").rows() == [(5.0, 5.0, 2.0, 3.0)]
    same = calibration_curve([1, 2, 3], [5.0, 5.0, 5.0], strategy="uniform")
    assert same["mean_label"].to_list() == [2.0]


def test_costs_by_hand():
    rows = [1, 0, 1, 0], [0.9, 0.6, 0.6, 0.1], [1.0, 1.0, 2.0, 4.0]
    found = threshold_costs(*rows, false_positive=3, false_negative=2)
    assert found.rows() == [
        (math.inf, 0.0, 3.0, 6 / 8), (0.9, 0.0, 2.0, 4 / 8), (0.6, 1.0, 0.0, 3 / 8), (0.1, 5.0, 0.0, 15 / 8)
    ]  # fmt: skip


def test_gains_by_hand():
    found = gains_curve([1, 0, 1, 0, 0], [0.9, 0.8, 0.7, 0.2, 0.2])
    assert found["share_of_rows"].to_list() == [0.0, 0.2, 0.4, 0.6, 1.0]
    assert found["share_of_positives"].to_list() == [0.0, 0.5, 0.5, 1.0, 1.0]
    assert found["lift"].to_list() == [None, 2.5, 1.25, pytest.approx(5 / 3), 1.0]


def test_confusion_is_that_of_scikit_learn():
    rng = np.random.default_rng(4)
    labels, predicted, weights = rng.integers(0, 3, 200), rng.integers(0, 4, 200), rng.random(200)
    for given in (None, weights):
        found = confusion_matrix(labels, predicted, 4, given)
        expected = sk.confusion_matrix(labels, predicted, labels=range(4), sample_weight=given)
        np.testing.assert_allclose(found["weight"].to_numpy().reshape(4, 4), expected)
        shares = found["share"].to_numpy().reshape(4, 4)
        np.testing.assert_allclose(shares[:3], expected[:3] / expected[:3].sum(axis=1, keepdims=True))
        assert np.isnan(shares[3]).all()  # class 3 has no rows


def test_residuals_by_hand():
    labels, predictions = [0.0, 2.0, 7.0, 3.0, 4.0], [1.0, 1.0, 1.0, 5.0, 9.0]
    found = residual_quantiles(labels, predictions, bins=2)
    assert found.rows() == [(1.0, 2.0, -1.0, 1.0, 6.0, 3.0), (7.0, -3.5, -5.0, -5.0, -2.0, 2.0)]
    weighted = residual_quantiles(labels, predictions, [1, 1, 8, 1, 1], bins=2)
    assert weighted.select("p10", "p50", "p90", "weight").rows()[0] == (-1.0, 6.0, 6.0, 10.0)
    same = residual_histogram([1.0, 2.0], [1.0, 2.0], bins=4)
    assert same["share"].sum() == 1.0
    assert prediction_histogram([-1.0, 0.0, 3.0, 3.0], [1, 1, 1, 1], bins=2)["share"].to_list() == [0.5, 0.5]


def test_what_has_no_curve_is_refused():
    for labels, function, needed in (
        ([1, 1], roc_curve, "labels of both classes, 0 and 1"),
        ([0, 0], precision_recall_curve, "a label that is 1"),
        ([0, 0], gains_curve, "a label that is 1"),
        ([], threshold_costs, "at least one row"),
    ):
        with pytest.raises(fb.DataError) as error:
            function(labels, [0.5] * len(labels))
        assert str(error.value) == f"the curve needs {needed}"


def test_a_history_is_long_by_metric_set_and_round():
    history = pl.DataFrame({"round": [1, 2], "train_rmse": [3.0, 2.0], "valid_a_mean": [5.0, 4.0]})
    assert long_history(history).rows() == [
        ("rmse", "train", 1, 3.0, None), ("rmse", "train", 2, 2.0, None),
        ("a_mean", "valid", 1, 5.0, None), ("a_mean", "valid", 2, 4.0, None),
    ]  # fmt: skip
    folds = pl.DataFrame({"round": [1], "validation_0_auc_mean": [0.5], "validation_0_auc_std": [0.1], "odd": [1.0]})
    assert long_history(folds).rows() == [("auc", "validation_0", 1, 0.5, 0.1), ("odd", "", 1, 1.0, None)]
    assert long_history(pl.DataFrame({"round": [1]})).is_empty()


def test_rows_are_read_once_and_checked():
    df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0], "w": [1.0, 0.0, 2.0, 1.0], "s": list("abcd")})
    model = fb.fit(df, "y", features=["x"], n_estimators=1, learning_rate=1, reg_lambda=0)
    rows = score_rows(Predictor(model.ensemble), df, "y", "w", "mean")
    assert [v.tolist() for v in (rows.labels, rows.predictions, rows.weights)] == [[0, 8, 8], [0, 8, 8], [1, 2, 1]]

    def message(data: pl.DataFrame = df, target: str = "y", weight: str | None = None) -> str:
        with pytest.raises(fb.DataError) as error:
            score_rows(Predictor(model.ensemble), data, target, weight, "mean")
        return str(error.value)

    assert message(df[:0]) == "the data has no rows"
    assert message(df.with_columns(y=None)).startswith("target 'y' is NULL, NaN or infinite in 4 of 4 rows")
    missing = "target 'y' is NULL, NaN or infinite in 1 of 4 rows; drop those rows first"
    assert message(df.with_columns(y=pl.Series([None, 1.0, 2.0, 3.0]))) == missing
    assert message(df, weight="s") == "weight column 's' has type String; it must be numeric or Boolean"
    assert "is not in the data" in message(df, "z")
    with pytest.raises(fb.DataError) as error:
        rows.check_classes(2, "y")
    assert str(error.value) == "target 'y' holds other values than 0 and 1 in 2 of 3 rows, such as 8"
