#!/usr/bin/env bats
# hooks/require-sandbox: a container that is marked as untrusted runs in a complete sandbox or not at all.
# once: a hook reads the same state in both modes

load ../lib/podman.bash

HOOK=$(realpath "$TESTS/../hooks/require-sandbox")

# The parts of a complete sandbox.
declare -gA PARTS=(
    [user]="--user 1000:1000"
    [capabilities]="--cap-drop ALL"
    [privileges]="--security-opt no-new-privileges"
    [root]="--read-only"
    [memory]="--ulimit data=268435456:268435456"
    # Podman requests a million open files as soon as another limit is given, and not every machine grants them.
    [files]="--ulimit nofile=1000:1000"
    [processes]="--ulimit nproc=1000:1000"
)

setup() {
    begin_test
    mkdir hooks
    # The hook prints one line for each reason. The runtime's error contains only the last one.
    printf '#!/bin/sh\n"%s" 2>"%s/reasons"\nstatus=$?\ncat "%s/reasons" >&2\nexit $status\n' "$HOOK" "$PWD" "$PWD" >hook
    chmod 0755 hook
    sed "s|/usr/local/libexec/pysbx-runtime/require-sandbox|$PWD/hook|" "${HOOK%/*}/50-require-sandbox.json" >hooks/50.json
}

run_with_hook() {
    podman --hooks-dir "$PWD/hooks" run --rm --network none "$@" "$BUSYBOX" echo ran
}

runtime_features() {
    "$RUNTIME" features
}

# Run an untrusted container with all parts of the sandbox except the named one (or "-"), and with the given options.
run_untrusted_without() {
    local left_out=$1 name
    local -a words options=()
    shift
    for name in "${!PARTS[@]}"; do
        read -r -a words <<<"${PARTS[$name]}"
        [[ $name == "$left_out" ]] || options+=("${words[@]}")
    done
    run_with_hook --annotation run.pysbx.untrusted=true "${options[@]}" "$@"
}

# Assert that exactly this part is reported as missing: is_refused TEXT PART OPTION...
is_refused() {
    local text=$1
    shift
    rm -f reasons
    expect 126 run_untrusted_without "$@"
    output_lacks ran
    stderr_has "require-sandbox"
    [[ $(<reasons) == "require-sandbox: $text"* && $(wc -l <reasons) == 1 ]] || { cat reasons; return 1; }
}

@test "require-sandbox: a complete sandbox runs, also with read-only volumes" {
    prints ran run_untrusted_without - --volume "$PWD:/data:ro" --tmpfs /work
}

@test "require-sandbox: a missing part is refused and named" {
    is_refused "the program is root" user
    is_refused "it has capabilities" capabilities
    is_refused "it can gain privileges" privileges
    is_refused "its root can be written" root
    is_refused "its memory has no limit" memory
    is_refused "its processes have no limit" processes
}

@test "require-sandbox: an option that opens the sandbox is refused and named" {
    is_refused "system calls are not filtered" - --security-opt seccomp=unconfined
    is_refused "files of the kernel are not masked" - --security-opt unmask=ALL
    is_refused "it shares a namespace of the host" - --uts host
    is_refused "files of the kernel are not masked" - --security-opt unmask=/proc/keys
    is_refused "a volume can be written" - --volume "$PWD:/data"
    is_refused "a volume shows /proc, /sys, /dev" - --volume /proc/sys/kernel:/data:ro
}

@test "require-sandbox: the mounts that are refused are named, also those that the engine adds in a pod" {
    mkdir data
    is_refused "a volume can be written (--volume …:ro, and no mount below it): '/one', '/two'" - \
        --volume "$PWD/data:/two" --volume "$PWD:/three:ro" --volume "$PWD:/one"
    podman run --detach --name neighbour --network none --ipc shareable "$BUSYBOX" sleep 60
    is_refused "a volume can be written (--volume …:ro, and no mount below it): '/dev/shm'" - --ipc container:neighbour
    podman rm --force --time 0 neighbour
}

@test "require-sandbox: an annotation unknown to the runtime is refused and named" {
    is_refused "annotation 'run.pysbx.landlok' is not known" - --annotation run.pysbx.landlok=default
    expect 0 run_untrusted_without - --annotation run.pysbx.warm=auto --annotation org.example.landlok=default
}

@test "require-sandbox: an annotation that opens the sandbox is refused if it is in force, and no reason otherwise" {
    local -a opening=(run.oci.seccomp_bpf_data=BgAAAAAA/38= run.oci.seccomp.receiver=/socket run.oci.mount_context_type=rootcontext
        run.oci.systemd.subgroup=x org.systemd.property.DevicePolicy="'auto'" "run.oci.hooks.stdout=$PWD/said")
    for annotation in "${opening[@]}"; do
        remove_policy
        prints ran run_untrusted_without - --annotation "$annotation"
        allow_annotations "${annotation%%=*}"
        is_refused "annotation '${annotation%%=*}' is in force" - --annotation "$annotation"
    done
    remove_policy
    is_refused "annotation 'run.oci.keep_original_groups' is in force" - --annotation run.oci.keep_original_groups=1
    configure_policy '{"keepOriginalGroups": false}'
    prints ran run_untrusted_without - --annotation run.oci.keep_original_groups=1
    # The hook judges the engine's filter, even if an annotation would have replaced it.
    remove_policy
    is_refused "system calls are not filtered" - --annotation "${opening[0]}" --security-opt seccomp=unconfined
    expect 0 runtime_features
    diff <(grep -o '"\(run.oci\|org.systemd\)\.[a-z_.]*"' <<<"$output" | grep -v pysbx | sort) \
        <(sed -n '/^OPENING_ANNOTATIONS/,/^)/p' "$HOOK" | grep -o '".*"' | sort)
}

@test "require-sandbox: a runtime that does not report ignored annotations is assumed to honour all" {
    mkdir bundle
    echo '{"annotations": {"run.oci.hooks.stdout": "/x"}, "process": {"user": {"uid": 1}}, "linux": {}, "root": {}}' >bundle/config.json
    expect 1 "$HOOK" <<<"{\"id\": \"a\", \"pid\": $$, \"bundle\": \"$PWD/bundle\"}"
    stderr_has "annotation 'run.oci.hooks.stdout' is in force"
    expect 1 "$HOOK" <<<"{\"id\": \"a\", \"pid\": $$, \"bundle\": \"$PWD/bundle\", \"ignoredAnnotations\": [\"run.oci.hooks.stdout\"]}"
    [[ $stderr != *"in force"* ]]
}

@test "require-sandbox: a socket of the host is refused, read-only or not" {
    python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("socket")'
    is_refused "a socket or device of the host is mounted" - --volume "$PWD/socket:/socket:ro"
}

# Judge a complete container in namespaces of its own, with one change for each line "WORDS OF THE REASON|PYTHON STATEMENT".
# Without words the container is accepted.
judge_changes() {
    python3 - "$HOOK" /dev/fd/3 3<&0 <<'PYTHON'
import json, subprocess, sys
hook, cases = sys.argv[1], open(sys.argv[2]).read().splitlines()
own = ["unshare", "--pid", "--ipc", "--net", "--uts", "--mount", "--cgroup", "--fork", "--kill-child", "cat"]
waiting = subprocess.Popen(own, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
waiting.stdin.write(b"\n"), waiting.stdin.flush(), waiting.stdout.read(1)
pid = int(open(f"/proc/{waiting.pid}/task/{waiting.pid}/children").read())
def volume(source, *options):
    mounts.append({"destination": "/a", "source": source, "type": "bind", "options": ["rbind", *options]})
for words, change in (case.split("|", 1) for case in cases):
    config = {
        "process": {"user": {"uid": 1000, "gid": 1000}, "noNewPrivileges": True},
        "root": {"path": "rootfs", "readonly": True},
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["nosuid", "ro"]},
            {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"},
        ],
        "linux": {
            "maskedPaths": ["/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/scsi", "/proc/timer_list", "/sys/firmware"],
            "readonlyPaths": [f"/proc/{name}" for name in ("bus", "fs", "irq", "sys", "sysrq-trigger", "sched_debug")],
            "resources": {"memory": {"limit": 1 << 28}, "pids": {"limit": 64}},
            "seccomp": {"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [{"names": ["read"], "action": "SCMP_ACT_ALLOW"}]},
        },
    }
    linux, seccomp, mounts = config["linux"], config["linux"]["seccomp"], config["mounts"]
    exec(change)
    json.dump(config, open("bundle/config.json", "w"))
    state = json.dumps({"id": "box", "pid": pid, "bundle": "bundle"})
    done = subprocess.run([hook], input=state, capture_output=True, text=True)
    right = done.stderr.startswith(f"require-sandbox: {words}") and done.stderr.count("\n") == 1 if words else not done.stderr
    if not right or done.returncode != bool(words):
        print(f"{change}: {done.returncode}, {done.stderr}")
waiting.communicate()
PYTHON
}

@test "require-sandbox: a part that is there and has no effect is missing" {
    needs_root
    mkdir -p bundle/data below/mounted
    ln -s /proc/sys link
    mount -t tmpfs none below/mounted
    expect 0 judge_changes <<CASES
|pass
|volume("data", "ro")
|volume("$PWD/bundle", "rw", "ro")
|volume("$PWD/below", "rro")
|seccomp["defaultAction"] = "SCMP_ACT_KILL_PROCESS"
|mounts.append({"destination": "/b", "type": "overlay", "options": ["lowerdir=/usr", "upperdir=/x/box/y"]})
system calls are not filtered|seccomp["defaultAction"] = "SCMP_ACT_LOG"
system calls are not filtered|seccomp["defaultAction"] = "SCMP_ACT_NOTIFY"
system calls are not filtered|seccomp["defaultAction"] = "SCMP_ACT_TRACE"
system calls are not filtered|del seccomp["defaultAction"]
system calls are not filtered|seccomp["syscalls"].append({"names": ["bpf"], "action": "SCMP_ACT_LOG"})
system calls are not filtered|seccomp["syscalls"][0]["names"] += ["init_module"]
a volume can be written|volume("data")
a volume can be written|volume("data", "ro", "rw")
a volume can be written|volume("data", "rro", "rw")
a volume can be written|volume("data", "ro", "rrw")
a volume can be written|volume("$PWD/below", "ro")
a volume can be written|mounts.append({"destination": "/b", "type": "overlay", "options": ["lowerdir=/usr", "upperdir=/srv"]})
a volume shows /proc|volume("/proc", "rro")
a volume shows /proc|volume("/proc/sys/kernel", "rro")
a volume shows /proc|volume("/dev", "rro")
a volume shows /proc|volume("/sys/class", "rro")
a volume shows /proc|volume("/", "rro")
a volume shows /proc|volume("$PWD/link", "rro")
a volume shows /proc|volume("../link", "rro")
a volume shows /proc|mounts.append({"destination": "/b", "type": "overlay", "options": ["lowerdir=/usr:/proc"]})
a volume shows /proc|mounts.append({"destination": "/b", "type": "ext4", "source": "/dev/sda1", "options": ["ro"]})
a volume shows /proc|mounts.append({"destination": "/b", "type": "debugfs", "source": "none", "options": ["ro"]})
files of the kernel are not masked|linux["maskedPaths"].remove("/proc/keys")
files of the kernel are not masked|linux["maskedPaths"].remove("/proc/timer_list")
files of the kernel are not masked|linux["maskedPaths"].remove("/sys/firmware")
files of the kernel are not masked|linux["readonlyPaths"].remove("/proc/sysrq-trigger")
files of the kernel are not masked|mounts.append({"destination": "/other", "type": "proc", "source": "proc"})
files of the kernel are not masked|mounts[1]["options"] = ["rw"]
CASES
    umount below/mounted
    output_is ""
}

@test "require-sandbox: a container without the mark is not affected" {
    prints ran run_with_hook
}

@test "require-sandbox: input that cannot be judged is refused" {
    fails 1 "cannot be judged" "$HOOK" <<<'{ "id": "none", "pid": 1, "bundle": "/no/such/bundle" }'
    fails 1 "cannot be judged" "$HOOK" <<<'no state'
}
