"""Whether numba is installed: images that only score leave it out, as it is a third of all that is installed."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

from frameboost.errors import ParameterError

__all__ = ["has_numba", "require_numba"]


@cache
def has_numba() -> bool:
    """Return whether kernels can be compiled; numba itself is not imported, which takes half a second."""
    return bool(find_spec("numba"))


def require_numba(what: str) -> None:
    """Raise an error that names what needs numba, if it is not installed.

    Raises
    ------
    ParameterError
        If numba is not installed.
    """
    if not has_numba():
        raise ParameterError(
            f"{what} needs numba, which is not installed: pip install numba (without it models load, predict and "
            "become SQL)"
        )
