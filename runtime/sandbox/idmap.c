/* Plan and write the mappings of a new user namespace. */
#include "sandbox/idmap.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/json_out.h"
#include "base/proc.h"
#include "base/str.h"

/* The kernel takes at most 340 lines and one page (user_namespaces(7)). A longer map is refused, never cut (a
 * mistake like CVE-2021-43784). */
#define MAX_LINES 340

static const char *map_text(struct arena *a, const struct spec_idmaps *maps)
{
    size_t size = maps->count * 34 + 1, used = 0;
    char *text = arena_alloc(a, size);
    for (size_t i = 0; i < maps->count; i++) {
        const struct spec_idmap *m = &maps->items[i];
        used +=
            (size_t)snprintf(text + used, size - used, "%u %u %u\n", m->container_id, m->host_id, m->size);
    }
    return text;
}

/* True if this process may write any mapping: it has CAP_SETUID and CAP_SETGID in the parent namespace. */
static bool may_write_maps(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {0};
    if (syscall(SYS_capget, &header, data) < 0)
        return false;
    uint32_t needed = (1U << CAP_SETUID) | (1U << CAP_SETGID);
    return (data[0].effective & needed) == needed;
}

static int check_size(const char *what, const struct spec_idmaps *maps, const char *text, struct error *err)
{
    if (maps->count > MAX_LINES || strlen(text) >= (size_t)sysconf(_SC_PAGESIZE))
        return error_set(err, -EINVAL,
                         "linux.%s: %zu mappings are more than the kernel takes (%d lines and one page)",
                         what, maps->count, MAX_LINES);
    return 0;
}

int idmap_plan(struct arena *a, const struct spec *spec, struct idmap_plan *out, struct error *err)
{
    *out = (struct idmap_plan){.uids = &spec->linux_->uid_mappings, .gids = &spec->linux_->gid_mappings};
    if (!spec_new_namespace(spec, "user"))
        return 0;
    out->active = true;
    out->uid_text = map_text(a, out->uids);
    out->gid_text = map_text(a, out->gids);
    int ret = check_size("uidMappings", out->uids, out->uid_text, err);
    if (ret < 0)
        return ret;
    ret = check_size("gidMappings", out->gids, out->gid_text, err);
    if (ret < 0)
        return ret;
    if (may_write_maps())
        return 0;
    /* Without privilege, the process may map its own id directly. The set-user-ID helpers write any other
     * map. */
    bool own = out->uids->count == 1 && out->gids->count == 1 && out->uids->items[0].size == 1 &&
               out->gids->items[0].size == 1 && out->uids->items[0].host_id == geteuid() &&
               out->gids->items[0].host_id == getegid();
    out->by_helper = !own;
    out->deny_setgroups = own;
    return 0;
}

/* Run newuidmap or newgidmap PID INSIDE OUTSIDE COUNT …, and pass its message on. */
static int run_helper(const char *name, pid_t pid, const struct spec_idmaps *maps, struct error *err)
{
    struct arena a = {0};
    char **argv = ARENA_ARRAY(&a, 3 + 3 * maps->count, char *);
    argv[0] = arena_strdup(&a, name);
    argv[1] = arena_printf(&a, "%d", (int)pid);
    for (size_t i = 0; i < maps->count; i++) {
        argv[2 + 3 * i] = arena_printf(&a, "%u", maps->items[i].container_id);
        argv[3 + 3 * i] = arena_printf(&a, "%u", maps->items[i].host_id);
        argv[4 + 3 * i] = arena_printf(&a, "%u", maps->items[i].size);
    }
    int out[2];
    if (pipe2(out, O_CLOEXEC) < 0) {
        arena_free(&a);
        return error_set(err, -errno, "make a pipe");
    }
    cleanup_fd int reader = out[0];
    cleanup_fd int writer = out[1];
    pid_t helper = fork();
    if (helper == 0) {
        dup2(writer, STDERR_FILENO);
        dup2(writer, STDOUT_FILENO);
        execvp(name, argv);
        dprintf(STDERR_FILENO, "%s",
                errno == ENOENT ? "the program is not installed (package uidmap or shadow-utils)"
                                : strerror(errno));
        _exit(127);
    }
    fd_close(&writer);
    int ret = helper < 0 ? -errno : 0, status = 0;
    char text[512] = "";
    if (helper > 0) {
        ssize_t n = io_read_full(reader, text, sizeof(text) - 1);
        text[n > 0 ? n : 0] = '\0';
        text[strcspn(text, "\n")] = '\0';
        RETRY(waitpid(helper, &status, 0));
    }
    arena_free(&a);
    if (ret < 0)
        return error_set(err, ret, "start '%s'", name);
    if (status != 0)
        return error_classify(err, ERROR_NO_ID_MAPPING,
                              error_text(err, -EPERM, "%s: %s (are the ids of user %u listed in %s?)", name,
                                         text, geteuid(),
                                         strcmp(name, "newuidmap") == 0 ? "/etc/subuid" : "/etc/subgid"));
    return 0;
}

static int idmap_write_map(pid_t pid, const char *file, const char *text, struct error *err)
{
    char path[48];
    snprintf(path, sizeof(path), "%d/%s", (int)pid, file);
    cleanup_fd int fd = proc_open(path, O_WRONLY, err);
    if (fd < 0)
        return fd;
    if (RETRY(write(fd, text, strlen(text))) < 0)
        return error_classify(err, errno == EPERM || errno == EACCES ? ERROR_NO_ID_MAPPING : ERROR_OTHER,
                              error_set(err, -errno, "write the mapping to '/proc/%s'", path));
    return 0;
}

static int write_maps(const struct idmap_plan *plan, pid_t pid, struct error *err)
{
    int ret = plan->deny_setgroups ? idmap_write_map(pid, "setgroups", "deny", err) : 0;
    if (ret < 0)
        return ret;
    ret = idmap_write_map(pid, "gid_map", plan->gid_text, err);
    return ret < 0 ? ret : idmap_write_map(pid, "uid_map", plan->uid_text, err);
}

static int run_helpers(const struct idmap_plan *plan, pid_t pid, struct error *err)
{
    int ret = run_helper("newgidmap", pid, plan->gids, err);
    return ret < 0 ? ret : run_helper("newuidmap", pid, plan->uids, err);
}

int idmap_write(const struct idmap_plan *plan, pid_t pid, struct error *err)
{
    if (!plan->active)
        return 0;
    if (plan->by_helper)
        return run_helpers(plan, pid, err);
    return write_maps(plan, pid, err) < 0 ? error_wrap(err, "linux.uidMappings and gidMappings") : 0;
}

/* Become id 0, or the other id if the namespace has no id 0. */
static int idmap_become(int (*set)(uint32_t, uint32_t, uint32_t), uint32_t other)
{
    return set(0, 0, 0) == 0 || (errno == EINVAL && set(other, other, other) == 0) ? 0 : -errno;
}

int idmap_become_root(const struct idmap_plan *plan, const struct idmap_entry *entry, struct error *err)
{
    if (!entry->joined && !plan->active)
        return 0;
    if (!plan->deny_setgroups && !entry->keep_groups && setgroups(0, NULL) < 0 && errno != EPERM)
        return error_set(err, -errno, "drop supplementary groups");
    int ret = idmap_become(setresgid, entry->gid);
    if (ret == 0)
        ret = idmap_become(setresuid, entry->uid);
    if (ret < 0 && !(entry->joined && ret == -EINVAL))
        return error_text(err, ret,
                          "become root of the user namespace, or user %u and group %u if it has no id 0: %s",
                          entry->uid, entry->gid, error_reason(ret));
    return 0;
}

int64_t idmap_of_process(pid_t pid, uint32_t uid)
{
    char name[32], map[MAX_LINES * 34 + 1];
    snprintf(name, sizeof(name), "%d/uid_map", (int)pid);
    cleanup_fd int fd = proc_open(name, O_RDONLY, NULL);
    ssize_t n = fd >= 0 ? io_read_full(fd, map, sizeof(map) - 1) : -1;
    map[n > 0 ? n : 0] = '\0';
    unsigned first, host, size;
    for (const char *line = map; sscanf(line, "%u %u %u", &first, &host, &size) == 3; line++) {
        if (uid >= first && uid - first < size)
            return (int64_t)host + (uid - first);
        if ((line = strchr(line, '\n')) == NULL)
            break;
    }
    return -1;
}

void idmap_describe_maps(const char *key, const struct spec_idmaps *maps, struct json_out *out)
{
    json_out_key(out, key);
    json_out_array_open(out);
    for (size_t i = 0; i < maps->count; i++) {
        json_out_map_open(out);
        json_out_pair_u64(out, "containerID", maps->items[i].container_id);
        json_out_pair_u64(out, "hostID", maps->items[i].host_id);
        json_out_pair_u64(out, "size", maps->items[i].size);
        json_out_map_close(out);
    }
    json_out_array_close(out);
}

void idmap_describe(const struct idmap_plan *plan, struct json_out *out)
{
    json_out_map_open(out);
    json_out_pair_string(out, "writtenBy", plan->by_helper ? "newuidmap and newgidmap" : "runtime");
    json_out_pair_bool(out, "denySetgroups", plan->deny_setgroups);
    idmap_describe_maps("uidMappings", plan->uids, out);
    idmap_describe_maps("gidMappings", plan->gids, out);
    json_out_map_close(out);
}
