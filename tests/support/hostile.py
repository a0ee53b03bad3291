"""Names, categories and labels that mean something in a language that they reach; each is data everywhere."""

__all__ = ["HOSTILE_NAMES", "NOT_SHOWN", "SCRIPT"]

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
