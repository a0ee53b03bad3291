"""A softmax of hundreds of classes is a sum that parsers can read."""

import duckdb
import numpy as np
import polars as pl
import pytest

from frameboost.losses.known import get_loss
from frameboost.schema.feature import Feature
from frameboost.schema.types import FeatureType
from tests.compile.test_dialects import grown, made

CLASSES = 500


@pytest.mark.slow  # polars plans 500 fields of a struct
def test_five_hundred_classes_in_polars_and_duckdb():
    rng = np.random.default_rng(0)
    at, below, above = rng.normal(size=(3, CLASSES))
    trees = [grown((0, float(at[k]), "left", float(below[k]), float(above[k])), output=k) for k in range(CLASSES)]
    features = [Feature("x", FeatureType("float64"))]
    model = made(features, trees, (0.0,) * CLASSES, "multi:softprob", num_class=CLASSES)
    x = rng.normal(size=20)
    powers = np.exp(np.where(x[:, None] < at, below, above))
    expected = powers / powers.sum(axis=1, keepdims=True)
    rows = pl.DataFrame({"id": range(20), "x": x})
    found = rows.select(model.expr()).to_series().to_numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-9)  # leaf values are rounded to their grid
    con = duckdb.connect()
    con.register("t", rows)
    queried = sorted(con.execute(model.query("t", keep=["id"])).fetchall())
    np.testing.assert_allclose([row[1:] for row in queried], found, rtol=1e-14)


def test_the_sum_is_one_chain_until_parsers_give_up():
    def total(n: int) -> str:
        return get_loss("multi:softprob", {"num_class": n, "scale_pos_weight": 1.0}).terms["total"].text

    assert total(3) == "power_0 + power_1 + power_2"
    assert total(256) == " + ".join(f"power_{k}" for k in range(256))
    first, second = (" + ".join(f"power_{k}" for k in range(*part)) for part in ((0, 150), (150, 300)))
    assert total(300) == f"({first}) + ({second})"
