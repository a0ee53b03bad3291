"""``frameboost auto``: trains a good model by one call and writes its file."""

from __future__ import annotations

import argparse
from pathlib import Path
from time import monotonic

from frameboost.cli.arguments import Commands, add_command, add_target_and_model, setting
from frameboost.cli.inputs import add_data, read_data
from frameboost.cli.outputs import size_of, write_model
from frameboost.cli.screen import print_facts, print_table
from frameboost.cli.train_facts import listed_features
from frameboost.data.table_files import STDOUT, check_writable
from frameboost.tuning.auto import auto

__all__ = ["add_auto"]

_EXAMPLE = "frameboost auto flights.parquet --target arr_delay --exclude id --time-limit 60 -o model.json"


def add_auto(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(commands, "auto", "Train a good model: settings chosen by held-out rows", _auto, _EXAMPLE)
    parser.usage = "frameboost auto DATA ... --target COLUMN -o MODEL [options]"
    add = parser.add_argument
    add_data(parser)
    add_target_and_model(parser)
    add("--quality", type=int, default=3, metavar="{1..5}", help="how much to spend, from 1 to 5; default 3")
    add("--time-limit", type=float, metavar="SECONDS", help="after which no more round is trained")
    add("--time", metavar="COLUMN", help="the column by which the last rows are held out")
    add("--groups", metavar="COLUMN", help="the column whose rows of one value stay together")
    add("--coverage", type=float, default=0.9, metavar="SHARE", help="of labels that intervals hold; default 0.9")
    add("--seed", type=int, default=0, metavar="INT", help="the seed of folds and draws; default 0")
    add("--checkpoint", metavar="FOLDER", help="a folder from which the same command goes on after a crash")
    add("--quiet", action="store_true", help="no progress bar, and no summary at the end")
    add("--param", type=setting, action="append", default=[], metavar="NAME=VALUE", dest="settings",
        help="any other argument of frameboost.auto by its name in Python: weight=w, max_depth=3")  # fmt: skip


def _auto(given: argparse.Namespace) -> None:
    check_writable(given.out)
    started = monotonic()
    data, target = read_data(given), given.target[0] if len(given.target) == 1 else given.target
    model = auto(
        data, target, quality=given.quality, time_limit=given.time_limit, time=given.time, groups=given.groups,
        coverage=given.coverage, features=given.features, exclude=given.exclude, seed=given.seed,
        checkpoint=given.checkpoint, verbose=False if given.quiet else None, **dict(given.settings),
    )  # fmt: skip
    write_model(model, given.out)
    if not given.quiet and given.out != STDOUT:
        size = Path(given.out).stat().st_size
        print_facts(
            {
                "objective": model.objective,
                "features": f"{len(model.features):,}: {listed_features(model)}",
                "trees": f"{model.n_trees:,}",
                "seconds": f"{monotonic() - started:.1f}",
                "file": f"{given.out} ({size_of(size)})",
            }
        )
        print_table(model.leaderboard)
