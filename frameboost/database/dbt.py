"""Files of a dbt project: a dbt model that scores another one, its description, and macros."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from frameboost.checks.messages import shown
from frameboost.data.atomic_files import write_text
from frameboost.errors import ParameterError

__all__ = ["check_dbt_names", "write_dbt"]

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


def check_dbt_names(*names: str) -> None:
    """Raise `ParameterError` if a name can't be that of a dbt model or macro."""
    for name in names:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ParameterError(f"a dbt model is named with letters, digits and underscores, not {shown(name)}")
        if name in _TAKEN:
            raise ParameterError(f"the name {shown(name)} means something else in dbt's templates; give another one")


def write_dbt(
    folder: str | Path, name: str, source: str, head: str, query: str, quoted_table: str,
    refs: Mapping[str, str], expression: str | None, columns: Mapping[str, str], materialized: str,
) -> list[Path]:  # fmt: skip
    """Write the files that `DatabaseModel.to_dbt` describes, and return their paths.

    Parameters
    ----------
    query
        The scoring query over a table that is ``quoted_table`` in it.
    refs
        The dbt models that are joined to it, by the quoted tables that they are in the query.
    expression
        The model as one expression, or None if it does not fit into one.
    columns
        Descriptions of the columns of the result.
    """
    folder = Path(folder)
    scored = _escaped(query)
    for quoted, ref in refs.items():
        scored = scored.replace(quoted, f"{{{{ ref({json.dumps(ref)}) }}}}")
    model = f"{{{{ config(materialized={json.dumps(materialized)}) }}}}\n{_escaped(head)}"
    model += scored.replace(quoted_table, f"{{{{ ref({json.dumps(source)}) }}}}") + "\n"
    macros = f"{{# {name}_query: the query that scores a relation #}}\n{{% macro {name}_query(relation) -%}}\n"
    macros += scored.replace(quoted_table, "{{ relation }}") + "\n{%- endmacro %}\n"
    if expression is not None:
        macros += f"\n{{# {name}: the model as an expression over the columns of the query it stands in #}}\n"
        macros += f"{{% macro {name}() -%}}\n{_escaped(expression)}\n{{%- endmacro %}}\n"
    files = {
        folder / "models" / f"{name}.sql": model,
        folder / "models" / f"{name}.yml": _description(name, head, columns),
        folder / "macros" / f"{name}.sql": macros,
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
    return list(files)


def _escaped(sql: str) -> str:
    """Escape text for Jinja: opening braces and carriage returns become expressions that evaluate to them.

    Jinja would replace a carriage return by a line feed.
    """
    return _OPENING.sub('{{ "{" }}', sql).replace("\r", '{{ "\\r" }}')


def _description(name: str, head: str, columns: Mapping[str, str]) -> str:
    """Return the YAML description; its strings are written as JSON, which is valid YAML."""
    about = " ".join(line.removeprefix("-- ").strip() for line in head.splitlines()[:2])
    lines = [
        "version: 2",
        "models:",
        f"  - name: {name}",
        f"    description: {json.dumps(_escaped(about))}",
        "    columns:",
    ]
    for column, text in columns.items():
        lines += [f"      - name: {json.dumps(_escaped(column))}", f"        description: {json.dumps(text)}"]
    return "\n".join(lines) + "\n"
