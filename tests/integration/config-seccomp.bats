#!/usr/bin/env bats
# linux.seccomp: config-linux.md "Seccomp", seccomp(2), seccomp_unotify(2).
# once: except for a test with the tag "user", filters are the same in both modes

load ../lib/bundle.bash

# Print the source of the bundle's filter: "compiled" or "cache".
origin_is() {
    tells "it['process']['seccomp']['origin'] == '$1'" runtime plan --bundle bundle
}

# Make a bundle with a profile that only this test uses, and put its filter into the cache.
make_cached_bundle() {
    make_bundle sh -c 'hostname new || echo refused'
    configure 'seccomp("ALLOW", rule("ERRNO", "sethostname"), rule("ERRNO", "acct", errnoRet=int(arguments[0])))' $((BATS_TEST_NUMBER * 100 + RANDOM % 100))
    local cache=$RUNTIME_STATE/.cache/seccomp
    find "$cache" -type f 2>/dev/null | sort >entries || true
    prints refused run_box
    cached=$(find "$cache" -type f | sort | comm -13 entries -)
    [[ -f $cached ]]
    origin_is cache
}

@test "SCMP_ACT_ERRNO: EPERM, or the number of the rule" {
    make_bundle sh -c 'mkdir /dev/shm/a; rmdir /dev/shm'
    configure 'seccomp("ALLOW", rule("ERRNO", "mkdir", "mkdirat"), rule("ERRNO", "rmdir", "unlinkat", errnoRet=28))'
    fails 1 "'/dev/shm/a': Operation not permitted" run_box
    stderr_has "'/dev/shm': No space left on device"
}

@test "errnoRet: up to 4094, the highest of libseccomp, or 65535 for a tracer" {
    make_bundle_with 'seccomp("ALLOW", rule("ERRNO", "mkdir", errnoRet=4094), rule("TRACE", "rmdir", errnoRet=65535))' true
    expect 0 run_box
}

@test "SCMP_ACT_KILL_PROCESS: ends the program by SIGSYS" {
    make_bundle mkdir /dev/shm/a
    for action in KILL_PROCESS KILL_THREAD KILL; do
        configure 'seccomp("ALLOW", rule(arguments[0], "mkdir", "mkdirat"))' "$action"
        expect $((128 + 31)) run_box
    done
}

@test "SCMP_ACT_TRAP: is a signal that the program may handle" {
    make_bundle sh -c 'trap "echo caught" SYS; hostname new; mkdir /dev/shm/a; echo "$?"'
    configure 'seccomp("ALLOW", rule("TRAP", "mkdir", "mkdirat"))'
    expect 0 run_box
    [[ ${lines[-1]} == $((128 + 31)) ]]
}

@test "SCMP_ACT_LOG, SCMP_ACT_TRACE: allowed and logged; ENOSYS without a tracer" {
    make_bundle sh -c 'mkdir /dev/shm/a && echo made; rmdir /dev/shm/a'
    configure 'seccomp("ALLOW", rule("LOG", "mkdir", "mkdirat"), rule("TRACE", "rmdir", "unlinkat"))'
    expect 1 run_box
    output_is made
    stderr_has "Function not implemented"
}

@test "defaultAction: an allow-list; other calls get defaultErrnoRet" {
    make_bundle sh -c 'hostname new'
    # All calls of a shell, except the ones under test.
    configure 'seccomp("ERRNO", rule("ALLOW", *arguments), defaultErrnoRet=19)' \
        read write writev open openat close stat fstat newfstatat lstat statx access faccessat faccessat2 mmap mprotect \
        munmap brk rt_sigaction rt_sigprocmask rt_sigreturn ioctl fcntl dup dup2 dup3 pipe pipe2 fork vfork clone clone3 \
        execve exit exit_group wait4 arch_prctl set_tid_address set_robust_list rseq prlimit64 getrandom getpid getppid \
        getuid geteuid getgid getegid getpgrp setpgid setsid getcwd uname readlink readlinkat futex prctl capset capget \
        setuid setgid setgroups setresuid setresgid close_range umask chdir lseek poll sched_getaffinity sysinfo \
        getresuid getresgid sendto recvfrom sendmsg recvmsg tgkill gettid
    fails 1 "No such device" run_box
}

@test "names unknown to the kernel are skipped, unless the profile says that they fail" {
    make_bundle_with 'seccomp("ALLOW", rule("ERRNO", "no_such_call", "acct"))' echo ran
    prints ran run_box
    configure 'config["annotations"] = {"run.oci.seccomp_fail_unknown_syscall": "1"}'
    fails 1 no_such_call run_box
    check_untouched
}

@test "a call newer than the profile gets ENOSYS, not the default error" {
    [[ -e /usr/include/x86_64-linux-gnu/asm/unistd_64.h ]] || skip "needs the kernel's list of system calls of x86_64"
    make_python_bundle python3 -c 'import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
for number in 5000, 163:
    libc.syscall(number, 0)
    print(errno.errorcode[ctypes.get_errno()])'
    # All calls of a kernel from before the newest call of the list, except acct (163 on x86_64).
    configure 'import subprocess
names = subprocess.run(["sed", "-n", r"s/^#define __NR_\([a-z0-9_]*\) .*/\1/p", arguments[0]], capture_output=True, text=True).stdout.split()
seccomp("ERRNO", rule("ALLOW", *[name for name in names if name != "acct"]))' /usr/include/x86_64-linux-gnu/asm/unistd_64.h
    prints $'ENOSYS\nEPERM' run_box
}

@test "a profile without noNewPrivileges needs privilege, and applies to the program" {
    make_bundle sh -c 'mkdir /dev/shm/a; grep Seccomp: /proc/self/status'
    configure 'process["noNewPrivileges"] = False; seccomp("ALLOW", rule("ERRNO", "mkdir", "mkdirat"))'
    prints $'Seccomp:\t2' run_box
    stderr_has "Operation not permitted"
}

@test "exec: the profile applies to programs of a running container" {
    make_bundle_with 'seccomp("ALLOW", rule("ERRNO", "mkdir", "mkdirat", errnoRet=28))' sleep 1000
    start_box
    fails 1 "No space left on device" runtime exec box mkdir /dev/shm/a
}

@test "a filter that allows no socket calls: the reason for a failed execve still reaches the caller" {
    make_bundle /bin/bad
    printf '#!/missing\n' >bundle/rootfs/bin/bad
    chmod 0755 bundle/rootfs/bin/bad
    configure 'seccomp("ALLOW", rule("ERRNO", "sendto", "sendmsg"))'
    create_box
    fails 1 'exec `/bin/bad`: its interpreter or dynamic loader is missing' runtime start box
    runtime delete --force box
    fails 1 'exec `/bin/bad`: its interpreter or dynamic loader is missing' run_box
}

@test "exec: if programs may trace entering processes, the filter must allow new processes and has no listener" {
    needs_root "the runtime of a user gives each container a user namespace"
    make_bundle sleep 1000
    configure 'capabilities("CAP_SYS_PTRACE"); seccomp("ALLOW", rule("ERRNO", "clone", "fork", "vfork", "clone3"))'
    start_box
    expect 255 runtime exec box true
    stderr_has "clone the process (its filter must allow that in a container with CAP_SYS_PTRACE): not permitted"
    runtime delete --force box
    configure 'seccomp("ALLOW", rule("KILL_PROCESS", "clone"))'
    start_box
    fails 255 "the process ended before it was ready" timeout 60 "$RUNTIME" exec box true
    runtime delete --force box
    hold "$TESTS/lib/seccomp-agent" "$PWD/agent" "$PWD/state" EXDEV
    wait_for test -S agent
    configure 'seccomp("ALLOW", rule("NOTIFY", "mkdir", "mkdirat"), listenerPath=arguments[0])' "$PWD/agent"
    start_box
    fails 255 "its processes may trace others, and its filter has a listener" runtime exec box true
}

# pidfd_getfd(2): a user other than root has no rights over a process that has become root of its user namespace.
@test "listenerPath: the agent gets the state, the metadata and a listener, and the program sees its answer" {
    needs_root "a user cannot take the listener from a process of another user namespace"
    hold "$TESTS/lib/seccomp-agent" "$PWD/agent" "$PWD/state" EXDEV
    wait_for test -S agent
    make_bundle sh -c 'mkdir /dev/shm/a; echo "$?"'
    configure 'seccomp("ALLOW", rule("NOTIFY", "mkdir", "mkdirat"), listenerPath=arguments[0], listenerMetadata="for the agent")' "$PWD/agent"
    prints 1 run_box
    stderr_has "Invalid cross-device link"
    output=$(<state)
    output_holds 'it["fds"] == ["seccompFd"] and it["metadata"] == "for the agent" and it["pid"] > 0'
    output_holds 'it["state"]["id"] == "box" and it["state"]["status"] == "creating" and it["state"]["pid"] == it["pid"]'
    output_holds "it['ociVersion'].startswith('1.') and it['state']['bundle'] == '$PWD/bundle'"
    # The first call that an agent sees is the program's, also of a filter that catches all by which the runtime could
    # send the listener. The path of its socket may be longer than sun_path.
    mkdir other
    ln -s . "other/$(printf 'd%.0s' {1..120})"
    hold "$TESTS/lib/seccomp-agent" "$PWD/other/agent" "$PWD/other/state" EXDEV
    wait_for test -S other/agent
    make_bundle mkdir /dev/shm/a
    configure 'seccomp("ALLOW", rule("NOTIFY", "mkdir", "mkdirat", "write", "sendmsg"), listenerPath=arguments[0])' \
        "$(echo "$PWD"/other/d*)/agent"
    expect 1 run_box
    stderr_is_empty # what the program says is caught as well
    wait_for test -s other/state
}

@test "listenerPath: is required for SCMP_ACT_NOTIFY, and an agent must listen" {
    make_bundle_with 'seccomp("ALLOW", rule("NOTIFY", "mkdir"))' true
    is_refused "linux.seccomp.listenerPath: needed for the action 'SCMP_ACT_NOTIFY'"
    configure 'seccomp("ALLOW", rule("NOTIFY", "mkdir"), listenerPath="agent")'
    is_refused "linux.seccomp.listenerPath: 'agent' is not an absolute path"
    is_rootless && return
    configure 'seccomp("ALLOW", rule("NOTIFY", "mkdir"), listenerPath="/missing/agent")'
    fails 1 "/missing/agent" run_box
    check_untouched
}

@test "an invalid profile is refused with the position of the error" {
    make_bundle_with 'seccomp("FORGET")' true
    is_refused "linux.seccomp.defaultAction"
    is_refused "linux.seccomp.syscalls[0].action" 'seccomp("ALLOW", rule("PONDER", "mkdir"))'
    configure 'seccomp("ALLOW", rule("ERRNO", "mkdir", args=[{"index": 6, "op": "SCMP_CMP_EQ", "value": 0}]))'
    is_refused "linux.seccomp.syscalls[0].args[0].index"
    for number in -1 4095 5000 65536; do
        configure "seccomp('ALLOW', rule('ERRNO', 'mkdir', errnoRet=$number))"
        is_refused "linux.seccomp.syscalls[0].errnoRet: $number is out of range (0 to 4094)"
        configure "seccomp('ERRNO', defaultErrnoRet=$number)"
        is_refused "linux.seccomp.defaultErrnoRet: $number is out of range (0 to 4094)"
        fails 1 "(0 to 4094)" runtime plan --bundle bundle
    done
    configure 'seccomp("ALLOW", rule("TRACE", "mkdir", errnoRet=65536))'
    is_refused "linux.seccomp.syscalls[0].errnoRet: 65536 is out of range (0 to 65535)"
    is_refused "SCMP_ARCH_ABACUS" 'seccomp("ALLOW", rule("ERRNO", "mkdir"), architectures=["SCMP_ARCH_ABACUS"])'
    is_refused "SECCOMP_FILTER_FLAG_WISH" 'seccomp("ALLOW", rule("ERRNO", "mkdir"), flags=["SECCOMP_FILTER_FLAG_WISH"])'
}

@test "run.oci.seccomp_bpf_data: a program in base64 instead of a profile" {
    allow_annotations run.oci.seccomp_bpf_data
    make_bundle echo ran
    # BPF_RET | BPF_K with SECCOMP_RET_ALLOW
    configure 'import base64, struct
config["annotations"] = {"run.oci.seccomp_bpf_data": base64.b64encode(struct.pack("HBBI", 6, 0, 0, 0x7fff0000)).decode()}'
    origin_is annotation
    prints ran run_box
    is_refused "run.oci.seccomp_bpf_data" 'config["annotations"] = {"run.oci.seccomp_bpf_data": "not base64"}'
}

@test "without libseccomp: the error says what to install" {
    library=$(ldconfig -p | sed -n 's/^.*libseccomp\.so\.2 (libc6,x86-64) => //p')
    make_bundle true
    configure 'seccomp("ALLOW", rule("ERRNO", "acct", errnoRet=int(arguments[0])))' $((3000 + RANDOM % 1000))
    # shellcheck disable=SC2016 # of the inner shell
    fails 1 "install libseccomp 2.5 or later" unshare --mount \
        sh -c 'mount --bind /dev/null "$1" && shift && exec "$@"' sh "$library" "$RUNTIME" run --bundle bundle box
    stderr_has "libseccomp.so.2: file too short"
}

@test "cache: the second container with a profile uses the first one's filter, another profile does not" {
    make_cached_bundle
    prints refused run_box
    configure 'linux["seccomp"]["syscalls"][0]["errnoRet"] = 5'
    origin_is compiled
}

# bats test_tags=user
@test "cache: an entry that is damaged, writable for others, or foreign is not used" {
    make_cached_bundle
    cp -p "$cached" whole
    printf X | dd of="$cached" bs=1 seek=200 conv=notrunc status=none
    origin_is compiled
    head -c 100 whole >"$cached"
    origin_is compiled
    cp -p whole "$cached"
    origin_is cache
    chmod 0644 "$cached"
    origin_is compiled
    chmod 0600 "$cached"
    mv "$cached" "$PWD/moved"
    ln -s "$PWD/moved" "$cached"
    origin_is compiled
    rm "$cached"
    cp -p whole "$cached"
    if ! is_rootless; then
        chown 1000 "$cached"
        origin_is compiled
    fi
    prints refused run_box
}
