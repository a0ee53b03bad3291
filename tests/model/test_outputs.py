"""Outputs of few and of many rows are computed in other ways, with the bits of the query."""

from dataclasses import asdict

import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.compile.polars import output_column
from frameboost.engines import programs
from frameboost.losses.built_in import get_loss
from frameboost.losses.outputs import output_of
from frameboost.parameters.parameters import Parameters
from frameboost.prediction import outputs
from frameboost.prediction.outputs import RowOutput
from frameboost.runtime.kernel import CompileLater
from tests.support.cases import cases
from tests.support.objectives import CASES


@pytest.fixture
def at_once(monkeypatch):
    """Compile the kernel on its first call."""
    monkeypatch.setattr(CompileLater, "is_on", False)


@cases("case", CASES)
@cases("name", ["mean", "probability", "class", "quantiles", "distribution"])
def test_bits_are_those_of_the_query(at_once, case, name):
    loss = get_loss(case.objective, asdict(Parameters(**{"max_delta_step": 0.7} | case.parameters)))
    rng = np.random.default_rng(0)
    for labels in [(), (False, True), ("no", "yes"), tuple("abcdefgh")]:
        if labels and len(labels) != loss.classes:
            continue
        try:
            output = output_of(loss, name, labels=labels)
        except fb.ParameterError:  # the loss has none
            return
        extremes = [0.0, -0.0, 5e-324, 36.7, -745.2, 709.8, 1e300, -1e300]
        margins = [np.append(rng.normal(0, 5, 92), rng.permutation(extremes)) for _ in output.margins]
        found = RowOutput(output, may_be_null=False).values(margins)
        expected = output_column(output, pl.DataFrame(margins, schema=list(output.margins)), may_be_null=False)
        found = found if isinstance(found, pl.Series) else pl.Series(found)
        assert found.dtype == expected.dtype
        assert found.to_list() == expected.to_list()
        if found.dtype == pl.Float64:
            assert found.to_numpy().tobytes() == expected.to_numpy().tobytes()


def test_many_rows_and_first_calls_are_left_to_polars(at_once, monkeypatch):
    output = output_of(get_loss("binary:logistic", {"scale_pos_weight": 1.0}), "mean")
    row_output, most = RowOutput(output, may_be_null=False), 1 << 13
    assert row_output.values([np.zeros(most)]).tolist() == [0.5] * most
    assert row_output.values([np.zeros(most + 1)]).to_list() == [0.5] * (most + 1)
    monkeypatch.setattr(programs._rows_later, "spend", lambda _: True)
    assert row_output.values([np.zeros(1)]).to_list() == [0.5]
    assert row_output.values([np.zeros(1)]).name == "prediction"


@cases("labels", [[0, 1, 2], ["low", "mid", "high"], ["no", "yes"], [1.5, 2.5, 9.0]])
def test_outputs_are_those_of_one_expression(monkeypatch, labels):
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"x": rng.normal(size=200), "y": rng.choice(labels, 200)})
    how = {"objective": "multi:softprob"} if labels == [0, 1, 2] else {}
    model = fb.fit(frame, target="y", n_estimators=3, max_depth=2, **how)
    starts = [f"start_{k}" for k in range(model.ensemble.n_outputs)]
    rows = frame.with_columns(pl.lit(0.5).alias(name) for name in starts)
    rows = rows.with_columns(pl.when(pl.col("x") < 1).then(pl.col(starts[-1])).alias(starts[-1]))
    monkeypatch.setattr(outputs, "_MOST", 0)
    monkeypatch.setattr(outputs, "_MOST_LABELS", 0)
    for output in ["mean", "margin"] + ["class", "probability"] * (labels != [1.5, 2.5, 9.0]):
        found = []
        for most in (0, 16):
            monkeypatch.setattr(outputs, "_MAX_AT_ONCE", most)
            found.append([model.predict(frame, output=output), model.predict(rows, output=output, base_margin=starts)])
            model = fb.Model(model.ensemble)  # which has compiled no output
        assert all(map(pl.Series.equals, *found))
        assert found[0][0].dtype == found[1][0].dtype
        assert found[0][1].name == "prediction"
        assert not found[0][1].equals(found[0][0])
