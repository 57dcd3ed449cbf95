#!/usr/bin/env bats
# The program is static, and becomes the dynamic one next to it when it needs a shared library:
# runtime/base/libraries.h.

load ../lib/bundle.bash

setup() {
    begin_test
    dynamic=$RUNTIME-dynamic
    [[ -e $dynamic ]] || dynamic=${RUNTIME%/*}/../libexec/${RUNTIME##*/}-dynamic
    [[ -e $dynamic ]] || skip "built without a static program: no musl, or with sanitizers"
}

# Run the runtime, and assert whether it executes another program: none, or the dynamic one.
becomes() {
    local wanted=$1 found
    shift
    strace -q -o trace -e trace=execve "$RUNTIME" "$@" >/dev/null </dev/null || return
    found=$(sed -n 's/^execve("\([^"]*\)".* = 0$/\1/p' trace | grep -vx "$RUNTIME" | xargs)
    [[ $found == "$wanted" ]] || { echo "becomes '$found', not '$wanted'"; return 1; }
}

# A profile that no other test has. The number makes it different.
set_profile() {
    configure 'seccomp("ALLOW", rule("ERRNO", "getcwd", errnoRet=int(arguments[0])))' "$1"
}

@test "no command of a container's life needs a shared library" {
    make_bundle true
    becomes "" run --bundle bundle box
    make_bundle sleep 1000
    becomes "" create --bundle bundle box
    becomes "" start box
    becomes "" exec box true
    becomes "" state box
    becomes "" kill box KILL
    becomes "" delete --force box
}

@test "the dynamic program compiles a profile that is not in the cache, and continues; later starts do not need it" {
    make_bundle true
    set_profile 2001
    becomes "$dynamic" run --bundle bundle box
    becomes "" run --bundle bundle box
}

@test "the whole command line is passed on, and standard input is left to the program that needs it" {
    needs_cgroups
    make_bundle sleep 1000
    start_box
    expect 0 strace -q -o trace -e trace=execve,read "$RUNTIME" --log-level debug update --resources - box <<<'{}'
    [[ $(grep -c '^execve(.*"--log-level", "debug", "update", "--resources", "-", "box"\].* = 0$' trace) == 2 ]]
    [[ $(grep -c 'read(0, "{}' trace) == 1 ]]
}

@test "the dynamic program is searched next to the static one, then in ../libexec; without it the error says so" {
    mkdir -p alone/bin alone/libexec
    cp "$RUNTIME" alone/bin/pysbx-runtime
    fails 1 "'pysbx-runtime-dynamic'" alone/bin/pysbx-runtime list
    stderr_has "make install"
    expect 0 alone/bin/pysbx-runtime list --quiet
    cp "$dynamic" alone/libexec/pysbx-runtime-dynamic
    expect 0 alone/bin/pysbx-runtime list
    mv alone/libexec/pysbx-runtime-dynamic alone/bin/
    expect 0 alone/bin/pysbx-runtime list
}

@test "a container whose profile cannot be compiled is not created" {
    mkdir alone
    cp "$RUNTIME" alone/
    make_bundle true
    set_profile 2002
    fails 1 "'pysbx-runtime-dynamic'" "alone/${RUNTIME##*/}" run --bundle bundle box
    prints "" runtime list --quiet
}

@test "a container's process keeps only the program's code for its last steps, and nothing of the file" {
    needs_root "looks at the maps of a process that is not dumpable"
    make_bundle sleep 1000
    create_box
    expect 0 python3 - "$(pid_of_box)" "$RUNTIME" <<'PYTHON'
import re, subprocess, sys
headers = subprocess.check_output(["readelf", "--segments", "--wide", sys.argv[2]], text=True)
loaded = sum(int(size, 16) for size in re.findall(r"LOAD +\S+ +\S+ +\S+ +\S+ +(\S+) R E", headers))
kept = 0
for area in open(f"/proc/{sys.argv[1]}/maps"):
    assert sys.argv[2] not in area, area
    if "/memfd:pysbx-init" in area and " r-xp " in area:
        start, end = area.split()[0].split("-")
        kept += int(end, 16) - int(start, 16)
assert 0 < kept < loaded / 2, (kept, loaded)
PYTHON
    expect 0 runtime start box
    expect 0 runtime delete --force box
}
