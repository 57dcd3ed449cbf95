#!/usr/bin/env bats
# Packages for sandboxes in an image of their own, which a pod mounts as a read-only volume:
# contrib/docs/pages/how-to/kubernetes.md, "Packages in an image volume".
# once: the caller makes no difference to what sandboxes see

load ../lib/podman.bash
load serve.bash

VOLUME=(--mount "type=image,source=localhost/packages,destination=/packages")
SERVE=(--listen 0.0.0.0:8888 --best-effort --virtualenv /packages --memory 2048)

# An image with nothing but a virtualenv of the release's Python, which has a package of two modules.
setup_file() {
    load_image
    cd "$BATS_FILE_TMPDIR" || return
    /usr/bin/python3 -m venv --without-pip packages
    site=$(echo packages/lib/python3.*/site-packages)
    mkdir "$site/thing"
    echo 'from thing.more import answer' >"$site/thing/__init__.py"
    echo 'answer = 42' >"$site/thing/more.py"
    # The recipe of the page: an image that contains these files only.
    container=$(buildah from scratch)
    buildah add --quiet "$container" packages / >/dev/null
    buildah commit --quiet "$container" localhost/packages >/dev/null
    buildah rm "$container" >/dev/null
}

run_code() {
    ask /v1/run "$(python3 -c 'import json, sys; print(json.dumps({"code": sys.argv[1]}))' "$1")" >outcome
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
