#!/usr/bin/env bats
# Packages for sandboxes in an image of their own, which a pod mounts as a read-only volume:
# contrib/docs/pages/how-to/kubernetes.md, "Packages in an image volume".
# once: the caller makes no difference to what sandboxes see
# prepare: contrib/image/build

load ../lib/podman.bash
load serve.bash
load page.bash

VOLUME=(--mount "type=image,source=registry.example/packages:1,destination=/packages")
SERVE=(--listen 0.0.0.0:8888 --best-effort --virtualenv /packages --memory 2048)

# An image with nothing but a virtualenv of the release's Python, which has pandas and a package of two modules.
setup_file() {
    load_image
    cd "$BATS_FILE_TMPDIR" || return
    # The recipe of the page, with the wheels of the image instead of an index, because there is no network here.
    export PIP_NO_INDEX=1 PIP_DISABLE_PIP_VERSION_CHECK=1
    PIP_FIND_LINKS=$(realpath "${BUILD:-$TESTS/../build}"/image/wheels-*)
    export PIP_FIND_LINKS
    add_thing() {
        local site
        site=$(echo packages/lib/python3.*/site-packages)
        mkdir "$site/thing"
        echo 'from thing.more import answer' >"$site/thing/__init__.py"
        echo 'answer = 42' >"$site/thing/more.py"
    }
    block "Packages in an image volume" sh >recipe
    # A package of our own comes with those of the page, whose modules other tests do not know.
    sed -i '/pip install/a add_thing' recipe
    # shellcheck disable=SC1091 # of the page
    source ./recipe >said
    buildah rm --all >/dev/null
}

@test "sandboxes import packages from an image volume, warm, and nothing is installed" {
    start "${NESTED[@]}" "${VOLUME[@]}" -- "${SERVE[@]}" --preload thing
    wait_for is_prepared
    # A module of the snapshot is imported without opening a file.
    run_code 'import sys; opened = []; sys.addaudithook(lambda event, _: event == "open" and opened.append(event))
import thing; (bool(opened), thing.answer, thing.__file__)'
    [[ $(member value <outcome) == "(False, 42, '/packages/lib/python3."*"/site-packages/thing/__init__.py')" ]] || { cat outcome; return 1; }
    [[ $(member warm <outcome) == True ]]
    [[ -z $(podman exec serve sh -c 'ls /var/cache/pysbx/pysbx/dependencies 2>/dev/null') ]]
}

@test "pandas, as the page installs it, comes from the image volume, warm" {
    start "${NESTED[@]}" "${VOLUME[@]}" -- "${SERVE[@]}" --preload pandas
    wait_for is_prepared
    run_code 'import pandas; (int(pandas.Series([20, 22]).sum()), pandas.__file__)'
    [[ $(member value <outcome) == "(42, '/packages/lib/python3."* ]] || { cat outcome ready; podman logs serve; return 1; }
    [[ $(member warm <outcome) == True ]] || { cat outcome ready; return 1; }
}

@test "neither sandboxes nor the service can write to it" {
    start "${NESTED[@]}" "${VOLUME[@]}" -- "${SERVE[@]}"
    run_code 'open("/packages/lib/x", "w")'
    [[ $(member stderr <outcome) == *"Read-only file system"* ]] || { cat outcome; return 1; }
    expect 1 podman exec serve touch /packages/x
    stderr_has "Read-only file system"
}

@test "isolation=process: a restricted pod, which installs nothing, has packages by an image volume" {
    start "${RESTRICTED[@]}" "${VOLUME[@]}" -- "${SERVE[@]}" --isolation process
    run_code 'import thing; thing.answer'
    [[ $(member value <outcome) == 42 && $(member isolation <outcome) == process ]] || { cat outcome; return 1; }
}
