#!/usr/bin/env bats
# Warm starts through Podman: run, exec, terminals, users, user namespaces, volumes, the default seccomp profile.
# images: python pandas
# once: except for the tests with the tag "user", a snapshot is used in the same way in both modes

load ../lib/podman.bash
load ../lib/warm-config.bash

setup_file() {
    configure_warm
    import_python
}

# Run the Python image warm or not at all.
warm() {
    podman run --rm --network none --annotation run.pysbx.warm=require "$@"
}

@test "podman run: pandas is imported already" {
    import_image pandas --change 'ENV PATH=/usr/bin:/bin'
    expect 0 warm --annotation "run.pysbx.preload=numpy pandas" localhost/pandas:latest python3 -c "$(read_files pandas)
print(pandas.DataFrame({'k': [1, 1, 2], 'v': [1, 2, 3]}).groupby('k').v.sum().to_dict())"
    output_is $'False\n{1: 3, 2: 3}'
    stderr_is_empty
}

# bats test_tags=user
@test "podman run: a restored interpreter, in run after run" {
    local program='print(hash("text"))' seed
    expect 0 warm "$PYTHON" python3 -c "$program"
    seed=$output
    for _ in 1 2 3; do
        prints "$seed" warm "$PYTHON" python3 -c "$program"
    done
    expect 0 podman run --rm --network none --annotation run.pysbx.warm=off "$PYTHON" python3 -c "$program"
    [[ $output != "$seed" ]]
}

# bats test_tags=user
@test "warm.json: the file of Podman's caller is in force, root's or a user's" {
    configure_warm '{"rules": [{"annotation": "some.kind", "value": "science-*", "preload": ["decimal"]}]}'
    prints False podman run --rm --network none --annotation some.kind=science-1 "$PYTHON" \
        python3 -c "$(read_files decimal)"
    configure_warm '{"maxage": 60}'
    fails 126 "warm.json: maxage: unknown key" podman run --rm --network none "$PYTHON" python3 -c 'print(1)'
    configure_warm
}

@test "podman exec: a warm interpreter next to another process" {
    podman run -d --name box --network none --annotation run.pysbx.preload=json "$PYTHON" sh -c 'read line </dev/zero' >/dev/null
    for _ in 1 2 3; do
        prints "True True 0" podman exec box python3 -c 'import os, threading
print(os.getpid() > 1, threading.main_thread().native_id == os.getpid(), os.getppid())'
    done
    expect 4 podman exec -i box python3 - <<<'raise SystemExit(4)'
    prints 1000 podman exec --user 1000 box python3 -c 'import os; print(os.getuid())'
}

# bats test_tags=user
@test "podman run: read-only, no capabilities, no new privileges, the default profile" {
    expect 0 warm --read-only --tmpfs /tmp --user 1000:1000 --cap-drop ALL --security-opt no-new-privileges "$PYTHON" python3 -c '
import re
text = open("/proc/self/status").read()
print(*re.findall(r"(?:CapEff|CapBnd|NoNewPrivs|Seccomp):\s(\S+)", text))
try: open("/x", "w")
except OSError as error: print(error.strerror)
open("/tmp/x", "w")'
    output_is $'0000000000000000 0000000000000000 1 2\nRead-only file system'
}

# bats test_tags=user
@test "podman run: namespaces of the host, shared ones, init" {
    prints True warm --pid host "$PYTHON" python3 -c 'import os; print(os.getpid() > 1)'
    local -a shared=(--uts host)
    [[ ! -d /dev/mqueue ]] || shared+=(--ipc host) # Podman mounts the host's message queues then
    prints ran warm "${shared[@]}" "$PYTHON" python3 -c 'print("ran")'
    prints True podman run --rm --network none --init "$PYTHON" python3 -c 'import os; print(os.getpid() > 1)'
}

@test "podman run --uidmap, --userns auto: ids are mapped" {
    needs_root "rootless mappings are those of Podman's user namespace"
    expect 0 warm --uidmap 0:300000:5000 --gidmap 0:310000:5000 "$PYTHON" python3 -c 'import os; print(os.getuid(), open("/proc/self/uid_map").read().split())'
    output_is "0 ['0', '300000', '5000']"
    prints 0 warm --userns auto "$PYTHON" python3 -c 'import os; print(os.getuid())'
}

# bats test_tags=user
@test "podman run --userns keep-id, nomap" {
    needs_rootless
    expect 0 warm --userns keep-id "$PYTHON" python3 -c 'import os; print(os.getuid())'
    output_is "$(id -u)"
    prints 0 warm --userns nomap "$PYTHON" python3 -c 'import os; print(os.getuid())'
}

# bats test_tags=user
@test "podman run --user: an id without a name, for which Podman writes an /etc/passwd in each container" {
    local program='import os; print(os.getuid(), os.environ["HOME"])'
    for _ in 1 2; do
        prints "4242 /" warm --user 4242 "$PYTHON" python3 -c "$program"
        prints "4242 /" warm --user 4242 --read-only "$PYTHON" python3 -c "$program"
    done
    mkdir modules
    echo 'import os, pwd; name = pwd.getpwuid(os.getuid()).pw_name' >modules/who.py
    local -a who=(-v "$PWD/modules:/modules:ro" -e PYTHONPATH=/modules --annotation run.pysbx.preload=who)
    for _ in 1 2; do
        prints 4242 warm --user 4242 "${who[@]}" "$PYTHON" python3 -c 'import who; print(who.name)'
    done
    local -a named=(--user 4242 --passwd-entry "named:x:4242:0::/tmp:/bin/sh")
    fails 126 "variable 'HOME' has another value" warm "${named[@]}" "$PYTHON" python3 -c "$program"
    prints "4242 /tmp" warm "${named[@]}" "$PYTHON" python3 -c "$program"
}

# bats test_tags=user
@test "podman run -v: modules of a volume are preloaded, and changes are noticed" {
    mkdir modules
    echo 'text = "old"' >modules/greeting.py
    local -a options=(--annotation run.pysbx.preload=greeting -v "$PWD/modules:/modules:ro" -e PYTHONPATH=/modules)
    prints $'False\nold' warm "${options[@]}" "$PYTHON" python3 -c "$(read_files greeting); print(greeting.text)"
    echo 'text = "new"' >modules/greeting.py
    prints new podman run --rm --network none "${options[@]}" "$PYTHON" python3 -c 'import greeting; print(greeting.text)'
}

@test "podman run: a container that changes its own modules sees the change when it starts again" {
    podman create --name box --network none --annotation run.pysbx.preload=colorsys "$PYTHON" python3 -c '
import colorsys
print(colorsys.ONE_THIRD)
with open(colorsys.__file__, "a") as file: file.write("ONE_THIRD += 1\n")' >/dev/null
    expect 0 podman start --attach box
    local first=$output
    expect 0 podman start --attach box
    [[ ${output%%.*} == $((${first%%.*} + 1)) ]]
}

@test "podman run: the reason if a required warm start is impossible" {
    fails 126 "run.pysbx.warm=require" warm "$PYTHON" sh -c true
    fails 126 nowhere warm --annotation run.pysbx.preload=nowhere "$PYTHON" python3 -c pass
    # A missing program is 127, as without a warm start, and one that is not executable is 126.
    fails 127 'not found in $PATH' warm "$PYTHON" python3.99 -c pass
    fails 127 "/no/such/python3" warm "$PYTHON" /no/such/python3 -c pass
    podman run -d --name box --network none --annotation run.pysbx.warm=require "$PYTHON" python3 -c '
import time; time.sleep(1000)' >/dev/null
    fails 127 'not found in $PATH' podman exec box python3.99 -c pass
    touch python3
    expect 126 warm -v "$PWD/python3:/usr/bin/python3.99:ro" "$PYTHON" python3.99 -c pass
    expect 126 podman run --rm --network none -v "$PWD/python3:/usr/bin/python3.99:ro" "$PYTHON" python3.99 -c pass
    prints ran podman run --rm --network none --annotation run.pysbx.preload=nowhere "$PYTHON" python3 -c 'print("ran")'
    stderr_is_empty
}

# bats test_tags=user
@test "podman run --secret, -e: an import reads those of its own container" {
    mkdir mods
    cat >mods/app.py <<'PYTHON'
import ctypes, subprocess
secret = subprocess.run(["cat", "/run/secrets/key"], capture_output=True, text=True).stdout
environ = [word for word in open("/proc/self/environ").read().split("\0") if word.startswith("API_KEY=")]
libc = ctypes.CDLL(None)
libc.getenv.restype = ctypes.c_char_p
variable = libc.getenv(b"API_KEY")
PYTHON
    for name in alpha bravo; do podman secret create "$name" - <<<"key of $name" >&2; done
    for name in alpha bravo; do
        for mode in auto auto off; do
            expect 0 podman run --rm --network none -v "$PWD/mods:/mods:ro" -e PYTHONPATH=/mods -e "API_KEY=$name" \
                --secret "$name,target=key" --annotation run.pysbx.preload=app --annotation "run.pysbx.warm=$mode" \
                "$PYTHON" python3 -c 'import app; print([app.secret, app.environ, app.variable])'
            output_is "['key of $name\\n', ['API_KEY=$name'], b'$name']"
        done
    done
    podman secret rm alpha bravo >&2
}

# bats test_tags=user
@test "podman run -v FILE: a mount point that the image lacks is the reason for a cold start, and is named" {
    echo 'text = "mounted"' >settings.py
    fails 126 "'/app' has changed while the snapshot was made; if the image lacks the mount point '/app/settings.py'" \
        podman run --rm --network none -v "$PWD/settings.py:/app/settings.py:ro" -e PYTHONPATH=/app \
        --annotation run.pysbx.preload=settings --annotation run.pysbx.warm=require "$PYTHON" \
        python3 -c 'import settings; print(settings.text)'
}

logs_have() {
    [[ $(podman logs "$1" 2>&1) == *"$2"* ]]
}

@test "podman container checkpoint --export, restore --import: a program goes on, and any other is refused" {
    needs_root "Podman checkpoints containers of root only"
    command -v criu || skip "Podman wants to know the version of CRIU"
    mkdir modules
    cp "$TESTS/lib/parking.py" modules
    cat >modules/counting.py <<'PROGRAM'
import socket
from parking import park
numbers = []
while True:
    numbers.append(len(numbers))
    with open("/log", "a") as log:
        print(numbers[-1], file=log)
    print(numbers, open("/log").read().split(), socket.gethostname(), flush=True)
    park()
PROGRAM
    expect 0 podman run --detach --name first --hostname one --network none -v "$PWD/modules:/modules" -e PYTHONPATH=/modules \
        --annotation run.pysbx.warm=require --annotation run.pysbx.preload=parking "$PYTHON" python3 -m counting
    wait_for logs_have first "[0] ['0'] one"
    shows '"pages_written"' podman container checkpoint --print-stats first
    state_is first exited
    shows '"restore_time"' podman container restore --print-stats --tcp-established --file-locks first
    wait_for logs_have first "[0, 1] ['0', '1'] one"
    expect 0 podman container checkpoint --export saved.tar.gz --leave-running --tcp-established --file-locks first
    stderr_is_empty
    state_is first running
    podman rm --force --time 0 first
    for name in second third; do
        expect 0 podman container restore --import saved.tar.gz --name "$name"
        wait_for logs_have "$name" "[0, 1, 2] ['0', '1', '2'] one"
    done

    start_sleeper --name sleeper
    fails 125 "its program is no Python that was started warm" podman container checkpoint --export none.tar sleeper
    [[ ! -e none.tar ]]
    state_is sleeper running
}
