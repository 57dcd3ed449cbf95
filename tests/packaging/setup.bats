#!/usr/bin/env bats
# tests/setup/install.sh on a system whose packages have Fedora's names: Debian's dnf(8) and rpm(8), with a repository of
# empty packages that is made here. No archive of Fedora is needed. tests/integration/setup.bats has the names.
# once: it is called as root here

load ../lib/podman.bash

# Names of the group build. The last one of the group, yajl-devel, is provided by a package of another name.
PACKAGES=(gcc make go-md2man pkgconf-pkg-config glibc-devel libseccomp-devel libcap-devel libselinux-devel systemd-devel)

# Make an empty package. Other arguments are lines of its description.
make_package() {
    {
        printf '%s\n' "Name: $1" 'Version: 1' 'Release: 1' 'Summary: empty' 'License: none' 'BuildArch: noarch' "${@:2}"
        printf '%%description\nempty\n%%files\n'
    } >"$1.spec"
    rpmbuild --quiet --define "_topdir $PWD/top" -bb "$1.spec"
}

setup_file() {
    local name
    needs_root "installs packages"
    for name in dnf rpmbuild createrepo_c; do
        command -v "$name" >/dev/null || skip "needs $name: tests/setup/install.sh packaging"
    done
    cd "$BATS_FILE_TMPDIR" || return
    for name in "${PACKAGES[@]}"; do make_package "$name"; done
    make_package yajl-compat-devel 'Provides: yajl-devel'
    mv top/RPMS/noarch repository
    createrepo_c --quiet repository
    # The databases, caches and settings of this machine's own dnf and rpm stay out of it.
    for name in /var/lib/rpm /var/lib/dnf /var/cache/dnf /etc/dnf /etc/yum.repos.d "$HOME/.rpmdb"; do
        mkdir -p "$name"
        mount -t tmpfs tmpfs "$name"
    done
    printf '[main]\ngpgcheck=0\nreleasever=43\n' >/etc/dnf/dnf.conf
    printf '[own]\nname=own\nbaseurl=file://%s/repository\nenabled=1\ngpgcheck=0\n' "$PWD" >/etc/yum.repos.d/own.repo
    rm -f /etc/os-release
    printf 'ID=fedora\nVERSION_ID=43\n' >/etc/os-release
}

setup() {
    begin_test
}

@test "install.sh with dnf: installs what is missing, and nothing the second time" {
    expect 0 "$TESTS/setup/install.sh" build
    [[ $output == 'installing: gcc glibc-devel '*' yajl-devel' ]]
    [[ $(rpm -qa | wc -l) == $((${#PACKAGES[@]} + 1)) ]]
    rpm -q yajl-compat-devel
    expect 0 "$TESTS/setup/install.sh" build
    [[ -z $output$stderr ]]
    expect 0 "$TESTS/setup/install.sh" --list build
    [[ -z $output ]]
}

@test "install.sh with dnf: a package that the release does not have is left out" {
    expect 0 "$TESTS/setup/install.sh" packaging
    stderr_is_empty
    [[ -z $output ]]
}
