/* Change groups, ids, umask and no_new_privs. */
#include "sandbox/credentials.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/json_out.h"
#include "base/proc.h"
#include "spec/spec.h"

int credentials_plan(struct arena *a, const struct spec_process *process,
                     const struct credentials_options *options, struct credentials_plan *out,
                     struct error *err)
{
    const struct spec_user *user = &process->user;
    *out = (struct credentials_plan){
        .uid = user->uid,
        .gid = user->gid,
        .keep_groups = options->keep_groups,
        .keep_caps = options->keep_caps,
        .no_new_privs = process->no_new_privileges,
        .umask = user->umask.set ? (mode_t)(user->umask.value & 0777) : DEFAULT_UMASK,
    };
    if (user->uid == UINT32_MAX || user->gid == UINT32_MAX)
        return error_set(err, -EINVAL, "process.user: 4294967295 is not a valid id");
    size_t count = user->additional_gids.count;
    if (count == 0 || options->keep_groups)
        return 0;
    gid_t *groups = ARENA_ARRAY(a, count, gid_t);
    for (size_t i = 0; i < count; i++) {
        groups[i] = user->additional_gids.items[i];
        if (groups[i] == UINT32_MAX)
            return error_set(err, -EINVAL, "process.user.additionalGids[%zu]: 4294967295 is not a valid id",
                             i);
    }
    out->groups = groups;
    out->group_count = count;
    return 0;
}

/* conmon creates its pipes with mode 0777. Then there is nothing to do. */
static bool is_private_pipe(const struct stat *st)
{
    const mode_t everybody = S_IROTH | S_IWOTH;
    return S_ISFIFO(st->st_mode) && (st->st_mode & everybody) != everybody;
}

/* An owner can give others access that the mode does not show (acl(5)). */
#define ACL "system.posix_acl_access"

/* Return whether a stream is a file for output that the caller owns. A file that is appended to is not
 * lent: an owner could read and truncate what others have written there. */
static bool is_own_output(int fd, const struct stat *st)
{
    bool own = S_ISREG(st->st_mode) && st->st_uid == geteuid() && (st->st_mode & S_IWOTH) == 0;
    int flags = own && fgetxattr(fd, ACL, NULL, 0) < 0 ? fcntl(fd, F_GETFL) : -1;
    return flags >= 0 && (flags & O_ACCMODE) != O_RDONLY && (flags & O_APPEND) == 0;
}

int credentials_give_stdio(uid_t uid, struct stdio_loan *loan, struct error *err)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        struct stat st;
        if (fstat(fd, &st) < 0) {
            if (errno == EBADF)
                continue;
            return error_set(err, -errno, "fstat standard stream %d", fd);
        }
        if (st.st_uid == uid)
            continue;
        if (loan != NULL && is_own_output(fd, &st) && fchown(fd, uid, (gid_t)-1) == 0)
            loan->files[fd] = (struct stdio_lent){true, st.st_uid, st.st_mode & 07777};
        if (!is_private_pipe(&st))
            continue;
        /* The group stays, because the creator of the pipe may have chosen it. EINVAL and EPERM: the user
         * namespace does not map the owner, or the runtime is an ordinary user. EROFS: a named pipe on a
         * read-only file system. */
        if (fchown(fd, uid, (gid_t)-1) < 0 && errno != EPERM && errno != EINVAL && errno != EROFS)
            return error_set(err, -errno, "give standard stream %d to uid %u", fd, uid);
    }
    return 0;
}

void credentials_end_loan(const struct stdio_loan *loan)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (loan->files[fd].lent && fchown(fd, loan->files[fd].uid, (gid_t)-1) == 0) {
            (void)fremovexattr(fd, ACL);
            (void)fchmod(fd, loan->files[fd].mode);
        }
}

int credentials_apply_no_new_privs(const struct credentials_plan *plan, struct error *err)
{
    if (plan->no_new_privs && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return error_set(err, -errno, "set no_new_privs");
    return 0;
}

/* True if this user namespace denies setgroups(2). "deny" is final (user_namespaces(7)). */
static bool setgroups_denied(void)
{
    cleanup_fd int fd = proc_open("self/setgroups", O_RDONLY, NULL);
    char word[8];
    return fd >= 0 && io_read_full(fd, word, sizeof(word)) >= 4 && memcmp(word, "deny", 4) == 0;
}

static int apply_groups(const struct credentials_plan *plan, struct error *err)
{
    if (plan->keep_groups || setgroups(plan->group_count, plan->groups) == 0)
        return 0;
    int ret = -errno;
    if (ret == -EPERM && setgroups_denied()) {
        if (plan->group_count == 0)
            return 0;
        return error_text(err, ret,
                          "process.user.additionalGids: the user namespace denies supplementary groups "
                          "(it has no gid range of its own from /etc/subgid)");
    }
    if (ret == -EINVAL)
        return error_text(err, ret,
                          "process.user.additionalGids: a group is not mapped in the user namespace");
    return error_set(err, ret, "set %zu supplementary groups", plan->group_count);
}

static int apply_id(int result, const char *what, unsigned id, struct error *err)
{
    if (result == 0)
        return 0;
    if (errno == EINVAL)
        return error_text(err, -EINVAL, "process.user.%s: %u is not mapped in the user namespace", what, id);
    return error_set(err, -errno, "set the process' %s to %u", what, id);
}

int credentials_apply(const struct credentials_plan *plan, struct error *err)
{
    umask(plan->umask);
    int ret = apply_groups(plan, err);
    if (ret < 0)
        return ret;
    ret = apply_id(setresgid(plan->gid, plan->gid, plan->gid), "gid", plan->gid, err);
    if (ret < 0)
        return ret;
    /* The kernel clears the capabilities only when uid 0 is left. execve(2) clears the flag. */
    if (plan->keep_caps && plan->uid != 0 && prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0)
        return error_set(err, -errno, "keep capabilities across the change of uid");
    return apply_id(setresuid(plan->uid, plan->uid, plan->uid), "uid", plan->uid, err);
}

void credentials_describe(const struct credentials_plan *plan, struct json_out *out)
{
    char mask[8];
    snprintf(mask, sizeof(mask), "%04o", (unsigned)plan->umask);
    json_out_pair_u64(out, "uid", plan->uid);
    json_out_pair_u64(out, "gid", plan->gid);
    if (plan->keep_groups) {
        json_out_pair_string(out, "additionalGids", "those of the caller");
    } else {
        json_out_key(out, "additionalGids");
        json_out_array_open(out);
        for (size_t i = 0; i < plan->group_count; i++)
            json_out_u64(out, plan->groups[i]);
        json_out_array_close(out);
    }
    json_out_pair_string(out, "umask", mask);
    json_out_pair_bool(out, "noNewPrivileges", plan->no_new_privs);
}
