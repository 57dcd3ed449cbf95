#!/usr/bin/env bats
# tests/setup/install.sh: the names that a package has in each distribution, and the system's own description of itself,
# os-release(5). tests/packaging/setup.bats installs packages of Fedora's kind.
# once: it is called as root here

load ../lib/podman.bash

setup() {
    needs_root "writes /etc/os-release"
    begin_test
    # A copy of this file; usually a link to a file of the machine.
    rm -f /etc/os-release
}

install_sh() {
    "$TESTS/setup/install.sh" "$@"
}

groups_of_table() {
    install_sh 2>&1 | sed -n 's/^Groups: //p'
}

# Print the packages of all groups on a system of this name.
all_names() {
    echo "ID=$1" >/etc/os-release
    # shellcheck disable=SC2046 # a list of words
    install_sh --all $(groups_of_table)
}

# The descriptions of the systems, and the packages that have another name there.
@test "install.sh: os-release decides about the names of packages, and not the programs of the system" {
    local system release wanted other
    while IFS='|' read -r system release wanted other; do
        [[ $system ]] || continue
        printf '%b\n' "${release// /\\n}" >/etc/os-release
        expect 0 install_sh --all build test
        grep -qx "$wanted" <<<"$output" || { echo "$system: no $wanted" && return 1; }
        if grep -qx "$other" <<<"$output"; then echo "$system: $other" && return 1; fi
    done <<'SYSTEMS'
Debian 12|ID=debian VERSION_CODENAME=bookworm|libyajl-dev|yajl-devel
Debian 13|ID=debian VERSION_CODENAME=trixie|libc6-dev|glibc-devel
Ubuntu 24.04|ID=ubuntu ID_LIKE=debian|musl-tools|libcap-devel
Mint|ID=linuxmint ID_LIKE="ubuntu\x20debian"|procps|procps-ng
Fedora 43|ID=fedora VERSION_ID=43|yajl-devel|libyajl-dev
CentOS Stream 10|ID="centos" ID_LIKE="rhel\x20fedora"|systemd-devel|libsystemd-dev
SYSTEMS
}

@test "install.sh: a system of another kind is told where the list is" {
    mkdir programs
    ln -s "$(command -v bash)" "$(command -v awk)" "$(command -v sed)" programs/
    echo 'ID=arch' >/etc/os-release
    expect 1 env PATH="$PWD/programs" bash "$TESTS/setup/install.sh" build
    stderr_has "neither apt-get nor dnf is available; install the packages listed in"
    rm /etc/os-release
    expect 1 env PATH="$PWD/programs" bash "$TESTS/setup/install.sh" build
    stderr_has "neither apt-get nor dnf is available"
}

@test "install.sh: every group has names for both kinds, each in the form of its kind" {
    local group
    for group in $(groups_of_table); do
        for kind in debian fedora; do
            echo "ID=$kind" >/etc/os-release
            expect 0 install_sh --all "$group"
            [[ $output ]] || { echo "group '$group' has no package for $kind" && return 1; }
        done
    done
    if all_names debian | grep -- '-devel$'; then return 1; fi
    if all_names fedora | grep -- '-dev$'; then return 1; fi
    expect 2 install_sh nonsense
    stderr_has "no group 'nonsense'"
}

# Print those of the names that apt can install.
installable() {
    apt-cache policy "$@" 2>/dev/null | awk '/^[^ ]/ { name = $1; sub(/:$/, "", name) } /Candidate: [^(]/ { print name }' | sort
}

@test "install.sh: each name for Debian is a package of this system, or its alternative is" {
    local names missing
    [[ $(. /usr/lib/os-release && echo "$ID") == debian ]] || skip "needs Debian's lists of packages"
    mapfile -t names < <(all_names debian | sort -u)
    installable "${names[@]}" >found # once, because here apt reads its lists anew in each call
    [[ -s found ]] || skip "needs lists of packages: apt-get update"
    missing=$(comm -23 <(printf '%s\n' "${names[@]}") found)
    echo "missing: $missing"
    [[ $(wc -w <<<"$missing") == 1 && $missing =~ ^libselinux1?-dev$ ]]
}

@test "install.sh: the group build has what the package of Debian needs to be built" {
    local package=$TESTS/../contrib/packaging
    # Debhelper builds packages only.
    sed -n '/^Build-Depends/,/^Standards/p' "$package/debian/control" | grep -oE '\blib[a-z0-9]+-dev\b|\bmusl-tools\b' |
        sort >needed
    [[ $(wc -l <needed) -ge 6 ]]
    echo 'ID=debian' >/etc/os-release
    [[ ! $(comm -23 needed <(install_sh --all build | sort)) ]]
}
