#!/usr/bin/env bash
# deepagents 0.7.32 with langchain-tests 1.1.9.
#
# langchain-tests has a suite for sandbox backends of deepagents, SandboxIntegrationTests. A backend is a subclass of
# BaseSandbox of deepagents, which brings ls, read, write, edit, grep and glob; the subclass only executes commands and
# moves files. The newest versions of both do not agree about what BaseSandbox itself does:
#
# - glob: BaseSandbox returns absolute paths, and six tests want them relative to the directory.
# - write: BaseSandbox replaces a file that exists, and one test wants an error.
#
# So each backend fails these seven tests, whatever it does. The smallest backend shows it: it runs sh on this machine.
#
# This program prints the tests of these two subjects that fail, and fails if that changes.
set -euo pipefail

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
python3 -m venv "$directory/venv"
"$directory/venv/bin/pip" install --quiet --disable-pip-version-check deepagents==0.7.32 langchain-tests==1.1.9 \
    langchain==1.5.2 langchain-core==1.8.3 pytest==9.2.0 pytest-asyncio==1.5.0
cat >"$directory/expected" <<'OUTPUT'
test_glob
test_glob_basic_pattern
test_glob_hidden_files_explicitly
test_glob_with_character_class
test_glob_with_directories
test_glob_with_question_mark
test_write_existing_file_fails
OUTPUT
cat >"$directory/test_smallest.py" <<'PYTHON'
import subprocess
from pathlib import Path

import pytest
from deepagents.backends.protocol import ExecuteResponse, FileDownloadResponse, FileUploadResponse
from deepagents.backends.sandbox import BaseSandbox
from langchain_tests.integration_tests import SandboxIntegrationTests


class Smallest(BaseSandbox):
    @property
    def id(self):
        return "smallest"

    def execute(self, command, *, timeout=None):
        done = subprocess.run(
            ["sh", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout
        )
        return ExecuteResponse(output=done.stdout, exit_code=done.returncode, truncated=False)

    def upload_files(self, files):
        for path, content in files:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_bytes(content)
        return [FileUploadResponse(path=path, error=None) for path, _ in files]

    def download_files(self, paths):
        return [FileDownloadResponse(path=path, content=Path(path).read_bytes(), error=None) for path in paths]


class TestSmallest(SandboxIntegrationTests):
    @property
    def sandbox_root_dir(self):
        return f"{Path.cwd()}/files/"

    @pytest.fixture(scope="class")
    def sandbox(self):
        yield Smallest()
PYTHON
cd "$directory"
"$directory/venv/bin/python" -m pytest -q -p no:cacheprovider -k 'glob or write_existing' -r f test_smallest.py >"$directory/log" || true
sed -n 's/^FAILED .*::\(test_[a-z_]*\).*/\1/p' "$directory/log" | sort | tee "$directory/output"
diff "$directory/expected" "$directory/output" || { tail -n 20 "$directory/log"; echo 'The behaviour has changed.' >&2; exit 1; }
