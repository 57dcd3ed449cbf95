# Helpers for tests that run pods without Kubernetes: containerd with its CRI plugin, plugins for the network, and a
# registry with the images of critest. tests/setup/critest has installed the programs outside of the system. Load this
# after engines.bash. With NEW_CONTAINERD=1, containerd is that of tests/setup/containerd.

K8S=$TESTS/../build/k8s
PATH=${NEW_CONTAINERD:+$K8S/containerd:}$K8S/bin:$PATH
REGISTRY=127.0.0.1:5000

# The images, without the hosts of their registries: NAME | CHANGE of the configuration. Without a change it is the image
# of the line before, by another name.
IMAGES='
pods/pause:1                                                | CMD ["tail", "-f", "/dev/null"]
pause:3.9                                                   | CMD ["sleep", "3000"]
e2e-test-images/busybox:1.29-2                              | CMD ["sh"]
e2e-test-images/nginx:1.14-2                                | CMD ["nginx", "80", "master process"]
e2e-test-images/httpd:2.4.39-4                              | CMD ["nginx", "80", "httpd"]
e2e-test-images/nonewprivs:1.3                              | CMD ["effective"]
k8s-staging-cri-tools/hostnet-nginx-MACHINE:latest          | CMD ["nginx", "12003", "master process"]
k8s-staging-cri-tools/test-image-predefined-group:latest    | USER 1000
k8s-staging-cri-tools/test-image-user-uid:latest            | USER 1002
k8s-staging-cri-tools/test-image-user-uid-group:latest      | USER 1003:users
k8s-staging-cri-tools/test-image-user-username:latest       | USER www-data
k8s-staging-cri-tools/test-image-user-username-group:latest | USER www-data:100
k8s-staging-cri-tools/test-image-latest:latest              | LABEL image=latest
k8s-staging-cri-tools/test-image-tag:test                   | CMD ["sleep", "1000"]
k8s-staging-cri-tools/test-image-tag:all                    | LABEL image=all
k8s-staging-cri-tools/test-image-1:latest                   | LABEL image=1
k8s-staging-cri-tools/test-image-2:latest                   | LABEL image=2
k8s-staging-cri-tools/test-image-3:latest                   | LABEL image=3
k8s-staging-cri-tools/test-image-tags:1                     | LABEL image=tags
k8s-staging-cri-tools/test-image-tags:2                     |
k8s-staging-cri-tools/test-image-tags:3                     |
'

has_pods() {
    has_engine containerd ctr crictl docker-registry "$@" && [[ -x $K8S/cni/bridge ]] &&
        { [[ -z ${NEW_CONTAINERD:-} ]] || [[ -x $K8S/containerd/ctr ]]; }
}

# Skip a test if a program is missing.
needs_pods() {
    needs_engine containerd ctr crictl
    has_pods "$@" || skip "not here: $*, docker-registry or the plugins of CNI (tests/setup/critest)"
}

configure_registry() {
    cat <<CONF
version: 0.1
log: { level: error, accesslog: { disabled: true } }
storage: { filesystem: { rootdirectory: "$ENGINE/registry" } }
http: { addr: "$REGISTRY" }
CONF
}

has_controller() {
    grep -qw "$1" /sys/fs/cgroup/cgroup.controllers
}

# containerd 2 requests CPU shares for each pod, even with disable_cgroup. Make a program that removes the request and
# then executes a runtime, for machines without the CPU controller: write_wrapper RUNTIME FILE
write_wrapper() {
    cat >"$2" <<SCRIPT
#!/bin/bash
for ((i = 1; i < \$#; i++)); do
    [[ \${!i} != --bundle ]] || { j=\$((i + 1)) && config=\${!j}/config.json; }
done
[[ -z \${config:-} ]] || sed -i -E 's/,"cpu":\{"shares":[0-9]+\}//; s/"cpu":\{"shares":[0-9]+\},?//' "\$config"
exec "$1" "\$@"
SCRIPT
    chmod 0755 "$2"
}

configure_containerd() {
    printf 'root = "%s"\nstate = "%s"\n' "$ENGINE/root" "$ENGINE/state"
    if [[ ${NEW_CONTAINERD:-} ]] && ! has_controller cpu; then
        write_wrapper "$(command -v runc)" "$ENGINE/runc"
        write_wrapper "$RUNTIME" "$ENGINE/pysbx"
        RUNTIME=$ENGINE/pysbx example_of containerd/config.toml
        printf '[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]\n  BinaryName = "%s"\n' "$ENGINE/runc"
    else
        example_of containerd/config.toml
    fi
    cat <<CONF
[grpc]
  address = "$CONTAINERD_ADDRESS"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "$REGISTRY/pods/pause:1"
  disable_apparmor = true
  # On this machine root may be unable to lower the OOM score, and controllers for the limits of every pod may be
  # missing.
  restrict_oom_score_adj = true
  disable_cgroup = $(if has_controller cpu; then echo false; else echo true; fi)
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "$K8S/cni"
  conf_dir = "$ENGINE/cni"
[plugins."io.containerd.grpc.v1.cri".registry]
  config_path = "$ENGINE/hosts"
CONF
}

configure_network() {
    cat <<CONF
{ "cniVersion": "1.0.0", "name": "pods", "plugins": [
    { "type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true, "promiscMode": true,
      "ipam": { "type": "host-local", "ranges": [[{ "subnet": "10.88.0.0/16" }]], "routes": [{ "dst": "0.0.0.0/0" }] } },
    { "type": "portmap", "capabilities": { "portMappings": true } } ] }
CONF
}

# Make an archive of busybox, with what critest expects of its images: make_archive BUSYBOX ARCHIVE
make_archive() {
    local root=$BATS_FILE_TMPDIR/root
    mkdir -p "$root"
    tar --extract --file "$1" -C "$root"
    mkdir -p "$root/www" "$root/var/run"
    echo hello >"$root/www/index.html"
    # A test expects that its user has exactly this further group.
    sed -i 's/^staff:.*/staff:x:50:/' "$root/etc/group"
    printf 'named-in-image:x:50000:user\nusers:x:100:\n' >>"$root/etc/group"
    # Files of their own, not links, because a test masks one of them.
    rm "$root"/bin/{ls,sh}
    cp "$root/bin/busybox" "$root/bin/ls"
    cp "$root/bin/busybox" "$root/bin/sh"
    # Programs that this busybox lacks.
    printf '#!/bin/sh\nexec cat /proc/sysvipc/shm\n' >"$root/bin/ipcs"
    printf '#!/bin/sh\nexec pidof "$@"\n' >"$root/bin/pgrep"
    # A web server that its tests find by its name, its file with a pid, its arguments and its log.
    cat >"$root/bin/nginx" <<'SCRIPT'
#!/bin/sh
echo $$ >/var/run/nginx.pid
echo "$2: started"
trap 'kill $!; exit' TERM
httpd -f -p "$1" -h /www &
wait
SCRIPT
    chmod 0755 "$root"/bin/{ipcs,pgrep,nginx}
    cc -static -o "$root/bin/effective" -x c - <<'PROGRAM'
#include <stdio.h>
#include <unistd.h>
int main(void) { printf("Effective uid: %d\n", (int)geteuid()); }
PROGRAM
    chmod 4755 "$root/bin/effective"
    tar --create --file "$2" --numeric-owner --sort=name -C "$root" .
}

# Push the images of IMAGES into the registry: push_images ARCHIVE
push_images() {
    local name change id='' machine
    machine=$(dpkg --print-architecture)
    while IFS='|' read -r name change; do
        read -r name <<<"${name/MACHINE/$machine}"
        [[ $name ]] || continue
        read -r change <<<"$change"
        [[ -z $change ]] || id=$(command podman import --quiet --change 'ENV PATH=/bin:/usr/bin' --change "$change" "$1")
        command podman push --quiet --tls-verify=false "$id" "$REGISTRY/$name"
    done <<<"$IMAGES"
}

# Start the registry and containerd.
start_pods() {
    mkdir -p "$ENGINE"/{cni,hosts/_default,logs}
    export CONTAINERD_ADDRESS=$ENGINE/containerd.sock RUNTIME_STATE=/run/containerd/runc/k8s.io
    configure_registry >"$ENGINE/registry.yaml"
    start_daemon registry docker-registry serve "$ENGINE/registry.yaml"
    await_daemon registry curl --silent --fail "http://$REGISTRY/v2/"
    make_archive "$("$TESTS/lib/image" busybox)" "$BATS_FILE_TMPDIR/images.tar"
    push_images "$BATS_FILE_TMPDIR/images.tar"
    # The registry of every host: nothing is fetched from outside.
    printf '[host."http://%s"]\n  capabilities = ["pull", "resolve"]\n' "$REGISTRY" >"$ENGINE/hosts/_default/hosts.toml"
    configure_network >"$ENGINE/cni/10-pods.conflist"
    configure_containerd >"$ENGINE/config.toml"
    # It remains: the parent of all containers' cgroups.
    mkdir -p /sys/fs/cgroup/k8s.io
    start_daemon containerd containerd --config "$ENGINE/config.toml"
    await_daemon containerd ctr version
    printf 'runtime-endpoint: unix://%s\n' "$CONTAINERD_ADDRESS" >"$ENGINE/crictl.yaml"
}

stop_pods() {
    stop_daemon containerd
    stop_daemon registry
}

# With the time that the kubelet gives a request, because the first start of an interpreter creates its snapshot.
cri() {
    crictl --timeout 120s --config "$ENGINE/crictl.yaml" "$@"
}

# Remove all pods, and fail if anything of them remains.
end_pods() {
    has_pods || return 0
    cri rmp --all --force >/dev/null 2>&1 || true
    check_leftovers
}
