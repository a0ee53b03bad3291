"""Compare exact splits with global and local proposals, as in Figure 3 of the XGBoost paper.

Chen & Guestrin 2016 show that local proposals need fewer candidates than global ones, and that global ones are as good
given enough candidates. Prints a Markdown table of the AUC on held-out rows by round and the time of the fit;
`docs/proposals.md` has the figures.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import polars as pl

import frameboost as fb

# The paper has eps = 0.3 and 0.05; a bin is 1 / eps.
WAYS = [
    ("exact", {"tree_method": "exact"}),
    *((f"global, {b} bins", {"tree_method": "approx", "max_bin": b}) for b in (3, 8, 20, 256)),
    *((f"local, {b} bins", {"tree_method": "approx", "proposal": "local", "max_bin": b}) for b in (3, 8, 20)),
    ("hist, 8 bins", {"tree_method": "hist", "max_bin": 8}),
    ("hist, 256 bins", {"tree_method": "hist", "max_bin": 256}),
]


def workload(n_rows: int, n_features: int = 10) -> pl.DataFrame:
    """Return log-normal columns, and a label that depends on products and waves of their logarithms."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((n_rows, n_features))
    score = z[:, 0] * z[:, 1] + np.sin(3 * z[:, 2]) + np.cos(4 * z[:, 3]) + z[:, 4] ** 2 / 2 + z[:, 5]
    x = np.exp(z).astype(np.float32)
    y = score + rng.standard_normal(n_rows) > np.median(score)
    return pl.DataFrame(x, schema=[f"x{i}" for i in range(n_features)]).with_columns(y=pl.Series(y))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--trees", type=int, default=40)
    parser.add_argument("--engine", default="numba")
    chosen = parser.parse_args()
    frame = workload(chosen.rows + chosen.rows // 2)
    training, held_out = frame.head(chosen.rows), frame.tail(chosen.rows // 2)
    settings = {"objective": "binary:logistic", "max_depth": 6, "learning_rate": 0.1, "n_estimators": chosen.trees,
                "engine": chosen.engine, "verbose": False}  # fmt: skip
    shown = sorted({1, 5, 10, 20, 40, chosen.trees})
    shown = [r for r in shown if r <= chosen.trees]
    print(
        f"{chosen.rows:,} rows x 10, {chosen.trees} trees of depth 6; AUC on {len(held_out):,} held-out rows by round\n"
    )
    print(f"| proposals | {' | '.join(f'round {r}' for r in shown)} | seconds | CPU seconds |")
    print("|---|" + "---:|" * (len(shown) + 2))
    for name, way in WAYS:
        if chosen.engine != "numba" and way["tree_method"] == "exact":
            continue
        fb.fit(training.head(500), "y", **{**settings, **way, "n_estimators": 2})  # compiles the kernels
        start, cpu = time.perf_counter(), time.process_time()
        fb.fit(training, "y", **{**settings, **way})
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        history = fb.fit(training, "y", valid=held_out, eval_metric="auc", **{**settings, **way}).history
        by_round = dict(history.select("round", "valid_auc").iter_rows())
        print(f"| {name} | {' | '.join(f'{by_round[r]:.4f}' for r in shown)} | {seconds:.1f} | {cpu:.1f} |", flush=True)


if __name__ == "__main__":
    main()
