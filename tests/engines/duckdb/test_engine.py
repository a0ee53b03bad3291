"""The engine inside DuckDB: on the caller's connection, whose settings, names and types change nothing."""

import subprocess
import sys
from functools import cache

import duckdb
import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.data import duckdb_session as session
from frameboost.data.duckdb_session import DuckDBSession
from frameboost.engines import query_costs
from frameboost.engines.duckdb import memory as duckdb_memory
from frameboost.engines.duckdb.engine import DuckDBEngine
from frameboost.expressions.expression import Expression
from frameboost.expressions.grid import Aggregate
from frameboost.runtime.interrupts import closed_after
from tests.support.cases import cases
from tests.support.frames import every_type

pytestmark = pytest.mark.usefixtures("all_cores")
SHAPE = {"n_estimators": 2, "max_depth": 3, "verbose": False}


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    return every_type(300, seed=1).select("float64", "int16", "string", "datetime_us", "decimal", "amount", "late", "w")


@pytest.fixture
def con(frame):
    con = duckdb.connect()
    con.execute("CREATE TABLE flights AS SELECT * FROM frame")
    return con


# --- where the rows may be --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_tables_views_queries_and_files_give_one_model(con, frame, tmp_path):
    expected = fb.fit(frame, "amount", n_estimators=1)
    con.execute("CREATE VIEW seen AS SELECT * FROM flights")
    con.execute(f"ATTACH '{tmp_path / 'other.db'}' AS other")
    con.execute("CREATE SCHEMA other.s; CREATE TABLE other.s.kept AS FROM flights; DETACH other")
    con.execute(f"ATTACH '{tmp_path / 'other.db'}' AS other (READ_ONLY)")
    for i in range(3):
        con.execute(f"COPY (SELECT * FROM flights WHERE rowid % 3 = {i}) TO '{tmp_path}/part{i}.parquet'")
    con.execute(f"COPY flights TO '{tmp_path}/flights.csv' (NULL 'nothing')")
    types = dict(con.execute("SELECT column_name, column_type FROM (DESCRIBE flights)").fetchall())
    relations = {
        "view": con.view("seen"),
        "query": con.sql("SELECT a.* FROM flights AS a JOIN flights AS b ON a.rowid = b.rowid"),
        "a pattern": con.sql(f"FROM '{tmp_path}/part*.parquet'"),
        "CSV": con.read_csv(f"{tmp_path}/flights.csv", dtype=types, na_values="nothing"),
        "parameters": con.sql("SELECT * FROM flights WHERE rowid < ?", params=[10_000]),
        "a window": con.sql("SELECT * FROM flights QUALIFY row_number() OVER (ORDER BY amount) > 0"),
        "read-only database": con.table("other.s.kept"),
        "pandas": con.from_df(frame.to_pandas(use_pyarrow_extension_array=True)),
    }
    for kind, relation in relations.items():
        assert fb.fit(relation, "amount", n_estimators=1) == expected, kind


def test_the_default_connection_works(frame):
    assert fb.fit(duckdb.sql("SELECT * FROM frame"), "amount", **SHAPE) == fb.fit(frame, "amount", **SHAPE)


@pytest.mark.slow
def test_columns_may_have_the_names_that_the_engine_uses():
    rng = np.random.default_rng(0)
    names = ["label", "weight", "margin", "node", "bin", "bin_0", "bin_1", "g", "h", "source", "value", "value_0", "n",
             "cuts", "cuts_0", "rowid", "category_0", "first_key", "key", "feature", "frameboost_position", "part",
             "select", 'a"b', "it's", "x.y", "né\n", "{bin}", "?", "$1", "%s"]  # fmt: skip
    x = rng.normal(size=(300, len(names))).round(1)
    kind = rng.integers(0, 4, 300)
    frame = pl.DataFrame(x, schema=names).with_columns(
        code=pl.Series([("a", "b", "c", None)[k] for k in kind]), category=pl.Series(rng.choice([*"xz'"], 300)),
        y=pl.Series(x @ rng.normal(size=len(names)) + 9 * (kind == 1)),
    )  # fmt: skip
    expected = fb.fit(frame, "y", **SHAPE)
    assert fb.fit(frame, "y", engine="duckdb", **SHAPE) == expected
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT * FROM frame")
    assert fb.fit(con.table("t"), "y", **SHAPE) == expected


def test_a_frame_with_names_that_differ_only_in_case_trains_in_duckdb():
    frame = pl.DataFrame({"x": [1, 2, 3, 4] * 9, "X": [4, 4, 1, 1] * 9, "y": [1.0, 2.0, 3.0, 5.0] * 9})
    model = fb.fit(frame, "y", engine="duckdb", **SHAPE)
    assert model == fb.fit(frame, "y", **SHAPE)


@pytest.mark.slow
def test_rows_join_their_gradients_whatever_the_order_of_insertion_and_threads():
    # There are several row groups, each of 122,880 rows.
    con = duckdb.connect()
    con.execute("SET threads = 3; SET preserve_insertion_order = false")
    con.execute("CREATE TABLE t AS SELECT hash(i) % 1000 AS x, hash(-i) % 77 AS z, i % 1009 + hash(i) % 3 AS y, "
                "1 + i % 4 AS w FROM range(150001) AS r(i)")  # fmt: skip
    table, part = con.table("t"), con.sql("FROM t WHERE x < 600")
    shape = {"weight": "w", "eval_metric": "mae", **SHAPE}
    assert fb.fit(table, "y", valid=part, **shape) == fb.fit(table.pl(), "y", valid=part.pl(), **shape)
    linear = {"linear_tree": True, "n_estimators": 2, "max_depth": 3, "verbose": False}
    model = fb.fit(table, "y", engine="duckdb", **linear)
    assert model.ensemble.is_linear
    assert model == fb.fit(table.pl(), "y", engine="numba", **linear)


@pytest.mark.slow
@cases(("n_values", "missing"), [(254, True), (255, False), (255, True), (256, False), (256, True), (257, False)])
def test_cuts_do_not_depend_on_an_estimate_of_how_many_values_there_are(n_values, missing):
    # Estimates are off by some percent; at 256 values or fewer every value is a bin.
    frame = pl.DataFrame({"x": [(i * i * 7919) % (n_values * 64) // 64 for i in range(n_values * 10)]})
    values = pl.concat([frame, pl.DataFrame({"x": range(n_values)}), pl.DataFrame({"x": [None] * missing}, {"x": int})])
    frame = values.with_columns(y=pl.col("x").fill_null(7) % 13 + pl.col("x").fill_null(1) // 9)
    options = {"n_estimators": 1, "max_depth": 8, "min_child_weight": 0}
    assert fb.fit(frame, "y", engine="duckdb", **options) == fb.fit(frame, "y", engine="numba", **options)


@pytest.mark.slow
@pytest.mark.parametrize(
    "several",
    [
        ("threads = 1", "default_order = 'DESC'", "integer_division = true", "TimeZone = 'America/New_York'",
         "schema = 'other'", "perfect_ht_threshold = 0", "lock_configuration = true"),
        ("threads = 2", "preserve_insertion_order = false", "default_null_order = 'NULLS_FIRST'",
         "ieee_floating_point_ops = false", "Calendar = 'japanese'", "search_path = 'other,main'",
         "python_enable_replacements = false", "perfect_ht_threshold = 9"),
        ("enable_external_access = false", "perfect_ht_threshold = 24",
         "disabled_optimizers = 'join_order,filter_pushdown,statistics_propagation'"),
    ],
    ids=["time zone", "calendar", "optimizers"],
)  # fmt: skip
def test_settings_of_the_connection_do_not_change_the_model(con, frame, several):
    expected = fb.fit(frame, "amount", weight="w", **SHAPE)
    con.execute("CREATE SCHEMA other")
    relation = con.table("flights")
    for setting in several:
        con.execute(f"SET {setting}")
    assert fb.fit(relation, "amount", weight="w", **SHAPE) == expected


@pytest.mark.parametrize("way", ["COLLATE NOACCENT", "default_collation"])
def test_strings_are_told_apart_byte_by_byte_whatever_their_collation(way):
    frame = pl.DataFrame({"s": ["a", "A", "b", "ä", None] * 10, "y": [1.0, 5.0, 2.0, 9.0, 4.0] * 10})
    con = duckdb.connect()
    if way == "default_collation":
        con.execute("SET default_collation = 'NOCASE'")
    con.execute(f"CREATE TABLE t (s VARCHAR {way if way != 'default_collation' else ''}, y DOUBLE)")
    con.register("arrived", frame.to_arrow())
    con.execute("INSERT INTO t FROM arrived")
    assert fb.fit(con.table("t"), "y", **SHAPE) == fb.fit(frame, "y", **SHAPE)


# --- every type -------------------------------------------------------------------------------------------------------


def integers(bits: int, low: int) -> list[int]:
    high, middle = low + 2**bits - 1, low + 2 ** (bits - 1)
    return [low, low + 1, middle - 1, middle, high - 1, high]


# type -> values in ascending order, from the lowest that it holds to the highest, neighbours among them
LADDERS = {
    "BOOLEAN": ["false", "true"],
    **{sign + name: integers(bits, 0 if sign else -(2 ** (bits - 1))) for sign in ("", "U") for name, bits in
       (("TINYINT", 8), ("SMALLINT", 16), ("INTEGER", 32), ("BIGINT", 64), ("HUGEINT", 128))},
    "FLOAT": ["-inf", "-3.4028235e38", "-1e-45", "0", "1", "1.0000001", "inf"],
    "DOUBLE": ["-inf", "-1.7976931348623157e308", "-5e-324", "0", "1", "1.0000000000000002", "inf"],
    "DECIMAL(4,1)": ["-999.9", "-999.8", "0", "0.1", "999.9"],
    "DECIMAL(9,9)": ["-0.999999999", "-0.000000001", "0", "0.999999998", "0.999999999"],
    "DECIMAL(18,0)": ["-999999999999999999", "0", "1", "999999999999999998", "999999999999999999"],
    "DECIMAL(38,38)": [f"-0.{'9' * 38}", "0", f"0.{'0' * 37}1", f"0.{'9' * 37}8", f"0.{'9' * 38}"],
    "DATE": ["5877642-06-25 (BC)", "0001-01-01", "1969-12-31", "1970-01-01", "9999-12-31", "5881580-07-10"],
    "TIMESTAMP": ["290309-12-22 (BC) 00:00:00", "1969-12-31 23:59:59.999999", "1970-01-01",
                  "294247-01-10 04:00:54.775805", "294247-01-10 04:00:54.775806"],
    "TIMESTAMP_S": ["0001-01-01", "1969-12-31 23:59:59", "1970-01-01", "294247-01-10 04:00:54"],
    "TIMESTAMP_MS": ["0001-01-01", "1969-12-31 23:59:59.999", "1970-01-01", "294247-01-10 04:00:54.775"],
    "TIMESTAMP_NS": ["1678-01-01", "1969-12-31 23:59:59.999999999", "1970-01-01", "1970-01-01 00:00:00.000000001",
                     "2262-04-11 23:47:16.854775806"],
    "TIMESTAMPTZ": ["290309-12-22 (BC) 00:00:00+00", "1970-01-01 00:59:59.999999+01", "1970-01-01 00:00:00+00",
                    "1969-12-31 23:00:00-02", "294247-01-10 04:00:54.775806+00"],
    "TIMESTAMPTZ_NS": ["1678-01-01 00:00:00+00", "1970-01-01 00:59:59.999999999+01", "1970-01-01 00:00:00+00",
                       "1969-12-31 23:00:00-02", "2262-04-11 23:47:16.854775806+00"],
    "INTERVAL": ["-100 years", "-1 microsecond", "0 days", "29 days", "1 month", "1 month 1 microsecond", "1 year"],
    "VARCHAR": ["", "A", "a", "a ", "ä", "é", "💧"],
    "ENUM('💧', 'a ', 'é', 'a', '', 'ä', 'A', 'never')": ["", "A", "a", "a ", "ä", "é", "💧"],
}  # fmt: skip


LABELS = [3.0, 1.0, 4.0, 1.5, 9.0, 2.6, 5.3, 5.8]
ONE_TREE = {"n_estimators": 1, "max_depth": 3, "min_child_weight": 0}


@cache
def of_ranks(is_text: bool, n_values: int) -> tuple[fb.Model, list[float]]:
    """Return a model in which each value is its rank (or, of a string, a letter), and its scores in order."""
    ranks = ("abcdefgh" if is_text else range(9))[:n_values]
    twin = pl.DataFrame({"x": [*ranks, None] * 3, "y": LABELS[: n_values + 1] * 3})
    model = fb.fit(twin, "y", **ONE_TREE)
    assert model.trees["feature"].drop_nulls().len() >= min(n_values, 2)
    return model, sorted(model.predict(twin))


@pytest.mark.slow
@cases(
    ("type_name", "engine"),
    # The other two read the relation in one way.
    [(name, "duckdb") for name in LADDERS]
    + [(name, ("numba", "polars")[i % 2]) for i, name in enumerate([*LADDERS][::4])],
)
def test_every_type_of_column_is_split_by_the_order_of_its_values(con, type_name, engine):
    values = [*LADDERS[type_name], None]
    rows = [(i, v if v is None else str(v), y) for i, (v, y) in enumerate(zip(values, LABELS, strict=False))]
    written = pl.DataFrame(rows, {"i": pl.Int32, "x": pl.String, "y": pl.Float64}, orient="row")
    con.register("written", written)
    con.execute(f"CREATE OR REPLACE TABLE t AS SELECT i, CAST(x AS {type_name}) AS x, y FROM written, range(3)")
    relation = con.sql("SELECT x, y FROM t ORDER BY i")
    expected, scores = of_ranks(type_name.startswith(("VARCHAR", "ENUM")), len(values) - 1)
    model = fb.fit(relation, "y", engine=engine, **ONE_TREE)
    same = ["tree", "node", "feature", "missing", "left", "right", "gain", "cover", "value"]
    assert model.trees.select(same).equals(expected.trees.select(same))
    assert sorted(model.predict(relation)) == scores
    assert sorted(score for (score,) in con.execute(f"SELECT {model.sql()} FROM t").fetchall()) == scores


@pytest.mark.slow
@cases(("type_name", "engine"), [("DATE", "duckdb"), ("TIMESTAMP", "duckdb"), ("TIMESTAMPTZ", "duckdb"),
                                 ("DATE", "numba"), ("TIMESTAMP", "polars")])  # fmt: skip
def test_dates_without_end_lie_past_all_others(type_name, engine):
    con = duckdb.connect()
    con.execute(f"CREATE TABLE t AS SELECT CAST(x AS {type_name}) AS x, y FROM (VALUES ('-infinity', 1.0), "
                "('1970-01-01', 5.0), ('9999-12-31', 2.0), ('infinity', 9.0)) AS v(x, y), range(3)")  # fmt: skip
    options = {"n_estimators": 1, "max_depth": 3, "min_child_weight": 0, "learning_rate": 1, "reg_lambda": 0}
    model = fb.fit(con.table("t"), "y", engine=engine, **options)
    assert con.execute(f"SELECT DISTINCT y - ({model.sql()}) FROM t").fetchall() == [(0.0,)]
    assert model.predict(con.table("t")).to_list() == [y for (y,) in con.execute("SELECT y FROM t").fetchall()]


@pytest.mark.slow
@cases(
    ("expression", "type_name"),
    [
        ("TIME '12:00'", "TIME"), ("TIMETZ '12:00+01'", "TIME WITH TIME ZONE"), ("encode('a')", "BLOB"),
        ("'101'::BIT", "BIT"), ("[1, 2]", "INTEGER[]"), ("[1, 2]::INTEGER[2]", "INTEGER[2]"),
        ("{'a': 1}", "STRUCT(a INTEGER)"), ("MAP {'a': 1}", "MAP(VARCHAR, INTEGER)"),
        ("union_value(a := 1)", "UNION(a INTEGER)"), ("uuid()", "UUID"), ("'{}'::JSON", "JSON"),
        ("1::BIGNUM", "BIGNUM"),
    ],
)  # fmt: skip
def test_a_column_of_any_other_type_is_named_with_its_type(con, expression, type_name):
    relation = con.sql(f"SELECT amount, {expression} AS odd FROM flights")
    engines = ("duckdb", "numba", "polars") if type_name == "UUID" else ("duckdb",)
    for engine in engines:
        with pytest.raises(fb.DataError) as error:
            fb.fit(relation, "amount", engine=engine, **SHAPE)
        assert str(error.value).startswith(f"feature 'odd' has type {type_name}, which can't be split on; convert it ")
        with pytest.raises(fb.DataError) as error:
            fb.fit(relation, "odd", engine=engine, **SHAPE)
        assert str(error.value).startswith(f"target column 'odd' has type {type_name}; it must be numeric or Boolean, ")


@pytest.mark.slow
def test_labels_and_weights_may_be_any_kind_of_number():
    con, models = duckdb.connect(), []
    # The objective is not the default one of Booleans.
    options = {"objective": "reg:squarederror", "weight": "w", "n_estimators": 1}
    for type_name, engine in (
        ("DOUBLE", "duckdb"), ("TINYINT", "duckdb"), ("HUGEINT", "duckdb"), ("DECIMAL(20,3)", "duckdb"),
        ("FLOAT", "duckdb"), ("BOOLEAN", "duckdb"), ("UHUGEINT", "duckdb"), ("UHUGEINT", "numba"),
        ("BOOLEAN", "polars"), ("DECIMAL(20,3)", "polars"), ("HUGEINT", "polars"),
    ):  # fmt: skip
        y, w = f"CAST(i % 7 > 2 AS {type_name})", f"CAST(i % 3 <> 0 AS {type_name})"
        con.execute(f"CREATE OR REPLACE TABLE t AS SELECT i AS x, {y} AS y, {w} AS w FROM range(60) AS r(i)")
        models.append(fb.fit(con.table("t"), "y", engine=engine, **options))
        assert models[-1] == models[0], (type_name, engine)


# --- a process of its own ---------------------------------------------------------------------------------------------

_WITHOUT_PYARROW = """
import resource, sys
sys.modules["pyarrow"] = None
sys.modules["pandas"] = None
import duckdb, polars as pl, frameboost as fb
con = duckdb.connect()
con.execute("CREATE TABLE t AS SELECT i % 7 AS x, 'k' || i % 3 AS s, i % 7 + i % 3 AS y FROM range(100) AS r(i)")
model = fb.fit(con.table("t"), "y", n_estimators=2)
assert model == fb.fit(con.table("t"), "y", n_estimators=2, engine="numba")
assert model.predict(con.table("t")).len() == 100
frame = pl.DataFrame({"x": [1, 2] * 5, "s": ["a", None] * 5, "y": [1, 2] * 5})
assert fb.fit(frame, "y", n_estimators=2, engine="duckdb") == fb.fit(frame, "y", n_estimators=2)
model.register(con, "score")
print(len(con.execute("SELECT score(x, s) FROM t").fetchall()), model.features)
"""
# 800,000 rows of 9 doubles, 58 MB, in a database that may use 40 MB, then 60 MB and a disk.
_LARGE = """
con = duckdb.connect(sys.argv[1] + "/large.db")
con.execute("SET memory_limit = '40MB'; SET threads = 2; SET max_temp_directory_size = '0B'")
con.execute("SET enable_progress_bar = false")
columns = ", ".join(f"hash(i * 7 + {k}) % 1000 / 1000 AS x{k}" for k in range(8))
con.execute(f"CREATE TABLE t AS SELECT {columns}, hash(i) % 100 + i / 1e6 AS y FROM range(800000) AS r(i)")

def fit():
    return fb.fit(con.table("t"), "y", n_estimators=1, max_depth=3, max_bin=32)

try:
    fit()
except duckdb.OutOfMemoryException:
    print("does not fit")
print(con.execute("SELECT count(*) FROM duckdb_tables()").fetchone())
con.execute("SET max_temp_directory_size = '10GB'; SET memory_limit = '60MB'")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
model = fit()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 45_000)
con.execute("SET memory_limit = '4GB'")
print(model == fit())
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere ru_maxrss has another unit")
def test_training_needs_no_pyarrow_and_no_room_for_all_rows(tmp_path, pytestconfig):
    done = subprocess.run([sys.executable, "-c", _WITHOUT_PYARROW + _LARGE, tmp_path], cwd=pytestconfig.rootpath,
                          check=False, capture_output=True, text=True)  # fmt: skip
    assert done.stdout == "100 ['x', 's']\ndoes not fit\n(1,)\nTrue\nTrue\n", done.stderr


def test_a_fit_works_in_a_transaction_and_goes_with_it(con, frame):
    con.execute("BEGIN")
    con.execute("INSERT INTO flights SELECT * FROM flights")
    model = fb.fit(con.table("flights"), "amount", **SHAPE)
    assert model == fb.fit(pl.concat([frame, frame]), "amount", **SHAPE)
    con.execute("ROLLBACK")
    assert con.execute("SELECT count(*) FROM flights").fetchall() == [(300,)]


# --- nothing large leaves the database --------------------------------------------------------------------------------


@pytest.mark.parametrize(("by_kernel", "in_memory"), [(False, False), (True, True), (True, False)])
def test_rows_stay_in_the_database(monkeypatch, by_kernel, in_memory):
    """Codes, g and h may be held in memory where there is much room; values never leave the database."""
    monkeypatch.setattr(query_costs, "_MAX_THREADS", 1000 if by_kernel else 0)
    monkeypatch.setattr(duckdb_memory, "_SHARE", 1 / 4 if in_memory else 0)
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT i % 50 AS a, (i * 7 % 1000) / 10 AS b, 'k' || i % 5 AS c, i % 13 AS y "
                "FROM range(100000) AS r(i)")  # fmt: skip
    sizes = []

    def counted(fetch):
        def fetch_and_count(*arguments):
            result = fetch(*arguments)
            sizes.append(len(next(iter(result.values()))) if isinstance(result, dict) else len(result))
            return result

        return fetch_and_count

    lengths, dtypes = [], set()
    read = session.read_batches

    def read_and_count(*arguments):
        for batch in read(*arguments):
            lengths.append(len(batch[0]))
            dtypes.add(tuple(str(column.dtype) for column in batch))
            yield batch

    monkeypatch.setattr(session, "read_batches", read_and_count)
    for kind in (duckdb.DuckDBPyRelation, duckdb.DuckDBPyConnection):
        for name in ("fetchall", "fetchnumpy"):
            monkeypatch.setattr(kind, name, counted(getattr(kind, name)))
        for name in dir(kind):
            if name in ("df", "pl", "arrow", *([] if by_kernel else ["__arrow_c_stream__"])) or (
                name.startswith(("fetch", "to_")) and name not in ("fetchall", "fetchnumpy")
            ):
                monkeypatch.setattr(kind, name, None)
    fb.fit(con.table("t"), "y", n_estimators=2, max_depth=3, max_bin=16)
    # Of 100,000 rows a sample is read, and of one column the values near its cuts.
    drawn, near_cuts, *others = sorted(sizes, reverse=True)
    assert drawn == 2048 > near_cuts
    if by_kernel:  # what a kernel adds up comes in parts: the codes of three features; label and margin, then g and h
        in_parts = {("uint8", "uint8", "uint8"), ("float64", "float64")}
        # or the node, g, h and these codes
        assert dtypes == (in_parts if in_memory else {("uint32", "float64", "float64", "uint8", "uint8", "uint8")})
        assert max(lengths) <= 122_880
        assert max(others) <= 50  # the distinct values of a
    else:
        assert not lengths
        # At most 2 nodes are asked for at a time (their siblings are what is left): 3 features of at most 17 bins.
        assert 17 < max(others) <= 2 * 3 * 17


def test_a_query_of_one_term_looks_at_no_others(con, monkeypatch):
    # With a look at all K terms in each of K queries, metrics of K classes would take K² looks.
    looks = []
    uses = Expression.uses
    monkeypatch.setattr(Expression, "uses", lambda self, name: looks.append(name) or uses(self, name))
    counts = []
    for n in (10, 40):
        with closed_after(DuckDBSession(con.table("flights"))) as session:
            engine = DuckDBEngine(session, (), (), {"label": "amount"}, None)
            engine.add_columns({f"term_{i}": Expression(f"label * {i}", ("label",)) for i in range(n)})
            looks.clear()
            sums = engine.aggregate({"least": Aggregate("min", Expression("term_3 + 1", ("label", "term_3")))})
            counts.append(len(looks))
            assert sums["least"] == 3 * con.sql("SELECT min(amount::DOUBLE) FROM flights").fetchall()[0][0] + 1
    assert counts[0] == counts[1]
