#!/usr/bin/env bats
# The packages of Debian from an administrator's view: installed, used by Podman, upgraded, removed, purged. All tests
# use a copy of this machine's /usr and /var, made here, and of /etc and /var/lib, made by tests/lib/enter.
# images: python

load ../lib/podman.bash

DROP_IN=/etc/containers/containers.conf.d/50-pysbx.conf
PACKAGES=${TEST_PACKAGES:-$TESTS/../build/packages}

APPARMOR=$TESTS/../build/apparmor
PROFILE=/etc/apparmor.d/pysbx-runtime

# Called like a user of the package does: without a path of the runtime.
podman() {
    command podman "$@"
}

setup_file() {
    local directory
    [[ -d $APPARMOR ]] || skip "no parser: tests/setup/apparmor, on Debian"
    compgen -G "$PACKAGES/*.deb" >/dev/null || skip "no packages: make deb, on Debian"
    for directory in /usr /var/log /var/cache; do
        mkdir -p "/run/pysbx-test/copy$directory"/{upper,work}
        mount -t overlay overlay "$directory" \
            -o "lowerdir=$directory,upperdir=/run/pysbx-test/copy$directory/upper,workdir=/run/pysbx-test/copy$directory/work"
    done
    # Neither this environment nor the machine tells Podman the path of the runtime.
    sed -i -e '/^runtime/d' -e '/^\[engine.runtimes\]/,$d' /etc/containers/containers.conf
    rm -rf /usr/local/bin/pysbx-runtime /usr/bin/pysbx-runtime /var/lib/pysbx-runtime
    # Packages need no new index of the manual. Making one takes most of the time of apt.
    rm -f /var/lib/man-db/auto-update
    # Here is no network, and apt reads its lists again for each command.
    rm -rf /var/lib/apt/lists
    # Debian's own parser, and the files that profiles include. Nothing loads a profile here.
    cp "$(find "$APPARMOR" -name apparmor_parser -type f)" /usr/sbin/
    cp -R "$APPARMOR/etc/apparmor.d" /etc/
    import_busybox
    import_python
}

# Run apt offline and without questions. It keeps existing files instead of asking.
apt() {
    DEBIAN_FRONTEND=noninteractive apt-get -o APT::Sandbox::User=root -y --no-install-recommends "$@" </dev/null
}

install_packages() {
    apt install "$PACKAGES"/pysbx-runtime_*.deb "$PACKAGES"/pysbx-require-sandbox_*.deb
}

by_name() {
    podman --runtime pysbx-runtime run --rm --network none "$@"
}

# Print every file that a package may have changed, except the databases of dpkg, apt, debconf and the manual.
list_files() {
    find /etc /usr /var/lib -xdev \( -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/lib/systemd \) -prune -o \
        -not -name '*.pyc' -not -name __pycache__ -not -path '/etc/*cache*' -print | sort
}

# Make the package of a later release: the statements change its source tree.
later_package() {
    rm -rf tree
    dpkg-deb -R "$PACKAGES"/pysbx-runtime_*.deb tree
    sed -i 's/^Version: .*/Version: 99-1/' tree/DEBIAN/control
    "$@"
    dpkg-deb --root-owner-group -Znone -b tree later.deb
}

@test "apt install: Podman runs a container by the runtime's name immediately, and its default does not change" {
    needs_root "installs packages"
    expect 125 podman --runtime pysbx-runtime info
    list_files >"$BATS_FILE_TMPDIR/before"
    expect 0 install_packages
    prints cat by_name "$BUSYBOX" cat /proc/1/comm
    prints /usr/bin/pysbx-runtime podman --runtime pysbx-runtime info --format '{{.Host.OCIRuntime.Path}}'
    expect 0 podman info --format '{{.Host.OCIRuntime.Name}}'
    output_lacks pysbx-runtime
}

@test "installed: the dynamic program compiles a seccomp filter, and errors have their exit codes" {
    needs_root "installs packages"
    rm -rf /run/pysbx-runtime/.cache
    shows $'Seccomp:\t2' by_name "$BUSYBOX" grep Seccomp: /proc/self/status
    expect 127 by_name "$BUSYBOX" no-such-program
}

@test "installed: Python starts cold, and warm from a snapshot" {
    needs_root "installs packages"
    program=$(read_files decimal)
    prints True by_name --annotation run.pysbx.warm=off "$PYTHON" python3 -c "$program"
    for _ in 1 2; do
        expect 0 by_name --annotation run.pysbx.warm=require --annotation run.pysbx.preload=decimal "$PYTHON" python3 -c "$program"
        output_is False
    done
    [[ $(pysbx-runtime warm list --quiet | wc -l) == 1 ]]
}

@test "installed: the hook refuses a container with the mark and without a sandbox, and no other" {
    needs_root "installs packages"
    fails 126 require-sandbox by_name --annotation run.pysbx.untrusted=true "$BUSYBOX" true
    expect 0 by_name "$BUSYBOX" true
}

@test "installed: manual pages and completions name existing paths" {
    needs_root "installs packages"
    local -a pages=(/usr/share/man/man1/pysbx.1.gz /usr/share/man/man5/{profiles,warm.json}.5.gz /usr/share/man/man8/pysbx-runtime.8.gz)
    for path in $(zcat "${pages[@]}" | grep -o '/usr/[a-z]*/pysbx-runtime[a-z/.-]*' | sort -u); do
        [[ -e $path ]] || { echo "a manual page names '$path'"; return 1; }
    done
    expect 1 grep -r /usr/local /usr/libexec/pysbx-runtime /usr/share/containers/oci/hooks.d
    expect 1 zgrep /usr/local "${pages[@]}"
    # The policy of SELinux labels both places.
    expect 1 grep -r --exclude-dir selinux /usr/local /usr/share/pysbx-runtime "$DROP_IN"
    cmp "$DROP_IN" /usr/share/pysbx-runtime/containers.conf.d/50-pysbx.conf
}

@test "upgrade: the administrator's changes remain, whether the package changes the same file or not" {
    needs_root "installs packages"
    sed -i 's/^#runtime = /runtime = /' "$DROP_IN"
    later_package true
    expect 0 apt install ./later.deb
    later_package sed -i '1i # a later release' "tree$DROP_IN"
    sed -i 's/^Version: .*/Version: 99-2/' tree/DEBIAN/control
    dpkg-deb --root-owner-group -Znone -b tree later.deb
    expect 0 apt -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold install ./later.deb
    prints pysbx-runtime podman info --format '{{.Host.OCIRuntime.Name}}'
    expect 0 by_name "$BUSYBOX" true
}

@test "upgrade: a file without local changes becomes the new one" {
    needs_root "installs packages"
    expect 0 apt purge pysbx-runtime
    expect 0 install_packages
    later_package sed -i '1i # a later release' "tree$DROP_IN"
    expect 0 apt install ./later.deb
    expect 0 grep -x '# a later release' "$DROP_IN"
}

# install_profile VERSION [old]: install a package whose profile says its version. AppArmor 3 can read it, which the real
# one needs AppArmor 4 for. With "old", the package is one without a record of its profile.
install_profile() {
    later_package true
    printf '%s\n' "# $1" 'include <tunables/global>' 'profile pysbx-runtime /usr/bin/pysbx-runtime flags=(unconfined) {' '}' \
        >tree/usr/share/pysbx-runtime/apparmor/pysbx-runtime
    # shellcheck disable=SC2016 # text of the script
    [[ ${2:-} != old ]] || sed -i '/^    mkdir/d; /^    cp "$shipped" "$before"/d' tree/DEBIAN/postinst
    sed -i "s/^Version: .*/Version: $1/" tree/DEBIAN/control
    dpkg-deb --root-owner-group -Znone -b tree later.deb
    expect 0 apt install ./later.deb
}

@test "upgrade: AppArmor's profile becomes the new one, unless the administrator has changed or removed it" {
    needs_root "installs packages"
    expect 0 apt purge pysbx-runtime
    [[ ! -e $PROFILE ]]
    expect 0 install_packages
    install_profile 99-1
    [[ $(head -n 1 "$PROFILE") == "# 99-1" ]]
    install_profile 99-2
    [[ $(head -n 1 "$PROFILE") == "# 99-2" ]]
    echo '# local' >>"$PROFILE"
    install_profile 99-3
    # apt shows what the package says as output if it has a pseudoterminal for dpkg.
    # shellcheck disable=SC2154 # expect sets both
    [[ $output$stderr == *"$PROFILE has local changes"* ]]
    [[ $(head -n 1 "$PROFILE") == "# 99-2" && $(tail -n 1 "$PROFILE") == "# local" ]]
    [[ $(head -n 1 "$PROFILE.dpkg-dist") == "# 99-3" ]]
    rm "$PROFILE" "$PROFILE.dpkg-dist"
    install_profile 99-4
    [[ ! -e $PROFILE && ! -e $PROFILE.dpkg-dist ]]
}

@test "upgrade: a version that kept no record of AppArmor's profile" {
    needs_root "installs packages"
    expect 0 apt purge pysbx-runtime
    expect 0 install_packages
    install_profile 99-1 old
    [[ $(head -n 1 "$PROFILE") == "# 99-1" && ! -e /var/lib/pysbx-runtime/apparmor ]]
    install_profile 99-2
    [[ $(head -n 1 "$PROFILE") == "# 99-2" ]]
}

@test "apt remove keeps the configuration and the snapshots, and Podman continues with its default" {
    needs_root "installs packages"
    mkdir -p /var/lib/pysbx-runtime/warm
    expect 0 apt remove pysbx-runtime pysbx-require-sandbox
    [[ -e $DROP_IN && -d /var/lib/pysbx-runtime/warm && ! -e /usr/bin/pysbx-runtime ]]
    expect 0 podman info --format '{{.Host.OCIRuntime.Name}}'
    output_lacks pysbx-runtime
    expect 0 install_packages
    printf '[engine]\nruntime = "pysbx-runtime"\n' >/etc/containers/containers.conf.d/60-own.conf
    expect 0 apt remove pysbx-runtime
    [[ $output$stderr == *"/etc/containers/containers.conf.d/60-own.conf makes pysbx-runtime Podman's default"* ]]
    [[ $output$stderr != *"50-pysbx.conf makes"* ]]
    fails 125 pysbx-runtime podman info
    rm /etc/containers/containers.conf.d/60-own.conf
}

@test "apt purge: nothing remains" {
    needs_root "installs packages"
    expect 0 apt purge pysbx-runtime pysbx-require-sandbox
    list_files | diff "$BATS_FILE_TMPDIR/before" -
    [[ ! -e /run/pysbx-runtime ]]
}
