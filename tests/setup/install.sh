#!/usr/bin/env bash
# Installs, with apt, the packages that a group of targets needs. It installs only missing packages, and prints nothing if
# there are none.
set -euo pipefail

usage() {
    cat <<'USAGE'
usage: tests/setup/install.sh [--list|--all] GROUP...

  --list   print the packages that are missing, install nothing
  --all    print all packages of the groups, install nothing
USAGE
    awk -F'|' 'BEGIN { printf "Groups:" } NF > 1 { gsub(/ /, "", $1); printf " %s", $1 } END { print "" }' <<<"$PACKAGES"
}

# group | packages of Debian and Ubuntu
readonly PACKAGES='
build       | gcc make pkg-config libc6-dev musl-tools libseccomp-dev libcap-dev libyajl-dev libselinux1-dev libselinux-dev libsystemd-dev go-md2man python3
cache       | ccache
demo        | podman crun conmon catatonit netavark iptables slirp4netns uidmap iproute2 util-linux procps mmdebstrap python3 python3-venv
fresh       | mmdebstrap git util-linux
test        | podman criu buildah conmon catatonit netavark aardvark-dns iptables nftables slirp4netns passt uidmap iproute2 util-linux mmdebstrap bats procps busybox-static python3 python3-pexpect attr strace gcc libc6-dev
package     | python3 python3-venv
lint        | clang-format clang-tidy clang-tools cppcheck shellcheck mypy python3 python3-venv
docs        | python3 python3-venv
bench       | podman crun runc bubblewrap strace patchelf mmdebstrap python3 gcc libc6-dev
vm          | mmdebstrap e2fsprogs zstd util-linux
python      | chromium curl gcc libc6-dev nginx-light openssl python3-venv sudo wrk
fuzz        | clang libclang-rt-dev python3-venv
conformance | golang-go git crun
packaging   | build-essential debhelper dpkg-dev git lintian
wheel       | binutils python3 python3-venv
wheels      | gcc-aarch64-linux-gnu
k8s         | curl golang-go gcc libc6-dev openssl prometheus python3 python3-yaml
image       | buildah mmdebstrap python3 python3-venv crun runc curl golang-go
'

# Targets that run at the same time install one after the other: flock(1).
wait_for_others() {
    local lock
    command -v flock >/dev/null || return 0
    exec {lock}<"$0"
    flock "$lock"
}

# Print the packages of one group.
packages_of() {
    awk -F'|' -v group="$1" '
        { name = $1; gsub(/ /, "", name) }
        name == group { print $2; found = 1 }
        END { exit !found }' <<<"$PACKAGES"
}

is_installed() {
    [[ $(dpkg-query -W -f '${db:Status-Abbrev}' "$1" 2>/dev/null) == ii* ]]
}

# A program from another source (a newer Go, for example) counts as installed, and so does one of two alternative
# packages.
is_provided() {
    case $1 in
        golang-go) command -v go >/dev/null ;;
        libselinux1-dev | libselinux-dev) [[ -e /usr/include/selinux/selinux.h ]] ;;
        passt) command -v pasta >/dev/null ;;
        python3) command -v python3 >/dev/null ;;
        mypy) command -v mypy >/dev/null ;;
        *) return 1 ;;
    esac
}

# A package that this release does not have (passt before Debian 12) is omitted. Its users report that themselves.
is_known() {
    [[ -n $(apt-cache --quiet=0 policy "$1" 2>/dev/null | sed -n '/Candidate: [^(]/p') ]]
}

# Ask for the password here, on the terminal, because later the output goes to a log.
may_use_sudo() {
    command -v sudo >/dev/null && { sudo -n true 2>/dev/null || { [[ -t 0 ]] && sudo -v; }; }
}

install_missing() {
    local -a as_root=() known=()
    local package log
    if ((EUID != 0)); then
        may_use_sudo || {
            echo "install.sh: packages are missing and this user cannot use sudo:" \
                "ask an administrator to run '$(realpath "$0") ${groups[*]}' as root" >&2
            return 1
        }
        as_root=(sudo)
    fi
    wait_for_others
    log=$(mktemp)
    # shellcheck disable=SC2064 # the name of today's file is meant
    trap "rm -f '$log'" EXIT
    "${as_root[@]}" apt-get update -qq >"$log" 2>&1 || { cat "$log" >&2; return 1; }
    for package; do
        if is_known "$package"; then known+=("$package"); fi
    done
    ((${#known[@]})) || return 0
    echo "installing: ${known[*]}"
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${known[@]}" >"$log" 2>&1 ||
        { cat "$log" >&2; return 1; }
}

main() {
    local only='' group package packages
    local -a missing=() groups=()
    if [[ ${1:-} == --list || ${1:-} == --all ]]; then
        only=$1
        shift
    fi
    (($#)) || { usage >&2; return 2; }
    command -v apt-get >/dev/null || {
        echo "install.sh: apt-get is not available; install the packages listed in $0 yourself" >&2
        return 1
    }
    groups=("$@")
    for group; do
        packages=$(packages_of "$group") || { echo "install.sh: no group '$group'" >&2; usage >&2; return 2; }
        for package in $packages; do
            [[ $only != --all ]] && { is_provided "$package" || is_installed "$package"; } || missing+=("$package")
        done
    done
    ((${#missing[@]})) || return 0
    mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
    if [[ $only ]]; then
        printf '%s\n' "${missing[@]}"
    else
        install_missing "${missing[@]}"
    fi
}

main "$@"
