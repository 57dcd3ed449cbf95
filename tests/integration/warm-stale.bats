#!/usr/bin/env bats
# A snapshot depends on its modules, and on the paths where imports found them. If one of them has changed, the program
# sees the same as in a fresh interpreter.
# images: python
# once: a snapshot is compared in the same way in both modes

load ../lib/warm-stale.bash

@test "a module was replaced" {
    preload_module greeting <<<'text = "old"'
    warm_says old -c "$SAY"
    module greeting.py <<<'text = "new"'
    now_says new -c "$SAY"
}

@test "a module was written to, with its previous size and modification time" {
    preload_module greeting <<<'text = "old"'
    warm_says old -c "$SAY"
    touch -r modules/greeting.py stamp
    printf 'text = "new"\n' | dd of=modules/greeting.py conv=notrunc status=none
    touch -r stamp modules/greeting.py
    now_says new -c "$SAY"
}

@test "a module imported by a preloaded one was replaced" {
    module inner.py <<<'text = "old"'
    preload_module greeting <<<'from inner import text'
    warm_says old -c "$SAY"
    module inner.py <<<'text = "new"'
    now_says new -c "$SAY"
}

@test "a module's compiled form was replaced" {
    local form=modules/__pycache__
    preload_module greeting <<<'text = "old"'
    cold -c 'import py_compile; py_compile.compile("/modules/greeting.py")'
    warm_says old -c "$SAY"
    mkdir other
    cp -p modules/greeting.py other/
    # The interpreter accepts it, because it contains the source's time and size.
    cold -c 'import importlib.util, marshal, sys
[name] = __import__("glob").glob("/modules/__pycache__/greeting.*")
with open(name, "r+b") as file:
    head = file.read(16)
    file.seek(0)
    file.write(head + marshal.dumps(compile("text = \"compiled\"", "greeting.py", "exec")))
    file.truncate()'
    [[ -d $form ]]
    now_says compiled -c "$SAY"
}

@test "a module was removed" {
    preload_module greeting <<<'text = "old"'
    warm_says old -c "$SAY"
    rm -r modules/greeting.py
    fails 1 "No module named 'greeting'" either -c "$SAY"
    fails 1 greeting warm -c "$SAY"
}

@test "a module of the same name appeared earlier in the path" {
    mkdir first
    configure 'mount("/first", arguments[0])' "$PWD/first"
    module greeting.py <<<'text = "old"'
    environment PYTHONPATH=/first:/modules
    preload greeting
    warm_says old -c "$SAY"
    echo 'text = "new"' >first/greeting.py
    now_says new -c "$SAY"
}

@test "a missing directory of the path appeared" {
    module greeting.py <<<'text = "old"'
    environment PYTHONPATH=/modules/first:/modules
    preload greeting
    warm_says old -c "$SAY"
    module first/greeting.py <<<'text = "new"'
    now_says new -c "$SAY"
}

@test "an optional module that an import did not find appeared" {
    module package/__init__.py <<<'text = "slow"
try:
    from package.fast import text
except ImportError:
    pass'
    preload package
    warm_says slow -c 'import package; print(package.text)'
    module package/fast.py <<<'text = "fast"'
    now_says fast -c 'import package; print(package.text)'
}

@test "a module was replaced between create and start" {
    preload_module greeting <<<'text = "old"'
    warm_says old -c "$SAY"
    program auto "$SAY"
    runtime create --bundle bundle box </dev/null >output 2>&1
    sleep 0.6 # longer than a check of the files is valid
    module greeting.py <<<'text = "new"'
    expect 0 runtime start box
    wait_for grep -q . output
    [[ $(<output) == new ]]
}

@test "the volume with the modules is another one" {
    preload_module greeting <<<'text = "old"'
    warm_says old -c "$SAY"
    mkdir other
    echo 'text = "new"' >other/greeting.py
    configure 'unmount("/modules"); mount("/modules", arguments[0])' "$PWD/other"
    now_says new -c "$SAY"
}

@test "a volume hides a module of the image" {
    preload colorsys
    path=$(cold -c 'import colorsys; print(colorsys.__file__)')
    echo 'text = "hidden"' >stand-in.py
    warm_says True -c 'import colorsys; print(hasattr(colorsys, "rgb_to_hsv"))'
    configure 'mount(arguments[1], arguments[0])' "$PWD/stand-in.py" "$path"
    now_says hidden -c 'import colorsys; print(colorsys.text)'
}

@test "a module of the same name is in the working directory" {
    mkdir work
    configure 'mount("/work", arguments[0]); process["cwd"] = "/work"' "$PWD/work"
    preload json
    warm_says json -c 'import json; print(json.__name__)'
    echo '__name__ = "shadow"' >work/json.py
    prints shadow either -c 'import json; print(json.__name__)'
    fails 1 /work/json.py warm -c 'import json'
    # Flags that keep the working directory out of the path exclude its modules as well.
    warm_says json -I -c 'import json; print(json.__name__)'
}

@test "a module of the same name is next to the script" {
    mkdir work
    echo 'import json; print(json.__name__)' >work/script.py
    configure 'mount("/work", arguments[0])' "$PWD/work"
    preload json
    warm_says json /work/script.py
    mkdir work/json
    echo '__name__ = "shadow"' >work/json/__init__.py
    prints shadow either /work/script.py
    expect 1 warm /work/script.py
}

@test "a module of the same name is next to the script that links lead to" {
    mkdir -p work/{one,two,three}
    echo 'import json; print(json.__name__)' >work/three/script.py
    ln -s ../three/script.py work/two/script.py
    ln -s /work/two/script.py work/one/script.py
    configure 'mount("/work", arguments[0])' "$PWD/work"
    preload json
    warm_says json /work/one/script.py
    echo '__name__ = "shadow"' >work/three/json.py
    prints shadow either /work/one/script.py
    fails 1 /three/json.py warm /work/one/script.py
}

@test "a preloaded module next to the script fits" {
    module greeting.py <<<'text = "own"'
    module main.py <<<"$SAY"
    preload greeting
    warm_says own /modules/main.py
}

@test "a module next to the program: the snapshot remains valid for others" {
    module programs/program.py <<<'import greeting; print(greeting.text)'
    module programs/greeting.py <<<'text = "beside the program"'
    preload_a_clock
    prints "beside the program" either /modules/programs/program.py
    warm_says "$before" -c "$SAY"
}

@test "a module that changes during the build of the snapshot" {
    module a.py <<<'text = "old"'
    # It ends after the other module has changed, long after that was imported.
    module b.py <<<'import time
while "new" not in open("/modules/a.py").read(): time.sleep(0.02)'
    preload a,b
    { sleep 3 && echo 'text = "new"' >modules/a.py; } 3>&- &
    fails 1 "'/modules/a.py' has changed while the snapshot was made" warm -c 'import a; print(a.text)'
    warm_says new -c 'import a; print(a.text)'
}

@test "a link in the path of modules has another target" {
    for release in one two; do
        module "releases/$release/greeting.py" <<<"text = '$release'"
    done
    ln -s one modules/releases/current
    module site/latest.pth <<<'/modules/releases/current'
    configure 'mount("/usr/lib/python3/dist-packages", arguments[0], "bind")' "$PWD/modules/site"
    preload greeting
    warm_says one -c "$SAY"
    ln -sfn two modules/releases/current
    now_says two -c "$SAY"
    touch modules/releases/one/other modules/releases/other # not affected by a link
    warm_says two -c "$SAY"
}

@test "a part of a namespace package is next to the program" {
    module second/program.py <<<'import names.part; print(names.part.text)'
    module first/names/part.py <<<'text = "first of the path"'
    module second/names/part.py <<<'text = "beside the program"'
    environment PYTHONPATH=/modules/first:/modules/second
    preload names.part
    prints "beside the program" cold /modules/second/program.py
    prints "beside the program" either /modules/second/program.py
}

# The program prints whether json is the one next to it, and has a snapshot.
make_program() {
    local own
    module program.py <<<'import json; print(json.__file__)'
    environment PYTHONPATH=
    preload json
    own=$(cold -c 'import json; print(json.__file__)')
    warm_says "$own" /modules/program.py
}

@test "a module appears next to the program between create and start" {
    make_program
    configure 'config["annotations"]["run.pysbx.warm"] = "auto"'
    create_box
    sleep 0.6 # as long as a check of the files is valid
    echo >modules/json.py
    expect 0 runtime start box
    wait_for grep . out
    [[ $(<out) == /modules/json.py ]]
    runtime delete --force box
}

@test "a startContainer hook puts a module next to the program" {
    make_program
    configure 'hook("startContainer", "echo >/modules/json.py")'
    prints /modules/json.py either /modules/program.py
}

@test "a hook of the runtime mounts over a module" {
    needs_root "mounts in the namespace of a container"
    module greeting.py <<<'text = "old"'
    echo 'text = "new"' >modules/mounted.py
    configure 'config["mounts"][-1]["options"] = ["rbind"]'
    preload greeting
    warm_says old -c "$SAY"
    cat >mount.sh <<'EOF'
pid=$(sed -E 's/.*"pid": *([0-9]+).*/\1/')
exec nsenter -t "$pid" -m mount --bind "$1/modules/mounted.py" "$2/modules/greeting.py"
EOF
    for kind in prestart createRuntime; do
        configure 'config["hooks"] = {}
hook(arguments[0], "sh {0}/mount.sh {0} {1}".format(arguments[1], config["root"]["path"]))' "$kind" "$PWD"
        now_says_without_snapshot new
    done
}

# The program prints this once at its start, different each time.
now_says_without_snapshot() {
    for _ in 1 2 3; do
        prints "$1" either -c "$SAY"
    done
}

@test "a module is masked" {
    module greeting.py <<<'text = "old"'
    configure 'config["mounts"][-1]["options"] = ["rbind"]'
    preload greeting
    warm_says old -c "$SAY"
    configure 'linux.setdefault("maskedPaths", []).append("/modules")'
    for _ in 1 2 3; do
        fails 1 "No module named 'greeting'" either -c "$SAY"
    done
}
