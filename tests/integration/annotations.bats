#!/usr/bin/env bats
# Annotations that weaken isolation or reach the host. They may come from an untrusted image, so they take effect only
# if the runtime.json of the administrator, or of the user, allows them. See pysbx-runtime(8), "ANNOTATIONS".
# once: except for a test with the tag "user", annotations have the same effect in both modes

load ../lib/bundle.bash

# One BPF instruction: return SECCOMP_RET_ALLOW.
ALLOW_ALL=BgAAAAAA/38=

# Prints the kernel's answer to personality(ADDR_NO_RANDOMIZE), which the engines' profiles forbid, and the groups.
export PROBE='import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
print("allowed" if libc.personality(0x0040000) >= 0 else "refused", *sorted(set(os.getgroups()) - {os.getgid()}))'

setup_file() {
    # shellcheck source=../lib/podman.bash
    import_python
}

teardown() {
    remove_containers >/dev/null
    podman rmi --force localhost/hostile >/dev/null 2>&1 || true
    clean_up
}

# Make the image localhost/hostile with the given annotations, each NAME=VALUE, as an attacker builds one.
build_image() {
    local -a options=()
    local annotation
    for annotation in "$@"; do options+=(--annotation "$annotation"); done
    printf 'FROM %s\n' "$PYTHON" >Containerfile
    podman build --isolation chroot --layers=false --quiet --tag localhost/hostile "${options[@]}" . >/dev/null
    [[ $(podman image inspect --format '{{index .Annotations "'"${1%%=*}"'"}}' localhost/hostile) == "${1#*=}" ]]
}

# Configure an administrator's hook in Podman.
make_hook() {
    mkdir -p hooks.d
    printf '#!/bin/sh\ncat >/dev/null\necho said by a hook\n' >hook
    chmod 0755 hook
    echo "{\"version\": \"1.0.0\", \"hook\": {\"path\": \"$PWD/hook\"}, \"when\": {\"always\": true}, \"stages\": [\"createRuntime\"]}" \
        >hooks.d/hook.json
}

run_hostile() {
    podman --hooks-dir "$PWD/hooks.d" run "$@" --network none --read-only --user 1000:1000 --cap-drop ALL \
        --security-opt no-new-privileges localhost/hostile python3 -c "$PROBE" </dev/null
}

# Give ./bundle annotations, each NAME=VALUE.
annotate() {
    configure 'config["annotations"] = dict(a.split("=", 1) for a in arguments)' "$@"
}

@test "an image's annotations disable no filter, write no file of the host, and are named in a warning" {
    make_hook
    build_image run.oci.seccomp_bpf_data=$ALLOW_ALL "run.oci.hooks.stdout=$PWD/written" "run.oci.hooks.stderr=$PWD/written"
    expect 0 run_hostile --name box
    [[ ${lines[-1]} == refused && ! -e written ]] # the hook's own output may come first
    # Podman may attach too late to show the warning, but logs it.
    expect 0 podman logs box
    [[ $(grep -c ignored <<<"$stderr") == 1 ]]
    stderr_has "annotations 'run.oci.hooks.stderr', 'run.oci.hooks.stdout', 'run.oci.seccomp_bpf_data' are ignored"
    allow_annotations run.oci.seccomp_bpf_data run.oci.hooks.stdout run.oci.hooks.stderr
    prints allowed run_hostile --rm
    stderr_is_empty
    [[ $(<written) == "said by a hook" ]]
}

@test "an image keeps the caller's groups only while keepOriginalGroups allows it, also in exec" {
    needs_root "a user's groups are not mapped"
    build_image run.oci.keep_original_groups=1
    mkdir hooks.d
    expect 0 setpriv --groups 4242 podman --runtime "$RUNTIME" run --rm --network none --group-add keep-groups "$PYTHON" \
        python3 -c "$PROBE"
    output_is "refused 4242"
    for groups in "" " 4242"; do
        [[ $groups ]] || configure_policy '{"keepOriginalGroups": false}'
        prints "refused$groups" setpriv --groups 4242 -- bash -c "$(declare -f podman run_hostile); run_hostile --rm"
        setpriv --groups 4242 podman --runtime "$RUNTIME" run --detach --name box --network none --user 1000:1000 \
            localhost/hostile sleep 1000
        remove_policy # the decision made for a container is kept
        expect 0 setpriv --groups 4242 podman --runtime "$RUNTIME" exec --user 1000:1000 box python3 -c "$PROBE"
        output_is "refused$groups"
        podman rm --force --time 0 box
    done
}

@test "plan and state name ignored annotations, hooks are told of them, and the warning is always one line" {
    local -a all=("run.oci.hooks.stdout=$PWD/said" "run.oci.seccomp_bpf_data=$ALLOW_ALL" run.oci.seccomp.receiver=/socket
        run.oci.mount_context_type=rootcontext run.oci.systemd.subgroup=x $'org.systemd.property.Kill\nMode=none' org.systemd.property.KillSignal=9
        'org.systemd.property.TimeoutStopUSec=uint64 10000000'
        org.systemd.property.DeviceAllow='[("/dev/mem", "rwm")]' run.oci.seccomp_fail_unknown_syscall=1 org.example=1)
    make_bundle sh -c 'grep Seccomp: /proc/self/status'
    annotate "${all[@]}"
    configure 'config["hooks"] = {"createRuntime": [{"path": "/bin/sh", "args": ["sh", "-c", "cat >" + arguments[0] + "/state"]}]}' "$PWD"
    expect 0 runtime plan --bundle bundle
    output_holds 'sorted(row["name"].replace("\n", "") for row in it["ignoredAnnotations"]) == ["org.systemd.property.DeviceAllow",
        "org.systemd.property.KillMode", "run.oci.hooks.stdout", "run.oci.mount_context_type", "run.oci.seccomp.receiver",
        "run.oci.seccomp_bpf_data", "run.oci.systemd.subgroup"]'
    output_holds 'all("runtime.json" in row["reason"] for row in it["ignoredAnnotations"])'
    output_holds 'it["process"]["seccomp"]["origin"] != "annotation"'
    [[ $(wc -l <<<"$stderr") == 1 && $stderr == *"and 3 more are ignored"* ]]
    expect 0 run_box
    [[ $(wc -l <<<"$stderr") == 1 && ! -e said ]]
    output=$(<state)
    output_holds 'len(it["annotations"]) == 11 and len(it["ignoredAnnotations"]) == 7'
    create_box
    tells 'len(it["annotations"]) == 11 and len(it["ignoredAnnotations"]) == 7' runtime state box
    output_holds 'it["annotations"]["run.oci.seccomp.receiver"] == "/socket"'
    expect 0 runtime delete box
    annotate org.example=1
    tells '"ignoredAnnotations" not in it' runtime plan --bundle bundle
    stderr_is_empty
}

@test "the value of an ignored annotation is not checked, that of an allowed one is" {
    make_bundle true
    annotate run.oci.mount_context_type=none
    expect 0 run_box
    allow_annotations run.oci.mount_context_type
    is_refused "run.oci.mount_context_type: 'none' is none of"
}

@test "the warning is in the log, but an engine's JSON log contains only errors" {
    make_bundle true
    annotate run.oci.hooks.stdout=/x
    expect 0 runtime --log "$PWD/text" run --bundle bundle box
    stderr_is_empty
    grep -q "warning: annotation 'run.oci.hooks.stdout' is ignored: it makes the runtime write to a file of the host" text
    expect 0 runtime --log "$PWD/json" --log-format json run --bundle bundle box
    stderr_has "annotation 'run.oci.hooks.stdout' is ignored"
    [[ ! -s json ]]
    expect 0 runtime --log "$PWD/json" --log-format json --log-level warning run --bundle bundle box
    stderr_is_empty
    output=$(<json)
    output_holds 'it["level"] == "warning" and "run.oci.hooks.stdout" in it["msg"]'
    rm json
    configure 'process["args"] = ["/missing"]'
    expect 1 runtime --log "$PWD/json" --log-format json run --bundle bundle box
    output=$(<json)
    output_holds 'it["level"] == "error"'
}

@test "runtime.json: a mistake is an error with file and position, for commands that plan a container and no others" {
    make_bundle sleep 1000
    start_box
    for text in '{"allow": []}:allow: unknown key' '{"allowAnnotations": ["a", 1]}:allowAnnotations[1]: expected a string' \
        '{"allowAnnotations": ["run.oci.hooks.std"]}:allowAnnotations[0]: ' '{"keepOriginalGroups": 1}:keepOriginalGroups: ' \
        '{"keepOriginalGroups": true}}:line 1: '; do
        configure_policy "${text%%\}:*}}"
        text=${text#*\}:}
        expect 1 runtime plan --bundle bundle
        stderr_has "$(policy_file): $text"
        expect 1 runtime run --bundle bundle other
        stderr_has "$(policy_file): $text"
        expect 1 runtime create --bundle bundle other
        stderr_has "$(policy_file): $text"
        [[ $(runtime list --quiet) == box ]]
    done
    expect 0 runtime exec box true
    expect 0 runtime state box
    expect 0 runtime kill box KILL
    expect 0 runtime delete --force box
}

@test "runtime.json: a file or directory that others can write to, or an object that is no file, is refused by name" {
    file=$(policy_file)
    make_bundle true
    allow_annotations run.oci.hooks.stdout
    expect 0 run_box
    chmod 0664 "$file"
    is_refused "'$file' may be written by others than its owner (mode 0664)"
    chmod 0644 "$file"
    chmod 0757 "${file%/*}"
    is_refused "'${file%/*}/' may be written by others than its owner (mode 0757)"
    chmod 0755 "${file%/*}"
    mv "$file" real
    ln -s "$PWD/real" "$file"
    is_refused "'$file' is a symbolic link"
    rm "$file"
    mkdir "$file"
    is_refused "'$file' is not a regular file"
    rmdir "$file"
    mkfifo "$file"
    is_refused "'$file' is not a regular file"
    rm "$file"
    expect 0 run_box
}

@test "runtime.json: root trusts no file or directory of a user" {
    needs_root
    file=$(policy_file)
    make_bundle true
    allow_annotations run.oci.hooks.stdout
    chown 4711 "$file"
    is_refused "'$file' belongs to user 4711"
    chown 0 "$file"
    chown 4711 "${file%/*}"
    is_refused "'${file%/*}/' belongs to user 4711"
    chown 0 "${file%/*}"
}

# bats test_tags=user
@test "runtime.json: the user's file applies to the user, root's file to root only" {
    needs_rootless
    make_bundle true
    annotate run.oci.hooks.stdout=/x
    mkdir own
    install -D /dev/stdin "$PWD/own/pysbx-runtime/runtime.json" <<<'{"allowAnnotations": ["run.oci.hooks.stdout"]}'
    expect 0 run_box
    stderr_has "allowAnnotations in '$HOME/.config/pysbx-runtime/runtime.json' does not allow it"
    expect 0 env XDG_CONFIG_HOME="$PWD/own" "$RUNTIME" run --bundle bundle box
    stderr_is_empty
    expect 0 env XDG_CONFIG_HOME=relative "$RUNTIME" run --bundle bundle box
    stderr_has "allowAnnotations in '$HOME/.config/pysbx-runtime/runtime.json' does not allow it"
    expect 0 env -u HOME "$RUNTIME" run --bundle bundle box
    stderr_has "neither XDG_CONFIG_HOME nor HOME is set"
}

@test "runtime.json: a missing file costs one failed open, and only where a container is planned" {
    command -v strace >/dev/null || skip "needs strace"
    make_bundle true
    local -A opens=([create]=1 [start]=0 [state]=0 [delete]=0)
    for command in create start state delete; do
        local -a options=()
        [[ $command != create ]] || options=(--bundle bundle)
        [[ $command != delete ]] || wait_for sh -c '"$RUNTIME" state box | grep -q stopped'
        strace -o trace -e trace=file "$RUNTIME" "$command" "${options[@]}" box </dev/null >/dev/null
        [[ $(grep -c 'pysbx-runtime/runtime.json' trace) == "${opens[$command]}" ]] || { grep json trace; return 1; }
        [[ $(grep -c 'pysbx-runtime/runtime.json.*ENOENT' trace) == "${opens[$command]}" ]]
    done
}

@test "every annotation that the runtime reads is in its table, and in the reference" {
    top=$(realpath "$TESTS/..")
    # Names that are strings anywhere else would escape the table.
    name=$(grep -rnE '"(run\.oci\.|run\.pysbx\.[a-z]|org\.systemd\.property)' "$top/runtime" --include='*.c' |
        grep -v 'run\.oci\.pysbx-runtime\.' || true)
    [[ -z $name ]] || { echo "$name"; return 1; }
    while read -r name; do
        grep -qF "$name" "$top/contrib/docs/pages/reference/annotations.md" || { echo "the reference lacks $name"; return 1; }
    done < <(grep -ohE '"(run\.oci|run\.pysbx|org\.systemd)\.[a-z_.]+"' "$top/runtime/spec/annotations.h" | tr -d '"')
    expect 0 runtime features
    output_holds 'it["potentiallyUnsafeConfigAnnotations"] == ["org.systemd.property.", "run.oci.hooks.stderr",
        "run.oci.hooks.stdout", "run.oci.keep_original_groups", "run.oci.mount_context_type", "run.oci.seccomp.receiver",
        "run.oci.seccomp_bpf_data", "run.oci.systemd.subgroup"]'
}
