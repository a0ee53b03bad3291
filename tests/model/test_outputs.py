"""Outputs of few and of many rows are computed in other ways, with the bits of the query."""

from dataclasses import asdict

import numpy as np
import polars as pl

import frameboost as fb
from frameboost.compile.polars import output_column
from frameboost.losses.built_in import get_loss
from frameboost.losses.outputs import output_of
from frameboost.parameters.parameters import Parameters
from frameboost.prediction import outputs as small_outputs
from frameboost.prediction import predictor
from frameboost.prediction.outputs import ArrayOutput
from tests.support.cases import cases
from tests.support.objectives import CASES


@cases("case", CASES)
@cases("name", ["mean", "probability"])
def test_bits_are_those_of_the_query(case, name):
    loss = get_loss(case.objective, asdict(Parameters(**{"max_delta_step": 0.7} | case.parameters)))
    if name == "probability" and (not loss.classes or loss.name == "binary:hinge"):
        return
    output = output_of(loss, name)
    rng = np.random.default_rng(0)
    extremes = [0.0, -0.0, 5e-324, 36.7, -745.2, 709.8, 1e300, -1e300]
    margins = [np.append(rng.normal(0, 5, 992), rng.permutation(extremes)) for _ in output.margins]
    found = ArrayOutput(output).values(margins)
    expected = output_column(output, pl.DataFrame(margins, schema=list(output.margins)), may_be_null=False)
    assert found is not None
    assert found.dtype == expected.dtype
    assert found.to_numpy().tobytes() == expected.to_numpy().tobytes()


def test_many_rows_and_classes_are_left_to_polars():
    loss = get_loss("binary:logistic", {"scale_pos_weight": 1.0})
    assert ArrayOutput(output_of(loss, "mean")).values([np.zeros(1 << 13)]).to_list() == [0.5] * (1 << 13)
    assert ArrayOutput(output_of(loss, "mean")).values([np.zeros((1 << 13) + 1)]) is None
    assert ArrayOutput(output_of(loss, "class")).values([np.zeros(100)]) is None
    assert ArrayOutput(output_of(loss, "probability", labels=("no", "yes"))).values([np.zeros(100)]) is None


@cases("labels", [[0, 1, 2], ["low", "mid", "high"], ["no", "yes"], [1.5, 2.5, 9.0]])
def test_outputs_are_those_of_one_expression(monkeypatch, labels):
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"x": rng.normal(size=200), "y": rng.choice(labels, 200)})
    how = {"objective": "multi:softprob"} if labels == [0, 1, 2] else {}
    model = fb.fit(frame, target="y", n_estimators=3, max_depth=2, **how)
    starts = [f"start_{k}" for k in range(model.ensemble.n_outputs)]
    rows = frame.with_columns(pl.lit(0.5).alias(name) for name in starts)
    rows = rows.with_columns(pl.when(pl.col("x") < 1).then(pl.col(starts[-1])).alias(starts[-1]))
    monkeypatch.setattr(small_outputs, "_MAX_ARRAY", 0)
    outputs = ["mean", "margin"] + ["class", "probability"] * (labels != [1.5, 2.5, 9.0])
    for output in outputs:
        found = []
        for most in (0, 16):
            monkeypatch.setattr(predictor, "_MAX_AT_ONCE", most)
            found.append([model.predict(frame, output=output), model.predict(rows, output=output, base_margin=starts)])
        assert all(map(pl.Series.equals, *found))
        assert found[0][0].dtype == found[1][0].dtype
        assert found[0][1].name == "prediction"
        assert not found[0][1].equals(found[0][0])
