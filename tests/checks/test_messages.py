"""Error messages stay short whatever value they name, since each value passes through `frameboost.checks.messages`."""

import ast

import numpy as np
import polars as pl
import pytest

from frameboost.checks.messages import did_you_mean, listed, reason, shortened, shown
from tests.support.cases import cases
from tests.support.package import MODULES


class Hostile:
    def __repr__(self):
        raise RuntimeError("no")


LARGE = [
    "x" * 10**6, "\x00" * 10**5, b"x" * 10**5, list(range(10**5)), {"x" * 10**5: ["y" * 10**5] * 100}, 10**100_000,
    np.zeros((300, 300)), pl.DataFrame({"x" * 1000: range(1000)}), [[[[["deep" * 100] * 20] * 20] * 20] * 20],
    Hostile(), object(), type, lambda: None, "\ud800" * 200, {1, 2, 3}, float("nan"),
]  # fmt: skip


@pytest.mark.slow
@cases("value", LARGE)
def test_a_value_is_shown_on_one_line_of_80_characters(value):
    assert 0 < len(shown(value)) <= 80
    assert "\n" not in shown(value)
    shown(value).encode()  # a lone surrogate is escaped


@cases("value", ["delay", "it's", 'a "name"', "", 5, -0.5, None, True, ["a", 1], ("a",), {"a": [1]}])
def test_a_short_value_is_shown_as_python_writes_it(value):
    assert shown(value) == repr(value)


def test_a_value_is_cut_after_77_characters():
    assert shown("x" * 78) == "'" + "x" * 78 + "'"
    assert shown("x" * 79) == "'" + "x" * 76 + "..."
    assert shown("x" * 500) == "'" + "x" * 76 + "..."
    assert shortened("x" * 80) == "x" * 80
    assert shortened("x" * 81) == "x" * 77 + "..."
    assert shortened("two\n  lines") == "two lines"


def test_names_are_listed_up_to_ten():
    assert listed(["b", "a"]) == "'b', 'a'"
    assert listed(map(str, range(1_011))).endswith("'9' and 1,001 more")
    assert listed(range(11), None) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10"


def test_the_nearest_name_is_asked_for_in_its_own_case():
    assert did_you_mean("DELYA", ["Delay", "day"]) == "; did you mean 'Delay'?"
    assert did_you_mean("eta", [], {"eta": "learning_rate"}) == "; did you mean 'learning_rate'?"
    assert [did_you_mean(name, ["a"]) for name in ("zzz", 5, None, "a" * 10**6)] == [""] * 4


def test_a_reason_is_the_first_line():
    assert reason(ValueError("one\ntwo")) == "one"
    assert len(reason(ValueError("x" * 10**6))) == 160


@pytest.mark.slow
def test_no_error_message_contains_an_unshortened_value():
    repeated = []
    for path in MODULES.values():
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "repr(" in text or "!r" in text else ():
            if isinstance(node, ast.Raise):
                repeated += [f"{path}:{part.lineno}" for part in ast.walk(node) if _writes_repr(part)]
    assert repeated == [], "write {shown(...)}, not {...!r}"


def _writes_repr(part: ast.AST) -> bool:
    if isinstance(part, ast.FormattedValue):
        return part.conversion == ord("r")
    called = [part.func, *part.args] if isinstance(part, ast.Call) else []
    return any(isinstance(name, ast.Name) and name.id == "repr" for name in called)
