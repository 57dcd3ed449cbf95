#!/usr/bin/env bats
# hooks: config.md "POSIX-platform Hooks", runtime.md "Lifecycle".
# once: hooks run in the same way in both modes

load ../lib/bundle.bash

KINDS=(prestart createRuntime createContainer startContainer poststart poststop)

setup() {
    begin_test
    mkdir -m 0777 log
}

# Make a container that writes its own line, with a hook of each kind. The hooks find the directory log at /log.
make_hooked_bundle() {
    make_bundle sh -c 'echo program >>/log/order'
    configure 'mount("/log", arguments[0] + "/log")
for kind in arguments[2:]:
    place = "/log" if kind == "startContainer" else arguments[0] + "/log"
    hook(kind, arguments[1], kind, place)' "$PWD" "$@"
}

# Add a hook that fails to a bundle. The other hooks write their names.
make_failing_bundle() {
    make_hooked_bundle 'echo $0 >>$1/order' poststop
    configure 'hook(arguments[0], "echo reason >&2; exit 7")' "$1"
}

@test "hooks: each kind runs once, at its time" {
    make_hooked_bundle 'echo $0 >>$1/order' "${KINDS[@]}"
    create_box
    [[ $(<log/order) == $'prestart\ncreateRuntime\ncreateContainer' ]]
    expect 0 runtime start box
    wait_for grep -q program log/order
    wait_for grep -q poststart log/order
    [[ $(sed -n 4p log/order) == startContainer && $(wc -l <log/order) == 6 ]]
    runtime kill box KILL || true
    expect 0 runtime delete --force box
    [[ $(sed -n 7p log/order) == poststop && $(wc -l <log/order) == 7 ]]
}

@test "hooks: hooks of one kind run one after the other, in the order of the list" {
    make_bundle true
    configure 'for i in range(5): hook("createRuntime", f"sleep 0.0{5 - i}; echo {i} >>{arguments[0]}/log/order")' "$PWD"
    expect 0 run_box
    [[ $(tr '\n' ' ' <log/order) == "0 1 2 3 4 " ]]
}

@test "hooks: standard input is the container's state" {
    make_hooked_bundle 'cat >$1/$0' "${KINDS[@]}"
    configure 'config["annotations"] = {"org.example/key": "a/b \"c\""}'
    create_box
    pid=$(pid_of_box)
    expect 0 runtime start box
    wait_for test -s log/poststart
    wait_for test -e log/order
    expect 0 runtime delete --force box
    for kind in "${KINDS[@]}"; do
        output=$(<"log/$kind")
        output_holds 'it["ociVersion"].startswith("1.") and it["id"] == "box"'
        output_holds "it['bundle'] == '$PWD/bundle'"
        output_holds 'it["annotations"] == {"org.example/key": "a/b \"c\""}'
        [[ $output != *$'\n'* && $output != *'\/'* ]]
    done
    for kind in createRuntime:creating createContainer:creating startContainer:created poststart:running poststop:stopped; do
        output=$(<"log/${kind%:*}")
        output_holds "it['status'] == '${kind#*:}'"
        [[ $kind == poststop* ]] || output_holds "it['pid'] == $pid"
    done
}

@test "hooks: prestart, createRuntime, poststart and poststop run in the runtime's namespaces, the others in the container's" {
    make_hooked_bundle 'for kind in mnt uts pid; do readlink /proc/self/ns/$kind; done >$1/$0; hostname >$1/$0.name' "${KINDS[@]}"
    expect 0 run_box
    here=$(for kind in mnt uts pid; do readlink "/proc/self/ns/$kind"; done)
    for kind in prestart createRuntime poststart poststop; do
        [[ $(<"log/$kind") == "$here" ]] || { echo "$kind"; return 1; }
    done
    for kind in createContainer startContainer; do
        [[ $(<"log/$kind.name") == pysbx ]] || { echo "$kind"; return 1; }
        [[ $(<"log/$kind") != *"$(readlink /proc/self/ns/mnt)"* ]]
        [[ $(<"log/$kind") != *"$(readlink /proc/self/ns/uts)"* ]]
    done
}

@test "hooks: startContainer alone: its state has the pid in the runtime's pid namespace" {
    make_hooked_bundle 'cat >$1/$0' startContainer
    create_box
    pid=$(pid_of_box)
    expect 0 runtime start box
    output=$(<log/startContainer)
    output_holds "it['pid'] == $pid"
}

@test "hooks: createContainer runs before the root is entered, startContainer after" {
    make_hooked_bundle 'ls -d /only-in-the-image >$1/$0 2>&1; ls -d "$1" >>$1/$0' createContainer startContainer
    mkdir bundle/rootfs/only-in-the-image
    expect 0 run_box
    [[ $(<log/createContainer) == *"No such file"*$'\n'"$PWD/log" ]]
    [[ $(<log/startContainer) == $'/only-in-the-image\n/log' ]]
}

@test "hooks: a mount that createContainer creates below the root is in the container" {
    make_bundle cat /late/file
    configure 'mount("/late", "none", kind="tmpfs"); hook("createContainer", "echo late >" + arguments[0] + "/bundle/rootfs/late/file")' "$PWD"
    prints late run_box
}

@test "hooks: hooks in the runtime's namespaces start in the bundle" {
    make_hooked_bundle 'pwd >$1/$0' prestart createRuntime poststart poststop
    expect 0 run_box
    for kind in prestart createRuntime poststart poststop; do [[ $(<"log/$kind") == "$PWD/bundle" ]]; done
}

@test "hooks: env is the whole environment of a hook; without it the hook inherits the runtime's" {
    make_bundle true
    configure 'hook("createRuntime", "env >$0/own", arguments[0], env=["ONLY=this"])
hook("createRuntime", "env >$0/none", arguments[0], env=[])
hook("createRuntime", "env >$0/inherited", arguments[0])' "$PWD/log"
    FROM_OUTSIDE=1 expect 0 run_box
    grep -qx ONLY=this log/own
    [[ $(cat log/own log/none) != *FROM_OUTSIDE* ]]
    grep -qx FROM_OUTSIDE=1 log/inherited
}

@test "hooks: createContainer runs in the bundle's directory, with umask 0022" {
    make_hooked_bundle '{ pwd; umask; } >$1/$0' prestart createRuntime createContainer
    expect 0 run_box
    for kind in prestart createRuntime createContainer; do
        [[ $(<"log/$kind") == "$PWD/bundle"$'\n'0022 ]] || { echo "$kind"; cat "log/$kind"; return 1; }
    done
}

@test "hooks: args are the whole vector; without them argv[0] is the path" {
    make_bundle true
    printf '#!/bin/sh\necho "$# $0" >%s/log/args\n' "$PWD" >hook
    chmod +x hook
    configure 'config["hooks"] = {"createRuntime": [{"path": arguments[0]}]}' "$PWD/hook"
    expect 0 run_box
    [[ $(<log/args) == "0 $PWD/hook" ]]
}

@test "hooks: a hook that outlives its timeout is killed, and the container is not created" {
    make_bundle_with 'hook("createRuntime", "exec sleep 1000", timeout=1)' true
    SECONDS=0
    fails 1 "hooks.createRuntime[0]: '/bin/sh' did not end within its timeout of 1 s" run_box
    ((SECONDS < 100))
    check_untouched
}

@test "hooks: what a hook has started ends with it at its timeout" {
    make_bundle true
    configure 'hook("createRuntime", "sleep 100 >/dev/null 2>&1 3>&- & echo $! >%s/log/child; wait" % arguments[0], timeout=1)' "$PWD"
    fails 1 "did not end within its timeout of 1 s" run_box
    wait_for eval "! kill -0 $(<log/child) 2>/dev/null"
}

@test "hooks: a hook that fails before the program runs aborts the start, and poststop hooks have run" {
    for kind in prestart createRuntime createContainer; do
        make_failing_bundle "$kind"
        fails 1 "hooks.${kind}[0]: '/bin/sh' failed with exit status 7" runtime create --bundle bundle box
        check_untouched
        [[ $(<log/order) == poststop ]] || { echo "$kind"; cat log/order; return 1; }
        rm log/order
    done
}

@test "hooks: startContainer that fails: the program does not run" {
    make_failing_bundle startContainer
    create_box
    fails 1 "hooks.startContainer[0]: '/bin/sh' failed with exit status 7" runtime start box
    expect 0 runtime delete --force box
    [[ $(<log/order) == poststop ]]
}

@test "hooks: poststart that fails stops the container" {
    make_failing_bundle poststart
    configure 'process["args"] = ["sleep", "1000"]'
    create_box
    fails 1 "hooks.poststart[0]: '/bin/sh' failed with exit status 7" runtime start box
    tells 'it["status"] == "stopped"' runtime state box
    expect 0 runtime delete box
    [[ $(<log/order) == poststop ]]
}

@test "hooks: poststop of a failed creation: the container's processes and its cgroup no longer exist" {
    needs_cgroups
    make_bundle true
    configure 'share("pid"); hook("createContainer", "sleep 1000 >/dev/null 2>&1 & echo $! >$0/left", arguments[0])
hook("createContainer", "exit 7")
hook("poststop", "{ grep sleeping /proc/$(cat $0/left)/status; find /sys/fs/cgroup -name \"*box*\"; } >$0/seen", arguments[0])' "$PWD/log"
    is_refused "hooks.createContainer[1]"
    [[ -s log/left && -e log/seen && ! -s log/seen ]]
}

@test "hooks: poststop that fails is a warning, the next ones run and the container is deleted" {
    make_bundle true
    configure 'hook("poststop", "exit 7"); hook("poststop", "echo second >$0/order", arguments[0])' "$PWD/log"
    create_box
    expect 0 runtime delete --force box
    stderr_has "hooks.poststop[0]: '/bin/sh' failed with exit status 7"
    [[ $(<log/order) == second ]]
    check_untouched
}

@test "hooks: a missing or killed hook is an error that says so" {
    make_bundle_with 'config["hooks"] = {"createRuntime": [{"path": "/missing/hook"}]}' true
    fails 1 "/missing/hook" run_box
    configure 'config["hooks"] = {}; hook("createRuntime", "kill -9 $$")'
    fails 1 "hooks.createRuntime[0]: '/bin/sh' was killed by signal 9" run_box
}

@test "hooks: descriptors of the runtime and of its caller are not inherited" {
    make_hooked_bundle 'ls /proc/self/fd | wc -l >$1/$0' prestart createRuntime createContainer startContainer
    expect 0 run_box 7</dev/null
    for kind in prestart createRuntime createContainer startContainer; do
        [[ $(<"log/$kind") == 4 ]] || { echo "$kind: $(<"log/$kind")"; return 1; }
    done
}

@test "hooks: run.oci.hooks.stdout and run.oci.hooks.stderr name files that receive the output of hooks" {
    make_hooked_bundle 'echo "$0 says"; echo "$0 complains" >&2' createRuntime poststop
    allow_annotations run.oci.hooks.stdout run.oci.hooks.stderr
    configure 'config["annotations"] = {"run.oci.hooks.stdout": arguments[0] + "/said", "run.oci.hooks.stderr": arguments[0] + "/complained"}' "$PWD"
    expect 0 run_box
    [[ $(<said) == $'createRuntime says\npoststop says' && $(<complained) == $'createRuntime complains\npoststop complains' ]]
}

@test "hooks: an invalid hook is refused with its position" {
    make_bundle_with 'config["hooks"] = {"poststop": [{"path": "relative"}]}' true
    is_refused "hooks.poststop[0].path: 'relative' is not an absolute path"
    is_refused "hooks.prestart[0].timeout" 'config["hooks"] = {"prestart": [{"path": "/bin/true", "timeout": 0}]}'
    configure 'config["hooks"] = {"prestart": [{"path": "/bin/true", "env": ["SECRET"]}]}'
    is_refused "hooks.prestart[0].env[0]: not of the form name=value"
    [[ $stderr != *SECRET* ]]
}
