#!/usr/bin/env bats
# The runtime called directly, without an engine: pysbx-runtime(8).
# once: the command line is read in the same way in both modes

load ../lib/bundle.bash

start_sleeping() {
    make_bundle sleep 1000
    runtime run --detach --bundle bundle "$1" </dev/null >/dev/null 2>&1
}

@test "--version: name, commit, specification and features, a line each" {
    expect 0 runtime --version
    [[ ${lines[0]} =~ ^pysbx-runtime\ version\ [0-9]+\.[0-9]+\.[0-9]+(\.dev[0-9]+)?$ ]]
    [[ ${lines[1]} =~ ^commit:\ [0-9a-z]+$ && ${lines[2]} == "spec: 1.3.0" && ${lines[3]} == *+SECCOMP* ]]
    stderr_is_empty
    expect 0 runtime -v
}

@test "a pipe that its reader has closed, as head does: ends the command without a message" {
    for command in --help features list "warm list"; do
        # shellcheck disable=SC2086 # two words
        expect 13 python3 -c 'import os, subprocess, sys
reader, writer = os.pipe()
os.close(reader)
sys.exit(-subprocess.run(sys.argv[1:], stdout=writer).returncode)' "$RUNTIME" $command # 13 is SIGPIPE
        stderr_is_empty
    done
}

@test "--help: lists the commands, and every command has its own help" {
    shows "usage: pysbx-runtime" runtime --help
    for command in create start run exec state kill delete list ps pause resume update events spec plan features checkpoint restore; do
        shows "  $command " runtime --help
        shows "usage: pysbx-runtime $command [OPTION...]" runtime "$command" --help
        stderr_is_empty
    done
}

# Print bash's completions for the last word: completed WORD... (bash itself splits "--root=DIR" into three words)
completed() {
    PATH=${RUNTIME%/*}:$PATH bash -c '
        source "$0/../contrib/completions/pysbx-runtime.bash"
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        _pysbx_runtime pysbx-runtime "${COMP_WORDS[-1]}" "${COMP_WORDS[-2]}"
        echo "${COMPREPLY[*]}"' "$TESTS" "$@"
}

@test "completion of bash: commands, options and names of containers, for both forms of --root" {
    make_bundle sleep 1000
    runtime --root "$PWD/state" run --detach --bundle bundle there </dev/null >/dev/null 2>&1
    [[ $(completed pysbx-runtime --root "$PWD/state" sta) == "start state" ]]
    [[ $(completed pysbx-runtime --root = "$PWD/state" sta) == "start state" ]]
    [[ $(completed pysbx-runtime --log-level = debug list --q) == --quiet ]]
    [[ $(completed pysbx-runtime --root "$PWD/state" delete '') == there ]]
    [[ $(completed pysbx-runtime --root = "$PWD/state" delete '') == there ]]
    expect 0 runtime --root "$PWD/state" delete --force there
}

# Print the long options of the help whose value has one of these names: with_value NAMES [COMMAND...]
with_value() {
    runtime "${@:2}" --help | sed -nE "s/^  .{4}(--[a-z0-9-]+) ($1)( .*)?\$/\1/p"
}

# zsh and fish may be missing, so this test compares words instead of running the files.
@test "completions of bash, zsh and fish: values and commands of warm are those of the program" {
    for shell in bash zsh fish; do
        words=" $(grep -oE -- '-*[a-z0-9-]+' "$TESTS/../contrib/completions/pysbx-runtime.$shell" | tr '\n' ' ')"
        for option in $(with_value '[A-Z]+'); do
            [[ $words == *" $option "* ]] || { echo "$shell: $option is missing"; return 1; }
            expect 1 runtime "$option=?" state missing
            [[ $stderr == *"expected one of "* ]] || continue
            # "warn" is a second name of "warning".
            output=$(sed -n 's/.*expected one of //p' <<<"$stderr" | sed 's/ warn,//; s/,//g')
            [[ $words == *" $output "* ]] || { echo "$shell: the words of $option are not '$output'"; return 1; }
        done
        output=$(runtime warm --help | sed -n 's/.*\[OPTION...\] \([a-z|]*\) .*/\1/p' | tr '|' ' ')
        [[ $words == *" $output "* ]] || { echo "$shell: the commands of warm are not '$output'"; return 1; }
    done
}

@test "completion of bash: options with a directory or a file complete to one" {
    mkdir directory
    touch plain
    for command in '' $(runtime --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
        for option in $(with_value 'DIR' ${command:+"$command"}); do
            output=$(completed pysbx-runtime ${command:+"$command"} "$option" '')
            [[ $output == directory ]] || { echo "$command $option: '$output'"; return 1; }
        done
        for option in $(with_value 'FILE|SOCKET|TARGET' ${command:+"$command"}); do
            output=$(completed pysbx-runtime ${command:+"$command"} "$option" "pla")
            [[ $output == plain ]] || { echo "$command $option: '$output'"; return 1; }
        done
    done
}

@test "an unknown flag is an error that names it, for the program and for every command" {
    fails 1 "unknown flag: --nonsense" runtime --nonsense list
    fails 1 "unknown flag: --nonsense" runtime list --nonsense
    fails 1 "unknown flag: -x" runtime kill -x id
    fails 1 "flag needs an argument: --bundle" runtime create --bundle
    fails 1 "unknown command 'nonsense'" runtime nonsense
    expect 1 runtime
    fails 1 "too few arguments" runtime state
    fails 1 "too many arguments" runtime state one two
}

@test "--log, --log-format json: the error is one JSON object in the file, even for a wrong command line" {
    expect 1 runtime --log=log --log-format=json state missing
    output=$(<log)
    output_holds 'it["level"] == "error" and "does not exist" in it["msg"] and it["time"].endswith("Z")'
    output_holds '(it["code"], it["detail"]) == ("other", it["msg"])'
    rm log
    expect 1 runtime --log-format json --log log --nonsense list
    output=$(<log)
    output_holds 'it["msg"] == "unknown flag: --nonsense"'
}

@test "a full disk is an error" {
    [[ -w /dev/full ]] || skip "/dev/full is missing"
    for command in --version --help features; do
        ! runtime "$command" >/dev/full 2>error
        grep -q "write to standard output" error
    done
}

@test "a reader that has seen enough ends the program without a message, as head does" {
    mkfifo pipe
    for command in --version features "list --format json" "warm list"; do
        exec {both}<>pipe # opening the other end for writing waits for no one
        exec {writer}>pipe
        exec {both}<&-
        # shellcheck disable=SC2086 # words
        expect 141 bash -c "\$0 $command >&$writer" "$RUNTIME"
        [[ -z $stderr ]]
        exec {writer}>&-
    done
}

@test "create, start, kill, delete: the states of a container" {
    make_bundle sleep 1000
    runtime create --bundle bundle --pid-file pid steps </dev/null >/dev/null 2>&1
    tells 'it["id"] == "steps" and it["status"] == "created" and it["ociVersion"].startswith("1.")' runtime state steps
    output_holds "it['pid'] == $(<pid) and it['bundle'] == '$PWD/bundle'"
    prints "" runtime start steps
    stderr_is_empty
    status_is steps running
    expect 1 runtime start steps
    expect 1 runtime delete steps
    status_is steps running
    expect 0 runtime kill steps KILL
    wait_for status_is steps stopped
    tells 'it["pid"] == 0' runtime state steps
    fails 1 "container not running" runtime kill steps
    expect 0 runtime delete steps
    stderr_is_empty
    fails 1 "container 'steps' does not exist" runtime state steps
}

@test "create: refuses a name that is in use, and invalid names" {
    start_sleeping taken
    fails 1 "already exists" runtime create --bundle bundle taken
    for id in '' . .. a/b ../a .a 'a b' $'a\nb' é; do
        fails 1 "invalid container id" runtime create --bundle bundle "$id"
    done
}

@test "run: the exit code is the program's, 128+N when signal N ended it" {
    for code in 0 1 42 255; do
        make_bundle sh -c "exit $code"
        expect "$code" runtime run --bundle bundle "code$code"
        stderr_is_empty
    done
    make_bundle sleep 1000
    (
        wait_for status_is killed running
        runtime kill killed 9
    ) &
    expect 137 runtime run --bundle=bundle killed
    prints "" runtime list --quiet
}

@test "run: the bundle is the working directory unless given, in each form of the option" {
    make_bundle echo here
    local -a forms=("--bundle bundle" "--bundle=bundle" "-b bundle" "-bbundle")
    for form in "${forms[@]}"; do
        # shellcheck disable=SC2086 # words
        prints here runtime run $form form
    done
    cd bundle
    prints here runtime run form
    mv config.json other.json
    expect 0 runtime run --config other.json form
    expect 1 runtime run form
}

@test "run --keep: keeps the stopped container" {
    make_bundle true
    expect 0 runtime run --keep --bundle bundle kept
    status_is kept stopped
    expect 0 runtime delete kept
}

@test "run: standard streams that are closed are /dev/null, also for the container" {
    make_bundle sh -c 'for fd in 0 2; do readlink /proc/self/fd/$fd; done >/out/fds; ls /proc/self/fd | wc -l >>/out/fds'
    mkdir -m 0777 out
    configure 'config["mounts"].append({"destination": "/out", "type": "bind", "source": arguments[0], "options": ["rbind", "rw"]})' "$PWD/out"
    runtime run --bundle bundle closed <&- >&- 2>&-
    [[ $(<out/fds) == $'/dev/null\n/dev/null\n4' ]]
}

@test "run --preserve-fds, LISTEN_FDS: descriptors keep their numbers, others are not inherited" {
    make_bundle sh -c 'cat <&3; cat <&4; ls /proc/self/fd | wc -l'
    echo three >three
    echo four >four
    prints $'three\nfour\n6' runtime run --preserve-fds 2 --bundle bundle fds 3<three 4<four 5<four
    make_bundle sh -c 'cat <&3; echo "$LISTEN_FDS $LISTEN_PID"'
    prints $'three\n1 1' sh -c 'LISTEN_FDS=1 LISTEN_PID=$$ exec "$RUNTIME" run --bundle bundle fds 3<three'
    expect 0 sh -c 'LISTEN_FDS=1 LISTEN_PID=1 exec "$RUNTIME" run --bundle bundle fds 3<three'
    [[ $output != *three* ]]
}

@test "exec: output, exit code, variables, directory; the program's options remain its own" {
    start_sleeping box
    expect 7 runtime exec box sh -c 'echo "$PWD|$PATH|$NEW"; exit 7'
    output_has "/|/"
    prints "/tmp|/bin|1" runtime exec --cwd /tmp --env NEW= -e PATH=/bin --env NEW=1 box sh -c 'echo "$PWD|$PATH|$NEW"'
    prints "--help -t" runtime exec box echo --help -t
    expect 0 runtime exec --help
}

@test "exec: an error of the runtime is exit code 255, which a program rarely has" {
    start_sleeping box
    fails 255 "no program to run" runtime exec box
    fails 255 "does not exist" runtime exec missing true
    expect 255 runtime exec box no-such-program
    expect 255 runtime exec --cwd /missing box true
    expect 255 runtime exec --no-such-option box true
    expect 1 runtime exec box false
}

@test "exec --env: an entry without a name or a value is refused, and the error does not show it" {
    start_sleeping box
    for entry in SECRET =SECRET ''; do
        expect 255 runtime exec --env A=1 --env "$entry" box true
        [[ $stderr == "pysbx-runtime: invalid value of --env, number 2: expected NAME=VALUE" ]]
    done
}

@test "exec: options change the container's own process object: variables in their place, groups and capabilities added" {
    make_bundle_with 'process["env"] = ["PATH=/bin", "HOME=/", "PAT=x"]; capabilities("CAP_CHOWN")' sleep 1000
    configure 'process["capabilities"]["inheritable"] = ["CAP_CHOWN"]; process["terminal"] = False; process["noNewPrivileges"] = True'
    is_rootless || configure 'process["user"] = {"uid": 1, "gid": 2, "additionalGids": [5]}'
    start_box
    prints $'PATH=/bin\nHOME=/root\nPAT=x\nNEW=1' runtime exec --env HOME=/root --env NEW= --env NEW=1 box env
    # Never to the inheritable set (CVE-2022-29162), and so to the ambient set of other users only if it is there.
    expect 0 runtime exec --user 0 --cap CAP_KILL box sed -n 's/^Cap\(Inh\|Bnd\):.0*//p' /proc/self/status
    output_is $'1\n21'
    prints $'NoNewPrivs:\t1' runtime exec box grep NoNewPrivs /proc/self/status
    is_rootless && return
    prints "1 2 2 5 6 7 8" runtime exec -g 6,7 -g 8 box sh -c 'echo $(id -u) $(id -g) $(id -G)'
    for group in '' '6,' staff -1 4294967295; do expect 255 runtime exec -g "$group" box true; done
    make_bundle_with 'del process["capabilities"]' sleep 1000
    runtime run --detach --bundle bundle powerless </dev/null >/dev/null 2>&1
    prints 20 runtime exec --cap KILL powerless sed -n 's/^CapBnd:.0*//p' /proc/self/status
}

@test "exec --user: numbers only, and an invalid number never becomes root (CVE-2026-30892)" {
    start_sleeping box
    if ! is_rootless; then
        expect 0 runtime exec -u 1000:50 -g 7,8 box id
        output_has "uid=1000" "gid=50" "8"
        prints 1 runtime exec -u 1 box id -u
        prints $'4294967294\n4294967294' runtime exec -u 4294967294:4294967294 box sh -c 'id -u; id -g'
    fi
    for user in '' : 1: :2 1:2:3 -1 +1 1:-1 ' 1' '1 ' 1x 1:2x 0x1 root 4294967295 4294967296 4294967296:1 1:4294967296 \
        18446744073709551617; do
        fails 255 "invalid user '$user': expected UID or UID:GID" runtime exec --user "$user" box id
        output_is ""
    done
}

@test "exec --process: the process object defines the whole process" {
    start_sleeping box
    cat >process.json <<'JSON'
{"args": ["sh", "-c", "echo $WORD in $PWD"], "cwd": "/tmp", "env": ["PATH=/bin", "WORD=here"], "user": {"uid": 0, "gid": 0}}
JSON
    prints "here in /tmp" runtime exec --process process.json box
    prints "here in /tmp" runtime exec -p - box <process.json
    prints "here in /tmp" runtime exec --process /dev/stdin box <process.json
    prints "here in /tmp" runtime exec --process <(cat process.json) box
    fails 255 "read the process from '/tmp'" runtime exec --process /tmp box
    fails 255 "--process excludes a program and its options" runtime exec --process process.json --env A=B box
    fails 255 "'missing.json': does not exist" runtime exec --process missing.json box
}

# Run a command with --pidfd-socket and --pid-file, and print whether both name the same process. End that.
pidfd_of() {
    python3 - "$@" <<'PY'
import os, pathlib, signal, socket, subprocess, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind("pidfd.sock")
listener.listen()
listener.settimeout(60)
child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
connection, _ = listener.accept()
name, [pidfd], _, _ = socket.recv_fds(connection, 64, 2)
fields = dict(line.split(":\t") for line in pathlib.Path(f"/proc/self/fdinfo/{pidfd}").read_text().splitlines())
print(name.decode(), fields["Pid"] == pathlib.Path("pid").read_text())
signal.pidfd_send_signal(pidfd, signal.SIGKILL)
child.wait()
os.unlink("pidfd.sock")
PY
}

@test "--pidfd-socket: create, run and exec send a pidfd of the process" {
    make_bundle sleep 1000
    output=$(pidfd_of "$RUNTIME" create --bundle bundle --pid-file pid --pidfd-socket pidfd.sock made)
    output_is "pidfd True"
    expect 0 runtime delete made
    output=$(pidfd_of "$RUNTIME" run --bundle bundle --pid-file pid --pidfd-socket pidfd.sock box)
    output_is "pidfd True"
    start_sleeping box
    output=$(pidfd_of "$RUNTIME" exec --pid-file pid --pidfd-socket pidfd.sock box sleep 1000)
    output_is "pidfd True"
    fails 255 "connect to pidfd socket 'pidfd.sock': does not exist" runtime exec --pidfd-socket pidfd.sock box true
    fails 1 "connect to pidfd socket" runtime run --bundle bundle --pidfd-socket pidfd.sock other
    [[ ! -e $RUNTIME_STATE/other ]]
}

@test "run --compare-fd: a program that was not restored is not what a start would make; it ends with the socket" {
    make_bundle sleep 60
    ask() { # whether a byte is sent
        python3 - "$RUNTIME" "$1" <<'PYTHON'
import socket, subprocess, sys
ours, theirs = socket.socketpair()
command = [sys.argv[1], "run", "--bundle", "bundle", "--compare-fd", str(theirs.fileno()), "box"]
with subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL) as run:
    theirs.close()
    if sys.argv[2] == "yes":
        ours.send(b"x")
        print(ours.recv(9))
    ours.close()
print(run.returncode)
PYTHON
    }
    asked=$(ask yes)
    [[ $asked == "b'n'"$'\n'137 && $(ask no) == 137 && ! -e $RUNTIME_STATE/box ]]

    local option
    for option in compare-fd snapshot-fd; do
        fails 1 "option '--$option': descriptor 99" runtime run --bundle bundle "--$option" 99 box
    done
    # 0 is none.
    fails 1 "cannot continue from 'file'" runtime run --bundle bundle --snapshot-fd 0 --snapshot file box
    fails 1 "option '--snapshot-fd' excludes '--snapshot'" runtime run --bundle bundle --snapshot-fd 1 --snapshot file box
    fails 1 "cannot continue from '--snapshot-fd': the program is not CPython" runtime run --bundle bundle --snapshot-fd 1 box
    [[ ! -e $RUNTIME_STATE/box ]]
}

@test "run --status-file: tells an exit code from a signal" {
    make_bundle sh -c 'exit 137'
    expect 137 runtime run --bundle bundle --status-file status box
    [[ $(<status) == "exited 137" ]]
    make_bundle sleep 1000
    runtime run --bundle bundle --status-file /proc/self/fd/5 box </dev/null 5> >(cat >status) &
    wait_for status_is box running
    expect 0 runtime kill box KILL
    wait $! || [[ $? == 137 ]]
    wait_for grep -qx 'killed 9' status
    fails 1 "open status file 'missing/status': does not exist" runtime run --bundle bundle --status-file missing/status box
    fails 1 "option '--status-file' needs a foreground" runtime run --detach --bundle bundle --status-file status box
    [[ ! -e $RUNTIME_STATE/box ]]
}

@test "the code of an error: in the status file, in the log, and on the page that explains it" {
    top=$(realpath "$TESTS/..")
    make_bundle_with 'process["cwd"] = "/bin/sh"' true
    expect 1 runtime run --bundle bundle --status-file status box
    [[ $(<status) == 'error no-workdir chdir to `/bin/sh`: Not a directory' ]]
    expect 1 runtime --log log --log-format json create --bundle bundle box
    output=$(<log)
    output_holds 'it["code"] == "no-workdir" and it["msg"] == it["detail"]'
    # Also if the first steps fail: the id, the bundle, its configuration, other options.
    told() { # the beginning of the file, and the arguments
        expect 1 runtime run --status-file status "${@:2}"
        [[ $(<status) == "error $1"* && $(wc -l <status) == 1 ]]
    }
    told "other invalid container id 'a/b': " --bundle bundle a/b
    told "other bundle 'missing': does not exist" --bundle missing box
    told "other option '--compare-fd': descriptor 99" --bundle bundle --compare-fd 99 box
    echo '{"ociVersion": ' >bundle/broken.json
    told "other config.json: line 2: parse error" --bundle bundle --config broken.json box
    echo '{"ociVersion": "1.0.0", "process": {"cwd": 5}}' >bundle/broken.json
    told "other config.json: process.cwd: expected a string" --bundle bundle --config broken.json box
    told "other '/dev/fd/7' is not a regular file" --bundle bundle --config /dev/fd/7 box 7< <(cat bundle/config.json)
    configure 'config["annotations"] = {"run.pysbx.warm": "require"}; process["args"] = ["python3", "-i"]'
    rm log
    expect 1 runtime --log log --log-format json create --bundle bundle box
    output=$(<log)
    output_holds 'it["code"] == "not-restorable" and it["msg"] == "run.pysbx.warm=require: " + it["detail"]'
    # A program of the administrator's that fails is no disk that fails.
    make_bundle_with 'config["hooks"] = {"createRuntime": [{"path": "/bin/false"}]}' true
    told "other hooks.createRuntime[0]: '/bin/false' failed with exit status 1" --bundle bundle box
    diff <(sed -n 's/.*X(ERROR_[A-Z0-9_]*, "\(.*\)").*/\1/p' "$top/runtime/base/error.h" | sort) \
        <(sed -n '/^## Codes/,/^## Podman/s/^| `\(.*\)` |.*|$/\1/p' "$top/contrib/docs/pages/reference/exit-codes.md" |
            sed 's/`, `/\n/g' | sort)
}

@test "run --status-file: counts OOM-killed processes" {
    needs_controller memory
    make_bundle_with 'linux["resources"] = {"memory": {"limit": 16 << 20, "swap": 16 << 20}}' sh -c 'tail /dev/zero'
    runtime run --bundle bundle --status-file status box </dev/null >/dev/null 2>&1 || true
    grep -qx '[a-z]* [0-9]* oom-kills 1' status
}

@test "exec --detach --pid-file: returns while the process runs" {
    start_sleeping box
    runtime exec --detach --pid-file pid box sleep 999 </dev/null >/dev/null 2>&1
    wait_for command_line_is "$(<pid)" "sleep 999"
}

@test "kill: signals by name and number in every form" {
    make_bundle sh -c 'trap "echo usr1 >>/tmp/got" USR1; trap "exit 3" TERM; while :; do sleep 0.05; done'
    configure 'config["root"]["readonly"] = False'
    runtime run --keep --detach --bundle bundle signals </dev/null >/dev/null 2>&1
    wait_for runtime exec signals true
    for signal in USR1 SIGUSR1 sigusr1 usr1 10; do
        rm -f bundle/rootfs/tmp/got
        expect 0 runtime kill signals "$signal"
        wait_for test -s bundle/rootfs/tmp/got
    done
    for signal in NONSENSE 65 -- 9x RTMIN+99; do
        fails 1 "unknown signal '$signal'" runtime kill signals -- "$signal"
    done
    expect 0 runtime kill signals
    wait_for status_is signals stopped
}

@test "kill --all: succeeds if the container has stopped, with and without a cgroup" {
    make_bundle true
    for manager in cgroupfs disabled; do
        runtime --cgroup-manager $manager run --keep --bundle bundle stopped
        expect 0 runtime kill --all stopped KILL
        stderr_is_empty
        fails 1 "container not running" runtime kill stopped KILL
        runtime delete stopped
    done
    expect 1 runtime kill --all missing
}

@test "delete --force: kills a running container, and a missing one is no error" {
    start_sleeping box
    prints "" runtime delete --force box
    stderr_is_empty
    expect 0 runtime delete --force box
    stderr_is_empty
    fails 1 "does not exist" runtime delete box
}

@test "list: a table, names alone, JSON" {
    expect 0 runtime list
    [[ ${#lines[@]} == 1 && $output == "ID "*OWNER ]]
    prints "[]" runtime list --format json
    start_sleeping box
    expect 0 runtime list
    [[ ${lines[1]} == "box "*" running "*"$PWD/bundle"* ]]
    prints box runtime list -q
    tells '[(c["id"], c["status"]) for c in it] == [("box", "running")]' runtime list --format=json
}

@test "ps: the host's table, and numbers as JSON" {
    needs_cgroups
    start_sleeping box
    wait_for command_line_is "$(pid_of_box)" "sleep 1000"
    expect 0 runtime ps box
    [[ ${#lines[@]} == 2 && ${lines[0]} == *PID* && ${lines[1]} == *"sleep 1000" ]]
    expect 0 runtime ps box -o pid,args
    [[ ${lines[1]} == *"sleep 1000" ]]
    tells 'len(it) == 1 and isinstance(it[0], int)' runtime ps --format json box
    fails 1 "column PID" runtime ps box -o args
}

@test "pause, resume: the state is paused in between" {
    needs_cgroups
    start_sleeping box
    expect 0 runtime pause box
    status_is box paused
    expect 255 runtime exec box true
    expect 0 runtime resume box
    status_is box running
    expect 0 runtime exec box true
}

@test "--debug: create and start log each step with its object and its time" {
    make_bundle true
    runtime --debug --log "$PWD/log" create --bundle bundle box </dev/null >out 2>&1
    for step in "plan '$PWD/bundle'" "write record 'box'" "clone first process" "init: enter namespaces" \
        "init: mount root" "init: change root" "complete record 'box'"; do
        grep -qE "debug: step: $step.*: [0-9]+ us\$" log
    done
    : >log
    expect 0 runtime --debug --log "$PWD/log" start box
    grep -qE "debug: step: reach first process 'box': [0-9]+ us\$" log
    grep -qE "debug: step: start program 'box': [0-9]+ us\$" log
    : >log
    expect 0 runtime --log "$PWD/log" run --bundle bundle other
    [[ ! -s log ]]
}

@test "update: refuses values that are empty, contradictory or impossible" {
    needs_cgroups
    start_sleeping box
    fails 1 "nothing to update" runtime update box
    fails 1 "--resources excludes options with limits" runtime update --resources - --memory 1g box
    fails 1 "pids.limit" runtime update --resources - box <<<'{"pids": {"limit": "many"}}'
    fails 1 "invalid argument '1x' for --memory" runtime update --memory 1x box
    fails 1 "cpu.shares" runtime update --cpu-share -1 box
    for number in -2 -9223372036854775808; do
        expect 1 runtime update --pids-limit "$number" box
        stderr_has "pids.limit: $number is neither a number of processes nor -1, which is no limit"
    done
    fails 1 "pids.limit: -2 is neither" runtime update --resources - box <<<'{"pids": {"limit": -2}}'
    expect 0 runtime update --pids-limit -1 box
    expect 0 runtime update --pids-limit 0 box # "not given", as engines have it
}

@test "update: limits from options and JSON reach the cgroup" {
    needs_controller pids
    start_sleeping box
    cgroup=/sys/fs/cgroup$(sed -n 's/^0:://p' "/proc/$(runtime ps -f json box | tr -d '[]')/cgroup")
    expect 0 runtime update --pids-limit 77 box
    [[ $(<"$cgroup/pids.max") == 77 ]]
    expect 0 runtime update --resources - box <<<'{"pids": {"limit": 78}}'
    [[ $(<"$cgroup/pids.max") == 78 ]]
}

@test "events: statistics once, at an interval, until the container stops" {
    needs_cgroups
    start_sleeping box
    tells 'it["type"] == "stats" and it["id"] == "box" and isinstance(it["data"], dict)' runtime events --stats box
    runtime events --interval 100ms box >log &
    wait_for grep -q stats log
    runtime kill box KILL
    wait $!
    fails 1 "container not running" runtime events box
    fails 1 "--interval" runtime events --interval soon box
}

@test "spec: writes a configuration that runs, and never overwrites a file" {
    mkdir -p bundle
    expect 0 runtime spec --bundle bundle
    output=$(<bundle/config.json)
    output_holds '(it["ociVersion"].startswith("1.") and it["process"]["args"] == ["sh"]
        and it["process"]["terminal"] and it["process"]["noNewPrivileges"] and len(it["process"]["capabilities"]["bounding"]) == 3
        and "resources" in it["linux"] and len(it["linux"]["maskedPaths"]) > 10
        and {"network"} == {n["type"] for n in it["linux"]["namespaces"]} & {"network", "user"}
        and [m["type"] for m in it["mounts"] if m["destination"] == "/sys"] == ["sysfs"])'
    expect 1 runtime spec --bundle bundle
    expect 1 runtime spec --bundle missing
    rm bundle/config.json
    expect 0 runtime spec --rootless --bundle bundle
    output=$(<bundle/config.json)
    output_holds "(it['linux']['uidMappings'][0]['hostID'] == $(id -u)"' and "resources" not in it["linux"]
        and {"user"} == {n["type"] for n in it["linux"]["namespaces"]} & {"network", "user"}
        and {m["destination"]: (m["source"], len(m.get("options", []))) for m in it["mounts"]}.items() >=
            {("/sys", ("/sys", 5)), ("/dev/pts", ("devpts", 5))})'
}

@test "features: the document of the specification, and no output on standard error" {
    expect 0 runtime features
    stderr_is_empty
    output_holds 'it["ociVersionMin"] == "1.0.0" and it["ociVersionMax"] == "1.3.0"'
    output_holds 'len(it["hooks"]) == 6 and len(it["linux"]["namespaces"]) == 8 and it["linux"]["memoryPolicy"]["modes"][0] == "MPOL_BIND"'
    output_holds 'it["linux"]["cgroup"].items() >= {"v1": False, "v2": True, "systemd": True, "systemdUser": True}.items()'
    output_holds 'all(isinstance(it["linux"]["seccomp"][name], list) for name in
        ("actions", "operators", "archs", "knownFlags", "supportedFlags")) and it["annotations"]'
    output_holds 'all(isinstance(it["linux"][name]["enabled"], bool) for name in ("netDevices", "selinux", "apparmor"))'
    output_holds '"rro" in it["mountOptions"] and it["linux"]["mountExtensions"]["idmap"]["enabled"]'
    output_holds '"CAP_SYS_ADMIN" in it["linux"]["capabilities"] and "SCMP_ACT_NOTIFY" in it["linux"]["seccomp"]["actions"]'
}

@test "plan: prints a JSON document, and changes nothing" {
    make_bundle true
    find bundle | sort >files
    tells 'isinstance(it, dict) and len(it) > 3' runtime plan --bundle bundle
    stderr_is_empty
    find bundle | sort | cmp - files
    prints "" runtime list --quiet
}

# Give ./bundle these annotations, each with the value "x".
annotate() {
    configure 'config["annotations"] = dict.fromkeys(arguments, "x")' "$@"
}

@test "annotations: plan lists unknown run.pysbx.* names, with the known name that may be meant" {
    make_bundle true
    annotate run.pysbx.preloads run.pysbx.landlok run.pysbx.wram run.pysbx.untrust run.pysbx.warm-mode run.pysbx. \
        run.pysbx.colour "run.pysbx.$(printf 'warm%.0s' {1..3000})" run.oci.preloads org.example.run.pysbx.warm
    expect 0 runtime plan --bundle bundle
    [[ $(grep -c "meant?$" <<<"$stderr") == 4 ]] # of five
    output_holds 'len(it["unknownAnnotations"]) == 8'
    output_holds '{row["name"]: row["nearest"] for row in it["unknownAnnotations"] if "nearest" in row} == {
        "run.pysbx.preloads": "run.pysbx.preload", "run.pysbx.landlok": "run.pysbx.landlock",
        "run.pysbx.wram": "run.pysbx.warm", "run.pysbx.untrust": "run.pysbx.untrusted",
        "run.pysbx.warm-mode": "run.pysbx.warm"}'
    configure 'config["annotations"] = {"run.pysbx.preload": "json", "run.pysbx.warm": "auto", "run.pysbx.landlock": "default",
        "run.pysbx.untrusted": "yes"}'
    tells '"unknownAnnotations" not in it' runtime --log-level warning plan --bundle bundle
    [[ $stderr != *"not known"* ]]
}

@test "annotations: a run.pysbx.* name that may be misspelt is told, another unknown one is one warning if warnings are on" {
    local meant="annotation 'run.pysbx.landlok': not known to this release, and ignored; is 'run.pysbx.landlock' meant?"
    make_bundle true
    annotate run.pysbx.landlok run.pysbx.colour
    expect 0 run_box
    [[ $stderr == "pysbx-runtime: $meant" ]]
    # As Podman does. Its log is one JSON object, the error. conmon keeps standard error with the container's own.
    runtime --log "$PWD/log" --log-format json create --bundle bundle box </dev/null >out 2>err
    [[ $(<err) == "pysbx-runtime: $meant" && ! -s log ]]
    expect 0 runtime start box # by Podman, with the terminal of `podman run`
    [[ $stderr == "pysbx-runtime: $meant" ]]
    runtime delete --force box
    annotate run.pysbx.colour org.example.landlok
    expect 0 run_box
    stderr_is_empty
    annotate run.pysbx.landlok{,1,2,3,4,5}
    expect 0 run_box
    [[ $(grep -c "; is 'run.pysbx.landlock' meant?$" <<<"$stderr") == 4 ]]
    annotate run.pysbx.landlok run.pysbx.colour
    expect 0 runtime --log-level warning run --bundle bundle box
    [[ $(grep -cF "$meant" <<<"$stderr") == 1 ]]
    [[ $(grep -c "annotation 'run.pysbx.colour': not known to this release, and ignored$" <<<"$stderr") == 1 ]]
    runtime --log "$PWD/log" --log-format json --log-level warning create --bundle bundle box </dev/null >out 2>err
    [[ ! -s err ]]
    grep -q '"msg":"annotation .run.pysbx.colour.: not known.*"level":"warning"' log
    runtime delete --force box
    expect 0 runtime --log-level warning plan --bundle bundle
    [[ $(grep -c "annotation 'run.pysbx.landlok'" <<<"$stderr") == 1 ]]
    expect 1 runtime --log-level warning warm build --bundle bundle # no interpreter
    [[ $(grep -c "annotation 'run.pysbx.landlok'" <<<"$stderr") == 1 ]]
    # The dynamic program repeats the decision, and warns once.
    configure 'linux["seccomp"] = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["personality"],
        "action": "SCMP_ACT_ERRNO", "errnoRet": 77}]}'
    expect 0 runtime --log-level warning run --bundle bundle box
    [[ $(grep -c "annotation 'run.pysbx.landlok'" <<<"$stderr") == 1 ]]
}

@test "--root: containers of one state root are invisible in another" {
    make_bundle sleep 1000
    runtime --root "$PWD/state" run --detach --bundle bundle apart </dev/null >/dev/null 2>&1
    prints apart runtime --root="$PWD/state" list -q
    prints "" runtime list -q
    expect 0 runtime --root "$PWD/state" delete --force apart
}
