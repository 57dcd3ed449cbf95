#!/usr/bin/env bash
# pyarrow 26.0.1 with pandas 3.1.1 and numpy 2.4.6.
#
# A pandas column of the type category has a list of categories. pyarrow makes a dictionary of Arrow of it and, back in
# pandas, the list is the same, also for a column that has no rows. But in a file it is not: a table that has rows keeps
# its categories in a stream of Arrow, in a file of Arrow and in Parquet, and the same table without rows has none when
# it is read, as the writers leave out the dictionary of a column without rows. So a program that filters a frame to
# nothing and sends it to another process finds a column there to which no value can be assigned, with an order that has
# no members. Nothing warns.
#
# This program writes a frame with one row and its first zero rows, prints the categories that come back, and fails if
# they change.
set -euo pipefail

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
python3 -m venv "$directory/venv"
"$directory/venv/bin/pip" install --quiet --disable-pip-version-check pyarrow==26.0.1 pandas==3.1.1 numpy==2.4.6
cat >"$directory/show.py" <<'PYTHON'
import io

import pandas
import pyarrow
import pyarrow.parquet


def memory(table):
    return table


def stream(table):
    written = io.BytesIO()
    with pyarrow.ipc.new_stream(written, table.schema) as writer:
        writer.write_table(table)
    return pyarrow.ipc.open_stream(written.getvalue()).read_all()


def file(table):
    written = io.BytesIO()
    with pyarrow.ipc.new_file(written, table.schema) as writer:
        writer.write_table(table)
    return pyarrow.ipc.open_file(written.getvalue()).read_all()


def parquet(table):
    written = io.BytesIO()
    pyarrow.parquet.write_table(table, written)
    return pyarrow.parquet.read_table(io.BytesIO(written.getvalue()))


frame = pandas.DataFrame({"size": pandas.Categorical(["large"], categories=["small", "large"], ordered=True)})
for way in (memory, stream, file, parquet):
    for rows in (frame, frame.head(0)):
        table = pyarrow.Table.from_pandas(rows)
        print(way.__name__, len(rows), list(way(table).to_pandas()["size"].cat.categories))
PYTHON
"$directory/venv/bin/python" "$directory/show.py" | tee "$directory/output"
diff - "$directory/output" <<'EXPECTED' || { echo 'The behaviour has changed.' >&2; exit 1; }
memory 1 ['small', 'large']
memory 0 ['small', 'large']
stream 1 ['small', 'large']
stream 0 []
file 1 ['small', 'large']
file 0 []
parquet 1 ['small', 'large']
parquet 0 []
EXPECTED
