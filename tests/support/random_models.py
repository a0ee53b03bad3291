"""Random models over columns of any type, edge-case values for them, and a scorer independent of the package's."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import polars as pl

import frameboost as fb
from frameboost.expressions.duckdb_sql import quote_identifier
from frameboost.losses.built_in import get_loss
from frameboost.schema.types import TYPE_NAMES, ZERO, Feature, FeatureType
from frameboost.trees.linear_leaves import LinearLeaf, LinearTerm, may_have_slope
from frameboost.trees.tree import Tree, on_leaf_grid
from tests.support.models import model_of_parts

__all__ = [
    "NAMES", "TYPES", "bits", "chain_model", "frame_of", "lopsided_model", "naive_leaves", "naive_margins",
    "odd_values", "random_case", "random_categories", "random_model", "random_values", "to_duckdb", "to_polars",
]  # fmt: skip

NAMES = ["select", 'a"b', "it's", "naïve ☃", "new\nline", "{x}", "'; DROP TABLE t; --", "$1", "?", ":n", "%s",
         "back\\slash", " space ", "", "rowid", "CASE", "x.y", "--", "/* */", "\t"]  # fmt: skip
_CATEGORIES = [*NAMES, "NULL", "nan", "日本", "a", "A", "ﬁ"]

TYPES = [*(name for name in TYPE_NAMES if name != "codes"), "decimal(4,2)", "decimal(18,0)", "decimal(38,10)"]

_WIDE = {pl.Int128: "HUGEINT", pl.UInt128: "UHUGEINT"}
_FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, math.inf, -math.inf, 2.0**24, 2.0**24 + 2]
_FLOAT64 = [*_FLOATS, 5e-324, -5e-324, 2.2250738585072014e-308, 0.1, 0.1 + 2**-56, 1.7976931348623157e308, 2.0**53]
_FLOAT32 = [*_FLOATS, 2.0**-149, -(2.0**-149), 2.0**-126, float(np.float32(0.1)), float(np.finfo(np.float32).max)]
# Python's calendar ends at 9999-12-31, day 2,932,896; DuckDB's and polars' don't.
_DAYS = [0, -1, 1, 15_000, -719_162, -719_163, 2_932_896, 2_932_897, -2_000_000, 5_000_000]


def odd_values(kind: FeatureType) -> list:
    """Return the edge cases of a type as physical values, without missing ones."""
    if kind.is_categorical:
        return _CATEGORIES
    if kind.is_float:
        return _FLOAT32 if kind.name == "float32" else _FLOAT64
    if kind.family == "date":
        return _DAYS
    if kind.unit:
        second = {"ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]
        if kind.name == "duration[ns]":  # DuckDB's INTERVAL holds microseconds only
            return [v * 1000 for v in (0, 1, -1, 10**6, -(10**6) - 1, 10**15)]
        days = [day for day in _DAYS if abs(day) * 86_400 * second < 2**62]
        return [0, 1, -1, second, -second - 1, *(day * 86_400 * second + offset for day in days for offset in (0, 1))]
    low, high = kind.bounds
    values = [low, low + 1, -1, 0, 1, 2, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, 2**63, high - 1, high]
    return sorted({v for v in values if low <= v <= high})


def random_values(kind: FeatureType, n: int, rng: random.Random) -> list:
    """Draw physical values, None for NULL."""
    odd = [None, math.nan, -math.nan] if kind.is_float else [None]  # 0/0 has a sign on x86
    return [rng.choice(odd) if rng.random() < 0.2 else rng.choice(odd_values(kind)) for _ in range(n)]


def random_categories(kind: FeatureType, rng: random.Random) -> tuple[str, ...]:
    """Draw eight categories of a feature, or none if its type is not categorical."""
    return tuple(sorted(rng.sample(_CATEGORIES, 8))) if kind.is_categorical else ()


def random_model(kinds: list[FeatureType], names: list[str], rng: random.Random, n_trees: int, depth: int,
                 objective: str = "reg:squarederror", *, linear: bool = False) -> fb.Model:  # fmt: skip
    features = [Feature(name, kind, random_categories(kind, rng)) for name, kind in zip(names, kinds, strict=True)]
    trees = [_random_tree(features, rng, depth) for _ in range(n_trees)]
    if linear:
        trees = [_with_slopes(tree, features, rng) for tree in trees]
    base, trees = on_leaf_grid([rng.uniform(-3, 3)], trees)
    return model_of_parts(get_loss(objective, {"scale_pos_weight": 1.0}), {}, features, base, trees)


def _random_tree(features: list[Feature], rng: random.Random, depth: int) -> Tree:
    nodes: list[dict] = []

    def grow(level: int) -> int:
        i = len(nodes)
        nodes.append(_leaf(rng))
        if level < depth and rng.random() < 0.85:
            _split(nodes[i], features, rng)
            nodes[i]["left"], nodes[i]["right"] = grow(level + 1), grow(level + 1)
        return i

    grow(0)
    return Tree(**{name: tuple(node[name] for node in nodes) for name in nodes[0]})


def _with_slopes(tree: Tree, features: list[Feature], rng: random.Random) -> Tree:
    usable = [number for number, feature in enumerate(features) if may_have_slope(feature)]

    def term(number: int) -> LinearTerm:
        step = 2.0 ** rng.choice([-30, -3, 0, 1, 40])
        low, high = sorted(rng.sample([-(2**21), -1000, -3, 0, 2, 77, 2**21], 2))
        return LinearTerm(number, rng.uniform(-1, 1) / step, step, rng.choice([0, 1, -5, 2**45]) * step,
                          low * step, high * step)  # fmt: skip

    def leaf() -> LinearLeaf | None:
        asked = rng.sample(usable, rng.randint(0, min(3, len(usable))))
        return LinearLeaf(rng.uniform(-1, 1), tuple(map(term, asked))) if asked else None

    linear = tuple(leaf() if tree.is_leaf(node) else None for node in range(len(tree)))
    return replace(tree, linear=linear if any(linear) else ())


def _leaf(rng: random.Random) -> dict:
    return {"feature": -1, "threshold": None, "categories": None, "missing_left": False, "left": -1, "right": -1,
            "gain": 0.0, "cover": 1.0, "value": rng.uniform(-1, 1), "with_missing": False}  # fmt: skip


def _split(leaf: dict, features: list[Feature], rng: random.Random) -> None:
    leaf["feature"] = rng.randrange(len(features))
    feature = features[leaf["feature"]]
    leaf["missing_left"] = rng.random() < 0.5
    if feature.type.is_categorical:
        count = rng.randint(1, len(feature.categories))
        leaf["categories"] = tuple(sorted(rng.sample(range(len(feature.categories)), count)))
    elif rng.random() < 0.1:
        leaf["missing_left"] = False  # a split on presence: present values go left
    else:
        leaf["threshold"] = rng.choice(odd_values(feature.type))
        if feature.type.is_float:
            leaf["threshold"] += 0.0


def lopsided_model(features: list[Feature], rng: random.Random, n_trees: int, n_splits: int) -> fb.Model:
    """Return a model of deep, unbalanced trees: four in five splits split a child of the split before.

    Named categories may go with missing values, as in models imported from XGBoost.
    """
    base, trees = on_leaf_grid([0.5], [_lopsided_tree(features, rng, n_splits) for _ in range(n_trees)])
    return model_of_parts(get_loss("reg:squarederror", {"scale_pos_weight": 1.0}), {}, features, base, trees)


def _lopsided_tree(features: list[Feature], rng: random.Random, n_splits: int) -> Tree:
    nodes, leaves = [_leaf(rng)], [0]
    for _ in range(n_splits):
        at = leaves.pop(-1 if rng.random() < 0.8 else rng.randrange(len(leaves)))
        _split(nodes[at], features, rng)
        nodes[at]["with_missing"] = nodes[at]["categories"] is not None and rng.random() < 0.5
        nodes[at]["left"], nodes[at]["right"] = len(nodes), len(nodes) + 1
        leaves += rng.sample([len(nodes), len(nodes) + 1], 2)
        nodes += [_leaf(rng), _leaf(rng)]
    return Tree(**{name: tuple(node[name] for node in nodes) for name in nodes[0]})


def chain_model(n_splits: int, side: str) -> fb.Model:
    """Return a model of one tree over a float64 ``x``: a chain of splits, which continues on ``side``."""
    nodes = []
    for i in range(n_splits):
        leaf, next_split = 2 * i + 1, 2 * i + 2
        split = {
            "feature": 0, "threshold": float(i if side == "right" else n_splits - i), "missing_left": i % 7 == 3,
            "left": leaf if side == "right" else next_split, "right": next_split if side == "right" else leaf,
            "gain": 1.0, "cover": 1.0, "value": 0.0, "categories": None,
        }  # fmt: skip
        nodes += [split, _constant_leaf(float(i % 97))]
    nodes.append(_constant_leaf(-5.0))
    tree = Tree(**{name: tuple(node[name] for node in nodes) for name in nodes[0]})
    base, trees = on_leaf_grid([0.5], [tree])
    features = [Feature("x", FeatureType("float64"), ())]
    return model_of_parts(get_loss("reg:squarederror", {"scale_pos_weight": 1.0}), {}, features, base, trees)


def _constant_leaf(value: float) -> dict:
    return {"feature": -1, "threshold": None, "categories": None, "missing_left": False, "left": -1, "right": -1,
            "gain": 0.0, "cover": 1.0, "value": value}  # fmt: skip


def random_case(
    type_names: Sequence[str], rng: random.Random, n_rows: int = 60, n_trees: int = 4, depth: int = 4, **more: Any
) -> tuple[fb.Model, dict[str, list], pl.DataFrame]:
    """Return a model over columns x0, x1, ... of these types, values of theirs by name, and the same as a frame."""
    kinds = [FeatureType(name) for name in type_names]
    model = random_model(kinds, [f"x{i}" for i in range(len(kinds))], rng, n_trees, depth, **more)
    columns = {f.name: random_values(f.type, n_rows, rng) for f in model.ensemble.features}
    return model, columns, frame_of(model, columns)


# --- the same values as columns ---------------------------------------------------------------------------------------


def to_polars(kind: FeatureType, values: list, name: str = "") -> pl.Series:
    if kind.precision_and_scale:
        with localcontext(prec=40):
            numbers = [None if v is None else Decimal(v).scaleb(-kind.precision_and_scale[1]) for v in values]
        return pl.Series(name, numbers, dtype=kind.to_polars())
    if kind.family in ("date", "timestamp", "timestamptz", "duration"):
        return pl.Series(name, values, dtype=pl.Int64).cast(kind.to_polars())
    if kind.family == "boolean":
        return pl.Series(name, [None if v is None else bool(v) for v in values], dtype=pl.Boolean)
    return pl.Series(name, values, dtype=kind.to_polars())


def frame_of(model: fb.Model, columns: dict[str, list]) -> pl.DataFrame:
    """Return physical values of the model's features as a frame."""
    return pl.DataFrame([to_polars(f.type, columns[f.name], f.name) for f in model.ensemble.features])


def to_duckdb(con: duckdb.DuckDBPyConnection, frame: pl.DataFrame, table: str) -> None:
    """Make a table of the frame, in order, with DuckDB's own types."""
    wide = {name: _WIDE[dtype] for name, dtype in frame.schema.items() if dtype in _WIDE}
    con.register("arrived", frame.with_columns(frame[name].cast(pl.String) for name in wide).with_row_index("position"))
    quoted = {'"' + name.replace('"', '""') + '"': type_ for name, type_ in wide.items()}
    replace = f"REPLACE ({', '.join(f'CAST({q} AS {t}) AS {q}' for q, t in quoted.items())})" if wide else ""
    con.execute(f"CREATE OR REPLACE TABLE {quote_identifier(table)} AS SELECT * {replace} FROM arrived")
    con.unregister("arrived")


def bits(values: Any) -> list[Any]:
    """Return float64 as integers, which are equal only where all bits are."""
    return np.asarray(values, dtype=np.float64).view(np.int64).tolist()


# --- scoring, by walking ----------------------------------------------------------------------------------------------


def naive_leaves(model: fb.Model, columns: dict[str, list]) -> list[list[int]]:
    n = len(next(iter(columns.values())))
    return [[_walk(model, tree, columns, row) for tree in model.ensemble.trees] for row in range(n)]


def _walk(model: fb.Model, tree: Tree, columns: dict[str, list], row: int) -> int:
    at = 0
    while tree.feature[at] >= 0:
        feature = model.ensemble.features[tree.feature[at]]
        value = columns[feature.name][row]
        if value is None or value != value or (feature.zero_is_missing and abs(value) <= ZERO):
            left = tree.missing_left[at]
        elif tree.categories[at] is not None:
            named = {feature.categories[code] for code in tree.categories[at]}
            left = (value in named) == (tree.missing_left[at] == tree.with_missing[at])
        else:
            left = tree.threshold[at] is None or value < tree.threshold[at]
        at = tree.left[at] if left else tree.right[at]
    return at


def naive_margins(model: fb.Model, columns: dict[str, list], output: int = 0) -> np.ndarray:
    """Return exact sums of an output, rounded once: the result of exact additions in any order."""
    names, trees = [feature.name for feature in model.ensemble.features], model.ensemble.trees
    base = Fraction(model.ensemble.base_margins[output])
    return np.array([
        float(sum([base, *(_value(t, leaf, [columns[name][row] for name in names])
                           for t, leaf in zip(trees, leaves, strict=True) if t.output == output)]))
        for row, leaves in enumerate(naive_leaves(model, columns))
    ])  # fmt: skip


def _value(tree: Tree, leaf: int, row: list) -> Fraction:
    own = tree.linear[leaf] if tree.linear else None
    if own is None or any(row[term.feature] is None or row[term.feature] != row[term.feature] for term in own.terms):
        return Fraction(tree.value[leaf])
    total = Fraction(own.constant)
    for term in own.terms:
        low, high, step = Fraction(term.low), Fraction(term.high), Fraction(term.step)
        x = float(row[term.feature])
        # Python rounds halves to even, as the addition of 1.5 · 2^52 steps does.
        u = (low if x < 0 else high) if math.isinf(x) else round(Fraction(x) / step) * step - Fraction(term.centre)
        total += Fraction(term.slope) * min(max(u, low), high)
    return total
