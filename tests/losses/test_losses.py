"""Every loss has the derivatives of the textbook, XGBoost's predictions, and one model in all engines and forms."""

import re
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pytest
import scipy.special
import scipy.stats
import xgboost

import frameboost as fb
from frameboost.losses.built_in import LOSSES, get_loss
from frameboost.losses.outputs import output_of
from tests.support.cases import cases
from tests.support.engines import ENGINES, assert_same
from tests.support.losses import RENEWED, as_rows, derivatives, fit, loss_of
from tests.support.objectives import ARITHMETIC, CASES, FEATURES, Case, labelled_rows, matrix, train_xgboost

LANGUAGES = ["polars", "duckdb"]
QUIET = {"verbose": False}
SMALLEST = float(np.finfo(np.float32).tiny)


# --- derivatives ------------------------------------------------------------------------------------------------------


def pinball(alpha, y, m):
    return np.where(y > m, alpha * (y - m), (1 - alpha) * (m - y))


# The losses as the textbooks have them, of a label and one margin.
TEXTBOOK = {
    "reg:squarederror": lambda y, m: (m - y) ** 2 / 2,
    "reg:squaredlogerror": lambda y, m: (np.log1p(m) - np.log1p(y)) ** 2 / 2,
    "reg:logistic": lambda y, m: np.logaddexp(0, m) - y * m,
    "reg:pseudohubererror": lambda y, m: 0.75**2 * (np.sqrt(1 + ((m - y) / 0.75) ** 2) - 1),
    "reg:absoluteerror": lambda y, m: np.abs(m - y),
    "binary:logistic": lambda y, m: np.logaddexp(0, m) - y * m,
    "binary:logitraw": lambda y, m: np.logaddexp(0, m) - y * m,
    "binary:hinge": lambda y, m: np.maximum(0, 1 - m * (2 * y - 1)),
    "count:poisson": lambda y, m: np.exp(m) - y * m,
    "reg:gamma": lambda y, m: y * np.exp(-m) + m,
    "reg:tweedie": lambda y, m: -y * np.exp(-0.25 * m) / -0.25 + np.exp(0.75 * m) / 0.75,
}
# Where the hessian is meant to be another than the second derivative: a function of label, margin, that derivative.
HESSIANS = {
    "reg:squaredlogerror": lambda y, m, true: np.maximum(true, 1e-6),
    "reg:absoluteerror": lambda y, m, true: np.ones_like(m),
    "binary:hinge": lambda y, m, true: np.where(m * (2 * y - 1) < 1, 1, SMALLEST),
}
LABELS = {
    "reg:squarederror": [-3.5, 0.0, 12.25], "reg:squaredlogerror": [-0.75, 0.0, 3.0, 40.0],
    "reg:logistic": [0.0, 0.25, 1.0], "reg:pseudohubererror": [-3.5, 0.0, 12.25], "reg:absoluteerror": [-3.5, 0.0, 2.5],
    "binary:logistic": [0.0, 1.0], "binary:logitraw": [0.0, 1.0], "binary:hinge": [0.0, 1.0],
    "count:poisson": [0.0, 1.0, 7.0], "reg:gamma": [0.125, 1.0, 30.0], "reg:tweedie": [0.0, 0.5, 9.0],
}  # fmt: skip
MARGINS = np.array([-5.3, -1.7, -0.9, -0.21, 0.13, 0.77, 1.9, 6.1])


def numerical(loss, y, m, step=1e-4):
    """Return first and second central differences; both are good to about 1e-7 of the numbers here."""
    above, at, below = loss(y, m + step), loss(y, m), loss(y, m - step)
    return (above - below) / (2 * step), (above - 2 * at + below) / step**2


def grid(labels, margins) -> tuple[np.ndarray, np.ndarray]:
    y, m = np.meshgrid(labels, margins)
    return y.ravel(), m.ravel()


@pytest.mark.slow
@pytest.mark.parametrize("engine", LANGUAGES)
@cases("case", [c for c in CASES if c.objective in TEXTBOOK])
def test_derivatives_are_those_of_the_textbook(case, engine):
    y, m = grid(LABELS[case.objective], MARGINS[MARGINS > -0.95] if "log" in case.objective[:14] else MARGINS)
    g, h = derivatives(case, as_rows(y, m), engine)
    slope, bend = numerical(TEXTBOOK[case.objective], y, m)
    np.testing.assert_allclose(g[:, 0], slope, rtol=1e-5, atol=1e-6)
    if case.objective == "count:poisson":
        bend = np.exp(m + case.parameters.get("max_delta_step", 0.7))
    bend = HESSIANS.get(case.objective, lambda y, m, true: true)(y, m, bend)
    np.testing.assert_allclose(h[:, 0], bend, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("engine", LANGUAGES)
def test_squared_log_error_keeps_margins_above_minus_one(engine):
    case = Case("reg:squaredlogerror", "size")
    g, h = derivatives(case, as_rows([0.0, 0.0, 0.0], [-1.0, -7.0, -1 + 1e-6]), engine)
    np.testing.assert_allclose(g[:, 0], np.log(1e-6) / 1e-6, rtol=1e-9)
    np.testing.assert_allclose(h[:, 0], (1 - np.log(1e-6)) / 1e-12, rtol=1e-9)


@pytest.mark.parametrize("engine", LANGUAGES)
@cases("objective", ["binary:logistic", "reg:logistic", "binary:logitraw"])
def test_a_certain_probability_keeps_a_hessian(objective, engine):
    g, h = derivatives(Case(objective, "late"), as_rows([0.0, 1.0, 1.0], [800.0, 800.0, -800.0]), engine)
    np.testing.assert_allclose(g[:, 0], [1, 0, -1])
    np.testing.assert_array_equal(h[:, 0] > 0, True)
    assert h.max() < 2e-16


@pytest.mark.parametrize("engine", LANGUAGES)
def test_quantile_derivatives_are_those_of_the_pinball_loss(engine):
    case = next(c for c in CASES if c.objective == "reg:quantileerror" and c.outputs == 3)
    y, m = grid([-3.5, 0.0, 2.5], MARGINS)
    g, h = derivatives(case, as_rows(y, m, m + 0.5, -m), engine)
    for i, (alpha, margin) in enumerate(zip(case.parameters["quantile_alpha"], (m, m + 0.5, -m), strict=True)):
        np.testing.assert_allclose(g[:, i], numerical(lambda y, m, a=alpha: pinball(a, y, m), y, margin)[0], atol=1e-9)
    assert (h == 1).all()


@pytest.mark.parametrize("engine", LANGUAGES)
@cases("classes", [2, 3, 5])
def test_softmax_has_its_gradient_and_twice_its_hessian(classes, engine):
    rng = np.random.default_rng(0)
    margins = rng.normal(size=(40, classes)) * 3
    y = rng.integers(0, classes, 40).astype(float)
    case = Case("multi:softprob", "kind", {"num_class": classes})
    g, h = derivatives(case, as_rows(y, *margins.T), engine)
    for k in range(classes):

        def loss(y, m, k=k):
            moved = margins.copy()
            moved[:, k] = m
            return scipy.special.logsumexp(moved, axis=1) - moved[np.arange(40), y.astype(int)]

        slope, bend = numerical(loss, y, margins[:, k])
        np.testing.assert_allclose(g[:, k], slope, atol=1e-7)
        np.testing.assert_allclose(h[:, k], np.maximum(2 * bend, 1e-16), atol=1e-6)


@pytest.mark.parametrize("engine", LANGUAGES)
def test_softmax_of_huge_margins_is_finite(engine):
    case = Case("multi:softprob", "kind", {"num_class": 3})
    g, h = derivatives(case, as_rows([0.0, 1.0], [900.0, -900.0], [-900.0, 900.0], [0.0, 900.0]), engine)
    np.testing.assert_allclose(g, [[0, 0, 0], [0, -0.5, 0.5]], atol=1e-12)
    np.testing.assert_allclose(h, [[0, 0, 0], [0, 0.5, 0.5]], atol=1e-15)


def breslow(times: np.ndarray, m: np.ndarray) -> float:
    """Return the negative log partial likelihood, the sum over events of ln Σ e^(those at risk) - own margin."""
    return sum(
        np.log(np.exp(m[np.abs(times) >= time]).sum()) - own for time, own in zip(times, m, strict=True) if time > 0
    )


@pytest.mark.parametrize("engine", LANGUAGES)
@pytest.mark.parametrize("ties", [False, True], ids=["distinct times", "ties"])
def test_cox_has_the_derivatives_of_breslows_likelihood(ties, engine):
    rng = np.random.default_rng(3)
    times = (rng.integers(1, 6, 30) if ties else 1.0 + rng.permutation(30)) * rng.choice([-1.0, 1.0, 1.0], 30)
    m = rng.normal(size=30)
    g, h = derivatives(Case("survival:cox", "time"), as_rows(times, m), engine)
    for i in range(30):

        def loss(_, mi, i=i):
            moved = m.copy()
            moved[i] = mi
            return breslow(times, moved)

        slope, bend = numerical(loss, None, m[i])
        np.testing.assert_allclose([g[i, 0], h[i, 0]], [slope, bend], rtol=1e-5, atol=1e-5)


# --- survival:aft -----------------------------------------------------------------------------------------------------

Z = {"normal": scipy.stats.norm, "logistic": scipy.stats.logistic, "extreme": scipy.stats.gumbel_l}
# Known, right-, left-, interval-censored, and two ways to say that nothing is known of when it ends.
INTERVALS = [(2.0, 2.0), (2.0, None), (0.0, 2.0), (1.0, 3.0), (2.0, np.inf), (0.0, None)]


def aft(distribution: str, sigma: float):
    z = Z[distribution]

    def loss(interval, m):
        low, high = interval
        if low == high:
            return -(z.logpdf((np.log(low) - m) / sigma) - np.log(sigma * low))
        above = 1.0 if high is None or np.isinf(high) else z.cdf((np.log(high) - m) / sigma)
        below = 0.0 if low == 0 else z.cdf((np.log(low) - m) / sigma)
        return -np.log(above - below)

    return loss


def aft_case(distribution: str, sigma: float) -> Case:
    parameters = {"aft_loss_distribution": distribution, "aft_loss_distribution_scale": sigma}
    return Case("survival:aft", "label", parameters, {"label_upper_bound": "upper"})


def intervals_at(margins) -> pl.DataFrame:
    pairs = [(interval, m) for interval in INTERVALS for m in margins]
    return as_rows([i[0] for i, _ in pairs], [m for _, m in pairs]).with_columns(
        pl.Series("upper", [i[1] for i, _ in pairs], dtype=pl.Float64)
    )


@pytest.mark.slow
@pytest.mark.parametrize("engine", LANGUAGES)
@cases(("distribution", "sigma"), [("normal", 0.5), ("normal", 2.0), ("logistic", 2.0), ("extreme", 0.5)])
def test_aft_has_the_derivatives_of_the_likelihood(distribution, sigma, engine):
    margins = [-0.8, 0.1, 0.6, 0.9, 1.7]
    rows = intervals_at(margins)
    g, h = derivatives(aft_case(distribution, sigma), rows, engine)
    loss = aft(distribution, sigma)
    known = [(low, high) for low, high in rows.select("label", "upper").iter_rows()]
    found = [numerical(loss, interval, m, 1e-3) for interval, m in zip(known, rows["m0"], strict=True)]
    slope, bend = np.array(found).T
    np.testing.assert_allclose(g[:, 0], np.clip(slope, -15, 15), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(h[:, 0], np.clip(bend, 1e-16, 15), rtol=1e-4, atol=2e-5)


@pytest.mark.slow
@cases("distribution", Z)
def test_aft_keeps_its_digits_in_the_tails(distribution):
    """XGBoost's gradient of a right-censored time 9 σ off is that of its limit, as 1 - Φ(9) is 0 in floating point."""
    z, rows = Z[distribution], intervals_at([-2.0, -1.3, 9.7, 20.0])
    for engine in LANGUAGES:
        g, _ = derivatives(aft_case(distribution, 0.25), rows, engine)
        for (low, high, m), gradient in zip(rows.select("label", "upper", "m0").iter_rows(), g[:, 0], strict=True):
            if low == high or (low == 0 and high is None):
                continue
            at_l = (np.log(low) - m) / 0.25 if low else -np.inf
            at_u = np.inf if high is None else (np.log(high) - m) / 0.25
            # In logarithms: the probability of the interval is that of one tail less that of the other.
            side = z.logsf if at_l > 0 else z.logcdf
            mass = scipy.special.logsumexp([side(at_l), side(at_u)], b=[1, -1] if at_l > 0 else [-1, 1])
            relative = [np.exp(z.logpdf(at) - mass) if np.isfinite(at) else 0.0 for at in (at_u, at_l)]
            slope = (relative[0] - relative[1]) / 0.25
            assert gradient == pytest.approx(np.clip(slope, -15, 15), rel=1e-6, abs=1e-9), (low, high, m)


def xgboosts_derivatives(case: Case, low: float, high: float | None, margin: float) -> tuple[float, float]:
    """Return g and h of one row, read off a tree of one leaf: its cover is h, its value -g / (h + 1)."""
    row = xgboost.DMatrix(np.zeros((1, 1)), nthread=1)
    row.set_float_info("label_lower_bound", [low])
    row.set_float_info("label_upper_bound", [np.inf if high is None else high])
    row.set_base_margin([margin])
    parameters = {"objective": "survival:aft", "eta": 1, "lambda": 1, "min_child_weight": 0, "verbosity": 0}
    booster = xgboost.train(parameters | case.parameters | {"nthread": 1, "tree_method": "exact"}, row, 1)
    leaf = booster.get_dump(with_stats=True)[0]
    value, cover = (float(part.partition("=")[2]) for part in leaf.strip().partition(":")[2].split(","))
    return -value * (cover + 1), cover


@pytest.mark.slow
@cases("distribution", Z)
def test_aft_at_extreme_margins_is_xgboosts(distribution):
    case = aft_case(distribution, 0.5)
    rows = intervals_at([-4000.0, -400.0, -60.0, -2.0, 2.0, 60.0, 400.0, 4000.0])
    theirs = np.array([xgboosts_derivatives(case, *row) for row in rows.select("label", "upper", "m0").rows()])
    for engine in LANGUAGES:
        np.testing.assert_allclose(np.hstack(derivatives(case, rows, engine)), theirs, rtol=2e-3, atol=1e-5)


@pytest.mark.slow
@cases("distribution", Z)
def test_aft_stays_within_bounds_at_any_margin(distribution):
    margins = [s * m for s in (-1, 1) for m in [*np.linspace(0, 45, 46), 1e2, 1e3, 1e6, 1e150]]
    rows = intervals_at(margins)
    for engine in LANGUAGES:
        g, h = derivatives(aft_case(distribution, 1.0), rows, engine)
        assert (np.abs(g) <= 15).all()
        assert ((h >= 0) & (h <= 15)).all()  # on the grid XGBoost's least hessian, 1e-16, may be 0


# --- XGBoost ----------------------------------------------------------------------------------------------------------

EXPECTILE = "reg:expectileerror"
# The base scores that are a margin of 0, where that is not 0.
NO_MARGIN = {
    "binary:logistic": 0.5, "reg:logistic": 0.5, "count:poisson": 1.0, "reg:gamma": 1.0, "reg:tweedie": 1.0,
    "survival:cox": 1.0, "survival:aft": 1.0,
}  # fmt: skip


def assert_close(case: Case, ours: np.ndarray, theirs: np.ndarray, *, weighted: bool) -> None:
    # Where gradients are but a few numbers, many splits gain the same, and XGBoost does not always take the first.
    off = ~np.isclose(ours, theirs, rtol=1e-5, atol=2e-5)
    allowed = 0.08 if case.objective == "binary:hinge" or (case.objective in RENEWED and not weighted) else 0.0
    assert off.mean() <= allowed, (ours[off], theirs[off])


def compare(case: Case, *, weight: str | None = None, base_margin: list[str] | None = None, **settings) -> None:
    rows = labelled_rows()
    # XGBoost's exact doesn't renew leaves; with a bin a value hist does all that exact does.
    method = {"tree_method": "hist", "max_bin": 1000} if case.objective in RENEWED else {"tree_method": "exact"}
    data = matrix(case, rows, weight, base_margin)
    rounds = 3 if case.objective == "binary:hinge" and base_margin else 5  # after which a tie leads elsewhere
    booster, _ = train_xgboost(case, data, rounds, max_depth=3, **method, **settings)
    if base_margin:  # beside which XGBoost has no base score
        settings["base_score"] = NO_MARGIN.get(case.objective, 0.0)
    model = fit(case, rows, weight=weight, base_margin=base_margin, n_estimators=rounds, **method, **settings)
    theirs = booster.predict(matrix(case, rows, base_margin=base_margin))
    ours = model.predict(rows, base_margin=base_margin).to_numpy()
    assert len(np.unique(theirs)) > (1 if case.objective in ("binary:hinge", "multi:softmax") else 5)
    assert_close(case, ours, theirs, weighted=weight is not None)
    theirs = booster.predict(matrix(case, rows, base_margin=base_margin), output_margin=True)
    ours = model.predict(rows, "margin", base_margin=base_margin).to_numpy()
    assert_close(case, ours, theirs, weighted=weight is not None)


@pytest.mark.slow
@cases(("case", "weight"), [(case, (None, "w")[i % 2]) for i, case in enumerate(CASES)])
def test_predictions_are_xgboosts(case, weight):
    compare(case, weight=weight)


@pytest.mark.parametrize("weight", [None, "w"], ids=["plain", "weighted"])
@cases("case", [c for c in CASES if c.objective.startswith("binary:log")])
def test_positives_weigh_as_in_xgboost(case, weight):
    compare(case, weight=weight, scale_pos_weight=3.5)


@cases("objective", ["reg:squarederror", "reg:gamma", "reg:logistic"])
def test_rows_of_label_one_weigh_as_in_xgboost(objective):
    label = {"reg:squarederror": "count", "reg:gamma": "ones", "reg:logistic": "late"}[objective]
    rows = labelled_rows().with_columns(ones=pl.col("kind") + 1)
    case = Case(objective, label)
    booster, _ = train_xgboost(case, matrix(case, rows), 5, max_depth=3, scale_pos_weight=4.0)
    model = fit(case, rows, tree_method="exact", scale_pos_weight=4.0)
    np.testing.assert_allclose(model.predict(rows), booster.predict(matrix(case, rows)), rtol=1e-5, atol=1e-5)
    assert model != fit(case, rows, tree_method="exact")


@pytest.mark.slow
@cases("case", CASES)
def test_base_margins_and_base_scores_are_xgboosts(case):
    compare(case, base_margin=["m0", "m1", "m2"][: case.outputs], weight="w")
    scores = [0.375, 0.25, 0.5][: case.outputs]
    compare(case, base_score=scores if case.outputs > 1 else scores[0])


@cases("case", CASES)
def test_a_base_score_of_zero_is_a_margin_of_zero(case):
    model = fit(case, labelled_rows(), n_estimators=1, max_depth=1, base_score="zero")
    assert np.ravel(model.base_margin).tolist() == [0.0] * case.outputs


def test_a_distribution_takes_one_base_score_its_mean():
    rows = labelled_rows()
    for score in ("zero", [1.0, 2.0]):
        with pytest.raises(fb.ParameterError, match=r"^base_score is one number for objective 'dist:normal'"):
            fb.fit(rows, "amount", objective="dist:normal", base_score=score)
    model = fb.fit(rows, "amount", objective="dist:normal", base_score=2.0, n_estimators=1)
    spread = np.sqrt(np.mean((rows["amount"].to_numpy() - 2.0) ** 2))
    assert model.base_margin == pytest.approx([2.0, np.log(spread)])


def test_every_objective_is_tested_and_documented():
    # Ranking has tests and a page of its own; XGBoost has no distributions, 3.2 no expectiles (test_expectile.py), and
    # some are LightGBM's (test_lightgbm.py).
    elsewhere = {EXPECTILE: "expectile", "reg:huber": "huber", "reg:fair": "fair", "reg:mape": "mape"}
    assert {case.objective for case in CASES} == {
        name for name in LOSSES if not name.startswith(("rank:", "dist:")) and name not in elsewhere
    }
    page = (Path(__file__).parents[2] / "docs" / "objectives.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| `(\w+:\w+)` \|.*\| `([\w-]+)[\w@ρ-]*` \|$", page, re.M)
    metrics = {case.objective: loss_of(case).metric.partition("@")[0] for case in CASES}
    distributions = {name: f"{name[5:]}-nloglik" for name in LOSSES if name.startswith("dist:")}
    assert dict(table) == metrics | distributions | elsewhere


def test_ties_are_breslows_in_any_order_of_rows():
    """XGBoost gives tied events the sum at risk as it is when their row comes, in the order of the rows."""
    rows = labelled_rows().with_columns((pl.col("time").abs().ceil() * pl.col("time").sign()).alias("time"))
    case = Case("survival:cox", "time")
    models = [fit(case, rows.sample(fraction=1, shuffle=True, seed=s), n_estimators=2, max_depth=2) for s in (1, 2)]
    assert_same(case.objective, *models)
    margins = models[0][:1].predict(rows, "margin").to_numpy()
    for model, start in ((models[0][:1], np.full(len(rows), models[0].base_margin)), (models[0], margins)):
        tree = len(model.ensemble.trees) - 1
        leaf = model.predict(rows, "leaf").arr.get(tree).to_numpy()
        g, h = derivatives(case, as_rows(rows["time"].to_numpy(), start), "polars")
        for node, value in model.trees.filter(pl.col("tree") == tree, pl.col("left") < 0)[["node", "value"]].rows():
            here = leaf == node
            assert value == pytest.approx(-0.3 * g[here].sum() / (h[here].sum() + 1), rel=1e-9)


# --- one model --------------------------------------------------------------------------------------------------------


# Of the losses that no meeting has (`tests.meetings.table`); numba and polars compute the same expressions.
RARE = ("reg:squaredlogerror", "reg:logistic", "reg:pseudohubererror", "binary:hinge", "reg:gamma", "reg:tweedie",
        "survival:cox", "survival:aft")  # fmt: skip


@pytest.mark.slow
@cases("case", [c for c in CASES if c.objective in RARE and c.parameters.get("aft_loss_distribution") != "logistic"])
def test_engines_give_one_model(case):
    rows = labelled_rows().with_columns(carrier=pl.Series(["AA", "it's", None, "UA", "B6"] * 60))
    options = {"features": ["x0", "carrier"], "weight": "w", "n_estimators": 2, "max_depth": 2}
    data = [(rows, "numba"), (rows.sample(fraction=1, shuffle=True, seed=1), "duckdb")]
    models = [fit(case, frame, engine=engine, **options) for frame, engine in data]
    assert models[0].trees["feature"].count() > 0
    if case.objective in ARITHMETIC:
        assert len({model.to_json() for model in models}) == 1
    else:
        assert_same(case.objective, *models)


@pytest.fixture(scope="module")
def con() -> duckdb.DuckDBPyConnection:
    """A database with the rows in a table t."""
    con = duckdb.connect()
    con.register("frame", labelled_rows())
    con.execute("CREATE TABLE t AS SELECT * FROM frame")
    return con


@pytest.mark.slow
@cases("case", CASES)
def test_predict_expr_sql_and_a_file_agree(case, con, tmp_path):
    rows = labelled_rows()
    model = fit(case, rows, n_estimators=1, max_depth=2)
    model.save(tmp_path / "model.json")
    assert fb.load(tmp_path / "model.json") == model
    bases = ["m0", "m1", "m2"][: case.outputs]
    classes = [("class", None)] if case.objective.startswith(("binary:", "multi:")) else []
    for output, started in [("mean", None), ("mean", bases), ("margin", bases), *classes]:
        predicted = model.predict(rows, output, base_margin=started)
        by_expr = rows.lazy().select(model.expr(output, base_margin=started)).collect().to_series()
        by_sql = con.sql(f"SELECT {model.sql(output, base_margin=started)} FROM t").fetchall()
        assert by_expr.dtype == predicted.dtype
        first, second, third = (np.array(v, dtype=float) for v in (
            predicted.to_list(), by_expr.to_list(), [value for (value,) in by_sql]
        ))  # fmt: skip
        rtol = 1e-14 if output == "mean" else 0
        np.testing.assert_allclose(second, first, rtol=rtol)
        np.testing.assert_allclose(third, first, rtol=rtol)


@cases("case", [c for c in CASES if c.objective.startswith(("binary:", "multi:"))])
def test_the_class_is_the_likeliest(case):
    rows = labelled_rows()
    model = fit(case, rows, n_estimators=20)
    margins = model.predict(rows, "margin").to_numpy()
    likeliest = margins.argmax(axis=1) if case.outputs > 1 else margins > 0
    assert model.predict(rows, "class").to_list() == likeliest.astype(int).tolist()
    assert (likeliest == rows[case.label].to_numpy()).mean() > 0.8


@cases("case", [c for c in CASES if not c.objective.startswith(("binary:", "multi:"))][::5])
def test_a_regression_has_no_classes(case):
    with pytest.raises(fb.ParameterError, match=r"output must be one of 'mean', 'margin',( 'quantiles',)? not 'class'"):
        fit(case, labelled_rows(), n_estimators=1).expr("class")


def test_a_custom_objective_is_the_loss_that_it_spells():
    rows = labelled_rows()
    sigmoid = "1 / (1 + EXP(-margin))"
    own = fb.Objective(f"{sigmoid} - label", f"GREATEST({sigmoid} * (1 - {sigmoid}), 1e-16)", sigmoid, "logloss")
    options = {"features": FEATURES, "weight": "w", "n_estimators": 4, "base_score": 0.0, **QUIET}
    theirs = fb.fit(rows, "late", objective="binary:logistic", **options | {"base_score": 0.5})
    models = [fb.fit(rows, "late", objective=own, engine=engine, **options) for engine in ENGINES]
    assert_same("custom", *models)
    np.testing.assert_allclose(models[0].predict(rows), theirs.predict(rows), rtol=1e-12)
    assert models[0].objective == "custom"


@pytest.mark.parametrize("engine", ENGINES)
def test_a_custom_objective_starts_at_a_newton_step(engine):
    rows = labelled_rows()
    own = fb.Objective("EXP(margin) - label", "EXP(margin)", "EXP(margin)", "poisson-nloglik")
    model = fb.fit(rows, "count", features=FEATURES, weight="w", objective=own, n_estimators=1, engine=engine, **QUIET)
    assert model.base_margin == pytest.approx(np.average(rows["count"], weights=rows["w"]) - 1, rel=1e-12)
    given = fb.fit(rows, "count", features=FEATURES, objective=own, n_estimators=1, base_score=0.25, **QUIET)
    assert given.base_margin == 0.25


# --- labels -----------------------------------------------------------------------------------------------------------


@cases("upper", [1.5, 0.0, -1.0])
def test_times_must_lie_in_order(upper):
    rows = pl.DataFrame({"x": [1, 2, 3], "low": [2.0, 1.0, 0.0], "high": [upper, 1.0, None]})
    with pytest.raises(fb.DataError, match=r"label_upper_bound is greater than 0 and no earlier in 1 of 3 rows"):
        fb.fit(rows, "low", objective="survival:aft", label_upper_bound="high")


@cases(("options", "message"), [
    ({"objective": "survival:aft"}, "needs label_upper_bound"),
    ({"label_upper_bound": "u"}, "label_upper_bound is for objective 'survival:aft', not for 'reg:squarederror'"),
    ({"num_class": 3}, "num_class is for objectives"),
    ({"objective": "reg:cubicerror"}, "objective must be an fb.Objective or one of 'reg:squarederror'"),
    ({"objective": "binary:logistic", "base_score": 1.0}, "base_score must lie between 0 and 1"),
    ({"objective": "count:poisson", "base_score": 0.0}, "base_score must lie between 0 and inf"),
    ({"base_margin": ["u", "v"]}, "base_margin names 2 columns; objective 'reg:squarederror' has 1 margins"),
    ({"objective": "multi:softprob", "base_margin": "u"}, "base_margin names 1 column; objective 'multi:softprob'"),
])  # fmt: skip
def test_what_does_not_go_with_a_loss_is_refused(options, message):
    rows = pl.DataFrame({"x": [1, 2, 3], "y": [0, 1, 0], "u": [1.0, 1.0, 2.0], "v": [1.0, 1.0, 2.0]})
    with pytest.raises(fb.ParameterError) as error:
        fb.fit(rows, "y", features=["x"], **options)
    assert message in str(error.value)


# --- many classes -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def many_classes() -> tuple[fb.Model, pl.DataFrame]:
    """A model of 20 classes and its rows; one round of stumps leaves many of a row's margins equal."""
    rng = np.random.default_rng(3)
    frame = pl.DataFrame({"x": rng.integers(0, 6, 200), "y": [*range(20)] * 10})
    return fb.fit(frame, "y", objective="multi:softmax", num_class=20, n_estimators=1, max_depth=1), frame


@cases("output", ["class", "mean"])
def test_of_many_classes_the_first_of_the_likeliest_is_taken(many_classes, output):
    model, frame = many_classes
    margins = model.predict(frame, "margin").to_numpy()
    likeliest = margins.argmax(axis=1).tolist()
    assert (margins == margins.max(axis=1, keepdims=True)).sum() > len(frame)  # some are equal
    assert model.predict(frame, output).to_list() == likeliest
    assert model.predict(frame[:1], output).to_list() == likeliest[:1]
    assert frame.select(model.expr(output)).to_series().to_list() == likeliest
    con = duckdb.connect()
    con.register("rows", frame.to_arrow())
    assert [value for (value,) in con.sql(f"SELECT {model.sql(output)} FROM rows").fetchall()] == likeliest
    assert [value for *_, value in con.sql(model.query("rows", output=output)).fetchall()] == likeliest


@cases("objective", ["multi:softmax", "multi:softprob"])
def test_outputs_grow_with_the_classes_and_not_with_their_square(objective):
    def letters(classes: int, output: str) -> int:
        found = output_of(get_loss(objective, {"num_class": classes, "scale_pos_weight": 1.0}), output)
        parts = [expression for stage in found.stages for expression in stage.values()]
        return sum(len(expression.text) for expression in (*parts, *found.values))

    for output in ("mean", "class", "probability"):
        assert letters(80, output) < 2.2 * letters(40, output)
