#!/usr/bin/env bats
# Exit codes 125, 126, 127 and the texts from which Podman derives them; podman-run(1), "Exit Status".
# once: the exit codes and texts for Podman are the same in both modes

load ../lib/podman.bash

@test "podman run: an unknown option of Podman is 125" {
    expect 125 podman run --no-such-option "$BUSYBOX"
}

@test "podman --runtime-flag: an unknown option of the runtime is 126 and named" {
    fails 126 no-such-option podman --runtime-flag no-such-option run --rm --network none "$BUSYBOX" true
}

@test "podman run: a program not found is 127, and the text says which directories were searched" {
    fails 127 "executable file" podman run --rm --network none "$BUSYBOX" no-such-program
    stderr_has 'not found in $PATH' "no such file or directory"
    fails 127 "/no/such/program" podman run --rm --network none "$BUSYBOX" /no/such/program
}

# Podman accepts any case, docker(1) does not, and its exit codes depend on it.
@test "podman run: error phrases that engines search for are in lower case" {
    expect 127 podman run --rm --network none "$BUSYBOX" no-such-program
    [[ $stderr == *"no such file or directory"* ]]
    expect 126 podman run --rm --network none "$BUSYBOX" /etc/passwd
    [[ $stderr == *"permission denied"* ]]
    expect 126 podman run --rm --network none "$BUSYBOX" /etc
    [[ $stderr == *"is a directory: permission denied"* ]]
    printf '#!/missing\n' >script
    chmod +x script
    expect 126 podman run --rm --network none --volume "$PWD/script:/script:ro" "$BUSYBOX" /script
    [[ $stderr == *"interpreter or dynamic loader is missing: no such file or directory"* ]]
}

@test "podman run: a failed start leaves nothing of the container" {
    expect 127 podman run --rm --name failed --network none "$BUSYBOX" no-such-program
    expect 1 podman container exists failed
    expect 127 podman run -d --name failed --network none "$BUSYBOX" no-such-program
    podman rm failed
}

@test "podman exec: not found is 127, not executable is 126" {
    start_sleeper --name sleeper
    fails 127 "executable file" podman exec sleeper no-such-program
    fails 126 "permission denied" podman exec sleeper /etc/passwd
    expect 126 podman exec sleeper /etc
}

@test "podman exec --workdir: a missing directory is 127 and named" {
    start_sleeper --name sleeper
    fails 127 '/missing' podman exec -w /missing sleeper true
    stderr_has "no such file or directory"
}

@test "podman exec --detach: a failed start is 125" {
    start_sleeper --name sleeper
    expect 125 podman exec -d sleeper no-such-program
}

@test "podman exec: the container survives failed attempts" {
    start_sleeper --name sleeper
    for program in no-such-program /etc/no/such ./neither; do expect 127 podman exec sleeper $program; done
    expect 0 podman exec sleeper true
}

@test "podman run: errors are one plain line, without the format of the log" {
    expect 127 podman run --rm --network none "$BUSYBOX" no-such-program
    [[ $stderr != *'"level"'* && $stderr != *'{'* && $(wc -l <<<"$stderr") == 1 ]]
}

@test "podman --runtime-flag debug: works, with the runtime's own debug output" {
    prints out podman --runtime-flag debug run --rm --network none "$BUSYBOX" echo out
}

@test "podman info: names the runtime and its version" {
    prints "$RUNTIME" podman info --format '{{.Host.OCIRuntime.Path}}'
    shows "version " podman info --format '{{.Host.OCIRuntime.Version}}'
}
