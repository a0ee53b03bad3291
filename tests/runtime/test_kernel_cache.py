"""The kernel cache on disk: where it can't be written or read, kernels are compiled, with one warning."""

import ctypes
import gc
import importlib.util
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import polars as pl
import pytest

import frameboost as fb
from frameboost.runtime import kernel

ROOT = Path(__file__).parents[2]
CAPABILITIES = 41  # of Linux

# The cache of a kernel looks for a folder when the kernel is decorated, so all modules are imported. One kernel is
# compiled, that of `predict`: those of a fit take half a minute.
PREDICT = """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import importlib, pkgutil, sys
    import polars as pl, frameboost as fb
    from numba.core.caching import NullCache
    from numba.core.dispatcher import Dispatcher
    names = [found.name for found in pkgutil.walk_packages(fb.__path__, "frameboost.") if "__main__" not in found.name]
    modules = [importlib.import_module(name) for name in names]
    kernels = {value for module in modules for value in vars(module).values() if isinstance(value, Dispatcher)}
    print(len(kernels) > 50, {type(kernel._cache) for kernel in kernels} == {NullCache})
    print(fb.load(sys.argv[1]).predict(pl.DataFrame({"x": [1.0, 2, 3, 4]})).to_list())
for warning in caught:
    print(warning.category.__name__, "NUMBA_CACHE_DIR" in str(warning.message))
"""


def _without_rights_of_root():
    """Leave root, whom permissions do not keep from writing, with those of any owner of files."""
    if os.geteuid() == 0:
        for capability in range(CAPABILITIES):
            ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


def _twice(x):
    return 2 * x


def test_it_is_known_whether_a_kernel_has_been_compiled(tmp_path, monkeypatch):
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))
    first = kernel.kernel(_twice)
    assert not kernel.is_compiled(first)
    assert first(4) == 8
    assert kernel.is_compiled(first)
    assert kernel.is_compiled(kernel.kernel(_twice))  # as in another process
    assert not kernel.is_compiled(_twice)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="root's capabilities are Linux's")
def test_kernels_work_without_any_writable_folder(tmp_path):
    # A split at 2.5, between the second and the third row; leaves are means.
    frame = pl.DataFrame({"x": [1.0, 2, 3, 4], "y": [0.0, 0, 8, 8]})
    fb.fit(frame, "y", n_estimators=1, learning_rate=1, reg_lambda=0).save(tmp_path / "m.json")
    folder = tmp_path / "installed"
    for part in ("frameboost", "sql"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    folders = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
    outside = {key: value for key, value in os.environ.items() if key not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    try:
        for path in folders:
            path.chmod(0o555)
        done = subprocess.run(
            [sys.executable, "-c", PREDICT, str(tmp_path / "m.json")], cwd=folder, capture_output=True, text=True,
            env=outside | {"HOME": str(folder), "PYTHONPATH": str(folder)}, preexec_fn=_without_rights_of_root,
        )  # fmt: skip
    finally:
        for path in folders:
            path.chmod(0o755)
    assert done.stderr == ""
    assert done.stdout == "True True\n[0.0, 0.0, 8.0, 8.0]\nRuntimeWarning True\n"


@pytest.fixture
def halves(tmp_path, monkeypatch):
    """A function that imports anew a module with one kernel, ``half``, whose cache is in tmp_path / "__pycache__"."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(kernel, "_has_warned", False)
    path = tmp_path / "halving.py"
    path.write_text("from frameboost.runtime.kernel import kernel\n\n@kernel\ndef half(x):\n    return x / 2\n")

    def load():
        spec = importlib.util.spec_from_file_location("halving", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.half

    return load


def _is_from_cache(half):
    return sum(half.stats.cache_hits.values()) == 1 and not half.stats.cache_misses


DAMAGES = {
    "empty": lambda data: b"",
    "cut": lambda data: data[: len(data) // 2],
    "cut at its start": lambda data: data[:7],
    "another pickle": lambda data: pickle.dumps({"a": 1}) * 2,
    "text": lambda data: b"Not a pickle.\n",
    "zeros": lambda data: bytes(len(data)),
}


@pytest.mark.parametrize(("damage", "suffix"), [
    ("empty", "nbi"), ("cut", "nbc"), ("cut at its start", "nbi"), ("another pickle", "nbi"), ("another pickle", "nbc"),
    ("text", "nbc"), ("zeros", "nbi"),
])  # fmt: skip
def test_damaged_cache_files_are_recompiled(halves, tmp_path, damage, suffix):
    halves()(3)
    (file,) = tmp_path.glob(f"__pycache__/*.{suffix}")
    file.write_bytes(DAMAGES[damage](file.read_bytes()))
    if (damage, suffix) == ("another pickle", "nbi"):  # an index of another version, which numba itself passes over
        assert halves()(3) == 1.5
    else:
        with pytest.warns(RuntimeWarning, match="kernels can't be kept on disk.*NUMBA_CACHE_DIR"):
            assert halves()(3) == 1.5
    half = halves()
    assert half(3) == 1.5
    assert _is_from_cache(half)


def test_cached_code_of_another_signature_is_not_used(halves, tmp_path):
    # So two processes leave it that save at the same time: each takes the number 1, and the index is the other's.
    half = halves()
    assert (half(3), half(5.5)) == (1.5, 2.75)
    of_integers, of_floats = sorted(tmp_path.glob("__pycache__/*.nbc"))
    of_floats.write_bytes(of_integers.read_bytes())  # which cuts off what is behind the point
    half = halves()
    assert (half(3), half(5.5)) == (1.5, 2.75)


_CALLED = """
from frameboost.runtime.kernel import kernel

@kernel
def half(x):
    return part(x)

@kernel(inline="always")
def part(x):
    return x / DIVISOR

DIVISOR = 2
"""


@pytest.mark.parametrize(("before", "after", "expected"), [
    ("return x / DIVISOR", "return x * DIVISOR", 6), ("DIVISOR = 2", "DIVISOR = 3", 1),
    ("always", "never", 1.5),
])  # fmt: skip
def test_code_is_compiled_anew_after_what_it_calls_or_reads_has_changed(halves, tmp_path, before, after, expected):
    # Numba looks at the file of a kernel alone, but the code of a kernel that is called is in that of its caller.
    path = tmp_path / "halving.py"
    path.write_text(_CALLED)
    assert halves()(3) == 1.5
    path.write_text("# Other lines.\n" + _CALLED + "\ndef other():\n    pass\n")
    half = halves()
    assert half(3) == 1.5
    assert _is_from_cache(half)
    path.write_text(_CALLED.replace(before, after))
    half = halves()
    assert half(3) == expected
    assert not _is_from_cache(half)
    half = halves()
    assert half(3) == expected
    assert _is_from_cache(half)


def test_code_is_compiled_anew_after_what_it_calls_has_moved(halves, tmp_path, monkeypatch):
    # As a release moves it: code on disk names the modules of what it calls, which are gone.
    monkeypatch.syspath_prepend(tmp_path)
    caller, called = _CALLED.replace("@kernel(inline", "#\n@kernel(inline").split("#\n")
    for module in ("parts", "moved_parts"):
        (tmp_path / f"{module}.py").write_text("from frameboost.runtime.kernel import kernel\n" + called)
        (tmp_path / "halving.py").write_text(f"from {module} import part\n" + caller)
        half = halves()
        assert half(3) == 1.5
        assert not _is_from_cache(half)


def test_versions_of_the_compilers_have_files_of_their_own(halves, tmp_path, monkeypatch):
    # One folder may serve two environments. Under one name, each would read what the other has written.
    assert halves()(3) == 1.5
    before = {path.name: path.read_bytes() for path in tmp_path.glob("__pycache__/*.nb?")}
    monkeypatch.setattr(kernel, "llvmlite_version", "0.1.2")
    half = halves()
    assert half(3) == 1.5
    assert not _is_from_cache(half)
    after = {path.name: path.read_bytes() for path in tmp_path.glob("__pycache__/*.nb?")}
    assert len(before) == 2
    assert len(after) == 4
    assert before.items() <= after.items()


def test_a_cache_folder_that_became_unwritable_gives_one_warning(halves, tmp_path):
    half = halves()
    shutil.rmtree(tmp_path / "__pycache__")
    (tmp_path / "__pycache__").write_text("a file")
    with pytest.warns(RuntimeWarning, match="kernels can't be kept on disk") as caught:
        assert (half(3), half(3.0)) == (1.5, 1.5)
    assert len(caught) == 1


def test_an_unreadable_cache_index_gives_a_warning(halves, tmp_path):
    halves()(3)
    (index,) = tmp_path.glob("__pycache__/*.nbi")
    index.unlink()
    index.mkdir()
    with pytest.warns(RuntimeWarning, match="kernels can't be kept on disk"):
        assert halves()(3) == 1.5


def test_a_kernel_compiles_without_a_cache_folder(halves, tmp_path, monkeypatch):
    (tmp_path / "__pycache__").write_text("a file")
    monkeypatch.setenv("HOME", str(tmp_path / "__pycache__"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    with pytest.warns(RuntimeWarning, match="kernels can't be kept on disk.*RuntimeError: cannot cache function"):
        half = halves()
    assert half(3) == 1.5


def test_no_garbage_is_collected_while_a_kernel_compiles(halves):
    collected = []
    gc.callbacks.append(lambda phase, _: collected.append(phase))
    try:
        before = gc.isenabled()
        assert halves()(3) == 1.5
        during = list(collected)
        with pytest.raises(numba.TypingError):
            halves()("text")
        assert gc.isenabled() == before
    finally:
        gc.callbacks.pop()
    # numba makes some hundred thousand objects, and Python collects garbage after 700 by default
    assert len(during) <= 4
