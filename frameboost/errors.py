"""The errors that frameboost raises on bad input: all are ``ValueError``, so that one ``except`` catches them."""

from __future__ import annotations

__all__ = ["DataError", "FrameboostError", "ModelFileError", "ParameterError"]


class FrameboostError(ValueError):
    """Base of every error that frameboost raises itself."""


class ParameterError(FrameboostError):
    """A parameter is unknown, has the wrong type, is out of range, or does not go with another one."""


class DataError(FrameboostError):
    """The data can't be trained on or scored: a column is missing, has an unusable type or unusable values."""


class ModelFileError(FrameboostError):
    """A model file is damaged, from another version, or not a model file at all."""
