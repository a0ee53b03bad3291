"""Of many outputs values are worked out stage by stage, and are the same."""

import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.prediction import outputs as small_outputs
from frameboost.prediction import predictor


@pytest.mark.parametrize("labels", [[0, 1, 2], ["low", "mid", "high"], ["no", "yes"], [1.5, 2.5, 9.0]])
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
