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
    # A package of our own, whose modules other tests do not know.
    # shellcheck disable=SC2317 # make_packages calls it
    add_thing() {
        local site
        site=$(echo packages/lib/python3.*/site-packages)
        mkdir "$site/thing"
        echo 'from thing.more import answer' >"$site/thing/__init__.py"
        echo 'answer = 42' >"$site/thing/more.py"
    }
    block "Packages in an image volume" sh | make_packages add_thing
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
    fails 1 "Read-only file system" podman exec serve touch /packages/x
}

@test "isolation=process: a restricted pod, which installs nothing, has packages by an image volume" {
    start "${RESTRICTED[@]}" "${VOLUME[@]}" -- "${SERVE[@]}" --isolation process
    run_code 'import thing; thing.answer'
    [[ $(member value <outcome) == 42 && $(member isolation <outcome) == process ]] || { cat outcome; return 1; }
}
