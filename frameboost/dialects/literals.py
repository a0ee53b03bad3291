"""Literals in a dialect: how thresholds, leaf values and categories are written so that they read back exactly."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum

from frameboost.checks.messages import shown
from frameboost.errors import ParameterError
from frameboost.schema.types import FeatureType, Physical

__all__ = ["BACKSLASH_ESCAPES", "Literals", "OutOfRange"]

# Of a database where a backslash is an escape in strings.
BACKSLASH_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}

_EPOCH = dt.datetime(1970, 1, 1)
_LONGEST_INTEGER = 2**63
_USUAL = 1e-125
_LEAST_NORMAL = 2.0**-1022
_PER_SECOND = {"ms": 10**3, "us": 10**6, "ns": 10**9}


class OutOfRange(Enum):
    """A threshold that no value of a column can be written as: every present value is below it, or none is.

    A category that no value of the column can be is `BELOW`.
    """

    ABOVE = "every value is less"
    BELOW = "no value is less"


@dataclass(frozen=True)
class Literals:
    """Templates of literals; ``{v}`` is the value as text.

    Attributes
    ----------
    string_prefix, escapes
        What stands before a quoted string, and what is written for characters inside, besides ``''`` for a quote: what
        would end the string, or what the database or a client of it replaces in any text, in strings as well.
    encoded
        Characters that are no part of a quoted string, and how a string that has some is written, by its bytes ``{v}``
        in hexadecimal.
    unheld
        Characters that no string of the database can hold.
    booleans
        False and true as values of a column.
    text
        A string literal ``{v}`` that compares exactly with a column as `Expressions.text` has it.
    double
        A finite float64: ``{v}`` is the shortest text with a point or an exponent, ``{e}`` one with an exponent.
    extreme
        The same for numbers beyond 1e±125, where these are written in another way; ``{i}`` is the text with an integer
        and an exponent, 15e-301 for 1.5e-300.
    has_subnormals
        Whether a literal can be a number between 0 and ±2^-1022. If not, a threshold in between is rounded up, because
        no column is expected to hold such a number.
    infinity
        ∞ and −∞; None where the type has none.
    integer_digits
        Decimal digits of the widest integers; None for any number.
    wide_integer, decimal
        An integer beyond 64 bits, and a decimal of precision ``{p}`` and scale ``{s}``.
    date, timestamp, timestamptz
        ``{v}`` is as in ISO 8601 with ``time_separator`` before the time.
    digits, has_whole_fractions
        Digits of a second's fraction, and whether all of them are always written.
    years
        First and last year of dates and times.
    has_endless_dates
        Whether dates and timestamps may be ``infinity``.
    interval
        ``{v}`` microseconds; None where a duration is a column of integers, in the units of its type.
    """

    string_prefix: str = ""
    escapes: Mapping[str, str] = field(default_factory=dict)
    encoded: tuple[str, str] | None = None
    unheld: str = ""
    booleans: tuple[str, str] = ("FALSE", "TRUE")
    text: str = "{v}"
    double: str = "{v}"
    extreme: str | None = None
    has_subnormals: bool = True
    infinity: tuple[str, str] | None = None
    integer_digits: int | None = None
    wide_integer: str = "{v}"
    decimal: str = "{v}"
    date: str = "DATE '{v}'"
    timestamp: str = "TIMESTAMP '{v}'"
    timestamptz: str = "TIMESTAMP '{v}+00:00'"
    time_separator: str = " "
    digits: int = 6
    has_whole_fractions: bool = False
    years: tuple[int, int] = (1, 9999)
    has_endless_dates: bool = False
    interval: str | None = None

    def literal(self, kind: FeatureType, value: Physical) -> str | OutOfRange:
        """Return a physical value as a literal that compares exactly with a column of the type."""
        if isinstance(value, str):
            return OutOfRange.BELOW if self._is_unheld(value) else self.text.format(v=self.string(value))
        if kind.is_float:
            number = float(value)
            if math.isinf(number) and self.infinity is None:
                return OutOfRange.ABOVE if number > 0 else OutOfRange.BELOW
            if not self.has_subnormals and abs(number) < _LEAST_NORMAL:
                number = _LEAST_NORMAL if number > 0 else 0.0
            return self.number(number)
        whole = int(value)
        if kind.precision_and_scale:
            precision, scale = kind.precision_and_scale
            return self.decimal.format(v=f"{kind.decimal(whole):f}", p=precision, s=scale)
        if kind.family in ("date", "timestamp", "timestamptz"):
            return self._moment(kind, whole)
        if kind.family == "duration" and self.interval is not None:
            # The first microsecond from the threshold on: −(−a // b) rounds up.
            return self.interval.format(v=-(-whole * 10**6 // _PER_SECOND[kind.unit or "us"]))
        if self.integer_digits is not None and abs(whole) >= 10**self.integer_digits:
            return OutOfRange.ABOVE if whole > 0 else OutOfRange.BELOW
        return str(whole) if -_LONGEST_INTEGER <= whole < _LONGEST_INTEGER else self.wide_integer.format(v=whole)

    def is_exact(self, kind: FeatureType, value: Physical) -> bool:
        """Whether a column of the type can hold the value as it is, so that its literal is it, and not the next one."""
        if isinstance(value, float):
            return self.has_subnormals or not 0 < abs(value) < _LEAST_NORMAL
        if not kind.unit or (kind.family == "duration" and self.interval is None) or isinstance(value, str):
            return True
        digits = 6 if kind.family == "duration" else self.digits
        return int(value) % max(1, _PER_SECOND[kind.unit] // int(10**digits)) == 0

    def number(self, value: float) -> str:
        """Return a float64 as a literal of the type that reads back as the same number."""
        if math.isinf(value):
            assert self.infinity is not None, "the database has no infinities"
            return self.infinity[value < 0]
        text = repr(float(value))
        if self.extreme is not None and value and not _USUAL < abs(value) < 1 / _USUAL:
            return self.extreme.format(v=text, i=_with_integer(text))
        return self.double.format(v=text, e=text if "e" in text else f"{text}e0")

    def string(self, value: str) -> str:
        """Return a string as a literal.

        Raises
        ------
        ParameterError
            If no string of the database can hold it.
        """
        if self._is_unheld(value):
            raise ParameterError(f"the string {shown(value)} holds a character that no string of the database can")
        if self.encoded is not None and not set(self.encoded[0]).isdisjoint(value):
            return self.encoded[1].format(v=value.encode().hex().upper())
        escapes = {"'": "''", **self.escapes}
        pattern = "|".join(map(re.escape, sorted(escapes, key=len, reverse=True)))
        return f"{self.string_prefix}'" + re.sub(pattern, lambda found: escapes[found[0]], value) + "'"

    def _is_unheld(self, value: str) -> bool:
        return not set(self.unheld).isdisjoint(value)

    def label(self, value: str | bool) -> str:
        """Return the label of a class as a value of a column."""
        return self.string(value) if isinstance(value, str) else self.booleans[value]

    def _moment(self, kind: FeatureType, value: int) -> str | OutOfRange:
        """Return a date or a time as a literal, rounded up to the database's fractions of a second.

        A threshold t asks ``x < t``, so the first value from t on that the column can have says the same.
        """
        template = {"date": self.date, "timestamp": self.timestamp, "timestamptz": self.timestamptz}[kind.family]
        assert kind.bounds is not None
        if abs(value) == kind.bounds[1] and self.has_endless_dates:
            return template.replace("+00:00", "").format(v="infinity" if value > 0 else "-infinity")
        if kind.family == "date":
            seconds, fraction = value * 86_400, ""
        else:
            parts = -(-value * 10**self.digits // _PER_SECOND[kind.unit or "us"])
            seconds, rest = divmod(parts, 10**self.digits)
            fraction = f".{rest:0{self.digits}d}"
            fraction = fraction if self.has_whole_fractions else fraction.rstrip("0").rstrip(".")
        if not _second_of(self.years[0]) <= seconds < _second_of(self.years[1] + 1):
            return OutOfRange.ABOVE if value > 0 else OutOfRange.BELOW
        moment = _EPOCH + dt.timedelta(seconds=seconds)
        text = (
            moment.date().isoformat() if kind.family == "date" else moment.isoformat(sep=self.time_separator) + fraction
        )
        return template.format(v=text)


def _with_integer(text: str) -> str:
    """Return a float64's text as an integer and an exponent, such as 15e-301 for 1.5e-300."""
    sign, digits, exponent = Decimal(text).as_tuple()
    return f"{'-' * sign}{''.join(map(str, digits))}e{exponent}"


def _second_of(year: int) -> int:
    """Return when the year begins, in seconds since 1970."""
    days = (dt.datetime(min(year, 9999), 1, 1) - _EPOCH).days
    return (days + 365 * (year > 9999)) * 86_400  # Python's calendar ends with 9999, a year of 365 days
