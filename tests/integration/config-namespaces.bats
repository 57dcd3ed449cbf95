#!/usr/bin/env bats
# linux.namespaces, linux.uidMappings, linux.gidMappings, linux.timeOffsets: config-linux.md, namespaces(7).

load ../lib/bundle.bash

KINDS=(cgroup ipc mnt net pid time user uts)

# Print a script that prints the container's namespaces.
print_namespaces() {
    echo "for kind in ${KINDS[*]}; do readlink /proc/self/ns/\$kind; done"
}

# Start a process on the host that sleeps in new namespaces of its own. The options are those of unshare(1).
hold_namespaces() {
    rm -f ready
    hold unshare "$@" sh -c 'touch ready; exec sleep 1000'
    holder=$!
    wait_for test -e ready
}

# Map the user, and an additional range that only newuidmap and newgidmap may map; or two ranges.
map_two_ranges() {
    if is_rootless; then
        configure "user_namespace((0, $UID, 1), (1, 200000, 1000))"
    else
        configure 'user_namespace((0, 100000, 1), (1, 200000, 1000))'
    fi
}

@test "namespaces: each of the eight can be new" {
    make_bundle_with 'namespace("time"); namespace("network")' sh -c "$(print_namespaces)"
    is_rootless || configure 'user_namespace((0, 0, 65536))'
    expect 0 run_box
    [[ ${#lines[@]} == 8 ]]
    for i in "${!KINDS[@]}"; do
        [[ ${lines[i]} == "${KINDS[i]}:["* && ${lines[i]} != "$(readlink "/proc/self/ns/${KINDS[i]}")" ]] || {
            echo "${KINDS[i]}"
            return 1
        }
    done
}

@test "namespaces: unlisted namespaces are shared with the runtime" {
    needs_root "a user needs a user namespace"
    make_bundle_with 'share("ipc", "network", "uts", "cgroup", "pid"); del config["hostname"]' sh -c "$(print_namespaces)"
    expect 0 run_box
    for i in "${!KINDS[@]}"; do
        [[ ${KINDS[i]} == mnt || ${lines[i]} == "$(readlink "/proc/self/ns/${KINDS[i]}")" ]]
    done
}

@test "namespaces: network, ipc, uts, cgroup and time are joined by path" {
    needs_root "a user joins such namespaces with a user namespace: see below"
    hold_namespaces --net --ipc --uts --cgroup --time --monotonic 7000000
    make_bundle sh -c "$(print_namespaces); cat /proc/uptime"
    configure 'for kind, file in {"network": "net", "ipc": "ipc", "uts": "uts", "cgroup": "cgroup"}.items():
        namespace(kind, f"/proc/{arguments[0]}/ns/{file}")
namespace("time", f"/proc/{arguments[0]}/ns/time_for_children")' "$holder"
    expect 0 run_box
    for i in "${!KINDS[@]}"; do
        case ${KINDS[i]} in
            mnt | pid | user) ;;
            time) [[ ${lines[i]} == "$(readlink "/proc/$holder/ns/time_for_children")" ]] ;;
            *) [[ ${lines[i]} == "$(readlink "/proc/$holder/ns/${KINDS[i]}")" ]] ;;
        esac
    done
}

@test "namespaces: a pid namespace is joined by path, and its other processes are visible" {
    needs_root "a user joins such namespaces with a user namespace: see below"
    hold_namespaces --pid --fork --kill-child
    inside=$(pgrep -P "$holder")
    make_bundle sh -c 'echo $$; cat /proc/1/comm; readlink /proc/self/ns/pid'
    configure 'namespace("pid", arguments[0])' "/proc/$holder/ns/pid_for_children"
    expect 0 run_box
    [[ ${lines[0]} != 1 && ${lines[1]} == sleep && ${lines[2]} == "$(readlink "/proc/$inside/ns/pid")" ]]
}

@test "namespaces: the end of a container does not affect the others of a joined pid namespace" {
    needs_root "a user joins such namespaces with a user namespace: see below"
    hold_namespaces --pid --fork --kill-child
    make_bundle sh -c 'sleep 1000 & exec sleep 1000'
    configure 'namespace("pid", arguments[0])' "/proc/$holder/ns/pid_for_children"
    start_box
    expect 0 runtime delete --force box
    kill -0 "$(pgrep -P "$holder")"
}

@test "namespaces: a user namespace is joined by path, with the namespaces that belong to it" {
    hold_namespaces --user --map-root-user --net --ipc --uts
    make_bundle sh -c "$(print_namespaces); id -u; cat /proc/self/uid_map"
    configure 'linux.pop("uidMappings", None); linux.pop("gidMappings", None)
for kind, file in {"user": "user", "network": "net", "ipc": "ipc", "uts": "uts"}.items():
    namespace(kind, f"/proc/{arguments[0]}/ns/{file}")
del config["hostname"]' "$holder"
    expect 0 run_box
    for i in 1 3 6 7; do [[ ${lines[i]} == "$(readlink "/proc/$holder/ns/${KINDS[i]}")" ]]; done
    [[ ${lines[6]} != "$(readlink /proc/self/ns/user)" && ${lines[8]} == 0 ]]
    [[ $(tr -s ' ' <<<"${lines[9]}") == " 0 $UID 1" ]]
}

@test "namespaces: a network namespace of the host is joined next to a new user namespace" {
    needs_root "a user has no rights over such a namespace"
    hold_namespaces --net
    make_bundle sh -c 'readlink /proc/self/ns/net; cat /proc/self/uid_map; ls /sys/class/net'
    configure 'namespace("network", arguments[0]); user_namespace((0, 100000, 65536))' "/proc/$holder/ns/net"
    expect 0 run_box
    [[ ${lines[0]} == "$(readlink "/proc/$holder/ns/net")" && ${lines[1]} == *100000* ]]
}

@test "namespaces: a path to no namespace, or to one of another kind, is an error that names the entry" {
    make_bundle_with 'namespace("network", "/proc/self/ns/uts")' true
    is_refused "'/proc/self/ns/uts' is not a network namespace"
    is_refused "].path: open '/missing'" 'namespace("network", "/missing")'
    is_refused "'relative' is not an absolute path" 'namespace("network", "relative")'
    is_refused "'pid' is given twice" 'share("network"); linux["namespaces"].append({"type": "pid"})'
    is_refused "linux.namespaces[0].type" 'del linux["namespaces"][-1]; linux["namespaces"][0]["type"] = "moon"'
}

@test "uidMappings, gidMappings: several ranges, by newuidmap where the runtime has no rights" {
    make_bundle sh -c 'for map in uid gid; do tr -s " " </proc/self/${map}_map; done; cat /proc/self/setgroups'
    map_two_ranges
    local first=100000
    ! is_rootless || first=$UID
    expect 0 run_box
    output_is " 0 $first 1
 1 200000 1000
 0 $first 1
 1 200000 1000
allow"
}

@test "uidMappings: message queues belong to the container's root, in a new or joined user namespace" {
    make_bundle sh -c 'stat -c %u:%g /dev/mqueue; sleep 1000'
    configure 'if "user" not in [n["type"] for n in linux["namespaces"]]: user_namespace((0, 100000, 65536))'
    start_box
    wait_for grep -qx 0:0 out
    configure 'process["args"][2] = "stat -c %u:%g /dev/mqueue"; linux.pop("uidMappings"); linux.pop("gidMappings")
namespace("user", f"/proc/{arguments[0]}/ns/user")' "$(pid_of_box)"
    prints 0:0 runtime run --bundle bundle second </dev/null
}

@test "uidMappings: the host sees the program's user as the mapped id" {
    make_bundle sh -c 'id -u; id -g; id -G; sleep 1000'
    map_two_ranges
    configure 'process["user"] = {"uid": 500, "gid": 600, "additionalGids": [700]}'
    start_box
    wait_for grep -q 700 out
    [[ $(<out) == $'500\n600\n600 700' ]]
    [[ $(awk '/^Uid:/ { print $2 } /^Gid:/ { print $3 }' "/proc/$(pid_of_box)/status") == $'200499\n200599' ]]
}

@test "uidMappings: a user's own id alone is mapped without a helper, and setgroups is denied permanently" {
    needs_rootless
    make_bundle sh -c 'cat /proc/self/uid_map /proc/self/setgroups'
    expect 0 run_box
    [[ $(tr -s ' ' <<<"${lines[0]}") == " 0 $UID 1" && ${lines[1]} == deny ]]
    configure 'process["user"]["additionalGids"] = [5]'
    fails 1 "process.user.additionalGids: the user namespace denies supplementary groups" run_box
}

@test "uidMappings: newuidmap refuses ids that the user does not own, and the error says where to look" {
    needs_rootless
    make_bundle_with 'user_namespace((0, 5, 10))' true
    fails 1 "newgidmap: " run_box
    stderr_has "listed in /etc/subgid"
    check_untouched
}

@test "uidMappings: an unmapped user is an error that names it" {
    make_bundle true
    map_two_ranges
    configure 'process["user"]["uid"] = 5000'
    is_refused "process.user.uid: 5000 is not mapped in the user namespace: linux.uidMappings lacks it"
    fails 1 "linux.uidMappings" runtime plan --bundle bundle
    configure 'process["user"] = {"uid": 0, "gid": 5000}'
    is_refused "process.user.gid: 5000 is not mapped in the user namespace: linux.gidMappings lacks it"
}

@test "uidMappings: after chroot(2) the kernel makes no user namespace, and the error says so" {
    needs_root "chroot requires CAP_SYS_CHROOT"
    make_bundle_with 'user_namespace((0, 100000, 65536))' true
    mkdir all
    printf '%s\n' 'mount --rbind / all' "exec chroot all $RUNTIME --root $RUNTIME_STATE run --bundle $PWD/bundle box" >inside
    fails 1 "after chroot(2) the kernel makes none): not permitted" unshare --mount sh -e inside </dev/null
}

@test "uidMappings: a namespace without an id 0 is made by the process' user, new or joined" {
    make_bundle sh -c 'id -u; id -g; stat -c %u:%g /dev/shm; touch /dev/shm/x; sleep 1000'
    if is_rootless; then
        configure "user_namespace((7, $UID, 1)); process['user'] = {'uid': 7, 'gid': 7}"
    else
        configure 'user_namespace((5, 100000, 10)); process["user"] = {"uid": 7, "gid": 7}'
    fi
    start_box
    wait_for grep -qx 7:7 out
    [[ $(<out) == $'7\n7\n7:7' ]]
    prints $'7\n7' runtime exec box sh -c 'echo >/dev/shm/y; stat -c %u /dev/shm/x /dev/shm/y'
    configure 'process["args"][2] = "stat -c %u:%g /dev/shm"; linux.pop("uidMappings"); linux.pop("gidMappings")
namespace("user", f"/proc/{arguments[0]}/ns/user")' "$(pid_of_box)"
    prints 7:7 runtime run --bundle bundle second </dev/null
}

@test "a user's configuration without a user namespace is refused, and the error names the command that writes one" {
    needs_rootless
    make_bundle true
    rm bundle/config.json
    runtime spec --bundle bundle
    is_refused "linux.namespaces: without CAP_SYS_ADMIN the container needs a user namespace: 'pysbx-runtime spec --rootless'"
    [[ $stderr != *capabilities* ]]
    fails 1 "spec --rootless" runtime plan --bundle bundle
}

@test "a user's cgroupsPath that the user may not make is a notice, and a limit on it an error" {
    needs_rootless
    make_bundle_with 'linux["cgroupsPath"] = "/not-mine"; linux.pop("resources", None)' echo ran
    prints ran run_box
    stderr_has "linux.cgroupsPath: no permission to make cgroup '/not-mine': the container stays in the runtime's cgroup"
    is_refused "linux.resources.pids.limit" 'linux["resources"] = {"pids": {"limit": 10}}'
}

@test "timeOffsets: the clocks of the container are those of the host plus the offset" {
    make_bundle sh -c 'tr -s " " </proc/self/timens_offsets; cut -d. -f1 /proc/uptime'
    configure 'namespace("time"); linux["timeOffsets"] = {"monotonic": {"secs": 86400, "nanosecs": 5}, "boottime": {"secs": 604800}}'
    expect 0 run_box
    [[ ${lines[0]} == "monotonic 86400 5" && ${lines[1]} == "boottime 604800 0" ]]
    ((lines[2] >= 604800 + $(cut -d. -f1 /proc/uptime) - 5))
}

@test "timeOffsets: in a user namespace whose root is another user of the host" {
    make_bundle sh -c 'tr -s " " </proc/self/timens_offsets'
    is_rootless || configure 'user_namespace((0, 100000, 65536))'
    configure 'namespace("time"); linux["timeOffsets"] = {"monotonic": {"secs": 86400}, "boottime": {"secs": 604800}}'
    expect 0 run_box
    [[ ${lines[0]} == "monotonic 86400 0" && ${lines[1]} == "boottime 604800 0" ]]
}

@test "cgroup namespace: the container sees its own cgroup as the root" {
    make_bundle sh -c 'grep ^0:: /proc/self/cgroup'
    prints "0::/" run_box
}

@test "hostname, domainname: are set in the UTS namespace, and need one" {
    make_bundle sh -c 'hostname; cat /proc/sys/kernel/domainname'
    configure 'config.update(hostname="inside", domainname="example.org")'
    prints $'inside\nexample.org' run_box
    [[ $(uname -n) != inside ]]
    is_refused "hostname: longer than 64 bytes" 'config["hostname"] = "x" * 65'
    is_refused "hostname: needs a uts namespace" 'config["hostname"] = "x"; share("uts")'
}
