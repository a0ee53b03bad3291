"""A progress bar for people: shown when a fit takes long and somebody is watching."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["is_watched", "progress"]

_PATIENCE_SECONDS = 1.0


def is_watched() -> bool:
    """Whether standard error is a terminal, or the code runs in a notebook."""
    ipython = sys.modules.get("IPython")
    if ipython is not None:
        shell = ipython.get_ipython()
        if shell is not None and type(shell).__name__ == "ZMQInteractiveShell":
            return True
    isatty = getattr(sys.stderr, "isatty", None)  # which a logger's stand-in may not have
    return isatty is not None and isatty()


def _nowhere_to_write() -> bool:
    return sys.stderr is None or getattr(sys.stderr, "closed", False)  # as in a daemon


@contextmanager
def progress(
    total: int, metric: str, evaluate: Callable[[], float], *, verbose: bool | None
) -> Iterator[Callable[[int], None]]:
    """Yield what to call after each tree with the number of trees so far.

    Parameters
    ----------
    total
        Trees to come.
    metric, evaluate
        The loss's name, and how to get it; called about once a second, and only when a bar is shown.
    verbose
        True for always (after a second), False for never, None for when somebody is watching.
    """
    if verbose is False or _nowhere_to_write() or (verbose is None and not is_watched()):
        yield lambda _: None
        return
    from tqdm.auto import tqdm  # imported late: most fits show no bar

    with tqdm(total=total, unit="tree", desc="fit", delay=_PATIENCE_SECONDS, leave=False) as bar:

        def show() -> None:
            bar.refresh()
            bar.last_print_t = time.time()  # or tqdm would think that there is nothing to wipe out in the end

        # The first tree waits for the kernels, which compile once per machine; say so rather than seem to hang.
        bar.set_postfix_str("preparing (the first fit on a machine compiles)", refresh=False)
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
                bar.set_postfix_str(f"{metric}={evaluate():.6g}", refresh=False)
                show()

        try:
            yield update
        finally:
            waiting.cancel()
            waiting.join()
