"""The engine over stars: codes by key and by fact give the trees of the joined frame."""

from contextlib import closing

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import frameboost as fb
from frameboost.binning.bins import Bins
from frameboost.engines.memory import columns, partition
from frameboost.engines.memory.star import engine as star
from frameboost.engines.memory.star import keyed
from frameboost.engines.memory.star import tables as star_tables
from frameboost.engines.memory.star.keyed import KeyedColumns, Records, chosen, take_sides, write_records
from frameboost.engines.memory.star.tables import (
    CodedTable,
    SampledRows,
    StarTable,
    code_table,
    count_rows,
    look_up,
    order_by_key,
    propose_attribute,
)
from frameboost.runtime.workers import Workers
from frameboost.schema.types import Feature, FeatureType
from tests.support.examples import examples
from tests.support.stars import random_star, without_joins

SEEDS = st.integers(0, 10**6)
SETTINGS = [
    {},
    {"max_bin": 2, "grow_policy": "lossguide", "max_leaves": 7},
    {"grow_policy": "symmetric", "max_bin": 200},
    {"subsample": 0.6, "colsample_bylevel": 0.7, "weight": "w"},
    {"monotone_constraints": {"x": 1}, "subsample": 0.5, "sampling_method": "gradient_based"},
    {"objective": "multi:softprob", "target": "c3"},
    {"objective": "reg:absoluteerror", "max_cat_to_onehot": 1},
    {"valid": 0.3, "early_stopping_rounds": 2},
    {"valid": "x > 0.5", "num_parallel_tree": 2, "weight": "w"},
    {"objective": "rank:pairwise", "target": "c3", "group": "c", "valid": 0.3},
    {"cuts": {"x": [0, 0.5]}},
]


@pytest.fixture(params=["few keys", "sorted", "some"])
def by_key(request, monkeypatch):
    """Codes are stored by key whatever the sizes are; facts are sorted by one of the keys, or none."""
    for module in (columns, keyed):
        monkeypatch.setattr(module, "CODES_PER_TREE", 0)
    monkeypatch.setattr(columns, "ADDITIONS_PER_TASK", 200)
    monkeypatch.setattr(partition, "MOVED_ROWS_PER_TASK", 20)
    monkeypatch.setattr(star, "MIN_SORTED", 1)
    monkeypatch.setattr(partition, "ROWS_PER_BLOCK", 50)
    monkeypatch.setattr(partition, "MIN_ROWS_OF_PART", 0)
    monkeypatch.setattr(keyed, "MIN_FACTS", 1)
    monkeypatch.setattr(keyed, "MIN_ATTRIBUTES", 1)
    monkeypatch.setattr(keyed, "MIN_PER_KEY", 6 if request.param == "some" else 0)
    monkeypatch.setattr(keyed, "MAX_IN_CACHE", 0 if request.param == "sorted" else 1 << 15)
    monkeypatch.setattr(keyed, "MIN_SCATTERED", 3)


@pytest.fixture
def opened(monkeypatch):
    """The columns of each engine over a star that is opened, and the last keys of the rows at first."""
    found = []
    bin_columns = star.StarEngine.bin_columns

    def keep(engine, bins):
        bin_columns(engine, bins)
        found.append((engine.binned, engine.binned.keyed and engine.binned.keyed._keys[-1].copy()))

    monkeypatch.setattr(star.StarEngine, "bin_columns", keep)
    return found


def _star(seed, n_rows=400):
    made = random_star(seed, n_rows)
    rng = np.random.default_rng(seed)
    facts = made.tables["facts"].with_columns(
        w=pl.Series(rng.integers(0, 4, n_rows)), c3=pl.Series(rng.integers(0, 3, n_rows))
    )
    return type(made)({**made.tables, "facts": facts}, made.joins)


def _fit(data, features, how, **more):
    how = {"target": "y", "n_estimators": 3, "max_depth": 4, "max_bin": 16, **how, **more}
    return fb.fit(data, features=[f for f in features if f not in (how["target"], "w", "c3", how.get("group"))], **how)


@settings(deadline=None, max_examples=examples(1), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(SEEDS, st.sampled_from([1, 2, 3]))
@pytest.mark.parametrize("how", SETTINGS, ids=lambda how: "-".join(map(str, how)) or "plain")
def test_trees_are_those_of_the_joined_frame(how, by_key, seed, n_jobs):
    made = _star(seed)
    features, joined = made.features(), made.of_frames().collect()
    found = _fit(made.of_frames(), features, how, n_jobs=n_jobs)
    expected = _fit(joined, features, how)
    assert without_joins(found) == expected.to_json()
    assert_frame_equal(found.history, expected.history)


@pytest.mark.parametrize("by_key", ["few keys"], indirect=True)
def test_codes_are_stored_by_key_then(by_key, opened):
    made = _star(3)
    _fit(made.of_frames(), made.features(), {"valid": 0.3})
    assert [columns.keyed is not None for columns, _ in opened] == [True, True]


def _large(n_keys, n_attributes, n_facts=150_000):
    """Facts of one small dimension, and of one with so many keys and attributes."""
    rng = np.random.default_rng(5)
    facts = pl.DataFrame(
        {"x": rng.normal(size=n_facts), "a": rng.integers(0, 80, n_facts), "b": rng.integers(0, n_keys + 9, n_facts)}
    )
    few = pl.DataFrame(
        {"a": np.arange(80), "u": rng.normal(size=80), "v": rng.integers(0, 300, 80).astype(str), "t": range(80)}
    )
    attributes = {f"b{i}": rng.normal(size=n_keys).round(2) for i in range(n_attributes)}
    many = pl.DataFrame({"b": rng.permutation(n_keys), **attributes})
    joined = facts.join(many, on="b", how="left", maintain_order="left")
    y = joined["b0"].fill_null(1.0) * joined["x"] + pl.Series(rng.normal(size=n_facts))
    return fb.join(facts.with_columns(y=y), few, on="a").join(many, on="b")


@pytest.mark.parametrize(
    ("n_keys", "n_attributes", "by_key", "is_sorted"),
    [(40_000, 4, [1, 2, 3, 4, 5, 6, 7], True), (2_000, 4, [1, 2, 3, 4, 5, 6, 7], False), (70_000, 4, [1, 2, 3], False),
     (2_000, 2, [1, 2, 3], False)],
)  # fmt: skip
def test_the_way_is_chosen_from_counts(n_keys, n_attributes, by_key, is_sorted, opened):
    star_ = _large(n_keys, n_attributes)
    how = {"n_estimators": 3, "max_depth": 5, "exclude": ["a", "b"]}
    found = fb.fit(star_, "y", **how)
    ((columns, keys),) = opened
    assert sorted(columns.keyed.features) == by_key
    assert bool((np.diff(keys.astype(int)) >= 0).all()) == is_sorted
    assert without_joins(found) == fb.fit(star_.collect(), "y", **how).to_json()


def test_cuts_come_from_a_sample_of_the_facts(monkeypatch):
    monkeypatch.setattr("frameboost.binning.bins.SAMPLE_LIMIT", 150)
    made = _star(12)
    found = _fit(made.of_frames(), made.features(), {"max_bin": 8})
    assert without_joins(found) == _fit(made.of_frames().collect(), made.features(), {"max_bin": 8}).to_json()


def test_values_count_as_often_as_facts_refer_to_them():
    # Joined: 7 three times, 1 twice, 3 once, missing twice; 9 never.
    of_fact = [0] * 3 + [1, 3, 2, 4, 5]
    values = {0: pl.Series([7.0, 1.0, 3.0, 1.0, None, None, 9.0, None])}
    table = StarTable(values, np.array([7 if row == 5 else row for row in of_fact], np.uint32), SampledRows(8))
    assert table.count_missing(0) == 2
    feature = Feature("x", FeatureType("float64"))
    assert propose_attribute(feature, 0, table, 256).cuts == (3.0, 7.0)
    # Of three bins one is for missing values; below 7 are 3 of 6 values, half of them. Rows would have the cut 3.
    assert propose_attribute(feature, 0, table, 3).cuts == (7.0,)


def test_rows_of_equal_codes_have_one_key():
    values = {0: pl.Series([1.0, 5.0, 1.0, 9.0, None]), 1: pl.Series([0, 3, 0, 3, None])}
    table = StarTable(values, np.array([0, 1, 2, 4, 2, 1], np.uint32), SampledRows(6))  # none has row 3
    kind = FeatureType
    bins = [
        Bins(Feature("x", kind("float64")), (4.0,)),
        Bins(Feature("i", kind("int64")), (2,)),
    ]
    with closing(Workers(2)) as workers:
        coded, apart = (code_table(table, bins, most, workers) for most in (100, 3))  # of nine combinations
    assert coded.codes.tolist() == [[0, 1, 2], [0, 1, 2]]
    assert (coded.keys.tolist(), coded.counts.tolist()) == ([0, 1, 0, 2, 0, 1], [3, 2, 1])
    assert apart.codes.tolist() == [[0, 1, 0, 1, 2], [0, 1, 0, 1, 2]]
    assert (apart.keys.tolist(), apart.counts.tolist()) == ([0, 1, 2, 4, 2, 1], [1, 2, 2, 0, 1])


def test_distinct_rows_have_keys_in_their_order():
    values = {0: pl.Series([9.0, 5.0, 1.0, None])}
    table = StarTable(values, np.array([2, 2, 0, 3], np.uint32), SampledRows(4))  # none has row 1
    with closing(Workers(1)) as workers:
        coded = code_table(table, [Bins(Feature("x", FeatureType("float64")), (4.0, 6.0))], 100, workers)
    assert coded.codes.tolist() == [[2, 0, 3]]
    assert (coded.keys.tolist(), coded.counts.tolist()) == ([1, 1, 0, 2], [1, 2, 1])


# --- kernels ----------------------------------------------------------------------------------------------------------


class _Layout:
    def __init__(self, counts):
        feature = Feature("x", FeatureType("int64"))
        self.bins = [Bins(feature, tuple(range(count - 2))) for count in counts]
        self.offsets = np.cumsum([0, *counts])


@settings(deadline=None, max_examples=examples(6))
@given(SEEDS, st.integers(1, 3), st.sampled_from([300, 5_000]), st.booleans(), st.sampled_from([None, 1]))
def test_add_by_key(seed, n_threads, n_rows, is_wide, in_order):
    rng = np.random.default_rng(seed)
    counts = [int(n) for n in rng.integers(3, 257, 6)]
    counts[1] = 400 if is_wide else counts[1]
    layout = _Layout(counts)
    tables = []
    for features, n_keys in (([1, 2], 7), ([5, 0], 300)):
        codes = np.array([rng.integers(0, counts[i], n_keys) for i in features])
        keys = rng.integers(0, n_keys, n_rows)
        tables.append(
            CodedTable(features, codes.astype(np.uint16 if is_wide else np.uint8), np.sort(keys).astype("u4"))
        )
    by_fact = {i: t.codes[k][t.keys] for t in tables for k, i in enumerate(t.features)}
    by_fact |= {i: rng.integers(0, counts[i], n_rows).astype(np.uint8) for i in (3, 4)}
    pairs = rng.integers(-8, 8, (n_rows, 2)) / 4
    order = rng.permutation(n_rows).astype(np.uint32)
    bounds = np.sort(rng.integers(0, n_rows, 2))
    parts = np.array([(0, 0, bounds[0]), (1, bounds[0], bounds[1]), (1, bounds[1], n_rows)])
    firsts = np.array([0, 2, 3]) if n_threads > 1 else np.array([0, 3])
    places, out, more = np.array([2, 0]), np.full((3, layout.offsets[-1], 2), 9.0), np.zeros((1, layout.offsets[-1], 2))
    with closing(Workers(n_threads)) as workers:
        keyed = KeyedColumns(tables, layout, (), workers, in_order)
        keyed.write_records([by_fact[i] for i in keyed.own])
        for _ in range(2):  # room for sums is as clean as before
            more[:] = 0.0
            keyed.add(workers.team(n_threads), order, parts, firsts, pairs, out, places, more, is_first=True)
    out[0] += more[0]  # node 1, which the second share continues
    for node, (first, last) in enumerate([(0, bounds[0]), (bounds[0], n_rows)]):
        expected, rows = np.zeros(out.shape[1:]), order[first:last]
        for i, codes in by_fact.items():
            np.add.at(expected, layout.offsets[i] + codes[rows].astype(int), pairs[rows])
        np.testing.assert_array_equal(out[places[node]], expected)
    assert out[1].min() == 9.0


def test_equal_rows_of_a_long_dimension_are_looked_for_in_a_part_first(monkeypatch):
    monkeypatch.setattr(star_tables, "_LOOKED_AT", 8)
    codes = np.array([np.arange(200) // 20, np.arange(200) % 20], np.uint8)
    assert star_tables._distinct(codes) is None
    in_pairs = codes[:, np.arange(200) // 2]
    firsts, numbers = star_tables._distinct(in_pairs)
    assert firsts.tolist() == [*range(0, 200, 2)]
    assert numbers.tolist() == [i // 2 for i in range(200)]
    twice = codes[:, np.arange(200) % 100]
    firsts, numbers = star_tables._distinct(twice)
    assert firsts.tolist() == [*range(100)]
    assert numbers.tolist() == [*range(100), *range(100)]
    once = codes.copy()
    once[:, 199] = once[:, 190]  # neither is looked at: they stay apart, which costs little
    assert star_tables._distinct(once) is None


@pytest.mark.parametrize(("n_referred", "n_keys"), [(96, 100), (94, 94)])
def test_rows_that_no_fact_refers_to_are_left_out_if_they_are_many(n_referred, n_keys):
    values = pl.Series(np.arange(100.0))
    rows = np.arange(3 * n_referred, dtype=np.uint32) % n_referred
    table = StarTable({0: values}, rows, SampledRows(len(rows)))
    bins = Bins(Feature("x", FeatureType("float64")), tuple(np.arange(1.0, 100.0).tolist()))
    with closing(Workers(1)) as workers:
        coded = code_table(table, [bins], 1000, workers)
    assert coded.keys.tolist() == rows.tolist()
    assert coded.n_keys == n_keys
    assert coded.counts.tolist() == [3] * n_referred + [0] * (n_keys - n_referred)
    assert coded.codes.tolist() == [[*range(n_keys)]]


@pytest.mark.parametrize(
    ("n_keys", "n_own", "firsts", "first_code", "width"),
    [
        ([200, 10_000], 3, [2, 0], 3, 6),
        ([200, 10_000, 1_000_000], 5, [5, 0, 2], 6, 11),
        ([2, 2, 2, 2], 0, [0, 1, 2, 3], 4, 7),  # of which the last key is read as the last four bytes
        ([1, 300], 0, [2, 0], 2, 6),  # one key takes no byte
    ],
)
def test_records_have_keys_then_own_codes(n_keys, n_own, firsts, first_code, width):
    records = Records(n_keys, n_own)
    rng = np.random.default_rng(0)
    keys = [rng.integers(0, n, 5).astype(np.uint32) for n in n_keys]
    own = [rng.integers(0, 256, 5).astype(np.uint8) for _ in range(n_own)]
    with closing(Workers(1)) as workers:
        records.write(keys, own, workers)
    assert (records.fields[:, 0].tolist(), records.first_code) == (firsts, first_code)
    assert records.bytes.shape == (5, width)
    flat = records.bytes.ravel().tobytes()
    for row in range(5):
        for k, of_rows in enumerate(keys):
            at = row * width + firsts[k]
            assert int.from_bytes(flat[at : at + 4], "little") & records.fields[k, 1] == of_rows[row]
        assert records.bytes[row, first_code : first_code + n_own].tolist() == [codes[row] for codes in own]


def test_sides_of_keys():
    tables = [CodedTable([1, 2], np.array([[0, 1, 1], [2, 0, 2]], np.uint8), np.array([2, 0, 1, 2], np.uint32))]
    with closing(Workers(1)) as workers:
        keyed = KeyedColumns(tables, _Layout([3, 3, 3]), (), workers)
    splits, goes_left = np.array([0, 1, 2]), np.array([True, False, False, True, False, False, False, True, True])
    sides, starts = keyed.sides_of_keys(splits, goes_left, np.array([0, 3, 6, 9]))
    assert starts.tolist() == [0, 3, 6, 9]
    assert sides.tolist() == [True, False, False, True, False, False, True, False, True]
    for sides_of_codes in (
        [True, False, True],
        [False, True, False],
        [False, True, True],
        [False, False, False],
        [True] * 3,
    ):
        sides, _ = keyed.sides_of_keys(np.array([2]), np.array(sides_of_codes), np.array([0, 3]))
        assert sides.tolist() == [sides_of_codes[code] for code in (2, 0, 2)]
    ((keys, places),) = keyed.columns(splits)
    assert (keys.tolist(), places.tolist()) == ([[2, 0, 1, 2]], [-1, 0, 0])


@given(SEEDS)
@settings(deadline=None, max_examples=20)
def test_rows_of_keys(seed):
    rng = np.random.default_rng(seed)
    keys, out = rng.integers(0, 9, 40).astype(np.uint32), np.empty(40, np.uint32)
    table = rng.permutation(6).astype(np.uint32)
    values = rng.integers(-3, 12, 40)
    look_up(values, np.int64(2), table, np.uint32(6), out)
    assert out.tolist() == [int(table[v - 2]) if 2 <= v < 8 else 6 for v in values]
    counts, some = np.zeros((2, 9), np.int64)
    count_rows(keys, None, counts)
    count_rows(keys, np.arange(3, 40, 5), some)
    assert counts.tolist() == [keys.tolist().count(key) for key in range(9)]
    assert some.tolist() == [keys[3::5].tolist().count(key) for key in range(9)]
    starts = np.cumsum(counts) - counts
    order_by_key(keys, 0, 4, starts, out)
    order_by_key(keys, 4, 9, starts, out)
    assert out.tolist() == sorted(range(40), key=keys.__getitem__)
    sides, records = np.empty(40, np.bool_), np.full((40, 5), 7, np.uint8)
    take_sides(keys, np.arange(9) % 2 == 0, sides)
    assert sides.tolist() == [key % 2 == 0 for key in keys]
    large = keys * np.uint32(7_654_321)
    write_records(large, 1, 3, records, 0, 30)
    assert [int.from_bytes(row[1:4].tobytes(), "little") for row in records[:30]] == [
        k % 2**24 for k in large[:30].tolist()
    ]
    assert (records[:, [0, 4]] == 7).all()
    assert (records[30:] == 7).all()


def test_dimensions_of_large_keys_are_sorted_by_or_by_fact():
    def table(n_keys, n_features=5, n_facts=1 << 20):
        return CodedTable(range(n_features), np.empty((n_features, n_keys), np.uint8), np.zeros(n_facts, np.uint32))

    few, many, more, most = table(200), table(1 << 16), table(1 << 17), table(1 << 19)
    assert chosen([few, many, more, most], 1 << 30, may_sort=True) == ([few, many, more], more)
    assert chosen([few, many, more], 1 << 30, may_sort=False) == ([few, many], None)
    assert chosen([few], 1 << 19, may_sort=True) == ([], None)
    assert chosen([table(200, 2), table(200, n_facts=1000)], 1 << 30, may_sort=True) == ([], None)


@settings(deadline=None, max_examples=examples(2), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(SEEDS)
def test_attributes_and_keys_of_all_types(by_key, seed):
    rng = np.random.default_rng(seed)
    numbers = rng.integers(-4, 30, 50)
    day = pl.Series(numbers).cast(pl.Int32).cast(pl.Date)
    types = {
        "nan": pl.Series([float("nan") if v == 3 else float(v % 5) * -0.0 if v < 0 else v / 2 for v in numbers]),
        "wide": pl.Series([int(v) * 10**20 for v in numbers], dtype=pl.Int128),
        "decimal": pl.Series(numbers / 4).cast(pl.Decimal(30, 2)),
        "flag": pl.Series(numbers % 2 == 0),
        "day": day,
        "at": day.cast(pl.Datetime("us", "UTC")),
        "kind": pl.Series([f"k{v % 4}" for v in numbers]).cast(pl.Enum(["k3", "k2", "k1", "k0"])),
        "name": pl.Series([f"k{v % 6}" for v in numbers]).cast(pl.Categorical),
        "small": pl.Series(numbers).cast(pl.Int8),
        "narrow": pl.Series(numbers / 8).cast(pl.Float32),
    }
    places = rng.permutation(50)
    keys = {
        "day": pl.Series(places).cast(pl.Int32).cast(pl.Date),
        "ratio": pl.Series(places / 8),
        "text": pl.Series([f"{v}" for v in places]),
        "far": pl.Series(places * 10**14),
    }
    facts = pl.DataFrame({"x": rng.normal(size=300), "y": rng.normal(size=300)})
    referred = {name: values.extend_constant(None, 1)[rng.integers(0, 51, 300)] for name, values in keys.items()}
    data = facts.with_columns(**referred)
    for name, values in keys.items():
        masked = {
            each: pl.select(pl.when(pl.Series(rng.random(50) < 0.9)).then(v)).to_series() for each, v in types.items()
        }
        table = pl.DataFrame({name: values, **{f"{name}.{each}": column for each, column in masked.items()}})
        data = fb.join(data, table.head(45), on=name)
    how = {"target": "y", "exclude": list(keys), "n_estimators": 3, "max_bin": 8}
    assert without_joins(data.pipe(fb.fit, **how)) == fb.fit(data.collect(), **how).to_json()
