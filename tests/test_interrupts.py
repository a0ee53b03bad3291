"""Ctrl-C is KeyboardInterrupt, also while a kernel runs."""

import os
import signal
import threading

import numba
import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.engines import row_partition
from frameboost.interrupts import as_keyboard_interrupt


@numba.njit(nogil=True)
def slow(n):
    total = 0.0
    for i in range(n):
        total += np.sqrt(i)
    return np.full(3, total), np.full(2, total)


def press_ctrl_c(*_):
    threading.Timer(0.02, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    return slow(200_000_000)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no signals to send")
def test_in_a_kernel():
    slow(1)
    with pytest.raises(KeyboardInterrupt), as_keyboard_interrupt():
        press_ctrl_c()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no signals to send")
def test_in_a_fit(monkeypatch):
    slow(1)
    monkeypatch.setattr(row_partition, "shares_of", press_ctrl_c)
    frame = pl.DataFrame({"x": range(10), "y": range(10)})
    with pytest.raises(KeyboardInterrupt):
        fb.fit(frame, "y", verbose=False)


def test_anything_else_stays_what_it_is():
    with pytest.raises(SystemError, match="another"), as_keyboard_interrupt():
        raise SystemError("another") from ValueError("it")
    with pytest.raises(ValueError, match="it"), as_keyboard_interrupt():
        raise ValueError("it")
