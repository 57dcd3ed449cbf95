#!/usr/bin/env bats
# Warm starts with packages from overlays of Podman: image volumes and `:O` volumes. The layer of such an overlay is
# often an overlay itself, or of another file system than the rest.
# images: python

load ../lib/podman.bash
load ../lib/warm-config.bash

# Make an image with an extension module that nothing else has loaded, at /lib and at its path in the root, and a package
# of 24 directories.
setup_file() {
    configure_warm
    import_python
    cd "$BATS_FILE_TMPDIR" || return
    local dynload number
    dynload=$(command podman --runtime "$RUNTIME" run --rm --network none "$PYTHON" sh -c 'echo /usr/lib/python3*/lib-dynload')
    mkdir -p volume/lib/many "volume$dynload"
    command podman --runtime "$RUNTIME" run --rm --network none "$PYTHON" sh -c "cat $dynload/_bz2.*.so" >volume/lib/_bz2.so
    cp volume/lib/_bz2.so "volume$dynload/_bz2.so"
    ln -sf "$dynload" dynload
    for number in {1..12}; do
        mkdir -p "volume/lib/many/p$number/q"
        echo "value = $number" >"volume/lib/many/p$number/q/__init__.py"
        echo "from .q import value" >"volume/lib/many/p$number/__init__.py"
        echo "from . import p$number" >>volume/lib/many/__init__.py
    done
    commit 1
}

commit() {
    tar -C "$BATS_FILE_TMPDIR/volume" -c . | command podman --runtime "$RUNTIME" import --quiet - "localhost/volume:$1" >/dev/null
}

MOUNT=(--mount "type=image,source=localhost/volume:1,destination=/packages")

# Run a program in the Python image, with a module that is preloaded.
preloaded() {
    local module=$1
    shift
    podman run --rm --network none --annotation "run.pysbx.preload=$module" "$@"
}

# Run a program that needs a warm start, with a module of the image volume.
warm_from_volume() {
    local module=$1 program=$2
    shift 2
    preloaded "$module" "${MOUNT[@]}" "$@" -e PYTHONPATH=/packages/lib --annotation run.pysbx.warm=require "$PYTHON" \
        python3 -c "$program"
}

SAY='import _bz2; print(_bz2.__file__, _bz2.BZ2Compressor().__class__.__name__)
print(sum("_bz2" in line and "r-xp" in line for line in open("/proc/self/maps")))'

@test "image volume: a shared library of it is in the snapshot, run after run" {
    for _ in 1 2 3; do
        prints $'/packages/lib/_bz2.so BZ2Compressor\n1' warm_from_volume _bz2 "$SAY"
    done
}

@test "image volume: a library that has the path of another file in the root is not taken for it" {
    dynload=$(readlink "$BATS_FILE_TMPDIR/dynload")
    # With this file as its code, the module would end by a signal.
    head -c 100000 /dev/zero >zeros
    podman create --name named "$PYTHON" true >/dev/null
    podman cp zeros "named:$dynload/_bz2.so"
    podman commit --quiet named localhost/named >/dev/null
    for _ in 1 2; do
        expect 0 preloaded _bz2 "${MOUNT[@]}" -e "PYTHONPATH=/packages$dynload" --annotation run.pysbx.warm=require \
            localhost/named python3 -c 'import _bz2; print(_bz2.__file__, len(_bz2.BZ2Compressor().flush()))'
        output_is "/packages$dynload/_bz2.so 14"
    done
    podman rmi --force localhost/named >/dev/null
}

@test "image volumes: of two libraries with one path in their volumes, each is found in its own" {
    mkdir -p second/lib
    head -c "$(stat -c %s "$BATS_FILE_TMPDIR/volume/lib/_bz2.so")" /dev/zero >second/lib/_bz2.so
    tar -C second -c . | podman import --quiet - localhost/volume:zeros >/dev/null
    for other in /another /zeros; do
        for _ in 1 2; do
            expect 0 warm_from_volume _bz2 "$SAY" --mount "type=image,source=localhost/volume:zeros,destination=$other"
            output_is $'/packages/lib/_bz2.so BZ2Compressor\n1'
        done
    done
    podman rmi --force localhost/volume:zeros >/dev/null
}

@test "image volume: directories that each mount numbers anew" {
    for _ in 1 2 3; do
        prints $'False\n8' warm_from_volume many "$(read_files many); print(many.p8.value)"
    done
}

@test "image volume: another image at the same path has a snapshot of its own" {
    cp -a "$BATS_FILE_TMPDIR/volume" second
    echo 'value = 80' >second/lib/many/p8/q/__init__.py
    tar -C second -c . | podman import --quiet - localhost/volume:2 >/dev/null
    for image in 1 2 1; do
        expect 0 preloaded many --mount "type=image,source=localhost/volume:$image,destination=/packages" \
            -e PYTHONPATH=/packages/lib "$PYTHON" python3 -c 'import many; print(many.p8.value)'
        if [[ $image == 1 ]]; then output_is 8; else output_is 80; fi
    done
    podman rmi --force localhost/volume:2 >/dev/null
}

@test "volume :O: a shared library and directories, run after run" {
    cp -a "$BATS_FILE_TMPDIR/volume" lower
    for module in _bz2 many _bz2 many; do
        # Podman makes the upper directory of each container anew, so the root of the overlay is new: no snapshot fits.
        expect 0 preloaded "$module" -v "$PWD/lower:/packages:O" -e PYTHONPATH=/packages/lib "$PYTHON" \
            python3 -c "import $module; print($module.__file__)"
        output_has "/packages/lib/$module"
    done
}
