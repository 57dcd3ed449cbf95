/* Compile a profile of linux.seccomp to a BPF program by libseccomp, which is loaded at the first use. */
#pragma once

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>

#include "sandbox/names.h"

struct arena;
struct error;
struct spec_seccomp;

struct seccomp_program {
    const struct sock_filter *filter;
    size_t count;
    unsigned flags; /* SECCOMP_FILTER_FLAG_… of the profile */
    const char
        *library; /* path of the libseccomp that compiled it; "": unknown, so the program is not cached */
};

/* Compile for the native architecture and those listed. Names of system calls that libseccomp does not know
 * are skipped, as in runc and crun, unless fail_unknown is set. Everything is in the arena. Return 0, or a
 * negative errno with the JSON path; -ENOTSUP if libseccomp cannot be loaded. */
int seccomp_compile(struct arena *a, const struct spec_seccomp *profile, bool fail_unknown,
                    struct seccomp_program *out, struct error *err);

/* The words of linux.seccomp, also for `features`. They do not need libseccomp. */
extern const struct name_value seccomp_actions[], seccomp_operators[], seccomp_architectures[],
    seccomp_flags[];

/* True if the running kernel has this SECCOMP_FILTER_FLAG_…. */
bool seccomp_flag_supported(unsigned flag);
