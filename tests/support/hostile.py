"""Names, categories and labels that mean something in a language that they reach; each is data everywhere."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import polars as pl

import frameboost as fb

__all__ = ["HOSTILE_NAMES", "NOT_SHOWN", "SCRIPT", "Hostile", "hostile", "hostile_charts"]

SCRIPT = "</script><script>document.title='ran'</script>"
"""A name that would be run where it is pasted into a page or a script element: it changes the title of the page."""

HOSTILE_NAMES = [
    # HTML, attributes, script elements, SVG
    SCRIPT, "<img src=x onerror=\"document.title='ran'\">", "'\" onmouseover=alert(1) x=\"", "<!--<script>", "-->",
    "]]>", "<![CDATA[", "&lt;b&gt; &amp; &#60;", "javascript:alert(1)", "https://example.org/x.png",
    # JavaScript, Vega and its expressions, Altair's shorthand
    "\u2028\u2029", "\\u003c", "\\", "a\\n", "a.b[0]['c']", "datum['x']", "signal", "event.item", "__proto__",
    "toString", "constructor", "a:Q", "count()", "@name", "*", ",", ";", "%", "#", "-",
    # terminals, and rich's markup
    "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\x9b2J", "\r overwritten", "a\bb", "\x7f", "\u202etxt.exe", "\u200b",
    "[red]red[/red]", "[link=https://example.org]x[/link]", ":smile:",
    # Jinja, and what replaces text in it
    "{{ 1 + 1 }}", "{% endmacro %}", "{# comment", "{{", "}}", "${HOME}", "$1", "$x$", "{x}", "%s", "%(x)s", "\\{{",
    # YAML
    "a: b", "- a", "yes", "null", "~", "!!python/object:os.system", "&a", "*a", "| a", "> a", "? a", "1e5",
    # SQL
    "it's", 'a"b', "`a`", "[a]", "--", "/* a */", "*/", "a;b", "a\nDROP TABLE t; --",
    # Markdown and LaTeX
    "*bold* _it_ ~~no~~", "[x](javascript:alert(1))", "![x](x)", "a|b", "# a", "`code`", "<https://example.org>",
    "\\textbf{x}", "\\input{/etc/passwd}", "x_1^2", "&%$#_{}~^", "$\\alpha$",
    # spreadsheets
    "=1+1", "+1", "@SUM(A1)", "-1+1|cmd", "\t=1",
    # paths and shells
    "../../etc/passwd", "a/b", "C:\\x", "CON", "~/x", "$(touch x)", "`touch x`", "| touch x", "*.sql",
    # Unicode and blanks
    "naïve ☃", "日本", "😀 a", "e\u0301", "ﬁ", "A", " a ", "a\tb", "\x85", "\ufeffa",
]  # fmt: skip
"""Names of columns that every database can have: without NUL, and none that is empty."""

NOT_SHOWN = frozenset(chr(code) for code in range(0x20) if chr(code) not in "\n\t") | {
    "\x7f", *map(chr, range(0x80, 0xA0)), "\u202e", "\u200b", "\u2028", "\u2029", "\ufeff",
}  # fmt: skip
"""Characters that no text for a terminal may hold: they command it, or change what is read around them."""


@dataclass(frozen=True)
class Hostile:
    """Rows with such names and values, and models of them: of a number, of two classes and of several."""

    rows: pl.DataFrame
    kind: str
    time: str
    targets: tuple[str, str, str]
    models: tuple[fb.Model, fb.Model, fb.Model]


@cache
def hostile() -> Hostile:
    """Return the rows and the models."""
    rng, n = np.random.default_rng(4), 2 * len(HOSTILE_NAMES)
    features = [SCRIPT, "C:\\x", "constructor", '\\" + warn(1) + "', *HOSTILE_NAMES[9::10]]
    kind, time, targets = "<i>kind</i>\x1b[2J", "</title>\u202e", ("<b>y</b>\\u", "</script>two", "]]>several\x9b")
    rows = pl.DataFrame({name: rng.normal(size=n) for name in features}).with_columns(
        pl.Series(kind, HOSTILE_NAMES * 2), pl.Series(time, [HOSTILE_NAMES[i % 7] for i in range(n)])
    )
    code = pl.Series(range(n)) % len(HOSTILE_NAMES)
    rows = rows.with_columns(
        (pl.sum_horizontal(features) + code % 5).alias(targets[0]),
        pl.Series(targets[1], [HOSTILE_NAMES[i % 5 % 2] for i in code]),
        pl.Series(targets[2], [HOSTILE_NAMES[i % 7 * 9] for i in code]),
    )
    models = [fb.fit(rows, y, features=[*features, kind], n_estimators=2, max_depth=4, valid=0.2) for y in targets]
    return Hostile(rows, kind, time, targets, tuple(models))


@cache
def hostile_charts() -> dict[str, Any]:
    """Return charts of the models: of each function, of all names as titles, and some beside each other."""
    import altair as alt

    from frameboost import plots
    from frameboost.plots.names import drawable

    of = hostile()
    (number, two, several), (y, label, labels), rows = of.models, of.targets, of.rows
    found: dict[str, Any] = {
        "learning_curves": plots.learning_curves(number),
        "importance": plots.importance(number, top=40),
        "tree": plots.tree(number),
        "partial_dependence": plots.partial_dependence(number, rows, SCRIPT, ice=5),
        "partial_dependence of categories": plots.partial_dependence(number, rows, of.kind),
        "dependence on two": plots.partial_dependence(number, rows, ["constructor", of.kind]),
        "shap_summary": plots.shap_summary(number, rows),
        "waterfall": plots.waterfall(several, rows[:1], top=40, output=rows[labels][0]),
        "shap_dependence": plots.shap_dependence(number, rows, of.kind),
        "calibration": plots.calibration(several, rows, labels),
        "roc": plots.roc(several, rows, labels),
        "precision_recall": plots.precision_recall(two, rows, label),
        "threshold_costs": plots.threshold_costs(two, rows, label),
        "gains": plots.gains(several, rows, labels),
        "lift": plots.lift(two, rows, label),
        "confusion": plots.confusion(several, rows, labels),
        "residuals": plots.residuals(number, rows, y),
        "drift": plots.drift(number, rows, number.database().baseline(rows), of.time),
    }
    assert set(plots.__all__) <= set(found)
    point = alt.Chart(pl.DataFrame({"x": [1.0]})).mark_point()
    tooltips = [alt.Tooltip("x:Q", title=name) for name in HOSTILE_NAMES]
    odd = ["C:\\x", '\\" + warn(1) + "', "a\nb", "toString", "\u2028"]
    titled = [point.encode(x=alt.X("x:Q", title=name), tooltip=tooltips) for name in odd]
    return found | {
        "titles": drawable(alt.concat(*titled)),
        "side by side": alt.hconcat(found["tree"], found["importance"] | found["confusion"]),
    }
