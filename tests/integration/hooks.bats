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
    expect 0 run_untrusted_without - --volume "$PWD:/data:ro" --tmpfs /work
    output_is ran
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
    is_refused "a volume can be written" - --volume "$PWD:/data"
}

@test "require-sandbox: an annotation unknown to the runtime is refused and named" {
    is_refused "annotation 'run.pysbx.landlok' is not known" - --annotation run.pysbx.landlok=default
    expect 0 run_untrusted_without - --annotation run.pysbx.warm=auto --annotation org.example.landlok=default
    diff <(grep -ho '"run\.pysbx\.[a-z]\+"' "$TESTS/../runtime/spec/annotations.h" | sort -u) \
        <(grep -ho '"run\.pysbx\.[a-z]\+"' "$HOOK" | sort -u)
}

@test "require-sandbox: an annotation that opens the sandbox is refused if it is in force, and no reason otherwise" {
    local annotation
    local -a opening=(run.oci.seccomp_bpf_data=BgAAAAAA/38= run.oci.seccomp.receiver=/socket run.oci.mount_context_type=rootcontext
        run.oci.systemd.subgroup=x org.systemd.property.DevicePolicy="'auto'" "run.oci.hooks.stdout=$PWD/said")
    for annotation in "${opening[@]}"; do
        remove_policy
        expect 0 run_untrusted_without - --annotation "$annotation"
        output_is ran
        allow_annotations "${annotation%%=*}"
        is_refused "annotation '${annotation%%=*}' is in force" - --annotation "$annotation"
    done
    remove_policy
    is_refused "annotation 'run.oci.keep_original_groups' is in force" - --annotation run.oci.keep_original_groups=1
    configure_policy '{"keepOriginalGroups": false}'
    expect 0 run_untrusted_without - --annotation run.oci.keep_original_groups=1
    output_is ran
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

@test "require-sandbox: a container without the mark is not affected" {
    expect 0 run_with_hook
    output_is ran
}

@test "require-sandbox: input that cannot be judged is refused" {
    expect 1 "$HOOK" <<<'{ "id": "none", "pid": 1, "bundle": "/no/such/bundle" }'
    stderr_has "cannot be judged"
    expect 1 "$HOOK" <<<'no state'
    stderr_has "cannot be judged"
}
