#!/usr/bin/env bash
# google-adk 2.13.0.
#
# What an executor of code returns (CodeExecutionResult) has both streams and an exit code. The part
# of a message that the model reads is made of the streams alone: if anything is on standard error, the outcome is
# OUTCOME_FAILED, whatever the exit code is, and the output is standard error without what was printed before. So code
# that succeeds and warns, or that logs, has failed for the model, and its result is lost. And code that ends with
# another exit code than 0 in silence has succeeded.
#
# UnsafeLocalCodeExecutor shows neither, because it keeps standard error apart only for an exception. An executor that
# returns the streams of a process has to put them together first.
#
# This program prints what the model reads for four results, and fails if that changes.
set -euo pipefail

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
python3 -m venv "$directory/venv"
"$directory/venv/bin/pip" install --quiet --disable-pip-version-check google-adk==2.13.0
cat >"$directory/results.py" <<'PYTHON'
from google.adk.code_executors.code_execution_utils import CodeExecutionResult, CodeExecutionUtils

for stdout, stderr, code in (("42\n", "", 0), ("42\n", "UserWarning: old\n", 0), ("42\n", "Traceback\n", 1), ("", "", 3)):
    result = CodeExecutionResult(stdout=stdout, stderr=stderr, exit_code=code)
    read = CodeExecutionUtils.build_code_execution_result_part(result).code_execution_result
    print(code, repr(stdout), repr(stderr), read.outcome.name, repr(read.output))
PYTHON
found=$("$directory/venv/bin/python" "$directory/results.py" 2>/dev/null)
echo "$found"
[[ $found == "0 '42\n' '' OUTCOME_OK 'Code execution result:\n42\n\n'
0 '42\n' 'UserWarning: old\n' OUTCOME_FAILED 'UserWarning: old\n'
1 '42\n' 'Traceback\n' OUTCOME_FAILED 'Traceback\n'
3 '' '' OUTCOME_OK 'Code execution result:\n\n'" ]]
