#!/usr/bin/env bats
# linux: sysctl, devices, netDevices, memoryPolicy, personality, intelRdt; and refused documents. config-linux.md.
# once: except for the tests with the tag "user", these properties have the same results in both modes

load ../lib/bundle.bash

teardown() {
    if ! is_rootless; then
        ip link delete pysbx-a 2>/dev/null || true
        ip link delete pysbx-b 2>/dev/null || true
    fi
    clean_up
}

# bats test_tags=user
@test "sysctl: parameters of the container's namespaces are set there, and not outside" {
    make_bundle sh -c 'cat /proc/sys/net/ipv4/ip_forward /proc/sys/kernel/shmmax /proc/sys/kernel/sem /proc/sys/fs/mqueue/msg_max'
    before=$(</proc/sys/kernel/shmmax)
    configure 'namespace("network")
linux["sysctl"] = {"net.ipv4.ip_forward": "1", "kernel.shmmax": "123456", "kernel/sem": "10 20 30 40", "fs.mqueue.msg_max": "9"}'
    prints $'1\n123456\n10\t20\t30\t40\n9' run_box
    [[ $(</proc/sys/kernel/shmmax) == "$before" ]]
}

@test "sysctl: kernel.domainname belongs to the UTS namespace" {
    needs_root "only root of the host may write it, in every namespace"
    make_bundle_with 'linux["sysctl"] = {"kernel.domainname": "by.sysctl"}' cat /proc/sys/kernel/domainname
    prints by.sysctl run_box
}

@test "sysctl: slashes and dots are two spellings of one name" {
    make_bundle sh -c 'cat /proc/sys/net/ipv4/conf/lo/rp_filter /proc/sys/net/ipv4/conf/all/rp_filter'
    configure 'namespace("network"); linux["sysctl"] = {"net/ipv4/conf/lo/rp_filter": "2", "net.ipv4.conf.all.rp_filter": "1"}'
    prints $'2\n1' run_box
}

@test "sysctl: a host parameter, an invalid name, or a value of several lines is refused" {
    make_bundle_with 'namespace("network", "/proc/self/ns/net"); linux["sysctl"] = {"net.ipv4.ip_default_ttl": "77"}' true
    is_refused 'linux.sysctl["net.ipv4.ip_default_ttl"]: would change the host: the network namespace is the runtime'"'"'s own'
    configure 'share("network"); linux["sysctl"] = {"net.ipv4.ip_forward": "1"}'
    is_refused 'linux.sysctl["net.ipv4.ip_forward"]: needs a network namespace'
    configure 'linux["sysctl"] = {"kernel.core_pattern": "|/bin/sh"}'
    is_refused 'linux.sysctl["kernel.core_pattern"]: belongs to no namespace'
    is_refused "use 'hostname' for the host name" 'linux["sysctl"] = {"kernel.hostname": "x"}'
    configure 'linux["sysctl"] = {"kernel.shmmax": "1\nkernel.core_pattern=x"}'
    is_refused 'linux.sysctl["kernel.shmmax"]: the value contains a newline'
    is_refused "is not the name of a sysctl" 'linux["sysctl"] = {"net/../kernel/core_pattern": "x"}'
    is_refused "is not the name of a sysctl" 'linux["sysctl"] = {"net..x": "1"}'
}

@test "sysctl: values that are valid in one order only are set in any order" {
    make_bundle cat /proc/sys/net/ipv4/ip_local_port_range
    configure 'namespace("network")
linux["sysctl"] = {"net.ipv4.ip_local_port_range": "500 600", "net.ipv4.ip_unprivileged_port_start": "0"}'
    prints $'500\t600' run_box
    configure 'linux["sysctl"] = dict(reversed(linux["sysctl"].items()))'
    prints $'500\t600' run_box
}

@test "sysctl: a value that the kernel refuses is an error with the name and the value" {
    make_bundle_with 'namespace("network"); linux["sysctl"] = {"net.ipv4.ip_local_port_range": "many"}' true
    fails 1 "sysctl 'net.ipv4.ip_local_port_range': value 'many'" run_box
    configure 'linux["sysctl"] = {"net.no_such_thing": "1"}'
    fails 1 "sysctl 'net.no_such_thing'" run_box
    check_untouched
}

# bats test_tags=user
@test "devices: the default devices, and the links in /dev" {
    make_bundle sh -c 'for name in null zero full random urandom tty; do stat -c "%F %t:%T %a %n" /dev/$name; done
for name in fd stdin stdout stderr ptmx; do readlink /dev/$name; done; ls /dev | tr "\n" " "'
    expect 0 run_box
    local device i=0
    for device in "1:3 666 /dev/null" "1:5 666 /dev/zero" "1:7 666 /dev/full" "1:8 666 /dev/random" "1:9 666 /dev/urandom" "5:0 666 /dev/tty"; do
        [[ ${lines[i]} == "character special file $device" ]] || { echo "${lines[i]}"; return 1; }
        i=$((i + 1))
    done
    [[ ${lines[*]:6:5} == "/proc/self/fd /proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2 pts/ptmx" ]]
    [[ ${lines[11]} != *console* ]]
}

@test "devices: character, block and pipe, with mode and owner" {
    needs_root "a user makes no devices: the host's are bound"
    make_bundle sh -c 'stat -c "%F %t:%T %a %u:%g" /dev/letters /dev/blocks /dev/deep/pipe /dev/unbuffered'
    configure 'linux["devices"] = [
    {"path": "/dev/letters", "type": "c", "major": 1, "minor": 3, "fileMode": 0o640, "uid": 12, "gid": 34},
    {"path": "/dev/blocks", "type": "b", "major": 7, "minor": 300, "fileMode": 0o600},
    {"path": "/dev/deep/pipe", "type": "p", "fileMode": 0o622, "uid": 5, "gid": 6},
    {"path": "/dev/unbuffered", "type": "u", "major": 1, "minor": 5}]'
    expect 0 run_box
    [[ ${lines[0]} == "character special file 1:3 640 12:34" && ${lines[1]} == "block special file 7:12c 600 0:0" ]]
    [[ ${lines[2]} == "fifo 0:0 622 5:6" && ${lines[3]} == "character special file 1:5 "*" 0:0" ]]
}

# bats test_tags=user
@test "devices: in a user namespace the host's devices are bind-mounted" {
    make_bundle sh -c 'stat -c "%F %t:%T" /dev/zero /dev/full; awk "\$5 ~ \"^/dev/(zero|full)\" { print \$5 }" /proc/self/mountinfo | sort; echo x >/dev/null; head -c 2 /dev/zero | wc -c'
    is_rootless || configure 'user_namespace((0, 100000, 65536))'
    configure 'linux["devices"] = [{"path": "/dev/zero", "type": "c", "major": 1, "minor": 5}]'
    prints $'character special file 1:5\ncharacter special file 1:7\n/dev/full\n/dev/zero\n2' run_box
}

@test "devices: in a user namespace, devices that root requests are created outside, with mode and owner" {
    needs_root "a user makes no devices: the host's are bound"
    make_bundle sh -c 'stat -c "%F %t:%T %a %u:%g" /dev/letters /dev/deep/own /dev/full; echo x >/dev/letters
        head -c 2 /dev/deep/own | wc -c; grep " devices " /proc/self/mountinfo | cut -d " " -f 5,6'
    configure 'user_namespace((0, 100000, 65536))'
    configure 'linux["devices"] = [
    {"path": "/dev/letters", "type": "c", "major": 1, "minor": 3, "fileMode": 0o600},
    {"path": "/dev/deep/own", "type": "c", "major": 1, "minor": 5, "fileMode": 0o444, "uid": 12, "gid": 34}]'
    umask 077
    expect 0 run_box
    output_is $'character special file 1:3 600 0:0\ncharacter special file 1:5 444 12:34
character special file 1:7 666 65534:65534\n2\n/dev/letters rw,nosuid,noexec,relatime\n/dev/deep/own rw,nosuid,noexec,relatime'
    stderr_is_empty
    # An owner that has no mapping in the container.
    configure 'linux["devices"] = [{"path": "/dev/x", "type": "c", "major": 1, "minor": 5, "uid": 70000}]
process["args"] = ["stat", "-c", "%t:%T %a %u:%g", "/dev/x"]'
    prints '1:5 666 65534:0' run_box
    # From a directory that the container's root may not enter.
    local bundle=$PWD/bundle
    mkdir -m 700 private
    cd private
    prints '1:5 666 65534:0' runtime run --bundle "$bundle" box </dev/null
}

# bats test_tags=user
@test "devices: a link of the image at a device's path is not followed" {
    make_bundle sh -c 'stat -c %F /dev/null'
    configure 'unmount("/dev", "/dev/pts", "/dev/shm", "/dev/mqueue"); config["root"]["readonly"] = False'
    echo kept >victim
    ln -s "$PWD/victim" bundle/rootfs/dev/null
    ln -s "$PWD" bundle/rootfs/dev/pts
    expect '[01]' run_box
    [[ $(<victim) == kept && $(stat -c %F victim) == "regular file" ]] # CVE-2026-88265
    ((status == 1)) || output_is "character special file"
    # A device covers a file; and a /dev that is a link itself leads to no directory of the host (CVE-2026-47766).
    rm bundle/rootfs/dev/{null,pts}
    touch bundle/rootfs/dev/null
    prints "character special file" run_box
    mv bundle/rootfs/dev bundle/rootfs/moved
    ln -s "$PWD/outside" bundle/rootfs/dev
    mkdir outside
    expect '[01]' run_box
    [[ -z $(ls outside) ]]
}

@test "netDevices: a device moves into the container with its addresses, under a new name, and up" {
    needs_root "the host's devices belong to root"
    ip link add pysbx-a type veth peer name pysbx-b
    ip address add 10.9.8.7/24 brd + dev pysbx-a
    ip address add 198.51.100.1 peer 198.51.100.2 dev pysbx-a
    ip -6 address add fd00:9::7/64 dev pysbx-a
    ip link set pysbx-a mtu 1400 up
    ip link set pysbx-b up
    make_bundle sh -c 'ip -o link show inside; ip -o address show inside; ls /sys/class/net'
    configure 'linux["netDevices"] = {"pysbx-a": {"name": "inside"}}'
    expect 0 run_box
    output_has "10.9.8.7/24 brd 10.9.8.255" "198.51.100.1 peer 198.51.100.2/32" "fd00:9::7/64"
    [[ $output == *UP*" mtu 1400 "* && $output != *"fd00:9::7/64 scope global tentative"* ]]
    output_lacks pysbx-a
}

@test "netDevices: keep their name unless another is given, which must be free" {
    needs_root "the host's devices belong to root"
    ip link add pysbx-a type veth peer name pysbx-b
    make_bundle sh -c 'ls /sys/class/net | tr "\n" " "'
    configure 'linux["netDevices"] = {"pysbx-a": {}, "pysbx-b": {"name": "other"}}'
    prints "lo other pysbx-a " run_box
    ip link add pysbx-a type veth peer name pysbx-b
    configure 'linux["netDevices"] = {"pysbx-a": {"name": "lo"}}'
    fails 1 "linux.netDevices['pysbx-a']" run_box
}

# bats test_tags=user
@test "netDevices: a missing device, two of one name, or a missing namespace are errors" {
    make_bundle true
    if ! is_rootless; then
        configure 'linux["netDevices"] = {"missing0": {}}'
        fails 1 "linux.netDevices['missing0']" run_box
        check_untouched
    fi
    configure 'namespace("network"); linux["netDevices"] = {"a": {"name": "x"}, "b": {"name": "x"}}'
    is_refused "linux.netDevices: two devices would be named 'x'"
    configure 'linux["netDevices"] = {"a": {"name": "longer-than-a-name"}}'
    is_refused "'longer-than-a-name' is not the name of a network device"
    is_refused "linux.netDevices: needs a network namespace" 'linux["netDevices"] = {"a": {}}; share("network")'
}

@test "memoryPolicy: mode, flags and nodes apply to the program" {
    make_bundle sh -c 'awk "{ print \$2 }" /proc/self/numa_maps | sort -u'
    [[ -e /proc/self/numa_maps ]] || skip "this kernel has no NUMA"
    configure 'linux["memoryPolicy"] = {"mode": "MPOL_BIND", "nodes": "0", "flags": ["MPOL_F_STATIC_NODES"]}'
    shows "bind=static:0" run_box
    configure 'linux["memoryPolicy"] = {"mode": "MPOL_INTERLEAVE", "nodes": "0"}'
    shows "interleave:0" run_box
    configure 'linux["memoryPolicy"] = {"mode": "MPOL_DEFAULT", "nodes": ""}'
    prints default run_box
    configure 'linux["memoryPolicy"] = {"mode": "MPOL_BIND", "nodes": "1000"}'
    fails 1 "linux.memoryPolicy: set MPOL_BIND with nodes '1000'" run_box
    is_refused "linux.memoryPolicy.nodes" 'linux["memoryPolicy"]["nodes"] = "x"'
}

@test "exec: has the container's memory policy and personality" {
    [[ $(uname -m) == x86_64 ]] || skip "compares with the names of x86"
    make_bundle sleep 1000
    configure 'linux["personality"] = {"domain": "LINUX32"}; linux["memoryPolicy"] = {"mode": "MPOL_INTERLEAVE", "nodes": "0"}'
    start_box
    prints i686 runtime exec box uname -m
    expect 0 runtime exec box sh -c 'grep stack /proc/self/numa_maps'
    [[ $output == *" interleave:0 "* ]]
}

@test "personality: LINUX32 appears in uname" {
    [[ $(uname -m) == x86_64 ]] || skip "compares with the names of x86"
    make_bundle_with 'linux["personality"] = {"domain": "LINUX32"}' uname -m
    prints i686 run_box
    configure 'linux["personality"] = {"domain": "LINUX"}'
    prints x86_64 run_box
    is_refused "linux.personality.flags[0]" 'linux["personality"] = {"domain": "LINUX", "flags": ["ADDR_NO_RANDOMIZE"]}'
    is_refused "linux.personality.domain" 'linux["personality"] = {"domain": "BSD"}'
}

@test "intelRdt: is refused, because resctrl is not supported" {
    make_bundle_with 'linux["intelRdt"] = {"closID": "group", "schemata": ["L3:0=f"]}' true
    is_refused "linux.intelRdt: resctrl is not supported: remove the property"
    tells 'it["linux"]["intelRdt"] == {"enabled": False}' runtime features
}

@test "config.json: invalid JSON, a wrong type, a duplicate or a missing property is refused with its position" {
    make_bundle true
    cp bundle/config.json config.json
    echo '{ "ociVersion": "1.0.0", ' >bundle/config.json
    is_refused "config.json: line"
    while IFS='|' read -r change text; do
        cp config.json bundle/config.json
        is_refused "$text" "$change"
    done <<'CASES'
config["process"]["args"] = "true"|process.args
config["root"]["readonly"] = "yes"|root.readonly
config["process"]["user"]["uid"] = "root"|process.user.uid
config["mounts"][1]["options"] = [1]|mounts[1].options[0]
del config["ociVersion"]|ociVersion
config["ociVersion"] = "2.0.0"|version '2.0.0' is not supported
config["ociVersion"] = "one"|'one' is not a version
linux["rootfsPropagation"] = "sideways"|linux.rootfsPropagation
linux["resources"] = {"memory": {"limit": "1g"}}|linux.resources.memory.limit
linux["resources"] = {"memory": {"limit": 1e3}}|linux.resources.memory.limit
config["hostname"] = "a\0b"|hostname
CASES
    sed 's/{/{ "hostname": "one", "hostname": "two", /' config.json >bundle/config.json
    is_refused hostname
}

@test "config.json: unknown properties are ignored" {
    make_bundle_with 'config["org.example"] = {"a": [1, 2]}; linux["novelty"] = True; config["windows"] = {}' echo ran
    prints ran run_box
}

@test "config.json: changes after create have no effect" {
    make_bundle echo first
    create_box
    configure 'process["args"] = ["echo", "second"]'
    expect 0 runtime start box
    wait_for grep -q . out
    [[ $(<out) == first ]]
}
