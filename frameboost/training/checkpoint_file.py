"""The file of a checkpoint: lines of JSON that are only ever appended to, each with a checksum.

The first line says which fit it is, every other one holds the rounds that were written together::

    {"format": "frameboost checkpoint", "version": 1, "release": "0.1.0", "fit": {...}, "check": "0f3a..."}
    {"rounds": [...], "check": "77c1..."}

A write appends whole lines and waits until they are on disk (fsync), so it takes time for the new rounds alone, and
whatever kills the process leaves at worst a last line that is cut. That one has no newline at its end, and is
ignored. Any other damage is found: ``check`` is a hash of the line and of the check before it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, NoReturn

from frameboost.checks.json_files import check_keys, is_integer, parse_json, shown_json, to_text
from frameboost.checks.messages import reason, shown
from frameboost.errors import DataError, ModelFileError, ParameterError
from frameboost.version import __version__

__all__ = ["CheckpointFile"]

FORMAT = "frameboost checkpoint"
VERSION = 1

_START = f'{{"format": {to_text(FORMAT)}, '.encode()
_CHECK_BYTES = 16


class CheckpointFile:
    """A checkpoint on disk, read and verified when it is opened.

    Parameters
    ----------
    path
        The file. Where there is none, the first `append` creates it.

    Attributes
    ----------
    fit
        Which fit it is of, None if nothing has been written.
    batches
        The objects of all other lines.

    Raises
    ------
    ParameterError
        If the file can't be read or written.
    ModelFileError
        If it is no checkpoint, is damaged, or comes from another release.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._place = self.path.absolute()  # stays where it is if a callback changes the folder
        self.fit: dict[str, Any] | None = None
        self.batches: list[dict[str, Any]] = []
        self._check = ""  # of the last line
        self._end = 0  # of the last line; what follows is cut
        self._size: int | None = None  # None where there is no file
        try:
            data = self._bytes()
        except OSError as error:
            raise ParameterError(f"checkpoint {shown(str(path))} can't be read: {reason(error)}") from error
        self._require_writable()
        self._read(data)

    # --- reading ------------------------------------------------------------------------------------------------------

    def _bytes(self) -> bytes:
        if self._place.exists() and not self._place.is_file():
            self._refuse(f"is no file but a {'folder' if self._place.is_dir() else 'device'}")
        if not self._place.exists():
            return b""
        data = self._place.read_bytes()
        self._size = len(data)
        return data

    def _require_writable(self) -> None:
        folder = self._place.parent
        if not folder.is_dir():
            self._refuse(f"can't be written: there is no folder {shown(str(folder))}")
        target = folder if self._size is None else self._place
        if not os.access(target, os.W_OK):
            self._refuse(f"can't be written: no permission to write to {shown(str(target))}")

    def _refuse(self, why: str) -> NoReturn:
        raise ParameterError(f"checkpoint {shown(str(self.path))} {why}")

    def _read(self, data: bytes) -> None:
        if not (data.startswith(_START) or _START.startswith(data)):
            raise ModelFileError(f"{shown(str(self.path))} is not a checkpoint of fit; give it another path")
        *lines, _ = data.split(b"\n")
        for number, line in enumerate(lines):
            item = self._line(line, number)
            self._end += len(line) + 1
            if number:
                self.batches.append(item)
            else:
                self.fit = item["fit"]

    def _line(self, line: bytes, number: int) -> dict[str, Any]:
        where = f"checkpoint {shown(str(self.path))} is damaged"
        item = parse_json(line, f"{where}: line {number + 1} is not JSON", where, strict=True)
        if not isinstance(item, dict):
            raise ModelFileError(f"{where}: line {number + 1} is not an object")
        if not number:
            self._check_version(item)
        check = _check_of(self._check, _without_check(line))
        if item.get("check") != check:
            raise ModelFileError(f"{where}: line {number + 1} does not match its checksum; delete it to start anew")
        self._check = check
        check_keys(item, ("rounds", "check") if number else (*_head({}), "check"), where)
        if not isinstance(item.get("rounds" if number else "fit"), list if number else dict):
            raise ModelFileError(
                f"{where}: line {number + 1} has no {'rounds' if number else 'description of the fit'}"
            )
        return item

    def _check_version(self, head: Mapping[str, Any]) -> None:
        version, release = head.get("version"), head.get("release")
        if not is_integer(version) or version != VERSION:
            raise ModelFileError(
                f"checkpoint {shown(str(self.path))} has version {shown_json(version)}; this release reads {VERSION}"
            )
        if release != __version__:  # which may grow other trees
            raise ModelFileError(
                f"checkpoint {shown(str(self.path))} is of release {shown_json(release)}, and this is {__version__}; "
                "go on with that release, or delete it to start anew"
            )

    # --- writing ------------------------------------------------------------------------------------------------------

    def append(self, fit: Mapping[str, Any], rounds: Sequence[str]) -> None:
        """Append a line of rounds, each as JSON; before the first, the line that says which fit it is.

        Raises
        ------
        DataError
            If somebody else has changed the file meanwhile.
        OSError
            If the disk is full, or gone.
        """
        check, lines = self._check, []
        bodies = [] if self._end else [to_text(_head(fit))]
        for body in (*bodies, f'{{"rounds": [{", ".join(rounds)}]}}'):
            check = _check_of(check, body.encode())
            lines.append(f'{body[:-1]}, "check": "{check}"}}\n'.encode())
        added = b"".join(lines)
        self._write(added)
        self._check = check
        self._end = self._size = self._end + len(added)

    def _write(self, added: bytes) -> None:
        try:
            with self._place.open("xb" if self._size is None else "r+b") as file:
                if file.seek(0, os.SEEK_END) != (self._size or 0):
                    raise FileExistsError
                file.seek(self._end)
                file.truncate()
                file.write(added)
                file.flush()
                os.fsync(file.fileno())
        except (FileExistsError, FileNotFoundError) as error:
            raise DataError(
                f"checkpoint {shown(str(self.path))} was changed or deleted while the fit ran; give each fit a file "
                "of its own"
            ) from error
        except OSError as error:  # the next fit ignores a line that is cut
            what = f"checkpoint {shown(str(self.path))} can't be written: {error.strerror}"
            raise OSError(error.errno, what) from error


def _head(fit: Mapping[str, Any]) -> dict[str, Any]:
    return {"format": FORMAT, "version": VERSION, "release": __version__, "fit": fit}


def _check_of(before: str, body: bytes) -> str:
    """Return the checksum of a line, given that of the line before."""
    return blake2b(before.encode() + body, digest_size=_CHECK_BYTES).hexdigest()


def _without_check(line: bytes) -> bytes:
    """Return the line as it was before its checksum was added at the end."""
    return line[: -len(', "check": ""}') - 2 * _CHECK_BYTES] + b"}"
