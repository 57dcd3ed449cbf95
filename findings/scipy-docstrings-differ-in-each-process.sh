#!/usr/bin/env bash
# scipy 1.17.1 with numpy 2.3.5.
#
# The classes of distributions in scipy.stats (Normal, Logistic, Uniform, Binomial) get their docstrings when they are
# imported, with an example for each. The parameters of the example come from a generator with a fixed seed, but the
# sample that it prints is drawn without one. So `import scipy.stats` reads random bytes from the system, and one line
# of each docstring, which says "may vary", is another one in each process, also with PYTHONHASHSEED=0. Two builds of
# the documentation from the same sources differ, and so does the memory of two processes that have imported only this.
#
# This program imports scipy.stats in five processes, prints the classes whose docstrings are not all equal, and in how
# many lines, and fails if that changes.
set -euo pipefail

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
python3 -m venv "$directory/venv"
"$directory/venv/bin/pip" install --quiet --disable-pip-version-check scipy==1.17.1 numpy==2.3.5
cat >"$directory/show.py" <<'PYTHON'
import json
import scipy.stats

names = ("Normal", "Logistic", "Uniform", "Binomial")
print(json.dumps({name: getattr(scipy.stats, name).__doc__.splitlines() for name in names}))
PYTHON
cat >"$directory/compare.py" <<'PYTHON'
import json
import sys

made = [json.load(open(path)) for path in sys.argv[1:]]
for name in made[0]:
    lines = [line for line in zip(*(docs[name] for docs in made), strict=True) if len(set(line)) > 1]
    print(name, len(lines), all("may vary" in line[0] for line in lines))
PYTHON
for number in {1..5}; do
    PYTHONHASHSEED=0 "$directory/venv/bin/python" "$directory/show.py" >"$directory/$number"
done
python3 "$directory/compare.py" "$directory"/[1-5] | tee "$directory/output"
diff - "$directory/output" <<'EXPECTED' || { echo 'The behaviour has changed.' >&2; exit 1; }
Normal 1 True
Logistic 1 True
Uniform 1 True
Binomial 1 True
EXPECTED
