#!/usr/bin/env bats
# tests/setup/install.sh: its groups, and the names of their packages.
# once: it is called as root here

load ../lib/podman.bash

setup() {
    begin_test
}

install_sh() {
    "$TESTS/setup/install.sh" "$@"
}

groups_of_table() {
    install_sh 2>&1 | sed -n 's/^Groups: //p'
}

# Print the packages of all groups.
all_names() {
    # shellcheck disable=SC2046 # a list of words
    install_sh --all $(groups_of_table)
}

@test "install.sh: a system of another kind is told where the list is" {
    mkdir programs
    ln -s "$(command -v bash)" "$(command -v awk)" "$(command -v sed)" programs/
    expect 1 env PATH="$PWD/programs" bash "$TESTS/setup/install.sh" build
    stderr_has "apt-get is not available; install the packages listed in"
}

@test "install.sh: every group has packages, and another name is refused" {
    for group in $(groups_of_table); do
        expect 0 install_sh --all "$group"
        [[ $output ]] || { echo "group '$group' has no package" && return 1; }
    done
    fails 2 "no group 'nonsense'" install_sh nonsense
}

# Print those of the names that apt can install.
installable() {
    apt-cache policy "$@" 2>/dev/null | awk '/^[^ ]/ { name = $1; sub(/:$/, "", name) } /Candidate: [^(]/ { print name }' | sort
}

@test "install.sh: each name for Debian is a package of this system, or its alternative is" {
    [[ $(. /etc/os-release && echo "$ID") == debian ]] || skip "needs Debian's lists of packages"
    mapfile -t names < <(all_names | sort -u)
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
    [[ $(wc -l <needed) -ge 6 && ! $(comm -23 needed <(install_sh --all build | sort)) ]]
}
