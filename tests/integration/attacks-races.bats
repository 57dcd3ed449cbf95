#!/usr/bin/env bats
# An attacker that shares a volume with a container races against the runtime while it starts the container. The
# attacker turns names into links between two system calls, and replaces modules and libraries of a snapshot. In every
# case the container starts as its configuration says or not at all, and the host does not change.
# once: names are resolved in the same way in both modes

load ../lib/warm.bash

ROUNDS=40

# Swap two names in ./shared until the end of the test: flip ONE OTHER
flip() {
    "$TESTS/lib/flip" "shared/$1" "shared/$2" 3>&- &
    HELPERS+=("$!")
}

# Run the bundle repeatedly. Each run adds a line to ./outcomes: its status and the lines of its output, joined with
# commas.
run_rounds() {
    local round rc
    : >outcomes
    for ((round = 0; round < ROUNDS; round++)); do
        rc=0
        timeout 60 "$RUNTIME" run --bundle bundle box </dev/null >out 2>>errors || rc=$?
        echo "$rc $(tr -d '\r' <out | paste -sd,)" >>outcomes
    done
    sort outcomes | uniq -c
}

# Assert that every outcome matches one of the patterns. The first COUNT patterns must all occur; otherwise there was
# no race.
outcomes_are() {
    local count=$1 pattern line
    shift
    while IFS= read -r line; do
        for pattern in "$@"; do
            # shellcheck disable=SC2053 # a pattern
            [[ $line != $pattern ]] || continue 2
        done
        echo "unexpected: $line"
        return 1
    done <outcomes
    for pattern in "${@:1:count}"; do
        while IFS= read -r line; do
            # shellcheck disable=SC2053
            [[ $line != $pattern ]] || continue 2
        done <outcomes
        echo "never seen: $pattern"
        return 1
    done
}

# Create ./host, the attacker's target: a directory with a secret. The link shared/link names it as seen from the host.
make_goal() {
    mkdir -p host shared
    echo secret >host/secret
    ln -s "$PWD/host" shared/link
}

goal_is_untouched() {
    [[ $(find host | sort | paste -sd,) == host,host/secret && $(<host/secret) == secret ]]
}

@test "a mount's target becomes a link while the container starts: it stays within the root, or the container does not start" {
    # CVE-2021-30465
    make_goal
    mkdir shared/place source
    echo mounted >source/file
    make_bundle sh -c '
        for dir in /shared/place /shared/link; do test ! -e $dir/secret || echo "the secret of the host"; done
        awk "\$5 ~ /(deep|small)$/ { print \$5 }" /proc/self/mountinfo | sed "s:^/shared/.*/:shared :; s:^/.*/:root :"'
    configure 'mount("/shared", arguments[0] + "/shared"); mount("/shared/place/deep", arguments[0] + "/source")
mount("/shared/place/small", "tmpfs", kind="tmpfs")' "$PWD"
    flip place link
    run_rounds
    # As seen from the container, the link leads to a directory of the container's root, which the runtime creates.
    outcomes_are 2 '0 root deep,@(root|shared) small' '0 shared deep,@(root|shared) small' '1 '
    goal_is_untouched
    [[ -d bundle/rootfs$PWD/host/deep ]]
}

@test "the attacker controls /dev, and its null is a link: paths are masked nevertheless" {
    # CVE-2025-31133: the host's /dev/null covers a masked path, not the container's.
    make_goal
    : >shared/null
    ln -s /etc/passwd shared/other
    make_bundle sh -c 'stat -c "%t:%T" /etc/shadow; cat /etc/shadow; awk "\$5 == \"/etc/shadow\" { print \$4 }" /proc/self/mountinfo'
    mkdir -p bundle/rootfs/etc
    echo secret >bundle/rootfs/etc/shadow
    configure 'unmount("/dev", "/dev/pts", "/dev/shm", "/dev/mqueue"); mount("/dev", arguments[0] + "/shared")
linux["maskedPaths"] = ["/etc/shadow"]' "$PWD"
    flip null other
    run_rounds
    outcomes_are 1 '0 1:3,/null' '1 '
    [[ $(<bundle/rootfs/etc/shadow) == secret ]]
}

@test "the working directory becomes a link while the container starts: the program never starts outside of its root" {
    # CVE-2024-21626
    make_goal
    mkdir shared/place
    make_bundle sh -c 'pwd -P | sed "s:/shared/.*:shared:; s:^/.*host$:root:"; ls | grep secret; ls -d ../../../../../../../../../../bin'
    mkdir -p "bundle/rootfs$PWD/host"
    configure 'mount("/shared", arguments[0] + "/shared"); process["cwd"] = "/shared/place"' "$PWD"
    flip place link
    run_rounds
    outcomes_are 2 '0 shared,../*/bin' '0 root,../*/bin'
    goal_is_untouched
}

@test "the console becomes a link while the container starts: the terminal is mounted at the configured path, or not at all" {
    # CVE-2025-52565
    mkdir shared
    : >shared/console
    ln -s /etc/target shared/other
    make_bundle sh -c 'awk "\$4 ~ /^.[0-9]+\$/ && \$9 == \"devpts\" { print \$5 }" /proc/self/mountinfo; cat /etc/target'
    mkdir -p bundle/rootfs/etc shared/pts
    echo target >bundle/rootfs/etc/target
    configure 'unmount("/dev", "/dev/shm", "/dev/mqueue"); config["mounts"].insert(0, {"destination": "/dev",
    "type": "bind", "source": arguments[0], "options": ["bind"]}); process["terminal"] = True' "$PWD/shared"
    flip console other
    run_rounds
    outcomes_are 2 '0 /dev/@(console|other),target' '1 '
    grep -qF "'/dev/console' in the root file system is neither a file nor a device: refusing to mount on it" errors
}

# Run the bundle, which has a snapshot, while a file of its modules is replaced with one of two others. The replacement
# happens at another instant in each run. The results are in ./outcomes.
run_while_replaced() {
    local file=$1 one=$2 other=$3 round instant of_round
    : >all
    for ((round = 0; round < 20; round++)); do
        ((round % 2)) && of_round=$one || of_round=$other
        ROUNDS=1 run_rounds
        grep -q "^0 " outcomes
        instant=0.00$((round / 2))
        { sleep "$instant"; cp "$of_round" modules/new; mv modules/new "modules/$file"; } 3>&- &
        ROUNDS=1 run_rounds
        wait "$!"
        cat outcomes >>all
    done
    mv all outcomes
    sort outcomes | uniq -c
}

@test "a module is replaced while the container starts: the program gets one version or the other" {
    use_image python
    preload thing
    echo 'NAME = "one"' >one
    echo 'NAME = "three"' >three
    module thing.py <one
    program auto 'import thing; print(thing.NAME)'
    run_while_replaced thing.py one three
    outcomes_are 2 '0 one' '0 three'
}

@test "a library is replaced while the container starts: its saved pages come from the mapped file" {
    use_image python
    path=$(cold -c 'import _bz2; print(_bz2.__file__)')
    # The first string is copied when the module is imported. The second is read from the file.
    python3 - "$BATS_FILE_TMPDIR/python$path" one two <<'PYTHON'
import pathlib, sys
library, one, two = map(pathlib.Path, sys.argv[1:])
text = library.read_bytes()
one.write_bytes(text.replace(b"a decompressor object", b"1 decompressor object").replace(b"Invalid data", b"1nvalid data"))
two.write_bytes(text.replace(b"a decompressor object", b"2 decompressor object").replace(b"Invalid data", b"2nvalid data"))
PYTHON
    module "${path##*/}" <one
    preload _bz2
    program auto 'import _bz2
def said():
    try:
        _bz2.BZ2Decompressor().decompress(b"not compressed")
    except OSError as error:
        return str(error)
print(_bz2.BZ2Decompressor.__doc__.split()[1], said()[0])'
    run_while_replaced "${path##*/}" one two
    outcomes_are 2 '0 1 1' '0 2 2'
}
