/* The container's init from its clone to the change of credentials. It carries out the plan in the memory
 * that it inherited. The runtime has made all decisions. */
#include "container/child/init.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/path.h"
#include "base/proc.h"
#include "base/sys.h"
#include "container/child/finish.h"
#include "container/child/signals.h"
#include "container/hooks.h"
#include "container/launch.h"
#include "container/plan.h"
#include "container/record.h"
#include "container/sync.h"
#include "sandbox/credentials.h"
#include "sandbox/mount/rootfs.h"
#include "sandbox/net/loopback.h"
#include "sandbox/oom.h"

static int set_names(const struct spec *spec, struct error *err)
{
    if (spec->hostname != NULL && sethostname(spec->hostname, strlen(spec->hostname)) < 0)
        return error_set(err, -errno, "set the hostname to '%s'", spec->hostname);
    if (spec->domainname != NULL && setdomainname(spec->domainname, strlen(spec->domainname)) < 0)
        return error_set(err, -errno, "set the domainname to '%s'", spec->domainname);
    return 0;
}

/* Mark the descriptors that the engine or a shell left open: they must not get into the container
 * (CVE-2024-21626). */
static int close_foreign_descriptors(const struct plan *plan, struct error *err)
{
    unsigned first = 3 + plan->process.preserve_fds;
    if (sys_close_range(first, ~0U, CLOSE_RANGE_CLOEXEC) < 0)
        return error_set(err, -errno, "mark descriptors from %u on to be closed", first);
    return 0;
}

static int enter_namespaces(const struct init_context *c, struct error *err)
{
    struct plan *plan = c->plan;
    int ret = c->wait_first ? sync_expect(c->sync, SYNC_MAPPED, err) : 0;
    if (ret < 0)
        return ret;
    ret = namespaces_open_time(&plan->namespaces, err);
    if (ret < 0)
        return ret;
    const struct credentials_plan *user = &plan->process.credentials;
    const struct idmap_entry entry = {.joined = (plan->namespaces.join & CLONE_NEWUSER) != 0,
                                      .keep_groups = user->keep_groups,
                                      .uid = user->uid,
                                      .gid = user->gid};
    ret = idmap_become_root(&plan->idmap, &entry, err);
    if (ret < 0)
        return ret;
    ret = namespaces_enter(&plan->namespaces, err);
    if (ret < 0)
        return ret;
    /* The runtime of an ordinary user cannot do this once this process is not dumpable. A value that needs
     * more privilege fails here, and the runtime sets it. */
    (void)oom_apply(plan->process.process, 0, NULL);
    /* From here on, no process of another user or of the container may trace or read this one. */
    if (prctl(PR_SET_DUMPABLE, 0) < 0)
        return error_set(err, -errno, "prctl PR_SET_DUMPABLE");
    if (setsid() < 0 && errno != EPERM)
        return error_set(err, -errno, "setsid");
    ret = set_names(plan->spec, err);
    log_step("init: enter namespaces", plan->spec->hostname);
    return ret;
}

/* Enter the new network namespace. Either the clone has made it, or the runtime makes it meanwhile and sets
 * the loopback device up itself. */
static int enter_network(const struct init_context *c, struct error *err)
{
    if ((c->plan->namespaces.make & CLONE_NEWNET) == 0)
        return 0;
    if (!c->plan->namespaces.network_overlapped)
        return loopback_up(err);
    launch_overlap(c->plan->process.launch, !c->wait_scope && !c->plan->process.mempolicy.set);
    int ret = sync_expect(c->sync, SYNC_NETWORK, err);
    return ret < 0 ? ret : namespaces_enter_network(&c->plan->namespaces, err);
}

/* The root of a new cgroup namespace is the cgroup that the process is in. */
static int enter_cgroup(const struct init_context *c, struct error *err)
{
    int ret = c->wait_scope ? sync_expect(c->sync, SYNC_SCOPE, err) : 0;
    return ret < 0 ? ret : namespaces_make_cgroup(&c->plan->namespaces, err);
}

/* Make the working directory if the image lacks it, as engines expect. On a read-only or squashed root, chdir
 * fails later. */
static void make_cwd(const struct plan *plan)
{
    if (!plan->has_process)
        return;
    int fd = path_mkdir_in_root(rootfs_fd(plan->rootfs_plan), plan->process.cwd, 0755);
    if (fd >= 0)
        close(fd);
}

static int setup_terminal(struct plan *plan, int *slave, struct error *err)
{
    if (!plan->has_process || !plan->process.terminal.wanted)
        return 0;
    cleanup_fd int master = -1;
    int ret = terminal_setup(&plan->process.terminal, rootfs_fd(plan->rootfs_plan),
                             plan->process.credentials.uid, true, &master, slave, err);
    if (ret == 0)
        ret = terminal_send_master(plan->process.terminal.socket, master, err);
    return ret;
}

static int run_inside(const struct spec_hook_list *hooks, const struct record *record, struct error *err)
{
    struct hook_run run = {.kind = "createContainer", .status = "creating"};
    if (hooks->count == 0)
        return 0;
    run.pid = hooks_own_pid();
    /* Files of a hook are not open to everyone. */
    umask(DEFAULT_UMASK);
    int ret = hooks_run(hooks, &run, record, err);
    umask(0);
    return ret;
}

/* Let the runtime run the hooks of its namespaces. */
static int await_hooks(const struct init_context *c, struct error *err)
{
    const struct spec_hooks *hooks = &c->plan->spec->hooks;
    if (hooks->prestart.count + hooks->create_runtime.count == 0)
        return 0;
    int ret = sync_send(c->sync, SYNC_HOOKS);
    return ret < 0 ? error_set(err, ret, "send to the runtime") : sync_expect(c->sync, SYNC_HOOKS_RAN, err);
}

/* Carry out the steps before the devices. */
static int mount_root(const struct init_context *c, struct error *err)
{
    struct plan *plan = c->plan;
    int ret = rootfs_mount(plan->rootfs_plan, err);
    if (ret < 0)
        return ret;
    log_step("init: mount root", plan->spec->root->path);
    ret = enter_network(c, err);
    if (ret < 0)
        return ret;
    log_step("init: enter network namespace", NULL);
    ret = enter_cgroup(c, err);
    if (ret == 0)
        ret = rootfs_mount_late(plan->rootfs_plan, err);
    log_step("init: mount what depends on namespaces", NULL);
    return ret;
}

static int setup_root(const struct init_context *c, struct error *err)
{
    struct plan *plan = c->plan;
    cleanup_fd int slave = -1;
    int ret = mount_root(c, err);
    if (ret < 0)
        return ret;
    if (plan->cgroup->devices != NULL && (ret = sync_send(c->sync, SYNC_DEVICES)) < 0)
        return error_set(err, ret, "send to the runtime");
    make_cwd(plan);
    ret = sysctl_apply(&plan->sysctl, err);
    if (ret < 0)
        return ret;
    ret = setup_terminal(plan, &slave, err);
    if (ret < 0)
        return ret;
    log_step("init: set sysctls and terminal", NULL);
    ret = await_hooks(c, err);
    if (ret < 0)
        return ret;
    ret = run_inside(&plan->spec->hooks.create_container, c->record, err);
    if (ret < 0)
        return ret;
    log_step("init: run hooks", NULL);
    ret = rootfs_finish(plan->rootfs_plan, err);
    if (ret < 0)
        return ret;
    ret = rootfs_pivot(plan->rootfs_plan, err);
    log_step("init: change root", plan->spec->root->path);
    return ret < 0 || slave < 0 ? ret : terminal_attach(fd_steal(&slave), err);
}

/* Carry out all steps up to the change of credentials. */
static int init_prepare(const struct init_context *c, struct process_program *program, struct error *err)
{
    struct plan *plan = c->plan;
    umask(0);
    signals_reset();
    int ret = close_foreign_descriptors(plan, err);
    if (ret < 0)
        return ret;
    /* createContainer hooks run here. Go now, because the user of a user namespace may not be allowed to. */
    if (plan->spec->hooks.create_container.count > 0 && chdir(plan->bundle) < 0)
        return error_set(err, -errno, "change to the bundle '%s'", plan->bundle);
    ret = enter_namespaces(c, err);
    if (ret < 0)
        return ret;
    ret = setup_root(c, err);
    if (ret == 0 && plan->has_process)
        ret = process_prepare(&plan->process, program, err);
    log_step("init: prepare process", plan->has_process ? plan->process.argv[0] : NULL);
    return ret;
}

_Noreturn void init_main(const struct init_context *c)
{
    struct process_program program = {0};
    struct error err = {0};
    if (init_prepare(c, &program, &err) < 0) {
        sync_send_error(c->sync, &err);
        _exit(1);
    }
    init_finish(c, &program);
}
