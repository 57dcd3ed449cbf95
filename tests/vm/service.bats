#!/usr/bin/env bats
# The units of `pysbx service install`, and the quadlet of contrib/service, started by the systemd of this machine.

load vm.bash

readonly PAGE=$TESTS/../contrib/docs/pages/how-to/service.md

# As after an installation by root. An emulated machine is slow, so the units get more time for a start, and programs for
# a run.
setup_file() {
    local site
    site=$(python3 -c 'import site; print(site.getsitepackages()[0])')
    mkdir -p "$site"
    cp -rL "$TESTS/../contrib/python/src/pysbx" "$site/"
    python3 -m compileall -q "$site/pysbx"
    printf '#!/usr/bin/python3\nfrom pysbx.command import program\nprogram()\n' >/usr/local/bin/pysbx
    chmod 0755 /usr/local/bin/pysbx
    [[ ! -d /sys/fs/selinux/class ]] || restorecon -R /usr/local
    mkdir -p /run/systemd/system/pysbx.service.d /etc/containers/systemd/pysbx.container.d
    printf '[Service]\nTimeoutStartSec=infinity\nEnvironment=PYSBX_TIMEOUT_SEC=300\n' >/run/systemd/system/pysbx.service.d/slow.conf
    printf '[Container]\nEnvironment=PYSBX_TIMEOUT_SEC=300\n' >/etc/containers/systemd/pysbx.container.d/slow.conf
}

# Also after a test that has failed.
teardown() {
    systemctl disable --quiet --now pysbx.socket || true
    systemctl stop pysbx.service || true
    systemctl reset-failed pysbx.service pysbx.socket || true
    rm -f /run/systemd/system/pysbx.service.d/fails.conf
    pysbx service uninstall
    rm -f /etc/containers/systemd/pysbx.container /etc/systemd/system/pysbx.socket
    systemctl daemon-reload
    clean_up
}

teardown_file() {
    rm -r /run/systemd/system/pysbx.service.d /etc/containers/systemd/pysbx.container.d
}

# Run the commands of a section of the page, as it has them; set output to their last line, which is the answer to a
# program. This machine has no network to make an image, no sudo, and is root's.
follow() {
    local heading=$1
    awk -v heading="## $heading" '/^##/ { here = $0 == heading } /^```$/ { code = 0 } here && code
        /^```sh$/ { code = 1 }' "$PAGE" >recipe
    grep -q 'systemctl enable' recipe || { echo "the page has no section '$heading' with commands"; return 1; }
    (
        sudo() { "$@"; }
        curl() { command curl --silent --show-error "$@"; }
        make() { [[ $* == image && -e build/image/pysbx.tar ]]; }
        recipe=$PWD/recipe
        cd "$TESTS/.."
        set -e
        # shellcheck disable=SC1090 # of the page
        source "$recipe"
    ) >said 2>&1 || { cat said; journalctl --unit pysbx.service --no-pager | tail -n 40; return 1; }
    output=$(tail -n 1 said)
}

# Send a program to the service; set output to an expression of jq over the answer.
ask() {
    local code=$1 expression=$2
    jq --null-input --arg code "$code" '{code: $code}' >request
    curl --silent --show-error --unix-socket /run/pysbx.sock http://pysbx/v1/run --json @request >answer ||
        { journalctl --unit pysbx.service --no-pager | tail -n 20; return 1; }
    output=$(jq --compact-output --sort-keys "$expression" answer) || { cat answer; return 1; }
}

# Print the state of a unit; systemctl also has it as its exit status.
state_of() {
    systemctl is-active "$1" || true
}

is_failed() {
    [[ $(state_of "$1") == failed ]]
}

# Assert that the last line of a recipe is an answer, and the expression of jq over it.
answer_is() {
    local value
    value=$(jq --compact-output --sort-keys "$1" <<<"$output") || { echo "$output"; return 1; }
    [[ $value == "$2" ]] || { echo "$output"; return 1; }
}

# bats test_tags=root
@test "systemd: the recipe for pysbx service install; uninstall removes the units" {
    needs_root "is about units of the system"
    follow "Start it by systemd"
    answer_is '[.stdout, .limits]' '["42\n",{"cpu":"cgroup","memory":"cgroup","pids":"cgroup"}]'
    [[ $(state_of pysbx.service) == active ]]
    [[ $(ps --no-headers --format user "$(systemctl show --property MainPID --value pysbx.service)") == pysbx ]]
    ask 'bytearray(1300 << 20)' .error.message
    output_is '"OOM-killed: 1024 MiB allowed"'
    systemd-analyze security --no-pager --threshold=19 pysbx.service >exposure || { tail -n 1 exposure; return 1; }

    systemctl disable --now pysbx.socket
    systemctl stop pysbx.service
    [[ $(systemctl show --property Result --value pysbx.service) == success ]]
    expect 0 pysbx service uninstall
    systemctl daemon-reload
    [[ ! -e /etc/systemd/system/pysbx.service && ! -e /etc/systemd/system/pysbx.socket && ! -e /run/pysbx.sock ]]
    expect 1 systemctl cat pysbx.service
}

# bats test_tags=root
@test "systemd: only a connection starts the service, and a start that fails slowly is not repeated for ever" {
    needs_root "is about units of the system"
    expect 0 pysbx service install --listen /run/pysbx.sock
    systemd-sysusers
    # Five of these take longer than the ten seconds in which systemd counts starts by default.
    printf '[Service]\nRestartSec=0\nExecStart=\nExecStart=/bin/sh -c "sleep 3; exit 1"\n' \
        >/run/systemd/system/pysbx.service.d/fails.conf
    systemctl daemon-reload
    systemctl enable --now pysbx.socket
    [[ $(state_of pysbx.service) == inactive ]]
    expect "5?" curl --silent --unix-socket /run/pysbx.sock http://pysbx/health
    wait_for is_failed pysbx.socket
    [[ $(systemctl show --property NRestarts --value pysbx.service) == 5 ]]
}

# bats test_tags=root
@test "systemd: the service of a user, which that user's own manager starts" {
    folder=/home/tester/.config/systemd/user
    socket=/run/user/$(id -u tester)/pysbx.sock
    as-user mkdir -p "$folder/pysbx.service.d"
    as-user cp /run/systemd/system/pysbx.service.d/slow.conf "$folder/pysbx.service.d/"
    expect 0 as-user pysbx service install -- --memory 200
    expect 0 as-user systemctl --user daemon-reload
    expect 0 as-user systemctl --user enable --now pysbx.socket
    as-user curl --silent --show-error --unix-socket "$socket" http://pysbx/v1/run --json '{"code": "print(6 * 7)"}' >answer
    output=$(<answer)
    answer_is '[.stdout, .limits]' '["42\n",{"cpu":"cgroup","memory":"cgroup","pids":"cgroup"}]'
    as-user curl --silent --unix-socket "$socket" http://pysbx/v1/run --json '{"code": "bytearray(300 << 20)"}' >answer
    [[ $(jq --raw-output .error.message answer) == "OOM-killed: 200 MiB allowed" ]] || { cat answer; return 1; }
    expect 0 as-user systemctl --user disable --now pysbx.socket
    expect 0 as-user systemctl --user stop pysbx.service
    expect 0 as-user pysbx service uninstall
    as-user rm -r "$folder/pysbx.service.d"
    expect 0 as-user systemctl --user daemon-reload
    [[ ! -e $folder/pysbx.service && ! -e $folder/pysbx.socket && ! -e $socket ]]
}

# bats test_tags=root
@test "quadlet: the recipe for a container of Podman, with the image of make image" {
    needs_root "is about units of the system"
    [[ -e $TESTS/../build/image/pysbx.tar ]] || skip "no image of the service in this machine: tests/vm/run --service-image"
    [[ ! -d /sys/fs/selinux/class ]] ||
        skip "Debian's policy for SELinux lets no Podman that systemd starts use the files of one that a login has started"
    # Its generator is off in this machine, because it takes time at each boot.
    rm -f /etc/systemd/system-generators/podman-system-generator
    follow "Start it by systemd in a container"
    answer_is .stdout '"42\n"'
    [[ $(state_of pysbx.service) == active ]]
    prints systemd-pysbx podman ps --noheading --format '{{.Names}}'

    systemctl disable --now pysbx.socket
    systemctl stop pysbx.service
    [[ $(systemctl show --property Result --value pysbx.service) == success ]]
    podman volume rm pysbx-cache
    podman rmi localhost/pysbx
}
