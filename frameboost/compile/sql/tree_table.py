"""A model as a table, and the query that walks it: short SQL for models of any size.

The table has one row per node. Each row of the data starts at the root of each tree and is joined to the next node once
per level of the deepest tree; a leaf leads to itself. Then the leaf values are summed, which is exact in any order (see
`frameboost.trees.tree`). The tree ``x < 3 ? -4 : 4`` is

====  ====  =====  =======  ===============  ====  =====  =======  =====
id    node  tree   feature  threshold_int64  left  right  missing  value
====  ====  =====  =======  ===============  ====  =====  =======  =====
0     0     0      0        3                1     2      2
1     1     0                                1     1      1        -4
2     2     0                                2     2      2        4
====  ====  =====  =======  ===============  ====  =====  =======  =====

and a row with x = 5 goes 0 → 2 → 2.

Saabas' contributions depend only on the leaves of a row. So a table may have additional rows, with the leaf in
``explains``, a feature, and its contribution as the value.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

import polars as pl

from frameboost.compile.sql.conditions import FeatureColumn
from frameboost.compile.sql.sql_model import SqlModel
from frameboost.compile.sql.stages import ROW, Stages, grouped
from frameboost.dialects.dialect import Dialect, OutOfRange, in_lines
from frameboost.errors import ParameterError
from frameboost.schema.types import Feature, FeatureType, Physical
from frameboost.trees.tree import Tree, split_features

__all__ = ["Contributions", "contributions_over_table", "table_frame", "table_statements", "values_over_table"]

_ROWS_A_STATEMENT = 500
# Aliases like that of a row, `ROW`.
_NODE, _NAMED, _EXPLAINED = "node_of_tree", "named_by_node", "explained_node"
Contributions = Sequence[Mapping[int, Mapping[int, float]]]
"""Of each tree the contributions in each leaf, by node and feature (`frameboost.trees.node_means`)."""
_NUMBERS = ("id", "named_by", "tree", "node", "output", "feature", "missing", "left", "right")


# --- the table --------------------------------------------------------------------------------------------------------


def table_frame(
    trees: Sequence[Tree], columns: Sequence[FeatureColumn], contributions: Contributions = ()
) -> pl.DataFrame:
    """Return the table as a frame (see `DatabaseModel.table_frame`)."""
    rows = [*_all_rows(trees, columns, lambda kind, threshold: None), *_rows_of(contributions, trees)]
    numbers = [*_NUMBERS, *(["explains"] if contributions else [])]
    series = [pl.Series(name, [row.get(name) for row in rows], dtype=pl.Int64) for name in numbers]
    for kind in _threshold_kinds(trees, columns):
        name = _threshold_name(kind)
        thresholds = [row.get(name) for row in rows]
        if kind.precision_and_scale:
            decimals = [None if threshold is None else kind.decimal(int(threshold)) for threshold in thresholds]
            series.append(pl.Series(name, decimals, dtype=kind.to_polars()))
        else:
            series.append(pl.Series(name, thresholds, dtype=kind.physical_dtype).cast(kind.to_polars()))
    if _has_categories(trees):
        series.append(pl.Series("category", [row.get("category") for row in rows], dtype=pl.String))
    return pl.DataFrame([*series, pl.Series("value", [row.get("value") for row in rows], dtype=pl.Float64)])


def table_statements(
    name: str, trees: Sequence[Tree], columns: Sequence[FeatureColumn], dialect: Dialect,
    contributions: Contributions = (),
) -> list[str]:  # fmt: skip
    """Return the statements that create and fill the table (see `DatabaseModel.table_statements`)."""
    if dialect.statements.define_table is None:
        raise ParameterError(f"{dialect.name} makes tables of files in S3; load the frame that table_frame returns")

    def outside(kind: FeatureType, threshold: Physical) -> OutOfRange | None:
        written = dialect.literal(kind, threshold)
        return written if isinstance(written, OutOfRange) else None

    rows = _all_rows(trees, columns, outside)
    unheld = dialect.literals.unheld
    rows = [row for row in rows if set(unheld).isdisjoint(str(row.get("category", "")))]  # no value can be one of these
    rows += _rows_of(contributions, trees)
    kinds = {_threshold_name(kind): kind for kind in _threshold_kinds(trees, columns)}
    types = dict.fromkeys([*_NUMBERS, *(["explains"] if contributions else [])], dialect.types.columns["int64"])
    compared = dialect.types.compared
    types |= {column: compared.get(kind.family) or str(dialect.type_of(kind)) for column, kind in kinds.items()}
    if _has_categories(trees):
        longest = max((len(str(row["category"]).encode()) for row in rows if "category" in row), default=1)
        types["category"] = (dialect.types.exact_string or dialect.types.columns["string"]).format(n=max(longest, 1))
    types["value"] = dialect.types.columns["float64"]
    table = dialect.quote_path(name)
    defined = (f"{dialect.quote(column)} {dialect.types.nullable.format(t=type_)}" for column, type_ in types.items())
    statements = [dialect.statements.define_table.format(name=table, columns=",\n  ".join(defined))]
    names = ", ".join(map(dialect.quote, types))

    def literal(column: str, value: Physical | None) -> str:
        if value is None:
            return "NULL"
        if column in kinds:
            return str(dialect.literal(kinds[column], value))
        if column != "category":
            return _number(value, dialect)
        text = dialect.string(str(value))
        return text if dialect.types.exact_string is None else dialect.literals.text.format(v=text)

    for first in range(0, len(rows), _ROWS_A_STATEMENT):
        some = rows[first : first + _ROWS_A_STATEMENT]
        literals = [[literal(column, row.get(column)) for column in types] for row in some]
        statements.append(f"INSERT INTO {table} ({names})\n{dialect.rows_of(literals)}")
    if dialect.statements.create_index is not None:
        statements.append(_index(name, ["id"], dialect))
    if dialect.statements.create_index is not None and _has_categories(trees):
        exact = () if dialect.types.exact_string is None else ("category",)
        statements.append(_index(name, ["named_by", *exact], dialect))
    if dialect.statements.create_index is not None and contributions:
        statements.append(_index(name, ["explains"], dialect))
    return statements


def _index(name: str, columns: Sequence[str], dialect: Dialect) -> str:
    """Return the statement that creates an index on one column, named after the table (truncated) and the column."""
    assert dialect.statements.create_index is not None
    *schema, table_name = dialect.parts_of(name)
    column = columns[0]
    digest = hashlib.sha256(table_name.encode()).hexdigest()[:8]
    room = (dialect.names.longest or 1000) // (4 if dialect.names.in_bytes else 1) - len(column) - len(digest) - 2
    index = f"{table_name}_{column}" if len(table_name) <= room else f"{table_name[:room]}_{digest}_{column}"
    table, path = dialect.quote_path(name), [dialect.quote(index)]
    if dialect.statements.index_in_schema:
        table, path = dialect.quote(table_name), [*map(dialect.quote, schema), *path]
    return dialect.statements.create_index.format(
        index=".".join(path), name=table, columns=", ".join(map(dialect.quote, columns))
    )


def _number(value: Physical, dialect: Dialect) -> str:
    return dialect.number(value) if isinstance(value, float) else str(value)


def _has_categories(trees: Sequence[Tree]) -> bool:
    return any(codes is not None for tree in trees for codes in tree.categories)


def _threshold_kinds(trees: Sequence[Tree], columns: Sequence[FeatureColumn]) -> list[FeatureType]:
    """Return the types of thresholds, each a column of the table."""
    kinds = [columns[f].feature.type for f in split_features(trees)]
    return list(dict.fromkeys(k.widened for k in kinds if not (k.is_categorical or k.family == "boolean")))


def _threshold_name(kind: FeatureType) -> str:
    return "threshold_" + "".join(c if c.isalnum() else "_" for c in kind.name).rstrip("_")


def _all_rows(
    trees: Sequence[Tree],
    columns: Sequence[FeatureColumn],
    outside: Callable[[FeatureType, Physical], OutOfRange | None],
) -> list[dict[str, Physical]]:
    """Return a row for each node, and one for each category that a node names.

    ``id`` numbers the nodes of all trees. ``left`` is the id of the child for values below the threshold, for named
    categories, and for false; ``right`` the child for other values; ``missing`` the child for missing values. Without a
    threshold all values go left. ``outside`` has the thresholds that the table cannot store.
    """
    rows: list[dict[str, Physical]] = []
    start = 0
    for number, tree in enumerate(trees):
        for node in range(len(tree)):
            row: dict[str, Physical] = {"id": start + node, "tree": number, "node": node, "output": tree.output}
            if tree.is_leaf(node):
                here = dict.fromkeys(("missing", "left", "right"), start + node)
                rows.append({**row, **here, "value": tree.value[node]})
            else:
                named, fields = _condition_fields(tree, node, start, columns[tree.feature[node]].feature, outside)
                rows += [{"named_by": start + node, "category": category} for category in named]
                rows.append({**row, **fields})
        start += len(tree)
    return rows


def _rows_of(contributions: Contributions, trees: Sequence[Tree]) -> list[dict[str, Physical]]:
    """Return a row for each feature on the path to each leaf."""
    starts = accumulate((len(tree) for tree in trees), initial=0)
    return [
        {"explains": start + leaf, "feature": feature, "value": value}
        for start, of_tree in zip(starts, contributions, strict=False)
        for leaf, of_leaf in of_tree.items()
        for feature, value in of_leaf.items()
    ]


def _category(feature: Feature, code: int) -> str:
    """Return a category as stored in the table: a string unchanged, for other values the index of the category."""
    return str(feature.categories[code] if feature.type.name in ("string", "codes") else code)


def _condition_fields(
    tree: Tree, node: int, start: int, feature: Feature, outside: Callable[[FeatureType, Physical], OutOfRange | None]
) -> tuple[list[str], dict[str, Physical]]:
    """Return the categories that an inner node names, and its columns: feature, threshold, children."""
    left, right = start + tree.left[node], start + tree.right[node]
    fields: dict[str, Physical] = {
        "feature": tree.feature[node],
        "missing": left if tree.missing_left[node] else right,
    }
    named: list[str] = []
    codes, threshold, kind = tree.categories[node], tree.threshold[node], feature.type.widened
    if codes is not None:
        named = [_category(feature, code) for code in codes]
        if not tree.named_left(node):
            left, right = right, left
    elif threshold is None:
        right = left
    elif kind.family == "boolean":
        left = left if threshold == 1 else right
    elif (beyond := outside(kind, threshold)) is not None:
        left = right = left if beyond is OutOfRange.ABOVE else right
    else:
        fields[_threshold_name(kind)] = threshold
    return named, {**fields, "left": left, "right": right}


# --- the query --------------------------------------------------------------------------------------------------------


def values_over_table(model: SqlModel, stages: Stages, trees_table: str, name: str) -> dict[str, str]:
    """Add the stages that walk the trees in a table (see `table_statements`); return the output's values by name.

    Each level is a separate stage, so that no optimizer joins the levels in another order.
    """
    if stages.keep is None:
        raise ParameterError("form='table' adds up many rows for each of yours; name the columns to return in keep")
    model = model.renamed(stages.rename_lost())
    names = model.output.margins
    sums = stages.reserve(len(names))
    walk = _Walk(model.columns, model.dialect, model.every_tree(), trees_table)
    row, node = walk.through(stages, max(1, *model.depths))
    columns = list(dict.fromkeys([*stages.keep, *model.read_besides]))
    values = walk.margins(len(names), is_of_leaves=model.is_of_leaves)
    stages.reduce(
        walk.sums(stages.source(ROW), columns, row, node, dict(zip(sums, values, strict=True))), columns, sums
    )
    margins = {
        margin: model.with_offset(
            k, f"({sums[k]} + {model.base(k)})" if isinstance(model.bases[k], str) else f"({model.base(k)} + {sums[k]})"
        )
        for k, margin in enumerate(names)
    }
    if model.output.lookup is not None:
        margins[model.output.lookup.name] = str(model.bases[-1])
    return model.staged_values(stages, margins, name)


def contributions_over_table(
    stages: Stages, columns: Sequence[FeatureColumn], trees: Mapping[int, Tree], others: Sequence[str],
    trees_table: str,
) -> dict[int, str]:  # fmt: skip
    """Add the stages that walk some trees in a table; return the columns of feature contributions.

    Parameters
    ----------
    trees
        The trees of one output, by their indices in the table.
    others
        Additional quoted columns that later stages read.
    """
    split = {number: tree for number, tree in trees.items() if not tree.is_leaf(0)}
    if not split:
        return {}
    first, some = next(iter(split.items()))
    walk = _Walk(columns, columns[0].dialect, list(split.values()), trees_table)
    names = dict(zip(walk.features, stages.reserve(len(walk.features)), strict=True))
    row, node = walk.through(stages, max(max(tree.depths()) for tree in split.values()), some.output)
    kept = list(dict.fromkeys([*(stages.keep or ()), *others]))
    values = {name: walk.contribution(feature) for feature, name in names.items()}
    query = walk.sums(stages.source(ROW), kept, row, node, values, first=first, explains=True)
    stages.reduce(query, kept, list(values))
    return names


class _Walk:
    """The SQL of the steps of rows through the table of nodes."""

    def __init__(
        self, columns: Sequence[FeatureColumn], dialect: Dialect, trees: Sequence[Tree], table: str
    ) -> None:  # fmt: skip
        self._dialect, self._table = dialect, f"{dialect.quote_path(table)} {dialect.statements.alias}"
        self.features = split_features(trees)
        self._columns = {f: replace(columns[f], name=f"{ROW}.{columns[f].name}") for f in self.features}

    def through(self, stages: Stages, depth: int, output: int | None = None) -> tuple[str, str]:
        """Add the stages of these steps, for the trees of one output or of all; return the row and node columns."""
        row, node = stages.reserve(2)
        stages.number_rows(row)
        for level in range(depth):
            carried = [f"{ROW}.{column} AS {column}" for column in [row, *stages.reads]]
            step = self.step(stages.source(ROW), carried, node, is_first=level == 0)
            if level == 0 and output is not None:
                step += f" AND {self._of(_NODE, 'output')} = {output}"
            stages.replace(step, [row, node])
        return row, node

    def _of(self, alias: str, column: str) -> str:
        return f"{alias}.{self._dialect.quote(column)}"

    def _join_nodes(self, node: str) -> str:
        return f"JOIN {self._table}{_NODE} ON {self._of(_NODE, 'id')} = {ROW}.{node}"

    def step(self, came_from: str, carried: Sequence[str], node: str, *, is_first: bool) -> str:
        """Return the query that moves each row to its next node; the first step starts at the roots."""
        nexts = " ".join(f"WHEN {f} THEN {self._next(column)}" for f, column in self._columns.items())
        here = self._of(_NODE, "id")
        going = f"CASE {self._of(_NODE, 'feature')} {nexts} ELSE {here} END" if nexts else here
        joins = [self._join_nodes(node)]
        if is_first:
            joins = [f"CROSS JOIN {self._table}{_NODE}"]
        steps = [f"SELECT {', '.join([*carried, f'{going} AS {node}'])}", came_from, *joins, *self._join_members()]
        return "\n".join([*steps, *([f"WHERE {self._of(_NODE, 'node')} = 0"] if is_first else [])])

    def _join_members(self) -> list[str]:
        """Return the join of the row for the data's category, if the node names it."""
        named = {f: column for f, column in self._columns.items() if column.feature.type.is_categorical}
        if not named:
            return []
        n, is_exact = self._of, self._dialect.types.exact_string is not None
        text = "{x}" if is_exact else self._dialect.expressions.text
        values = " ".join(f"WHEN {f} THEN {self._category(column)}" for f, column in named.items())
        return [
            f"LEFT JOIN {self._table}{_NAMED} ON {n(_NAMED, 'named_by')} = {n(_NODE, 'id')} "
            f"AND {text.format(x=n(_NAMED, 'category'))} = CASE {n(_NODE, 'feature')} {values} END"
        ]

    def _category(self, column: FeatureColumn) -> str:
        """Return a categorical column in the form of the table's categories, as text."""
        if column.feature.type.name == "string":
            return column.value
        dialect, feature = self._dialect, column.feature
        if feature.type.name == "codes":
            text = dialect.expressions.text.format(x=dialect.cast(dialect.cast(column.name, "codes"), "string"))
            # NaN, of a column of floats, is no integer.
            is_number = dialect.expressions.is_number is not None
            return f"CASE WHEN {column.is_present()} THEN {text} END" if is_number else text
        # Databases write numbers and times as text in many ways, so the table has the numbers of categories.
        tests = ((code, column.is_one_of([category])) for code, category in enumerate(feature.categories))
        whens = " ".join(f"WHEN {test} THEN {dialect.string(_category(feature, code))}" for code, test in tests)
        return dialect.expressions.text.format(x=f"CASE {whens} END")

    def _next(self, column: FeatureColumn) -> str:
        """Return the child that a row goes to from a node with a split on this column."""
        kind, dialect = column.feature.type, self._dialect
        missing, left, right = (self._of(_NODE, side) for side in ("missing", "left", "right"))
        if kind.is_categorical:
            is_member = f"{self._of(_NAMED, 'named_by')} IS NOT NULL"
            return f"CASE WHEN {column.is_missing()} THEN {missing} WHEN {is_member} THEN {left} ELSE {right} END"
        if kind.family == "boolean":
            is_true = dialect.expressions.is_true.format(x=column.name)
            return f"CASE WHEN {column.name} IS NULL THEN {missing} WHEN {is_true} THEN {right} ELSE {left} END"
        above = f"{column.value} >= {self._of(_NODE, _threshold_name(kind.widened))}"
        return f"CASE WHEN {column.is_present()} THEN CASE WHEN {above} THEN {right} ELSE {left} END ELSE {missing} END"

    def margins(self, n_outputs: int, *, is_of_leaves: bool) -> list[str]:
        """Return the summand of each output: leaf values, or the leaf indices of a tree."""
        values = []
        for k in range(n_outputs):
            value, output_or_tree = self._of(_NODE, "value"), self._of(_NODE, "output")
            nothing = self._dialect.number(0.0)
            if is_of_leaves:
                value, output_or_tree, nothing = self._of(_NODE, "node"), self._of(_NODE, "tree"), "0"
            if n_outputs > 1:
                value = f"CASE WHEN {output_or_tree} = {k} THEN {value} ELSE {nothing} END"
            values.append(value)
        return values

    def contribution(self, feature: int) -> str:
        """Return the summand of a feature's contribution."""
        is_of, value = f"{self._of(_EXPLAINED, 'feature')} = {feature}", self._of(_EXPLAINED, "value")
        return f"CASE WHEN {is_of} THEN {value} ELSE {self._dialect.number(0.0)} END"

    def sums(
        self, came_from: str, keep: Sequence[str], row: str, node: str, values: Mapping[str, str], *, first: int = 0,
        explains: bool = False,
    ) -> str:  # fmt: skip
        """Return the query that sums leaf values, or contributions of leaves, by name.

        ``first`` is the index of a tree that each row walks.
        """
        added = [f"SUM({value}) AS {name}" for name, value in values.items()]
        joins = self._join_nodes(node)
        if explains:
            on = f"{self._of(_EXPLAINED, 'explains')} = {self._of(_NODE, 'id')}"
            joins += f"\nJOIN {self._table}{_EXPLAINED} ON {on}"
        in_first = f"{self._of(_NODE, 'tree')} = {first}"
        keys, kept = grouped([f"{ROW}.{name}" for name in keep], in_first, self._dialect)
        named = [f"{value} AS {name}" for value, name in zip(kept, keep, strict=True)]
        return (
            f"SELECT {in_lines([*named, *added])}\n{came_from}\n{joins}\nGROUP BY {', '.join([f'{ROW}.{row}', *keys])}"
        )
