"""The decorator of kernels: compiled by numba at the first call, and cached on disk.

Numba's own cache raises an error where no folder can be written, and lets disk errors out of the call that compiles.
Here a cache that cannot be read or written costs only time: each process compiles the kernel.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable
from functools import cache, partial, wraps
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, overload

import numba
from llvmlite import __version__ as llvmlite_version
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.dispatcher import Dispatcher
from numba.core.sigutils import normalize_signature

__all__ = ["is_compiled", "kernel", "kernel_files"]

_F = TypeVar("_F", bound=Callable[..., Any])
_has_warned = False


@overload
def kernel(function: _F, /) -> Dispatcher[_F]: ...


@overload
def kernel(**options: Any) -> Callable[[_F], Dispatcher[_F]]: ...


def kernel(function: Any = None, /, **options: Any) -> Any:
    """Compile a function with numba at its first call, to run without Python's lock, and cache the machine code.

    Parameters
    ----------
    function
        The function; without it, return a decorator.
    **options
        Further options of `numba.njit`, such as ``inline`` and ``error_model``.

    Warns
    -----
    RuntimeWarning
        Once per process, if the cache can't be used.
    """
    if function is None:
        return partial(kernel, **options)
    # Nobody calls kernels as C functions, whose wrappers take time to compile.
    compiled: Any = numba.njit(**{"nogil": True, "no_cfunc_wrapper": True} | options)(function)
    if compiled is function:  # NUMBA_DISABLE_JIT
        return compiled
    compiled.compile = _without_garbage_collection(compiled.compile)
    try:
        compiled._cache = _Cache(function)  # as `Dispatcher.enable_caching` does
    except (RuntimeError, OSError) as error:  # no folder that can be written
        _warn(error)
    return compiled


def _without_garbage_collection(compile_: _F) -> _F:
    """Have no garbage collected while numba compiles: it makes millions of small objects, and leaves few to collect."""

    @wraps(compile_)
    def compile_undisturbed(*args: Any) -> Any:
        if not gc.isenabled():  # within another compilation, or as the user wishes
            return compile_(*args)
        gc.disable()
        try:
            return compile_(*args)
        finally:
            gc.enable()

    return compile_undisturbed  # type: ignore[return-value]


def is_compiled(function: Any) -> bool:
    """Whether a kernel has been compiled for some types, in this process or an earlier one."""
    if not isinstance(function, Dispatcher):  # NUMBA_DISABLE_JIT
        return False
    return bool(function.overloads) or _is_in_cache(function)


@cache
def _is_in_cache(function: Any) -> bool:
    found = function._cache
    return isinstance(found, _Cache) and found.has_code_for(function.targetctx.codegen().magic_tuple())


def kernel_files() -> list[Path]:
    """Return the source files of all kernels; none if the package is not in a folder."""
    package = Path(__file__).parent.parent
    others = [package / "splits" / "gain.py", *package.glob("runtime/*intrinsics.py"), Path(__file__)]
    return sorted(file for file in [*package.rglob("*kernels.py"), *others] if file.is_file())


@cache
def _stamp_of_kernels() -> str:
    """Return a hash of their contents."""
    return sha256(b"".join(file.read_bytes() for file in kernel_files())).hexdigest()


class _CacheFiles(CompileResultCacheImpl):
    """Names of cache files with the versions of the compilers in them.

    Numba writes the index before the code. Were the names the same for all versions, a process that reads in between
    would find the code of the version before, which its LLVM cannot read.
    """

    def get_filename_base(self, fullname: str, abiflags: str) -> str:
        """Return the first part of a cache file's name."""
        base = super().get_filename_base(fullname, abiflags)  # type: ignore[no-untyped-call]
        return f"{base}.numba{numba.__version__}.llvmlite{llvmlite_version}"


class _Cache(FunctionCache):
    """Numba's cache of a function, whose disk errors become a warning."""

    _impl_class = _CacheFiles

    def __init__(self, function: Any) -> None:
        """Keep a function's code for as long as no kernel changes: that of those which it calls is in it."""
        super().__init__(function)  # type: ignore[no-untyped-call]
        self._cache_file._source_stamp = _stamp_of_kernels()

    def has_code_for(self, processor: Any) -> bool:
        """Return whether there is code for this kind of processor."""
        try:
            index = self._cache_file._load_index()  # type: ignore[no-untyped-call]
        except Exception:  # a damaged file: `load_overload` will say so
            return False
        return any(key[1] == processor for key in index)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the code compiled for these types, or None."""
        try:
            found = super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        except OSError as error:
            _warn(error)
            return None
        except Exception as error:  # a damaged file: a pickle may raise anything
            _warn(error)
            self._forget()
            return None
        # Two processes that save at the same time may leave code of one under the types of the other.
        args, _ = normalize_signature(sig)  # type: ignore[no-untyped-call]
        return found if found is not None and found.signature.args == args else None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save the code compiled for these types, if possible."""
        try:
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]
        except OSError as error:  # the folder is gone, full, or another user's by now
            _warn(error)

    def _forget(self) -> None:
        """Empty the index: a damaged one can't be added to."""
        try:
            self.flush()  # type: ignore[no-untyped-call]
        except OSError as error:
            _warn(error)


def _warn(error: Exception) -> None:
    global _has_warned
    if not _has_warned:
        _has_warned = True
        text = " ".join(str(error).split())
        warnings.warn(
            "frameboost's compiled kernels can't be kept on disk, so each process compiles those that it calls; set "
            f"the environment variable NUMBA_CACHE_DIR to a folder that can be written ({type(error).__name__}: "
            f"{text[:200]})",
            RuntimeWarning,
            stacklevel=2,
        )
