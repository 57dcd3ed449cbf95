#!/usr/bin/env bats
# podman run --volume and --mount: options, propagation, overlays, ownership, idmapped mounts; mount_namespaces(7).

load ../lib/podman.bash

setup_dir() {
    mkdir -p dir
    chmod 0777 dir
    echo host >dir/file
}

@test "podman run -v: reads and writes the host's directory" {
    setup_dir
    prints host podman run --rm --network none -v "$PWD/dir:/data" "$BUSYBOX" sh -c 'cat /data/file; echo new >/data/new'
    [[ $(<dir/new) == new ]]
}

@test "podman run -v ro: is read-only" {
    setup_dir
    fails 1 "read-only file system" podman run --rm --network none -v "$PWD/dir:/data:ro" "$BUSYBOX" touch /data/new
    [[ ! -e dir/new ]]
}

@test "podman run -v: a single file, and destinations that are missing in the image" {
    setup_dir
    prints host podman run --rm --network none -v "$PWD/dir/file:/not/there/before:ro" "$BUSYBOX" cat /not/there/before
}

@test "podman run -v noexec, nosuid, nodev: are in force" {
    setup_dir
    cp "$(command -v busybox)" dir/
    expect 126 podman run --rm --network none -v "$PWD/dir:/data:noexec" "$BUSYBOX" sh -c '/data/busybox true'
    expect 0 podman run --rm --network none -v "$PWD/dir:/data:exec" "$BUSYBOX" grep -o ' /data .*nosuid,nodev' /proc/mounts
    expect 0 podman run --rm --network none --mount "type=bind,src=$PWD/dir,dst=/data,ro" "$BUSYBOX" \
        sh -c 'grep " /data " /proc/mounts | grep -cw ro'
}

@test "podman run -v: includes sub-mounts of the host, without bind-nonrecursive" {
    needs_root "mounts on the host"
    setup_dir
    mkdir dir/sub
    mount -t tmpfs tmpfs dir/sub
    touch dir/sub/inside
    prints inside podman run --rm --network none -v "$PWD/dir:/data" "$BUSYBOX" ls /data/sub
    expect 0 podman run --rm --network none --mount "type=bind,src=$PWD/dir,dst=/data,bind-nonrecursive" "$BUSYBOX" ls /data/sub
    output_is ""
    umount dir/sub
}

@test "podman run -v private: a later mount of the host does not propagate" {
    needs_root "mounts on the host"
    setup_dir
    mkdir dir/sub
    start_sleeper --name sleeper -v "$PWD/dir:/data:rprivate"
    mount -t tmpfs tmpfs dir/sub
    expect 1 podman exec sleeper grep -q ' /data/sub ' /proc/mounts
    umount dir/sub
}

@test "podman run -v slave: mounts of the host propagate, those of the container do not" {
    needs_root "mounts on the host"
    setup_dir
    mkdir dir/sub dir/own
    start_sleeper --name sleeper --cap-add SYS_ADMIN -v "$PWD/dir:/data:rslave"
    mount -t tmpfs tmpfs dir/sub
    expect 0 podman exec sleeper grep -q ' /data/sub ' /proc/mounts
    expect 0 podman exec sleeper mount -t tmpfs tmpfs /data/own
    expect 0 podman exec sleeper grep -q ' /data/own ' /proc/mounts
    expect 32 mountpoint -q dir/own
    umount dir/sub
    expect 1 podman exec sleeper grep -q ' /data/sub ' /proc/mounts
}

@test "podman run -v shared: mounts propagate both ways" {
    needs_root "mounts on the host"
    setup_dir
    mkdir dir/sub
    start_sleeper --name sleeper --cap-add SYS_ADMIN -v "$PWD/dir:/data:rshared"
    expect 0 podman exec sleeper mount -t tmpfs tmpfs /data/sub
    expect 0 mountpoint -q dir/sub
    umount dir/sub
    expect 1 podman exec sleeper grep -q ' /data/sub ' /proc/mounts
}

@test "podman run -v O: writes go to an overlay and are lost" {
    setup_dir
    expect 0 podman run --rm --network none -v "$PWD/dir:/data:O" "$BUSYBOX" sh -c 'echo changed >/data/file; touch /data/new; cat /data/file'
    output_is changed
    [[ $(<dir/file) == host && ! -e dir/new ]]
}

@test "podman run -v VOLUME:O: also in a user namespace, whose root may not pass the volume's directory" {
    needs_root "root's volumes are in directories of root"
    podman volume create layered >/dev/null
    podman run --rm --network none -v layered:/data "$BUSYBOX" sh -c 'echo volume >/data/file'
    expect 0 podman run --rm --network none --uidmap 0:200000:1000 --gidmap 0:200000:1000 -v layered:/data:O "$BUSYBOX" cat /data/file
    output_is volume
    podman volume rm layered >/dev/null
}

@test "podman run -v U: the user becomes the directory's owner" {
    setup_dir
    prints 1000 podman run --rm --network none -u user -v "$PWD/dir:/data:U" "$BUSYBOX" stat -c %u /data/file
    podman unshare true 2>/dev/null && podman unshare rm -rf dir
    is_rootless || [[ $(stat -c %u dir/file) == 1000 ]]
}

@test "podman run -v idmap: the mount translates the owner, and the disk does not change" {
    needs_root "idmapped mounts need privilege over the file system"
    setup_dir
    prints 0 podman run --rm --network none --uidmap 0:200000:1000 --gidmap 0:200000:1000 -v "$PWD/dir:/data:idmap" \
        "$BUSYBOX" sh -c 'stat -c %u /data/file; touch /data/new'
    [[ $(stat -c %u dir/file) == 0 && $(stat -c %u dir/new) == 0 ]]
}

@test "podman volume: named volumes keep their contents, and start with the image's" {
    podman volume create keep
    prints user podman run --rm --network none -v keep:/home "$BUSYBOX" sh -c 'ls /home; echo kept >/home/file'
    prints kept podman run --rm --network none -v keep:/home "$BUSYBOX" cat /home/file
    podman volume rm keep
}

@test "podman run --volumes-from: another container's volumes" {
    setup_dir
    start_sleeper --name giver -v "$PWD/dir:/data"
    prints host podman run --rm --network none --volumes-from giver "$BUSYBOX" cat /data/file
}

@test "podman run --mount type=devpts, type=tmpfs, type=image" {
    expect 0 podman run --rm --network none --mount type=devpts,destination=/pts,max=3 \
        --mount type=tmpfs,tmpfs-size=64k,destination=/small --mount "type=image,source=$BUSYBOX,destination=/image" \
        "$BUSYBOX" sh -c 'stat -f -c %T /pts; df -k /small | tail -n 1 | grep -o " 64 " | head -n 1; ls /image/bin/busybox'
    output_has "/image/bin/busybox" " 64 "
}
