#!/usr/bin/env bats
# AppArmor, in a separate boot: the profile of the container's processes; config.md "apparmorProfile", apparmor.d(5).

load vm.bash

setup_file() {
    [[ $(</sys/module/apparmor/parameters/enabled) == Y ]] || skip "AppArmor is not enabled"
    apparmor_parser --replace <<'PROFILE'
profile pysbx-test flags=(attach_disconnected, mediate_deleted) {
    file,
    capability,
    signal,
    network,
    deny /tmp/denied w,
}
PROFILE
}

# Make a bundle that prints the profile of its program, and let the user of the machine reach it.
make_bundle_of_user() {
    PODMAN_MODE=rootless make_bundle cat /proc/self/attr/current
    # It was made by root, whose ids it would map.
    edit_config 'for kind in ("uid", "gid"): linux[f"{kind}Mappings"][0]["hostID"] = int(arguments[0])' \
        "$(id -u tester)"
    chmod -R a+rX .
    chmod a+x "$BATS_RUN_TMPDIR" "$BATS_RUN_TMPDIR/test"
}

# Run it as that user.
profile_of_user() {
    as-user env -C "$PWD" "$RUNTIME" run --bundle bundle pysbx-profile
}

# Load the shipped profile for the runtime of these tests.
load_shipped_profile() {
    sed "s,/usr/local/bin/pysbx-runtime,$RUNTIME," "$TESTS/../config/apparmor/pysbx-runtime" >profile
    apparmor_parser --replace --skip-cache profile
}

@test "config/apparmor: the profile is attached to the runtime of a user, whose containers run" {
    make_bundle_of_user
    prints unconfined profile_of_user
    load_shipped_profile
    expect 0 profile_of_user
    apparmor_parser --remove profile
    output_is "pysbx-runtime (unconfined)"
}

@test "config/apparmor: where the kernel restricts user namespaces, the profile allows them to the runtime" {
    local setting=/proc/sys/kernel/apparmor_restrict_unprivileged_userns
    [[ -e $setting ]] || skip "this kernel has no $setting"
    make_bundle_of_user
    echo 1 >"$setting"
    expect '*' profile_of_user
    local before=$status
    load_shipped_profile
    expect '*' profile_of_user
    apparmor_parser --remove profile
    echo 0 >"$setting"
    ((before != 0)) && [[ $status == 0 && $output == "pysbx-runtime (unconfined)" ]]
}

# Call a function of the package for the prefix of the installed runtime; set output to what it says.
profile_of_package() {
    expect 0 env PYTHONPATH="$TESTS/../contrib/python/src" python3 -c "
import pathlib, sys
from pysbx.machine import apparmor
print(getattr(apparmor, sys.argv[1])(pathlib.Path('/usr/local')))" "$1"
}

@test "pysbx runtime install: a later version replaces the profile, unless it was changed; uninstall removes it" {
    local shipped=/usr/local/share/pysbx-runtime/apparmor/pysbx-runtime profile=/etc/apparmor.d/pysbx-runtime
    mkdir -p "${shipped%/*}"
    cp "$TESTS/../config/apparmor/pysbx-runtime" "$shipped"
    profile_of_package install
    output_is "AppArmor: $profile is installed"
    grep -q '^pysbx-runtime ' /sys/kernel/security/apparmor/profiles
    echo '# of a later version' >>"$shipped"
    profile_of_package install
    output_is "AppArmor: $profile is installed"
    [[ $(tail -n 1 "$profile") == '# of a later version' ]]
    echo '# of the administrator' >>"$profile"
    profile_of_package install
    output_is "AppArmor: $profile was changed, and stays as it is: the one for this runtime is $shipped"
    profile_of_package uninstall
    output_is ""
    sed -i '$d' "$profile"
    profile_of_package uninstall
    output_is "AppArmor: $profile is removed"
    [[ ! -e $profile ]]
    expect 1 grep -q '^pysbx-runtime ' /sys/kernel/security/apparmor/profiles
    rm -r /usr/local/share/pysbx-runtime
}

@test "pysbx in a container that AppArmor confines: the refusal names the profile and the option" {
    expect 125 aa-exec -p pysbx-test -- env PYTHONPATH="$TESTS/../contrib/python/src" \
        python3 -m pysbx run --timeout 300 -c 'print(1)'
    [[ $stderr == *"AppArmor's profile 'pysbx-test'"*"--security-opt apparmor=unconfined"* ]]
}

# bats test_tags=all
@test "podman run: Podman's own profile" {
    expect 0 podman run --rm --network none "$BUSYBOX" cat /proc/self/attr/current
    [[ $output == containers-default-*" (enforce)" ]]
}

@test "podman run --security-opt apparmor=PROFILE: confines the process, and those of podman exec" {
    start_sleeper --name sleeper --security-opt apparmor=pysbx-test
    prints $'pysbx-test (enforce)\npysbx-test (enforce)' podman exec sleeper cat /proc/1/attr/current /proc/self/attr/current
    expect 0 podman exec sleeper sh -c 'echo x >/tmp/allowed'
    fails 1 "permission denied" podman exec sleeper sh -c 'echo x >/tmp/denied'
}

# A hook of the image prints its profile, and the operations that the profile forbids.
readonly HOOK='exec >/scratch/hooked 2>&1; cat /proc/self/attr/current; echo x >/tmp/allowed; echo x >/tmp/denied; true'

# bats test_tags=all
@test "podman run, with a startContainer hook: the container's profile confines a program of the image" {
    make_hook "$HOOK"
    expect 0 run_hooked --security-opt apparmor=pysbx-test "$BUSYBOX" cat /scratch/hooked /tmp/allowed
    [[ ${lines[0]} == "pysbx-test (enforce)" && ${lines[1]} == *"Permission denied" && ${lines[2]} == x ]]
}

# bats test_tags=all
@test "podman run --security-opt apparmor=unconfined: no profile" {
    prints unconfined podman run --rm --network none --security-opt apparmor=unconfined "$BUSYBOX" cat /proc/self/attr/current
}

@test "run: process.apparmorProfile that is not loaded is an error that names it" {
    make_bundle true
    edit_config 'process["apparmorProfile"] = "no-such-profile"'
    fails 1 "no-such-profile" runtime --systemd-cgroup run --bundle bundle pysbx-one
    stderr_has "the profile is not loaded"
}

# bats test_tags=all
@test "exec: a profile for this process" {
    make_bundle sleep 1000
    start_bundle pysbx-one
    jq '.process | .apparmorProfile = "pysbx-test" | .args = ["cat", "/proc/self/attr/current"]' bundle/config.json >process.json
    expect 0 runtime exec --process process.json pysbx-one
    [[ $output == "pysbx-test (enforce)"* ]]
}

@test "run --init: the program and its hook have the profile, and the init has none" {
    make_bundle sh -c 'cat /proc/self/attr/current /tmp/hooked; exec sleep 1000'
    edit_config 'process["apparmorProfile"] = "pysbx-test"
config["mounts"].append({"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"})
config["hooks"] = {"startContainer": [{"path": "/bin/cp", "args": ["cp", "/proc/self/attr/current", "/tmp/hooked"]}]}'
    runtime --systemd-cgroup run --init --detach --bundle bundle pysbx-one </dev/null >out 2>&1
    wait_for eval '[[ $(<out) == $'"'"'pysbx-test (enforce)\npysbx-test (enforce)'"'"' ]]'
    pid=$(pid_of pysbx-one)
    wait_for eval '[[ $(</proc/$pid/comm) == init ]]'
    prints unconfined cat "/proc/$pid/attr/current"
}

# bats test_tags=all
@test "run --init: a profile that is not loaded is an error of create" {
    make_bundle true
    edit_config 'process["apparmorProfile"] = "no-such-profile"'
    fails 1 "no-such-profile" runtime --systemd-cgroup create --init --bundle bundle pysbx-one
    stderr_has "the profile is not loaded"
}

# A restored Python prints its profile and that of a program that it executes.
readonly PROFILES='
import subprocess
print(hash("the seed of this snapshot"))
print(open("/proc/self/attr/current").read().strip())
print(subprocess.run(["cat", "/proc/self/attr/current"], stdout=subprocess.PIPE).stdout.decode().strip())
open("/tmp/allowed", "w").close()
try:
    open("/tmp/denied", "w").close()
    print("allowed")
except PermissionError:
    print("denied")'

run_warm() {
    podman run --rm --network none --annotation run.pysbx.warm=require "$@"
}

@test "podman run, warm: the profile confines a program that was not executed, and its child programs" {
    import_python
    expect 0 run_warm --security-opt apparmor=pysbx-test "$PYTHON" python3 -c "$PROFILES"
    seed=${lines[0]}
    output_is "$seed"$'\npysbx-test (enforce)\npysbx-test (enforce)\ndenied'
    expect 0 run_warm --security-opt apparmor=pysbx-test --security-opt no-new-privileges "$PYTHON" python3 -c "$PROFILES"
    output_is "$seed"$'\npysbx-test (enforce)\npysbx-test (enforce)\ndenied'
    expect 0 run_warm "$PYTHON" python3 -c "$PROFILES"
    [[ ${lines[0]} != "$seed" && ${lines[1]} == containers-default-*" (enforce)" && ${lines[2]} == "${lines[1]}" ]]
}

# bats test_tags=all
@test "podman run, warm, --security-opt apparmor=unconfined: no profile" {
    import_python
    expect 0 run_warm --security-opt apparmor=unconfined "$PYTHON" python3 -c "$PROFILES"
    [[ ${lines[1]} == unconfined && ${lines[2]} == unconfined && ${lines[3]} == allowed ]]
}

# bats test_tags=all
@test "run --init, warm: the profile confines a program that was not executed, the child of the init" {
    mkdir -p bundle/rootfs
    tar --extract --file "$("$TESTS/lib/image" python)" -C bundle/rootfs --no-same-owner --exclude './dev/*'
    make_bundle python3 -c "import os; print(os.getpid())$PROFILES"
    edit_config 'process["apparmorProfile"] = "pysbx-test"
config["mounts"].append({"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"})
config["annotations"] = {"run.pysbx.warm": "require"}'
    expect 0 runtime --systemd-cgroup run --init --bundle bundle pysbx-one
    local first=$output
    output_has $'\npysbx-test (enforce)\npysbx-test (enforce)\ndenied'
    [[ ${lines[0]} == 2 ]]
    prints "$first" runtime --systemd-cgroup run --init --bundle bundle pysbx-one
}

# bats test_tags=all
@test "podman run, warm, with a startContainer hook: the profile confines the hook before the program" {
    import_python
    expect 0 run_warm --security-opt apparmor=pysbx-test "$PYTHON" python3 -c 'print(hash("the seed of this snapshot"))'
    local seed=$output
    make_hook "$HOOK"
    expect 0 run_hooked --annotation run.pysbx.warm=require \
        --security-opt apparmor=pysbx-test "$PYTHON" python3 -c 'print(hash("the seed of this snapshot"))
print(open("/scratch/hooked").read(), open("/proc/self/attr/current").read())'
    [[ ${lines[0]} == "$seed" && ${lines[1]} == "pysbx-test (enforce)" && ${lines[2]} == *"Permission denied" ]]
    [[ ${lines[3]} == *"pysbx-test (enforce)" ]]
}

# bats test_tags=all
@test "podman exec, warm: the profile of the container" {
    import_python
    podman run --detach --name sleeper --network none --annotation run.pysbx.warm=require \
        --security-opt apparmor=pysbx-test "$PYTHON" python3 -c 'import signal; signal.pause()' >/dev/null
    expect 0 podman exec sleeper python3 -c "$PROFILES"
    local seed=${lines[0]}
    [[ ${lines[1]} == "pysbx-test (enforce)" && ${lines[3]} == denied ]]
    expect 0 podman exec sleeper python3 -c "$PROFILES"
    [[ ${lines[0]} == "$seed" && ${lines[1]} == "pysbx-test (enforce)" ]]
}
