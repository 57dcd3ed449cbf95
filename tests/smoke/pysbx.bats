#!/usr/bin/env bats
# A short selection of tests of the package pysbx, for check-quick. TEST_PYSBX is the interpreter of a virtual
# environment with the package, which tests/setup/pysbx creates.

load ../lib/podman.bash
load ../lib/warm-config.bash

setup_file() {
    [[ -x ${TEST_PYSBX:-} ]] || { echo "TEST_PYSBX names no interpreter: make check-quick" && return 1; }
    configure_warm
}

setup() {
    export PYSBX_RUNTIME=$RUNTIME PYTHONDONTWRITEBYTECODE=1
    begin_test
}

teardown() {
    check_leftovers
}

pysbx() {
    "${TEST_PYSBX%/*}/pysbx" "$@"
}

# Run a program that uses the package. It is a file, because the source of a function from standard input is not
# available.
program() {
    cat >program.py
    "$TEST_PYSBX" program.py
}

@test "pysbx run: output, error, exit code" {
    expect 3 pysbx run -c 'import sys; print(6 * 7); print("said", file=sys.stderr); sys.exit(3)'
    output_is 42
    stderr_has said
}

@test "pysbx run: a time limit ends the program" {
    expect 124 pysbx run --timeout 1 -c 'while True: pass'
}

@test "pysbx run: no file of the host, no network, no environment" {
    echo secret >secret
    SECRET=word expect 0 pysbx run -c "
import os, socket
print(os.path.exists('$PWD/secret'), 'SECRET' in os.environ)
try:
    socket.create_connection(('127.0.0.1', 1))
except OSError as error:
    print(error.strerror)"
    output_is $'False False\nAddress family not supported by protocol'
}

@test "sandbox: arguments, result, exception" {
    expect 0 program <<'PROGRAM'
from pysbx import SandboxExecutionError, sandbox

print(sandbox(lambda one, two: one + two)(20, 22))
try:
    sandbox(lambda: 1 / 0)()
except SandboxExecutionError as error:
    print(error.error_type)
PROGRAM
    output_is $'42\nZeroDivisionError'
}

@test "Sandbox: a name lives until the session ends" {
    expect 0 program <<'PROGRAM'
from pysbx import Sandbox

with Sandbox() as session:
    session.run("kept = 6")
    print(session.run("kept * 7").value)
PROGRAM
    output_is 42
}

@test "pysbx doctor: this machine can run sandboxes" {
    shows 'a sandbox: starts and ends in' pysbx doctor
}
