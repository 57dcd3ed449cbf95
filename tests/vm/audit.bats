#!/usr/bin/env bats
# SELinux denials since this machine was started. This runs after the other files. ausearch(8).

load vm.bash

# Denials that the tests provoke: types of process and object, class. Denials by categories are not logged. Files of
# /tmp are the standard streams that bats and `expect` give to containers without conmon.
readonly PROVOKED='container_t pysbx_runtime_exec_t file
container_t pysbx_runtime_state_t dir
container_t pysbx_snapshot_t dir
container_t unconfined_t dir
container_t user_home_t file
container_t user_tmp_t file
pysbx_python_t container_file_t blk_file
pysbx_python_t container_file_t chr_file
pysbx_python_t pysbx_python_t netlink_route_socket
pysbx_python_t pysbx_python_t udp_socket
pysbx_sandbox_t pysbx_sandbox_file_t file
pysbx_sandbox_t shadow_t file'

@test "audit: the only denials are those that tests provoke" {
    local log=$BATS_TEST_TMPDIR/log
    # Provoke a denial here, so that an audit log without entries fails the test.
    echo content >"$HOME/given"
    fails 1 "permission denied" podman run --rm --network none --volume "$HOME/given:/given" "$BUSYBOX" cat /given
    rm "$HOME/given"
    # shellcheck disable=SC2317 # called by wait_for
    logged() {
        ausearch --message avc,selinux_err,user_avc --input-logs --raw 2>/dev/null |
            grep -E '^type=(AVC|USER_AVC|SELINUX_ERR)' >"$log"
        grep -q user_home_t "$log"
    }
    wait_for logged
    sed -nE 's/.*scontext=[^:]*:[^:]*:([^:]*):.*tcontext=[^:]*:[^:]*:([^:]*):.*tclass=([a-z0-9_]*).*/\1 \2 \3/p' "$log" |
        sort -u >denied
    cat "$log"
    # Lines in another form count as denials as well.
    (($(grep -c . "$log") == $(grep -c 'scontext=.*tcontext=.*tclass=' "$log")))
    prints "" comm -23 denied <(sort <<<"$PROVOKED")
}
