#!/usr/bin/env bats
# Containers with other mapped IDs share a snapshot if they see the same owners and may read the same files:
# contrib/docs/pages/explanation/snapshots.md, "When a snapshot is used". Only root may map any IDs.
# images: python

load ../lib/warm.bash

setup() {
    needs_root "maps other users"
    begin_test
    use_image python
    own_root python # root of the container makes no directories in it
    mkdir root/modules root/data
    preload_module quiet <<<"VALUE = 42"
    chmod 0755 "$BATS_TEST_TMPDIR" . modules
}

teardown() {
    clean_up
}

# Make root of the container a user of the host, without capabilities, and the program "print VALUE".
as_id() {
    configure 'user_namespace((0, int(arguments[0]), 1)); capabilities()' "$1"
    program "$2" "import quiet; print(quiet.VALUE)"
}

# The module belongs to the first of two mapped IDs: it starts warm, and the import of the other one fails with this error.
only_the_first_imports() {
    as_id 1900000001 require
    prints 42 runtime run --bundle bundle box
    as_id 1900000002 auto
    fails 1 "$1" runtime run --bundle bundle box
}

snapshots() {
    runtime warm list --quiet | sort
}

@test "another mapped ID: the same snapshot" {
    as_id 1900000001 require
    prints 42 runtime run --bundle bundle box
    before=$(snapshots)
    for id in 1900000002 1900000003 1900000001; do
        as_id "$id" require
        prints 42 runtime run --bundle bundle box
        [[ $(snapshots) == "$before" ]]
    done
}

@test "a mount that only one container has, with IDs of its own: the same snapshot" {
    as_id 1900000001 require
    expect 0 runtime run --bundle bundle box
    before=$(snapshots)
    mkdir data
    configure 'mount("/data", arguments[0], "rw", "nodev", uidMappings=ids((0, 1900000001, 1)), gidMappings=ids((0, 1900000001, 1)))' "$PWD/data"
    prints 42 runtime run --bundle bundle box
    [[ $(snapshots) == "$before" ]]
}

@test "a module that only one of two mapped IDs may read: the other container does not get it" {
    chown 1900000001 modules/quiet.py
    chmod 0400 modules/quiet.py
    only_the_first_imports "PermissionError"
}

@test "a directory on the way that only one of two mapped IDs may enter: the same" {
    mkdir -m 0700 modules/closed
    mv modules/quiet.py modules/closed/
    chown 1900000001 modules/closed
    environment PYTHONPATH=/modules/closed
    only_the_first_imports "No module named 'quiet'"
}

@test "a module whose access list names one of two mapped IDs: the other container does not get it" {
    chmod 0640 modules/quiet.py
    # An access list with one more user: struct posix_acl_xattr_header, linux/posix_acl_xattr.h.
    python3 -c 'import os, struct, sys
entries = [(1, 6, 2**32 - 1), (2, 4, 1900000001), (4, 4, 2**32 - 1), (16, 4, 2**32 - 1), (32, 0, 2**32 - 1)]
acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
os.setxattr(sys.argv[1], "system.posix_acl_access", acl)' modules/quiet.py || skip "this file system has no access lists"
    only_the_first_imports "PermissionError"
}

@test "a program that looks at the owner of its modules sees the container's" {
    module quiet.py <<<'import os; VALUE = os.stat(__file__).st_uid'
    chown 1900000001 modules/quiet.py
    as_id 1900000001 require
    prints 0 runtime run --bundle bundle box
    as_id 1900000002 auto
    prints 65534 runtime run --bundle bundle box
}
