#!/usr/bin/env bash
# numpy 2.4.6.
#
# A scalar of numpy.bytes_ or numpy.str_ keeps the NUL characters at its end, unlike an element of an array: its length,
# its comparison and its dtype count them, and copy.copy and copy.deepcopy keep them. With pickle they are gone, in each
# protocol. An equal object of Python's own bytes or str keeps them. So such a value changes on its way to another
# process by multiprocessing or concurrent.futures, without a warning, and a dictionary with such a key does not find it
# again.
#
# This program prints what comes back, and fails if that changes.
set -euo pipefail

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
python3 -m venv "$directory/venv"
"$directory/venv/bin/pip" install --quiet --disable-pip-version-check numpy==2.4.6
cat >"$directory/show.py" <<'PYTHON'
import copy
import pickle

import numpy

for value in (numpy.bytes_(b"ab\0\0"), numpy.str_("ab\0\0")):
    pickled = [pickle.loads(pickle.dumps(value, protocol)) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
    print(type(value).__name__, len(value), len(copy.copy(value)), len(copy.deepcopy(value)), [len(v) for v in pickled])
PYTHON
"$directory/venv/bin/python" "$directory/show.py" | tee "$directory/output"
diff - "$directory/output" <<'EXPECTED' || { echo 'The behaviour has changed.' >&2; exit 1; }
bytes_ 4 4 4 [2, 2, 2, 2, 2, 2]
str_ 4 4 4 [2, 2, 2, 2, 2, 2]
EXPECTED
