#!/usr/bin/env bats
# AppArmor, in a boot of its own: the profile of the container's processes; config.md "apparmorProfile", apparmor.d(5).

load vm.bash

setup_file() {
    [[ $(</sys/module/apparmor/parameters/enabled) == Y ]] || skip "AppArmor is not enabled"
    apparmor_parser --replace <<'PROFILE'
profile pysbx-test flags=(attach_disconnected, mediate_deleted) {
    file,
    capability,
    signal,
    deny /tmp/denied w,
}
PROFILE
}

@test "podman run: Podman's own profile" {
    expect 0 podman run --rm --network none "$BUSYBOX" cat /proc/self/attr/current
    [[ $output == containers-default-*" (enforce)" ]]
}

@test "podman run --security-opt apparmor=PROFILE: confines the process, and those of podman exec" {
    start_sleeper --name sleeper --security-opt apparmor=pysbx-test
    expect 0 podman exec sleeper cat /proc/1/attr/current /proc/self/attr/current
    output_is $'pysbx-test (enforce)\npysbx-test (enforce)'
    expect 0 podman exec sleeper sh -c 'echo x >/tmp/allowed'
    expect 1 podman exec sleeper sh -c 'echo x >/tmp/denied'
    stderr_has "permission denied"
}

@test "podman run --security-opt apparmor=unconfined: no profile" {
    expect 0 podman run --rm --network none --security-opt apparmor=unconfined "$BUSYBOX" cat /proc/self/attr/current
    output_is unconfined
}

@test "run: process.apparmorProfile that is not loaded is an error that names it" {
    make_bundle true
    edit_config 'process["apparmorProfile"] = "no-such-profile"'
    expect 1 runtime --systemd-cgroup run --bundle bundle pysbx-one
    stderr_has "no-such-profile"
    stderr_has "the profile is not loaded"
}

@test "exec: a profile of its own" {
    make_bundle sleep 1000
    start_bundle pysbx-one
    jq '.process | .apparmorProfile = "pysbx-test" | .args = ["cat", "/proc/self/attr/current"]' bundle/config.json >process.json
    expect 0 runtime exec --process process.json pysbx-one
    [[ $output == "pysbx-test (enforce)"* ]]
}
