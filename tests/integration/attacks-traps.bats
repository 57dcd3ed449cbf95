#!/usr/bin/env bats
# An image or a container puts obstacles in the runtime's way: hooks, links, pipes that block a reader, its own /proc,
# nested cgroups without end. The runtime behaves as it does without them, and the host does not change.
# once: except for a test with the tag "user", obstacles have the same results in both modes

load ../lib/warm.bash

@test "a container creates processes in its own cgroup during delete: delete removes all of them and the cgroup" {
    needs_cgroups
    local -A plays=(
        [frozen]='mkdir a a/b; sleep 1000 & echo $! >a/b/cgroup.procs; echo 1 >a/cgroup.freeze; echo made; sleep 1000'
        [itself]='mkdir a; echo made; echo $$ >a/cgroup.procs; echo 1 >a/cgroup.freeze; sleep 1000'
        [threads]='mkdir a; echo threaded >a/cgroup.type; echo $$ >a/cgroup.threads; echo made; sleep 1000'
        [no_room]='mkdir a; echo $$ >a/cgroup.procs; echo 0 >cgroup.max.descendants; echo made; sleep 1000'
        [deep]='for n in $(seq 300); do mkdir d && cd d; done; sleep 1000 & echo $! >cgroup.procs; echo made; sleep 1000'
        [many]='mkdir $(seq 1000); echo made; sleep 1000'
        [names]='mkdir "a b" ... -- -x; sleep 1000 & echo $! >"a b/cgroup.procs"; echo made; sleep 1000'
        [more]='for n in 1 2 3; do while :; do mkdir -p $n/x; sleep 0 & echo $! >$n/x/cgroup.procs; n=$((n + 10)); done & done
echo made; sleep 1000'
    )
    for name in "${!plays[@]}"; do
        echo "# $name"
        make_bundle sh -c "cd /sys/fs/cgroup; ${plays[$name]}"
        configure 'for mount in config["mounts"]:
    if mount["destination"] == "/sys/fs/cgroup": mount["options"].remove("ro")'
        start_box
        wait_for grep -q made out
        [[ $(find /sys/fs/cgroup -name '*box*') ]]
        expect 0 timeout 60 "$RUNTIME" delete --force box
        check_untouched
    done
}

# CONFINEMENT, for the shell of busybox: prints the confinement of a process, and variables that do not belong to it.
CONFINEMENT='grep -E "^(NoNewPrivs|Seccomp|Cap...):" /proc/self/status; env | grep -E "^(IMAGE|ENGINE|LD_PRELOAD)="'

@test "a hook that is a program of the image: it has the rights of the container's program, and learns nothing of the engine" {
    touch hooked
    for forbids in True False; do
        make_bundle sh -c "$CONFINEMENT"
        configure 'process["noNewPrivileges"] = arguments[0] == "True"; process["env"].append("IMAGE=own")
seccomp("ALLOW", rule("ERRNO", "acct")); mount("/hooked", arguments[1])
hook("startContainer", f"({arguments[2]}) >/hooked")' "$forbids" "$PWD/hooked" "$CONFINEMENT"
        ENGINE="secret of the engine" expect 0 run_box
        [[ $output == *$'Seccomp:\t2'*IMAGE=own && $output == *$'NoNewPrivs:\t'$((${#forbids} == 4))* ]]
        [[ $(<hooked) == "$output" ]] || diff hooked - <<<"$output"
    done
}

@test "a hook that is a program of the image is a link, and so is its log: neither leads through descriptors of the engine" {
    allow_annotations run.oci.hooks.stdout
    mkdir host
    touch hooked
    make_bundle true
    cp bundle/rootfs/bin/busybox host/
    configure 'config["hooks"] = {"startContainer": [
    {"path": "/bin/hook", "args": ["sh", "-c", "echo escaped; echo escaped >/hooked"]}]}
mount("/hooked", arguments[0] + "/hooked")
config["annotations"] = {"run.oci.hooks.stdout": "/log"}' "$PWD"
    for fd in {3..15}; do
        # The engine's own directory, and the root of the host, through the runtime's /proc.
        for place in "/proc/self/fd/$fd" "/proc/self/fd/$fd/$$/root$PWD/host"; do
            ln -sf "$place/busybox" bundle/rootfs/bin/hook
            fails 1 "it cannot be executed: " run_box 7<host 14<host
            ln -sf /bin/busybox bundle/rootfs/bin/hook
            ln -sf "$place/log" bundle/rootfs/log
            expect 0 run_box 7<host 14<host
            [[ ! -e host/log && $(<hooked) == escaped ]]
            rm bundle/rootfs/log
            : >hooked
        done
    done
}

@test "a hook of the host runs in the container's namespaces: it gets no variables and no directory of the image" {
    # CVE-2025-23266
    make_bundle true
    configure 'process["env"].append("LD_PRELOAD=./hostile.so"); process["cwd"] = "/tmp"
hook("createContainer", f"({arguments[0]}; pwd) >{arguments[1]}/hooked")' "$CONFINEMENT" "$PWD"
    expect 0 run_box
    [[ $(<hooked) != *LD_PRELOAD* && $(tail -n 1 hooked) == "$PWD/bundle" ]]
}

@test "/etc/passwd is a link through descriptors of the runtime: no file of the host is read" {
    echo "root:x:0:0::/secret:/bin/sh" >host
    make_bundle_with 'process["env"] = ["PATH=/bin"]' sleep 1000
    mkdir -p bundle/rootfs/etc
    start_box
    configure 'process["args"] = ["sh", "-c", "echo \"$HOME\""]'
    for fd in {3..15}; do
        ln -sf "/proc/self/fd/$fd/$$/root$PWD/host" bundle/rootfs/etc/passwd
        prints / runtime run --bundle bundle second </dev/null
        prints / runtime exec box sh -c 'echo "$HOME"'
    done
}

@test "/etc/passwd is an object with side effects on open: the runtime opens regular files only" {
    make_bundle_with 'process["env"] = ["PATH=/bin"]' sh -c 'echo "$HOME"'
    mkdir -p bundle/rootfs/etc
    rm -f bundle/rootfs/etc/passwd
    mkfifo bundle/rootfs/etc/passwd
    hold sh -c 'echo waiting >bundle/rootfs/etc/passwd'
    wait_for grep -q '^State:.*sleeping' "/proc/$!/status"
    prints / run_box
    # A process that waits for an open of the pipe would not wait any more after one.
    [[ $(timeout 60 cat bundle/rootfs/etc/passwd) == waiting ]]
}

@test "/etc/passwd cannot be read to its end: the start fails, because HOME would be wrong" {
    make_bundle_with 'process["env"] = ["PATH=/bin"]' true
    configure 'mount("/etc/passwd", f"/proc/{arguments[0]}/mem")' "$$"
    fails 1 "read '/etc/passwd' for the variable HOME: " run_box
}

@test "the host's /sys in a user namespace, read-only: the host's cgroups are not writable either" {
    # CVE-2023-25809
    needs_root "a cgroup is given away"
    needs_cgroups
    local given=/sys/fs/cgroup/given
    mkdir "$given"
    chown -R 100000:100000 "$given"
    make_bundle mkdir "$given/made"
    configure 'user_namespace((0, 100000, 65536)); unmount("/sys", "/sys/fs/cgroup"); mount("/sys", "/sys", "rbind", "ro")'
    fails 1 "Read-only file system" run_box
    # The host's /sys replaces a sysfs, which only the owner of the network namespace may mount.
    configure 'unmount("/sys"); mount("/sys", "sysfs", kind="sysfs"); share("network")'
    fails 1 "Read-only file system" run_box
    # Without a read-only mount, only the owner of a cgroup prevents writes.
    configure 'unmount("/sys"); mount("/sys", "/sys", "rbind")'
    expect 0 run_box
    rmdir "$given/made" "$given"
}

@test "/dev/pts/ptmx is an object with side effects on open: only the multiplexer of a devpts is opened" {
    make_bundle_with 'unmount("/dev", "/dev/pts", "/dev/shm", "/dev/mqueue"); process["terminal"] = True' true
    mkdir -p bundle/rootfs/dev/pts
    mkfifo bundle/rootfs/dev/pts/ptmx
    hold sh -c 'echo waiting >bundle/rootfs/dev/pts/ptmx'
    wait_for grep -q '^State:.*sleeping' "/proc/$!/status"
    fails 1 "'/dev/pts/ptmx' is not the terminal multiplexer of a devpts: refusing to use it" run_box
    [[ $(timeout 60 cat bundle/rootfs/dev/pts/ptmx) == waiting ]]
}

# bats test_tags=user
@test "/proc is a directory of the image: the runtime writes to its own procfs" {
    # CVE-2019-16884, CVE-2025-52881
    mkdir -p fake/{self,thread-self,1}/attr fake/sys/kernel
    for file in fake/{self,thread-self,1}/{attr/exec,attr/current,attr/keycreate,oom_score_adj,setgroups,uid_map} \
        fake/sys/kernel/domainname; do
        echo untouched >"$file"
    done
    make_bundle sh -c 'cat /real/self/oom_score_adj /real/sys/kernel/domainname; ls /proc'
    configure 'unmount("/proc"); mount("/real", "proc", kind="proc"); mount("/proc", arguments[0])
process["oomScoreAdj"] = 700' "$PWD/fake"
    if is_rootless; then
        configure 'config["domainname"] = "set"' # the parameter belongs to the host's root
    else
        configure 'linux["sysctl"] = {"kernel.domainname": "set"}'
    fi
    prints $'700\nset\n1\nself\nsys\nthread-self' run_box
    # The image's link redirects a volume to the real procfs.
    ln -s /proc/self bundle/rootfs/volume
    configure 'unmount("/proc", "/real"); mount("/proc", "proc", kind="proc"); mount("/volume", arguments[0] + "/self")
mount("/proc/sys", arguments[0] + "/sys"); mount("/real", "proc", kind="proc")' "$PWD/fake"
    shows $'700\nset' run_box
    [[ $(find fake -type f -exec cat {} + | sort -u) == untouched ]]
}

@test "the files that the runtime reads from a root are pipes without a writer: the runtime does not wait" {
    make_bundle sh -c 'echo "$HOME"'
    configure 'process["env"] = ["PATH=/bin"]; config["annotations"] = {"run.pysbx.preload": "json"}'
    rm -f bundle/rootfs/etc/passwd
    mkdir -p bundle/rootfs/etc
    mkfifo bundle/rootfs/etc/passwd
    prints / timeout 60 "$RUNTIME" run --bundle bundle box
    mkfifo bundle/rootfs/bin/python3
    chmod 0755 bundle/rootfs/bin/python3
    configure 'process["args"] = ["python3"]'
    fails 1 python3 timeout 60 "$RUNTIME" run --bundle bundle box
}

@test "names that an image chooses have control characters: messages and tables show them as escapes" {
    # ESC, BEL, CR, LF; a C1 control; a character that turns the following text round. Other text stays as it is.
    local chosen=$'x\e]0;title\a\e[2J\r\nline \xc2\x9b2J \xe2\x80\xaegnp \xc3\xa4\xf0\x9f\x90\x8d'
    local shown='x\x1b]0;title\x07\x1b[2J\x0d\x0aline \u009b2J \u202egnp '$'\xc3\xa4\xf0\x9f\x90\x8d'
    shows_escapes() { # shows_escapes FILE
        [[ $(<"$1") == *"$shown"* && $(wc -l <"$1") == 1 ]]
        no_controls "$1"
    }
    no_controls() { # no_controls FILE
        ! LC_ALL=C grep --text -qP '[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80\xae' "$1"
    }
    for change in 'config["annotations"] = {"run.pysbx.landlock": arguments[0]}' 'process["args"] = ["/" + arguments[0]]' \
        'process["cwd"] = "/proc/" + arguments[0]' 'mount("/a", "/" + arguments[0])'; do
        make_bundle true
        configure "$change" "$chosen"
        rm -f log
        expect '@(1|127)' runtime --log log run --bundle bundle box
        printf '%s\n' "$stderr" >message
        shows_escapes message
        shows_escapes log
        rm log
        runtime --log log --log-format json run --bundle bundle box 2>message || true
        # An engine decodes the record and prints it.
        python3 -c 'import json, sys; print(json.load(open("log"))["msg"])' >message
        shows_escapes message
    done
    # A document of JSON has the characters, but its text does not.
    make_bundle true
    configure 'process["args"] = ["true", arguments[0] + "\x7f"]; process["env"] = [arguments[0] + "=1"]' "$chosen"
    expect 0 runtime plan --bundle bundle
    printf '%s\n' "$output" >message
    no_controls message
    output_holds 'it["process"]["args"][1] == '"$(python3 -c 'import sys; print(ascii(sys.argv[1]))' "$chosen")"' + "\x7f"'
    make_bundle sleep 1000
    mv bundle $'bundle\e[2J'
    runtime run --detach --bundle $'bundle\e[2J' box </dev/null >out
    shows 'bundle\x1b[2J' runtime list
    output_lacks $'\e'
}
