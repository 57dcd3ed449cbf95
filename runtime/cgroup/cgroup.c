/* The cgroup of a container: the choice of the manager, and the parts that all managers share. */
#include "cgroup/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/path.h"
#include "base/str.h"
#include "cgroup/detect.h"
#include "cgroup/devices.h"
#include "cgroup/fs.h"
#include "cgroup/limits.h"
#include "cgroup/resources.h"
#include "cgroup/systemd.h"
#include "cgroup/systemd_properties.h"
#include "cgroup/tree.h"
#include "spec/spec.h"

#define EXEC_SUBGROUP "exec"

static const char *const manager_names[] = {
    [CGROUP_MANAGER_CGROUPFS] = "cgroupfs",
    [CGROUP_MANAGER_SYSTEMD] = "systemd",
    [CGROUP_MANAGER_DISABLED] = "disabled",
};

const char *cgroup_manager_name(enum cgroup_manager manager)
{
    return manager_names[manager];
}

int cgroup_create(const struct cgroup_plan *plan, int *dirfd, struct error *err)
{
    *dirfd = -1;
    return plan->ref.manager == CGROUP_MANAGER_CGROUPFS ? cgroup_fs_create(plan, dirfd, err) : 0;
}

int cgroup_attach_begin(const struct cgroup_plan *plan, pid_t pid, struct cgroup_job **job, struct error *err)
{
    *job = NULL;
    return plan->ref.manager == CGROUP_MANAGER_SYSTEMD ? cgroup_systemd_attach_begin(plan, pid, job, err) : 0;
}

int cgroup_attach_finish(struct cgroup_job *job, char path[PATH_MAX], struct error *err)
{
    return job != NULL ? cgroup_systemd_attach_finish(job, path, err) : 0;
}

int cgroup_load_devices(const struct cgroup_plan *plan, int *program, struct error *err)
{
    *program = plan->devices != NULL ? cgroup_devices_load(plan->devices, err) : -1;
    return plan->devices != NULL && *program < 0 ? *program : 0;
}

int cgroup_confine(const struct cgroup_ref *ref, int program, struct error *err)
{
    if (program < 0)
        return 0;
    cleanup_fd int dirfd = cgroup_open(ref, NULL, err);
    return dirfd < 0 ? dirfd : cgroup_devices_attach(program, dirfd, err);
}

bool cgroup_is_located(const struct cgroup_ref *ref)
{
    if (ref->manager == CGROUP_MANAGER_DISABLED)
        return ref->path != NULL;
    return ref->manager <= CGROUP_MANAGER_DISABLED && ref->mount != NULL && ref->path != NULL &&
           ref->path[strspn(ref->path, "/")] != '\0' &&
           (ref->manager != CGROUP_MANAGER_SYSTEMD || ref->scope != NULL);
}

int cgroup_destroy(const struct cgroup_ref *ref, struct error *err)
{
    switch (ref->manager) {
    case CGROUP_MANAGER_CGROUPFS:
        return cgroup_fs_destroy(ref, err);
    case CGROUP_MANAGER_SYSTEMD:
        return cgroup_systemd_destroy(ref, err);
    case CGROUP_MANAGER_DISABLED:
        break;
    }
    return 0;
}

void cgroup_discard(const struct cgroup_ref *ref)
{
    if (ref->manager == CGROUP_MANAGER_CGROUPFS)
        cgroup_fs_discard(ref);
}

int cgroup_open(const struct cgroup_ref *ref, const char *sub, struct error *err)
{
    if (ref->manager == CGROUP_MANAGER_DISABLED || ref->mount == NULL)
        return error_text(err, -ENOTSUP, "the container has no cgroup of its own");
    cleanup_fd int dirfd = cgroup_tree_open(ref->mount, ref->path);
    if (dirfd < 0)
        return error_set(err, dirfd, "open cgroup '%s%s'", ref->mount, ref->path);
    if (sub == NULL || sub[strspn(sub, "/")] == '\0')
        return fd_steal(&dirfd);
    int fd = path_open_beneath(dirfd, sub + strspn(sub, "/"), O_PATH | O_DIRECTORY);
    if (fd == -EXDEV)
        return error_text(err, fd, "cgroup '%s' leads out of the container's cgroup", sub);
    return fd < 0 ? error_set(err, fd, "open cgroup '%s' in '%s'", sub, ref->path) : fd;
}

int cgroup_open_of(const struct cgroup_ref *ref, pid_t pid, struct error *err)
{
    char path[PATH_MAX];
    int ret = cgroup_detect_path(pid, path, err);
    if (ret < 0)
        return ret;
    int fd = cgroup_tree_open(ref->mount, path);
    return fd < 0 ? error_set(err, fd, "open cgroup '%s%s'", ref->mount, path) : fd;
}

int cgroup_open_fallback(const struct cgroup_ref *ref, pid_t init, struct error *err)
{
    char path[PATH_MAX];
    cleanup_fd int dirfd = cgroup_open(ref, NULL, err);
    int ret = dirfd < 0 ? dirfd : cgroup_detect_path(init, path, err);
    if (ret < 0)
        return ret;
    const char *beneath = str_after(path, ref->path);
    if (beneath != NULL && beneath[0] == '/' && beneath[1] != '\0')
        return cgroup_open(ref, beneath, err);
    if (mkdirat(dirfd, EXEC_SUBGROUP, 0755) < 0 && errno != EEXIST)
        return error_set(err, -errno, "make cgroup '%s/%s'", ref->path, EXEC_SUBGROUP);
    return cgroup_open(ref, EXEC_SUBGROUP, err);
}

int cgroup_move(const struct cgroup_ref *ref, const char *sub, int dirfd, pid_t pid, struct error *err)
{
    char text[16], path[PATH_MAX];
    snprintf(text, sizeof(text), "%d", (int)pid);
    int ret = io_write_value_at(dirfd, "cgroup.procs", text);
    if (ret == 0)
        return 0;
    if (ref->manager != CGROUP_MANAGER_SYSTEMD || (ret != -EACCES && ret != -EPERM))
        return error_set(err, ret, "move process %d to cgroup '%s'", (int)pid, ref->path);
    sub = sub != NULL ? sub + strspn(sub, "/") : "";
    if (snprintf(path, sizeof(path), "%s%s%s", ref->path, sub[0] != '\0' ? "/" : "", sub) >=
        (int)sizeof(path))
        return error_set(err, -ENAMETOOLONG, "move process %d to cgroup '%s'", (int)pid, sub);
    return cgroup_systemd_move(ref, path, pid, err);
}

/* Some of the specification's values depend on each other where the kernel's do not. If `resources` lacks one
 * of such a pair, use the value in force. */
static const struct spec_resources *complete_resources(struct arena *a, int dirfd,
                                                       const struct spec_resources *resources)
{
    char text[64];
    struct spec_resources *r = ARENA_NEW(a, struct spec_resources);
    *r = *resources;
    if (r->memory != NULL && r->memory->swap.set && r->memory->swap.value > 0 && !r->memory->limit.set &&
        io_read_small_at(dirfd, "memory.max", text, sizeof(text)) > 0) {
        struct spec_memory *m = ARENA_NEW(a, struct spec_memory);
        *m = *r->memory;
        m->limit = (struct opt_i64){.set = true, .value = -1};
        if (strcmp(text, "max") != 0)
            (void)str_to_i64(text, &m->limit.value);
        r->memory = m;
    }
    if (r->cpu != NULL && r->cpu->period.set && !r->cpu->quota.set &&
        io_read_small_at(dirfd, "cpu.max", text, sizeof(text)) > 0) {
        struct spec_cpu *c = ARENA_NEW(a, struct spec_cpu);
        *c = *r->cpu;
        text[strcspn(text, " ")] = '\0';
        c->quota = (struct opt_i64){.set = true, .value = -1};
        (void)str_to_i64(text, &c->quota.value);
        r->cpu = c;
    }
    return r;
}

int cgroup_update(struct arena *a, const struct cgroup_ref *ref, const struct spec_resources *resources,
                  struct error *err)
{
    cleanup_fd int dirfd = cgroup_open(ref, NULL, err);
    if (dirfd < 0)
        return dirfd;
    resources = complete_resources(a, dirfd, resources);
    struct cgroup_writes writes;
    const struct cgroup_device_program *devices = NULL;
    int ret = cgroup_resources_plan(a, resources, &writes, err);
    if (ret < 0)
        return ret;
    ret = cgroup_devices_compile(a, resources, &devices, err);
    if (ret < 0)
        return ret;
    ret = cgroup_limits_check(dirfd, &writes, err);
    if (ret < 0)
        return ret;
    if (ref->manager == CGROUP_MANAGER_SYSTEMD) {
        struct systemd_properties properties = {0};
        systemd_properties_of_writes(a, &writes, &properties);
        ret = cgroup_systemd_update(ref, &properties, err);
        if (ret < 0)
            return ret;
    }
    ret = cgroup_limits_write(ref, dirfd, &writes, NULL, err);
    if (ret < 0 || resources->devices.count == 0 || ref->rootless)
        return ret;
    cleanup_fd int program = -1;
    if (devices != NULL)
        ret = program = cgroup_devices_load(devices, err);
    return ret < 0 ? ret : cgroup_devices_attach(program, dirfd, err);
}
