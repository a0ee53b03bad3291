"""Messages of a fit on standard error, progress bars and a line when kernels are compiled, and a log.

The log is Python's `logging`, logger ``frameboost``, level INFO.
"""

from __future__ import annotations

import logging
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from frameboost.checks.messages import shortened

__all__ = ["LOG", "announce_compilation", "is_watched", "progress", "steps"]

LOG = logging.getLogger("frameboost")

_PATIENCE_SECONDS = 1.0
# From one line of a fit in the log to the next.
_LOG_SECONDS = 10.0
# If Ctrl-C takes effect within this time, no message is needed.
_HEARD_SECONDS = 0.3


_said_of_compiling: set[str] = set()  # where it has been said in this process: once is enough


def is_watched() -> bool:
    """Whether standard error is a terminal, or the code runs in a notebook."""
    ipython = sys.modules.get("IPython")
    if ipython is not None:
        shell = ipython.get_ipython()
        if shell is not None and type(shell).__name__ == "ZMQInteractiveShell":
            return True
    isatty = getattr(sys.stderr, "isatty", None)  # a logger in its place may lack it
    return isatty is not None and isatty()


def _is_told(verbose: bool | int | None) -> bool:
    """Whether to show progress on standard error."""
    return _may_tell(verbose) and (verbose is not None or is_watched())


def _may_tell(verbose: bool | int | None) -> bool:
    """Whether to write to standard error at all."""
    is_open = sys.stderr is not None and not getattr(sys.stderr, "closed", False)  # which it may not be of a daemon
    return is_open and (verbose is None or verbose > 0)


@contextmanager
def announce_compilation(verbose: bool | int | None) -> Iterator[None]:
    """Print one line per session if kernels are compiled: on a machine's first fit, and after an update.

    Numba reports a compilation only if the kernel is not cached. LLVM can't be interrupted, so if Ctrl-C must wait for
    a kernel, another line says so at once. ``verbose`` is as for `progress`, but None also prints the line to a log if
    compiling takes more than a second.
    """
    if not _may_tell(verbose) and not LOG.isEnabledFor(logging.INFO):
        yield
        return
    patience = 0.0 if _is_told(verbose) else _PATIENCE_SECONDS
    from numba.core import event  # imported late: `import frameboost` does without numba

    listening = ExitStack()

    class Compiling(event.Listener):
        is_listening = False
        started = 0.0
        depth = 0
        is_idle = threading.Event()

        def on_start(self, about: Any) -> None:
            self.depth += 1
            self.is_idle.clear()
            kernel = about.data["dispatcher"].py_func
            if self.is_listening or not kernel.__module__.startswith("frameboost."):  # not those of other packages
                return
            if "log" not in _said_of_compiling and LOG.isEnabledFor(logging.INFO):
                _said_of_compiling.add("log")
                LOG.info("compiling kernels, once on this machine")
            self.started = self.started or time.monotonic()
            if _may_tell(verbose) and time.monotonic() - self.started >= patience:
                self.is_listening = True
                if "stderr" not in _said_of_compiling:
                    _said_of_compiling.add("stderr")
                    _tell("compiling kernels, once on this machine ...")
                listening.enter_context(_answering_ctrl_c(self.is_idle))

        def on_end(self, about: Any) -> None:
            """Count a compilation as ended; numba calls this after a failure or an interrupt too."""
            self.depth -= 1
            if not self.depth:
                self.is_idle.set()

    with listening, event.install_listener("numba:compile", Compiling()):
        yield


def _tell(what: str) -> None:
    from tqdm.auto import tqdm

    tqdm.write(f"frameboost: {what}", file=sys.stderr)


@contextmanager
def _answering_ctrl_c(is_idle: threading.Event) -> Iterator[None]:
    """Print that Ctrl-C was received, unless the compiler finishes soon.

    A Python handler must wait until LLVM returns control of the main thread. A wake-up file descriptor notifies another
    thread at once.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard, rings = socket.socketpair()
    rings.setblocking(False)

    def answer() -> None:
        while numbers := heard.recv(64):
            if signal.SIGINT in numbers and not is_idle.wait(_HEARD_SECONDS):
                _tell("interrupted (Ctrl-C); the fit stops when the kernel is compiled ...")

    answering = threading.Thread(target=answer, daemon=True)
    answering.start()
    before = signal.set_wakeup_fd(rings.fileno(), warn_on_full_buffer=False)
    if before != -1:  # somebody else, such as asyncio, listens
        signal.set_wakeup_fd(before)
    try:
        yield
    finally:
        if before == -1:
            signal.set_wakeup_fd(-1)
        rings.close()
        answering.join()
        heard.close()


@contextmanager
def progress(
    total: int, evaluate: Callable[[], tuple[str, float]], *, verbose: bool | int | None
) -> Iterator[Callable[[int], None]]:
    """Yield a function to call after each tree, with the number of trees so far.

    Parameters
    ----------
    total
        The number of trees to grow.
    evaluate
        A function that returns the name and the value of a metric; called about once a second while a bar is shown.
    verbose
        True: always (after a second); False: never; None: only in a terminal or notebook.
    """
    with _logged(total, evaluate) as log:
        if not _is_told(verbose):
            yield log
            return
        with _bar(total, evaluate) as update:

            def both(n_trees: int) -> None:
                log(n_trees)
                update(n_trees)

            yield both


@contextmanager
def _logged(total: int, evaluate: Callable[[], tuple[str, float]]) -> Iterator[Callable[[int], None]]:
    """Yield a function like that of `progress` that logs a line now and then, and one at the end."""
    if not LOG.isEnabledFor(logging.INFO):
        yield lambda _: None
        return
    begun = said = time.monotonic()
    grown = 0

    def update(n_trees: int) -> None:
        nonlocal said, grown
        grown, now = n_trees, time.monotonic()
        if now - said >= _LOG_SECONDS:
            said = now
            LOG.info("fit: %s of %s trees, %s=%.6g", n_trees, total, *_metric(evaluate))

    yield update
    if grown:
        LOG.info("fit: %s trees in %.1f seconds, %s=%.6g", grown, time.monotonic() - begun, *_metric(evaluate))


def _metric(evaluate: Callable[[], tuple[str, float]]) -> tuple[str, float]:
    name, value = evaluate()
    return shortened(name), value


@contextmanager
def _bar(total: int, evaluate: Callable[[], tuple[str, float]]) -> Iterator[Callable[[int], None]]:
    from tqdm.auto import tqdm  # imported late: most fits show no bar

    with tqdm(total=total, unit="tree", desc="fit", delay=_PATIENCE_SECONDS, leave=False) as bar:

        def show() -> None:
            bar.refresh()
            bar.last_print_t = time.time()  # without it tqdm would not clear the bar at the end

        bar.set_postfix_str("preparing", refresh=False)  # shown until the first tree is done
        waiting = threading.Timer(_PATIENCE_SECONDS, show)
        waiting.daemon = True
        waiting.start()
        evaluated = time.monotonic()

        def update(n_trees: int) -> None:
            nonlocal evaluated
            waiting.cancel()
            bar.update(n_trees - bar.n)
            now = time.monotonic()
            if now - evaluated >= _PATIENCE_SECONDS:
                evaluated = now
                metric, value = evaluate()
                bar.set_postfix_str(f"{shortened(metric)}={value:.6g}", refresh=False)
                show()

        try:
            yield update
        finally:
            waiting.cancel()
            waiting.join()


@contextmanager
def steps(total: int, *, verbose: bool | int | None) -> Iterator[Callable[[str], None]]:
    """Yield a function to call at the start of each step with its description.

    ``total`` is the number of steps, and ``verbose`` as for `progress`.
    """

    def log(what: str) -> None:
        LOG.info("auto: %s", shortened(what))

    if not _is_told(verbose):
        yield log
        return
    from tqdm.auto import tqdm

    with tqdm(total=total, unit="fit", desc="auto", leave=False) as bar:
        begun = 0

        def begin(what: str) -> None:
            nonlocal begun
            bar.update(min(begun, total) - bar.n)
            begun += 1
            log(what)
            bar.set_postfix_str(shortened(what))

        yield begin
