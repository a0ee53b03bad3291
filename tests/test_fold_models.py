"""`fit(folds=...)`: the mean of a model for each fold, worked out here from the folds' own fits."""

import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.data.held_out import fold_parts
from frameboost.data.opening import open_source
from tests.support.cases import cases

OPTIONS = {"features": ["x", "z", "kind"], "n_estimators": 12, "early_stopping_rounds": 2, "max_depth": 2}


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=(2, 300))
    kind = rng.choice(["a", "it's", "c", None], 300)
    y = x + z**2 + (kind == "c") + 0.3 * rng.normal(size=300)
    return pl.DataFrame({
        "x": x, "z": z, "kind": pl.Series(kind.tolist(), dtype=pl.String), "who": rng.integers(0, 4, 300), "y": y,
        "label": np.where(y > 2, "high", np.where(y > 0.5, "middle", "low")), "query": rng.integers(0, 30, 300),
        "w": rng.uniform(0.5, 2, 300),
    })  # fmt: skip


def by_hand(frame: pl.DataFrame, folds, target: str = "y", **options) -> np.ndarray:
    """Return the mean of the margins of a fit for each fold, stopped early on it."""
    parts = fold_parts(open_source(frame), folds, None, options.get("seed", 0), options.get("group"))
    models = [fb.fit(part, target, valid=held_out, **OPTIONS | options) for part, held_out in parts]
    return np.mean([model.predict(frame, "margin").to_numpy() for model in models], axis=0)


@pytest.mark.slow
@cases(("folds", "options"), [
    (3, {}), (2, {"seed": 7, "weight": "w"}), ("who", {}),
    (3, {"target": "label"}), (2, {"group": "query", "objective": "rank:pairwise", "target": "who"}),
])  # fmt: skip
def test_the_model_is_the_mean_of_the_folds_models(frame, folds, options):
    model = fb.fit(frame, folds=folds, **OPTIONS | {"target": "y"} | options)
    np.testing.assert_allclose(model.predict(frame, "margin").to_numpy(), by_hand(frame, folds, **options), rtol=1e-6,
                               atol=1e-9)  # fmt: skip
    if options.get("target") == "label":
        assert model.classes == ["high", "low", "middle"]
        assert set(model.predict(frame, "class")) <= {"high", "low", "middle"}


def test_what_does_not_go_with_several_fits_is_refused(frame, tmp_path):
    for name, value in {"valid": frame, "time": "x", "init_model": fb.fit(frame, "y", n_estimators=1),
                        "callbacks": [lambda number, found: None], "checkpoint": tmp_path / "c"}.items():  # fmt: skip
        with pytest.raises(fb.ParameterError, match=f"folds does not go with {name}: "):
            fb.fit(frame, "y", folds=3, **{name: value})
    for folds in (1, 2.5, True):
        with pytest.raises(fb.ParameterError, match="folds must be an integer from 2"):
            fb.fit(frame, "y", folds=folds)
    with pytest.raises(fb.DataError, match="column 'nobody', of folds, is not in the data"):
        fb.fit(frame, "y", folds="nobody")
    with pytest.raises(fb.ParameterError, match="auto takes no folds"):
        fb.auto(frame, "y", folds=3)


def test_errors_say_that_they_are_of_the_rows_without_a_fold():
    rows, message = pl.DataFrame({"x": [0.0, 1.0, 2.0], "y": [1.0, 2.0, 3.0]}), "without fold [1-5], the data has 1 row"
    for train in (fb.fit, fb.cv):
        with pytest.raises(fb.DataError, match=f"^{message}"):
            train(rows, "y", folds=5)
