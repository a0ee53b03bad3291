"""The errors and the warning category of frameboost, and `printable`, which escapes text for terminals.

All errors are ``ValueError``, so that one ``except`` catches them.
"""

from __future__ import annotations

__all__ = [
    "ClusterError", "DataError", "FrameboostError", "FrameboostWarning", "ModelFileError", "ParameterError",
    "TooLargeError", "printable",
]  # fmt: skip


_SHOWN = frozenset("\n\u200c\u200d")  # the last two join and part letters of Persian, of Hindi and of emoji


def printable(text: str) -> str:
    r"""Escape the characters of a text that are not printable: control sequences of terminals, bidirectional marks.

    Applied to all text that may reach a terminal: error messages, ``repr``, output of the command line.

    >>> print(printable("a \x1b[31mred\x1b[0m name"))
    a \x1b[31mred\x1b[0m name
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in _SHOWN else repr(c)[1:-1] for c in text)


class FrameboostError(ValueError):
    """Base class of all errors that frameboost raises.

    >>> import frameboost as fb
    >>> issubclass(fb.FrameboostError, ValueError), issubclass(fb.DataError, fb.FrameboostError)
    (True, True)
    """

    def __init__(self, *arguments: object) -> None:
        # Parts of a message come from files, data and other libraries.
        super().__init__(*(printable(part) if isinstance(part, str) else part for part in arguments))


class ParameterError(FrameboostError):
    """A parameter is unknown, has a wrong type, is out of range, or conflicts with another one.

    >>> import polars as pl, frameboost as fb
    >>> fb.fit(pl.DataFrame({"x": [1, 2], "y": [0, 1]}), "y", max_dept=3)
    Traceback (most recent call last):
    frameboost.errors.ParameterError: unknown parameter 'max_dept'; did you mean 'max_depth'?
    """


class TooLargeError(ParameterError):
    """A query or statement exceeds a size limit of the database.

    >>> import polars as pl, frameboost as fb
    >>> model = fb.fit(pl.DataFrame({"x": [1, 2], "y": [0.0, 1.0]}), "y", n_estimators=1)
    >>> model.database("snowflake", limits={"text": 9}).query("t")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    frameboost.errors.TooLargeError: the model does not fit into one query of form 'auto': it has ...
    """


class DataError(FrameboostError):
    """The data can't be trained on or scored: a column is missing, or has an unusable type or unusable values.

    >>> import polars as pl, frameboost as fb
    >>> fb.fit(pl.DataFrame({"x": [1, 2], "y": [0, None]}), "y")
    Traceback (most recent call last):
    frameboost.errors.DataError: target 'y' is NULL or NaN in 1 of 2 rows; drop those rows first
    """


class ClusterError(FrameboostError):
    """Training on a cluster fails: it has no workers, loses them too often, or runs other versions."""


class ModelFileError(FrameboostError):
    """A file is not a model file, is damaged, or comes from another version.

    >>> import frameboost as fb, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.json"
    >>> _ = path.write_text("SELECT 1")
    >>> fb.load(path)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    frameboost.errors.ModelFileError: not a frameboost model: the file is not JSON (...)
    """


class FrameboostWarning(UserWarning):
    """The call succeeded, but the result may be unintended: for example, a metric is not finite.

    >>> import polars as pl, frameboost as fb, warnings
    >>> with warnings.catch_warnings(record=True, action="always") as seen:
    ...     _ = fb.fit(pl.DataFrame({"x": [1, 2], "y": [0.0, 1.0]}), "y", n_estimators=1, eval_metric="mape")
    >>> print(seen[0].category.__name__, seen[0].message)
    FrameboostWarning eval_metric 'mape' is inf on 'train' in round 1, as a label there is 0
    """
