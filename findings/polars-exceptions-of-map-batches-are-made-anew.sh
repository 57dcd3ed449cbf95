#!/usr/bin/env bash
# polars 2.1.0.
#
# Polars calls Python functions in several ways, and an exception that such a function raises comes back in three:
# - LazyFrame.map_batches: the same exception, with its attributes.
# - Expr.map_batches and Expr.map_elements: a new exception. Its class is called with one argument, a text that
#   consists of the old text and the expression. So attributes are lost, and a class whose constructor takes another
#   number of arguments gives a TypeError about that constructor. Neither has the first exception as its cause or
#   context, so its class is seen nowhere.
# - GroupBy.map_groups: a ComputeError with the text, and without a cause.
#
# A function that runs its work elsewhere and says in an attribute what went wrong is told apart only in the first way.
#
# This program prints what each way raises for a class with one argument and for one with two, and fails if that changes.
set -euo pipefail

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
python3 -m venv "$directory/venv"
"$directory/venv/bin/pip" install --quiet --disable-pip-version-check polars==2.1.0
cat >"$directory/ways.py" <<'PYTHON'
import polars as pl


class One(ValueError):
    code = None


class Two(ValueError):
    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


def one(_):
    error = One("no")
    error.code = 7
    raise error


def two(_):
    raise Two(7, "no")


frame = pl.DataFrame({"a": [1]})
ways = {
    "LazyFrame.map_batches": lambda function: frame.lazy().map_batches(function).collect(),
    "Expr.map_batches": lambda function: frame.select(pl.col("a").map_batches(function, return_dtype=pl.Int64)),
    "Expr.map_elements": lambda function: frame.select(pl.col("a").map_elements(function, return_dtype=pl.Int64)),
    "GroupBy.map_groups": lambda function: frame.group_by("a").map_groups(function),
}
for name, way in ways.items():
    for function in (one, two):
        try:
            way(function)
        except Exception as error:
            first = error.__cause__ or error.__context__
            print(name, function.__name__, type(error).__name__, getattr(error, "code", None), first)
PYTHON
found=$("$directory/venv/bin/python" "$directory/ways.py")
echo "$found"
[[ $found == "LazyFrame.map_batches one One 7 None
LazyFrame.map_batches two Two 7 None
Expr.map_batches one One None None
Expr.map_batches two TypeError None None
Expr.map_elements one One None None
Expr.map_elements two TypeError None None
GroupBy.map_groups one ComputeError None None
GroupBy.map_groups two ComputeError None None" ]]
