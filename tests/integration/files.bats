#!/usr/bin/env bats
# The container's file system: read-only root, tmpfs, devices, podman cp, diff, commit, secrets.

load ../lib/podman.bash

@test "podman run --read-only: the root is read-only, /tmp, /run and /dev/shm are not" {
    prints "Read-only file system" podman run --rm --network none --read-only "$BUSYBOX" sh -c '
        touch /file 2>&1 | grep -o "Read-only file system"
        for dir in /tmp /run /var/tmp /dev/shm; do touch $dir/file || echo "$dir"; done'
}

@test "podman run --read-only --read-only-tmpfs=false: only /dev is writable" {
    prints "" podman run --rm --network none --read-only --read-only-tmpfs=false "$BUSYBOX" sh -c '
        for dir in / /tmp /run /var/tmp; do touch $dir/file 2>/dev/null && echo "$dir"; done; :'
}

@test "podman run --tmpfs: size, mode and the contents of the image" {
    expect 0 podman run --rm --network none --tmpfs /home:size=1m,mode=0711 "$BUSYBOX" sh -c '
        grep " /home " /proc/mounts | grep -o "size=1024k"; stat -c %a /home; ls /home
        dd if=/dev/zero of=/home/big bs=1k count=2048 2>&1 | grep -o "No space left on device"'
    output_is $'size=1024k\n711\nuser\nNo space left on device'
}

@test "podman run --tmpfs notmpcopyup: starts empty" {
    prints "" podman run --rm --network none --tmpfs /home:notmpcopyup "$BUSYBOX" ls -A /home
}

@test "podman run --tmpfs --user: can write to a directory that is missing in the image; with a mode also after a restart" {
    expect 0 podman run --name writer --network none --user 1000:1000 --tmpfs /not/there "$BUSYBOX" touch /not/there/file
    # Now the tmpfs has the mode of the directory that was made for it.
    fails 1 "Permission denied" podman start --attach writer
    expect 0 podman run --name other --network none --user 1000:1000 --tmpfs /not/there:mode=1777 "$BUSYBOX" touch /not/there/file
    expect 0 podman start --attach other
}

@test "podman run --tmpfs: noexec; nosuid and nodev are always on" {
    prints $'/b runs\n2' podman run --rm --network none --tmpfs /a:noexec --tmpfs /b "$BUSYBOX" sh -c '
        for dir in /a /b; do cp /bin/busybox $dir/; $dir/busybox echo "$dir runs" 2>/dev/null; done
        grep -c -E " /[ab] tmpfs .*nosuid,nodev" /proc/mounts'
}

@test "podman run --shm-size: size of /dev/shm" {
    shows 2048 podman run --rm --network none --shm-size 2m "$BUSYBOX" sh -c 'df -k /dev/shm | tail -n 1'
}

@test "podman run --device: the device exists, with its access" {
    prints $'character special file\n3' podman run --rm --network none --device /dev/full:/dev/mine:r "$BUSYBOX" sh -c '
        stat -c %F /dev/mine; head -c 3 /dev/mine | wc -c'
}

@test "podman run: the cgroup refuses a device that was not given" {
    needs_root "the host's own permissions decide"
    [[ -c /dev/fuse ]] || skip "no /dev/fuse"
    prints "Operation not permitted" podman run --rm --network none --cap-add MKNOD "$BUSYBOX" sh -c '
        mknod /tmp/fuse c 10 229; (: </tmp/fuse) 2>&1 | grep -o "Operation not permitted"'
    prints opened podman run --rm --network none --cap-add MKNOD --device-cgroup-rule 'c 10:229 rwm' "$BUSYBOX" sh -c '
        mknod /tmp/fuse c 10 229; (: </tmp/fuse) && echo opened'
    prints opened podman run --rm --network none --device /dev/fuse "$BUSYBOX" sh -c '(: </dev/fuse) && echo opened'
}

@test "podman run --privileged: the host's devices, and every mount is allowed" {
    expect 0 podman run --rm --network none --privileged "$BUSYBOX" sh -c '
        mount -t tmpfs tmpfs /tmp && test -w /proc/sys/kernel/domainname && ls /dev | wc -l'
    [[ $output -gt 15 ]]
}

@test "podman cp: to and from a running container" {
    start_sleeper --name sleeper
    echo content >file
    expect 0 podman cp file sleeper:/tmp/
    prints content podman exec sleeper cat /tmp/file
    expect 0 podman cp sleeper:/etc/passwd passwd
    grep -q '^user:' passwd
}

@test "podman cp, diff, commit: a stopped container" {
    podman run --name ended --network none "$BUSYBOX" sh -c 'echo made >/made' >/dev/null
    echo content >file
    expect 0 podman cp file ended:/file
    shows "A /made" podman diff ended
    expect 0 podman commit --quiet ended localhost/committed
    prints $'made\ncontent' podman run --rm --network none localhost/committed cat /made /file
    podman rmi localhost/committed >/dev/null
}

@test "podman run --secret: as a file and as a variable" {
    printf hush >secret
    podman secret create word secret
    expect 0 podman run --rm --network none --secret word --secret word,type=env,target=WORD \
        --secret word,target=/tmp/elsewhere,mode=0400 "$BUSYBOX" \
        sh -c 'cat /run/secrets/word; echo " $WORD $(stat -c %a /tmp/elsewhere)"'
    podman secret rm word
    output_is "hush hush 400"
}

@test "podman run --rootfs: a directory as root" {
    mkdir -p tree/{bin,proc,dev,sys,etc,tmp,run}
    cp "$(command -v busybox)" tree/bin/busybox
    ln -s busybox tree/bin/sh
    prints "from a directory" podman run --rm --network none --rootfs "$PWD/tree" /bin/sh -c 'echo from a directory'
}

@test "podman run: a path through a symbolic link of the image stays in the container" {
    mkdir outside
    podman run --name linked --network none "$BUSYBOX" sh -c "mkdir -p '$PWD/outside' && ln -s '$PWD/outside' /escape"
    podman commit --quiet linked localhost/linked
    prints file podman run --rm --network none -v /dev/null:/escape/file localhost/linked ls /escape/
    [[ -z $(ls outside) ]]
    podman rm --force linked
    podman rmi localhost/linked
}
