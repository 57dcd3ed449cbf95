/* Device rules as a BPF program of type BPF_PROG_TYPE_CGROUP_DEVICE, which decides which devices the
 * processes of a cgroup may open and create. */
#pragma once

#include <linux/bpf.h>
#include <stddef.h>

struct arena;
struct error;
struct spec_resources;

struct cgroup_device_program {
    const struct bpf_insn *insns;
    size_t count;
};

/* Compile linux.resources.devices. The last rule that names a device and an access decides about it, and an
 * access without a rule is refused. The specification promises some devices to every container (null, zero,
 * full, random, urandom, tty, console, ptmx, pts). They and tun are allowed right after the last rule for all
 * devices, so a later rule can still refuse them. This does not read the system. *program is NULL if the
 * rules refuse nothing. Errors have the JSON path of the rule. */
int cgroup_devices_compile(struct arena *a, const struct spec_resources *resources,
                           const struct cgroup_device_program **program, struct error *err);

/* Load the program into the kernel. Return a descriptor, which the caller closes, or negative errno. */
int cgroup_devices_load(const struct cgroup_device_program *program, struct error *err);

/* Attach the loaded program to the cgroup `dirfd`, which may be O_PATH, in addition to those of its
 * ancestors. It replaces programs of an earlier call, in one step if there is one program. A `program` of -1
 * detaches them. 0 or negative errno. */
int cgroup_devices_attach(int program, int dirfd, struct error *err);
