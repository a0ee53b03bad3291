"""Symmetric trees as tables: trees over the same features are one lookup, of the same bits."""

import random

import duckdb
import pytest

from frameboost.compile.sql import sql_model
from frameboost.schema.types import Feature, FeatureType
from frameboost.trees.tree import Tree, on_leaf_grid
from tests.support.cases import cases
from tests.support.models import grown, made, model_of_parts
from tests.support.random_models import bits, naive_margins, odd_values, random_case, to_duckdb

INTEGERS = [Feature(name, FeatureType("int64")) for name in "xyz"]


def of_levels(levels: list[tuple], leaves: list[float]) -> Tree:
    """Return the symmetric tree of levels, each a feature, a threshold and a missing direction."""

    def below(depth: int, first: int):
        if depth == len(levels):
            return float(leaves[first])
        half = 1 << (len(levels) - 1 - depth)
        return (*levels[depth], below(depth + 1, first), below(depth + 1, first + half))

    return grown(below(0, 0))


# y < 5, x < 1, x < 3: rows of x < 1 and x >= 3 do not exist.
FIRST = of_levels([(1, 5, "right"), (0, 1, "right"), (0, 3, "right")], [1, 9, 2, 3, 4, 9, 5, 6])
# x < 3, x < 2, y < 5, with the leaves 10, 20, none, 30 for the intervals of x where y < 5, and 40, 50, none, 60.
SECOND = of_levels([(0, 3, "right"), (0, 2, "right"), (1, 5, "right")], [10, 40, 20, 50, 9, 9, 30, 60])


@cases(("trees", "written"), [
    # x has three intervals, y two.
    ([FIRST], "(0.0::float8 + (ARRAY[1.0::float8,2.0::float8,3.0::float8,4.0::float8,5.0::float8,6.0::float8])"
              '[CASE WHEN "y" < 5 THEN 1 ELSE 4 END + CASE WHEN "x" < 1 THEN 0 WHEN "x" < 3 THEN 1 ELSE 2 END])'),
    # x has four: up to 1, 2, 3 and above. With y < 5 first come 1 + 10, 2 + 10, 2 + 20, 3 + 30.
    ([FIRST, SECOND],
     "(0.0::float8 + (ARRAY[11.0::float8,12.0::float8,22.0::float8,33.0::float8,44.0::float8,45.0::float8,"
     '55.0::float8,66.0::float8])[CASE WHEN "y" < 5 THEN 1 ELSE 5 END + '
     'CASE WHEN "x" < 1 THEN 0 WHEN "x" < 2 THEN 1 WHEN "x" < 3 THEN 2 ELSE 3 END])'),
    # One feature has no list; missing values go left, so the largest threshold is first.
    ([of_levels([(2, at, "left") for at in (1, 3, 2)], [1, 8, 8, 8, 2, 3, 8, 4])],
     '(0.0::float8 + CASE WHEN "z" >= 3 THEN 4.0::float8 WHEN "z" >= 2 THEN 3.0::float8 '
     'WHEN "z" >= 1 THEN 2.0::float8 ELSE 1.0::float8 END)'),
])  # fmt: skip
def test_cells_are_sums_of_leaves(trees, written):
    text = " ".join(made(INTEGERS, trees, (0.0,)).sql(dialect="postgres").split())
    assert text.replace("( ", "(").replace(" )", ")") == written.replace("( ", "(")


def test_other_missing_directions_and_too_many_cells_are_other_tables():
    def lookups(trees: list[Tree]) -> int:
        return made(INTEGERS, trees).sql(dialect="postgres").count("ARRAY")

    leaves = list(range(8))
    mirrored = of_levels([(1, 5, "left"), (0, 1, "right"), (0, 3, "right")], leaves)
    assert lookups([FIRST, SECOND]) == 1
    assert lookups([FIRST, mirrored]) == 2
    # Three features with one more threshold each: 27 cells, and 16 leaves. One more threshold in all: 12.
    first, more, fewer = (of_levels([(f, at, "right") for f, at in enumerate(each)], leaves)
                          for each in ([1, 1, 1], [2, 2, 2], [1, 1, 2]))  # fmt: skip
    assert lookups([first, more]) == 2
    assert lookups([first, fewer]) == 1
    assert lookups([first, more, fewer]) == 2


@pytest.fixture(scope="module")
def con():
    return duckdb.connect()


@pytest.mark.slow
@cases("seed", range(5))
def test_margins_have_the_same_bits(con, seed):
    rng = random.Random(seed)
    kinds = rng.choices(["float64", "float32", "int64", "boolean", "date", "string"], k=2)
    drawn, values, frame = random_case(kinds, rng, 80, n_trees=1)
    features = drawn.ensemble.features
    sets = [tuple(sorted(rng.sample(range(len(f.categories)), 2))) if f.categories else () for f in features]

    def level():
        number = rng.randrange(2)
        asked = set(sets[number]) if sets[number] else rng.choice(odd_values(features[number].type))
        return number, asked, rng.choice(["left", "right", "right"])

    trees = [
        of_levels([level() for _ in range(depth)], [rng.uniform(-9, 9) for _ in range(1 << depth)])
        for depth in rng.choices([3, 4, 5], k=12)
    ]
    base, trees = on_leaf_grid([rng.uniform(-3, 3)], trees)
    model = model_of_parts(drawn.ensemble.loss, {}, features, base, trees)
    to_duckdb(con, frame, "t")
    expected = bits(naive_margins(model, values))
    for form in ("case", "staged", "sorted"):
        for least in (2_000, 0):
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(sql_model, "_MIN_UNREAD", least)  # of 0 leaf values are numbers of steps
                query = model.query("t", keep=["position"], output="margin", form=form)
            assert bits([row[1] for row in sorted(con.execute(query).fetchall())]) == expected, form
