/* Who the process is: supplementary groups, gid, uid, umask, no_new_privs and the owner of its standard
 * streams. credentials(7), runtime-spec process.user. */
#ifndef PYSBX_SANDBOX_CREDENTIALS_H
#define PYSBX_SANDBOX_CREDENTIALS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct arena;
struct error;
struct json_out;
struct spec_process;

struct credentials_options {
    bool keep_groups; /* annotation run.oci.keep_original_groups=1: supplementary groups stay as they are */
    bool keep_caps;   /* the capability plan has a permitted set to carry over the change of uid */
};

struct credentials_plan {
    uid_t uid;
    gid_t gid;
    const gid_t *groups;
    size_t group_count;
    bool keep_groups, keep_caps, no_new_privs;
    mode_t umask;
};

/* Ids are those of the container. An absent umask is 0022, as with runc and crun. -EINVAL for an id of
 * 4294967295, which setresuid(2) takes for "unchanged". */
int credentials_plan(struct arena *a, const struct spec_process *process,
                     const struct credentials_options *options, struct credentials_plan *out,
                     struct error *err);

/* Child, still privileged: give the process the pipes it has as standard input, output and error, so that it
 * may open /dev/stdout again. Nothing but pipes is touched: a terminal is the terminal room's, a character
 * device is shared by everybody and a file belongs to whoever redirected it. */
int credentials_own_stdio(const struct credentials_plan *plan, struct error *err);

/* Child: prctl(PR_SET_NO_NEW_PRIVS), if asked for. Before a seccomp filter is loaded without privilege. */
int credentials_apply_no_new_privs(const struct credentials_plan *plan, struct error *err);

/* Child: umask, setgroups, setresgid, setresuid. In a user namespace that denies setgroups(2) the call is
 * left out when no supplementary group is asked for, and is an error otherwise. With keep_caps and a uid
 * other than 0 the permitted set survives; the effective set does not: caps_apply_after_uid follows. */
int credentials_apply(const struct credentials_plan *plan, struct error *err);

/* Pairs of the surrounding map: uid, gid, additionalGids, umask (octal, as a string), noNewPrivileges. */
void credentials_describe(const struct credentials_plan *plan, struct json_out *out);

#endif
