#!/usr/bin/env bats
# A snapshot is true to what it was made from: whatever an import depended on and has changed since, the program sees
# what a fresh interpreter would see.
# images: python

load ../lib/warm.bash

setup() {
    begin_test
    use_image python
    rm -rf "$(warm_store)" # what is stale for one test is fresh for the next
}

# Makes the snapshot and asserts what the program says of it.
warm_says() {
    local text=$1
    shift
    expect 0 warm "$@"
    output_is "$text"
}

# After a change: the program says this at once, whether it starts warm or cold, and warm in the end.
now_says() {
    local text=$1
    shift
    for _ in 1 2 3; do
        expect 0 either "$@"
        output_is "$text"
    done
    warm_says "$text" "$@"
}

SAY='import greeting; print(greeting.text)'

# The snapshot of a module that says when it was imported, which is `before`.
preload_a_clock() {
    module greeting.py <<<'import time; text = time.monotonic_ns()'
    preload greeting
    expect 0 warm -c "$SAY"
    before=$output
    warm_says "$before" -c "$SAY"
}

@test "a module was replaced" {
    module greeting.py <<<'text = "old"'
    preload greeting
    warm_says old -c "$SAY"
    module greeting.py <<<'text = "new"'
    now_says new -c "$SAY"
}

@test "a module was written to, with size and time of change as before" {
    module greeting.py <<<'text = "old"'
    preload greeting
    warm_says old -c "$SAY"
    touch -r modules/greeting.py stamp
    printf 'text = "new"\n' | dd of=modules/greeting.py conv=notrunc status=none
    touch -r stamp modules/greeting.py
    now_says new -c "$SAY"
}

@test "a module imported by a preloaded one was replaced" {
    module inner.py <<<'text = "old"'
    module greeting.py <<<'from inner import text'
    preload greeting
    warm_says old -c "$SAY"
    module inner.py <<<'text = "new"'
    now_says new -c "$SAY"
}

@test "a module's compiled form was replaced" {
    local form=modules/__pycache__
    module greeting.py <<<'text = "old"'
    preload greeting
    cold -c 'import py_compile; py_compile.compile("/modules/greeting.py")'
    warm_says old -c "$SAY"
    mkdir other
    cp -p modules/greeting.py other/
    # Taken by the interpreter, for it names the source's time and size.
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

@test "a module went away" {
    module greeting.py <<<'text = "old"'
    preload greeting
    warm_says old -c "$SAY"
    rm -r modules/greeting.py
    expect 1 either -c "$SAY"
    stderr_has "No module named 'greeting'"
    expect 1 warm -c "$SAY"
    stderr_has greeting
}

@test "a module of the name appeared earlier in the path" {
    mkdir first
    configure 'mount("/first", arguments[0])' "$PWD/first"
    module greeting.py <<<'text = "old"'
    environment PYTHONPATH=/first:/modules
    preload greeting
    warm_says old -c "$SAY"
    echo 'text = "new"' >first/greeting.py
    now_says new -c "$SAY"
}

@test "a directory of the path that was not there appeared" {
    module greeting.py <<<'text = "old"'
    environment PYTHONPATH=/modules/first:/modules
    preload greeting
    warm_says old -c "$SAY"
    module first/greeting.py <<<'text = "new"'
    now_says new -c "$SAY"
}

@test "an optional module that an import looked for in vain appeared" {
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
    module greeting.py <<<'text = "old"'
    preload greeting
    warm_says old -c "$SAY"
    program auto "$SAY"
    runtime create --bundle bundle box </dev/null >output 2>&1
    sleep 0.6 # longer than a look at the files holds
    module greeting.py <<<'text = "new"'
    expect 0 runtime start box
    wait_for grep -q . output
    [[ $(<output) == new ]]
}

@test "the volume that holds the modules is another one" {
    module greeting.py <<<'text = "old"'
    preload greeting
    warm_says old -c "$SAY"
    mkdir other
    echo 'text = "new"' >other/greeting.py
    configure 'unmount("/modules"); mount("/modules", arguments[0])' "$PWD/other"
    now_says new -c "$SAY"
}

@test "a volume hides a module of the image" {
    local path
    preload colorsys
    path=$(cold -c 'import colorsys; print(colorsys.__file__)')
    echo 'text = "hidden"' >stand-in.py
    warm_says True -c 'import colorsys; print(hasattr(colorsys, "rgb_to_hsv"))'
    configure 'mount(arguments[1], arguments[0])' "$PWD/stand-in.py" "$path"
    now_says hidden -c 'import colorsys; print(colorsys.text)'
}

@test "a module of the name lies in the working directory" {
    mkdir work
    configure 'mount("/work", arguments[0]); process["cwd"] = "/work"' "$PWD/work"
    preload json
    warm_says json -c 'import json; print(json.__name__)'
    echo '__name__ = "shadow"' >work/json.py
    expect 0 either -c 'import json; print(json.__name__)'
    output_is shadow
    expect 1 warm -c 'import json'
    stderr_has /work/json.py
    # Flags that keep the working directory out of the path keep its modules out as well.
    warm_says json -I -c 'import json; print(json.__name__)'
}

@test "a module of the name lies beside the script" {
    mkdir work
    echo 'import json; print(json.__name__)' >work/script.py
    configure 'mount("/work", arguments[0])' "$PWD/work"
    preload json
    warm_says json /work/script.py
    mkdir work/json
    echo '__name__ = "shadow"' >work/json/__init__.py
    expect 0 either /work/script.py
    output_is shadow
    expect 1 warm /work/script.py
}

@test "a preloaded module beside the script is no stranger" {
    module greeting.py <<<'text = "own"'
    module main.py <<<"$SAY"
    preload greeting
    warm_says own /modules/main.py
}

@test "an extension module was replaced" {
    own_root python
    preload _bz2
    local path show='import _bz2, os
inode = os.stat(_bz2.__file__).st_ino
print([line.split()[4] == str(inode) for line in open("/proc/self/maps") if "_bz2" in line][0], os.stat(_bz2.__file__).st_size)'
    path=root$(cold -c 'import _bz2; print(_bz2.__file__)')
    local size
    size=$(stat -c %s "$path")
    warm_says "True $size" -c "$show"
    cp "$path" copy && printf x >>copy && mv copy "$path"
    now_says "True $((size + 1))" -c "$show"
}

@test "a library was replaced" {
    own_root python
    preload _bz2
    local path show='import _bz2, os, sys
path = os.path.realpath(sys.argv[1])
print({line.split()[4] for line in open("/proc/self/maps") if path in line} == {str(os.stat(path).st_ino)}, os.stat(path).st_size)'
    path=$(cold -c 'import _bz2; print([line.split()[5] for line in open("/proc/self/maps") if "libbz2" in line][0])')
    local size
    size=$(stat -c %s "root$path")
    warm_says "True $size" -c "$show" "$path"
    cp "root$path" copy && printf x >>copy && mv copy "root$path"
    now_says "True $((size + 1))" -c "$show" "$path"
}

@test "the C library is another copy" {
    own_root python
    local path show='import os, sys
path = os.path.realpath(sys.argv[1])
print({line.split()[4] for line in open("/proc/self/maps") if path in line} == {str(os.stat(path).st_ino)})'
    path=$(cold -c 'print([line.split()[5] for line in open("/proc/self/maps") if "libc.so" in line][0])')
    warm_says True -c "$show" "$path"
    cp -p "root$path" copy && mv copy "root$path"
    now_says True -c "$show" "$path"
}

@test "a file that an import only looks at: its status, whether it is there, where a link leads" {
    mkdir -p data/there
    touch -d @1 data/size
    echo first >data/there/file
    ln -s there data/link
    configure 'mount("/data", arguments[0])' "$PWD/data"
    module looks.py <<<'import os, pathlib
size, link, new = os.path.getsize("/data/size"), os.readlink("/data/link"), os.access("/data/new", os.R_OK)
there, directory = os.path.isfile("/data/there/file"), os.path.isdir("/data/there")
absent, path = os.path.exists("/data/absent"), pathlib.Path("/data/path").exists()'
    preload looks
    local show='import looks; print({n: v for n, v in vars(looks).items() if type(v) in (int, str, bool) and n[0] != "_"})' line
    expect 0 warm -c "$show"
    # Of what was only asked whether it is there, the content does not count.
    echo second >data/there/file
    touch data/there/beside
    expect 0 warm -c "$show"
    for line in "echo longer >data/size" "ln -sfn elsewhere data/link" "touch data/new" "touch data/absent" \
        "touch data/path" "rm data/there/file" "rm -r data/there"; do
        eval "$line"
        expect 1 warm -c "$show"
        stderr_has "'/data/"
        same -c "$show"
    done
}

@test "certificates and keys that an import loads, which OpenSSL reads by itself" {
    local call
    mkdir certificates
    configure 'mount("/certificates", arguments[0])' "$PWD/certificates"
    preload greeting
    for call in 'load_verify_locations("/certificates/file")' 'load_verify_locations(cafile=pathlib.Path("/certificates/file"))' \
        'load_cert_chain("/certificates/file", "/certificates/key")' 'load_cert_chain(certfile="/certificates/file")'; do
        rm -f certificates/file
        module greeting.py <<<"import importlib, pathlib
ssl = importlib.import_module('ssl')
try:
    ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).$call
except OSError as error:
    text = type(error).__name__"
        now_says FileNotFoundError -c "$SAY"
        echo 'no certificate' >certificates/file
        now_says SSLError -c "$SAY"
    done
}

@test "the configuration of OpenSSL, and what it includes" {
    own_root python
    mkdir etc
    printf '%s\n' 'openssl_conf = all' '.include = /openssl/more' >etc/openssl.cnf
    mkdir etc/more
    minimum() {
        printf '%s\n' '[all]' 'ssl_conf = ssl' '[ssl]' 'system_default = default' '[default]' "MinProtocol = $1" >etc/more/a.cnf
    }
    minimum TLSv1.2
    configure 'mount("/openssl", arguments[0])' "$PWD/etc"
    environment OPENSSL_CONF=/openssl/openssl.cnf
    preload ssl
    local say='import ssl; print(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).minimum_version.name)'
    warm_says TLSv1_2 -c "$say"
    minimum TLSv1.3
    now_says TLSv1_3 -c "$say"
    echo >etc/openssl.cnf
    now_says MINIMUM_SUPPORTED -c "$say"
}

@test "a database that an import reads, which SQLite opens by itself" {
    local name number=1
    mkdir data
    configure 'mount("/data", arguments[0])' "$PWD/data"
    preload greeting
    write() {
        python3 -c 'import sqlite3, sys
with sqlite3.connect("data/db") as base:
    base.executescript("create table if not exists words (word); delete from words")
    base.execute("insert into words values (?)", sys.argv[1:])
base.close()' "$1"
    }
    for name in '"/data/db"' 'pathlib.Path("/data/db")' '"file:/data/db?mode=ro", uri=True' '"file:///data/db?immutable=1#", uri=True'; do
        module greeting.py <<<"import pathlib, sqlite3
base = sqlite3.connect($name)
[text], = base.execute('select word from words')
base.close()"
        write "word $number"
        now_says "word $number" -c "$SAY"
        write "other word $number"
        now_says "other word $((number++))" -c "$SAY"
    done
}

@test "the interpreter was replaced" {
    own_root python
    local path size
    path=root$(cold -c 'import os, sys; print(os.path.realpath(sys.executable))')
    size=$(stat -c %s "$path")
    warm_says "$size" -c 'import os; print(os.stat("/proc/self/exe").st_size)'
    cp -p "$path" copy && printf x >>copy && mv copy "$path"
    now_says "$((size + 1))" -c 'import os; print(os.stat("/proc/self/exe").st_size)'
}

@test "pyvenv.cfg, .pth files and sitecustomize appeared" {
    own_root python
    local show='import builtins, sys; print("/added" in sys.path, getattr(builtins, "customized", False))' directory
    warm_says "False False" -c "$show"
    mkdir root/added
    directory=root$(cold -c 'import site; print(site.getsitepackages()[-1])')
    mkdir -p "$directory"
    echo /added >"$directory/added.pth"
    now_says "True False" -c "$show"
    directory=root$(cold -c 'import os; print(os.path.dirname(os.__file__))')
    rm -f "$directory/sitecustomize.py" # Debian has one, a link to /etc
    echo 'import builtins; builtins.customized = True' >"$directory/sitecustomize.py"
    now_says "True True" -c "$show"
    show='import sys; print(getattr(sys, "_home", None))'
    warm_says None -c "$show"
    echo 'home = /usr/bin' >root/usr/bin/pyvenv.cfg
    now_says /usr/bin -c "$show"
}

@test "a variable that an import reads has another value, or none" {
    module greeting.py <<<'import os; text = os.environ.get("GREETING", "unset")'
    preload greeting
    warm_says unset -c "$SAY"
    environment GREETING=hello
    now_says hello -c "$SAY"
    environment GREETING=
    now_says "" -c "$SAY"
    environment OTHER=variable
    now_says "" -c "$SAY"
}

@test "an import looks at all variables" {
    module greeting.py <<<'import os; text = sorted(name for name in os.environ if name.startswith("SAY_"))'
    preload greeting
    warm_says "[]" -c "$SAY"
    environment SAY_A=1
    now_says "['SAY_A']" -c "$SAY"
}

@test "flags and variables of the interpreter shape what is imported" {
    module greeting.py <<<'import sys
text = (__debug__, sys.flags.optimize, sys.flags.utf8_mode, sys.flags.dev_mode, sys.flags.isolated, sys.flags.no_site,
    sys.flags.dont_write_bytecode, sys.flags.ignore_environment, sys.warnoptions, sys._xoptions, greet.__doc__) if (
    greet := type("greet", (), {"__doc__": "a text"})) else None'
    preload greeting
    local flags
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

@test "PYTHONHASHSEED: the seed asked for" {
    environment PYTHONHASHSEED=42
    same -c 'print(hash("text"), sorted({"a", "b", "c"}), list({"a", "b", "c", "d"}))'
    environment PYTHONHASHSEED=43
    same -c 'print(hash("text"))'
    environment PYTHONHASHSEED=0
    same -c 'print(hash("text"), __import__("sys").flags.hash_randomization)'
}

@test "a variable that is there twice: the first is in force, and so it is for the snapshot" {
    local seed
    for seed in 1 2; do
        configure 'process["env"] = [e for e in process["env"] if not e.startswith("PYTHONHASHSEED=")]
process["env"] += ["PYTHONHASHSEED=" + arguments[0], "PYTHONHASHSEED=" + str(3 - int(arguments[0]))]' "$seed"
        same -c 'print(hash("text"))'
    done
}

@test "the locale is another one" {
    local variable
    for variable in LC_ALL=C LC_ALL=C.UTF-8 LC_ALL=POSIX LANG=C.UTF-8 LC_CTYPE=C PYTHONCOERCECLOCALE=0 PYTHONIOENCODING=latin-1:replace; do
        environment "$variable"
        same -c 'import locale, sys
print(sys.stdout.encoding, sys.stdout.errors, sys.stdin.encoding, sys.stderr.errors, sys.getfilesystemencoding(),
    sys.getfilesystemencodeerrors(), locale.setlocale(locale.LC_CTYPE), locale.getpreferredencoding(), sys.flags.utf8_mode)
print(ascii(sys.argv))' $'\xe4' 'ü'
        configure 'process["env"] = [e for e in process["env"] if not e.startswith(arguments[0])]' "${variable%%=*}"
    done
}

@test "the time zone is another one" {
    local zone
    for zone in '' UTC ABC-3 XYZ+5DEF; do
        environment "TZ=$zone"
        same -c 'import time; print(time.tzname, time.timezone, time.localtime(0).tm_hour)'
    done
}

@test "limits: the stack of threads, descriptors" {
    configure 'process["rlimits"] = [{"type": "RLIMIT_STACK", "soft": 1 << 20, "hard": 1 << 20}]'
    same -c 'import resource; print(resource.getrlimit(resource.RLIMIT_STACK))'
    module limits.py <<<'import os, resource; text = (os.sysconf("SC_OPEN_MAX"), resource.getrlimit(resource.RLIMIT_NOFILE))'
    preload limits
    same -c 'import limits; print(limits.text)'
    configure 'process["rlimits"] = [{"type": "RLIMIT_NOFILE", "soft": 33, "hard": 44}]'
    same -c 'import limits, resource; print(limits.text, resource.getrlimit(resource.RLIMIT_NOFILE))'
    output_is "(33, (33, 44)) (33, 44)"
}

@test "the share of processors, by which libraries choose how many threads they start: a snapshot of its own" {
    local quota
    needs_root # a user's plan wants the controller
    program auto 'pass'
    for quota in -1 50000 100000; do
        configure 'config["linux"].setdefault("resources", {})["cpu"] = {"quota": int(arguments[0]), "period": 100000}' "$quota"
        runtime plan --bundle bundle | python3 -c 'import json, sys; print(json.load(sys.stdin)["warm"]["key"])' >>keys
    done
    [[ $(sort -u keys | wc -l) == 3 ]]
}

@test "limits: an address space too small for an interpreter ends it as a fresh one, and nothing of it has run" {
    grep -q __asan_init "$RUNTIME" && skip "the sanitizers' own memory does not fit either"
    configure 'process["rlimits"] = [{"type": "RLIMIT_AS", "soft": 4 << 20, "hard": 4 << 20}]'
    expect '[1-9]*' cold -c 'print("ran")'
    output_is ""
    expect "$status" either -c 'print("ran")'
    output_is ""
}

@test "limits: a container that is too small for a snapshot takes it from no other" {
    grep -q __asan_init "$RUNTIME" && skip "the sanitizers' own memory does not fit either"
    preload_a_clock
    configure 'process["rlimits"] += [{"type": "RLIMIT_AS", "soft": 4 << 20, "hard": 4 << 20}]'
    expect '[1-9]*' either -c "$SAY"
    configure 'process["rlimits"].pop()'
    warm_says "$before" -c "$SAY"
}

@test "a module beside the program: the snapshot stays as it is for others" {
    module programs/program.py <<<'import greeting; print(greeting.text)'
    module programs/greeting.py <<<'text = "beside the program"'
    preload_a_clock
    expect 0 either /modules/programs/program.py
    output_is "beside the program"
    warm_says "$before" -c "$SAY"
}

@test "another user's snapshot is not taken" {
    needs_root "has other ids than its own"
    module greeting.py <<<'import os; text = os.getuid()'
    preload greeting
    warm_says 0 -c "$SAY"
    configure 'process["user"] = {"uid": 1000, "gid": 1000}'
    now_says 1000 -c "$SAY"
}

@test "another kernel" {
    module greeting.py <<<'import os; text = os.uname().release'
    preload greeting
    warm_says "$(uname -r)" -c "$SAY"
    runtime() { setarch --uname-2.6 "$RUNTIME" "$@"; }
    now_says "$(setarch --uname-2.6 uname -r)" -c "$SAY"
}

@test "after a reboot" {
    needs_root "mounts over the kernel's file"
    local before
    preload_a_clock
    echo another >boot_id
    runtime() {
        unshare --mount sh -c 'mount --bind boot_id /proc/sys/kernel/random/boot_id && exec "$@"' sh "$RUNTIME" "$@"
    }
    expect 0 warm -c "$SAY"
    ((output > before))
    now_says "$output" -c "$SAY"
}

@test "another build of the same version of the runtime: its agent is not the one that the snapshot has mapped" {
    local before
    preload_a_clock
    use_other_build
    expect 0 warm -c "$SAY"
    ((output > before))
    now_says "$output" -c "$SAY"
}

@test "two roots of the same content have snapshots of their own" {
    own_root python
    preload json
    local show='import os; import json; print(os.stat(json.__file__).st_ino)'
    warm_says "$(stat -c %i root/usr/lib/python3*/json/__init__.py)" -c "$show"
    cp -a root second
    configure 'config["root"]["path"] = arguments[0]' "$PWD/second"
    now_says "$(stat -c %i second/usr/lib/python3*/json/__init__.py)" -c "$show"
}

@test "a module that changes while the snapshot is made" {
    module a.py <<<'text = "old"'
    module b.py <<<'import time; time.sleep(1)'
    preload a,b
    { sleep 0.5 && echo 'text = "new"' >modules/a.py; } 3>&- &
    expect 1 warm -c 'import a; print(a.text)'
    stderr_has "'/modules/a.py' has changed while the snapshot was made"
    warm_says new -c 'import a; print(a.text)'
}

@test "a link on the way to modules leads elsewhere" {
    local release
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
    touch modules/releases/one/other modules/releases/other # no link's business
    warm_says two -c "$SAY"
}

@test "a library's link leads to another version" {
    local version
    module greeting.py <<<'import ctypes; text = ctypes.CDLL("/modules/lib/libgreeting.so").version()'
    mkdir modules/lib # a directory that no import searches
    for version in 1 2; do
        gcc -shared -fPIC -nostdlib -o "modules/lib/libgreeting-$version.so" -x c - <<<"int version(void) { return $version; }"
    done
    ln -s libgreeting-1.so modules/lib/libgreeting.so
    preload greeting
    warm_says 1 -c "$SAY"
    ln -sfn libgreeting-2.so modules/lib/libgreeting.so
    now_says 2 -c "$SAY"
}

@test "a part of a namespace package stands beside the program" {
    module second/program.py <<<'import names.part; print(names.part.text)'
    module first/names/part.py <<<'text = "first of the path"'
    module second/names/part.py <<<'text = "beside the program"'
    environment PYTHONPATH=/modules/first:/modules/second
    preload names.part
    expect 0 cold /modules/second/program.py
    output_is "beside the program"
    expect 0 either /modules/second/program.py
    output_is "beside the program"
}

# The program prints whether json is the one beside it, and has a snapshot.
make_program() {
    local own
    module program.py <<<'import json; print(json.__file__)'
    environment PYTHONPATH=
    preload json
    own=$(cold -c 'import json; print(json.__file__)')
    warm_says "$own" /modules/program.py
}

@test "a module appears beside the program between create and start" {
    make_program
    configure 'config["annotations"]["run.pysbx.warm"] = "auto"'
    create_box
    sleep 0.6 # for so long a look at the files holds
    echo >modules/json.py
    expect 0 runtime start box
    wait_for grep . out
    [[ $(<out) == /modules/json.py ]]
    runtime delete --force box
}

@test "a startContainer hook puts a module beside the program" {
    make_program
    configure 'hook("startContainer", "echo >/modules/json.py")'
    expect 0 either /modules/program.py
    output_is /modules/json.py
}

@test "a hook of the runtime mounts over a module" {
    needs_root "mounts in the namespace of a container"
    local kind
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

# The program says this at once, each time anew.
now_says_without_snapshot() {
    for _ in 1 2 3; do
        expect 0 either -c "$SAY"
        output_is "$1"
    done
}

@test "a module is masked" {
    module greeting.py <<<'text = "old"'
    configure 'config["mounts"][-1]["options"] = ["rbind"]'
    preload greeting
    warm_says old -c "$SAY"
    configure 'linux.setdefault("maskedPaths", []).append("/modules")'
    for _ in 1 2 3; do
        expect 1 either -c "$SAY"
        stderr_has "No module named 'greeting'"
    done
}
