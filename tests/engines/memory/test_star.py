"""The engine over stars: codes by key and by fact give the trees of the joined frame."""

from contextlib import closing
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import frameboost as fb
from frameboost.binning.bins import Bins
from frameboost.engines.memory import columns, engine, partition
from frameboost.engines.memory.star import keyed
from frameboost.engines.memory.star import tables as star_tables
from frameboost.engines.memory.star.columns import RecordedGradients, StarColumns
from frameboost.engines.memory.star.keyed import KeyedColumns
from frameboost.engines.memory.star.records import PackedGradients, Records, most_in_one
from frameboost.engines.memory.star.tables import CodedTable, SampledRows, StarTable, code_table
from frameboost.engines.memory.terms import Gradients, Scale
from frameboost.expressions.expression import Expression
from frameboost.expressions.grid import grid_step
from frameboost.runtime.storage import IN_MEMORY
from frameboost.runtime.workers import NO_TEAM, Workers
from frameboost.schema.types import Feature, FeatureType
from tests.support.cases import some_pairs
from tests.support.examples import examples
from tests.support.stars import random_star, without_joins

SEEDS = st.integers(0, 10**6)
SETTINGS = [
    {},
    {"max_bin": 2, "grow_policy": "lossguide", "max_leaves": 7},
    {"grow_policy": "symmetric", "max_bin": 200},
    {"subsample": 0.6, "colsample_bylevel": 0.7, "weight": "w", "min_child_samples": 9},
    {"monotone_constraints": {"x": 1}, "subsample": 0.5, "sampling_method": "gradient_based"},
    {"objective": "multi:softprob", "target": "c3", "min_child_samples": 9},
    {"objective": "reg:absoluteerror", "max_cat_to_onehot": 1},
    {"valid": 0.3, "early_stopping_rounds": 2, "min_delta": 1e-3},
    {"valid": "x > 0.5", "num_parallel_tree": 2, "weight": "w", "min_child_samples": 9},
    {"objective": "rank:pairwise", "target": "c3", "group": "c", "valid": 0.3},
    {"cuts": {"x": [0, 0.5]}},
]


KEYS = ["few keys", "sorted", "some"]


@pytest.fixture(params=KEYS)
def by_key(request, monkeypatch):
    """Codes are stored by key whatever the sizes are; facts are sorted by one of the keys, or none."""
    monkeypatch.setattr(columns, "CODES_PER_TREE", 0)
    monkeypatch.setattr(keyed, "CODES_OF_ANY_ROWS", 0)
    monkeypatch.setattr(columns, "ADDITIONS_PER_TASK", 200)
    monkeypatch.setattr(partition, "MOVED_ROWS_PER_TASK", 20)
    monkeypatch.setattr(engine, "MIN_SORTED", 1)
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
    bin_columns = engine.MemoryEngine.bin_columns

    def keep(self, bins):
        bin_columns(self, bins)
        if isinstance(self.columns, StarColumns):
            found.append((self.binned, self.binned.keyed and self.binned.keyed._keys[-1].copy()))

    monkeypatch.setattr(engine.MemoryEngine, "bin_columns", keep)
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
@pytest.mark.parametrize(("how", "by_key"), some_pairs(SETTINGS, KEYS), indirect=["by_key"])
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


# --- kernels ----------------------------------------------------------------------------------------------------------


class _Layout:
    def __init__(self, counts):
        feature = Feature("x", FeatureType("int64"))
        self.bins = [Bins(feature, tuple(range(count - 2))) for count in counts]
        self.offsets = np.cumsum([0, *counts])


@settings(deadline=None, max_examples=20)
@given(
    SEEDS, st.sampled_from([1, 2]), st.sampled_from([300, 20_000]), st.booleans(), st.sampled_from([1.0, 0.25, None]),
    st.booleans(), st.sampled_from([None, 1]),
)  # fmt: skip
def test_sums_are_those_of_the_codes_of_facts(seed, n_threads, n_rows, is_wide, same_h, is_sampled, in_order):
    rng = np.random.default_rng(seed)
    counts = [int(n) for n in rng.integers(3, 257, 6)]
    counts[1] = 400 if is_wide else counts[1]
    layout, kind = _Layout(counts), np.uint16 if is_wide else np.uint8
    tables = [
        CodedTable(
            features, np.array([rng.integers(0, counts[i], n) for i in features]).astype(kind),
            np.sort(rng.integers(0, n, n_rows)).astype(np.uint32),
        )
        for features, n in (([1, 2], 7), ([5, 0], 300))
    ]  # fmt: skip
    own = {i: rng.integers(0, counts[i], n_rows).astype(np.uint8) for i in (3, 4)}
    by_fact = own | {i: each.codes[k][each.keys] for each in tables for k, i in enumerate(each.features)}
    steps = np.array([grid_step(3.0, n_rows), grid_step(1.0, n_rows)])
    pairs = np.round(rng.uniform((-3, 0), (3, 1), (n_rows, 2)) / steps) * steps
    if same_h is not None:
        pairs[:, 1] = same_h
    pairs[rng.random(n_rows) < 0.3] *= not is_sampled
    order, bounds = rng.permutation(n_rows).astype(np.uint32), np.sort(rng.integers(0, n_rows, 2))
    parts = np.array([(0, 0, bounds[0]), (1, bounds[0], bounds[1]), (1, bounds[1], n_rows)])
    firsts, places = np.array([0, 2, 3]) if n_threads > 1 else np.array([0, 3]), np.array([2, 0])
    expected = np.full((3, layout.offsets[-1], 2), 9.0)
    for place, rows in ((2, order[: bounds[0]]), (0, order[bounds[0] :])):
        expected[place] = 0.0
        for i, codes in by_fact.items():
            np.add.at(expected[place], layout.offsets[i] + codes[rows].astype(int), pairs[rows])
    with closing(Workers(n_threads)) as workers:
        parted = [star_tables.part_keys(each, most_in_one(n_rows)) for each in tables]
        keyed = KeyedColumns(parted, layout, (), workers, in_order)
        keyed.forget_records([own[i] for i in keyed.fact_features])
        # Rows are counted if h is the same, or both are written, or neither, as h is another or no scale is known.
        scales = [Scale(*steps, 1.0 if same_h is None else same_h), Scale(*steps, 0.0), None]
        for k, scale in enumerate([*scales, *scales]):  # room for sums is as clean as before
            keyed.start_tree(pairs, scale)
            packed = keyed._packed
            may_count = k % 3 == 0 and not is_wide  # of wide codes pairs are not counted
            assert (packed.grid is not None) == (may_count and same_h is not None)
            assert (packed.steps is not None) == (k % 3 < 2 and not may_count)
            assert keyed.has_numbers == (packed.grid is not None or packed.steps is not None)
            out, more = np.full(expected.shape, 9.0), np.zeros((1, *expected.shape[1:]))
            keyed.add(workers.team(n_threads), order, parts, firsts, pairs, out, places, more, is_first=True)
            out[0] += more[0]  # node 1, which the second share continues
            np.testing.assert_array_equal(out, expected)


def test_pairs_are_not_packed_unless_h_is_the_same_and_g_on_the_grid():
    pairs = np.column_stack([np.arange(10_000) % 7 - 3.0, np.full(10_000, 0.5)])
    packed, scale = PackedGradients(10_000, may_count=True), Scale(grid_step(3.0, 10_000), grid_step(0.5, 10_000), 0.5)
    step, keys = scale.g, [np.arange(10_000, dtype=np.uint16)]
    records = Records([10_000], 1)
    records.forget([np.arange(10_000).astype(np.uint8)])

    def grid(row, column, value, scale=scale, packed=packed):
        changed = pairs.copy()
        changed[row, column] = value
        with closing(Workers(1)) as workers:
            records.write(keys, packed.bytes_of(scale), workers)
            packed.write(changed, scale, records, workers)
        return packed.grid

    bits = 12  # counts to 4,095: 4,095 rows of at most 2^(52 - 14) steps are less than 2^(63 - 12)
    assert grid(0, 1, 0.5) == (step, 0.5, bits, 64 - 8 * 6)  # 38 bits, a sign, one more for 2^38 itself, the count
    assert most_in_one(10_000) == 4095
    numbers = [int.from_bytes(row[:6].tobytes(), "little", signed=True) for row in records.bytes[:4]]
    assert numbers == [int(g / step) * 2 + 1 for g in (-3, -2, -1, 0)]
    assert grid(9_000, 0, 3 * step) is not None
    assert grid(9_000, 0, step / 2) is None
    assert grid(9_000, 0, 2.0**38 * step) is not None
    assert grid(9_000, 0, -(2.0**38) * step) is not None
    assert int.from_bytes(records.bytes[9_000, :6].tobytes(), "little", signed=True) == -(2**39) + 1
    assert grid(9_000, 0, 2.0**39 * step) is None
    assert grid(9_000, 1, 1.0) is None
    assert grid(9_000, 1, 0.0) is None
    assert grid(slice(9_000, 9_010), slice(None), 0.0) is not None
    assert grid(10, 1, 0.25) is None
    assert grid(slice(None), 1, 0.0) is None
    assert grid(0, 1, 0.5, scale=None) is None
    assert packed.steps is None
    assert records.bytes[300, 6:10].tolist() == [300 % 256, 1, 300 % 256, 0]  # as before

    def steps(row, column, value, packed=packed):
        assert grid(row, column, value, scale._replace(same_h=0.0), packed) is None
        return packed.steps

    assert steps(9_000, 1, 0.25) == (step, scale.h, 6)
    row = records.bytes[9_000].tobytes()
    assert int.from_bytes(row[:6], "little", signed=True) == int((9_000 % 7 - 3) / step)
    assert int.from_bytes(row[6:12], "little", signed=True) == int(0.25 / scale.h)
    assert [*row[12:15]] == [9_000 % 256, 9_000 // 256, 9_000 % 256]
    assert steps(9_000, 1, -(2.0**38) * scale.h) is not None
    assert steps(9_000, 1, 2.0**39 * scale.h) is None
    assert steps(9_000, 1, scale.h / 2) is None
    assert steps(9_000, 0, np.nan) is None
    wide = PackedGradients(10_000, may_count=False)
    assert grid(0, 1, 0.5, packed=wide) is None
    assert wide.steps == (step, scale.h, 6)


@pytest.mark.parametrize("wanted", [
    ("margin - label", "1.0"), ("margin - label", "0.3"), ("margin - label", "-0.5"),
    ("1 / (1 + EXP(-margin)) - label", "margin * margin"),
])  # fmt: skip
@pytest.mark.parametrize("n_rows", [1, 20_000])
def test_pairs_are_computed_in_records(wanted, n_rows):
    rng = np.random.default_rng(n_rows)
    columns = {"margin": rng.normal(size=n_rows), "label": rng.integers(0, 2, n_rows).astype(float)}
    frame = pl.DataFrame(columns)
    rows = SimpleNamespace(
        terms={}, n_rows=n_rows, array=columns.__getitem__,
        by_row=lambda values: frame.select(each.to_polars().alias(name) for name, each in values.items()),
    )  # fmt: skip
    table = CodedTable([0], rng.integers(0, 3, (1, 7)).astype(np.uint8), np.arange(n_rows, dtype=np.uint32) % 7)
    layout = _Layout([3])
    gradients = {name: Expression(each, ("margin", "label")) for name, each in zip(("g_0", "h_0"), wanted, strict=True)}
    order, parts, firsts = np.arange(n_rows, dtype=np.uint32), np.array([(0, 0, n_rows)]), np.array([0, 1])
    none, places = np.empty((0, 2)), np.array([0])
    with closing(Workers(2)) as workers:
        keyed = KeyedColumns([table], layout, (), workers)
        keyed.forget_records([])
        expected, found = Gradients(workers, {}), RecordedGradients(workers, {}, IN_MEMORY, stored=False)
        for round_ in range(5):  # of which the fourth has other grids, and then arrays are asked for
            columns["margin"] *= 64 if round_ == 3 else 1.25
            for each in (expected, found):
                each.compute(gradients, rows)
            assert found.are_recorded == (0 < round_ < 4)
            assert found.totals == expected.totals
            if not found.are_recorded:
                keyed.start_tree(found.of(0), found.scale(0))
                found.keep_order(keyed)
            assert keyed.has_numbers
            assert (found.columns() == []) == (0 < round_ < 4)
            out = np.zeros((1, layout.offsets[-1], 2))
            keyed.add(NO_TEAM, order, parts, firsts, none, out, places, out[:0], is_first=True)
            sums = np.zeros((3, 2))
            np.add.at(sums, table.codes[0][table.keys], expected.gh[0])
            np.testing.assert_array_equal(out[0, :3], sums)
            if round_ not in (1, 2):
                np.testing.assert_array_equal(found.of(0), expected.gh[0])


def test_pairs_that_are_no_whole_steps_are_computed_as_arrays(monkeypatch):
    monkeypatch.setattr("frameboost.engines.memory.star.records._magnitude_bits", lambda n_rows: 20)
    columns = {"margin": np.arange(300.0), "label": np.full(300, 0.5)}
    rows = SimpleNamespace(terms={}, n_rows=300, array=columns.__getitem__)
    table = CodedTable([0], np.zeros((1, 1), np.uint8), np.zeros(300, np.uint32))
    gradients = {name: Expression(each, ("margin",)) for name, each in (("g_0", "margin - 3"), ("h_0", "1.0"))}
    with closing(Workers(1)) as workers:
        keyed = KeyedColumns([table], _Layout([3]), (), workers)
        keyed.forget_records([])
        found = RecordedGradients(workers, {}, IN_MEMORY, stored=False)
        found.compute(gradients, rows)
        found.keep_order(keyed)
        found.compute(gradients, rows)
        assert not found.are_recorded
        assert found.of(0).tolist() == [[i - 3.0, 1.0] for i in range(300)]
        found = RecordedGradients(workers, {}, IN_MEMORY, stored=False)
        found.keep_order(keyed)
        found.compute(gradients, rows)
        found.expire()
        with pytest.raises(AssertionError):
            found.of(0)


def test_equal_rows_of_a_long_dimension_are_looked_for_in_a_part_first(monkeypatch):
    monkeypatch.setattr(star_tables, "_N_SAMPLED", 8)
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


def test_frequent_keys_are_parted():
    keys = np.array([0, 1, 0, 0, 0, 0], np.uint32)
    parted = star_tables.part_keys(CodedTable([3], np.array([[7, 8]], np.uint8), keys), 2)
    assert parted.keys.tolist() == [0, 1, 0, 2, 2, 3]
    assert parted.codes.tolist() == [[7, 8, 7, 7]]
    assert np.bincount(parted.keys).tolist() == parted.counts.tolist() == [2, 1, 2, 1]
    whole = CodedTable([3], np.array([[7, 8]], np.uint8), keys)
    assert star_tables.part_keys(whole, 5) is whole


@pytest.mark.parametrize(
    ("n_keys", "n_own", "n_number", "firsts", "first_code", "width"),
    [
        ([200, 10_000], 3, 4, [6, 4], 7, 12),  # 10 bytes of which the first key is read as the last four
        ([200, 10_000], 3, 0, [2, 0], 3, 6),
        ([200, 10_000, 1_000_000], 5, 4, [9, 4, 6], 10, 16),
        ([2, 2, 2, 2], 0, 0, [0, 1, 2, 3], 4, 7),
        ([1, 300], 0, 5, [7, 5], 7, 12),  # one key takes no byte
    ],
)
def test_records_have_a_number_then_keys_then_own_codes(n_keys, n_own, n_number, firsts, first_code, width):
    records = Records(n_keys, n_own)
    rng = np.random.default_rng(0)
    keys = [rng.integers(0, n, 5).astype(np.uint32) for n in n_keys]
    own = [rng.integers(0, 256, 5).astype(np.uint8) for _ in range(n_own)]
    records.forget(own)
    with closing(Workers(1)) as workers:
        records.write(keys, n_number, workers)
    assert (records.fields[:, 0].tolist(), records.first_code) == (firsts, first_code)
    assert records.bytes.shape == (5, width)
    flat = records.bytes.ravel().tobytes()
    for row in range(5):
        for k, of_rows in enumerate(keys):
            at = row * width + firsts[k]
            assert int.from_bytes(flat[at : at + 4], "little") & records.fields[k, 1] == of_rows[row]
        assert records.bytes[row, first_code : first_code + n_own].tolist() == [codes[row] for codes in own]


@settings(deadline=None, max_examples=examples(1), suppress_health_check=[HealthCheck.function_scoped_fixture])
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
