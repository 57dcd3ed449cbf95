#!/usr/bin/env bats
# mounts, root, linux.rootfsPropagation, linux.maskedPaths, linux.readonlyPaths: config.md, config-linux.md, mount(8).

load ../lib/bundle.bash

setup() {
    begin_test
    mkdir -p shared/below
    echo file >shared/file
}

teardown() {
    ! mountpoint -q shared/below || umount shared/below
    ! mountpoint -q pins || umount -R pins
    clean_up
}

# Mount a file system below the directory that containers get.
mount_below() {
    mount -t tmpfs below shared/below
    echo deep >shared/below/file
}

# Print a script that shows the options of the container's mount at a path.
print_options() {
    printf 'awk '\''$5 == "%s" { print $6 }'\'' /proc/self/mountinfo | tail -n 1\n' "$@"
}

@test "mounts: each attribute takes effect on the mount" {
    make_bundle sh -c "$(print_options /ro /nosuid /nodev /noexec /noatime /nodiratime /nosymfollow /strictatime /many)"
    configure 'for word in "ro nosuid nodev noexec noatime nodiratime nosymfollow strictatime".split():
    mount(f"/{word}", "none", word, kind="tmpfs")
mount("/many", "none", "ro", "nosuid", "rw", "nodev", "noexec", "exec", kind="tmpfs")'
    expect 0 run_box
    local word i=0
    for word in ro nosuid nodev noexec noatime nodiratime nosymfollow; do
        [[ ,${lines[i]}, == *,$word,* ]] || { echo "$word: ${lines[i]}"; return 1; }
        i=$((i + 1))
    done
    [[ ${lines[7]} == rw && ${lines[8]} == rw,nosuid,nodev,relatime ]]
}

@test "mounts: a bind mount keeps the source's attributes and adds its own" {
    make_bundle sh -c "$(print_options /data); touch /data/inner/x /data/x"
    configure 'mount("/data", arguments[0], "ro", "nodev", "noexec"); mount("/data/inner", "none", kind="tmpfs")' "$PWD/shared"
    expect 1 run_box
    [[ $output == ro,*nodev,noexec* && -d shared/inner ]] # It is read-only once the mounts in it have their directories.
    [[ $stderr == "touch: /data/x: Read-only file system" ]]
}

@test "mounts: unknown options go to the file system" {
    make_bundle sh -c 'stat -c %a /sized; df -k /sized | tail -n 1 | awk "{ print \$2 }"'
    configure 'mount("/sized", "none", "size=2m", "mode=0710", kind="tmpfs")'
    prints $'710\n2048' run_box
    configure 'mount("/sized", "none", "colour=red", kind="tmpfs")'
    fails 1 "colour" run_box
}

@test "mounts: an unknown option of a bind mount is named, because it has no effect" {
    make_bundle sh -c "$(print_options /data)"
    configure 'mount("/data", arguments[0], "nodev", "nosiud", "nocopy", "copy")' "$PWD/shared" # Podman 4 leaves two
    expect 0 run_box
    [[ $output == *nodev* && $stderr == "pysbx-runtime: mount '/data': option 'nosiud': unknown, and without effect on a bind mount" ]]
}

@test "mounts: rro, rnosuid, rnodev, rnoexec, rnoatime apply to mounts below; ro only to the first" {
    needs_root "the host's mounts belong to root"
    mount_below
    make_bundle sh -c "$(print_options /all /all/below /one /one/below); touch /one/below/x && echo written"
    configure 'mount("/all", arguments[0], "rbind", "rro", "rnosuid", "rnodev", "rnoexec", "rnoatime")
mount("/one", arguments[0], "rbind", "ro")' "$PWD/shared"
    expect 0 run_box
    [[ ${lines[0]} == ro,nosuid,nodev,noexec,noatime && ${lines[1]} == ro,nosuid,nodev,noexec,noatime ]]
    [[ ${lines[2]} == ro,* && ${lines[3]} == rw,* && ${lines[4]} == written ]]
}

@test "mounts: rrw, rsuid, rdev, rexec clear attributes of mounts below" {
    needs_root "the host's mounts belong to root"
    mount_below
    mount -o remount,bind,ro,nosuid,nodev,noexec shared/below
    make_bundle sh -c "$(print_options /all/below)"
    configure 'mount("/all", arguments[0], "rbind", "rrw", "rsuid", "rdev", "rexec")' "$PWD/shared"
    prints rw,relatime run_box
}

@test "mounts: bind binds one mount, rbind the tree" {
    needs_root "the host's mounts belong to root"
    mount_below
    make_bundle sh -c 'ls /one/below /all/below'
    configure 'mount("/one", arguments[0]); mount("/all", arguments[0], "rbind")' "$PWD/shared"
    prints $'/all/below:\nfile\n\n/one/below:' run_box
}

@test "mounts: shared, slave, private and unbindable set the propagation of the mount" {
    make_bundle sh -c 'awk '\''$5 ~ "^/p-" { print $5, $7, $8 }'\'' /proc/self/mountinfo | sed "s/[0-9]*//g"'
    configure 'for word in "shared slave private unbindable rshared rslave rprivate runbindable".split():
    mount(f"/p-{word}", arguments[0], "rbind", word)' "$PWD/shared"
    expect 0 run_box
    output_has "/p-private - " "/p-unbindable unbindable -"
    output_has "/p-rprivate - " "/p-runbindable unbindable -"
    output_has "/p-slave master:" "/p-rslave master:"
    is_rootless || output_has "/p-shared shared:"
}

@test "mounts: sources are relative to the bundle, destinations to the root" {
    make_bundle cat /data/file
    mkdir bundle/volume
    echo relative >bundle/volume/file
    configure 'mount("data", "volume")'
    prints relative run_box
}

@test "mounts: destinations are created with the source's type, and never outside of the root" {
    make_bundle cat /new/dir/file /new/name /link/file /etc/resolv.conf /run/stub/resolv.conf
    ln -s ../../../../../../../outside bundle/rootfs/link # CVE-2019-18837
    ln -s ../run/stub/resolv.conf bundle/rootfs/etc/resolv.conf
    configure 'mount("/new/dir", arguments[0]); mount("/link", arguments[0])
for name in "/new/name", "/etc/resolv.conf": mount(name, arguments[0] + "/file")' "$PWD/shared"
    prints $'file\nfile\nfile\nfile\nfile' run_box
    [[ -d bundle/rootfs/outside && ! -e outside && ! -e /outside ]]
}

@test "mounts: an impossible mount is refused with its position in the list" {
    make_bundle_with 'config["mounts"] = []; mount("/data", "/missing/source")' true
    fails 1 "mount source '/missing/source'" run_box
    check_untouched
    configure 'config["mounts"] = [{"destination": "/data", "source": "/tmp"}]'
    is_refused "mounts[0] ('/data'): neither a type nor one of the options bind and rbind"
    is_refused "a mount on '/' would cover the root file system" 'config["mounts"] = []; mount("/", "/tmp")'
    is_refused "tmpcopyup is for tmpfs only" 'config["mounts"] = []; mount("/data", "/tmp", "tmpcopyup")'
    is_refused "mounts[0]" 'config["mounts"] = [{"type": "tmpfs"}]'
    configure 'config["mounts"] = []; mount("/data", "none", kind="nonsensefs")'
    fails 1 "nonsensefs" run_box
    check_untouched
}

@test "mounts: proc and sysfs are not mounted on a symbolic link" {
    for name in proc sys; do # CVE-2019-19921, CVE-2023-28642
        make_bundle true
        rmdir "bundle/rootfs/$name"
        ln -s /tmp "bundle/rootfs/$name"
        fails 1 "'/$name' in the root file system is a symbolic link" run_box
        check_untouched
        rm "bundle/rootfs/$name"
        mkdir "bundle/rootfs/$name"
    done
}

@test "mounts: tmpcopyup copies contents, modes, owners and links of the image" {
    make_bundle sh -c 'cd /etc/copied; stat -c "%a %u:%g %n" . dir dir/file; readlink link; stat -c %h twin; stat -f -c %T .; rm link'
    mkdir -p bundle/rootfs/etc/copied/dir
    cd bundle/rootfs/etc/copied
    echo text >dir/file
    ln -s dir/file link
    echo twin >twin
    ln twin other
    chmod 0751 .
    chmod 0700 dir
    local owner=0:0
    is_rootless || { chown 12:34 dir/file && owner=12:34; }
    chmod 04604 dir/file
    cd "$BATS_TEST_TMPDIR"
    configure 'mount("/etc/copied", "none", "tmpcopyup", kind="tmpfs")'
    expect 0 run_box
    [[ ${lines[0]} == "751 0:0 ." && ${lines[1]} == "700 0:0 dir" && ${lines[2]} == "4604 $owner dir/file" ]]
    [[ ${lines[3]} == dir/file && ${lines[5]} == tmpfs && -L bundle/rootfs/etc/copied/link ]]
}

@test "mounts: a tmpfs has the mode of the directory that it covers, unless one is given" {
    make_bundle stat -c %a /tmp /home/user /given
    chmod 0701 bundle/rootfs/home/user
    configure 'mount("/tmp", "none", kind="tmpfs"); mount("/home/user", "none", kind="tmpfs"); mount("/given", "none", "mode=0555", kind="tmpfs")'
    prints $'1777\n701\n555' run_box
}

@test "mounts: a tmpfs on a missing directory is writable for all users, and the directory is made with mode 0755" {
    make_bundle stat -L -c '%a %n' /new /far /far/below /linked
    ln -s /elsewhere/there bundle/rootfs/linked
    configure 'for name in "/new", "/far/below", "/linked": mount(name, "none", kind="tmpfs")'
    prints $'1777 /new\n755 /far\n1777 /far/below\n1777 /linked' run_box
    [[ $(stat -c %a bundle/rootfs/{new,far/below,elsewhere,elsewhere/there}) == $'755\n755\n755\n755' ]]
    # Then they cover a directory that exists.
    prints $'755 /new\n755 /far\n755 /far/below\n755 /linked' run_box
}

# Run the container once for each way to order the numbers of a pinned and of its own mount namespace, which the kernel
# hands out for each CPU. Each time, pins/ns is a mount of the former.
run_beside_pin() {
    local pinned ran count=0
    for pinned in 0 $(($(nproc) - 1)); do
        for ran in 0 $(($(nproc) - 1)); do
            # The kernel refuses a pin with a smaller number than that of this namespace.
            taskset -c "$pinned" unshare --mount="$PWD/pins/ns" true 2>/dev/null || continue
            prints file taskset -c "$ran" "$RUNTIME" run --bundle bundle box </dev/null
            umount pins/ns
            count=$((count + 1))
        done
    done
    ((count > 0))
}

@test "mounts: a pinned mount namespace below a recursive bind or the root is left out, as in every new namespace" {
    needs_root "a user makes no mounts on the host"
    mkdir pins
    mount --bind pins pins
    mount --make-private pins
    touch pins/ns
    echo file >pins/file
    make_bundle cat /data/file
    mkdir bundle/rootfs/data
    configure 'user_namespace((0, 100000, 65536)); mount("/data", arguments[0], "rbind")' "$PWD/pins"
    run_beside_pin
    configure 'config["mounts"].pop(); mount("/data", arguments[0], "rbind", "idmap")' "$PWD/pins"
    run_beside_pin
    configure 'share("user"); del linux["uidMappings"], linux["gidMappings"]; config["mounts"][-1].update(uidMappings=ids((0, 0, 1)), gidMappings=ids((0, 0, 1)))'
    run_beside_pin
    cp -a bundle/rootfs/. pins/
    configure 'config["mounts"].pop(); user_namespace((0, 100000, 65536)); config["root"]["path"] = arguments[0]; process["args"] = ["cat", "/file"]' "$PWD/pins"
    run_beside_pin
}

@test "mounts: the layers of an overlay in a user namespace may be below a directory that its root cannot pass" {
    needs_root "a user's overlay lies in directories of the user"
    local deep=private
    # fsconfig(2) takes no option of more than 256 bytes.
    for deep in private private/$(printf 'long%.0s' {1..60})/$(printf 'long%.0s' {1..60}); do
        mkdir -p "$deep"/{lower,upper,work}
        echo lower >"$deep/lower/file"
        mknod --mode 666 "$deep/lower/null" c 1 3
        chown -R 100000:100000 "$deep"/*
        chmod 700 private
        make_bundle sh -c 'cat /data/file; echo upper >/data/file; stat -c %u /data/file; cat /data/null 2>&1'
        mkdir -p bundle/rootfs/data
        configure 'user_namespace((0, 100000, 65536))
mount("/data", "overlay", *(f"{name}dir={arguments[0]}/{name}" for name in ("lower", "upper", "work")), kind="overlay")' "$PWD/$deep"
        expect 1 run_box
        output_is $'lower\n0\ncat: can\'t open \'/data/null\': Permission denied'
        [[ $(<"$deep/upper/file") == upper && $(stat -c %u "$deep/upper/file") == 100000 ]]
    done
}

@test "mounts: copy-symlink creates the link itself" {
    make_bundle sh -c 'readlink /made/link'
    ln -s some/where/else pointer
    configure 'mount("/made/link", arguments[0], "copy-symlink")' "$PWD/pointer"
    prints some/where/else run_box
}

@test "mounts: src-nofollow mounts a link itself, dest-nofollow mounts over one" {
    make_bundle sh -c 'cat /to; readlink /data'
    ln -s shared pointer
    ln -s /there bundle/rootfs/to
    ln -s /there bundle/rootfs/data
    configure 'mount("/to", arguments[0] + "/file", "dest-nofollow")
mount("/data", arguments[1], "src-nofollow", "dest-nofollow")' "$PWD/shared" "$PWD/pointer"
    prints $'file\nshared' run_box
    [[ ! -e bundle/rootfs/there ]]
}

# Assert the owner of the file in a mount with these additional properties: owner_is USER:GROUP STATEMENT
owner_is() {
    make_bundle sh -c 'stat -c %u:%g /data/file; touch /data/new 2>/dev/null'
    configure "$2" "$PWD/shared"
    mkdir -p bundle/rootfs/data
    rm -f shared/new
    expect '?' run_box
    output_is "$1"
}

@test "mounts: idmap: the mount's own mappings translate the owner, and the disk does not change" {
    needs_root "mapping mounts needs rights over the file system"
    chown -R 100000:100001 shared
    owner_is 0:1 'mount("/data", arguments[0], "idmap", uidMappings=ids((100000, 0, 1000)), gidMappings=ids((100000, 0, 1000)))'
    [[ $(stat -c %u shared/new) == 100000 && $(stat -c %u:%g shared/file) == 100000:100001 ]]
    owner_is 0:1 'mount("/data", arguments[0], uidMappings=ids((100000, 0, 1000)), gidMappings=ids((100000, 0, 1000)))'
}

@test "mounts: idmap without mappings uses those of the user namespace" {
    needs_root "mapping mounts needs rights over the file system"
    chown -R 5:6 shared
    owner_is 5:6 'user_namespace((0, 100000, 65536)); mount("/data", arguments[0], "idmap")'
    owner_is 65534:65534 'user_namespace((0, 100000, 65536)); mount("/data", arguments[0])'
}

@test "mounts: idmap in a joined user namespace uses the mapping of that" {
    needs_root "mapping mounts needs rights over the file system"
    chown -R 5:6 shared
    make_bundle_with 'user_namespace((0, 100000, 65536))' sleep 1000
    start_box
    joined=$(printf 'namespace("user", "/proc/%s/ns/user"); ' "$(pid_of_box)")
    mkdir other
    cp -a bundle other/
    cd other
    ln -s ../shared shared
    owner_in_box_is() {
        configure "$2" "$PWD/../shared"
        prints "$1" runtime run --bundle bundle second </dev/null
    }
    make_bundle stat -c %u:%g /data/file
    mkdir -p bundle/rootfs/data
    owner_in_box_is 5:6 "$joined"'mount("/data", arguments[0], "idmap")'
    configure 'config["mounts"].pop()'
    owner_in_box_is 65534:65534 'mount("/data", arguments[0])'
    configure 'config["mounts"].pop()'
    owner_in_box_is 7:8 'mount("/data", arguments[0], "idmap=uids=@5-7-1;gids=@6-8-1")'
}

@test "mounts: idmap=uids=…;gids=…: ranges in the option, @ through the user namespace" {
    needs_root "mapping mounts needs rights over the file system"
    chown -R 1000:2000 shared
    owner_is 7:8 'mount("/data", arguments[0], "idmap=uids=1000-7-1;gids=2000-8-1")'
    owner_is 9:8 'mount("/data", arguments[0], "idmap=uids=0-0-5#1000-9-1;gids=2000-8-1")'
    owner_is 7:8 'user_namespace((0, 100000, 65536)); mount("/data", arguments[0], "idmap=gids=@2000-8-1;uids=@1000-7-1")'
    is_refused "is outside of the container's id mapping" 'config["mounts"][-1]["options"] = ["bind", "idmap=uids=@0-70000-1;gids=0-0-1"]'
}

@test "mounts: ridmap maps the mounts below as well, idmap only the first" {
    needs_root "mapping mounts needs rights over the file system"
    mount_below
    chown -R 1000:1000 shared
    make_bundle stat -c %u /one/file /one/below/file /all/file /all/below/file
    configure 'lists = {"uidMappings": ids((1000, 0, 10)), "gidMappings": ids((1000, 0, 10))}
mount("/one", arguments[0], "rbind", "idmap", **lists); mount("/all", arguments[0], "rbind", "ridmap", **lists)' "$PWD/shared"
    prints $'0\n1000\n0\n0' run_box
}

@test "mounts: idmap by a runtime that does not own the file system: the error names the kernel's rule" {
    needs_root "a user without a user namespace around the runtime cannot make the mapping"
    make_bundle true
    configure 'share("network", "cgroup"); unmount("/sys", "/sys/fs/cgroup"); mount("/data", arguments[0], uidMappings=ids((0, 0, 1)), gidMappings=ids((0, 0, 1)))' "$PWD"
    fails 1 "mounts[" unshare --user --map-root-user --mount "$RUNTIME" --root "$PWD/state" run --bundle bundle box
    stderr_has "('/data'): idmap: map the mount: not permitted: the kernel demands CAP_SYS_ADMIN in the user namespace that the file system belongs to"
}

@test "mounts: idmap with empty or incomplete mappings is refused" {
    make_bundle true
    for option in idmap=uids=0-0-1 'idmap=uids=0-0;gids=0-0-1' 'idmap=uids=0-0-1;gids=a-b-c' idmap=users=1; do
        is_refused "mounts[0] ('/data'): idmap: " 'config["mounts"] = []; mount("/data", "/tmp", arguments[0])' "$option"
    done
    for option in 0-1 0-1-2-3 0-1-0 -1-1-1 '' 0-0-4294967296; do
        configure 'config["mounts"] = []; mount("/data", "/tmp", "idmap=uids=" + arguments[0] + ";gids=0-0-1")' "$option"
        fails 1 "is not of the form" runtime plan --bundle bundle
    done
    configure 'config["mounts"] = []; mount("/data", "/tmp", uidMappings=ids((0, 0, 1)))'
    is_refused "mounts[0]: uidMappings needs gidMappings"
    configure 'config["mounts"] = []; mount("/data", "none", "idmap=uids=0-0-1;gids=0-0-1", kind="tmpfs")'
    is_refused "only bind mounts can be id-mapped"
}

@test "mounts: remount changes the options of a mount of the list" {
    make_bundle sh -c "$(print_options /data); df -k /data | tail -n 1 | awk '{ print \$2 }'"
    configure 'mount("/data", "none", "size=1m", kind="tmpfs"); mount("/data", "none", "remount", "ro", "size=2m", kind="tmpfs")'
    expect 0 run_box
    [[ ${lines[0]} == ro,* && ${lines[1]} == 2048 ]]
}

@test "mounts: cgroup is this container's tree, and read-only parts stay read-only" {
    needs_cgroups
    make_bundle sh -c "$(print_options /sys/fs/cgroup); cat /sys/fs/cgroup/cgroup.procs | wc -l; mkdir /sys/fs/cgroup/x"
    expect 1 run_box
    [[ ${lines[0]} == ro,nosuid,nodev,noexec,relatime ]]
    ((lines[1] >= 1))
}

@test "mounts: options of a cgroup mount that cgroup2 does not have are refused" {
    make_bundle_with 'mount("/sys/fs/cgroup", "cgroup", "ro", "nsdelegate", kind="cgroup")' true
    expect 0 run_box
    configure 'mount("/sys/fs/cgroup", "cgroup", "ro", "name=systemd", kind="cgroup")'
    is_refused "unknown option 'name=systemd' of a cgroup mount"
}

@test "mounts: /sys/fs/cgroup is read-only also without rights over a cgroup" {
    needs_rootless
    make_bundle sh -c '! touch /sys/fs/cgroup/x; ! mkdir /sys/fs/cgroup/y'
    expect 0 run_box
}

@test "mounts: proc accepts its own options" {
    make_bundle sh -c 'ls /proc | grep -c sysvipc'
    configure 'config["mounts"][0]["options"] = ["subset=pid"]; linux["maskedPaths"] = linux["readonlyPaths"] = []'
    expect 1 run_box
    output_is 0
}

@test "root.readonly: the root is read-only, mounts may be writable" {
    make_bundle sh -c 'touch /tmp/x || touch /data/x'
    configure 'mount("/data", arguments[0])' "$PWD/shared"
    expect 0 run_box
    stderr_has "Read-only file system"
    [[ -e shared/x ]]
    configure 'config["root"]["readonly"] = False'
    expect 0 run_box
    stderr_is_empty
    [[ -e bundle/rootfs/tmp/x ]]
}

@test "root.path: absolute or relative to the bundle, and it must be a directory" {
    make_bundle echo here
    mv bundle/rootfs elsewhere
    configure 'config["root"]["path"] = arguments[0]' "$PWD/elsewhere"
    expect 0 run_box
    configure 'config["root"]["path"] = "../elsewhere"'
    expect 0 run_box
    is_refused "missing" 'config["root"]["path"] = "missing"'
    is_refused "'root' is missing" 'del config["root"]'
}

@test "rootfsPropagation: sets the propagation of the container's root" {
    make_bundle sh -c 'awk '\''$5 == "/" { print $7 }'\'' /proc/self/mountinfo | cut -d: -f1'
    for word in private rprivate unbindable runbindable; do
        configure 'linux["rootfsPropagation"] = arguments[0]' "$word"
        expect 0 run_box
        [[ $output == - || $output == unbindable ]]
        [[ $word != *unbindable || $output == unbindable ]]
    done
    configure 'linux["rootfsPropagation"] = "rslave"'
    expect 0 run_box
    [[ $output == master || $output == - ]]
    is_rootless && return
    configure 'linux["rootfsPropagation"] = "shared"'
    prints shared run_box
}

@test "rootfsPropagation slave: mounts of the host propagate; private: they do not" {
    needs_root "the host's mounts belong to root"
    make_bundle sh -c 'touch /data/ready; while [ ! -e /data/go ]; do sleep 0.05; done; ls /data/below'
    for word in rslave rprivate; do
        rm -f shared/go shared/ready out
        configure 'config["mounts"] = [m for m in config["mounts"] if m["destination"] != "/data"]
linux["rootfsPropagation"] = arguments[1]; mount("/data", arguments[0], "rbind", arguments[1])' "$PWD/shared" "$word"
        (run_box >out) &
        wait_for test -e shared/ready
        mount_below
        touch shared/go
        wait $!
        umount shared/below
        [[ $word == rslave && $(<out) == file || $word == rprivate && -z $(<out) ]]
    done
}

@test "maskedPaths: a file is empty, a directory too, and a missing path is no error" {
    make_bundle sh -c 'cat /secret/file; ls /secret/dir; cat /secret/file | wc -c; ls /secret/dir | wc -l'
    mkdir -p bundle/rootfs/secret/dir
    echo secret | tee bundle/rootfs/secret/file >bundle/rootfs/secret/dir/file
    configure 'linux["maskedPaths"] = ["/secret/file", "/secret/dir", "/secret/missing", "/missing/missing"]'
    prints $'0\n0' run_box
    stderr_is_empty
    make_bundle sh -c 'echo x >/secret/file; touch /secret/dir/x'
    configure 'config["root"]["readonly"] = False; linux["maskedPaths"] = ["/secret/file", "/secret/dir"]'
    expect 1 run_box
    [[ $(<bundle/rootfs/secret/file) == secret && ! -e bundle/rootfs/secret/dir/x ]]
}

@test "maskedPaths, readonlyPaths: the root is refused, because a mount on it has no effect" {
    local key path
    make_bundle true
    for key in maskedPaths readonlyPaths; do
        for path in / /.. /bin/.. //; do
            configure 'linux[arguments[0]] = [arguments[1]]' "$key" "$path"
            fails 1 "linux.${key}[0]: '$path' is the container's root: use root.readonly" run_box
        done
        configure 'linux.pop(arguments[0])' "$key"
    done
}

@test "readonlyPaths: a file, a directory and mounts below it are read-only, and a missing path is no error" {
    make_bundle sh -c 'for path in /fixed/file /fixed/dir/x /fixed/dir/below/x; do touch $path 2>/dev/null && echo $path; done; cat /fixed/file'
    mkdir -p bundle/rootfs/fixed/dir
    echo text >bundle/rootfs/fixed/file
    configure 'config["root"]["readonly"] = False; mount("/fixed/dir/below", "none", kind="tmpfs")
linux["readonlyPaths"] = ["/fixed/file", "/fixed/dir", "/missing"]'
    prints text run_box
}

@test "--no-pivot: the runtime enters the root by moving its mount" {
    make_bundle sh -c 'ls -d /proc/1/root/bin /bin; cat /data/file; awk '\''$5 == "/"'\'' /proc/self/mountinfo | wc -l'
    configure 'mount("/data", arguments[0])' "$PWD/shared"
    expect 0 run_box --no-pivot
    [[ ${lines[0]} == /bin && ${lines[2]} == file && ${lines[3]} == 1 ]]
}

# bats test_tags=user
@test "a mount target that cannot be made: the error has the reason, for a file and for a directory" {
    make_bundle true
    mkdir dir
    touch file
    for source in dir file; do
        configure 'config["mounts"] = [m for m in config["mounts"] if not m["destination"].startswith("/full")]
mount("/full", "none", "nr_inodes=1", kind="tmpfs"); mount("/full/target", arguments[0])' "$PWD/$source"
        fails 1 "make mount target '/full/target': no space left" run_box
    done
}

# mount(2) of a second procfs needs a complete one in the mount namespace. The environment has stacked one on another.
@test "--no-pivot: no procfs or sysfs of the host remains, with which a nested user namespace could mount its own" {
    needs_root "a user's container gets the mounts of the host locked"
    mkdir -p "dir with blanks/proc" bare/sys
    mount -t proc proc "$PWD/dir with blanks/proc"
    mount -t sysfs sysfs "$PWD/bare/sys"
    make_bundle sh -c 'unshare -mrpf mount -t proc none /proc; unshare -mrn mount -t sysfs none /sys; mount'
    configure 'linux["maskedPaths"] = ["/proc/keys", "/sys/firmware"]
capabilities("CAP_SYS_ADMIN", "CAP_SETFCAP")'
    expect 0 run_box
    local refused=$stderr mounts=$output
    [[ $refused == *"permission denied"*"permission denied"* ]]
    expect 0 run_box --no-pivot
    umount "$PWD/dir with blanks/proc" "$PWD/bare/sys"
    [[ $stderr == "$refused" && $output != *bare* && $output == *" on /sys type sysfs"* ]]
    [[ $(grep -c ' type proc' <<<"$output") == "$(grep -c ' type proc' <<<"$mounts")" ]]
}

@test "without a mount namespace: the program is confined to its root, and delete removes the mounts" {
    needs_root "a user needs a mount namespace"
    make_bundle sh -c 'cat /data/file; ls /; sleep 1000'
    configure 'share("mount"); mount("/data", arguments[0]); linux["maskedPaths"] = linux["readonlyPaths"] = []' "$PWD/shared"
    start_box
    wait_for grep -q var out
    [[ $(head -n 1 out) == file && $(<out) != *pysbx-test* ]]
    findmnt --noheadings "$PWD/bundle/rootfs/data" >/dev/null
    expect 0 runtime delete --force box
    [[ $(</proc/self/mountinfo) != *bundle/rootfs/data* ]]
}

@test "a mount namespace by path: the container's mounts are created in it, and removed" {
    needs_root "a user has no rights over such a namespace"
    hold unshare --mount sh -c 'mount -t tmpfs of-the-namespace /mnt && touch ready && exec sleep 1000'
    local holder=$!
    wait_for test -e ready
    make_bundle sh -c 'cat /data/file; readlink /proc/self/ns/mnt; sleep 1000'
    configure 'namespace("mount", arguments[1]); mount("/data", arguments[0]); linux["maskedPaths"] = linux["readonlyPaths"] = []' \
        "$PWD/shared" "/proc/$holder/ns/mnt"
    start_box
    wait_for grep -q mnt out
    [[ $(<out) == "file"$'\n'"$(readlink "/proc/$holder/ns/mnt")" ]]
    grep -q "bundle/rootfs/data" "/proc/$holder/mountinfo"
    expect 0 runtime delete --force box
    [[ $(<"/proc/$holder/mountinfo") != *bundle/rootfs* ]]
}

@test "plan: shows how each mount and device is made" {
    mkdir other
    make_bundle true
    configure 'mount("/data", arguments[0], "ro"); mount("/data/below", arguments[1], "rshared")
mount("/fresh", "none", kind="tmpfs"); mount("/fresh/inner", arguments[1])' "$PWD/shared" "$PWD/other"
    expect 0 runtime plan --bundle bundle
    output_holds '(lambda mounts: mounts["/data"]["peersOfSource"] == "slave" and mounts["/data"]["readonlyLast"]
        and mounts["/data/below"]["peersOfSource"] == "keep" and mounts["/proc"]["strictTarget"]
        and mounts["/fresh"]["call"] == "fsmount" and mounts["/fresh"]["inheritMode"]
        and "call" not in mounts["/data"])({m["target"]: m for m in it["rootfs"]["mounts"]})'
    output_holds '{"fd", "stdin", "stdout", "stderr", "ptmx"} <= {*it["rootfs"]["deviceLinks"]}'
    output_holds 'all(d["ifDevExists"] for d in it["rootfs"]["devices"])'
}
