#!/usr/bin/env bats
# SELinux, enforcing: labels of processes, files and keys, and the policy's decisions; config-linux.md "Mount label",
# config.md "selinuxLabel", podman-run(1) --security-opt, container_selinux(8).

load vm.bash

setup_file() {
    [[ $(getenforce) == Enforcing ]] || skip "SELinux is not enforcing"
}

# bats test_tags=all
@test "podman run: the process has the label of containers, with two unique categories" {
    expect 0 podman run --rm --network none "$BUSYBOX" cat /proc/self/attr/current
    [[ $output == system_u:system_r:container_t:s0:c*,c* ]]
    local first=$output
    expect 0 podman run --rm --network none "$BUSYBOX" cat /proc/self/attr/current
    [[ $output != "$first" ]]
}

@test "podman run, with a startContainer hook: a program of the image has the container's label, and no additional right" {
    make_unlabelled given
    make_hook 'exec >/scratch/hooked 2>&1; tr "\0" "\n" </proc/self/attr/current; cat /given/file; grep -o created'
    expect 0 run_hooked --volume "$HOME/given:/given" "$BUSYBOX" \
        cat /scratch/hooked /proc/self/attr/current
    [[ ${lines[0]} == system_u:system_r:container_t:s0:c*,c* && ${lines[1]} == *"Permission denied" ]]
    [[ ${lines[2]} == created && ${lines[3]} == "${lines[0]}" && ${#lines[@]} == 4 ]]
}

# bats test_tags=root
@test "podman run --tmpfs, and the default mounts: labelled for this container; podman exec: its label" {
    start_sleeper --name sleeper --tmpfs /scratch
    label=$(podman inspect --format '{{.MountLabel}}' sleeper)
    pid=$(pid_of "$(id_of sleeper)")
    for path in /scratch /dev /dev/shm /dev/mqueue /dev/null /etc/hosts; do
        expect 0 label_of "/proc/$pid/root$path"
        # A bind mount from the host keeps the host's label.
        [[ $output == "$label" || $path == /dev/null ]] || { echo "$path"; false; }
    done
    label=$(podman inspect --format '{{.ProcessLabel}}' sleeper)
    prints "$label" podman exec sleeper sh -c 'cat /proc/self/attr/current && echo x >/scratch/made && echo x >/dev/shm/made'
    prints "$label" tr -d '\0' <"/proc/$pid/attr/current"
}

# bats test_tags=all
@test "podman run --volume :z: shared among containers" {
    make_unlabelled given
    prints content podman run --rm --network none --volume "$HOME/given:/given:z" "$BUSYBOX" cat /given/file
    [[ $(label_of "$HOME/given/file") == *:container_file_t:s0 ]]
    expect 0 podman run --rm --network none --volume "$HOME/given:/given" "$BUSYBOX" cat /given/file
}

@test "podman run --volume :Z: for one container, and inaccessible for the next" {
    make_unlabelled given
    start_sleeper --name sleeper --volume "$HOME/given:/given:Z"
    prints content podman exec sleeper cat /given/file
    [[ $(label_of "$HOME/given/file") == *:container_file_t:s0:c*,c* ]]
    fails 1 "permission denied" podman run --rm --network none --volume "$HOME/given:/given" "$BUSYBOX" cat /given/file
}

# bats test_tags=root
@test "podman run --security-opt label=disable: no label, and no denial" {
    make_unlabelled given
    expect 0 podman run --rm --network none --security-opt label=disable --volume "$HOME/given:/given" "$BUSYBOX" \
        sh -c 'cat /given/file; cat /proc/self/attr/current'
    [[ ${lines[0]} == content && ${lines[1]} != *container_t* ]]
}

# bats test_tags=root,all
@test "podman run --security-opt label=level: the given categories" {
    expect 0 podman run --rm --network none --security-opt label=level:s0:c100,c200 "$BUSYBOX" cat /proc/self/attr/current
    [[ $output == *:container_t:s0:c100,c200 ]]
}

# bats test_tags=root,all
@test "podman run --security-opt label=nested: mounts get the label of their root" {
    # Podman passes it on as an annotation, which an image could contain too.
    allow_annotations run.oci.mount_context_type
    start_sleeper --name sleeper --security-opt label=nested --tmpfs /scratch
    shows rootcontext= podman exec sleeper grep ' /scratch ' /proc/mounts
    remove_policy
}

# bats test_tags=root,all
@test "podman run: the session keyring has the label of the process" {
    import_python
    expect 0 podman run --rm --network none --security-opt label=level:s0:c100,c200 "$PYTHON" python3 -c '
import ctypes
label = ctypes.create_string_buffer(256)
KEYCTL_GET_SECURITY, SESSION_KEYRING, keyctl = 17, -3, 250
assert ctypes.CDLL(None).syscall(keyctl, KEYCTL_GET_SECURITY, SESSION_KEYRING, label, 256) > 0
print(label.value.decode())'
    [[ $output == *:container_t:s0:c100,c200 ]]
}

@test "run: process.selinuxLabel and linux.mountLabel of the specification" {
    make_bundle sh -c 'cat /proc/self/attr/current; grep " /dev " /proc/mounts'
    chcon --recursive --type container_file_t bundle/rootfs
    edit_config 'process["selinuxLabel"] = "system_u:system_r:container_t:s0:c1,c2"
linux["mountLabel"] = "system_u:object_r:container_file_t:s0:c1,c2"'
    expect 0 runtime --systemd-cgroup run --bundle bundle pysbx-one
    [[ $output == system_u:system_r:container_t:s0:c1,c2* ]]
    output_has 'context="system_u:object_r:container_file_t:s0:c1,c2"'
}

@test "run --init: the program, its hook and a process of exec have the label; the init keeps that of the runtime" {
    make_bundle sh -c 'echo "exec: $(cat /proc/self/attr/exec)"; cat /proc/self/attr/current /tmp/hooked; exec sleep 1000'
    chcon --recursive --type container_file_t bundle/rootfs
    edit_config 'process["selinuxLabel"] = "system_u:system_r:container_t:s0:c1,c2"
config["mounts"].append({"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"})
config["hooks"] = {"startContainer": [{"path": "/bin/cp", "args": ["cp", "/proc/self/attr/current", "/tmp/hooked"]}]}
linux["mountLabel"] = "system_u:object_r:container_file_t:s0:c1,c2"'
    # A pipe, because containers may not write to a file of the host.
    runtime --systemd-cgroup run --init --detach --bundle bundle pysbx-one </dev/null > >(cat >out 3>&-) 2>&1 3>&-
    wait_for eval '[[ $(grep -ao container_t:s0:c1,c2 out | wc -l) == 2 ]]'
    grep -qx 'exec: ' out
    pid=$(pid_of pysbx-one)
    wait_for eval '[[ $(</proc/$pid/comm) == init ]]'
    expect 0 cmp "/proc/$pid/attr/current" /proc/self/attr/current
    expect 0 runtime exec pysbx-one cat /proc/self/attr/current
    [[ ${output%$'\n'} == system_u:system_r:container_t:s0:c1,c2 ]]
}

# bats test_tags=root
@test "run: a label unknown to the policy is an error that Podman recognizes" {
    make_bundle true
    edit_config 'process["selinuxLabel"] = "system_u:system_r:no_such_t:s0"'
    fails 1 "process.selinuxLabel: 'system_u:system_r:no_such_t:s0'" runtime --systemd-cgroup run --bundle bundle pysbx-one
    [[ $stderr == *'`/proc/self/attr/'* ]]
}

# bats test_tags=root,all
@test "exec: a process with a label for this process" {
    make_bundle sleep 1000
    chcon --recursive --type container_file_t bundle/rootfs
    edit_config 'process["selinuxLabel"] = "system_u:system_r:container_t:s0:c1,c2"
linux["mountLabel"] = "system_u:object_r:container_file_t:s0:c1,c2"'
    start_bundle pysbx-one
    jq '.process | .selinuxLabel = "system_u:system_r:container_t:s0:c1" | .args = ["cat", "/proc/self/attr/current"]' \
        bundle/config.json >process.json
    expect 0 runtime exec --process process.json pysbx-one
    [[ ${output%$'\n'} == system_u:system_r:container_t:s0:c1 ]]
}
