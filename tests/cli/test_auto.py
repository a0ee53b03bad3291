"""``frameboost auto`` writes the model that `fb.auto` returns."""

import numpy as np
import polars as pl

import frameboost as fb
from frameboost.cli import main


def test_the_model_is_that_of_python(tmp_path, capsys):
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"x": rng.normal(size=60), "s": rng.choice(["a", "b"], 60), "w": rng.integers(1, 3, 60)})
    frame = frame.with_columns(y=pl.col("x") * 2 + pl.col("s").eq("a"))
    frame.write_parquet(tmp_path / "rows.parquet")
    out = tmp_path / "model.json"
    words = ["auto", str(tmp_path / "rows.parquet"), "--target", "y", "-o", str(out), "--quality", "2",
             "--features", "x,s"]  # fmt: skip
    assert main([*words, "--param", "n_estimators=8", "--param", "weight=w", "--seed", "3"]) == 0
    expected = fb.auto(frame, "y", quality=2, features=["x", "s"], n_estimators=8, weight="w", seed=3)
    assert fb.load(out) == expected
    printed = capsys.readouterr().out
    assert "trees      " in printed and "symmetric" in printed
    assert main([*words, "--quality", "9"]) == 1
    assert "quality must be an integer from 1 to 5, not 9" in capsys.readouterr().err
