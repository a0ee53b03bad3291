"""The linear leaves of a model file: as JSON, and as columns of the binary form; both are checked leaf by leaf."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from frameboost.checks.json_files import check_keys, fail, is_finite, is_integer, read_list
from frameboost.errors import ModelFileError
from frameboost.schema.types import Feature
from frameboost.trees.tree import MAX_STEPS, MAX_TERMS, LinearLeaf, LinearTerm, Tree, may_have_slope

__all__ = ["LINEAR_COLUMNS", "check_linear", "linear_columns", "linear_field", "linear_of_nodes", "read_linear"]

_NUMBERS = LinearTerm._fields[1:]
# The types in the binary file of what has an entry for each linear leaf, and for each of their terms.
_OF_LEAVES: dict[str, npt.DTypeLike] = {
    "linear_at": np.int32,
    "linear_constant": np.float64,
    "linear_size": np.int32,
}
_OF_TERMS: dict[str, npt.DTypeLike] = {
    f"linear_{field}": np.int32 if field == "feature" else np.float64 for field in LinearTerm._fields
}
LINEAR_COLUMNS = (*_OF_LEAVES, *_OF_TERMS)
# Beyond these, products of slopes and numbers may leave the range of float64.
_LEAST_STEP, _LARGEST_STEP = 2.0**-400, 2.0**400
# From the zero of a feature to the centre of a grid: so its numbers round to the grid, not to a coarser one.
_MAX_TO_CENTRE = 2.0**50


# --- JSON -------------------------------------------------------------------------------------------------------------


def linear_field(tree: Tree) -> list[dict[str, Any] | None]:
    """Return the field ``linear`` of a tree."""
    return [leaf and {"constant": leaf.constant, "terms": [term._asdict() for term in leaf.terms]}
            for leaf in tree.linear]  # fmt: skip


def read_linear(item: Mapping[str, Any], size: int, where: str) -> tuple[LinearLeaf | None, ...]:
    """Return the field ``linear`` of a tree of that size, of numbers; `check_linear` has the rules of their values."""
    leaves = read_list(item, "linear", where)
    if len(leaves) != size:
        raise ModelFileError(f'{where}: "linear" has {len(leaves)} entries, "feature" has {size}')
    if all(leaf is None for leaf in leaves):
        raise ModelFileError(f'{where}: "linear" has no linear leaf')
    return tuple([_read_leaf(leaf, f"{where}, node {node}") for node, leaf in enumerate(leaves)])


def _read_leaf(item: object, where: str) -> LinearLeaf | None:
    if item is None:
        return None
    if not isinstance(item, dict):
        fail(where, "linear", "null or an object", item)
    check_keys(item, LinearLeaf._fields, f"{where}, linear")
    if not is_finite(item.get("constant")):
        fail(f"{where}, linear", "constant", "a finite number", item.get("constant"))
    terms = []
    for term in read_list(item, "terms", f"{where}, linear"):
        if not isinstance(term, dict):
            fail(f"{where}, linear", "terms", "a list of objects", term)
        check_keys(term, LinearTerm._fields, f"{where}, linear, terms")
        if not is_integer(term.get("feature")):
            fail(f"{where}, linear, terms", "feature", "a feature's number", term.get("feature"))
        for field in _NUMBERS:
            if not is_finite(term.get(field)):
                fail(f"{where}, linear, terms", field, "a finite number", term.get(field))
        terms.append(LinearTerm(term["feature"], *(float(term[field]) for field in _NUMBERS)))
    return LinearLeaf(float(item["constant"]), tuple(terms))


# --- columns of the binary form ---------------------------------------------------------------------------------------


def linear_columns(linear: Mapping[int, LinearLeaf]) -> dict[str, npt.NDArray[Any]]:
    """Return linear leaves, by node, as arrays; none if there are no such leaves."""
    if not linear:
        return {}
    leaves = {
        "linear_at": list(linear),
        "linear_constant": [leaf.constant for leaf in linear.values()],
        "linear_size": [len(leaf.terms) for leaf in linear.values()],
    }
    of_terms = zip(*chain.from_iterable(leaf.terms for leaf in linear.values()), strict=True)
    terms = dict(zip(_OF_TERMS, of_terms, strict=True))
    return {name: np.array(values, (_OF_LEAVES | _OF_TERMS)[name]) for name, values in (leaves | terms).items()}


def linear_of_nodes(item: Mapping[str, Any], n_nodes: int, where: str) -> dict[int, LinearLeaf]:
    """Return the linear leaves of a binary file by their place among the nodes of all trees."""
    given = [name for name in LINEAR_COLUMNS if name in item]
    if not given:
        return {}
    columns = {name: _column(item, name, kind, where) for name, kind in (_OF_LEAVES | _OF_TERMS).items()}
    for names in (_OF_LEAVES, _OF_TERMS):
        if len({len(columns[name]) for name in names}) > 1:
            raise ModelFileError(f"{where}: the arrays {', '.join(names)} must have equally many entries")
    indices, sizes, n_terms = columns["linear_at"], columns["linear_size"], len(columns["linear_feature"])
    if (sizes < 1).any() or (sizes > MAX_TERMS).any() or int(sizes.sum()) != n_terms:
        raise ModelFileError(f'{where}: "linear_size" must be the numbers of terms of leaves with {n_terms:,} in all')
    if len(indices) and not (indices[0] >= 0 and indices[-1] < n_nodes and (np.diff(indices) > 0).all()):
        raise ModelFileError(f'{where}: "linear_at" must be nodes in ascending order, below {n_nodes:,}')
    terms = list(map(LinearTerm, *(columns[name].tolist() for name in _OF_TERMS)))
    ends = np.cumsum(sizes).tolist()
    leaves = [LinearLeaf(constant, tuple(terms[start:end])) for constant, start, end
              in zip(columns["linear_constant"].tolist(), [0, *ends], ends, strict=False)]  # fmt: skip
    return dict(zip(indices.tolist(), leaves, strict=True))


def _column(item: Mapping[str, Any], name: str, kind: npt.DTypeLike, where: str) -> npt.NDArray[Any]:
    values, is_float = item.get(name), kind is np.float64
    if not isinstance(values, np.ndarray) or values.dtype.kind not in ("f" if is_float else "iu"):
        fail(where, name, "an array of numbers of its type", None if values is None else "something else")
    return values.astype(np.float64 if is_float else np.int64)


# --- the rules --------------------------------------------------------------------------------------------------------


def check_linear(tree: Tree, features: Sequence[Feature], where: str) -> None:
    """Raise `ModelFileError` unless the tree's linear leaves are leaves whose numbers have exact products."""
    for node, leaf in tree.linear_leaves().items():
        at = f"{where}, node {node}"
        if not tree.is_leaf(node):
            raise ModelFileError(f"{at}: only a leaf may be linear")
        if not 1 <= len(leaf.terms) <= MAX_TERMS or len({term.feature for term in leaf.terms}) < len(leaf.terms):
            raise ModelFileError(f"{at}: a linear leaf has 1 to {MAX_TERMS} terms, of different features")
        if not math.isfinite(leaf.constant):
            fail(at, "constant", "a finite number", leaf.constant)
        for term in leaf.terms:
            _check_term(term, features, at)


def _check_term(term: LinearTerm, features: Sequence[Feature], where: str) -> None:
    if not 0 <= term.feature < len(features) or not may_have_slope(features[term.feature]):
        fail(where, "feature", "the number of a feature of floats or integers", term.feature)
    if not all(map(math.isfinite, term[1:])):
        raise ModelFileError(f"{where}: the numbers of a term must be finite")
    if not _LEAST_STEP <= term.step <= _LARGEST_STEP or math.frexp(term.step)[0] != 0.5:
        fail(where, "step", "a power of two", term.step)
    if abs(term.centre) > _MAX_TO_CENTRE * term.step or not (term.centre / term.step).is_integer():
        fail(where, "centre", "a multiple of the step", term.centre)
    for field, value in (("low", term.low), ("high", term.high)):
        if abs(value) > MAX_STEPS * term.step or not (value / term.step).is_integer():
            fail(where, field, f"a multiple of the step, {MAX_STEPS:,} at most", value)
    if term.low > term.high:
        fail(where, "low", "not above high", term.low)
