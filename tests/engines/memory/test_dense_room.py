"""Codes that take the memory of other codes."""

import numpy as np
import pytest

from frameboost.engines.memory.columns import DenseCodes


@pytest.mark.parametrize("by_row", [True, False])
@pytest.mark.parametrize("was_by_row", [True, False])
def test_codes_have_rows_if_wanted_whatever_the_codes_had_whose_memory_they_take(by_row, was_by_row):
    # Bundled features have no codes by row: as many others of their type had none either, and no split, in `approx`.
    places = np.array([0, 1])
    before = DenseCodes(places, np.uint8, 300, by_row=was_by_row)
    codes = DenseCodes(places, np.uint8, 300, by_row=by_row, room=before)
    assert (codes.rows is not None) == by_row
    assert (codes.columns is before.columns) == (by_row == was_by_row)
