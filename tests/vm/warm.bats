#!/usr/bin/env bats
# Warm starts under SELinux, enforcing. A restored program has the label that execve would have given it, and no
# additional right; contrib/docs/pages/how-to/selinux.md.

load vm.bash

setup_file() {
    [[ $(getenforce) == Enforcing ]] || skip "SELinux is not enforcing"
}

setup() {
    begin_test
    import_python
}

# Podman with a Python that is restored, or does not start at all; the same, cold.
run_warm() {
    podman run --rm --network none --annotation run.pysbx.warm=require "$@"
}

run_cold() {
    podman run --rm --network none --annotation run.pysbx.warm=off "$@"
}

# Make ./bundle with a Python that starts warm, or not at all, and has a label.
make_python_bundle() {
    rm -rf bundle
    mkdir -p bundle/rootfs
    tar --extract --file "$("$TESTS/lib/image" python)" -C bundle/rootfs --no-same-owner --exclude './dev/*'
    make_bundle "$@"
    chcon --recursive --type container_file_t bundle/rootfs
    edit_config 'process["selinuxLabel"] = "system_u:system_r:container_t:s0:c1,c2"
linux["mountLabel"] = "system_u:object_r:container_file_t:s0:c1,c2"
config["mounts"].append({"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"})
config["annotations"] = {"run.pysbx.warm": arguments[0]}' "${warm:-require}"
}

# Everything that a program can learn about its label, and the labels of its files.
readonly LABELS='
import ctypes, mmap, os, subprocess
def label_of_file(path):
    return os.getxattr(path, "security.selinux").rstrip(b"\0").decode()
def key_label(key):
    label = ctypes.create_string_buffer(256)
    KEYCTL_GET_SECURITY, keyctl = 17, 250
    assert ctypes.CDLL(None).syscall(keyctl, KEYCTL_GET_SECURITY, key, label, 256) > 0
    return label.value.decode()
for name in "current", "exec", "fscreate", "keycreate", "sockcreate":
    print(name, repr(open(f"/proc/self/attr/{name}").read()))
print("child", subprocess.run(["cat", "/proc/self/attr/current"], stdout=subprocess.PIPE).stdout)
open("/tmp/made", "w").close()
print("file", label_of_file("/tmp/made"), label_of_file("/usr/bin/python3"))
SESSION_KEYRING = -3
print("keys", key_label(SESSION_KEYRING))
memory = os.memfd_create("memory")
os.truncate(memory, 4096)
mmap.mmap(memory, 4096)[0] = 1
print("memory file", label_of_file(f"/proc/self/fd/{memory}"))'

@test "podman run, warm: the label of containers, with unique categories, from one snapshot" {
    local program='print(hash("the seed of this snapshot"), open("/proc/self/attr/current").read().rstrip("\0\n"))'
    expect 0 run_warm "$PYTHON" python3 -c "$program"
    read -r seed label <<<"$output"
    [[ $label == system_u:system_r:container_t:s0:c*,c* ]]
    expect 0 run_warm "$PYTHON" python3 -c "$program"
    [[ $output == "$seed "* && $output == *:container_t:s0:c*,c* && $output != *"$label" ]]
    expect 0 run_cold "$PYTHON" python3 -c "$program"
    [[ $output != "$seed "* ]]
}

@test "podman run, warm, with a startContainer hook: the hook has the label before the program" {
    local program='print(hash("the seed of this snapshot")); print(open("/scratch/hooked").read(), end="")
print(open("/proc/self/attr/current").read().rstrip("\0\n"))'
    expect 0 run_warm "$PYTHON" python3 -c 'print(hash("the seed of this snapshot"))'
    local seed=$output
    make_hook 'exec >/scratch/hooked 2>&1; tr "\0" "\n" </proc/self/attr/current'
    expect 0 run_hooked --annotation run.pysbx.warm=require "$PYTHON" \
        python3 -c "$program"
    [[ ${lines[0]} == "$seed" && ${lines[1]} == system_u:system_r:container_t:s0:c*,c* ]]
    [[ ${lines[2]} == "${lines[1]}" && ${#lines[@]} == 3 ]]
}

# bats test_tags=root,all
@test "podman run, with a startContainer hook: the hook has the label too if the snapshot does not fit any more" {
    mkdir "$HOME/given"
    echo "$HOME/given" >>"$BATS_TEST_TMPDIR/unlabelled"
    echo 'value = 1' >"$HOME/given/changing.py"
    chmod -R a+rX "$HOME/given"
    local -a options=(--annotation run.pysbx.preload=changing --env PYTHONPATH=/given --volume "$HOME/given:/given:z")
    expect 0 run_warm "${options[@]}" "$PYTHON" python3 -c 'import changing'
    echo 'value = 23' >"$HOME/given/changing.py"
    make_hook 'exec >/scratch/hooked 2>&1; tr "\0" "\n" </proc/self/attr/current'
    expect 0 run_hooked "${options[@]}" "$PYTHON" python3 -c '
import changing
print(changing.value)
print(open("/scratch/hooked").read(), end="")
print(open("/proc/self/attr/current").read().rstrip("\0\n"))'
    [[ ${lines[0]} == 23 && ${lines[1]} == system_u:system_r:container_t:s0:c*,c* ]]
    [[ ${lines[2]} == "${lines[1]}" && ${#lines[@]} == 3 ]]
}

@test "podman run, warm and cold: the same labels of the process, its children, its files, its keys" {
    local -a options=(--security-opt "label=level:s0:c100,c200" --tmpfs /tmp)
    expect 0 run_cold "${options[@]}" "$PYTHON" python3 -c "$LABELS"
    local cold=$output
    [[ $cold == *:container_t:s0:c100,c200* ]]
    prints "$cold" run_warm "${options[@]}" "$PYTHON" python3 -c "$LABELS"
    prints "$cold" run_warm --security-opt no-new-privileges "${options[@]}" "$PYTHON" python3 -c "$LABELS"
}

# bats test_tags=root,all
@test "podman run, warm: memory of the snapshot can be protected and used as usual" {
    prints "to the end" run_warm --annotation run.pysbx.preload=ctypes,threading,decimal "$PYTHON" python3 -c '
import ctypes, gc, threading
libc = ctypes.CDLL(None, use_errno=True)
PAGE, READ, WRITE, count = 4096, 1, 2, 0
for line in open("/proc/self/maps"):
    fields = line.split()
    if "/pysbx-runtime/warm/" in line and fields[1].startswith("rw"):
        start = ctypes.c_void_p(int(fields[0].split("-")[0], 16))
        assert libc.mprotect(start, PAGE, READ | WRITE) == 0, (line, ctypes.get_errno())
        count += 1
threads = [threading.Thread(target=gc.collect) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 0)()
print("to the end" if count else "no memory of a snapshot")'
}

# bats test_tags=root,all
@test "podman exec, warm: the label of the container" {
    podman run --detach --name sleeper --network none --annotation run.pysbx.warm=require "$PYTHON" \
        python3 -c 'import signal; signal.pause()' >/dev/null
    local label seed program='print(hash("seed")); print(open("/proc/self/attr/current").read().rstrip("\0\n"))'
    label=$(podman inspect --format '{{.ProcessLabel}}' sleeper)
    expect 0 podman exec sleeper python3 -c "$program"
    [[ ${lines[1]} == "$label" ]]
    seed=${lines[0]}
    prints "$seed"$'\n'"$label" podman exec sleeper python3 -c "$program"
    prints "$label" tr -d '\0' <"/proc/$(podman inspect --format '{{.State.Pid}}' sleeper)/attr/current"
}

# bats test_tags=root
@test "podman run, warm: categories separate the files of containers" {
    mkdir "$HOME/given"
    echo content >"$HOME/given/file"
    chmod -R a+rX "$HOME/given"
    local program='print(open("/given/file").read().strip())'
    podman run --detach --name sleeper --network none --annotation run.pysbx.warm=require --volume "$HOME/given:/given:Z" \
        "$PYTHON" python3 -c 'import signal; signal.pause()' >/dev/null
    prints content podman exec sleeper python3 -c "$program"
    fails 1 PermissionError run_warm --volume "$HOME/given:/given" "$PYTHON" python3 -c "$program"
    rm -r "$HOME/given"
}

# bats test_tags=root,all
@test "podman run: modules in a volume with categories make no snapshot, because every container would see them" {
    mkdir "$HOME/given"
    echo 'secret = 1' >"$HOME/given/secret.py"
    chmod -R a+rX "$HOME/given"
    local -a options=(--annotation run.pysbx.preload=secret --env PYTHONPATH=/given --volume)
    expect 126 run_warm "${options[@]}" "$HOME/given:/given:Z" "$PYTHON" python3 -c 'import secret'
    stderr_has "labelled for one container only"
    prints False run_warm "${options[@]}" "$HOME/given:/given:z" "$PYTHON" python3 -c "$(read_files secret)"
    rm -r "$HOME/given"
}

# bats test_tags=root,all
@test "podman run --security-opt label=type:pysbx_python_t, warm: that domain, and a separate snapshot" {
    prints $'pysbx_python_t\ndenied' run_warm --security-opt label=type:pysbx_python_t "$PYTHON" python3 -c '
import socket
print(open("/proc/self/attr/current").read().split(":")[2])
try:
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
except PermissionError:
    print("denied")'
}

@test "run, plan: if the policy denies a label, or a standard stream, the start is cold, and the reason is reported" {
    make_python_bundle python3 -c \
        'import sys; print(sys.stdin.read(), open("/proc/self/attr/current").read().rstrip("\0\n"))'
    # A pipe, because expect() writes standard error to a file that containers may not use.
    local command='"$RUNTIME" --systemd-cgroup run --bundle bundle pysbx-one 2>&1'
    prints " system_u:system_r:container_t:s0:c1,c2" bash -c "$command" </dev/null
    echo content >"$HOME/given"
    expect 1 bash -c "$command" <"$HOME/given"
    rm "$HOME/given"
    output_has "the SELinux policy takes a standard stream away"
    edit_config 'process["selinuxLabel"] = "system_u:system_r:init_t:s0"; config["annotations"] = {}'
    shows "the SELinux policy gives the label to executed programs only" runtime plan --bundle bundle pysbx-one
}

# bats test_tags=all
@test "run --init, warm and cold: the label of the program, which is the child of an init without it" {
    local warm seed program='import os; print(hash("the seed of this snapshot"), os.getpid())
print(open("/proc/1/comm").read() if os.access("/proc/1/comm", os.R_OK) else "no access")'"$LABELS"
    make_python_bundle python3 -c "$program"
    # A pipe, because expect() writes standard error to a file that containers may not use.
    local command='"$RUNTIME" --systemd-cgroup run --init --bundle bundle pysbx-one 2>&1 | cat'
    # Twice: a snapshot is made, or found.
    expect 0 bash -c "$command" </dev/null
    seed=${lines[0]}
    local first=$output
    [[ $seed == *" 2" && $output == *$'\n'"current 'system_u:system_r:container_t:s0:c1,c2"* ]]
    prints "$first" bash -c "$command" </dev/null
    warm=off make_python_bundle python3 -c "$program"
    expect 0 bash -c "$command" </dev/null
    [[ ${lines[0]} != "$seed" && ${output#*$'\n'} == "${first#*$'\n'}" ]]
}
