/* Enable controllers down to a cgroup (admin-guide/cgroup-v2.rst, "Enabling and Disabling"), and write the
 * planned values to its files. */
#include "cgroup/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/str.h"
#include "cgroup/types.h"

/* Bit i stands for controllers[i]. */
static const char *const controllers[] = {"cpuset", "cpu", "io", "memory", "hugetlb", "pids", "rdma", "misc"};
#define CONTROLLERS     (sizeof(controllers) / sizeof(controllers[0]))
#define CONTROLLERS_ALL ((1U << CONTROLLERS) - 1)

/* A child that was just removed may keep a controller of its parent busy for a moment, so a write is retried.
 * */
#define BUSY_RETRIES 1000

static unsigned controller_bit(const char *name, size_t length)
{
    for (size_t i = 0; i < CONTROLLERS; i++)
        if (strlen(controllers[i]) == length && strncmp(controllers[i], name, length) == 0)
            return 1U << i;
    return 0;
}

static unsigned read_controllers(int dirfd, const char *file)
{
    char text[512];
    if (io_read_small_at(dirfd, file, text, sizeof(text)) < 0)
        return 0;
    unsigned mask = 0;
    for (const char *p = text; *p != '\0';) {
        size_t length = strcspn(p, " ");
        mask |= controller_bit(p, length);
        p += length;
        p += *p == ' ';
    }
    return mask;
}

static int write_subtree_control(int dirfd, unsigned mask)
{
    char text[128];
    size_t used = 0;
    for (size_t i = 0; i < CONTROLLERS; i++)
        if (mask & 1U << i)
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s+%s", used > 0 ? " " : "",
                                     controllers[i]);
    for (int i = 0;; i++) {
        int ret = io_write_value_at(dirfd, "cgroup.subtree_control", text);
        char pid[16];
        /* It stays busy if the cgroup itself has processes ("no internal processes"). */
        if (ret != -EBUSY || i == BUSY_RETRIES ||
            io_read_small_at(dirfd, "cgroup.procs", pid, sizeof(pid)) != 0)
            return ret;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

static void enable_in(int dirfd, size_t ancestor, unsigned wanted, struct cgroup_obstacle *obstacle)
{
    unsigned add = wanted & read_controllers(dirfd, "cgroup.controllers") &
                   ~read_controllers(dirfd, "cgroup.subtree_control");
    int all = add != 0 ? write_subtree_control(dirfd, add) : 0;
    if (all == 0)
        return;
    /* One of them may be refused for its own reason: cpu while there are real-time tasks, or domain
     * controllers in a threaded cgroup. */
    for (size_t i = 0; i < CONTROLLERS; i++) {
        unsigned bit = 1U << i;
        int ret = add & bit ? write_subtree_control(dirfd, bit) : 0;
        if (ret == 0)
            continue;
        /* In a cgroup with processes, the first of the threaded controllers makes a threaded domain. The
         * kernel then refuses the other controllers with a different error. */
        if (ret == -EOPNOTSUPP && all == -EBUSY)
            ret = all;
        obstacle->controllers |= bit;
        if (obstacle->code == 0) {
            obstacle->code = ret;
            obstacle->ancestor = ancestor;
        }
        if (ret == -EACCES || ret == -EPERM || ret == -EROFS) {
            obstacle->controllers |= add;
            return;
        }
    }
}

void cgroup_controllers_enable(const char *mount, const char *path, size_t top, int leaf,
                               struct cgroup_obstacle *obstacle)
{
    *obstacle = (struct cgroup_obstacle){0};
    unsigned missing = CONTROLLERS_ALL & ~read_controllers(leaf, "cgroup.controllers");
    cleanup_fd int root = open(mount, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0 || missing == 0)
        return;
    missing &= read_controllers(root, "cgroup.controllers");
    for (size_t end = top; missing != 0 && path[end] != '\0';) {
        char name[PATH_MAX];
        snprintf(name, sizeof(name), "%s%.*s", mount, (int)end, path);
        cleanup_fd int dirfd = open(name, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (dirfd >= 0)
            enable_in(dirfd, end, missing, obstacle);
        end += strspn(path + end, "/");
        end += strcspn(path + end, "/");
    }
    char type[32];
    /* Below a threaded cgroup, a new one is unusable until it is threaded as well. */
    if (missing != 0 && io_read_small_at(leaf, "cgroup.type", type, sizeof(type)) > 0 &&
        strcmp(type, "domain invalid") == 0)
        (void)io_write_value_at(leaf, "cgroup.type", "threaded");
}

static int report_missing(const struct cgroup_ref *ref, const struct cgroup_write *w, int code,
                          const struct cgroup_obstacle *obstacle, struct error *err)
{
    const char *help =
        ref->rootless ? "; systemd gives it to users by Delegate= in a drop-in for user@.service" : "";
    unsigned bit = controller_bit(w->controller, strlen(w->controller));
    if (obstacle != NULL && obstacle->controllers & bit) {
        const char *busy = obstacle->code == -EBUSY ? " (it holds processes itself)" : "";
        return error_classify(
            err, ERROR_NO_CONTROLLER,
            error_text(err, obstacle->code,
                       "linux.resources.%s: controller '%s' cannot be enabled in cgroup '%s%.*s'%s: %s%s",
                       w->source, w->controller, ref->mount, (int)obstacle->ancestor, ref->path, busy,
                       error_reason(obstacle->code), help));
    }
    return error_classify(
        err, ERROR_NO_CONTROLLER,
        error_text(err, code,
                   "linux.resources.%s: controller '%s' is not available in cgroup '%s%s': '%s' %s%s",
                   w->source, w->controller, ref->mount, ref->path, w->file, error_reason(code), help));
}

/* The kernel would accept the lower limit and kill processes until it is met. */
static int check_usage(int dirfd, const struct cgroup_write *w, struct error *err)
{
    char text[32];
    uint64_t usage, limit;
    if (io_read_small_at(dirfd, w->usage, text, sizeof(text)) < 0 ||
        str_to_u64(text, UINT64_MAX, &usage) < 0 || str_to_u64(w->value, UINT64_MAX, &limit) < 0 ||
        usage <= limit)
        return 0;
    return error_text(err, -EBUSY, "linux.resources.%s: %s is below the %" PRIu64 " in use ('%s')", w->source,
                      w->value, usage, w->usage);
}

int cgroup_limits_check(int dirfd, const struct cgroup_writes *writes, struct error *err)
{
    for (size_t i = 0; i < writes->count; i++) {
        int ret = writes->items[i].usage != NULL ? check_usage(dirfd, &writes->items[i], err) : 0;
        if (ret < 0)
            return ret;
    }
    return 0;
}

static int report_refused(const struct cgroup_ref *ref, const struct cgroup_write *w, int code,
                          const struct cgroup_obstacle *obstacle, struct error *err)
{
    if (code == -ENOENT)
        return report_missing(ref, w, code, obstacle, err);
    return error_set(err, code, "linux.resources.%s: write '%s' to '%s%s/%s'%s", w->source, w->value,
                     ref->mount, ref->path, w->file, code == -EINVAL ? ": the kernel refuses the value" : "");
}

int cgroup_limits_write(const struct cgroup_ref *ref, int dirfd, const struct cgroup_writes *writes,
                        const struct cgroup_obstacle *obstacle, struct error *err)
{
    bool again = true;
    for (int pass = 0; again && pass < 2; pass++) {
        again = false;
        for (size_t i = 0; i < writes->count; i++) {
            const struct cgroup_write *w = &writes->items[i];
            if (pass > 0 && !w->or_later)
                continue;
            int ret = io_write_value_at(dirfd, w->file, w->value);
            if (ret == -EINVAL && w->or_later && pass == 0)
                again = true;
            else if (ret == -ENOENT && w->or_next)
                continue;
            else if (ret < 0 && !(ret == -ENOENT && w->optional))
                return report_refused(ref, w, ret, obstacle, err);
            else if (w->or_next)
                i++;
        }
    }
    return 0;
}
