"""Atomic writing of files: a file is replaced once its successor is complete."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["atomic_path", "is_special", "write_bytes", "write_text"]


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path to write to, and then rename it to ``path``.

    If writing fails, the temporary file is removed, and whatever was at ``path`` stays as it was. The temporary file is
    in a folder of its own: a writer's thread that opens it only after the failure finds no folder, and leaves no file.

    A device or a pipe is yielded itself: it must not be replaced.
    """
    if is_special(path):
        yield Path(path)
        return
    target, folder = _target_and_partial(path)
    with _errors_of(path):
        folder.mkdir()
    try:
        partial = folder / "file"
        yield partial
        with _errors_of(path):
            partial.replace(target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def is_special(path: str | Path) -> bool:
    """Whether there is something at a path that is no file, such as /dev/null, or a pipe that somebody reads from."""
    return Path(path).exists() and not Path(path).is_file() and not Path(path).is_dir()


def _target_and_partial(path: str | Path) -> tuple[Path, Path]:
    """Return the file to replace, of a link its target and not the link, and a name beside it that nobody has."""
    target = Path(path).resolve()
    return target, target.parent / f".{secrets.token_hex(8)}.partial"


@contextmanager
def _errors_of(path: str | Path) -> Iterator[None]:
    """Raise the operating system's errors with the user's path in place of the temporary one."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None


def write_bytes(path: str | Path, data: bytes) -> None:
    """Write a file atomically. No other thread opens the temporary one, which so needs no folder of its own."""
    if is_special(path):
        Path(path).write_bytes(data)
        return
    target, partial = _target_and_partial(path)
    try:
        with _errors_of(path):
            partial.write_bytes(data)
            partial.replace(target)
    finally:
        with suppress(OSError):  # renamed, or never written
            partial.unlink()


def write_text(path: str | Path, text: str) -> None:
    """Write a text file in UTF-8, atomically."""
    write_bytes(path, text.encode("utf-8"))
