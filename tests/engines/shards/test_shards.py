"""A fit in shards gives the model of one engine over all rows, byte for byte."""

import duckdb
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import frameboost as fb
from frameboost.binning import bins as binning
from frameboost.data.opening import open_source
from frameboost.data.sources import FrameSource
from frameboost.engines.contract import EngineRequest
from frameboost.engines.shards import engine as shards
from frameboost.engines.shards import opening
from frameboost.engines.shards.shard import LocalShards
from frameboost.expressions.draws import RowPositions
from frameboost.parameters.parameters import Parameters
from frameboost.runtime.workers import Workers
from frameboost.schema.types import Feature
from tests.support.cases import cases
from tests.support.frames import FEATURES_BY_TYPE, every_type
from tests.support.objectives import CASES, FEATURES, labelled_rows

ENGINES = ["numba", "polars", "duckdb"]
SHAPE = {"n_estimators": 2, "max_depth": 4, "learning_rate": 0.5, "verbose": False}


def assert_equal(whole: fb.Model, *others: fb.Model) -> None:
    for other in others:
        assert other.to_json() == whole.to_json()
        # Areas under curves are computed from the sums of all shards, in DuckDB otherwise than there: 1e-14 apart.
        assert_frame_equal(other.history, whole.history, rel_tol=1e-12, abs_tol=0)


# Every objective's gradients are the engine's own; shards differ in grids, base margins, quantiles and outputs.
FEW = [case for case in CASES if case.objective in ("reg:quantileerror", "multi:softprob", "survival:aft")][1:4]


@pytest.mark.parametrize(("engine", "chosen"), [
    ("numba", [case for case in CASES if case.objective != "survival:cox"]),
    pytest.param("polars", FEW[:1], marks=pytest.mark.slow), pytest.param("duckdb", FEW[1:], marks=pytest.mark.slow),
])  # fmt: skip
def test_every_objective(engine, chosen):
    frame = labelled_rows()
    for case in chosen:
        options = {"objective": case.objective, "features": FEATURES, "engine": engine, **SHAPE}
        options |= case.parameters | case.columns
        whole = fb.fit(frame, case.label, **options)
        assert whole.trees["depth"].max() > 0
        assert_equal(whole, fb.fit(frame, case.label, shards=3, **options))


# What growths, weights and offsets of shards give, `tests.meetings` compares.
SHAPES = [
    {"objective": "reg:quantileerror", "quantile_alpha": 0.3, "weight": "w", "subsample": 0.6,
     "target_transform": "asinh"},
    {"objective": "binary:logistic", "eval_metric": ["auc", "aucpr", "logloss"], "valid": "w > 1.4",
     "early_stopping_rounds": 2, "min_delta": 1e-3, "min_child_samples": 40, "class_weight": "balanced",
     "threshold": "f1"},
    {"subsample": 0.5, "sampling_method": "gradient_based", "min_child_samples": 15},
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@cases("more", SHAPES)
def test_quantiles_areas_and_samples(engine, more):
    frame = every_type(500, seed=5)
    features = ["int8", "int128", "float64", "date", "string"]
    options = {"features": features, "engine": engine, **SHAPE, **more}
    target = "late" if "valid" in more else "amount"
    assert_equal(fb.fit(frame, target, **options), fb.fit(frame, target, shards=3, **options))


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "max_bin"), [("numba", 256), ("polars", 4), ("duckdb", 4)])
def test_every_column_type(monkeypatch, engine, max_bin):
    monkeypatch.setattr(shards, "_SUMMARY", 5)  # so that values within intervals are asked for
    frame = every_type(500, seed=6)
    # All columns missing in the first shard, and of one value in the second.
    row = pl.int_range(500)
    own = [
        pl.when(row >= 320).then(name).when(row >= 160).then(pl.col(name).drop_nulls().first())
        for name in FEATURES_BY_TYPE
    ]  # fmt: skip
    options = {"features": list(FEATURES_BY_TYPE), "engine": engine, "max_bin": max_bin, **SHAPE, "n_estimators": 1}
    for data in (frame, frame.with_columns(own)):
        assert_equal(fb.fit(data, "amount", **options), fb.fit(data, "amount", shards=3, **options))


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_cuts_come_from_the_same_sample(monkeypatch, engine):
    monkeypatch.setattr(binning, "SAMPLE_LIMIT", 64)
    frame = every_type(500, seed=7)
    options = {"features": ["float64", "int32", "date"], "engine": engine, **SHAPE}
    whole = fb.fit(frame, "amount", **options)
    assert_equal(whole, fb.fit(frame, "amount", shards=3, **options))


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_queries_in_one_shard_each(engine):
    frame = every_type(400, seed=8).with_columns(day=pl.int_range(400) // 25, label=pl.col("amount").rank() * 4 // 401)
    options = {"objective": "rank:ndcg", "group": "day", "features": ["float64", "string"], "engine": engine, **SHAPE}
    options["eval_metric"] = ["ndcg@4"]
    whole = fb.fit(frame, "label", **options)
    if engine == "numba":
        assert_equal(whole, *(fb.fit(frame, "label", shards=n, **options) for n in (3, 40)))
    assert_equal(whole, fb.fit([frame[:25], frame[25:175], frame[175:]], "label", shards=3, **options))
    with pytest.raises(fb.DataError, match="rows of '12' in group 'day' lie in several shards"):
        fb.fit([frame[:310], frame[310:]], "label", shards=2, **options)
    with pytest.raises(fb.DataError, match="rows of '0' in group 'day' lie in several shards"):
        fb.fit(pl.concat([frame[10:], frame[:10]]), "label", shards=2, **options)


def test_files_are_divided_between_queries(tmp_path):
    frame = every_type(400, seed=8).select("float64", day=pl.int_range(400) // 27, label=pl.int_range(400) * 7 % 5)
    for number, part in enumerate((frame[:135], frame[135:])):
        part.write_parquet(tmp_path / f"{number}.parquet")
    options = {"objective": "rank:ndcg", "group": "day", "subsample": 0.8, **SHAPE}
    whole = fb.fit(frame, "label", **options)
    assert_equal(whole, *(fb.fit(tmp_path / "*.parquet", "label", shards=n, **options) for n in (2, 3, 50)))


def test_frames_follow_each_other():
    frame = every_type(300, seed=9).with_columns(
        string=pl.when(pl.int_range(300) < 40).then(pl.lit("rare")).otherwise("string")
    )
    parts = [frame[:40], frame[40:40].lazy(), frame[40:130].lazy(), frame[130:]]
    options = {"features": ["float64", "string"], "valid": "w > 1.4", "subsample": 0.7, **SHAPE}
    whole = fb.fit(frame, "amount", **options)
    assert_equal(whole, *(fb.fit(parts, "amount", shards=n, **options) for n in (None, 1, 2, 4, 9)))


def test_frames_of_other_columns_are_refused():
    frame = every_type(50)
    with pytest.raises(fb.DataError, match="column 'int8' has type Int8 in the first frame of data and Int64 in"):
        fb.fit([frame, frame.with_columns(pl.col("int8").cast(pl.Int64))], "amount")
    with pytest.raises(fb.DataError, match="column 'int8' is in the first frame of data but not in frame 3"):
        fb.fit([frame, frame, frame.drop("int8")], "amount")


@cases(("options", "says"), [
    ({"tree_method": "exact"}, "tree_method='exact' needs engine='numba', not 'numba in 2 shards'"),
    ({"tree_method": "approx"}, "not 'numba in 2 shards'"),
    ({"shards": 0}, "shards must be an integer of at least 1"),
    ({"shards": "two"}, "shards must be an integer of at least 1"),
    ({"objective": "survival:cox"}, "a running sum over all rows, which shards do not have; train without shards"),
])  # fmt: skip
def test_what_shards_cannot_do_is_refused(options, says):
    with pytest.raises(fb.ParameterError) as error:
        fb.fit(every_type(50).filter(pl.col("amount") != 0), "amount", **{"features": ["int8"], "shards": 2, **options})
    assert says in str(error.value)


def test_no_rows_are_refused_as_ever():
    with pytest.raises(fb.DataError, match="the data has no rows"):
        fb.fit(every_type(50)[:0], "amount", features=["int8"], shards=3)


@pytest.mark.parametrize("n_shards", [None, 7])
def test_paths_in_a_list_follow_each_other(tmp_path, n_shards):
    frame = every_type(300, seed=9).select("float64", "date", "string", "amount")
    first, second = in_files(tmp_path, frame[:60], frame[60:110]), tmp_path / "A.csv"
    frame[110:220].write_csv(second)
    options = {"subsample": 0.7, "shards": n_shards, **SHAPE}
    whole = fb.fit(frame, "amount", valid=frame[:110], **options)
    last = frame[220:].with_columns(pl.col("amount") + 0.0).lazy()
    assert_equal(whole, fb.fit([first, second, last], "amount", valid=[first], **options))
    assert_equal(fb.fit(frame[60:110], "amount", **options), fb.fit([tmp_path / "b.parquet"], "amount", **options))


def test_what_is_no_path_of_a_table_is_refused_in_a_list(tmp_path):
    good = changed()
    in_files(tmp_path, good, good.drop("x"))
    paths = [str(tmp_path / "a.parquet"), tmp_path / "b.parquet"]
    with pytest.raises(fb.DataError, match=r"column 'x' is in '.*a.parquet' but not in '.*b.parquet'"):
        fb.fit(paths, "y")
    duckdb.connect(tmp_path / "rows.duckdb").execute("CREATE TABLE rows AS SELECT 1 AS x, 2 AS y").close()
    for last, says in (
        (tmp_path / "c.parquet", r"c.parquet can't be read: No such file"),
        (f"{tmp_path}/c*.parquet", "no file matches data="),
        ("rows.txt", r"'rows.txt' is not a table in a supported format: it must end in .parquet"),
        (good.to_pandas(), r"data is a list; it must be .* or a list of frames or paths"),
        (tmp_path / "rows.duckdb", r"data has '.*rows.duckdb', a table of DuckDB, whose rows can't follow"),
    ):
        with pytest.raises(fb.FrameboostError, match=says):
            fb.fit([*paths[:1], last], "y")


@pytest.mark.slow
def test_a_frame_that_scans_files_is_divided_unread(tmp_path):
    frame = every_type(300, seed=9).select("float64", "int16", "string", "amount")
    scan = pl.scan_parquet(in_files(tmp_path, frame[:40], frame[40:210], frame[210:]))
    by_row = scan.with_columns(twice=pl.col("float64") * 2, start=pl.col("string").str.slice(0, 1))
    for data, is_divided in (
        (scan, True), (by_row, True), (by_row.filter(pl.col("int16") > -100), True), (scan.slice(50, 200), True),
        ([by_row[:100], by_row.slice(100)], True),
        (scan.sort("float64"), False), (scan.with_columns(pl.col("int16").cum_sum()), False),
        (scan.map_batches(lambda rows: rows), False), (scan.unique(maintain_order=True), False),
    ):  # fmt: skip
        source = open_source(data)
        features = tuple(Feature(name, kind) for name, kind in source.types().items() if name != "amount")
        request = EngineRequest(source, features, {"label": "amount"}, Parameters.from_keywords({}), Workers(1))
        parts, _ = opening.divided(request, 4)
        rows = [part.frame.collect() for part in parts]
        whole = pl.concat([part.collect() for part in data]) if isinstance(data, list) else data.collect()
        assert all(("Parquet SCAN" in part.frame.explain()) == is_divided for part in parts)
        assert pl.concat(rows).equals(whole.select(rows[0].columns))
        assert max(map(len, rows)) <= len(whole) // 3
        if is_divided:
            options = {"subsample": 0.7, "valid": "amount > 0", **SHAPE}
            assert_equal(fb.fit(whole, "amount", **options), fb.fit(data, "amount", shards=4, **options))


def in_files(folder, *parts: pl.DataFrame) -> str:
    for letter, part in zip("abcdefgh", parts, strict=False):
        part.write_parquet(folder / f"{letter}.parquet")
    return str(folder / "*.parquet")


def changed(**values: object) -> pl.DataFrame:
    """Return 20 good rows, with one that has the given values."""
    good = pl.DataFrame({"x": range(20), "y": [0.0, 1.0] * 10, "w": [1.0] * 20})
    return good.with_columns(
        pl.when(pl.int_range(20) == 7).then(pl.lit(value, pl.Float64)).otherwise(name).alias(name)
        for name, value in values.items()
    )


@cases(("values", "options", "says"), [
    ({"y": None}, {}, r"'y' is NULL or NaN in 1 of 80 rows; drop those rows first \(in '.*c.parquet'\)$"),
    ({"y": float("nan")}, {}, r"'y' is NULL or NaN in 1 of 80 rows; .*c.parquet'\)$"),
    ({"y": float("inf")}, {}, r"'y' holds an infinite value; every label must be finite \(in '.*c.parquet'\)$"),
    ({"y": 0.5}, {"objective": "multi:softmax", "num_class": 2}, r"'y' holds other values .*c.parquet'\)$"),
    ({"w": -1.0}, {"weight": "w"}, r"'w' holds negative values \(down to -1\); .*c.parquet'\)$"),
    ({"w": None}, {"base_margin": "w"}, r"'w' is NULL, NaN or infinite in 1 of 80 rows; .*c.parquet'\)$"),
])  # fmt: skip
def test_the_file_with_the_wrong_rows_is_named(tmp_path, values, options, says):
    good = changed()
    data = in_files(tmp_path, good, good, changed(**values), good)
    with pytest.raises(fb.DataError, match=says):
        fb.fit(data, "y", features=["x"], shards=4, **options)
    with pytest.raises(fb.DataError, match=r"c.parquet' to '.*d.parquet'\)$"):
        fb.fit(data, "y", features=["x"], shards=2, **options)


def test_the_frame_with_the_wrong_rows_is_named():
    good, wrong = changed(), changed(y=None)
    for parts, says in (([good, wrong], "frame 2"), ([wrong, good, wrong, good, wrong, wrong],
                        "the first frame of data, frame 3, frame 5 and 1 more")):  # fmt: skip
        with pytest.raises(fb.DataError, match=rf"drop those rows first \(in {says}\)$"):
            fb.fit(parts, "y", features=["x"], shards=len(parts))
    with pytest.raises(fb.DataError, match=r"drop those rows first$"):
        fb.fit(pl.concat([good, wrong]), "y", features=["x"], shards=2)


def test_files_of_other_columns_are_named(tmp_path):
    good = changed()
    data = in_files(tmp_path, good, good.with_columns(pl.col("x").cast(pl.String)))
    with pytest.raises(fb.DataError, match=r"'x' has type Int64 in '.*a.parquet' and String in '.*b.parquet'; cast it"):
        fb.fit(data, "y")
    with pytest.raises(fb.DataError, match=r"rows of a shard can't be read: data type mismatch for column x: .*String"):
        fb.fit(pl.scan_parquet(data), "y", shards=2)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_rows_of_a_shard_may_lie_apart(monkeypatch, engine):
    frame = every_type(400, seed=6)
    parts = [frame[a : a + 100].lazy() for a in range(0, 400, 100)]
    apart = [pl.concat([parts[0], parts[3]]), pl.concat([parts[2], parts[1]])]
    positions = [RowPositions(((0, 0), (100, 300))), RowPositions(((0, 200), (100, 100)))]
    options = {"features": ["float64", "string"], "engine": engine, "subsample": 0.5, "max_bin": 8, **SHAPE}
    monkeypatch.setattr(binning, "SAMPLE_LIMIT", 64)
    whole = fb.fit(frame, "amount", **options)
    monkeypatch.setattr(opening, "divided", lambda *_: ([FrameSource(rows) for rows in apart], ["", ""]))
    assert fb.fit(frame, "amount", shards=2, **options) != whole
    monkeypatch.setattr(LocalShards, "positions", lambda *_: positions)
    assert_equal(whole, fb.fit(frame, "amount", shards=2, **options))
