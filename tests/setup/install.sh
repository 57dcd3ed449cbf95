#!/usr/bin/env bash
# Installs, with the system's own package manager, the packages that a group of targets needs. It installs only missing
# packages, and prints nothing if there are none.
set -euo pipefail

usage() {
    cat <<'USAGE'
usage: tests/setup/install.sh [--list|--all] GROUP...

  --list   print the packages that are missing, install nothing
  --all    print all packages of the groups, install nothing
USAGE
    awk -F'|' 'BEGIN { printf "Groups:" } NF > 1 { gsub(/ /, "", $1); printf " %s", $1 } END { print "" }' <<<"$PACKAGES"
}

# group | Debian and Ubuntu | Fedora
readonly PACKAGES='
build       | gcc make pkg-config libc6-dev musl-tools libseccomp-dev libcap-dev libyajl-dev libselinux1-dev libselinux-dev libsystemd-dev go-md2man | gcc make pkgconf-pkg-config glibc-devel libseccomp-devel libcap-devel yajl-devel libselinux-devel systemd-devel go-md2man
cache       | ccache                                                                                               | ccache
demo        | podman crun conmon catatonit netavark iptables slirp4netns uidmap iproute2 util-linux procps mmdebstrap python3 python3-venv | podman crun conmon catatonit netavark iptables-nft slirp4netns shadow-utils iproute util-linux procps-ng dnf python3
fresh       | mmdebstrap git util-linux                                                               | git util-linux
test        | podman buildah conmon catatonit netavark aardvark-dns iptables nftables slirp4netns passt uidmap iproute2 util-linux mmdebstrap bats procps busybox-static python3 attr strace gcc libc6-dev | podman buildah conmon catatonit netavark aardvark-dns iptables-nft nftables slirp4netns passt shadow-utils iproute util-linux dnf bats procps-ng busybox python3 attr strace gcc glibc-devel
package     | python3 python3-venv                                                                              | python3
lint        | clang-format clang-tidy clang-tools cppcheck shellcheck mypy python3 python3-venv                  | clang-tools-extra clang-analyzer cppcheck ShellCheck python3-mypy python3
docs        | python3 python3-venv                                                                              | python3
bench       | podman crun runc strace patchelf mmdebstrap python3 gcc libc6-dev                                  | podman crun runc strace patchelf dnf python3 gcc glibc-devel
vm          | mmdebstrap e2fsprogs zstd util-linux                                                       | mmdebstrap e2fsprogs zstd util-linux
python      | chromium curl gcc libc6-dev nginx-light openssl prometheus python3-venv sudo wrk            | chromium-headless curl gcc glibc-devel nginx openssl python3 sudo wrk
fuzz        | clang libclang-rt-dev python3-venv                                                              | clang compiler-rt python3
conformance | golang-go git crun                                                                                 | golang git crun
packaging   | build-essential createrepo-c debhelper dnf dpkg-dev git lintian rpm                              | createrepo_c git rpm-build
wheel       | binutils gcc-aarch64-linux-gnu python3 python3-venv                                          | binutils gcc-aarch64-linux-gnu python3
k8s         | curl golang-go gcc libc6-dev openssl prometheus python3 python3-yaml                     | curl golang gcc glibc-devel openssl python3 python3-pyyaml
image       | buildah mmdebstrap python3 python3-venv crun runc curl golang-go nginx-light libnginx-mod-stream | buildah python3 crun runc curl golang nginx nginx-mod-stream
'

# Targets that run at the same time install one after the other: flock(1).
wait_for_others() {
    local lock
    command -v flock >/dev/null || return 0
    exec {lock}<"$0"
    flock "$lock"
}

# Print the package manager of this system: apt or dnf. A system may have a program of the other family, without its
# packages. So the names in os-release(5) come first: its own, then those of the systems that it is like.
detect_manager() {
    local name
    # shellcheck disable=SC1091 # on each system another one
    for name in $(. /etc/os-release 2>/dev/null && echo "${ID:-} ${ID_LIKE:-}"); do
        case $name in
            debian | ubuntu) echo apt && return ;;
            fedora | rhel) echo dnf && return ;;
        esac
    done
    if command -v apt-get >/dev/null; then
        echo apt
    elif command -v dnf >/dev/null; then
        echo dnf
    else
        echo "install.sh: neither apt-get nor dnf is available; install the packages listed in $0 yourself" >&2
        return 1
    fi
}

# Print the packages of one group for one package manager.
packages_of() {
    local group=$1 manager=$2
    awk -F'|' -v group="$group" -v column="$([[ $manager == apt ]] && echo 2 || echo 3)" '
        { name = $1; gsub(/ /, "", name) }
        name == group { print $column; found = 1 }
        END { exit !found }' <<<"$PACKAGES"
}

is_installed() {
    case $1 in
        apt) [[ $(dpkg-query -W -f '${db:Status-Abbrev}' "$2" 2>/dev/null) == ii* ]] ;;
        dnf) rpm -q --quiet --whatprovides "$2" ;;
    esac
}

# A program from another source (a newer Go, for example) counts as installed, and so does one of two alternative
# packages.
is_provided() {
    case $1 in
        golang-go | golang) command -v go >/dev/null ;;
        libselinux1-dev | libselinux-dev) [[ -e /usr/include/selinux/selinux.h ]] ;;
        passt) command -v pasta >/dev/null ;;
        python3) command -v python3 >/dev/null ;;
        mypy | python3-mypy) command -v mypy >/dev/null ;;
        *) return 1 ;;
    esac
}

# A package that this release does not have (passt before Debian 12) is omitted. Its users report that themselves.
is_known() {
    case $1 in
        apt) [[ -n $(apt-cache --quiet=0 policy "$2" 2>/dev/null | sed -n '/Candidate: [^(]/p') ]] ;;
        dnf) [[ -n $(dnf --quiet repoquery --whatprovides "$2" 2>/dev/null) ]] ;; # it succeeds without a match
    esac
}

# Ask for the password here, on the terminal, because later the output goes to a log.
may_use_sudo() {
    command -v sudo >/dev/null && { sudo -n true 2>/dev/null || { [[ -t 0 ]] && sudo -v; }; }
}

install_missing() {
    local manager=$1
    shift
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
    if [[ $manager == apt ]]; then
        "${as_root[@]}" apt-get update -qq >"$log" 2>&1 || { cat "$log" >&2; return 1; }
    fi
    for package; do
        if is_known "$manager" "$package"; then known+=("$package"); fi
    done
    ((${#known[@]})) || return 0
    echo "installing: ${known[*]}"
    case $manager in
        apt) "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${known[@]}" ;;
        dnf) "${as_root[@]}" dnf install -y --quiet --setopt=install_weak_deps=False "${known[@]}" ;;
    esac >"$log" 2>&1 || { cat "$log" >&2; return 1; }
}

main() {
    local only='' manager group package packages
    local -a missing=() groups=()
    if [[ ${1:-} == --list || ${1:-} == --all ]]; then
        only=$1
        shift
    fi
    (($#)) || { usage >&2; return 2; }
    manager=$(detect_manager)
    groups=("$@")
    for group; do
        packages=$(packages_of "$group" "$manager") || { echo "install.sh: no group '$group'" >&2; usage >&2; return 2; }
        for package in $packages; do
            [[ $only != --all ]] && { is_provided "$package" || is_installed "$manager" "$package"; } || missing+=("$package")
        done
    done
    ((${#missing[@]})) || return 0
    mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
    if [[ $only ]]; then
        printf '%s\n' "${missing[@]}"
    else
        install_missing "$manager" "${missing[@]}"
    fi
}

main "$@"
