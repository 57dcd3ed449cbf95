"""Values of pandas that are not tables: times, periods, intervals, missing values, indexes and arrays.

Both sides make them here. The sandbox does so before it answers, and refuses a value that would be another one.
"""

from __future__ import annotations

import datetime
import sys
from collections.abc import Callable
from typing import Any

from .frames import MAX_FREQUENCY, convert_pandas
from .refusal import Unserializable

SINGLE = ("NaT", "NA")
UNITS = ("s", "ms", "us", "ns")
Convert = Callable[[Any, str], Any]


def kind_of(value: Any) -> str:
    """Return the name in pandas of a value's class, or of the value itself, or "" if it is none of these."""
    pandas = sys.modules.get("pandas")
    for name in SINGLE:
        if value is getattr(pandas, name, sys):
            return name
    for name in PARTS:
        if type(value) is getattr(pandas, name, None):
            return name
    if isinstance(value, getattr(pandas, "Index", ())) and type(value) is getattr(pandas, type(value).__name__, None):
        return "Index"
    extensions = getattr(getattr(pandas, "api", None), "extensions", None)
    return "array" if isinstance(value, getattr(extensions, "ExtensionArray", ())) else ""


def _time(value: Any) -> list[Any]:
    number = int(value.asm8.view("i8"))
    unit = getattr(value, "unit", "ns")  # before pandas 2 it was always that
    return [number, unit, *([value.tz, value.fold] if hasattr(value, "fold") else [])]


PARTS: dict[str, Callable[[Any], list[Any]]] = {
    "Timestamp": _time,
    "Timedelta": _time,
    "Period": lambda value: [value.ordinal, value.freqstr],
    "Interval": lambda value: [value.left, value.right, value.closed],
}


def convert_scalar(kind: str, value: Any, path: str, convert: Convert) -> list[Any]:
    """Return the content of a value in an answer.

    Args:
        kind: the result of kind_of().
        value: the value.
        path: where it is in the result.
        convert: for the values in it.

    Raises:
        Unserializable: it would be another value on the other side.
    """
    if kind in SINGLE:
        return [kind]
    pandas = sys.modules["pandas"]
    if kind == "Index":
        return [kind, convert_pandas(pandas.DataFrame(index=value), path, convert)]
    if kind == "array":
        return [kind, convert_pandas(pandas.Series(value), path, convert)]
    parts = PARTS[kind](value)
    try:
        made = make_scalar(kind, parts)
        same = type(made) is type(value) and made == value and repr(made) == repr(value)
    except Exception:  # pandas has no such frequency, for example
        same = False
    if not same:
        raise Unserializable(value, path, f"a value of type pandas.{kind} cannot leave the sandbox: return str(…)")
    return [kind, *(convert(part, path) for part in parts)]


def make_scalar(kind: str, parts: list[Any]) -> Any:  # noqa: PLR0911 (one for each kind)
    """Return a value of pandas.

    Raises:
        Exception: the parts do not fit together.
    """
    import numpy
    import pandas

    if kind in SINGLE:
        return getattr(pandas, kind)
    if kind == "Index":
        return parts[0].index
    if kind == "array":
        return parts[0].array
    if kind == "Period":
        ordinal, frequency = parts
        if len(frequency) > MAX_FREQUENCY:
            raise ValueError("an unknown frequency")
        return pandas.Period(ordinal=ordinal, freq=frequency)
    if kind == "Interval":
        left, right, closed = parts
        return pandas.Interval(left, right, closed)
    number, unit, *rest = parts
    if unit not in UNITS:
        raise ValueError("an unknown unit of time")
    if kind == "Timedelta":
        return pandas.Timedelta(numpy.timedelta64(number, unit))
    zone, fold = rest
    if not isinstance(zone, (datetime.tzinfo, type(None))):  # pandas reads the file that some strings name
        raise TypeError("an unknown time zone")
    stamp = pandas.Timestamp(numpy.datetime64(number, unit))
    return stamp.replace(fold=fold) if zone is None else stamp.tz_localize("UTC").tz_convert(zone)
