"""The files of a model in a dbt project: dbt models that score rows, their description, macros and tests.

Text from models and users is escaped for each language: around Jinja's tags (`_in_jinja`), as a string within them
(`_jinja_string`), and as a YAML string (`frameboost.database.dbt_project.yaml_text`), which dbt renders with Jinja as
well.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from frameboost.checks.messages import listed, shown
from frameboost.compile.sql.sql_model import SqlModel
from frameboost.data.written_files import write_text
from frameboost.database.dbt_project import MACRO, MODEL, TEST, WRITTEN, DbtProject, in_quotes
from frameboost.dialects.dialect import Dialect
from frameboost.errors import ParameterError
from frameboost.losses.loss import Loss
from frameboost.losses.outputs import value_range

__all__ = [
    "DbtColumn",
    "DbtModel",
    "DbtQuery",
    "Materialization",
    "check_dbt_names",
    "check_exposure",
    "relation",
    "values_test",
]

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
    """dbt's materialization: ``kind``, and for an incremental model the rows that later runs score and replace.

    Attributes
    ----------
    kind
        The name in dbt.
    unique_key
        The columns of the rows' key.
    where
        A predicate on the rows of later runs: SQL with optional Jinja.
    """

    kind: str
    unique_key: Sequence[str] = ()
    where: str | None = None

    @classmethod
    def checked(
        cls, kind: str | None, unique_key: str | Sequence[str] | None, where: str | None, keep: Sequence[str] | None
    ) -> Materialization | None:
        """Return the checked materialization, or None for the default.

        Raises
        ------
        ParameterError
            If an incremental model would append all rows at each run, or another kind has its options.
        """
        keys = [unique_key] if isinstance(unique_key, str) else list(unique_key or ())
        if kind in _NOT_OF_MODELS:
            raise ParameterError(
                f"materialized={shown(kind)} is not for a dbt model; use 'view', 'table', 'ephemeral' or 'incremental'"
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
                "materialized='incremental' would append all rows at each run; set the key columns, unique_key='id'"
                ", or the rows to score from the second run on, "
                "where='loaded_at > (SELECT MAX(loaded_at) FROM {{ this }})', or both"
            )
        lacking = [] if keep is None else [key for key in keys if key not in keep]
        if lacking:
            raise ParameterError(
                f"unique_key has {listed(lacking)}, which keep must have too, as columns of the result"
            )
        return cls(kind, keys, where)

    def config(self, dialect: Dialect) -> dict[str, Any]:
        """Return the arguments of dbt's ``config``."""
        config: dict[str, Any] = {"materialized": self.kind}
        if self.unique_key:
            quoted = [dialect.quote(key) for key in self.unique_key]
            config["unique_key"] = quoted[0] if len(quoted) == 1 else quoted
            if dialect.name in _APPENDING:
                config["incremental_strategy"] = "merge"
        return config


def check_dbt_names(argument: str, *names: str) -> None:
    """Raise `ParameterError` if a name is not valid for a dbt model or macro."""
    for name in names:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ParameterError(
                f"{argument} must be a valid dbt name, of letters, digits and underscores, not {shown(name)}"
            )
        if name in _TAKEN:
            raise ParameterError(f"{argument} {shown(name)} is reserved in dbt's templates; choose another one")


def relation(argument: str, name: str) -> str:
    """Return the template expression for a dbt model, or for a table of a source, with a dot in its name.

    Raises
    ------
    ParameterError
        If the name is not valid in dbt.

    Examples
    --------
    >>> relation("source", "stg_orders"), relation("source", "raw.orders")
    ('ref("stg_orders")', 'source("raw", "orders")')
    """
    parts = Dialect.parts_of(name) if isinstance(name, str) else []
    if len(parts) == 2 and all(part and part.isprintable() for part in parts):
        return f"source({_jinja(parts[0])}, {_jinja(parts[1])})"
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ParameterError(
            f"{argument} must be the name of a dbt model, of letters, digits and underscores, or a source and its "
            f"table ('raw.orders'), not {shown(name)}"
        )
    check_dbt_names(argument, name)
    return f"ref({_jinja(name)})"


# What dbt takes of an exposure. https://docs.getdbt.com/reference/exposure-properties
_KEYS = ("name", "type", "owner", "label", "description", "url", "maturity")
_TYPES = ("dashboard", "notebook", "analysis", "ml", "application")
_MATURITIES = ("high", "medium", "low")
_OWNER = ("name", "email")


def check_exposure(exposure: Any) -> None:
    """Raise `ParameterError` if an exposure lacks required keys, or has keys or values that dbt rejects."""
    if not isinstance(exposure, Mapping) or not {"name", "type", "owner"} <= exposure.keys():
        raise ParameterError(
            "exposure must be a dict with 'name', 'type' and 'owner', such as {'name': 'delivery_dates', 'type': "
            f"'application', 'owner': {{'email': 'shop@example.org'}}}}, not {shown(exposure)}"
        )
    if others := [key for key in exposure if key not in _KEYS]:
        raise ParameterError(f"exposure has {listed(others)}; it may have {listed(_KEYS, None)}")
    name, owner = exposure["name"], exposure["owner"]
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ParameterError(
            f"the name of an exposure must be of letters, digits and underscores, not {shown(name)}; 'label' may be any"
        )
    for key, known in {"type": _TYPES, "maturity": _MATURITIES}.items():
        if key in exposure and exposure[key] not in known:
            raise ParameterError(f"the {key} of an exposure must be one of {listed(known)}, not {shown(exposure[key])}")
    is_owner = isinstance(owner, Mapping) and owner and set(owner) <= {*_OWNER}
    if not is_owner or not all(isinstance(each, str) and each for each in owner.values()):
        raise ParameterError(
            f"the owner of an exposure must have a name, an email or both, as texts, not {shown(owner)}"
        )
    for key in ("label", "description", "url"):
        if key in exposure and not isinstance(exposure[key], str):
            raise ParameterError(f"the {key} of an exposure must be text, not {shown(exposure[key])}")


# --- what is written --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DbtQuery:
    """A query with placeholders that dbt fills in.

    Attributes
    ----------
    text
        The query.
    table
        The table that it reads, quoted.
    refs
        Jinja expressions for other relations, by their quoted names in the query.
    condition
        The placeholder of `Materialization.where`, or empty.
    """

    text: str
    table: str
    refs: Mapping[str, str]
    condition: str = ""

    def over(self, table: str, where: str = "") -> str:
        """Return the query over a relation, a Jinja expression, with a WHERE clause."""
        text = _in_jinja(self.text)
        for quoted, other in {**self.refs, self.table: table}.items():
            text = text.replace(quoted, f"{{{{ {other} }}}}")
        return text.replace(f"\nWHERE {self.condition}", where) if self.condition else text


@dataclass(frozen=True)
class DbtColumn:
    """A column of the result.

    Attributes
    ----------
    description
        The description.
    type
        Its type in the database; None if unknown.
    is_filled
        Whether it has no NULL.
    """

    description: str
    type: str | None
    is_filled: bool = False


@dataclass(frozen=True)
class DbtModel:
    """A model in a dbt project.

    Attributes
    ----------
    queries
        The queries of the dbt models by name; the last one returns the scores.
    source
        The input of the first query, a Jinja expression.
    head
        The header comment of each query.
    expression
        The model as one expression, or None if it is too large.
    columns
        The described columns of the result, by name.
    made
        The materialization of the scores.
    meta
        The content of dbt's ``meta``.
    tests
        Queries that return failures, and the input of each, by the test's name.
    has_contract
        Whether dbt enforces the names and types of all columns.
    exposure
        The exposure as dbt's properties, or None.
    """

    queries: Mapping[str, DbtQuery]
    source: str
    head: str
    expression: str | None
    columns: Mapping[str, DbtColumn]
    made: Materialization
    meta: Mapping[str, Any]
    tests: Mapping[str, tuple[DbtQuery, str]]
    dialect: Dialect
    has_contract: bool = False
    exposure: Mapping[str, Any] | None = None

    @property
    def name(self) -> str:
        """The name of the dbt model with the scores."""
        return [*self.queries][-1]

    def write(self, folder: str | Path) -> list[Path]:
        """Write the files of `DatabaseModel.to_dbt`, and return their paths.

        Raises
        ------
        ParameterError
            If the project has these names already, or can't be read; nothing is written then.
        """
        project, name = DbtProject.read(folder), self.name
        scores = project.place(MODEL, name, [name])
        files = {
            scores if each == name else project.place(MODEL, each, [each], scores.parent): self._model(each)
            for each in self.queries
        }
        path, text = project.description(scores, self._descriptions(), self._exposures())
        files[path] = text
        if len(self.queries) == 1:
            files[project.place(MACRO, name, [name, f"{name}_query"])] = self._macros()
        # What follows a resource waits for its tests. So a test of the source is one of the scores too: else it would
        # keep them from being made.
        start = f"{WRITTEN}\n-- depends_on: {{{{ {relation('name', name)} }}}}\n{_in_jinja(self.head)}"
        for test, (query, table) in self.tests.items():
            files[project.place(TEST, test, [test])] = f"{start}{query.over(table)}\n"
        of_before = {MODEL: rf"{name}_part_\d+", MACRO: name, TEST: rf"{name}_{_TESTS}"}
        stale = [path for kind, stems in of_before.items() for path in project.written(kind, re.compile(stems))]
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, text)
        for path in stale:
            if path not in files:
                path.unlink()
        return list(files)

    def _model(self, name: str) -> str:
        made, condition = self.made, ""
        if name != self.name:
            made = Materialization("view") if made.kind == "incremental" else made
            config = made.config(self.dialect)
        else:
            config = made.config(self.dialect)
            if self.has_contract:
                config["contract"] = {"enforced": True}
                if made.kind == "incremental":
                    config["on_schema_change"] = "fail"  # what dbt has with a contract
            config["meta"] = {"frameboost": self.meta}
            if made.where is not None:
                condition = f"{{% if is_incremental() %}}\nWHERE {made.where}\n{{% endif %}}"
        arguments = ",\n    ".join(f"{key}={_jinja(value)}" for key, value in config.items())
        text = self.queries[name].over(self.source, condition)
        return f"{{{{ config(\n    {arguments}\n) }}}}\n{WRITTEN}\n{_in_jinja(self.head)}{text}\n"

    def _macros(self) -> str:
        name = self.name
        macros = f"{WRITTEN}\n{{# {name}_query: the query that scores a relation #}}\n"
        macros += f"{{% macro {name}_query(relation) -%}}\n{self.queries[name].over('relation')}\n{{%- endmacro %}}\n"
        if self.expression is not None:
            macros += f"\n{{# {name}: the model as an expression over the columns of the query it stands in #}}\n"
            macros += f"{{% macro {name}() -%}}\n{_in_jinja(self.expression)}\n{{%- endmacro %}}\n"
        return macros

    def _descriptions(self) -> list[dict[str, Any]]:
        """Return the entries of the description; dbt renders their strings with Jinja.

        The query quotes names, so dbt's tests must too: dbt quotes a name only by option, and does not double a quote
        within.
        """
        columns = []
        for column, of_column in self.columns.items():
            entry: dict[str, Any] = {"name": _in_jinja(self.dialect.quote(column)[1:-1]), "quote": True}
            if of_column.type is not None:
                entry["data_type"] = of_column.type
            entry["description"] = _in_jinja(of_column.description)
            if of_column.is_filled:
                entry["data_tests"] = ["not_null"]
            columns.append(entry)
        *parts, name = self.queries
        about = self.head.partition("\n")[0].removeprefix("-- ")
        entries: list[dict[str, Any]] = [{"name": name, "description": _in_jinja(about), "columns": columns}]
        return entries + [{"name": part, "description": f"a step of {name}"} for part in parts]

    def _exposures(self) -> list[dict[str, Any]]:
        """Return the entry of the exposure, if there is one."""
        if self.exposure is None:
            return []
        known = {key: self.exposure[key] for key in _KEYS if key in self.exposure}
        entry = {key: _in_jinja(value) if isinstance(value, str) else value for key, value in known.items()}
        entry["owner"] = {key: _in_jinja(value) for key, value in known["owner"].items()}
        return [{**entry, "depends_on": [f"ref('{self.name}')"]}]


# Ends of the names of tests.
_TESTS = r"(?:values|drift(?:_\d+)?|(?:part_\d+_)?(?:self_test|check))"


def values_test(model: SqlModel, name: str, loss: Loss, output: str) -> DbtQuery | None:
    """Return the query for predictions out of bounds; None for unbounded predictions."""
    dialect, labels = model.dialect, [*model.output.labels.values()]
    columns = [dialect.quote(column) for column in model.value_columns(name)]
    low, high = (0, loss.classes - 1) if output == "class" else value_range(loss, output)
    bounds = {sign: dialect.number(float(bound)) for sign, bound in {"<": low, ">": high}.items() if isfinite(bound)}
    if labels and isinstance(labels[0], bool):
        bounds = {}
    elif labels:
        bounds = {"NOT IN": f"({', '.join(map(dialect.label, labels))})"}
    if not bounds:
        return None
    beyond = " OR ".join(f"{column} {sign} {bound}" for column in columns for sign, bound in bounds.items())
    table = dialect.quote(secrets.token_hex(16))
    return DbtQuery(f"SELECT *\nFROM {table}\nWHERE {beyond}", table, {})


def _in_jinja(text: str) -> str:
    """Escape text around Jinja's tags: opening braces and carriage returns become expressions that evaluate to them.

    Jinja would turn carriage returns into line feeds.
    """
    return _OPENING.sub('{{ "{" }}', text).replace("\r", '{{ "\\r" }}')


def _jinja(value: Any) -> str:
    r"""Return a value as a literal within Jinja's tags.

    dbt's static parser for files with few tags does not process escapes. So strings are written without escapes if
    possible, and otherwise as a concatenation, which that parser leaves to Jinja.

    >>> print(_jinja("orders"), _jinja('"id"'), _jinja("it's {{ é"), _jinja({"a": [1, True]}))
    "orders" '"id"' "" ~ "it's \u007b\u007b \u00e9" {"a": [1, true]}
    """
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_jinja(key)}: {_jinja(inner)}' for key, inner in value.items())}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_jinja, value))}]"
    if not isinstance(value, str):
        return str(value).lower()
    if value.isascii() and value.isprintable() and not set("\\{}%#") & set(value) and not {"'", '"'} <= set(value):
        quote = "'" if '"' in value else '"'
        return f"{quote}{value}{quote}"
    return f'"" ~ {in_quotes(value, lambda c: ord(c) > 0xFFFF or (c.isascii() and c not in "{}%#"))}'
