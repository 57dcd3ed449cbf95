#!/usr/bin/env bats
# plan tells the truth: what it prints is what run then does, for every property of a configuration, and for every
# reason why a Python program starts cold.
# once: except for the tests with the tag "user", a plan has the same parts in both modes

load ../lib/warm.bash

setup() {
    begin_test
    make_python_bundle python3 -c pass
}

# Assert that an expression holds of `it`, the plan of the bundle, and of `seen`, the JSON that the program printed.
plan_is_seen() {
    local text=$1
    "$RUNTIME" plan --bundle bundle box >plan.json
    expect 0 runtime run --bundle bundle box
    python3 - "$text" "$output" plan.json <<'PYTHON'
import json, sys
seen, it = json.loads(sys.argv[2]), json.load(open(sys.argv[3]))
assert eval(f"({sys.argv[1]})"), (sys.argv[1], seen, {name: it.get(name) for name in ("process", "namespaces", "hostname", "sysctl")})
PYTHON
}

# Make a Python program, which prints the value of `seen` as JSON, the bundle's program.
show() {
    configure 'process["args"] = ["python3", "-c", "import ctypes, json, os, re, resource\ndef status(name): return re.search(f\"^{name}:\\s*(.*)$\", open(\"/proc/self/status\").read(), re.M)[1]\nlibc = ctypes.CDLL(None, use_errno=True)\n" + arguments[0] + "\nprint(json.dumps(seen))"]
config.setdefault("annotations", {})["run.pysbx.warm"] = "off"' "$1"
}

# bats test_tags=user
@test "process: arguments, environment, directory, user, groups, umask and no_new_privs" {
    local groups='[0]'
    ! is_rootless || groups='[]'
    configure 'process["user"] = {"uid": 0, "gid": 0, "umask": 0o27, "additionalGids": '"$groups"'}
process["env"] = ["PATH=/usr/bin", "WORD=x"]; process["cwd"] = "/usr"; process["noNewPrivileges"] = True'
    show 'seen = [os.getcwd(), os.getuid(), os.getgid(), os.getgroups(), os.umask(0), int(status("NoNewPrivs")), sorted(os.environ)]'
    plan_is_seen '[it["process"][name] for name in ("cwd", "uid", "gid")] == seen[:3] and {*it["process"]["additionalGids"]} <= {*seen[3]}
        and int(it["process"]["umask"], 8) == seen[4] == 0o27 and it["process"]["noNewPrivileges"] == bool(seen[5])
        and set(it["process"]["env"]) <= {*seen[6], "HOME"} and it["process"]["args"][0] == "python3"'
}

@test "process: capabilities and limits" {
    configure 'process["rlimits"] = [{"type": "RLIMIT_NOFILE", "soft": 99, "hard": 101}]; capabilities("CAP_KILL", "CAP_CHOWN")'
    show 'seen = [int(status("CapBnd"), 16), int(status("CapEff"), 16), resource.getrlimit(resource.RLIMIT_NOFILE)]'
    plan_is_seen '(lambda bits: bits == seen[0] == seen[1])(sum({"CAP_CHOWN": 1, "CAP_KILL": 32}[name] for name in it["process"]["capabilities"]["bounding"]))
        and [[x["soft"], x["hard"]] for x in it["process"]["rlimits"]] == [seen[2]]'
}

@test "process: scheduler, I/O priority and oomScoreAdj" {
    configure 'process["scheduler"] = {"policy": "SCHED_BATCH", "nice": 5}; process["oomScoreAdj"] = 200
process["ioPriority"] = {"class": "IOPRIO_CLASS_BE", "priority": 3}'
    show 'seen = [os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0), libc.syscall(252, 1, 0), int(open("/proc/self/oom_score_adj").read())]'
    plan_is_seen 'it["process"]["scheduler"]["policy"] == "SCHED_BATCH" and seen[0] == 3
        and it["process"]["scheduler"]["nice"] == seen[1]
        and it["process"]["ioPriority"] == {"class": "IOPRIO_CLASS_BE", "priority": seen[2] & 7} and seen[2] >> 13 == 2
        and it["process"]["oomScoreAdj"] == seen[3]'
}

@test "process: session keyring, personality and memory policy" {
    configure 'linux["personality"] = {"domain": "LINUX32"}; linux["memoryPolicy"] = {"mode": "MPOL_LOCAL"}'
    show 'text = ctypes.create_string_buffer(256); mode = ctypes.c_int()
libc.syscall(250, 6, -3, text, 256); libc.syscall(239, ctypes.byref(mode), None, 0, None, 0)
seen = [text.value.decode().rsplit(";", 1)[1], libc.personality(0xffffffff), mode.value]'
    plan_is_seen 'it["process"]["keyring"] == seen[0] == "box" and it["process"]["personality"] == "LINUX32" and seen[1] == 8
        and it["process"]["memoryPolicy"]["mode"] == "MPOL_LOCAL" and seen[2] == 4'
}

@test "process: filter and Landlock" {
    configure 'seccomp("ALLOW", rule("ERRNO", "acct")); config["annotations"] = {"run.pysbx.landlock": "default"}'
    show 'seen = [int(status("Seccomp")), libc.acct(None), ctypes.get_errno(), libc.syscall(444, None, 0, 1)]
try: open("/etc/x", "w")
except OSError as error: seen.append(error.errno)'
    plan_is_seen 'it["process"]["seccomp"]["origin"] in ("compiled", "cache") and seen[:3] == [2, -1, 1]
        and (it["process"]["landlock"]["abi"] == seen[3] or seen[3] < 0) and seen[4] in (13, 30)'
}

@test "namespaces, clocks, names, sysctls" {
    configure 'namespace("time"); linux["timeOffsets"] = {"boottime": {"secs": 1000000}}
linux["sysctl"] = {"kernel.msgmax": "9001"}; config["hostname"] = "box-name"; config["domainname"] = "box.domain"'
    show 'seen = [{name: os.stat("/proc/self/ns/" + name).st_ino for name in os.listdir("/proc/self/ns")}, float(open("/proc/uptime").read().split()[0]), os.uname().nodename, open("/proc/sys/kernel/domainname").read().strip(), open("/proc/sys/kernel/msgmax").read().strip()]'
    "$RUNTIME" plan --bundle bundle box >plan.json
    expect 0 runtime run --bundle bundle box
    python3 - "$output" <<'PYTHON'
import json, os, sys
seen, it = json.loads(sys.argv[1]), json.load(open("plan.json"))
files = {"network": "net", "mount": "mnt"}
for entry in it["namespaces"]:
    file = files.get(entry["type"], entry["type"])
    assert seen[0][file] != os.stat(f"/proc/self/ns/{file}").st_ino, entry
mine = {e["type"] for e in it["namespaces"]}
assert {"pid", "mount", "ipc", "uts", "time"} <= mine
[time] = (e for e in it["namespaces"] if e["type"] == "time")
assert time["offsets"] == ["boottime 1000000 0"] and seen[1] > 1000000, time
assert it["hostname"] == seen[2] and it["domainname"] == seen[3] and it["sysctl"]["kernel.msgmax"] == seen[4]
PYTHON
}

@test "mounts, masks, devices and the propagation of the root" {
    mkdir volume
    configure 'mount("/volume", arguments[0], "ro", "nosuid"); linux["rootfsPropagation"] = "slave"' "$PWD/volume"
    show 'seen = [[line.split() for line in open("/proc/self/mountinfo")], os.listdir("/dev")]'
    plan_is_seen '(lambda places: all(m["target"] in places for m in it["rootfs"]["mounts"])
            and {"ro", "nosuid"} <= {*places["/volume"]} and {"ro", "nosuid"} <= {o for m in it["rootfs"]["mounts"] if m["target"] == "/volume" for o in m["options"]}
            and all(p not in it["rootfs"]["readonlyPaths"] or "ro" in places[p] for p in places))({line[4]: line[5].split(",") for line in seen[0]})
        and {d["path"].rsplit("/", 1)[1] for d in it["rootfs"]["devices"]} <= {*seen[1]} and it["rootfs"]["propagation"] == "slave"'
}

@test "cgroup: path and limits" {
    needs_root "a user has no cgroup here"
    needs_controller pids
    configure 'linux["resources"]["pids"] = {"limit": 77}; linux["cgroupsPath"] = "/plan-test"; process["args"] = ["sleep", "60"]'
    "$RUNTIME" plan --bundle bundle box >plan.json
    start_box
    python3 - "$(pid_of_box)" <<'PYTHON'
import json, sys
it = json.load(open("plan.json"))["cgroup"]
assert open(f"/proc/{sys.argv[1]}/cgroup").read().strip().endswith(it["path"])
for limit in it["limits"]:
    assert open(f"{it['mount']}{it['path']}/{limit['file']}").read().split() == limit["value"].split(), limit
assert any(limit["file"] == "pids.max" and limit["value"] == "77" for limit in it["limits"])
PYTHON
    runtime delete --force box
}

@test "network devices: as they are given" {
    configure 'namespace("network"); linux["netDevices"] = {"lo-of-host": {"name": "lan"}}'
    tells 'it["netDevices"] == {"lo-of-host": "lan"}' runtime plan --bundle bundle box
}

# A property that a table of runtime/spec/tables.c has, and that neither this list nor the plan has, fails here: every
# mechanism describes itself.
@test "every property of the specification is in the plan" {
    needs_root "network devices need a namespace that root makes"
    local top=$TESTS/..
    cat >where.py <<'PYTHON'
import json, re, sys
source = open(sys.argv[1] + "/runtime/spec/tables.c").read()
plan = json.load(open("plan.json"))
# Property: where the plan shows it. None: it is no property of a container that create makes.
WHERE = {
    "process": {"terminal": "process.terminal", "consoleSize": "process.terminal", "user": "process.uid", "args": "process.args",
                "env": "process.env", "cwd": "process.cwd", "capabilities": "process.capabilities", "rlimits": "process.rlimits",
                "noNewPrivileges": "process.noNewPrivileges", "apparmorProfile": "process.apparmorProfile",
                "selinuxLabel": "process.selinuxLabel", "oomScoreAdj": "process.oomScoreAdj", "scheduler": "process.scheduler",
                "ioPriority": "process.ioPriority", "execCPUAffinity": None},
    "linux": {"namespaces": "namespaces", "uidMappings": "userNamespace", "gidMappings": "userNamespace", "timeOffsets": "namespaces",
              "devices": "rootfs.devices", "netDevices": "netDevices", "cgroupsPath": "cgroup.path", "resources": "cgroup.limits",
              "intelRdt": None, "memoryPolicy": "process.memoryPolicy", "sysctl": "sysctl", "seccomp": "process.seccomp",
              "rootfsPropagation": "rootfs.propagation", "maskedPaths": "rootfs.maskedPaths",
              "readonlyPaths": "rootfs.readonlyPaths", "mountLabel": "mountLabel", "personality": "process.personality"},
    "spec": {"ociVersion": None, "root": "rootfs.root", "mounts": "rootfs.mounts", "process": "process", "hostname": "hostname",
             "domainname": "domainname", "hooks": "hooks", "annotations": None, "linux": "namespaces"},
}
for table, rows in WHERE.items():
    text = re.search(rf"field {table}_fields\[\] = {{(.*?)^}};", source, re.S | re.M)[1]
    names = set(re.findall(r'^    [A-Z0-9_]+\("(\w+)"', text, re.M)) | set(re.findall(r'^    LIST\("(\w+)"', text, re.M))
    assert names == set(rows), f"{table}: the table has {sorted(names ^ set(rows))}, which this test does not know, or the reverse"
    for name, path in rows.items():
        part = plan
        for key in (path or "").split(".") if path else []:
            assert key in part, f"{table}.{name}: the plan has no '{path}'"
            part = part[key]
PYTHON
    configure 'process.update(oomScoreAdj=100, scheduler={"policy": "SCHED_BATCH"}, ioPriority={"class": "IOPRIO_CLASS_IDLE"})
linux.update(personality={"domain": "LINUX32"}, memoryPolicy={"mode": "MPOL_LOCAL"}, sysctl={"kernel.msgmax": "9000"},
             netDevices={"eth9": {}}, rootfsPropagation="slave", mountLabel="system_u:object_r:x_t:s0")
config.update(hostname="h", domainname="d"); user_namespace((0, 100000, 1000))'
    "$RUNTIME" plan --bundle bundle box >plan.json
    python3 where.py "$top"
}

# Assert that plan gives a reason for a cold start that contains a text, and that run then gives the same one.
same_reason() {
    local reason
    "$RUNTIME" "${@:2}" plan --bundle bundle box >plan.json
    reason=$(python3 -c 'import json; it = json.load(open("plan.json"))["warm"]; assert it["start"] == "cold", it; print(it["reason"])')
    [[ $reason == *"$1"* ]] || { echo "plan: $reason"; return 1; }
    # Some of the programs fail on purpose. The line in the log decides.
    "$RUNTIME" --debug "${@:2}" run --bundle bundle box </dev/null >out 2>err || true
    grep -qF "cold start: $reason" err || { echo "plan: $reason"; cat err; return 1; }
}

# Give the bundle's program these arguments.
arguments() {
    configure 'process["args"] = ["python3", *arguments]' "$@"
}

@test "cold: reasons of the configuration" {
    for word in "-i:interactive" "-v:imports" "-x:first line" "-V:" "-h:"; do
        arguments "${word%%:*}"
        same_reason "${word#*:}"
    done
    arguments -c pass
    local -a variables
    mapfile -t variables < <(sed -n 's/^    {"\([A-Z_]*\)", ".*/\1/p' "$TESTS/../runtime/warm/decide.c")
    ((${#variables[@]} > 10))
    for word in "${variables[@]}"; do
        environment "$word=1"
        same_reason "$word"
        environment "$word="
    done
    configure 'linux["personality"] = {"domain": "LINUX32"}'
    same_reason "another execution domain"
    configure 'del linux["personality"]; process["args"] = ["/nowhere/python3"]'
    same_reason "program '/nowhere/python3' is not visible"
    configure 'process["args"] = ["python3", "-c", "pass"]; config["annotations"] = {"run.pysbx.warm": "off"}'
    same_reason "switched off"
    configure_warm '{"mode": "off"}'
    same_reason "switched off in warm.json"
    configure_warm
}

@test "cold: startContainer hooks that can trace the program" {
    needs_root "the runtime of a user gives each container a user namespace"
    configure 'capabilities("CAP_SYS_PTRACE"); process["args"] = ["python3", "-c", "pass"]; config["hooks"] = {"startContainer": [{"path": "/bin/true"}]}'
    same_reason "startContainer hooks may trace the process"
}

@test "cold: a listener, descriptors that are passed on, no mount namespace" {
    needs_root "the root is mounted without a mount namespace"
    arguments -c pass
    configure 'seccomp("ALLOW", rule("NOTIFY", "acct"), listenerPath=arguments[0])' "$PWD/no-socket"
    same_reason "the seccomp filter has a listener"
}

@test "cold: the answers of the store" {
    runtime warm prune --all
    arguments -c pass
    configure_warm '{"retryAfter": 0}'
    same_reason "first run"
    configure_warm '{"secondRun": false, "retryAfter": 100}'
    preload_module broken <<<'raise RuntimeError("on purpose")'
    runtime run --bundle bundle box </dev/null >out 2>err
    same_reason "on purpose"
    configure_warm
}

# bats test_tags=user
@test "cold: no place for snapshots" {
    needs_rootless "root has a place in any case"
    arguments -c pass
    local home=$HOME
    unset HOME XDG_DATA_HOME
    same_reason "there is no place for snapshots"
    export HOME=$home
}

@test "cold: a file or a variable differs from the snapshot's" {
    configure_warm '{"secondRun": false, "retryAfter": 100}'
    module thing/__init__.py <<<'import os; value = os.environ.get("THING_WORD")'
    preload thing
    arguments -c pass
    runtime run --bundle bundle box </dev/null
    environment THING_WORD=x
    same_reason "THING_WORD"
    configure 'process["env"] = [e for e in process["env"] if not e.startswith("THING_WORD")]'
    module thing/__init__.py <<<'value = 1'
    same_reason "/modules/thing"
    configure_warm
}

@test "warm: plan says so, and names what only the container can decide" {
    arguments -c "$(read_files thing)"
    preload_module thing <<<'import os; value = open("/proc/sys/kernel/msgmax").read()'
    prints False runtime run --bundle bundle box
    tells 'it["warm"]["start"] == "warm" and it["warm"]["snapshot"] == "ready"' runtime plan --bundle bundle box
    output_holds '"files of /proc and /sys" in it["warm"]["comparedInContainer"]'
    configure 'linux["sysctl"] = {"kernel.msgmax": "9002"}'
    tells 'it["warm"]["start"] == "warm"' runtime plan --bundle bundle box
    "$RUNTIME" --debug run --bundle bundle box </dev/null >out 2>err
    grep -q "cold start: .*/proc/sys/kernel/msgmax" err
}
