#!/usr/bin/env bash
# inspect-ai 0.3.285 with tiktoken 0.14.0.
#
# Inspect has a model for tests, mockllm/model, which answers from a list and asks no service. An evaluation with it
# still needs the network: before the model is asked, Inspect counts the tokens of the input, also for mockllm, and
# tiktoken downloads the table of an encoding at its first use. In a network namespace without a route the evaluation
# of one sample, without tools and with an answer that is already there, ends with the status "error", and the error is a
# ConnectionError of that download. A machine on which tiktoken has kept the table does not show it.
#
# This program prints the status and the kind of the error, and fails if they change.
set -euo pipefail

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
python3 -m venv "$directory/venv"
"$directory/venv/bin/pip" install --quiet --disable-pip-version-check inspect-ai==0.3.285 tiktoken==0.14.0
cat >"$directory/evaluate.py" <<'PYTHON'
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import generate

answer = ModelOutput.from_content("mockllm/model", "3")
model = get_model("mockllm/model", custom_outputs=[answer])
task = Task([Sample("What is 1 + 2?", target="3")], solver=generate(), scorer=includes())
(log,) = eval(task, model=model, display="none", log_dir="logs")
print(log.status, log.error.message.partition("(")[0] if log.error else "")
PYTHON
mkdir "$directory/home"
cd "$directory"
# TIKTOKEN_CACHE_DIR: an empty one, as on a new machine.
found=$(unshare --map-root-user --net env HOME="$directory/home" TIKTOKEN_CACHE_DIR="$directory/home/tiktoken" \
    INSPECT_DISABLE_UPDATE_CHECK=1 "$directory/venv/bin/python" evaluate.py 2>/dev/null | tail -n 1)
echo "$found"
[[ $found == 'error ConnectionError' ]]
