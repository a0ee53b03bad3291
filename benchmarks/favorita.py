"""Tables of the shape of Favorita's: sales by day, store and item, and what is known of these; drawn at random.

JoinBoost's paper trains on them with 80 million facts (sec. 6: Favorita); here they are 8 million times ``size``.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import tpc

_FIRST, _DAYS = dt.date(2013, 1, 1), 1_684
_ITEMS, _STORES, _HOLIDAYS = 4_100, 54, 312


def tables(size: float) -> Path:
    """Return the folder of the tables, written if it is not there."""
    folder = tpc.cache() / f"favorita-{size:g}"
    if not folder.exists():
        made = folder.with_name(f"{folder.name}-new")
        made.mkdir(parents=True, exist_ok=True)
        for name, frame in _drawn(int(8_000_000 * size)).items():
            frame.write_parquet(made / f"{name}.parquet")
        made.rename(folder)
    return folder


def _drawn(n_facts: int) -> dict[str, pl.DataFrame]:
    rng = np.random.default_rng(0)
    days = pl.date_range(_FIRST, _FIRST + dt.timedelta(days=_DAYS - 1), eager=True)
    found = _dimensions(rng, days)
    day, store, item = (rng.integers(0, n, n_facts) for n in (_DAYS, _STORES, _ITEMS))
    day.sort()
    on_promotion = rng.random(n_facts) < 0.07
    family = found["items"]["class"].to_numpy()[item] % 33
    weekday = found["dates"]["weekday"].to_numpy()[day]
    shoppers = found["transactions"]["transactions"].to_numpy()[day * _STORES + store]
    level = np.sin(family) + 0.4 * (weekday >= 6) + np.log(shoppers / 1500) + 0.6 * on_promotion
    facts: dict[str, Any] = {
        "date": days[day], "store_nbr": (store + 1).astype(np.int16), "item_nbr": 96_995 + 7 * item,
        "onpromotion": pl.Series(on_promotion).set(pl.Series(rng.random(n_facts) < 0.17), None),
        "unit_sales": np.round(np.exp(1.5 + level + 0.5 * rng.normal(size=n_facts)), 3),
    }  # fmt: skip
    return {"sales": pl.DataFrame(facts), **found}


def _dimensions(rng: np.random.Generator, date: pl.Series) -> dict[str, pl.DataFrame]:
    numbers = np.arange(1, _STORES + 1)
    classes = rng.integers(1_000, 1_337, _ITEMS)
    items = {"item_nbr": 96_995 + 7 * np.arange(_ITEMS), "family": [f"FAMILY {i % 33}" for i in classes],
             "class": classes, "perishable": rng.random(_ITEMS) < 0.25}  # fmt: skip
    cities = rng.integers(0, 22, _STORES)
    stores = {"store_nbr": numbers.astype(np.int16), "city": [f"City {i}" for i in cities],
              "state": [f"State {i % 16}" for i in cities], "type": rng.choice(list("ABCDE"), _STORES),
              "cluster": rng.integers(1, 18, _STORES)}  # fmt: skip
    shoppers = np.exp(7.3 + 0.4 * rng.normal(size=_STORES) + 0.1 * rng.normal(size=(_DAYS, _STORES)))
    transactions = {
        "date": date.gather(np.repeat(np.arange(_DAYS), _STORES)),
        "store_nbr": np.tile(numbers.astype(np.int16), _DAYS),
        "transactions": shoppers.ravel().astype(int),
    }
    of_work = (date.dt.weekday() <= 5).to_numpy()
    oil = {"date": date.filter(pl.Series(of_work)),
           "dcoilwtico": (90 + np.cumsum(rng.normal(size=_DAYS)))[of_work].round(2)}  # fmt: skip
    holidays = {"date": date.gather(np.sort(rng.choice(_DAYS, _HOLIDAYS, replace=False))),
                "type": rng.choice(["Holiday", "Event", "Additional", "Transfer", "Bridge", "Work Day"], _HOLIDAYS),
                "locale": rng.choice(["National", "Regional", "Local"], _HOLIDAYS),
                "transferred": rng.random(_HOLIDAYS) < 0.04}  # fmt: skip
    dates = pl.DataFrame({"date": date}).with_columns(
        year=pl.col("date").dt.year(), month=pl.col("date").dt.month(), day=pl.col("date").dt.day(),
        weekday=pl.col("date").dt.weekday(), payday=pl.col("date").dt.day().is_in([15, 28, 30, 31]),
    )  # fmt: skip
    frames = {"items": items, "stores": stores, "transactions": transactions, "oil": oil, "holidays": holidays}
    return {name: pl.DataFrame(columns) for name, columns in frames.items()} | {"dates": dates}
