"""Shapes of pages as they are seen: how bright the first screen is, in columns from left to right.

Text that moves down by some lines, or has another font, changes them by less than `FAR`. A stylesheet that is missing,
a chart that is not drawn, a sidebar that is gone or a page that stays light changes them by more.
`FRAMEBOOST_WRITE_GOLDEN=1` writes those of the pages that a test opens into ``tests/golden/shapes.txt``.
"""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.browser import Browser

__all__ = ["FAR", "other_shapes", "shape"]

SHAPES = Path(__file__).parents[1] / "golden" / "shapes.txt"
COLUMNS = 6
# Of 255. Measured on five pages at three widths, at most: another font 2.7, text that is 6 % larger 4.2, a paragraph
# more 2.8; without the site's stylesheet 13.2, without charts 11.2; without the theme's stylesheet 37 at least.
FAR = 5
# The browser decodes its own picture.
_BRIGHTNESS = """(async () => {
    const image = new Image();
    image.src = "data:image/png;base64,%s";
    await image.decode();
    const { width, height } = image, columns = %d;
    const context = Object.assign(document.createElement("canvas"), { width, height }).getContext("2d");
    context.drawImage(image, 0, 0);
    const { data } = context.getImageData(0, 0, width, height);
    const sums = new Array(columns).fill(0), counts = new Array(columns).fill(0);
    for (let at = 0; at < data.length; at += 4) {
        const column = Math.floor((at / 4) %% width * columns / width);
        sums[column] += 0.2126 * data[at] + 0.7152 * data[at + 1] + 0.0722 * data[at + 2];
        counts[column]++;
    }
    return sums.map((sum, column) => Math.round(sum / counts[column]));
})()"""
_STILL = """document.head.append(Object.assign(document.createElement("style"), {
    textContent: "* { transition: none !important; animation: none !important; caret-color: transparent !important; }"
}))"""


def shape(browser: Browser) -> list[int]:
    """Return the mean brightness of each column of what the browser shows, from 0 to 255."""
    browser.value(f"{_STILL}; 1")
    picture = browser.call("Page.captureScreenshot", optimizeForSpeed=True)["data"]
    brightness: list[int] = browser.value(_BRIGHTNESS % (picture, COLUMNS))
    return brightness


def other_shapes(shapes: dict[str, list[int]]) -> dict[str, tuple[list[int], list[int] | None]]:
    """Return the shapes that are far from those that are stored under their names, with these; none once written."""
    lines = [line.split(": ") for line in SHAPES.read_text(encoding="utf-8").splitlines()] if SHAPES.exists() else []
    stored = {name: [int(number) for number in numbers.split()] for name, numbers in lines}
    if os.environ.get("FRAMEBOOST_WRITE_GOLDEN") == "1":
        stored |= shapes
        text = "".join(f"{name}: {' '.join(map(str, numbers))}\n" for name, numbers in sorted(stored.items()))
        SHAPES.write_text(text, encoding="utf-8")
    return {
        name: (numbers, expected)
        for name, numbers in shapes.items()
        if (expected := stored.get(name)) is None
        or max(abs(a - b) for a, b in zip(numbers, expected, strict=True)) > FAR
    }
