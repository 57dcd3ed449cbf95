#!/usr/bin/env bats
# Two users of one machine, each with snapshots: neither has access to those of the other. The test runs as root,
# because it becomes both users. Their runtimes are rootless.
# images: python

load ../lib/warm.bash

USERS=(4711 4722)
PLACE=/run/pysbx-two-users

setup() {
    needs_root "becomes two other users"
    begin_test
    rm -rf "$PLACE"
    install -d -m 0755 "$PLACE" "$PLACE/root"
    tar --extract --file "$("$TESTS/lib/image" python)" -C "$PLACE/root" --no-same-owner --preserve-permissions
    cp "$TESTS/lib/try-files" "$PLACE/"
    local user program
    for program in "$RUNTIME" "$RUNTIME-dynamic"; do
        [[ ! -e $program ]] || install -m 0755 "$program" "$PLACE/"
    done
    for user in "${USERS[@]}"; do make_user "$user"; done
}

teardown() {
    rm -rf "$PLACE"
    clean_up
}

# Make a user's home, in which everything except the store itself is open to others, and a bundle.
make_user() {
    local home=$PLACE/$1
    install -d -m 0755 -o "$1" -g "$1" "$home" "$home"/{.local,.local/share,.local/share/pysbx-runtime,bundle,run}
    (cd "$home" && as "$1" "$PLACE/${RUNTIME##*/}" spec --rootless --bundle bundle)
    "$TESTS/lib/edit-config" "$home/bundle/config.json" 'config["root"] = {"path": arguments[0], "readonly": True}
process["terminal"] = False
process["args"] = ["python3", "-c", "import json; print(6 * 7)"]
config["annotations"] = {"run.pysbx.preload": "json", "run.pysbx.warm": "require"}
[mapping] = linux["uidMappings"]; mapping["hostID"] = int(arguments[1])
[mapping] = linux["gidMappings"]; mapping["hostID"] = int(arguments[1])' "$PLACE/root" "$1"
}

# Run a command as a user, with a home and without root's environment.
as() {
    local user=$1
    shift
    setpriv --reuid "$user" --regid "$user" --clear-groups --inh-caps=-all env -i PATH="$PATH" HOME="$PLACE/$user" \
        XDG_RUNTIME_DIR="$PLACE/$user/run" "$@"
}

run_as() {
    as "$1" "${@:2}" "$PLACE/${RUNTIME##*/}" run --bundle "$PLACE/$1/bundle" box </dev/null
}

store_of() {
    echo "$PLACE/$1/.local/share/pysbx-runtime/warm"
}

@test "neither of two users reads, changes or uses a file of the other's store" {
    local -a paths
    for user in "${USERS[@]}" "${USERS[@]}"; do
        prints 42 run_as "$user"
    done
    for user in "${USERS[@]}"; do
        other=$((USERS[0] + USERS[1] - user))
        mapfile -t paths < <(find "$(store_of "$other")")
        ((${#paths[@]} >= 4)) # the directory, a snapshot, its checksum, the agent
        prints "" as "$user" python3 "$PLACE/try-files" "${paths[@]}"
        # The same holds if the owner has opened the directory, because each file is private to the owner. Only the
        # agent, which is the runtime's own code, is readable for every user of a container.
        chmod 0755 "$(store_of "$other")"
        expect 0 as "$user" python3 "$PLACE/try-files" "${paths[@]:1}"
        [[ $output =~ ^open\ [^$'\n']*/agent-[0-9a-f]*\.so$ ]]
        chmod 0700 "$(store_of "$other")"
        # The runtime refuses a store of another user, with any mode.
        chmod 0777 "$(store_of "$other")"
        fails 1 "belongs to user $other" run_as "$user" "XDG_DATA_HOME=$PLACE/$other/.local/share"
        chmod 0700 "$(store_of "$other")"
        prints 42 run_as "$other"
    done
}

@test "the method of the other test finds the files that the owner may access" {
    expect 0 run_as "${USERS[0]}"
    local -a paths
    mapfile -t paths < <(find "$(store_of "${USERS[0]}")")
    expect 0 as "${USERS[0]}" python3 "$PLACE/try-files" "${paths[@]:1}" "${paths[0]}"
    output_has "list $(store_of "${USERS[0]}")"
    for path in "${paths[@]:1}"; do
        output_has "open $path" "link $path" "rename $path"
    done
}
