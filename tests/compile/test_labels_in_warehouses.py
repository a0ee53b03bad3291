"""Labels of classes in real databases: values and names of columns come back as they are."""

from dataclasses import replace
from functools import cache

import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.dialects.built_in import DIALECTS
from frameboost.model.model import Model
from frameboost.schema.types import FeatureType
from tests.support.cases import cases
from tests.support.warehouses import ALL, open_warehouse

ODD = [
    "", " ", "'", "''", '"', "\\", "\\'", "\\n", "a\nb", "\t", "%s", "{x}", "{{ x }}", "🙂", "Ünï", "NULL", "true",
    "--", "`", ";", "$1", "?", "]", "1",
]  # fmt: skip
# Labels that no name of a column in MariaDB can end in or hold.
NO_NAMES = {"mariadb": [" ", "🙂"]}


@cache
def labelled(*labels: str) -> tuple[Model, list[int], list[str]]:
    """Return a model that tells the labels apart by ``x``, the values of ``x``, and the label of each."""
    x = list(range(len(labels)))
    frame = pl.DataFrame({"x": x * 3, "y": list(labels) * 3})
    model = fb.fit(frame, "y", n_estimators=1, max_depth=0, max_leaves=64, grow_policy="lossguide", min_child_weight=0)
    assert model.predict(frame[: len(x)], "class").to_list() == list(labels)
    return model, x, list(labels)


@pytest.mark.parametrize("name", ALL)
def test_any_string_is_a_label_and_names_a_column_of_probabilities(name):
    warehouse = open_warehouse(name)
    model, x, labels = labelled(*ODD)
    warehouse.fill("t", {"x": (FeatureType("int64"), x)})
    query = model.query("t", warehouse.name, keep=["id"], output="class")
    assert [label for _, label in sorted(warehouse.rows(query))] == labels
    if name in NO_NAMES:
        model, x, _ = labelled(*(label for label in ODD if label not in NO_NAMES[name]))
        warehouse.fill("t", {"x": (FeatureType("int64"), x)})
    query = model.query("t", warehouse.name, keep=["id"], output="probability", name="p")
    quoted = ", ".join(warehouse.dialect.quote(f"p_{label}") for label in reversed(model.classes))
    found = sorted(warehouse.rows(f"SELECT id, {quoted} FROM ({query}) AS scored"))
    expected = model.predict(pl.DataFrame({"x": x})).to_numpy()[:, ::-1]
    np.testing.assert_allclose(np.array([row[1:] for row in found]), expected, rtol=1e-12)


@pytest.mark.parametrize("name", ALL)
def test_booleans_are_booleans(name):
    warehouse = open_warehouse(name)
    model = fb.fit(pl.DataFrame({"x": [0, 1, 2] * 9, "y": [False, True, False] * 9}), "y", n_estimators=2)
    warehouse.fill("t", {"x": (FeatureType("int64"), [0, 1, 2])})
    query = model.query("t", warehouse.name, keep=["id"], output="class")
    found = [value for _, value in sorted(warehouse.rows(query))]
    assert found == [False, True, False]
    has_booleans = warehouse.name not in ("sqlite", "mariadb")
    assert {type(value) for value in found} == {bool if has_booleans else int}


@cases("dialect", list(DIALECTS))
def test_every_dialect_writes_labels(dialect):
    model, _, _ = labelled("it's", "b")
    for output in ("class", "probability"):
        assert model.query("t", dialect, keep=["x"], output=output)
    boolean = Model(replace(model.ensemble, labels=(False, True)))
    yes = {"oracle": "1", "tsql": "CAST(1 AS BIT)", "fabric": "CAST(1 AS BIT)"}.get(dialect, "TRUE")
    no = yes.replace("1", "0").replace("TRUE", "FALSE")
    assert f"THEN {yes} ELSE {no} END" in boolean.query("t", dialect, keep=["x"], output="class")


@cases(
    ("labels", "dialect", "why"),
    [
        (["a", "A"], "duckdb", "name columns 'prediction_A' and 'prediction_a', which are one name in "),
        (["a", "b" * 60], "postgres", "has 71 bytes, and names in postgres have at most 63; rename it there; "),
        (["a", "b/c"], "bigquery", "the name 'prediction_b/c' holds '/', which no name in bigquery can; rename it th"),
    ],
)
def test_a_label_that_is_no_name_is_refused_with_the_way_out(labels, dialect, why):
    model, _, _ = labelled(*labels)
    with pytest.raises(fb.ParameterError) as error:
        model.query("t", dialect, keep=["x"], output="probability")
    assert why in str(error.value)
    assert str(error.value).endswith("; output='mean' has columns without labels in their names")
    assert model.query("t", dialect, keep=["x"])
    assert model.query("t", dialect, keep=["x"], output="class")
