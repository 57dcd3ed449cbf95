/* Device rules as a BPF program of type BPF_PROG_TYPE_CGROUP_DEVICE: what of the machine's devices the
 * processes of a cgroup may open and make. */
#ifndef PYSBX_CGROUP_DEVICES_H
#define PYSBX_CGROUP_DEVICES_H

#include <linux/bpf.h>
#include <stddef.h>

struct arena;
struct error;
struct spec_resources;

struct cgroup_device_program {
    const struct bpf_insn *insns;
    size_t count;
};

/* Compile linux.resources.devices. The last rule that names a device and an access decides on it; what no
 * rule names is refused, but for the devices that the specification promises every container (null, zero,
 * full, random, urandom, tty, console, ptmx, pts) and tun, which come right after the last rule for all
 * devices: a later rule of the specification can still take them away. Nothing is asked of the system.
 * *program is NULL when the rules refuse nothing. Errors name the rule by JSON path. */
int cgroup_devices_compile(struct arena *a, const struct spec_resources *resources,
                           const struct cgroup_device_program **program, struct error *err);

/* Load the program into the kernel: its descriptor. */
int cgroup_devices_load(const struct cgroup_device_program *program, struct error *err);

/* Attach the loaded program to the cgroup `dirfd` (O_PATH will do) beside those of its ancestors; programs
 * attached by an earlier call are replaced, in one step where there is one. -1 takes them away. */
int cgroup_devices_attach(int program, int dirfd, struct error *err);

#endif
