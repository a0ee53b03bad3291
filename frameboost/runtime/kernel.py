"""The decorator of kernels: compiled by numba on the first call, and cached on disk.

Numba's cache raises an error if no folder is writable, and propagates disk errors. Here an unusable cache only costs
time: each process compiles the kernel. Numba recompiles all kernels of a changed file; here a kernel is recompiled when
its code changes, or that of a kernel it calls.

Compiling a large kernel takes seconds on every new machine and in every new container, while a small fit takes a tenth
of a second by numpy or by kernels of single steps. So work that can be done either way is counted per process until the
kernel is worth compiling (`CompileLater`); a cached kernel is used at once.
"""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial, wraps
from hashlib import sha256
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, ClassVar, TypeVar, overload

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import __version__ as llvmlite_version
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.dispatcher import Dispatcher
from numba.core.extending import _Intrinsic
from numba.core.sigutils import normalize_signature

__all__ = ["CompileLater", "compile_at_once", "is_compiled", "kernel", "read_only"]


_F = TypeVar("_F", bound=Callable[..., Any])
_has_warned = False


@overload
def kernel(function: _F, /) -> Dispatcher[_F]: ...


@overload
def kernel(**options: Any) -> Callable[[_F], Dispatcher[_F]]: ...


def kernel(function: Any = None, /, **options: Any) -> Any:
    """Compile a function with numba on the first call, without the GIL, and cache the machine code.

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
        compiled._cache = _Cache(compiled)  # as `Dispatcher.enable_caching` does
    except (RuntimeError, OSError) as error:  # no folder that can be written
        _warn(error)
    return compiled


def _without_garbage_collection(compile_: _F) -> _F:
    """Disable garbage collection while numba compiles: it creates millions of small objects, and few are garbage."""

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


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a read-only view: numba compiles a kernel once for such arrays, and once more for others."""
    view = array.view()
    view.flags.writeable = False
    return view


@cache
def _is_in_cache(function: Any) -> bool:
    cache = function._cache
    return isinstance(cache, _Cache) and cache.has_code_for(function.targetctx.codegen().magic_tuple())


class _CacheFiles(CompileResultCacheImpl):
    """Names of cache files with the versions of the compilers, instead of the line of the function.

    Numba writes the index before the code. With equal names for all versions, a process that reads in between would
    find code of an earlier version, which its LLVM can't read.
    """

    def get_filename_base(self, fullname: str, abiflags: str) -> str:
        """Return the first part of a cache file's name."""
        name = fullname.replace("<", "").replace(">", "")
        python = f"py{sys.version_info[0]}{sys.version_info[1]}{abiflags}"
        return f"{name}.{python}.numba{numba.__version__}.llvmlite{llvmlite_version}"


class _Cache(FunctionCache):
    """Numba's cache of a function, with disk errors as warnings.

    The machine code of a kernel is valid as long as its `_stamp` is the same.
    """

    _impl_class = _CacheFiles

    def __init__(self, kernel: Any) -> None:
        super().__init__(kernel.py_func)  # type: ignore[no-untyped-call]
        self._kernel = kernel

    def _set_stamp(self) -> None:
        # Not before it is read: kernels may be defined above those that they call.
        self._cache_file._source_stamp = _stamp(self._kernel)

    def has_code_for(self, processor: Any) -> bool:
        """Whether there is code for this kind of processor."""
        try:
            self._set_stamp()
            index = self._cache_file._load_index()  # type: ignore[no-untyped-call]
        except Exception:  # a damaged file: `load_overload` will say so
            return False
        return any(key[1] == processor for key in index)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the code compiled for these types, or None."""
        self._set_stamp()
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
        self._set_stamp()
        try:
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]
        except OSError as error:  # the folder is gone, full, or another user's by now
            _warn(error)

    def _forget(self) -> None:
        """Empty the index; a damaged one can't be appended to."""
        try:
            self.flush()  # type: ignore[no-untyped-call]
        except OSError as error:
            _warn(error)


# Modules whose functions change with their version alone, which is in the names of the files.
_LIBRARIES = {"llvmlite", "numba", "numpy"}


@cache
def _stamp(kernel: Any) -> str:
    """Return a hash of all that a kernel's machine code is made from: its own code, and what that calls or reads.

    Of numba's intrinsics, which write instructions, that is their whole file.
    """
    parts: list[str] = []
    seen: set[int] = set()

    def add(value: Any) -> None:
        if isinstance(value, Dispatcher):
            parts.append(repr(sorted(value.targetoptions.items())))
            value = value.py_func
        if isinstance(value, FunctionType | _Intrinsic):
            if id(value) in seen:
                return
            seen.add(id(value))
        match value:
            case FunctionType() if value.__module__.partition(".")[0] in _LIBRARIES:
                parts.append(value.__qualname__)
            case FunctionType():
                parts.extend([value.__module__, repr(value.__defaults__)])  # what is kept on disk names modules
                add_code(value.__code__, value.__globals__, value.__doc__)
                add_cells(value)
            case _Intrinsic():
                parts.append(Path(value._defn.__code__.co_filename).read_text(encoding="utf-8"))
                add_cells(value._defn)
            case tuple():
                for each in value:
                    add(each)
            case np.ndarray():
                parts.append(f"{value.dtype} {value.shape} {value.tobytes()!r}")
            case ModuleType() | type() | BuiltinFunctionType():
                parts.append(value.__name__)
            case None | bool() | int() | float() | str() | frozenset() | np.generic():
                parts.append(f"{type(value).__name__} {value!r}")
            case _:
                raise TypeError(f"kernels can't use a {type(value).__name__}: it may change unnoticed")

    def add_code(code: CodeType, known: Mapping[str, Any], doc: str | None) -> None:
        parts.append(repr((code.co_code, code.co_varnames, code.co_names)))
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                add_code(constant, known, None)
            elif constant is not doc:
                add(constant)
        for name in code.co_names:
            if name in known:
                add(known[name])

    def add_cells(function: FunctionType) -> None:
        for cell in function.__closure__ or ():
            add(cell.cell_contents)

    add(kernel)
    return sha256("\0".join(parts).encode()).hexdigest()


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


# --- work without a kernel --------------------------------------------------------------------------------------------


class CompileLater:
    """Decides when to do work without a kernel.

    Parameters
    ----------
    kernel
        The kernel.
    most
        The amount of work to do without it, in any unit: about as much as costs a third of the compile time, as future
        work is unknown.
    """

    is_on: ClassVar[bool] = True

    def __init__(self, kernel: Any, most: int) -> None:
        self._kernel = kernel
        self._left = most

    def spend(self, work: int) -> bool:
        """Whether to do this much work without the kernel; it is counted."""
        if not self.is_on or is_compiled(self._kernel) or work > self._left:
            return False
        self._left -= work
        return True


@contextmanager
def compile_at_once() -> Iterator[None]:
    """Compile all kernels on their first call, in all threads."""
    before, CompileLater.is_on = CompileLater.is_on, False
    try:
        yield
    finally:
        CompileLater.is_on = before
