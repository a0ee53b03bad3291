"""The binary model file: it holds what the JSON file holds, and what is no valid model is refused."""

import json
import pickle
import random
import re
import struct

import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.ensemble.model_file import BINARY_START, dump_binary, dump_file, read_model
from frameboost.ensemble.tree_file import are_plain, check_tree, read_tree, read_tree_arrays, tree_arrays, tree_fields
from frameboost.errors import ModelFileError
from frameboost.schema.types import TYPE_NAMES, Feature, FeatureType
from frameboost.trees.tree import LEAF, ColumnTrees, Tree, TreeColumns
from tests.support.cases import cases
from tests.support.frames import FEATURES_BY_TYPE, every_type
from tests.support.models import GOLDEN, model_of_parts
from tests.support.random_models import random_model


def u(text: str) -> bytes:
    return b"L" + struct.pack(">q", len(text.encode())) + text.encode()


def array(name: str, marker: str, code: str, *values: float) -> bytes:
    """Return a field that is an array, spelled out by the specification of UBJSON."""
    return u(name) + f"[${marker}#L".encode() + struct.pack(f">q{len(values)}{code}", len(values), *values)


NAN = float("nan")
HEAD, _, _ = GOLDEN.partition(',\n"trees"')
HEAD += "\n}\n"
TREES = [
    array("sizes", "L", "q", 5), array("feature", "l", "i", 0, 1, -1, -1, -1),
    array("threshold", "D", "d", 1.5, NAN, NAN, NAN, NAN), array("missing_left", "U", "B", 1, 0, 0, 0, 0),
    array("left", "l", "i", 1, 3, -1, -1, -1), array("right", "l", "i", 2, 4, -1, -1, -1),
    array("gain", "D", "d", 8.0, 2.5, 0.0, 0.0, 0.0), array("cover", "D", "d", 8.0, 4.0, 4.0, 2.0, 2.0),
    array("value", "D", "d", 0.0, -1.0, 1.0, -2.0, 0.5), array("categories_at", "L", "q", 1),
    array("categories_size", "L", "q", 1), array("categories", "L", "q", 1),
]  # fmt: skip


def file_of(head: str = HEAD, trees: list[bytes] = TREES) -> bytes:
    return b"{" + u("frameboost") + b"S" + u(head) + u("trees") + b"{" + b"".join(trees) + b"}}"


def refused(data: bytes) -> str:
    with pytest.raises(ModelFileError) as error:
        read_model(data)
    return str(error.value)


def test_the_golden_file_is_the_same_model_as_in_json():
    ensemble = read_model(GOLDEN.encode())
    assert dump_binary(ensemble) == file_of()
    assert read_model(file_of()) == ensemble
    assert file_of().startswith(BINARY_START)


def test_trees_are_made_when_one_is_asked_for(monkeypatch, tmp_path):
    """Training, a file and scoring need arrays only; a thousand trees as tuples take longer than all else in a file."""
    frame = every_type(200)
    made = []
    make = TreeColumns.trees
    monkeypatch.setattr(TreeColumns, "trees", lambda columns: made.append(len(columns)) or make(columns))
    trained = fb.fit(frame, "late", features=list(FEATURES_BY_TYPE), n_estimators=4, max_depth=3)
    trained.save(tmp_path / "m.ubj")
    loaded = fb.load(tmp_path / "m.ubj")
    assert loaded.predict(frame).equals(trained.predict(frame))
    assert loaded.n_trees == 4
    loaded.save(tmp_path / "again.ubj")
    assert made == []
    assert loaded.ensemble.trees == trained.ensemble.trees
    assert loaded.ensemble.trees[1:3] == tuple(trained.ensemble.trees)[1:3]
    assert made == [4, 4]


def test_trees_of_columns_are_as_a_tuple_of_trees():
    parts = [FeatureType(name) for name in ("float32", "int64", "boolean", "string")]
    trees = tuple(random_model(parts, list("abcd"), random.Random(7), n_trees=5, depth=4).ensemble.trees)
    lazy = ColumnTrees(TreeColumns.of(trees))
    assert lazy == trees
    assert trees == lazy
    assert lazy == ColumnTrees(TreeColumns.of(list(trees)))
    assert lazy != trees[:4]
    assert lazy != list(trees)
    assert hash(lazy) == hash(trees)
    assert repr(lazy) == repr(trees)
    assert [repr(tree) for tree in lazy] == [repr(tree) for tree in trees]  # True and 1 are equal, and not the same
    assert pickle.loads(pickle.dumps(lazy)) == trees
    assert (lazy[0], lazy[-1], lazy[1:4:2]) == (trees[0], trees[4], (trees[1], trees[3]))
    assert TreeColumns.of(lazy) is lazy.columns


def test_numbers_that_are_no_numbers_are_written_alike():
    """There are 2^53 of them, of which a file may have any where there is no threshold."""
    payload = struct.pack(">Q", 0x7FF8_0000_0000_BEEF)
    odd = file_of().replace(struct.pack(">d", NAN), payload)
    assert payload in odd
    assert dump_binary(read_model(odd)) == file_of()


def test_a_flag_that_no_node_has_set_is_not_written():
    unset = [*TREES, array("with_missing", "U", "B", 0, 0, 0, 0, 0)]
    assert dump_binary(read_model(file_of(trees=unset))) == file_of()


def test_only_the_ending_asks_for_the_binary_form(tmp_path):
    model = fb.fit(pl.DataFrame({"x": [1, 2], "y": [0, 8]}), "y", n_estimators=1)
    for name in ("m", "ubj", "m.ubj.json", "m.model"):
        model.save(tmp_path / name)
        assert (tmp_path / name).read_text() == dump_file(model.ensemble)


@cases("seed", range(60))
def test_random_models_of_every_type_come_back(seed):
    """With thresholds beyond 64 bits, infinite ones, splits on presence and categories of either side."""
    rng = random.Random(seed)
    kinds = [FeatureType(name) for name in rng.sample(sorted({*TYPE_NAMES, "decimal(38,3)"} - {"codes"}), 4)]
    model = random_model(kinds, list("abcd"), rng, n_trees=rng.randint(1, 9), depth=rng.randint(0, 5))
    ensemble = model.ensemble
    read = read_model(dump_binary(ensemble))
    assert read == ensemble
    assert are_plain(TreeColumns.of(ensemble.trees), ensemble.features, 1)
    found, expected = ([list(map(type, tree.threshold)) for tree in trees] for trees in (read.trees, ensemble.trees))
    assert found == expected


def test_infinite_and_large_thresholds_come_back():
    features = (Feature("x", FeatureType("float32")), Feature("n", FeatureType("uint128")))
    tree = Tree((0, 1, LEAF, LEAF, LEAF), (-np.inf, 2**128 - 1, None, None, None), (None,) * 5, (False,) * 5,
                (1, 3, -1, -1, -1), (2, 4, -1, -1, -1), (1.0, 1.0, 0.0, 0.0, 0.0), (1.0,) * 5,
                (0.0, 0.0, 1.0, 2.0, 3.0))  # fmt: skip
    model = model_of_parts(read_model(GOLDEN.encode()).loss, {}, features, (0.0,), (tree,))
    assert read_model(dump_binary(model.ensemble)).trees == (tree,)


# --- damage -----------------------------------------------------------------------------------------------------------


def instead(name: str, *fields: bytes) -> bytes:
    """Return a file with other arrays in place of that field."""
    kept = [field for field in TREES if not field.startswith(u(name))]
    assert len(kept) == len(TREES) - 1
    return file_of(trees=[*kept, *fields])


LARGE = b"\x7f" + b"\xff" * 7


@cases(
    ("data", "message"),
    [
        (file_of()[:-1], "damaged model: it is not UBJSON (it ends too early, at byte"),
        (file_of() + b"x", "damaged model: it is not UBJSON (bytes after the end of the document"),
        (file_of()[: len(BINARY_START)], "damaged model: it is not UBJSON (it ends too early"),
        (file_of().replace(b"S" + u(HEAD), b"Z"), 'damaged model: "frameboost" must be text'),
        (file_of().replace(u("trees") + b"{", u("shrub") + b"{"), 'damaged model: unknown field "shrub"'),
        (b"{" + u("frameboost") + b"S" + u(HEAD) + b"}", 'damaged model: "trees" must be an object'),
        (file_of(HEAD[:-3]), "not a frameboost model: the file is not JSON"),
        (file_of(GOLDEN), 'damaged model: unknown field "trees"'),
        (file_of(HEAD.replace('"version": 1', '"version": 2'), [b"T"]), "damaged model: it is not UBJSON"),
        (file_of(HEAD.replace('"version": 1', '"version": 2'), []), "the model file has version 2; this release reads"),
        (file_of(HEAD.replace("4.0,", "1e999,")), 'damaged model: "base_margin" must be a finite number'),
        (file_of(HEAD.replace("4.0,", "[4.0, 4.0],")), "its 1 trees are not whole rounds of 2 outputs"),
        (instead("sizes"), 'damaged model, trees: "sizes" must be an array of numbers of its type, not null'),
        (instead("sizes", u("sizes") + b"T"), '"sizes" must be an array of numbers of its type'),
        (instead("sizes", u("sizes") + b"[#L" + LARGE), "it is not UBJSON (a length beyond the end of the file"),
        (instead("sizes", array("sizes", "L", "q")), '"sizes" must be the numbers of nodes of trees with 5 in all'),
        (instead("sizes", array("sizes", "L", "q", 5, 0)), '"sizes" must be the numbers of nodes'),
        (instead("sizes", array("sizes", "L", "q", 5, 2**63 - 1, 1)), '"sizes" must be the numbers of nodes'),
        (instead("sizes", array("sizes", "d", "f", 5)), '"sizes" must be an array of numbers of its type'),
        (instead("sizes", array("sizes", "L", "q", 4, 1)), "tree 0, node 1: \"right\" must be a node after"),
        (instead("value", array("value", "D", "d", 1.0)), '"value" has 1 entries, and must have 5'),
        (instead("value", array("value", "D", "d", 0.0, 0.0, 1.0, -2.0, NAN)),
         'damaged model, tree 0, node 4: "value" must be a finite number'),
        (instead("value", array("value", "D", "d", 0.0, 0.0, 1.0, -2.0, 1e-9)), "on the grid of the leaf values"),
        (instead("value", array("value", "D", "d", 0.0, 0.0, 1e308, 1e308, 1e308)), "must be on the grid"),
        (instead("missing_left", array("missing_left", "U", "B", 2, 0, 0, 0, 0)), '"missing_left" must be 0 or 1'),
        (instead("missing_left", array("missing_left", "U", "B", 0, 0, 1, 0, 0)), "node 2: a leaf has no threshold"),
        (instead("feature", array("feature", "l", "i", 0, 2, -1, -1, -1)), "node 1: \"feature\" must be -1 or"),
        (instead("left", array("left", "l", "i", 1, 2, -1, -1, -1)), "node 2: it has 2 parents, and must have 1"),
        (instead("gain", array("gain", "D", "d", 1, 1, 1, 0, 0)), "tree 0, node 2: a leaf has no threshold"),
        (instead("threshold", array("threshold", "D", "d", NAN, NAN, NAN, NAN, NAN)),
         "tree 0, node 0: a split on whether the value is present sends missing right"),
        (instead("threshold", array("threshold", "D", "d", 1.5, 1.5, NAN, NAN, NAN)),
         'tree 0, node 1: "threshold" must be a value of type string'),
        (instead("categories", array("categories", "L", "q", 2)), '"categories" must be sorted, distinct'),
        (instead("categories", array("categories", "L", "q", 0, 1)), '"categories_size" must be the lengths'),
        (instead("categories_size", array("categories_size", "L", "q", 1, 0)), '"categories_at" has 1 entries'),
        (instead("categories_at", array("categories_at", "L", "q", 5)), '"categories_at" must be nodes in ascending'),
        (instead("categories_at", array("categories_at", "L", "q", 0)), '"categories" must be sorted, distinct'),
        (file_of(trees=[*TREES, array("output", "L", "q", 1)]), 'tree 0: unknown field "output"'),
        (file_of(trees=[*TREES, array("with_missing", "U", "B", 1, 0, 0, 0, 0)]), 'node 0: only a split by cat'),
        (file_of(trees=[*TREES, array("integer_at", "L", "q", 0), array("integers", "L", "q", 1)]),
         "damaged model, trees: a node has two thresholds, one of them an integer"),
        (file_of(trees=[*TREES, array("integer_at", "L", "q", 1), u("integers") + b"S" + u("9" * 40)]),
         '"integers" must be whole numbers with blanks between them'),
        (file_of(trees=[*TREES, array("integer_at", "L", "q", 1), u("integers") + b"S" + u("7")]),
         'tree 0, node 1: "threshold" must be a value of type string'),
        (file_of(trees=[*TREES, array("bush", "L", "q", 1)]), 'damaged model, trees: unknown field "bush"'),
    ],
)  # fmt: skip
def test_damage_is_named(data, message):
    assert message in refused(data)


@pytest.mark.slow
def test_a_cut_or_changed_file_is_refused_or_gives_a_working_model():
    frame = pl.DataFrame({'dep "delay"': [1.0, None, 9.0], "carrier": ["é", "AA", None]})
    data, rng, n_refused = file_of(), random.Random(5), 0
    for end in range(0, len(data), 2):
        refused(data[:end])
    for at in range(0, len(data), 2):
        byte = (0x7F if at % 4 else 1, 0xFF, rng.randrange(256))[at % 3]
        try:
            ensemble = read_model(data[:at] + bytes([byte]) + data[at + 1 :])
        except ModelFileError as error:
            assert re.match(r"(not a frameboost model|damaged model|the model file has version)", str(error))
            n_refused += 1
            continue
        assert read_model(dump_binary(ensemble)) == ensemble
        model = model_of_parts(ensemble.loss, {}, ensemble.features, ensemble.base_margins, ensemble.trees)
        if [f.name for f in ensemble.features] == frame.columns:
            expected = frame.select(model.expr()).to_series().to_numpy()
            np.testing.assert_array_equal(model.predict(frame).to_numpy(), expected)
    assert n_refused > 1000 / 6


@pytest.mark.slow
def test_trees_that_are_checked_at_once_pass_the_look_at_each_node():
    """Numpy's check lets through what the check node by node lets through, and nothing else."""
    rng = random.Random(3)
    names = ["float32", "float64", "int8", "uint128", "boolean", "string"]
    kinds = [FeatureType(name) for name in names]
    odd = {"d": [np.nan, np.inf, -np.inf, 0.1, 1e300, 0.0, 0.5, -1.0], "l": [-1, 0, 1, 2, 3, 6, 8, 127, 128]}
    n_plain = n_damaged = 0
    for _ in range(500):
        model = random_model(kinds, names, rng, n_trees=1, depth=3)
        own = model.ensemble.features
        columns = TreeColumns.of(model.ensemble.trees)
        arrays = tree_arrays(columns, 1)
        if rng.random() < 0.8:
            changed = rng.choice([a for a in arrays.values() if isinstance(a, np.ndarray) and len(a)])
            changed[rng.randrange(len(changed))] = rng.choice(
                [*(odd["d"] if changed.dtype.kind == "f" else [0, 1] if changed.itemsize == 1 else odd["l"]), *changed]
            )
        try:
            columns = read_tree_arrays(arrays)
        except ModelFileError:
            continue
        is_plain = are_plain(columns, own, 1)
        n_plain += is_plain
        (tree,) = columns.trees()
        try:
            assert check_tree(tree, 0, own, 1) == tree
            # A whole number may be the threshold of a feature of floats, as in JSON.
            assert is_plain or any(own[tree.feature[i]].type.is_float for i in columns.integer_at)
        except ModelFileError:
            assert not is_plain
            n_damaged += 1
    assert n_plain > 120
    assert n_damaged > 120


def test_json_and_binary_files_agree_on_every_damage():
    """What the JSON reader refuses node by node is refused in the same words in the binary file."""
    for field, node, value in (("cover", 2, np.inf), ("left", 0, 9), ("feature", 0, -1), ("threshold", 2, 1.0)):
        ensemble = read_model(file_of())
        arrays = tree_arrays(TreeColumns.of(ensemble.trees), 1)
        arrays[field][node] = value
        tree = read_tree_arrays(arrays).trees()[0]
        with pytest.raises(ModelFileError) as error:
            check_tree(tree, 0, ensemble.features, 1)
        fields = json.loads(json.dumps(tree_fields(tree, 1)))
        with pytest.raises(ModelFileError) as of_json:
            read_tree(fields, 0, ensemble.features, 1)
        assert str(error.value) == str(of_json.value)
