"""The offset of a model: columns of the data that are added to the margins of a row, beside the trees."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import polars as pl

from frameboost.checks.messages import counted, shown
from frameboost.errors import DataError, ParameterError
from frameboost.expressions.expression import Expression
from frameboost.losses.loss import Loss
from frameboost.schema.polars_columns import column
from frameboost.schema.types import Feature, FeatureType

__all__ = ["EXPOSURE", "Offset", "offset_of"]

# The role of the column of exposures in training.
EXPOSURE = "exposure"


@dataclass(frozen=True, slots=True)
class Offset:
    """Columns that are added to the margins of each row.

    A margin is the sum of base margin and leaves, which is exact, plus the offset, which is added last: the same bits
    in every engine and every language.

    Attributes
    ----------
    kind
        ``"base_margin"``: columns are added as they are. ``"exposure"``: the logarithm of a column is added, which is
        NULL where the column is not above 0. NaN is NULL, in either.
    columns
        For each margin its column; None where nothing is added.
    """

    kind: Literal["base_margin", "exposure"]
    columns: tuple[str | None, ...]

    def __str__(self) -> str:
        return f"{self.kind} {', '.join(map(shown, self.names))}"

    @property
    def names(self) -> list[str]:
        """The columns, each once."""
        return list(dict.fromkeys(name for name in self.columns if name is not None))

    @property
    def features(self) -> list[Feature]:
        """The columns as what readers of files and databases need of them: a name and a type."""
        return [Feature(name, FeatureType("float64")) for name in self.names]

    @property
    def arguments(self) -> dict[str, str | list[str]]:
        """The argument of `frameboost.fit` that the offset comes from, as in the model file."""
        names = self.names if self.kind == EXPOSURE else [name for name in self.columns if name is not None]
        return {self.kind: names[0] if len(names) == 1 else names}

    def exprs(self) -> list[pl.Expr | None]:
        """Return what is added to each margin as polars expressions, null where the column is NULL or NaN."""
        return [
            None if name is None else self._expr(column(name).cast(pl.Float64).fill_nan(None)) for name in self.columns
        ]

    def _expr(self, values: pl.Expr) -> pl.Expr:
        return pl.when(values > 0).then(values.log()) if self.kind == EXPOSURE else values

    def check(self, rows: pl.DataFrame) -> None:
        """Raise `DataError` if what is added is not a finite number in some of the rows, which have the columns."""
        for name, expr in zip(self.columns, self.exprs(), strict=True):
            if expr is not None and (wrong := len(rows) - rows.select(expr.is_finite().sum()).item()):
                raise DataError(self.message(str(name), wrong, len(rows)))

    def message(self, name: str, wrong: int, n_rows: int) -> str:
        """Return what to say of rows in which a column does not have a number that can be added."""
        if self.kind == EXPOSURE:
            return (
                f"exposure {shown(name)} is 0, negative, NULL, NaN or infinite in {wrong:,} of {n_rows:,} rows; give "
                "every row an exposure above 0"
            )
        return (
            f"base_margin {shown(name)} is NULL, NaN or infinite in {wrong:,} of {n_rows:,} rows; give every row a "
            "finite margin"
        )

    def in_training(self, margins: Sequence[str]) -> dict[str, Expression]:
        """Return what is added to the margins of these names, over the roles of the rows of an engine."""
        return {
            margin: Expression(f"LN({EXPOSURE})", (EXPOSURE,))
            if self.kind == EXPOSURE
            else Expression(f"base_{margin}", (f"base_{margin}",))
            for margin, name in zip(margins, self.columns, strict=True)
            if name is not None
        }

    def roles(self, margins: Sequence[str]) -> dict[str, str]:
        """Return the columns by the roles that `in_training` reads."""
        if self.kind == EXPOSURE:
            return {EXPOSURE: self.names[0]}
        return {f"base_{margin}": str(name) for margin, name in zip(margins, self.columns, strict=True)}


def offset_of(loss: Loss, arguments: Mapping[str, str | Sequence[str] | None]) -> Offset | None:
    """Return the offset that ``base_margin`` or ``exposure`` names; None if both are None.

    Raises
    ------
    ParameterError
        If both are named, base margins are not one for each margin, or the loss has no log link for the exposure.
    """
    base_margin, exposure = arguments.get("base_margin"), arguments.get(EXPOSURE)
    if base_margin is not None and exposure is not None:
        raise ParameterError("exposure does not go with base_margin; add LN(exposure) to the column of base margins")
    if base_margin is not None:
        columns = [base_margin] if isinstance(base_margin, str) else list(base_margin)
        if len(columns) != loss.n_outputs:
            raise ParameterError(
                f"base_margin names {counted(len(columns), 'column')}; objective {shown(loss.name)} has "
                f"{loss.n_outputs} margins"
            )
        return Offset("base_margin", tuple(columns))
    if exposure is None:
        return None
    if not (exposed := _exposed(loss)):
        raise ParameterError(
            f"exposure is for objectives with a log link, such as 'count:poisson', not for {shown(loss.name)}; an "
            "offset of another kind is a base_margin"
        )
    return Offset("exposure", tuple(str(exposure) if k in exposed else None for k in range(loss.n_outputs)))


def _exposed(loss: Loss) -> list[int]:
    """Return the margins of which the prediction is the exponential, up to a factor: those with a log link.

    A link may be any expression of the user, so predictions are compared: if the margin is larger by 1, they are e
    times as large, or do not depend on it.
    """
    if loss.classes or loss.link_terms:
        return []
    points = [0.3, -1.1, 1.7]
    exposed = []
    for k in range(loss.n_outputs):
        scaled = False
        for link in loss.links:
            before, after = (
                pl.select(link.to_polars({
                    margin: pl.lit(pl.Series([at / (1 + j) + moved * (j == k) for at in points]))
                    for j, margin in enumerate(loss.margins)
                })).to_series().to_list()
                for moved in (0.0, 1.0)
            )  # fmt: skip
            if before == after:
                continue
            scaled = all(
                isinstance(a, float) and isinstance(b, float) and a != 0 and math.isclose(b, math.e * a, rel_tol=1e-9)
                for a, b in zip(before, after, strict=True)
            )
            if not scaled:
                break
        if scaled:
            exposed.append(k)
    return exposed
