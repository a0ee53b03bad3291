"""``frameboost convert``: converts a model file to another library's format."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from frameboost.cli.arguments import Commands, add_command, check_keep
from frameboost.cli.outputs import write_model
from frameboost.data.opening import open_source
from frameboost.data.several_files import TableFiles
from frameboost.data.table_files import check_writable, write_text
from frameboost.interop.to_xgboost import to_xgboost
from frameboost.loading import open_model

__all__ = ["add_convert"]

_EXAMPLE = "frameboost convert booster.ubj -o booster.json"


def add_convert(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(commands, "convert", "Write a model in another file format", _convert, _EXAMPLE)
    add = parser.add_argument
    add("model", metavar="MODEL", help="the model's file")
    add("-o", "--out", required=True, metavar="FILE", help="the file to write ('-': standard output)")
    add("--to", default="frameboost", choices=("frameboost", "xgboost"),
        help="default frameboost, a model's own file: JSON, or binary if it is named .ubj")  # fmt: skip
    add("--categories", metavar="DATA",
        help="for a model of CatBoost, which keeps only hashes of categories: a table that has them all, such as that "
        "of training")  # fmt: skip


def _convert(given: argparse.Namespace) -> None:
    check_writable(given.out)

    def categories(names: list[str]) -> Mapping[str, list[Any]]:
        data = open_source(TableFiles((given.categories,)))
        check_keep(names, data.names())
        return {name: data.to_frame([name]).unique().collect().to_series().sort().to_list() for name in names}

    model = open_model(given.model, None if given.categories is None else categories)
    if given.to == "xgboost":
        write_text(given.out, to_xgboost(model.ensemble))
    else:
        write_model(model, given.out)
