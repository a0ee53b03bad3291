"""Files that a model writes: the comment at the head of a SQL file, and a dbt project's model, description and macros.

What comes from a model or a user is data in three of dbt's languages: as text around Jinja's tags (`_in_jinja`), as a
string within them (`_jinja_string`), and as a string of YAML (`_yaml_string`), which dbt renders with Jinja as well.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from frameboost.checks.messages import counted, listed, shown
from frameboost.compile.sql.conditions import FeatureColumn
from frameboost.data.written_files import write_text
from frameboost.dialects.dialect import Dialect
from frameboost.ensemble.ensemble import Ensemble
from frameboost.ensemble.model_file import model_hash
from frameboost.errors import ParameterError

__all__ = ["DbtQuery", "Materialization", "check_dbt_names", "header", "write_dbt"]


# --- the head of a SQL file -------------------------------------------------------------------------------------------


def header(
    ensemble: Ensemble, columns: Sequence[FeatureColumn], column_names: Mapping[str, str], dialect: str, trained: object
) -> str:
    """Return comment lines; ``column_names`` has the columns whose name differs from the feature's.

    Raises
    ------
    ParameterError
        If ``trained`` is neither a date, a text of one line, nor None.
    """
    trees = counted(len(ensemble.trees), "tree")
    lines = [
        f"A gradient boosted model: {_in_comment(ensemble.loss.name)}, {trees}, as SQL for {dialect}.",
        f"model    sha256 {model_hash(ensemble)}",
    ]
    about = ensemble.metadata
    named = {"name": about.name, "version": about.version}
    if title := ", ".join(f"{what} {_in_comment(text)}" for what, text in named.items() if text is not None):
        lines.append(f"called   {title}")
    text = trained.isoformat() if isinstance(trained, dt.date) else about.training if trained is None else trained
    if not isinstance(text, str) or not text.isprintable():
        raise ParameterError(f"trained must be a date or a line of text, not {shown(trained)}")
    if text:
        lines.append(f"trained  {text}")
    if about.tags:
        lines.append(
            "tags     " + ", ".join(f"{_in_comment(k)}: {_in_comment(v)}" for k, v in sorted(about.tags.items()))
        )
    lines.append("reads    column: type in training, column type here")
    offset = {} if ensemble.offset is None else dict.fromkeys(ensemble.offset.names, ensemble.offset.kind)
    for column in columns:
        kind = column.feature.type
        name = column_names.get(column.feature.name, column.feature.name)
        role = f", the {offset[column.feature.name]}" if column.feature.name in offset else ""
        lines.append(f"         {_in_comment(name)}: {kind}, {column.dialect.type_of(kind)}{role}")
    if ensemble.offset is not None:
        added = "LN(exposure)" if ensemble.offset.kind == "exposure" else "the base_margin"
        lines.append(f"offset   {added} is added to the margin; where it is NULL or NaN, the prediction is NULL")
    if fine := ensemble.needs_float64():
        names = ", ".join(_in_comment(column_names.get(name, name)) for name in fine)
        lines.append(f"note     as float32, {names} may take the other branch next to a threshold")
    return "".join(f"-- {line}\n" for line in lines)


# What clients replace or split at in comments too: variables of Spark, SQL*Plus and drivers, quotes, semicolons.
_REPLACED = re.compile(r"""["'`$&;{}%?@]|(?<!\w):(?=\w)""")


def _in_comment(name: str) -> str:
    r"""Return a name as JSON in ASCII, of which no character ends the comment's line or means something to a client.

    >>> print(_in_comment("reg:squarederror"), _in_comment("${env:USER}; DROP"), _in_comment("a\nb"))
    "reg:squarederror" "\u0024\u007benv:USER\u007d\u003b DROP" "a\nb"
    """
    replaced = {at.start() for at in _REPLACED.finditer(name)}
    return f'"{"".join(_escape_in_json(c) if at in replaced else json.dumps(c)[1:-1] for at, c in enumerate(name))}"'


def _escape_in_json(character: str) -> str:
    return f"\\u{ord(character):04x}"


# --- dbt --------------------------------------------------------------------------------------------------------------

# Names with a meaning in Jinja or in dbt's templates.
_TAKEN = frozenset([
    "adapter", "and", "api", "as", "block", "builtins", "call", "caller", "config", "context", "cycler",
    "dbt_metadata_envs", "debug", "dict", "do", "doc", "else", "env_var", "execute", "exceptions", "extends", "false",
    "False", "filter", "for", "from", "fromjson", "fromyaml", "graph", "if", "import", "in", "include",
    "invocation_id", "is", "joiner", "lipsum", "local_md5", "log", "loop", "macro", "model", "modules", "namespace",
    "none", "None", "not", "or", "project_name", "raw", "ref", "return", "run_query", "run_started_at", "schema",
    "selected_resources", "self", "set", "set_strict", "source", "sql", "super", "target", "this", "thread_id",
    "tojson", "toyaml", "true", "True", "validation", "var", "varargs", "kwargs", "with", "zip", "zip_strict",
    "range", "diff_of_two_dicts", "statement", "print", "write", "flags", "store_result", "load_result",
])  # fmt: skip
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OPENING = re.compile(r"\{(?=[{%#])")
# Materializations of dbt that are not those of a model.
_NOT_OF_MODELS = frozenset(["clone", "function", "seed", "snapshot", "test", "unit"])
# Databases whose adapters append rows whatever the unique key is, unless their strategy is to merge.
_APPENDING = frozenset(["athena", "spark", "trino"])


@dataclass(frozen=True)
class Materialization:
    """How dbt makes the model: ``kind``, and which rows a later run of an incremental one scores and replaces.

    Attributes
    ----------
    kind
        The name in dbt.
    unique_key
        The columns of the rows' key.
    where
        A condition on the rows of later runs: SQL that may have Jinja in it.
    """

    kind: str
    unique_key: Sequence[str] = ()
    where: str | None = None

    @classmethod
    def checked(
        cls, kind: str | None, unique_key: str | Sequence[str] | None, where: str | None, keep: Sequence[str] | None
    ) -> Materialization | None:
        """Return how the model is to be made, or None for the default.

        Raises
        ------
        ParameterError
            If an incremental model would append all rows at each run, or the options are not those of one.
        """
        keys = [unique_key] if isinstance(unique_key, str) else list(unique_key or ())
        if kind in _NOT_OF_MODELS:
            raise ParameterError(
                f"materialized={shown(kind)} is not for a dbt model; take 'view', 'table', 'ephemeral' or 'incremental'"
            )
        if kind != "incremental":
            if keys or where is not None:
                raise ParameterError(
                    "unique_key and where are of materialized='incremental', whose later runs score some of the rows, "
                    f"not of {shown(kind)}"
                )
            return None if kind is None else cls(kind)
        if not keys and where is None:
            raise ParameterError(
                "materialized='incremental' would append all rows at each run; name the columns that tell rows apart, "
                "unique_key='id', or the rows to score from the second run on, "
                "where='loaded_at > (SELECT MAX(loaded_at) FROM {{ this }})', or both"
            )
        lacking = [] if keep is None else [key for key in keys if key not in keep]
        if lacking:
            raise ParameterError(
                f"unique_key has {listed(lacking)}, which keep must have too, as columns of the result"
            )
        return cls(kind, keys, where)

    def config(self, dialect: Dialect) -> str:
        """Return the arguments of dbt's ``config``."""
        config = f"materialized={_jinja_string(self.kind)}"
        if self.unique_key:
            quoted = ", ".join(_jinja_string(dialect.quote(key)) for key in self.unique_key)
            config += f", unique_key={quoted}" if len(self.unique_key) == 1 else f", unique_key=[{quoted}]"
            config += ', incremental_strategy="merge"' if dialect.name in _APPENDING else ""
        return config


def check_dbt_names(argument: str, *names: str) -> None:
    """Raise `ParameterError` if a name can't be that of a dbt model or macro."""
    for name in names:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ParameterError(
                f"{argument} must be a name as dbt's are, of letters, digits and underscores, not {shown(name)}"
            )
        if name in _TAKEN:
            raise ParameterError(f"{argument} {shown(name)} means something else in dbt's templates; give another one")


@dataclass(frozen=True)
class DbtQuery:
    """A scoring query in which dbt fills in what it reads.

    Attributes
    ----------
    text
        The query.
    table
        What it reads, quoted.
    refs
        The dbt models that are joined to that, by the quoted tables that they are in the query.
    condition
        A condition on the rows, as a placeholder of `Materialization.where`.
    """

    text: str
    table: str
    refs: Mapping[str, str]
    condition: str

    def over(self, table: str, where: str = "") -> str:
        """Return the query over a relation, an expression of Jinja, with a WHERE clause."""
        text = _in_jinja(self.text)
        for quoted, ref in self.refs.items():
            text = text.replace(quoted, f"{{{{ ref({_jinja_string(ref)}) }}}}")
        return text.replace(self.table, f"{{{{ {table} }}}}").replace(f"\nWHERE {self.condition}", where)


def write_dbt(
    folder: str | Path, source: str, head: str, queries: Mapping[str, DbtQuery], expression: str | None,
    columns: Mapping[str, str], made: Materialization, dialect: Dialect,
) -> list[Path]:  # fmt: skip
    """Write the files that `DatabaseModel.to_dbt` describes, and return their paths.

    ``queries`` are those of the dbt models by name, the scores' last; ``expression`` is the model as one, or None if it
    does not fit into one; ``columns`` describe those of the result.
    """
    folder = Path(folder)
    *parts, name = queries
    later = "" if made.where is None else f"{{% if is_incremental() %}}\nWHERE {made.where}\n{{% endif %}}"
    of_parts = Materialization("view") if made.kind == "incremental" else made

    def written(model: str) -> str:
        how, condition = (made, later) if model == name else (of_parts, "")
        text = queries[model].over(f"ref({_jinja_string(source)})", condition)
        return f"{{{{ config({how.config(dialect)}) }}}}\n{_in_jinja(head)}{text}\n"

    macros = f"{{# {name}_query: the query that scores a relation #}}\n{{% macro {name}_query(relation) -%}}\n"
    macros += queries[name].over("relation") + "\n{%- endmacro %}\n"
    if expression is not None:
        macros += f"\n{{# {name}: the model as an expression over the columns of the query it stands in #}}\n"
        macros += f"{{% macro {name}() -%}}\n{_in_jinja(expression)}\n{{%- endmacro %}}\n"
    files = {folder / "models" / f"{each}.sql": written(each) for each in queries}
    files[folder / "models" / f"{name}.yml"] = _description(name, head, columns, dialect, parts)
    if not parts:
        files[folder / "macros" / f"{name}.sql"] = macros
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
    return list(files)


def _in_jinja(text: str) -> str:
    """Escape text around Jinja's tags: opening braces and carriage returns become expressions that evaluate to them.

    Jinja would replace a carriage return by a line feed.
    """
    return _OPENING.sub('{{ "{" }}', text).replace("\r", '{{ "\\r" }}')


def _jinja_string(text: str) -> str:
    r"""Return a string within Jinja's tags.

    dbt has a separate parser for files with few tags, which takes what is between the quotes as it is. So a string
    is written without escapes if it can be, and otherwise as a sum, which that parser leaves to Jinja.

    >>> print(_jinja_string("orders"), _jinja_string('"id"'), _jinja_string("it's {{ é"))
    "orders" '"id"' "" ~ "it's \x7b\x7b \xe9"
    """
    if text.isascii() and text.isprintable() and not set("\\{}%#") & set(text) and not {"'", '"'} <= set(text):
        quote = "'" if '"' in text else '"'
        return f"{quote}{text}{quote}"
    return f'"" ~ {_in_quotes(text, lambda c: c.isascii() and c not in "{}%#")}'


def _yaml_string(text: str) -> str:
    r"""Return a string of YAML. JSON's are not YAML's: a character beyond U+FFFF would be two surrogates.

    >>> print(_yaml_string('a: "b" \n \x85 😀'))
    "a: \"b\" \x0a \x85 😀"
    """
    return _in_quotes(text, lambda c: True)


def _in_quotes(text: str, may_stand: Callable[[str], bool]) -> str:
    """Return a text in double quotes, with the escapes that strings of Jinja (which are Python's) and of YAML share."""
    return f'"{"".join(c if c.isprintable() and may_stand(c) and c not in _ESCAPED else _escape(c) for c in text)}"'


_ESCAPED = frozenset('"\\')


def _escape(character: str) -> str:
    code = ord(character)
    if character in _ESCAPED:
        return f"\\{character}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _description(name: str, head: str, columns: Mapping[str, str], dialect: Dialect, parts: Sequence[str]) -> str:
    """Return the YAML description, of which dbt renders the strings with Jinja.

    The query writes names in quotes, so dbt's tests must too: dbt quotes a name only by option, and does not double a
    quote within.
    """
    about = " ".join(line.removeprefix("-- ").strip() for line in head.splitlines()[:2])
    lines = [
        "version: 2",
        "models:",
        f"  - name: {_yaml_string(name)}",
        f"    description: {_yaml_string(_in_jinja(about))}",
        "    columns:",
    ]
    for column, text in columns.items():
        inside = dialect.quote(column)[1:-1]
        lines += [
            f"      - name: {_yaml_string(_in_jinja(inside))}",
            "        quote: true",
            f"        description: {_yaml_string(_in_jinja(text))}",
        ]
    for part in parts:
        lines += [f"  - name: {_yaml_string(part)}", f"    description: {_yaml_string(f'a step of {name}')}"]
    return "\n".join(lines) + "\n"
