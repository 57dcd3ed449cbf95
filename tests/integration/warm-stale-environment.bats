#!/usr/bin/env bats
# A snapshot depends on its surroundings at build time: variables, options, limits, the user, kernel and runtime. If one
# of them differs, the program sees the same values as in a fresh interpreter.
# images: python
# once: variables are compared in the same way in both modes

load ../lib/warm-stale.bash

SEEN='import look; print(look.seen)'

@test "a variable that an import reads has another value, or none" {
    preload_module greeting <<<'import os; text = os.environ.get("GREETING", "unset")'
    warm_says unset -c "$SAY"
    environment GREETING=
    now_says "" -c "$SAY"
    environment OTHER=variable
    now_says "" -c "$SAY"
}

@test "a mount hides a file of the kernel that an import reads" {
    preload_module looks <<<'import ctypes
first = open("/proc/cpuinfo").readline().split()[0]
buffer = ctypes.create_string_buffer(99)
libc = ctypes.CDLL(None)
number = libc.open(b"/proc/meminfo", 0)
libc.read(number, buffer, 8)
libc.close(number)'
    cold -c 'import looks' # writes the compiled form
    for path in /proc/cpuinfo /proc/meminfo; do
        expect 0 either -c 'import looks; print(looks.first, looks.buffer.value)'
        warm_says "processor b'MemTotal'" -c 'import looks; print(looks.first, looks.buffer.value)'
        echo "another file" >other
        configure 'mount(arguments[0], arguments[1])' "$path" "$PWD/other"
        fails 1 "a mount hides '$path', or hides it no longer" warm -c 'import looks'
        expect 0 cold -c 'import looks; print(looks.first, looks.buffer.value)'
        found=$output
        prints "$found" either -c 'import looks; print(looks.first, looks.buffer.value)'
        configure 'unmount(arguments[0])' "$path"
    done
}

@test "an import that runs uname, as platform.processor() does, reads no other variable" {
    preload_module greeting <<<'import platform
platform.processor()
text = "same"'
    warm_says same -c "$SAY"
    environment HOSTNAME=other OTHER=variable
    warm_says same -c "$SAY"
}

@test "flags and variables of the interpreter change the imports" {
    preload_module greeting <<<'import sys
text = (__debug__, sys.flags.optimize, sys.flags.utf8_mode, sys.flags.dev_mode, sys.flags.isolated, sys.flags.no_site,
    sys.flags.dont_write_bytecode, sys.flags.ignore_environment, sys.warnoptions, sys._xoptions, greet.__doc__) if (
    greet := type("greet", (), {"__doc__": "a text"})) else None'
    for flags in '' -O -OO -B -s '-W error' '-W ignore::DeprecationWarning' '-X utf8' '-X dev' '-b' '-bb' '-q' '-u' '-S'; do
        # shellcheck disable=SC2086 # words
        same $flags -c "$SAY"
    done
    for flags in PYTHONOPTIMIZE=1 PYTHONUTF8=1 PYTHONWARNINGS=error PYTHONDEVMODE=1 PYTHONDONTWRITEBYTECODE=1 PYTHONNOUSERSITE=1; do
        environment "$flags"
        same -c "$SAY"
        configure 'process["env"] = [e for e in process["env"] if not e.startswith(arguments[0])]' "${flags%%=*}"
    done
}

@test "PYTHONHASHSEED: the requested seed" {
    environment PYTHONHASHSEED=42
    same -c 'print(hash("text"), sorted({"a", "b", "c"}), list({"a", "b", "c", "d"}))'
    environment PYTHONHASHSEED=43
    same -c 'print(hash("text"))'
    environment PYTHONHASHSEED=0
    same -c 'print(hash("text"), __import__("sys").flags.hash_randomization)'
}

@test "a duplicate variable: the last one is in force, also for the snapshot" {
    for seed in 1 2; do
        configure 'process["env"] = [e for e in process["env"] if not e.startswith("PYTHONHASHSEED=")]
process["env"] += ["PYTHONHASHSEED=" + arguments[0], "PYTHONHASHSEED=" + str(3 - int(arguments[0]))]' "$seed"
        same -c 'import os; print(hash("text"), os.environ["PYTHONHASHSEED"])'
        output_has " $((3 - seed))"
    done
}

@test "a different locale" {
    for variable in LC_ALL=C LC_ALL=C.UTF-8 LC_ALL=POSIX LANG=C.UTF-8 LC_CTYPE=C PYTHONCOERCECLOCALE=0 PYTHONIOENCODING=latin-1:replace; do
        environment "$variable"
        same -c 'import locale, sys
print(sys.stdout.encoding, sys.stdout.errors, sys.stdin.encoding, sys.stderr.errors, sys.getfilesystemencoding(),
    sys.getfilesystemencodeerrors(), locale.setlocale(locale.LC_CTYPE), locale.getpreferredencoding(), sys.flags.utf8_mode)
print(ascii(sys.argv))' $'\xe4' 'ü'
        configure 'process["env"] = [e for e in process["env"] if not e.startswith(arguments[0])]' "${variable%%=*}"
    done
}

@test "a different time zone" {
    for zone in '' UTC ABC-3 XYZ+5DEF; do
        environment "TZ=$zone"
        same -c 'import time; print(time.tzname, time.timezone, time.localtime(0).tm_hour)'
    done
}

@test "limits: the stack of threads, descriptors" {
    configure 'process["rlimits"] = [{"type": "RLIMIT_STACK", "soft": 1 << 20, "hard": 1 << 20}]'
    same -c 'import resource; print(resource.getrlimit(resource.RLIMIT_STACK))'
    preload_module limits <<<'import os, resource; text = (os.sysconf("SC_OPEN_MAX"), resource.getrlimit(resource.RLIMIT_NOFILE))'
    same -c 'import limits; print(limits.text)'
    configure 'process["rlimits"] = [{"type": "RLIMIT_NOFILE", "soft": 33, "hard": 44}]'
    same -c 'import limits, resource; print(limits.text, resource.getrlimit(resource.RLIMIT_NOFILE))'
    output_is "(33, (33, 44)) (33, 44)"
}

# Assert that a program sees the values of its own container that an import has asked for. CHANGE is a change of the
# configuration, EXPRESSION what the import asks.
asks() {
    local expression=$1 change=$2
    preload_module asking <<<"import os, resource, shutil; text = ($expression)"
    same -c 'import asking; print(asking.text)'
    cp bundle/config.json common.json
    configure "$change"
    cold -c 'import asking; print(asking.text)' >expected
    expect 0 either -c 'import asking; print(asking.text)'
    output_is "$(<expected)"
    cp common.json bundle/config.json
}

@test "limits, umask and scheduler that an import asks for" {
    local -A limits=([DATA]=500000000 [NPROC]=5000 [CORE]=1000 [FSIZE]=500000000 [MEMLOCK]=50000 [CPU]=600)
    for name in "${!limits[@]}"; do
        asks "resource.getrlimit(resource.RLIMIT_$name)" \
            "process['rlimits'] = [{'type': 'RLIMIT_$name', 'soft': ${limits[$name]}, 'hard': ${limits[$name]}}]"
    done
    module mask.py <<<'import os; value = os.umask(0); os.umask(value)'
    asks '__import__("mask").value' 'process["user"]["umask"] = 0o77'
    asks 'os.sched_getscheduler(0)' 'process["scheduler"] = {"policy": "SCHED_BATCH"}'
}

@test "limits: the address space that an import asks for is the builder's own, unless the container has one" {
    preload_module asking <<<'import resource; text = resource.getrlimit(resource.RLIMIT_AS)'
    same -c 'import asking; print(asking.text)'
    configure_warm '{"retryAfter": 0, "template": {"memory": 1000000000}}'
    rm -rf "$(warm_store)"
    is_cold_because "the imports ask for the limit of the address space (RLIMIT_AS)"
    configure 'process["rlimits"] = [{"type": "RLIMIT_AS", "soft": 1 << 33, "hard": 1 << 33}]'
    same -c 'import asking; print(asking.text)'
    configure 'process["rlimits"] = [{"type": "RLIMIT_AS", "soft": 1 << 34, "hard": 1 << 34}]'
    prints "(17179869184, 17179869184)" either -c 'import asking; print(asking.text)'
}

@test "a mount point that an import looks for" {
    mkdir -p root/mnt
    asks 'os.path.ismount("/mnt")' 'mount("/mnt", "tmpfs", kind="tmpfs")'
}

@test "a device that an import looks for" {
    needs_root
    asks 'os.path.exists("/dev/letters")' \
        'config["linux"]["devices"] = [{"path": "/dev/letters", "type": "c", "major": 1, "minor": 5, "fileMode": 438}]'
}

@test "imports that ask for the space in a file system, the kind of a stream, or the program's directory: no snapshot" {
    local -A modules=(
        ["ask how much space is left in '/dev/shm'"]='shutil.disk_usage("/dev/shm")'
        ["ask what kind of file a standard stream is"]='os.path.sameopenfile(1, 2)'
        ["look at the first item of sys.path"]='"" in sys.path'
        ["look at the first item of sys.path, which"]='sys.path[0]'
    )
    for reason in "${!modules[@]}"; do
        preload_module asking <<<"import os, shutil, sys; ${modules[$reason]}"
        is_cold_because "the imports $reason"
    done
}

@test "the share of CPUs, from which libraries derive their number of threads: a separate snapshot" {
    needs_root # a user's plan needs the controller
    program auto 'pass'
    for quota in -1 50000 100000; do
        configure 'config["linux"].setdefault("resources", {})["cpu"] = {"quota": int(arguments[0]), "period": 100000}' "$quota"
        runtime plan --bundle bundle | python3 -c 'import json, sys; print(json.load(sys.stdin)["warm"]["key"])' >>keys
    done
    [[ $(sort -u keys | wc -l) == 3 ]]
}

@test "what belongs to the key of a snapshot, and what does not" {
    needs_root "has other ids than its own"
    program auto 'pass'
    cp bundle/config.json common.json
    while read -r change; do
        cp common.json bundle/config.json
        configure "$change"
        expect 0 runtime plan --bundle bundle
        python3 -c 'import json, sys; print(json.loads(sys.argv[1])["warm"]["key"])' "$output" >>keys
    done <<'CHANGES'
process["args"] += ["argument"]
process["args"] = ["python3", "-m", "json.tool"]
process["env"].append("OTHER=2"); process["env"].reverse()
process["args"][0] = "/bin/python3"
process["args"].insert(1, "-I")
process["args"].insert(1, "-O")
process["args"].insert(1, "-Werror")
process["args"].insert(1, "-Xdev")
process["env"].append("LANG=de_DE.UTF-8")
process["user"]["uid"] = 1
process["user"]["gid"] = 1
process["rlimits"] = [{"type": "RLIMIT_STACK", "soft": 1 << 20, "hard": 1 << 20}]
seccomp("ALLOW", rule("ERRNO", "acct"))
linux["resources"]["cpu"] = {"cpus": "0"}
config["annotations"]["run.pysbx.preload"] = "json"
CHANGES
    [[ $(head -n 3 keys | sort -u | wc -l) == 1 && $(sort -u keys | wc -l) == 13 ]]
}

@test "limits: an address space too small for an interpreter ends it like a fresh one, and nothing of it has run" {
    grep -q __asan_init "$RUNTIME" && skip "the sanitizers' own memory does not fit either"
    configure 'process["rlimits"] = [{"type": "RLIMIT_AS", "soft": 4 << 20, "hard": 4 << 20}]'
    expect '[1-9]*' cold -c 'print("ran")'
    output_is ""
    expect "$status" either -c 'print("ran")'
    output_is ""
}

@test "limits: a container that is too small for a snapshot does not use a larger one's" {
    grep -q __asan_init "$RUNTIME" && skip "the sanitizers' own memory does not fit either"
    preload_a_clock
    configure 'process["rlimits"] += [{"type": "RLIMIT_AS", "soft": 4 << 20, "hard": 4 << 20}]'
    expect '[1-9]*' either -c "$SAY"
    configure 'process["rlimits"].pop()'
    warm_says "$before" -c "$SAY"
}

@test "a different kernel" {
    preload_module greeting <<<'import os; text = os.uname().release'
    warm_says "$(uname -r)" -c "$SAY"
    runtime() { setarch --uname-2.6 "$RUNTIME" "$@"; }
    now_says "$(setarch --uname-2.6 uname -r)" -c "$SAY"
}

@test "after a reboot" {
    needs_root "mounts over the kernel's file"
    preload_a_clock
    echo another >boot_id
    runtime() {
        unshare --mount sh -c 'mount --bind boot_id /proc/sys/kernel/random/boot_id && exec "$@"' sh "$RUNTIME" "$@"
    }
    expect 0 warm -c "$SAY"
    [[ $output != "$before" ]]
    now_says "$output" -c "$SAY"
}

@test "another build of the same version of the runtime: the snapshot has mapped a different agent" {
    preload_a_clock
    use_other_build
    expect 0 warm -c "$SAY"
    [[ $output != "$before" ]]
    now_says "$output" -c "$SAY"
}

# The builder may write to neither, so a program that may gets no snapshot of such imports.
@test "a volume, or /dev/shm, that only some containers may write to" {
    mkdir --mode=1777 shared
    for place in /data /dev/shm; do
        preload_module look <<<"import os; seen = os.access('$place', os.W_OK)"
        for options in ro rw ro; do
            configure 'unmount(arguments[0]); mount(arguments[0], arguments[1], "bind", arguments[2])' "$place" "$PWD/shared" "$options"
            expect 0 either -c "$SEEN"
            output_is "$([[ $options == ro ]] && echo False || echo True)"
        done
        now_says False -c "$SEEN"
    done
}

# The host's, or that of another container: --ipc, or a volume.
@test "/dev/shm that has something that an import did not find" {
    local -A looks=(
        [exists]='os.path.exists("/dev/shm/state")'
        [list]='os.listdir("/dev/shm")'
        [memory]='shared_memory.SharedMemory("state").size > 0'
    )
    mkdir shared
    configure 'unmount("/dev/shm"); mount("/dev/shm", arguments[0], "bind")' "$PWD/shared"
    for look in "${!looks[@]}"; do
        rm -f shared/state
        preload_module "$look" <<<"import os
from multiprocessing import shared_memory
try: seen = ${looks[$look]}
except FileNotFoundError: seen = False"
        warm_says "$(cold -c "import $look; print($look.seen)")" -c "import $look; print($look.seen)"
        echo state >shared/state
        expect 0 either -c "import $look; print($look.seen)"
        [[ $output == True || $output == "['state']" ]]
    done
}

@test "/dev/shm with another mode, or none" {
    module greeting.py <<<'import os; text = os.path.isdir("/dev/shm") and os.access("/dev/shm", os.W_OK)'
    configure 'process["user"] = {"uid": 1000, "gid": 1000}'
    preload greeting
    warm_says True -c "$SAY"
    configure 'unmount("/dev/shm")
mount("/dev/shm", "tmpfs", "mode=755", kind="tmpfs")'
    prints False either -c "$SAY"
}

@test "the CPUs that the caller may use are others, in the same number" {
    local -a cpus
    mapfile -t cpus < <(python3 -c 'import os; print(*sorted(os.sched_getaffinity(0)), sep="\n")')
    ((${#cpus[@]} > 1)) || skip "this machine has one CPU"
    preload_module greeting <<<'import os; text = str(os.sched_getaffinity(0))'
    taskset -cp "${cpus[0]}" $BASHPID
    warm_says "{${cpus[0]}}" -c "$SAY"
    taskset -cp "${cpus[1]}" $BASHPID
    now_says "{${cpus[1]}}" -c "$SAY"
}

# The runtime does not know the system call, or a snapshot cannot contain the answer.
@test "imports that ask the kernel what no question covers: no snapshot, and the reason" {
    module calls.py <<<'import ctypes
libc = ctypes.CDLL(None, use_errno=True)'
    while read -r module reason; do
        read -r text
        preload_module "$module" <<<"from calls import libc
$text"
        is_cold_because "the imports $reason"
    done <<'EOF'
privileges ask for or change an attribute of the process by prctl, which a snapshot does not contain
libc.prctl(39, 0, 0, 0, 0)
tree make system call 428, whose result may differ between containers
libc.syscall(428, -100, b"/etc", 0)
interfaces ask a device, a file system or a network interface by ioctl
import fcntl, socket; s = socket.socket(); fcntl.ioctl(s, 0x8912, bytes(16)); s.close()
other ask for another process, or send it a signal
libc.kill(2, 0)
thread look at '/proc/1/task/2', which is another process or thread in each container
import os; os.path.exists("/proc/self/task/2")
namespace look at '/proc/1/timens_offsets', which is not the same in all containers
open("/proc/self/timens_offsets").read()
uptime ask for the load of the machine, which differs at each look
libc.sysinfo(bytes(200))
EOF
}

@test "imports that ask about themselves alone, or send to themselves: the snapshot is used" {
    preload_module asks <<<'import ctypes, os, socket
libc = ctypes.CDLL(None)
libc.prctl(15, open("/proc/self/comm", "rb").read().strip(), 0, 0, 0)
libc.syscall(4, 8, 0) # stat(2) of a bad address
os.kill(0, 0)
os.kill(os.getpid(), 0)
one, other = socket.socketpair()
one.send(b"x")
one.close()
other.close()'
    expect 0 warm -c 'import asks'
}

@test "imports that look at a standard stream, in Python, in C or by its path: no snapshot, and the reason" {
    for look in 'os.lseek(0, 0, 1)' 'os.stat(0)' 'os.stat("/dev/stdin")' 'os.readlink("/proc/self/fd/1")' \
        'os.get_blocking(1)' 'select.select([], [1], [], 0)' 'sys.stdin.seekable()' 'ctypes.CDLL(None).fstat(2, bytes(200))'; do
        preload_module looks <<<"import ctypes, os, select, sys
try: $look
except OSError: pass"
        is_cold_because "the imports ask what kind of file a standard stream is"
    done
    # A program that the imports start has streams of its own.
    preload_module looks <<<'import subprocess; subprocess.run(["uname", "-p"], stdin=subprocess.DEVNULL, capture_output=True)'
    expect 0 warm -c 'import looks'
}

@test "variables that the C library reads for itself" {
    preload_module greeting <<<'import ctypes
libc = ctypes.CDLL(None)
libc.getdate(b"x")
words = (ctypes.c_void_p * 4)()
libc.wordexp(b"$OWN", words, 0)
text = ctypes.c_int.in_dll(libc, "getdate_err").value, words[0] is not None'
    warm_says "(1, False)" -c "$SAY"
    environment DATEMSK=/none
    prints "(3, False)" either -c "$SAY"
    environment OWN=word
    now_says "(3, True)" -c "$SAY"
}
