#!/usr/bin/env bats
# make install, make uninstall: what they write below DESTDIR, and what they leave.
# once: the files are the same in both modes

load ../lib/bundle.bash

# The program is there already: a compiler would change it while other tests use it.
make_only() {
    env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u PREFIX make -C "$TESTS/.." --silent --old-file all DESTDIR="$PWD/tree" "$@"
}

needs_build() {
    needs_root "writes to the directory of the build"
    [[ -e $TESTS/../build/pysbx-runtime ]] || skip "make install takes the default build, and there is none"
}

@test "make uninstall: removes every file of make install, and the directories of the project" {
    needs_build
    expect 0 make_only install install-hook
    [[ -x tree/usr/local/bin/pysbx-runtime && -e tree/usr/local/share/pysbx-runtime/docker/daemon.json ]]
    [[ -x tree/usr/local/libexec/pysbx-runtime/require-sandbox && -s tree/usr/local/share/man/man8/pysbx-runtime.8 ]]
    echo kept >tree/usr/local/bin/other
    expect 0 make_only uninstall
    [[ $(find tree ! -type d) == tree/usr/local/bin/other ]]
    # Directories that other packages share, such as those of manual pages, stay.
    [[ ! $(find tree -name '*pysbx*' -o -path '*/share/docker') ]]
    expect 0 make_only uninstall
    stderr_is_empty
}

@test "make install PREFIX: the configuration for Podman, Docker and containerd names the program there" {
    needs_build
    expect 0 make_only install PREFIX=/opt/sandbox
    for file in containers.conf.d/50-pysbx.conf docker/daemon.json containerd/config.toml apparmor/pysbx-runtime; do
        grep -q '[ "]/opt/sandbox/bin/pysbx-runtime' "tree/opt/sandbox/share/pysbx-runtime/$file"
    done
    expect 1 grep -r --exclude-dir selinux /usr/local tree/opt/sandbox/share/pysbx-runtime
}

@test "make install: without go-md2man there are no manual pages, and a line says why" {
    needs_build
    mkdir programs
    ln -s /usr/bin/* programs
    rm programs/go-md2man
    PATH=$PWD/programs expect 0 make_only install
    stderr_has "make: no manual pages, because go-md2man is missing; this command installs it: tests/setup/install.sh build"
    [[ -x tree/usr/local/bin/pysbx-runtime && ! -e tree/usr/local/share/man ]]
}
