# Helpers for tests that mark all inputs of a container, and search other containers for the marks. They complement
# those of warm.bash. The marks of a test are in the file ./marks (tests/lib/marks).
# shellcheck source-path=SCRIPTDIR source=warm.bash
source "${BASH_SOURCE[0]%/*}/warm.bash"

# Inputs that any container may have, and that are in no snapshot key.
CHANNELS=(variable value argument program stdin hostname domainname annotation annotation-name source destination content
    file passwd group hook hook-variable id caller caller-argument bundle key-name key mount-option)
# Inputs that only root can give.
ROOT_CHANNELS=(cgroup device)
# Limits that are in no key. The kernel accepts any number.
LIMITS=(number-fsize number-locks number-rss number-data)

# The mark of each channel.
declare -gA MARKS

# Make marks for these channels.
take_marks() {
    local channel word
    while read -r channel word; do MARKS[$channel]=$word; done < <("$TESTS/lib/marks" make marks "$@")
}

# Print the mark of a channel.
mark() {
    echo "${MARKS[$1]:?no mark for $1}"
}

# Make ./bundle for containers without marks, whose program searches; and marks for ./marked.
make_marks() {
    is_rootless || CHANNELS+=("${ROOT_CHANNELS[@]}")
    use_image python
    rm -rf "$(warm_store)"
    module marked.py <<<'value = 1'
    preload marked
    mkdir -p scan
    cp "$TESTS/lib/scan-marks" scan/
    configure 'mount("/mnt", "tmpfs", "mode=0755", kind="tmpfs"); mount("/mnt/scan", arguments[0], "ro")
config["annotations"]["run.pysbx.warm"] = "require"; linux["maskedPaths"] = [] # /proc/keys' "$PWD/scan"
    environment HOME=/root # or the interpreter looks it up in /etc/passwd, which is another file then
    take_marks "${CHANNELS[@]}" "${LIMITS[@]}" "$@"
}

# Make the bundle of a container of the same kind that has all marks, in a directory whose name is one: $MARKED.
mark_bundle() {
    MARKED=$PWD/$(mark bundle)
    mkdir -p "$MARKED" "volume-$(mark source)"
    mark content >"volume-$(mark source)/$(mark file)"
    printf '%s\n' root:x:0:0:root:/root:/bin/sh "${MARKS[passwd]}:x:4321:4321:${MARKS[passwd]}:/:/bin/sh" >passwd
    printf '%s\n' root:x:0: "${MARKS[group]}:x:4321:root" >group
    cp bundle/config.json "$MARKED/config.json"
    "$TESTS/lib/edit-config" "$MARKED/config.json" '
import json as json_
marks = json_.load(open(arguments[0]))
process["env"].append(marks["variable"] + "=" + marks["value"])
process["args"] = ["python3", "-c", "import sys; word = \"" + marks["program"] + "\"; sys.stdin.read()", marks["argument"]]
config["hostname"], config["domainname"] = marks["hostname"], marks["domainname"]
config["annotations"] |= {"a": marks["annotation"], marks["annotation-name"]: "a"}
mount("/mnt/" + marks["destination"], arguments[1] + "/volume-" + marks["source"], "ro")
mount("/etc/passwd", arguments[1] + "/passwd", "ro")
mount("/etc/group", arguments[1] + "/group", "ro")
mount("/mnt/options", marks["mount-option"], kind="tmpfs")
hook("createContainer", ": " + marks["hook"], env=["WORD=" + marks["hook-variable"]])
if "cgroup" in marks:
    linux["cgroupsPath"] = "/" + marks["cgroup"]
    linux["devices"] = [{"path": "/dev/" + marks["device"], "type": "c", "major": 1, "minor": 3, "fileMode": 0o666}]
' "$PWD/marks" "$PWD"
    echo "${MARKS[stdin]}" >stdin
}

# Give the marked bundle the marked limits.
mark_limits() {
    "$TESTS/lib/edit-config" "$MARKED/config.json" 'import json as json_
for name, number in json_.load(open(arguments[0])).items():
    if name.startswith("number-"):
        process["rlimits"].append({"type": "RLIMIT_" + name[7:].upper(), "soft": int(number), "hard": int(number)})' marks
}

# Run a command of the runtime like the caller of a marked container: its variables, arguments and key are marks. The
# options come before the id.
runtime_marked() {
    env "CALLER=$(mark caller)" "$TESTS/lib/with-key" "$(mark key-name)" "$(mark key)" \
        "$RUNTIME" --log "log-$(mark caller-argument)" "$@" --bundle "$MARKED" --no-new-keyring "$(mark id)" <stdin
}

# Run the search in a container without marks.
scan() {
    local -a numbers
    read -ra numbers < <("$TESTS/lib/marks" masked marks "${LIMITS[@]}")
    configure 'process["args"] = ["python3", "/mnt/scan/scan-marks", *arguments]' "${numbers[@]}"
    runtime run --bundle bundle box </dev/null >scanned
}

# Assert that the search has found exactly the marks of these channels.
has_marks_of() {
    "$TESTS/lib/marks" explain marks "$@" <"${SCANNED:-scanned}"
}

# Assert that no file of the store, or of these paths, contains a mark.
files_have_no_marks() {
    "$TESTS/lib/marks" search marks "${@:-$(warm_store)}"
}

# Assert the number of snapshots.
snapshots_are() {
    local count
    count=$(runtime warm list --quiet | wc -l)
    [[ $count == "$1" ]] || { echo "$count snapshots, not $1"; return 1; }
}
