#!/usr/bin/env bats
# Sessions that were saved before a reboot of the machine, with the package pysbx. The part "reboot" of `suite` runs the
# tests with the tag "before", reboots the machine, and runs those with the tag "after".

load vm.bash

setup_file() {
    use_package
}

setup() {
    saved=$HOME/before-reboot
}

# bats test_tags=before
@test "a session is saved by path and by name" {
    mkdir -m 0700 "$saved"
    prints None python "$saved" <<'PYTHON'
import pathlib, sys
with Sandbox(warm="require", timeout_sec=300) as session:
    session.put({"data.csv": b"1,2"})
    print(session.run("import decimal, ssl, uuid; x = [decimal.Decimal(41)]").error)
    session.snapshot(pathlib.Path(sys.argv[1], "session"))
    session.snapshot("analysis")
PYTHON
    cp /proc/sys/kernel/random/boot_id "$saved/"
    uname -r >"$saved/kernel"
}

# bats test_tags=after
@test "Sandbox.restore, after a reboot into the same kernel: memory and files are those that were saved" {
    [[ $(</proc/sys/kernel/random/boot_id) != "$(<"$saved/boot_id")" && $(uname -r) == "$(<"$saved/kernel")" ]]
    prints $'([Decimal(\'41\'), 1], \'1,2\') None\n([Decimal(\'41\'), 1], \'1,2\') None\n2' python "$saved" <<'PYTHON'
import pathlib, sys
drawn = set()
for place in pathlib.Path(sys.argv[1], "session"), "analysis":
    with Sandbox.restore(place, timeout_sec=300) as session:
        done = session.run("x.append(1); x, open('data.csv').read()")
        print(done.value, done.error)
        drawn.add(session.run("str(uuid.uuid4())").value)
print(len(drawn))
PYTHON
}
