# Helpers for tests about peer groups (mount_namespaces(7)). If a mount of a container has the same "shared:N" as a
# mount of the host, later mounts propagate to the host. Load this after podman.bash. tests/lib/enter makes the mounts
# shared, as systemd does.

# Print the mounts of the host, and those of Podman's own mount namespace.
host_mounts() {
    cat /proc/self/mountinfo
    ! is_rootless || command podman unshare cat /proc/self/mountinfo
}

# Print the mount points of a container that are peers of a mount of the host. Its mountinfo is standard input.
peers_of_host() {
    awk 'NR == FNR { for (i = 7; i <= NF && $i != "-"; i++) if ($i ~ /^shared:/) host[$i]; next }
        { for (i = 7; i <= NF && $i != "-"; i++) if ($i in host) print $5 }' <(host_mounts) - | sort
}

# Fail unless exactly the named mounts are peers of the host: no_peers_but COMMAND-THAT-PRINTS-MOUNTINFO... [--
# MOUNT-POINT...]
no_peers_but() {
    local -a command=()
    while (($# > 0)) && [[ $1 != -- ]]; do
        command+=("$1")
        shift
    done
    (($# == 0)) || shift
    local mounts found wanted
    [[ $(host_mounts) == *' shared:'* ]] || { echo "no mount of the host is shared, so the test shows nothing"; return 1; }
    mounts=$("${command[@]}") || { echo "cannot read the mounts: ${command[*]}"; return 1; }
    [[ $mounts == *" /proc "* ]] || { echo "no mountinfo: $mounts"; return 1; }
    found=$(peers_of_host <<<"$mounts")
    wanted=$(printf '%s\n' "$@" | sort)
    [[ $found == "$wanted" ]] || { printf 'peers of the host: %s\nexpected: %s\n%s\n' "$found" "$wanted" "$mounts"; return 1; }
}
