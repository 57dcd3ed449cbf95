/* Credentials of the process: supplementary groups, gid, uid, umask, no_new_privs, and the owner of its
 * standard streams. credentials(7), runtime-spec process.user. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* The umask of a process whose configuration has none, as with runc and crun. */
#define DEFAULT_UMASK 0022

struct arena;
struct error;
struct json_out;
struct spec_process;

struct credentials_options {
    bool keep_groups; /* annotation run.oci.keep_original_groups=1: keep the supplementary groups */
    bool keep_caps;   /* the capability plan has a permitted set to keep across the change of uid */
};

struct credentials_plan {
    uid_t uid;
    gid_t gid;
    const gid_t *groups;
    size_t group_count;
    bool keep_groups, keep_caps, no_new_privs;
    mode_t umask;
};

/* Plan the credentials. Ids are ids inside the container. An absent umask is 0022, as with runc and crun.
 * Return 0, or -EINVAL for the id 4294967295, which setresuid(2) takes for "unchanged". */
int credentials_plan(struct arena *a, const struct spec_process *process,
                     const struct credentials_options *options, struct credentials_plan *out,
                     struct error *err);

/* The files among the standard streams that belong to the process while it runs: owner and mode before. */
struct stdio_loan {
    struct stdio_lent {
        bool lent;
        uid_t uid;
        mode_t mode;
    } files[3];
};

/* Make a user the owner of the pipes among the standard streams, so that the process can open /dev/stdout
 * again. With a loan, it also becomes the owner of the caller's files for output, except those that are
 * appended to. All other streams stay as they are: terminals, which terminal.c gives to the process, devices,
 * which are shared, sockets, which cannot be opened, and files for input.
 *
 * The child calls it while it is still privileged, with the uid in the container. The runtime calls it before
 * that if the container has a user namespace, with the uid of the host: the namespace does not map the owner
 * of the streams. Return 0 or a negative errno. */
int credentials_give_stdio(uid_t uid, struct stdio_loan *loan, struct error *err);

/* Runtime, after the process has ended: give the files back. */
void credentials_end_loan(const struct stdio_loan *loan);

/* Child: set no_new_privs (prctl(2)) if asked for. A seccomp filter that is loaded without privilege needs
 * it, so call it before that. Return 0 or a negative errno. */
int credentials_apply_no_new_privs(const struct credentials_plan *plan, struct error *err);

/* Child: call umask, setgroups, setresgid and setresuid. A user namespace may deny setgroups(2). Then the
 * call is left out if no supplementary group is asked for, and is an error otherwise. With keep_caps and a
 * uid other than 0, the permitted set survives but the effective set does not. caps_apply_after_uid follows.
 * Return 0 or a negative errno. */
int credentials_apply(const struct credentials_plan *plan, struct error *err);

/* Write pairs into the surrounding map: uid, gid, additionalGids, umask (octal, as a string),
 * noNewPrivileges. */
void credentials_describe(const struct credentials_plan *plan, struct json_out *out);
