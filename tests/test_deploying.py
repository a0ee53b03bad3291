"""The service of docs/how-to/deploying.md, with FastAPI where it is installed, otherwise with what it calls of it."""

import asyncio
import re
import sys
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace

import polars as pl
import pytest

import frameboost as fb
from tests.support.package import ROOT

PAGE = (ROOT / "docs" / "how-to" / "deploying.md").read_text(encoding="utf-8")
ROWS = [{"kind": "coat", "price": 150}, {"kind": None, "price": 10.5}, {"kind": "hat", "price": None}]


def stand_in() -> ModuleType:
    """Return what the service takes from FastAPI."""

    class App:
        def __init__(self, lifespan):
            self.lifespan, self.state = lifespan, SimpleNamespace()

        def post(self, path):
            assert path == "/predict"
            return lambda function: function

    class RefusedError(Exception):
        pass

    module = ModuleType("fastapi")
    module.FastAPI, module.HTTPException = App, RefusedError
    return module


def test_the_service_answers_with_predictions_or_a_sentence(tmp_path, monkeypatch):
    orders = pl.DataFrame(
        {"kind": ["shoes", "coat", "book", None] * 20, "price": [5.0 + i * 97 % 190 for i in range(80)]}
    )
    model = fb.fit(orders.with_columns(days=pl.col("price") // 50), "days", n_estimators=3)
    model.save(tmp_path / "days.json")
    monkeypatch.chdir(tmp_path)
    if find_spec("fastapi") is None:
        monkeypatch.setitem(sys.modules, "fastapi", stand_in())
    [service] = re.findall(r"```python\n(from contextlib.*?)```", PAGE, re.DOTALL)
    made = {"__name__": "app"}
    exec(service, made)
    app, predict, refused = made["app"], made["predict"], made["HTTPException"]

    async def answers():
        context = app.lifespan if hasattr(app, "lifespan") else app.router.lifespan_context
        async with context(app):
            with pytest.raises(refused) as error:
                predict([{"kind": "coat"}])
            return predict(ROWS), error.value.args or (error.value.status_code, error.value.detail)

    found, said = asyncio.run(answers())
    assert found == model.predict(pl.DataFrame(ROWS, schema={"kind": pl.String, "price": pl.Float64})).to_list()
    assert said == (422, "the data lacks 1 feature of the model: 'price'; it has 'kind'")
