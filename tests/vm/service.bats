#!/usr/bin/env bats
# The units of `pysbx service install`, and the quadlet of contrib/service, started by the systemd of this machine.

load vm.bash

# As after an installation by root.
setup_file() {
    local site
    site=$(python3 -c 'import site; print(site.getsitepackages()[0])')
    mkdir -p "$site"
    cp -rL "$TESTS/../contrib/python/src/pysbx" "$site/"
    python3 -m compileall -q "$site/pysbx"
    printf '#!/usr/bin/python3\nfrom pysbx.command import program\nprogram()\n' >/usr/local/bin/pysbx
    chmod 0755 /usr/local/bin/pysbx
    restorecon -R /usr/local
    # An emulated machine is slow.
    mkdir -p /run/systemd/system/pysbx.service.d
    printf '[Service]\nTimeoutStartSec=infinity\n' >/run/systemd/system/pysbx.service.d/slow.conf
}

# Also after a test that has failed.
teardown() {
    systemctl disable --quiet --now pysbx.socket || true
    systemctl stop pysbx.service || true
    pysbx service uninstall
    rm -f /etc/containers/systemd/pysbx.container /etc/systemd/system/pysbx.socket
    systemctl daemon-reload
    ! mountpoint --quiet /var/lib/containers/storage/overlay-containers || umount /var/lib/containers/storage/overlay-containers
    clean_up
}

teardown_file() {
    rm -r /run/systemd/system/pysbx.service.d
}

# Send a program to the service, which may still have to start; set output to an expression of jq over the answer.
ask() {
    local code=$1 expression=$2
    jq --null-input --arg code "$code" '{code: $code}' >request
    curl --silent --show-error --max-time "$BATS_TEST_TIMEOUT" --unix-socket /run/pysbx.sock http://pysbx/v1/run --json @request >answer ||
        { journalctl --unit pysbx.service --no-pager | tail -n 20; return 1; }
    output=$(jq --compact-output --sort-keys "$expression" answer) || { cat answer; return 1; }
}

# Print the state of a unit; systemctl also has it as its exit status.
state_of() {
    systemctl is-active "$1" || true
}

# bats test_tags=root
@test "pysbx service install: systemd starts the service at the first connection; uninstall removes it" {
    needs_root "is about units of the system"
    expect 0 pysbx service install --listen /run/pysbx.sock -- --memory 128 --at-once 2
    systemd-sysusers
    systemctl daemon-reload
    systemctl enable --now pysbx.socket
    [[ $(state_of pysbx.service) == inactive ]]

    ask 'print(6 * 7)' '[.stdout, .limits]'
    output_is '["42\n",{"cpu":"cgroup","memory":"cgroup","pids":"cgroup"}]'
    [[ $(state_of pysbx.service) == active ]]
    [[ $(ps --no-headers --format user "$(systemctl show --property MainPID --value pysbx.service)") == pysbx ]]
    ask 'bytearray(300 << 20)' .error.message
    output_is '"OOM-killed: 128 MiB allowed"'
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
@test "quadlet: systemd starts the service in a container of Podman at the first connection" {
    local quadlet=$TESTS/../contrib/service/quadlet
    needs_root "is about units of the system"
    mkdir -p /etc/containers/systemd
    # The machine itself, below an overlay, instead of an image that an emulated machine would load for minutes. The
    # kernel refuses an overlay whose changes would be below the directory that it shows.
    mount -t tmpfs tmpfs /var/lib/containers/storage/overlay-containers
    sed 's|^Image=.*|Rootfs=/:O|' "$quadlet/pysbx.container" >/etc/containers/systemd/pysbx.container
    cp "$quadlet/pysbx.socket" /etc/systemd/system/
    # Its generator is off in this machine, because it takes time at each boot.
    rm -f /etc/systemd/system-generators/podman-system-generator
    systemctl daemon-reload
    systemctl enable --now pysbx.socket
    [[ $(state_of pysbx.service) == inactive ]]

    ask 'print(6 * 7)' .stdout
    output_is '"42\n"'
    [[ $(state_of pysbx.service) == active ]]
    expect 0 podman ps --noheading --format '{{.Names}}'
    output_is systemd-pysbx

    systemctl disable --now pysbx.socket
    systemctl stop pysbx.service
    podman volume rm pysbx-cache
}
