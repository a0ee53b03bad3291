"""A dbt project: the locations of its files, its names, and descriptions that users have edited.

Users' files are never replaced. Files of an earlier `to_dbt` contain the comment `WRITTEN`, and are located by name in
all folders of the project. YAML descriptions are merged with existing ones: dbt allows one description per model, to
which users add tests and columns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
    """A kind of project file.

    Attributes
    ----------
    noun
        The noun for messages.
    key
        The key of ``dbt_project.yml`` with its folders.
    default
        The default folder.
    suffixes
        The suffixes of its files; dbt derives names from file names.
    definition
        The pattern of a definition within a file, for kinds that are not named by their files.
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
    """The folder of a dbt project, with the folders of each kind of file.

    Attributes
    ----------
    folder
        The project's folder.
    paths
        The folders by key of ``dbt_project.yml``.
    """

    folder: Path
    paths: Mapping[str, Sequence[str]]

    @classmethod
    def read(cls, folder: str | Path) -> DbtProject:
        """Return the project in a folder; one without ``dbt_project.yml`` has dbt's default folders.

        Raises
        ------
        ParameterError
            If the folder is inside a project, or its ``dbt_project.yml`` can't be read.
        """
        folder = Path(folder)
        path = folder / _PROJECT_FILE
        if not path.is_file():
            outer = next((each for each in folder.resolve().parents if (each / _PROJECT_FILE).is_file()), None)
            if outer is not None:
                raise ParameterError(f"folder {shown(str(folder))} is within a dbt project; pass its folder, {outer}")
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
                    f"{path} has {kind.key} that is not a list of folders, {shown(folders)}; "
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

    def place(self, kind: Kind, stem: str, names: Sequence[str], folder: Path | None = None) -> Path:
        """Return the path for a file that defines these names: that of an earlier `to_dbt`, or a new one.

        ``folder`` is for new files, by default the first of the kind.

        Raises
        ------
        ParameterError
            If another file in the project has one of the names.
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
        path = written[0] if written else (folder or self.folders(kind)[0]) / f"{stem}.sql"
        if path.exists() and path not in written:
            raise ParameterError(f"{path} is there already, and to_dbt did not write it; choose another name")
        return path

    def description(
        self, beside: Path, models: Sequence[Properties], exposures: Sequence[Properties] = ()
    ) -> tuple[Path, str]:
        """Return the path and the text of a description of models, merged with an existing one.

        Parameters
        ----------
        beside
            The file of the last model; a new description goes beside it.
        models
            The entries, that model first.
        exposures
            Entries of exposures.

        Raises
        ------
        ParameterError
            If another file describes one of the models or exposures, as dbt allows one description of each.
        """
        name = models[0]["name"]
        entries = {"models": models, **({"exposures": exposures} if exposures else {})}
        for exposure in exposures:
            others = [path for path in self.files(_YAML) if self._describes(path, "exposures", [exposure["name"]])]
            if others := [path for path in others if path.stem != name]:
                raise ParameterError(
                    f"{self._shown(*others)} has an exposure {shown(exposure['name'])} already; choose another name, "
                    f"or move it into {name}.yml, which to_dbt merges with its description"
                )
        names = [each["name"] for each in models]
        described = [path for path in self.files(_YAML) if self._describes(path, "models", names)]
        others = [path for path in described if path.stem != name]
        if others or len(described) > 1:
            raise ParameterError(
                f"{self._shown(*(others or described))} describes {shown(name)} already, and dbt takes one description "
                f"of a model; move it into {name}.yml, which to_dbt merges with its description"
            )
        path = described[0] if described else beside.with_suffix(".yml")
        if not path.exists() or not (text := _read_text(path)).strip():
            return path, yaml_text({"version": 2, **entries})
        return path, merged(path, text, entries)

    def _describes(self, path: Path, key: str, names: Sequence[str]) -> bool:
        named = rf"""\bname["']?\s*:\s*["']?(?:{"|".join(map(re.escape, names))})\b"""
        if not re.search(named, _read_text(path)):  # to read YAML takes long
            return False
        entries = _read_yaml(path).get(key)
        return isinstance(entries, list) and any(isinstance(e, Mapping) and e.get("name") in names for e in entries)

    def written(self, kind: Kind, stems: re.Pattern[str]) -> list[Path]:
        """Return the files with such names from an earlier `to_dbt`."""
        return [path for path in self.files(kind) if stems.fullmatch(path.stem) and is_written(path)]

    def _shown(self, *paths: Path) -> str:
        return listed(path.relative_to(self.folder).as_posix() for path in paths)


def is_written(path: Path) -> bool:
    """Whether `to_dbt` wrote a file."""
    return WRITTEN in _read_text(path)


def _read_text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ParameterError(f"{path} is not text in UTF-8, as dbt's files are: {error}") from None


# --- YAML -------------------------------------------------------------------------------------------------------------


def yaml_text(value: Any, indent: str = "", first: str | None = None, offset: int = 2) -> str:
    r"""Return entries, lists and values as lines of YAML.

    ``offset`` is the indentation of a list below its key.

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
            if isinstance(inner, Mapping):
                lines.append(f"{start}{key}:\n{yaml_text(inner, indent + '  ', offset=offset)}")
            elif isinstance(inner, (list, tuple)):
                lines.append(f"{start}{key}:\n{yaml_text(inner, indent + ' ' * offset, offset=offset)}")
            else:
                lines.append(f"{start}{key}: {yaml_text(inner)}")
        return "".join(lines)
    if isinstance(value, (list, tuple)):
        return "".join(yaml_text(each, f"{indent}  ", f"{indent}- ", offset) for each in value)
    text = in_quotes(value, lambda c: True) if isinstance(value, str) else _shown(value)
    return f"{first or ''}{text}\n"


def in_quotes(text: str, may_stand: Callable[[str], bool]) -> str:
    r"""Return text in double quotes, with escapes that YAML, Jinja and dbt Fusion's Jinja share.

    JSON differs: it writes characters beyond U+FFFF as two surrogates.

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


def _read_yaml(path: Path) -> dict[str, Any]:
    """Return the entries of a file."""
    yaml = _yaml()
    try:
        read = yaml.load(_read_text(path), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise _unreadable(path, error) from None
    if not isinstance(read, dict | None):
        raise ParameterError(f"{path} has no entries by key, as dbt's files have")
    return read or {}


def _yaml() -> Any:
    try:
        import yaml
    except ImportError:
        raise ParameterError("reading the YAML of a dbt project needs PyYAML: pip install 'frameboost[dbt]'") from None
    return yaml


def _unreadable(path: Path, error: object) -> ParameterError:
    return ParameterError(f"{path} can't be read as YAML: {' '.join(str(error).split())}")


# Descriptions that to_dbt writes; others are somebody's own.
_OURS = re.compile(r"A gradient boosted model: .*|\w+ of the model|column of \S+|a step of \w+")
_GENERATED = {"name", "quote", "data_type", "description", "data_tests"}


def merged(path: Path, text: str, entries: Mapping[str, Sequence[Properties]]) -> str:
    """Return a description with our entries merged in by key; all other lines are unchanged.

    An existing entry keeps its order, foreign keys, tests and edited descriptions. Obsolete columns and steps are
    removed, unless users added to them.

    Raises
    ------
    ParameterError
        If it is not YAML, or has entries in flow style.
    """
    line_end, text = "\r\n" if "\r\n" in text else "\n", text.replace("\r\n", "\n")
    return _Merge(path, text).of(entries).replace("\n", line_end)


class _Merge:
    """Edits of a YAML text at the positions that its parser, dbt's, reports."""

    def __init__(self, path: Path, text: str) -> None:
        self._path, self._text, self._yaml = path, text, _yaml()
        self._inserted: list[tuple[int, int, str]] = []  # from, to, text
        self._dropped: list[tuple[int, int, str]] = []

    def of(self, entries: Mapping[str, Sequence[Properties]]) -> str:
        """Return the text with these entries merged in."""
        yaml = self._yaml
        try:
            root = yaml.compose(self._text, Loader=yaml.SafeLoader)
            aliases = [token for token in yaml.scan(self._text) if isinstance(token, yaml.AliasToken)]
        except yaml.YAMLError as error:
            raise _unreadable(self._path, error) from None
        if root is None:  # comments
            return f"{self._text.rstrip()}\n{yaml_text({'version': 2, **entries})}"
        if not isinstance(root, yaml.MappingNode) or root.flow_style:
            raise ParameterError(f"{self._path} has no entries by key in lines of their own, as dbt's files have")
        if aliases:  # the parser has the place of what they stand for
            raise ParameterError(f"{self._path} has {shown(f'*{aliases[0].value}')}; replace the alias by its value")
        parts = re.compile(rf"{re.escape(entries['models'][0]['name'])}_part_\d+")
        for key, ours in entries.items():
            self._merge_list(root, key, ours, lambda name: parts.fullmatch(name) is not None)
        text = self._text
        # From the end; of changes at one place the last first, and what is dropped before what is inserted there.
        changes = [*enumerate([*self._inserted, *self._dropped])]
        for _, (start, end, new) in sorted(changes, key=lambda change: (change[1][0], change[0]), reverse=True):
            text = text[:start] + new + text[end:]
        return text

    def _merge_list(self, entry: Any, key: str, ours: Sequence[Properties], may_go: Callable[[str], bool]) -> None:
        """Merge the entries of a key: change existing ones, append new ones, and remove obsolete ones of ours."""
        there, indent = _value(entry, key), entry.start_mark.column
        if there is None:
            self._add_after(entry, {key: ours}, indent)
            return
        if _is_empty(there):
            lines, colon = yaml_text(ours, " " * (indent + 2)), len(self._text[: there.start_mark.index].rstrip())
            self._inserted.append((colon, there.end_mark.index, f"\n{lines.rstrip()}"))
            return
        are_lines = isinstance(there, self._yaml.SequenceNode) and not there.flow_style
        if not are_lines or any(not isinstance(e, self._yaml.MappingNode) or e.flow_style for e in there.value):
            raise ParameterError(
                f"{self._path} has {key} that is not a list of entries in lines of their own; write it so"
            )
        dash, names = there.start_mark.column, {each["name"]: each for each in ours}
        kept, new = [], dict(names)
        for each in there.value:
            name = _text(_value(each, "name"))
            if name in names:
                new.pop(name, None)
                self._merge_entry(each, names[name])
            elif name is not None and may_go(name) and _is_generated(each):
                start = self._text.rfind("\n", 0, each.start_mark.index) + 1
                self._dropped.append((start, self._end(each) + 1, ""))
                continue
            kept.append(each)
        if new:
            lines = yaml_text([*new.values()], " " * dash, offset=dash - indent)
            if kept:
                at = self._end(kept[-1])
                self._inserted.append((at, at, f"\n{lines.rstrip()}"))
            else:
                at = self._text.rfind("\n", 0, there.start_mark.index) + 1
                self._inserted.append((at, at, lines))

    def _merge_entry(self, theirs: Any, ours: Properties) -> None:
        added = {}
        for key, value in ours.items():
            node = _value(theirs, key)
            if key == "data_tests":  # theirs
                continue
            if node is None:
                added[key] = value
            elif key == "columns":
                self._merge_list(theirs, key, value, lambda name: True)
            elif isinstance(value, Mapping):
                self._merge_mapping(theirs, key, value)
            elif isinstance(value, (list, tuple)):
                self._merge_texts(theirs, key, value)
            elif _text(node) != _shown(value) and (key != "description" or _is_our_description(node)):
                space = " " if node.start_mark.index == node.end_mark.index else ""
                new = f"{space}{yaml_text(value).rstrip()}"
                self._inserted.append((node.start_mark.index, node.end_mark.index, new))
        if added:
            self._add_after(_value(theirs, "name") or theirs, added, theirs.start_mark.column)

    def _merge_mapping(self, entry: Any, key: str, ours: Properties) -> None:
        """Merge the values of a key that are mappings themselves."""
        there = _value(entry, key)
        if not isinstance(there, self._yaml.MappingNode) or any(_text(value) is None for _, value in there.value):
            raise ParameterError(f"{self._path} has {key} that is not a mapping of texts; write it so")
        if not there.flow_style:
            self._merge_entry(there, ours)
            return
        theirs = {name.value: value.value for name, value in there.value}
        if (both := {**theirs, **ours}) != theirs:
            text = ", ".join(f"{name}: {yaml_text(value).rstrip()}" for name, value in both.items())
            self._inserted.append((there.start_mark.index, there.end_mark.index, f"{{{text}}}"))

    def _merge_texts(self, entry: Any, key: str, ours: Sequence[str]) -> None:
        """Add missing texts to a list of texts, whatever their quotes."""
        there = _value(entry, key)
        if not isinstance(there, self._yaml.SequenceNode):
            raise ParameterError(f"{self._path} has {key} that is not a list; write it so")
        known = [re.sub(r"[\s'\"]", "", _text(each) or "") for each in there.value]
        new = [text for text in ours if re.sub(r"[\s'\"]", "", text) not in known]
        if not new:
            return
        if there.flow_style:
            at, start = there.end_mark.index - 1, ", " if known else ""
            self._inserted.append((at, at, start + ", ".join(yaml_text(text).rstrip() for text in new)))
        else:
            at, lines = self._end(there), yaml_text(new, " " * there.start_mark.column)
            self._inserted.append((at, at, f"\n{lines.rstrip()}"))

    def _add_after(self, node: Any, added: Properties, indent: int) -> None:
        """Insert keys in the lines after a value."""
        at = self._end(node)
        self._inserted.append((at, at, f"\n{yaml_text(added, ' ' * indent).rstrip()}"))

    def _end(self, node: Any) -> int:
        """Return the end of the last line of a value, including its comment."""
        end = len(self._text[: _last(node).end_mark.index].rstrip())
        at = self._text.find("\n", end)
        return len(self._text) if at < 0 else at


def _value(entry: Any, key: str) -> Any:
    return next((value for name, value in entry.value if name.value == key), None)


def _last(node: Any) -> Any:
    """Return the last scalar of a value, or a value in brackets, which has a reliable end mark."""
    while getattr(node, "flow_style", None) is False and node.value:
        node = node.value[-1]
        node = node[1] if isinstance(node, tuple) else node
    return node


def _text(node: Any) -> str | None:
    return node.value if node is not None and isinstance(node.value, str) else None


def _is_our_description(node: Any) -> bool:
    return _OURS.fullmatch((_text(node) or "").strip()) is not None


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else str(value).lower()


def _is_empty(node: Any) -> bool:
    return not node.value or (node.tag.endswith(":null") and isinstance(node.value, str))


def _is_generated(entry: Any) -> bool:
    """Whether an entry is entirely as written by `to_dbt`."""
    tests = _value(entry, "data_tests")
    is_test = tests is None or (isinstance(tests.value, list) and [_text(test) for test in tests.value] == ["not_null"])
    is_ours = is_test and _is_our_description(_value(entry, "description"))
    return is_ours and {key.value for key, _ in entry.value} <= _GENERATED
