"""A dbt project: where its files are, which names it has already, and descriptions that people have added to.

Nothing that somebody else wrote is replaced. Files that we wrote say so in a comment, `WRITTEN`, and are found again by
their names, in whatever folder of the project they have been moved to. A description in YAML is merged with the one
that stands there: dbt takes one description of a model, so that people add their tests and columns to ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from frameboost.checks.messages import listed, shown
from frameboost.errors import ParameterError

__all__ = ["WRITTEN", "DbtProject", "Kind", "Properties", "in_quotes", "yaml_text"]

WRITTEN = "{# Written by to_dbt of frameboost, which replaces this file. -#}"
"""The comment of files that are replaced."""

Properties = Mapping[str, Any]
"""An entry of a description: strings, booleans, lists and other entries by key."""

_PROJECT_FILE = "dbt_project.yml"


@dataclass(frozen=True)
class Kind:
    """A kind of a project's files.

    Attributes
    ----------
    noun
        What one is called.
    key
        The key of ``dbt_project.yml`` that names its folders.
    default
        The folder without that key.
    suffixes
        The suffixes of its files, by whose names dbt knows what is in them.
    definition
        What defines a name within a file, of kinds whose files do not name what is in them.
    """

    noun: str
    key: str
    default: str
    suffixes: tuple[str, ...]
    definition: str = ""

    def names(self, path: Path, text: Callable[[], str]) -> list[str]:
        """Return the names that a file defines."""
        return re.findall(self.definition, text()) if self.definition else [path.stem]


MODEL = Kind("model", "model-paths", "models", (".sql", ".py"))
MACRO = Kind("macro", "macro-paths", "macros", (".sql",), r"\{%-?\s*macro\s+(\w+)")
TEST = Kind("test", "test-paths", "tests", (".sql",))
# What ``ref`` finds besides models.
_SEED = Kind("seed", "seed-paths", "seeds", (".csv", ".parquet", ".json"))
_SNAPSHOT = Kind("snapshot", "snapshot-paths", "snapshots", (".sql",), r"\{%-?\s*snapshot\s+(\w+)")
_YAML = Kind("description", MODEL.key, MODEL.default, (".yml", ".yaml"))
_NAMESPACES = {MODEL: (MODEL, _SEED, _SNAPSHOT), MACRO: (MACRO,), TEST: (TEST,)}


@dataclass(frozen=True)
class DbtProject:
    """The folder of a dbt project, and the folders of its kinds of files.

    Attributes
    ----------
    folder
        The project's folder.
    paths
        Folders within it, by the key of ``dbt_project.yml``.
    """

    folder: Path
    paths: Mapping[str, Sequence[str]]

    @classmethod
    def read(cls, folder: str | Path) -> DbtProject:
        """Return the project in a folder; one without ``dbt_project.yml`` has dbt's default folders.

        Raises
        ------
        ParameterError
            If the folder is one within a project, or its ``dbt_project.yml`` can't be read.
        """
        folder = Path(folder)
        path = folder / _PROJECT_FILE
        if not path.is_file():
            outer = next((each for each in folder.resolve().parents if (each / _PROJECT_FILE).is_file()), None)
            if outer is not None:
                raise ParameterError(f"folder {shown(str(folder))} is within a dbt project; give its folder, {outer}")
            return cls(folder, {})
        read = _read_yaml(path)
        paths = {}
        for kind in (MODEL, MACRO, TEST, _SEED, _SNAPSHOT):
            folders = read.get(kind.key)
            if folders is None:
                continue
            folders = [folders] if isinstance(folders, str) else folders
            is_list = isinstance(folders, Sequence) and folders and all(isinstance(each, str) for each in folders)
            if not is_list or any("{{" in each for each in folders):
                raise ParameterError(
                    f"{path} has {kind.key} that is no list of folders, {shown(folders)}; "
                    "write the names of folders there, without Jinja"
                )
            paths[kind.key] = [str(each) for each in folders]
        return cls(folder, paths)

    def folders(self, kind: Kind) -> list[Path]:
        """Return the folders of a kind; new files go to the first."""
        return [self.folder / each for each in self.paths.get(kind.key, [kind.default])]

    def files(self, kind: Kind) -> Iterator[Path]:
        """Yield the files of a kind, each once."""
        seen = set()
        for folder in self.folders(kind):
            for path in sorted(folder.rglob("*")):
                if path.suffix.lower() in kind.suffixes and path.is_file() and (real := path.resolve()) not in seen:
                    seen.add(real)
                    yield path

    def place(self, kind: Kind, stem: str, names: Sequence[str]) -> Path:
        """Return where to write a file that defines these names: where we have written it before, or a new path.

        Raises
        ------
        ParameterError
            If something else in the project has one of the names.
        """
        written = [path for path in self.files(kind) if path.stem == stem and is_written(path)]
        if len(written) > 1:
            raise ParameterError(f"the dbt project has {self._shown(*written)}; keep one of them")
        taken = {name.casefold(): name for name in names}
        for other in _NAMESPACES[kind]:
            for path in self.files(other):
                if path in written:
                    continue
                for found in other.names(path, lambda path=path: _read_text(path)):  # type: ignore[misc]
                    if found.casefold() in taken:
                        raise ParameterError(
                            f"the dbt project has a {other.noun} {shown(found)} already, in {self._shown(path)}, which "
                            "to_dbt did not write; choose another name, or move that file out of the project"
                        )
        path = written[0] if written else self.folders(kind)[0] / f"{stem}.sql"
        if path.exists() and path not in written:
            raise ParameterError(f"{path} is there already, and to_dbt did not write it; choose another name")
        return path

    def description(self, beside: Path, models: Sequence[Properties]) -> tuple[Path, str]:
        """Return the path and the text of a description of models: merged with the one that is there.

        Parameters
        ----------
        beside
            The file of the last model, beside which a new description goes.
        models
            The entries, the one of that model first.

        Raises
        ------
        ParameterError
            If a file of another name describes one of the models: dbt takes one description of each.
        """
        name = models[0]["name"]
        described = [path for path in self.files(_YAML) if self._describes(path, [each["name"] for each in models])]
        others = [path for path in described if path.stem != name]
        if others or len(described) > 1:
            raise ParameterError(
                f"{self._shown(*(others or described))} describes {shown(name)} already, and dbt takes one description "
                f"of a model; move it into {name}.yml, which is merged with what to_dbt has to say"
            )
        path = described[0] if described else beside.with_suffix(".yml")
        if not path.exists() or not (text := _read_text(path)).strip():
            return path, yaml_text({"version": 2, "models": models})
        return path, merged(path, text, models)

    def _describes(self, path: Path, names: Sequence[str]) -> bool:
        if not any(name in _read_text(path) for name in names):  # to read YAML with its comments takes long
            return False
        models = _read_yaml(path).get("models")
        return isinstance(models, list) and any(isinstance(m, Mapping) and m.get("name") in names for m in models)

    def written(self, kind: Kind, stems: re.Pattern[str]) -> list[Path]:
        """Return the files of such names that we have written."""
        return [path for path in self.files(kind) if stems.fullmatch(path.stem) and is_written(path)]

    def _shown(self, *paths: Path) -> str:
        return listed(path.relative_to(self.folder).as_posix() for path in paths)


def is_written(path: Path) -> bool:
    """Whether we wrote a file."""
    return WRITTEN in _read_text(path)


def _read_text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ParameterError(f"{path} is no text in UTF-8, as dbt's files are: {error}") from None


# --- YAML -------------------------------------------------------------------------------------------------------------


def yaml_text(value: Any, indent: str = "", first: str | None = None) -> str:
    r"""Return entries, lists and values as lines of YAML.

    >>> print(yaml_text({"models": [{"name": "on", "quote": True, "columns": [{"name": "é"}]}, "a b"]}), end="")
    models:
      - name: "on"
        quote: true
        columns:
          - name: "é"
      - "a b"
    """
    if isinstance(value, Mapping):
        lines = []
        for key, inner in value.items():
            start = indent if first is None else first
            first = None
            if isinstance(inner, (Mapping, list, tuple)):
                lines.append(f"{start}{key}:\n{yaml_text(inner, indent + '  ')}")
            else:
                lines.append(f"{start}{key}: {yaml_text(inner)}")
        return "".join(lines)
    if isinstance(value, (list, tuple)):
        return "".join(yaml_text(each, f"{indent}  ", f"{indent}- ") for each in value)
    text = in_quotes(value, lambda c: True) if isinstance(value, str) else str(value).lower()
    return f"{first or ''}{text}\n"


def in_quotes(text: str, may_stand: Callable[[str], bool]) -> str:
    r"""Return a text in double quotes, with escapes that strings of YAML, of Jinja and of dbt Fusion's Jinja share.

    JSON's are others: there a character beyond U+FFFF is two surrogates.

    >>> print(in_quotes('a: "b" \n \x85 😀', lambda character: True))
    "a: \"b\" \u000a \u0085 😀"
    """
    return f'"{"".join(c if c.isprintable() and may_stand(c) and c not in _ESCAPED else _escape(c) for c in text)}"'


_ESCAPED = frozenset('"\\')


def _escape(character: str) -> str:
    code = ord(character)
    if character in _ESCAPED:
        return f"\\{character}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _yaml() -> Any:
    try:
        from ruamel.yaml import YAML
    except ImportError:
        raise ParameterError(
            "to read the YAML of a dbt project takes ruamel.yaml: pip install 'frameboost[dbt]'"
        ) from None
    yaml = YAML()  # with comments
    yaml.preserve_quotes = True
    yaml.width = 1_000_000
    return yaml


def _read_yaml(path: Path, text: str | None = None) -> Any:
    """Return the entries of a file, with its comments."""
    yaml = _yaml()
    from ruamel.yaml.error import YAMLError

    try:
        read = yaml.load(_read_text(path) if text is None else text)
    except YAMLError as error:
        raise ParameterError(f"{path} can't be read as YAML: {' '.join(str(error).split())}") from None
    if read is None:
        return {}
    if not isinstance(read, Mapping):
        raise ParameterError(f"{path} has no entries by key, as dbt's files have")
    return read


# Descriptions that to_dbt writes; others are somebody's own.
_OURS = re.compile(r"A gradient boosted model: .*|\w+ of the model|column of \S+|a step of \w+")


def merged(path: Path, text: str, models: Sequence[Properties]) -> str:
    """Return a description with our entries in it, and all that is there besides.

    An entry of ours that is there already keeps the order, the comments and all keys that are not ours, its tests and a
    description of somebody's own. Columns and steps that the model has no more go, unless somebody has added to them.

    Raises
    ------
    ParameterError
        If the file has anything else than a list as ``models`` or ``columns``.
    """
    line_end, text = "\r\n" if "\r\n" in text else "\n", text.replace("\r\n", "\n")
    read = _read_yaml(path, text)
    if not read:  # comments
        return f"{text.rstrip()}\n{yaml_text({'version': 2, 'models': models})}".replace("\n", line_end)
    before = yaml_text(_plain(read))
    entries = _entries(read, "models", path)
    parts = re.compile(rf"{re.escape(models[0]['name'])}_part_\d+")
    _drop(entries, lambda name: parts.fullmatch(name) is not None, [each["name"] for each in models])
    for ours in models:
        theirs = _merge_entry(entries, ours)
        if "columns" in ours:
            columns = _entries(theirs, "columns", path)
            _drop(columns, lambda name: True, [each["name"] for each in ours["columns"]])
            for column in ours["columns"]:
                _merge_entry(columns, column)
    if yaml_text(_plain(read)) == before:
        return text.replace("\n", line_end)
    from ruamel.yaml.util import load_yaml_guess_indent

    yaml, out = _yaml(), StringIO()
    _, sequence, offset = load_yaml_guess_indent(text)
    yaml.indent(mapping=2, sequence=sequence or 4, offset=2 if offset is None else offset)
    yaml.explicit_start = re.search(r"^---", text, re.MULTILINE) is not None
    yaml.dump(read, out)
    return out.getvalue().replace("\n", line_end)


def _entries(entry: Any, key: str, path: Path) -> Any:
    """Return the list of a key, which is made if it is not there."""
    if entry.get(key) is None:
        entry[key] = _for_ruamel([])
    if not isinstance(entry[key], list) or not all(isinstance(each, Mapping) for each in entry[key]):
        raise ParameterError(f"{path} has {key} that is no list of entries; dbt can't read it either")
    return entry[key]


def _merge_entry(entries: Any, ours: Properties) -> Any:
    """Return the entry of a name, with our values of the keys that are ours: new, or the one that is there."""
    theirs = next((each for each in entries if each.get("name") == ours["name"]), None)
    if theirs is None:
        entries.append(_for_ruamel(ours))
        return entries[-1]
    for key, value in ours.items():
        is_own = key == "description" and theirs.get(key) is not None and not _OURS.fullmatch(str(theirs[key]).strip())
        if not (is_own or isinstance(value, (list, tuple)) or theirs.get(key) == value):
            theirs[key] = _for_ruamel(value)
    return theirs


def _drop(entries: Any, may_go: Callable[[str], bool], kept: Sequence[str]) -> None:
    """Remove entries that are all ours, but for those of the names that are kept."""
    for index in reversed(range(len(entries))):
        entry = entries[index]
        name, tests = entry.get("name"), entry.get("data_tests", ["not_null"])
        is_ours = _OURS.fullmatch(str(entry.get("description"))) and tests == ["not_null"]
        only = {"name", "quote", "data_type", "description", "data_tests"}
        if is_ours and set(entry) <= only and isinstance(name, str) and may_go(name) and name not in kept:
            del entries[index]


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def _for_ruamel(value: Any) -> Any:
    """Return entries as ruamel.yaml writes them as we do, with strings in double quotes."""
    from ruamel.yaml.comments import CommentedMap, CommentedSeq
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString

    if isinstance(value, Mapping):
        return CommentedMap((key, _for_ruamel(inner)) for key, inner in value.items())
    if isinstance(value, (list, tuple)):
        return CommentedSeq(map(_for_ruamel, value))
    return DoubleQuotedScalarString(value) if isinstance(value, str) else value
