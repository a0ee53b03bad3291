"""The interval in a model file comes back, and what is no valid interval is refused."""

import json

import polars as pl
import pytest

import frameboost as fb
from frameboost.ensemble.model_file import read_model
from tests.support.cases import cases
from tests.support.documents import put

FRAME = pl.DataFrame({
    "x": [1.0, 2.0, 3.0, 4.0] * 6, "shop": ["b", "a", "é", None] * 6, "floor": [3, -1] * 12, "open": [True, False] * 12,
    "y": [float(i % 7) for i in range(24)],
})  # fmt: skip


def conformed(groups: str | None = None, **more) -> fb.Model:
    model = fb.fit(FRAME, "y", features=["x"], n_estimators=1, **more)
    return model.conform(FRAME, "y", coverage=0.75, groups=groups)


def document(model: fb.Model) -> dict:
    return json.loads(model.to_json())


def refused(fields: dict) -> str:
    with pytest.raises(fb.ModelFileError) as error:
        read_model(json.dumps(fields).encode())
    return str(error.value)


QUANTILES = {"objective": "reg:quantileerror", "quantile_alpha": [0.25, 0.75]}


@cases(("groups", "more"), [(None, {}), ("shop", {}), ("floor", {}), ("open", {}), (None, QUANTILES),
                            ("open", QUANTILES), ("shop", {"objective": "count:poisson"})])  # fmt: skip
def test_an_interval_comes_back_from_text_and_from_bytes(groups, more, tmp_path):
    model = conformed(groups, **more)
    for name in ("m.json", "m.ubj"):
        model.save(tmp_path / name)
        loaded = fb.load(tmp_path / name)
        assert loaded.ensemble.interval == model.ensemble.interval
        assert loaded.to_json() == model.to_json()


def test_the_fields_of_an_interval():
    fields = document(conformed("open"))["interval"]
    assert list(fields) == ["coverage", "rows", "kind", "distance", "groups"]
    assert (fields["coverage"], fields["rows"], fields["kind"]) == (0.75, 24, "absolute")
    assert list(fields["groups"]) == ["column", "type", "values", "distances"]
    assert fields["groups"]["values"] == [False, True]
    assert document(conformed("floor"))["interval"]["groups"]["values"] == [-1, 3]
    assert document(conformed("shop"))["interval"]["groups"]["values"] == ["a", "b", "é"]
    assert document(conformed(None, **QUANTILES))["interval"]["quantiles"] == [0, 1]
    assert "interval" not in document(fb.fit(FRAME, "y", features=["x"], n_estimators=1))


@cases("path, value, message", [
    ("coverage", 1.0, '"coverage" must be a number between 0 and 1, not 1.0'),
    ("coverage", True, '"coverage" must be a number between 0 and 1, not true'),
    ("rows", 0, '"rows" must be an integer of at least 1, not 0'),
    ("rows", 2.5, '"rows" must be an integer of at least 1, not 2.5'),
    ("kind", "scaled", '"kind" must be "absolute", not "scaled"'),
    ("distance", -1.0, '"distance" must be a finite number of 0 or more, not -1.0'),
    ("distance", 10**400, '"distance" must be a finite number of 0 or more, not a number of more than 80 digits'),
    ("quantiles", [0, 1], '"quantiles" must be the numbers of two quantiles in ascending order, of intervals of '),
    ("groups", [], '"groups" must be an object, not []'),
    ("width", 1, 'unknown field "width"'),
    ("groups.column", 5, '"column" must be a string, not 5'),
    ("groups.type", "float64", '"type" must be "string" or "codes" or "boolean", not "float64"'),
    ("groups.type", "codes", '"values" must be sorted, distinct values of its type, not ["a", "b", "é"]'),
    ("groups.values", ["b", "a", "é"], '"values" must be sorted, distinct values of its type, not ["b", "a", "é"]'),
    ("groups.values", [], '"values" must be sorted, distinct values of its type, not []'),
    ("groups.values", 5, '"values" must be a list, not 5'),
    ("groups.distances", [1.0], '"distances" must be a number for each value, not [1.0]'),
    ("groups.otherwise", 1.0, 'unknown field "otherwise"'),
])  # fmt: skip
def test_damaged_intervals_are_refused(path, value, message):
    *groups, key = path.split(".")
    fields = put(document(conformed("shop")), ["interval", *groups, key], value)
    assert refused(fields).startswith(f"damaged model, interval{', groups' if groups else ''}: {message}")


def test_damaged_distances_quantiles_and_objectives_are_refused():
    fields = document(conformed("shop"))
    fields["interval"]["groups"]["distances"][1] = -1
    assert '"distances" must be a finite number of 0 or more, not -1' in refused(fields)
    fields["interval"] = 5
    assert refused(fields) == 'damaged model: "interval" must be an object, not 5'
    of_quantiles = document(conformed(None, **QUANTILES))
    for wrong in ([1, 0], [0, 2], [0], [0, 0], [0.0, 1], [-1, 1]):
        of_quantiles["interval"]["quantiles"] = wrong
        assert '"quantiles" must be the numbers of two quantiles' in refused(of_quantiles)
    del of_quantiles["interval"]["quantiles"]
    assert '"quantiles" must be a list, not null' in refused(of_quantiles)
    likely = document(fb.fit(FRAME, "open", features=["x"], n_estimators=1))
    likely["interval"] = document(conformed())["interval"]
    assert "interval: prediction intervals are for a regression of one target" in refused(likely)
    poisson = document(conformed(None, objective="count:poisson"))
    poisson["interval"]["kind"] = "absolute"
    assert read_model(json.dumps(poisson).encode()).interval.kind == "absolute"


def test_quantiles_may_be_moved_together():
    model = fb.fit(FRAME, "y", features=["x"], n_estimators=1, **QUANTILES).conform(FRAME, "y", coverage=0.02)
    assert model.ensemble.interval.distance < 0
    assert read_model(model.to_json().encode()).interval == model.ensemble.interval
