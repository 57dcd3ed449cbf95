#!/usr/bin/env bash
# runtimetest of runtime-tools 0.9.1-0.20250523060157-0ea5ed0382a2, built with Go 1.26.8.
#
# The validation suite of the Open Container Initiative runs the program runtimetest inside a container. It compares
# what it sees with config.json, which may give a process a soft and a hard limit of open files. But it is a program of
# Go, whose runtime raises its own soft limit before main() begins. So it never sees the soft limit that it was started
# with: with 1024 and 4096, as config.json has them, it says that the soft limit is 4095, and fails "has expected soft
# RLIMIT_NOFILE". Its parent sees 1024. Other limits, such as RLIMIT_CORE, pass. So each container runtime fails this
# assertion if the two limits differ.
#
# This program gives itself the limits, without a container, prints the assertions about limits, and fails if they
# change.
set -euo pipefail

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
export GOPATH=$directory/go GOBIN=$directory GOFLAGS=-modcacherw GOTOOLCHAIN=go1.26.8 CGO_ENABLED=0
go install github.com/opencontainers/runtime-tools/cmd/runtimetest@v0.9.1-0.20250523060157-0ea5ed0382a2 2>/dev/null
cd "$directory"
cat >config.json <<'JSON'
{
    "ociVersion": "1.1.0",
    "process": {
        "args": ["./runtimetest", "--path", "."],
        "cwd": "/",
        "user": {"uid": 0, "gid": 0},
        "rlimits": [
            {"type": "RLIMIT_NOFILE", "soft": 1024, "hard": 4096},
            {"type": "RLIMIT_CORE", "soft": 0, "hard": 0}
        ]
    },
    "root": {"path": "rootfs"},
    "linux": {}
}
JSON
prlimit --nofile=1024:4096 --core=0:0 sh -c 'ulimit -Sn; exec ./runtimetest --path .'  >output
found=$(grep -E '^[0-9]+$|RLIMIT_[A-Z]+$|"actual": 40' output | grep -v '"type"')
echo "$found"
expected='1024
not ok 6 - has expected soft RLIMIT_NOFILE
    "actual": 4095,
ok 7 - has expected hard RLIMIT_NOFILE
    "actual": 4096,
ok 8 - has expected soft RLIMIT_CORE
ok 9 - has expected hard RLIMIT_CORE'
[[ $found == "$expected" ]] || { echo "this has changed" >&2; exit 1; }
