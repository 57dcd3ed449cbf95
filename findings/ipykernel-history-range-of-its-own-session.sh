#!/usr/bin/env bash
# ipykernel 7.4.0 with IPython 9.18.1 and jupyter_kernel_test 0.7.0.
#
# A client asks a kernel for the history of what it has executed. A request of the type "tail" answers with the number of
# the session and of the line. With these numbers, a request of the type "range" should find the line again. The kernel
# of IPython answers with an empty list, as long as the session is its present one. So this kernel fails the test of the
# history that jupyter_kernel_test has for kernels, at "range" alone.
#
# This program prints the parts of the test that fail, and fails if that changes.
set -euo pipefail

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
python3 -m venv "$directory/venv"
"$directory/venv/bin/pip" install --quiet --disable-pip-version-check ipykernel==7.4.0 ipython==9.18.1 \
    jupyter_client==8.10.0 jupyter_kernel_test==0.7.0 pytest==9.2.0
cat >"$directory/expected" <<'OUTPUT'
range
OUTPUT
cat >"$directory/test_history.py" <<'PYTHON'
import jupyter_kernel_test


class History(jupyter_kernel_test.KernelTests):
    kernel_name = "python3"
    code_execute_result = [{"code": "1+2+3", "result": "6"}, {"code": "[4, 5]", "result": "[4, 5]"}]
    supported_history_operations = ("tail", "range", "search")
    code_history_pattern = "1?2*"
PYTHON
mkdir "$directory/home"
cd "$directory"
HOME=$directory/home "$directory/venv/bin/python" -m pytest -q -p no:cacheprovider -k test_history test_history.py >log || true
grep -q 'subtests passed' log || { tail -n 20 log && exit 1; }
sed -n "s/^SUBFAILED(hist_access_type='\([a-z]*\)').*/\1/p" log | sort | tee output
diff expected output || { tail -n 20 log; echo 'The behaviour has changed.' >&2; exit 1; }
