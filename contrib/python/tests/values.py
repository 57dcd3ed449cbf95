"""Values for test_differential.py, and the comparison of values that have gone through a sandbox."""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import fractions
import math
import pathlib
import uuid
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from hypothesis import reject
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays


class Colour(enum.Enum):
    """An enumeration."""

    RED = "r"
    BLUE = (1, 2)


class Pair(NamedTuple):
    """A named tuple."""

    one: object
    two: object


@dataclass
class Point:
    """A dataclass."""

    x: object
    y: object = None


zones = st.sampled_from([None, datetime.timezone.utc, datetime.timezone(datetime.timedelta(hours=-3, minutes=7))])
texts = st.text(max_size=8)
hashable = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(1 << 100), 1 << 100),
    st.floats(),
    st.complex_numbers(),
    texts,
    st.binary(max_size=8),
    st.dates(),
    st.times(timezones=zones),
    st.datetimes(timezones=zones),
    st.timedeltas(),
    st.decimals().filter(lambda number: not number.is_snan()),
    st.fractions(),
    st.uuids(),
    st.sampled_from([*Colour, pathlib.PurePosixPath("a/b"), pathlib.PosixPath("/a")]),
)
# Values that must come back.
supported = st.recursive(
    st.one_of(hashable, st.binary(max_size=8).map(bytearray)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.tuples(inner, inner),
        st.dictionaries(hashable, inner, max_size=4),
        st.sets(hashable, max_size=4),
        st.frozensets(hashable, max_size=4),
        st.builds(Point, inner, inner),
    ),
    max_leaves=10,
)
others_hashable = st.one_of(
    hashable, st.just(...), st.builds(range, st.integers(-9, 9), st.integers(-9, 9), st.integers(1, 5))
)
plain = st.recursive(
    st.one_of(others_hashable, st.binary(max_size=8).map(bytearray), st.just(decimal.Decimal("sNaN"))),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.tuples(inner, inner),
        st.dictionaries(hashable, inner, max_size=4),
        st.sets(hashable, max_size=4),
        st.frozensets(hashable, max_size=4),
        st.builds(Pair, inner, inner),
        st.builds(Point, inner, inner),
        st.lists(inner, max_size=3).map(collections.deque),
        st.dictionaries(hashable, inner, max_size=3).map(collections.OrderedDict),
    ),
    max_leaves=10,
)
scalars = arrays.scalar_dtypes()
plain_arrays = arrays.arrays(scalars, arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
numpys = st.one_of(
    arrays.arrays(arrays.array_dtypes(scalars), arrays.array_shapes(max_dims=2, max_side=3)),
    scalars.flatmap(arrays.from_dtype),
    arrays.arrays(scalars, (4, 3)).map(lambda array: array[::2, ::-1]),
    arrays.arrays(scalars, (2, 3)).map(np.asfortranarray),
)
# The names of pandas' types, and what is in a column of each.
DTYPES: dict[str, st.SearchStrategy[Any]] = {
    **{kind: st.integers(0, 100) for kind in ("int8", "uint8", "int16", "uint32", "int64", "uint64")},
    **{kind: st.floats(width=32) for kind in ("float32", "float64", "Float32", "Float64", "complex128")},
    **{kind: st.one_of(st.none(), st.integers(0, 100)) for kind in ("Int8", "UInt16", "Int64", "UInt64")},
    "bool": st.booleans(),
    "boolean": st.one_of(st.none(), st.booleans()),
    "str": st.one_of(st.none(), st.text(st.characters(codec="utf-8"), max_size=5)),
    "string": st.one_of(st.none(), st.text(st.characters(codec="utf-8"), max_size=5)),
    "string[python]": st.one_of(st.none(), st.text(st.characters(codec="utf-8"), max_size=5)),
    "string[pyarrow]": st.one_of(st.none(), st.text(st.characters(codec="utf-8"), max_size=5)),
    "object": st.one_of(st.none(), plain),
    "category": st.one_of(st.none(), st.sampled_from(["a", "b"])),
    **{
        f"datetime64[{unit}]": st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2100, 1, 1))
        for unit in ("s", "ns")
    },
    "datetime64[us, Europe/Berlin]": st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2100, 1, 1)),
    "timedelta64[ns]": st.timedeltas(datetime.timedelta(-1000), datetime.timedelta(1000)),
    "period[M]": st.integers(0, 600).map(lambda number: pd.Period(ordinal=number, freq="M")),
    "interval[int64, right]": st.integers(0, 50).map(lambda low: pd.Interval(low, low + 1)),
    "Sparse[int64]": st.integers(0, 2),
    **{f"{kind}[pyarrow]": st.one_of(st.none(), st.integers(0, 100)) for kind in ("int64", "double")},
    "date32[day][pyarrow]": st.one_of(st.none(), st.dates()),
}
labels = st.one_of(texts, st.integers(-9, 9), st.none(), st.tuples(texts, st.integers(0, 3)), st.dates(), st.floats())


@st.composite
def columns(draw: Any, size: int, forms: dict[str, st.SearchStrategy[Any]] = DTYPES) -> pd.Series[Any]:
    """Return a series of a size."""
    kind = draw(st.sampled_from(sorted(forms)))
    values = draw(st.lists(forms[kind], min_size=size, max_size=size))
    return pd.Series(pd.array(values, dtype=kind) if kind not in ("object", "str") else values, dtype=kind)


@st.composite
def indexes(draw: Any, size: int) -> pd.Index[Any]:
    """Return an index of a size."""
    chosen = draw(st.integers(0, 5))
    if chosen == 0:
        return pd.RangeIndex(3, 3 + size)
    if chosen == 1:
        return pd.date_range("2024-01-01", periods=size, freq=draw(st.sampled_from(["D", "h", "MS"])), name=draw(texts))
    if chosen == 2:
        pairs = draw(st.lists(st.tuples(texts, st.integers(0, 3)), min_size=size, max_size=size))
        return pd.MultiIndex.from_tuples(pairs, names=[draw(labels), None]) if pairs else pd.RangeIndex(0)
    if chosen == 3:
        return pd.period_range("2024-01", periods=size, freq="M")
    if chosen == 4:
        return pd.Index(draw(st.lists(st.one_of(texts, st.integers(0, 5)), min_size=size, max_size=size)), dtype=object)
    return pd.Index(draw(columns(size)), name=draw(texts))


@st.composite
def frames(draw: Any) -> pd.DataFrame | pd.Series[Any]:
    """Return a table or a column of pandas."""
    try:
        return _frame(draw)
    except (
        ValueError,
        TypeError,
        ArithmeticError,
        NotImplementedError,
        pa.ArrowException,
    ):  # pandas makes no such table
        reject()


def _frame(draw: Any) -> pd.DataFrame | pd.Series[Any]:
    size, width = draw(st.integers(0, 4)), draw(st.integers(0, 3))
    index = draw(indexes(size))
    if draw(st.booleans()):
        series = draw(columns(size)).set_axis(index)
        series.name = draw(labels)
        return series
    frame = pd.DataFrame({number: draw(columns(size)) for number in range(width)}).reindex(range(size))
    frame.index = index
    frame.columns = pd.Index([draw(labels) for _ in range(width)], dtype=object if draw(st.booleans()) else None)
    return frame


POLARS = [
    pl.Int8,
    pl.UInt64,
    pl.Float32,
    pl.Float64,
    pl.Boolean,
    pl.String,
    pl.Binary,
    pl.Date,
    pl.Time,
    pl.Datetime("ms"),
]
others = st.one_of(
    st.builds(
        lambda kind, size: pl.DataFrame({"a": pl.Series([None] * size, dtype=kind), "b": pl.Series(range(size))}),
        st.sampled_from([*POLARS, pl.List(pl.Int8), pl.Duration("us"), pl.Categorical, pl.Null, pl.Decimal(9, 2)]),
        st.integers(0, 3),
    ),
    st.builds(
        lambda kind, size: pa.table({"a": pa.array([None] * size, kind), "b": list(range(size))}),
        st.sampled_from(
            [
                pa.int8(),
                pa.string(),
                pa.large_string(),
                pa.list_(pa.int8()),
                pa.date64(),
                pa.null(),
                pa.decimal128(9, 2),
            ]
        ),
        st.integers(0, 3),
    ),
)
must_come_back = st.one_of(supported, plain_arrays, st.lists(plain_arrays, max_size=2))
everything = st.one_of(plain, numpys, frames(), others, st.lists(st.one_of(numpys, frames()), max_size=2))


def shown(value: Any) -> str:
    """Return a value as text, with labels, types and cells of a table of pandas, which its repr does not show."""
    if isinstance(value, pd.DataFrame):
        parts = [shown(value.iloc[:, number]) for number in range(value.shape[1])]
        return "\n".join([f"frame with columns {value.columns!r}, index {value.index!r}, and", *parts])
    if isinstance(value, pd.Series):
        return f"series {value.name!r} of {value.dtype!r}, index {value.index!r}: {value.to_list()!r}"
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    return repr(value)


def same(one: Any, two: Any) -> bool:
    """Tell whether two values are equal, with their types, signs of zero, labels and frequencies."""
    if type(one) is not type(two):
        return False
    for kinds, compare in COMPARISONS:
        if isinstance(one, kinds):
            return bool(compare(one, two))
    return repr(one) == repr(two)


def _same_items(one: Any, two: Any) -> bool:
    return len(one) == len(two) and all(map(same, one, two))


def _same_dicts(one: Any, two: Any) -> bool:
    return _same_items(list(one), list(two)) and _same_items(list(one.values()), list(two.values()))


def _same_sets(one: Any, two: Any) -> bool:
    return sorted(map(repr, one)) == sorted(map(repr, two))


def _same_arrays(one: Any, two: Any) -> bool:
    return bool(one.dtype == two.dtype and one.shape == two.shape and one.tobytes() == two.tobytes())


def _same_dtypes(one: Any, two: Any) -> bool:
    if isinstance(one, pd.StringDtype):  # the storage may differ: no value shows it
        return isinstance(two, pd.StringDtype) and repr(one.na_value) == repr(two.na_value)
    return bool(one == two)


def _same_index(one: Any, two: Any) -> bool:
    same_types = getattr(one, "dtypes", None) is None or all(map(_same_dtypes, one.dtypes, two.dtypes))
    frequency = getattr(one, "freq", None) == getattr(two, "freq", None)
    return (
        same_types
        and one.dtype == two.dtype
        and frequency
        and same(list(one.names), list(two.names))
        and same(list(one), list(two))
    )


def _same_series(one: Any, two: Any) -> bool:
    kinds = _same_dtypes(one.dtype, two.dtype) and same(one.name, two.name) and _same_index(one.index, two.index)
    return kinds and same(one.to_list(), two.to_list())


def _same_frames(one: Any, two: Any) -> bool:
    if not (_same_index(one.index, two.index) and _same_index(one.columns, two.columns) and one.shape == two.shape):
        return False
    return all(_same_series(one.iloc[:, number], two.iloc[:, number]) for number in range(one.shape[1]))


COMPARISONS: list[tuple[tuple[type, ...], Any]] = [
    ((pd.DataFrame,), _same_frames),
    ((pd.Series,), _same_series),
    ((pl.DataFrame,), lambda one, two: one.schema == two.schema and one.equals(two)),
    ((pa.Table,), lambda one, two: one.schema == two.schema and one.equals(two)),
    ((np.ndarray, np.generic), _same_arrays),
    ((dict,), _same_dicts),
    ((set, frozenset), _same_sets),
    ((list, tuple, collections.deque), _same_items),
    ((Point,), lambda one, two: same(vars(one), vars(two))),
    ((float,), lambda one, two: repr(one) == repr(two) and math.copysign(1, one) == math.copysign(1, two)),
    ((datetime.datetime, datetime.time), lambda one, two: (repr(one), one.fold) == (repr(two), two.fold)),
    ((decimal.Decimal, fractions.Fraction, uuid.UUID), lambda one, two: repr(one) == repr(two)),
]
