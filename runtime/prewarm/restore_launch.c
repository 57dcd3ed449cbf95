/* The two sides of a restore. The runtime checks whether the files fit while the child is busy. The child
 * compares the rest in the container's own root, and becomes the snapshot. Besides the exchange of memory it
 * changes the process as execve(2) would have done. */
#include "prewarm/restore_launch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/securebits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/log.h"
#include "base/str.h"
#include "container/child/first.h"
#include "container/execve.h"
#include "container/process.h"
#include "container/sync.h"
#include "prewarm/credentials.h"
#include "prewarm/prewarm.h"
#include "warm/agent/agent.h"
#include "warm/interpreter.h"
#include "warm/manifest/manifest.h"
#include "warm/restore/restore.h"
#include "warm/root_view.h"
#include "warm/session.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

/* How long a comparison of the files is valid, in milliseconds. */
#define VALID_MS 500

/* The largest write set of a program that is restored long before its use, in bytes. */
#define WAITING_SIZE (15U << 18)

/* These end a runtime whose container waits for the snapshot of a session. */
static const int ending[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};

/* In the child. */

/* Return whether to make the write set private at once. While a program waits for its use, it should have
 * little memory of its own. */
static bool prefetches(const struct prewarm *prewarm)
{
    const struct snapshot *snapshot = &prewarm->entry.mapped;
    uint64_t size = 0;
    for (size_t i = 0; prewarm->start->waits && i < snapshot->write_count; i++)
        size += snapshot->writes[i].pages * snapshot->header->page_size;
    return prewarm->decision.config.prefetch && size <= WAITING_SIZE;
}

/* Prepare the restorer. The capabilities are those that execve(2) would leave. */
static int restore_launch_prepare(const struct process_plan *plan, const char *program, int root,
                                  bool overlapped, struct error *err)
{
    struct prewarm *prewarm = plan->launch->state;
    const struct seccomp_plan *seccomp = &plan->seccomp;
    const struct sock_fprog filter = {(unsigned short)seccomp->count,
                                      (struct sock_filter *)(uintptr_t)seccomp->filter};
    struct __user_cap_data_struct caps[2];
    const bool privileged = plan->credentials.uid == 0 && (prctl(PR_GET_SECUREBITS) & SECBIT_NOROOT) == 0;
    if (caps_after_exec(&plan->caps, privileged, plan->credentials.no_new_privs, caps) < 0)
        return error_text(err, -EPERM, "execve would give the process more capabilities than it has");
    const struct restore_request request = {
        .snapshot = &prewarm->entry.mapped,
        .file = prewarm->entry.file,
        .base = prewarm->base,
        .root = root,
        .agent = prewarm->agent,
        .required = prewarm->decision.mode == WARM_REQUIRE,
        .prefetch = prefetches(prewarm),
        .core_dumps = prewarm->core_dumps,
        .overlapped = overlapped,
        .cloned = plan->first.wanted,
        .error_message = sync_word(SYNC_ERROR, ERROR_SNAPSHOT_UNFIT),
        .comm = strrchr(program, '/') != NULL ? strrchr(program, '/') + 1 : program,
        .argv = plan->argv,
        .envp = plan->envp,
        .program = prewarm->decision.command_line.program,
        .program_index = prewarm->decision.command_line.program_index,
        .finish = {.filter = seccomp->filter != NULL ? &filter : NULL,
                   .filter_flags = seccomp->flags,
                   .caps = caps,
                   .filter_by_privilege = !plan->credentials.no_new_privs,
                   .labels = {{plan->selinux.current.fd, plan->selinux.current.text},
                              {plan->apparmor.current.fd, plan->apparmor.current.text}},
                   .close_from = 3 + plan->preserve_fds},
    };
    return restore_prepare(&request, &prewarm->restore, err);
}

static void overlap(const struct launch *launch, bool own_pages)
{
    struct prewarm *prewarm = launch->state;
    if (prewarm->overlapped)
        prewarm->restore = restore_begin(&prewarm->entry.mapped, prewarm->entry.file,
                                         own_pages && prefetches(prewarm), prewarm->core_dumps);
}

static void give_up(struct prewarm *prewarm)
{
    restore_free(prewarm->restore);
    prewarm->restore = NULL;
}

/* Map the snapshot while the runtime compares files. A part that cannot be mapped yet is prepared again
 * later, because it needs descriptors that must not stay open until then. */
static int restore_map_overlapped(const struct process_plan *plan, const char *program, int root,
                                  struct error *err)
{
    struct prewarm *prewarm = plan->launch->state;
    if (!prewarm->overlapped)
        return 0;
    int ret = restore_launch_prepare(plan, program, root, true, err);
    if (ret == 0 && prewarm->restore != NULL && !restore_is_mapped(prewarm->restore))
        give_up(prewarm);
    return ret;
}

/* Compare all files. */
static int verify_alone(const struct prewarm *prewarm, const struct root_view *view, struct error *err)
{
    return prewarm->other_owners ? manifest_verify_as_seen(prewarm->entry.manifest, view, err)
                                 : manifest_verify(prewarm->entry.manifest, view, NULL, err);
}

/* Compare the files that the runtime has not begun with. Compare all files if the runtime cannot see them or
 * has found a difference. Its message is received in any case. */
static int verify_files(const struct prewarm *prewarm, const struct root_view *view, int channel,
                        struct error *err)
{
    const struct manifest *manifest = prewarm->entry.manifest;
    if (prewarm->session || prewarm->compared_later)
        return 0; /* the mapped files are compared when they are opened */
    if (prewarm->queue == NULL)
        return verify_alone(prewarm, view, err);
    struct error theirs = {0};
    int ret = manifest_verify(manifest, view, prewarm->queue, err);
    int message = sync_receive(channel, &theirs);
    if (message != SYNC_FIT && message != SYNC_DIFFER)
        return error_text(err, -ECONNRESET, "the runtime has not verified the snapshot");
    if (ret < 0)
        return ret;
    return message == SYNC_FIT ? manifest_verify_left(manifest, view, prewarm->queue, err)
                               : manifest_verify(manifest, view, NULL, err);
}

/* Compare what only a process of the container can see. */
static int verify_inside(const struct process_plan *plan, const struct root_view *view, struct error *err)
{
    const struct prewarm *prewarm = plan->launch->state;
    const struct manifest *manifest = prewarm->entry.manifest;
    int ret = manifest_check_environment(manifest, plan->envp, err);
    if (ret < 0)
        return ret;
    ret = manifest_check_values(manifest, err);
    if (ret < 0)
        return ret;
    ret = manifest_check_places(manifest, err);
    if (ret < 0)
        return ret;
    ret = manifest_check_streams(manifest, err);
    if (ret < 0)
        return ret;
    return manifest_check_program(manifest, view, &prewarm->decision.command_line, plan->argv, plan->cwd,
                                  err);
}

/* Check the file that execve would take. Its user must be allowed to read it: otherwise the process would not
 * be dumpable. */
static int verify_privileges(const char *program, struct error *err)
{
    cleanup_fd int fd = open(program, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return error_set(err, -errno, "open the interpreter '%s'", program);
    const char *reason = interpreter_privileges(fd);
    return reason != NULL ? error_text(err, -EPERM, "%s", reason) : 0;
}

static int restore_verify_all(const struct process_plan *plan, const char *program, int channel,
                              struct error *err)
{
    const struct prewarm *prewarm = plan->launch->state;
    cleanup_fd int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct root_view view = {.root = root};
    struct error unmappable = {0};
    int mapped = restore_map_overlapped(plan, program, root, &unmappable);
    int ret = verify_files(prewarm, &view, channel, err);
    if (ret < 0)
        return ret;
    if (!str_eq(program, prewarm->decision.program))
        return error_text(err, -ESTALE, "the program is '%s' now, not '%s'", program,
                          prewarm->decision.program);
    if (mapped < 0) {
        *err = unmappable;
        return mapped;
    }
    ret = verify_privileges(program, err);
    if (ret < 0)
        return ret;
    return prewarm->session ? 0 : verify_inside(plan, &view, err);
}

/* Set the kind of the reason why the process does not become the snapshot, unless it has one. */
static int restore_classify(struct error *reason)
{
    return reason->kind == ERROR_OTHER ? error_classify(reason, ERROR_SNAPSHOT_UNFIT, reason->code)
                                       : reason->code;
}

static int restore_check(struct process_plan *plan, const char *program, int channel, struct error *err)
{
    struct prewarm *prewarm = plan->launch->state;
    const struct warm_config *config = &prewarm->decision.config;
    struct error reason = {0};
    if (restore_verify_all(plan, program, channel, &reason) == 0) {
        clock_gettime(CLOCK_MONOTONIC, &prewarm->checked);
        return 0;
    }
    give_up(prewarm);
    restore_classify(&reason);
    sync_send_reason(channel, SYNC_COLD, &reason);
    if (plan->launch->fallback) {
        plan->launch = &launch_execve;
        return 0;
    }
    *err = reason;
    if (prewarm->session)
        return err->code;
    if (reason.code != -ESTALE || config->retry_after == 0)
        return error_wrap(err, WARM_ANNOTATION_MODE "=require");
    error_text(err, reason.code,
               "%s=require: the snapshot does not fit: %s (it is made anew once it is %" PRIu32
               " s old: retryAfter in warm.json)",
               WARM_ANNOTATION_MODE, reason.text, config->retry_after);
    return restore_classify(err);
}

static void distrust(const struct launch *launch)
{
    struct prewarm *prewarm = launch->state;
    prewarm->checked = (struct timespec){0};
}

/* Compare the files again if the comparison is too old. They can change between create and start, even if
 * they are already mapped. */
static int check_again(const struct process_plan *plan, int root, struct error *err)
{
    struct prewarm *prewarm = plan->launch->state;
    struct root_view view = {.root = root};
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t age =
        (now.tv_sec - prewarm->checked.tv_sec) * 1000 + (now.tv_nsec - prewarm->checked.tv_nsec) / 1000000;
    if (prewarm->session || prewarm->compared_later || age < VALID_MS)
        return 0;
    give_up(prewarm);
    int ret = verify_alone(prewarm, &view, err);
    if (ret < 0)
        return ret;
    return manifest_check_program(prewarm->entry.manifest, &view, &prewarm->decision.command_line, plan->argv,
                                  plan->cwd, err);
}

/* Wait for the snapshot of the session. */
static int receive(struct prewarm *prewarm, struct error *err)
{
    if (!prewarm->received)
        return 0;
    const int socket = prewarm->entry.file;
    prewarm->entry.file = session_receive(socket, &prewarm->entry.mapped, &prewarm->base, err);
    close(socket);
    return prewarm->entry.file < 0 ? prewarm->entry.file : 0;
}

static int confine(struct process_plan *plan, const char *program, struct error *err)
{
    struct prewarm *prewarm = plan->launch->state;
    int ret = credentials_apply_no_new_privs(&plan->credentials, err);
    if (ret < 0)
        return ret;
    /* execve clears this flag even if it is locked. */
    if (prctl(PR_SET_KEEPCAPS, 0) < 0 && prctl(PR_GET_KEEPCAPS) != 0)
        return error_set(err, -errno, "clear the flag that keeps capabilities");
    cleanup_fd int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return error_set(err, -errno, "open the container's root");
    ret = check_again(plan, root, err);
    if (ret == 0)
        ret = receive(prewarm, err);
    if (ret < 0)
        return ret;
    if (prewarm->restore == NULL) {
        ret = restore_launch_prepare(plan, program, root, false, err);
        if (ret < 0)
            return ret;
    }
    /* Every file is open by now, and the restorer opens no other. */
    return landlock_apply(&plan->landlock, err);
}

/* Confine the process and restore the snapshot. After a failure the process is as it was, except for
 * no_new_privs. The restorer installs the filter. */
static int restore_enter(struct process_plan *plan, struct seccomp_handover *handover, const char *program,
                         int channel, struct error *err)
{
    struct prewarm *prewarm = plan->launch->state;
    (void)handover;
    int ret = confine(plan, program, err);
    if (ret < 0) {
        give_up(prewarm);
        ret = restore_classify(err);
        return plan->launch->fallback ? ret : error_wrap(err, WARM_ANNOTATION_MODE "=require");
    }
    first_wait_until_alone(plan);
    restore_go(prewarm->restore, channel);
}

/* The Makefile names this: LAUNCHES. */
const struct launch_child restore_child = {
    .overlap = overlap, .check = restore_check, .distrust = distrust, .enter = restore_enter};

static int restore_refuse(struct process_plan *plan, const char *program, int channel, struct error *err)
{
    const struct prewarm *prewarm = plan->launch->state;
    (void)program;
    (void)channel;
    error_classify(err, prewarm->decision.kind, error_text(err, -ENOTSUP, "%s", prewarm->decision.reason));
    return error_wrap(err, WARM_ANNOTATION_MODE "=require");
}

/* The Makefile names this: LAUNCHES. */
const struct launch_child refuse_child = {.check = restore_refuse};

/* In the runtime. */

/* Compare the files as the container will see them, and send the result. */
static int verify(const struct launch *launch, int channel, struct error *err)
{
    const struct prewarm *prewarm = launch->state;
    if (prewarm->queue == NULL)
        return 0;
    struct error reason = {0};
    struct root_view view = prewarm->view;
    cleanup_fd int root = open(prewarm->start->rootfs, O_PATH | O_DIRECTORY | O_CLOEXEC);
    view.root = root;
    /* If a mount can only be seen from inside, the whole queue is left to the child. */
    int ret = root >= 0 && root_view_is_exact(&view)
                  ? manifest_verify_outside(prewarm->entry.manifest, &view, prewarm->queue, &reason)
                  : 0;
    if (ret < 0) {
        sync_send_reason(channel, SYNC_DIFFER, &reason);
        return 0;
    }
    ret = sync_send(channel, SYNC_FIT);
    return ret == 0 || ret == -EPIPE ? 0 : error_set(err, ret, "send to the container's first process");
}

/* Give up if a signal asks the runtime to end while the child waits for the snapshot of the session. The
 * first process of a pid namespace would ignore it. */
static int serve(const struct launch *launch, int channel, struct error *err)
{
    const struct prewarm *prewarm = launch->state;
    struct signalfd_siginfo info;
    sigset_t set;
    if (!prewarm->received)
        return 0;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++)
        sigaddset(&set, ending[i]);
    cleanup_fd int signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    struct pollfd p[] = {{.fd = signals, .events = POLLIN}, {.fd = channel, .events = POLLIN}};
    if (signals < 0 || RETRY(poll(p, 2, -1)) < 0)
        return error_set(err, -errno, "wait for the snapshot of the session");
    if (read(signals, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return 0;
    return error_text(err, -EINTR, "ended by signal %" PRIu32 " before the snapshot came", info.ssi_signo);
}

static int compare(const struct launch *launch, int root, struct error *err)
{
    const struct prewarm *prewarm = launch->state;
    const struct process_plan *plan = prewarm->start->process;
    const struct root_view view = {.root = root};
    if (prewarm->session)
        return 0;
    int ret = manifest_verify(prewarm->entry.manifest, &view, NULL, err);
    if (ret == 0)
        ret = manifest_check_kernel(prewarm->entry.manifest, root, err);
    return ret < 0 ? ret
                   : manifest_check_program(prewarm->entry.manifest, &view, &prewarm->decision.command_line,
                                            plan->argv, plan->cwd, err);
}

static void refused(const struct launch *launch, const struct error *reason)
{
    const struct prewarm *prewarm = launch->state;
    struct store store;
    struct error ignored = {0};
    log_debug("cold start: %s", reason->text);
    if (prewarm->session || (reason->code != -ESTALE && reason->code != -ENOTSUP) ||
        store_open(prewarm->store, false, &store, &ignored) < 0)
        return;
    store_mark_stale(&store, prewarm->entry.name, reason->text);
    store_close(&store);
}

static void restore_release(const struct launch *launch)
{
    restore_launch_release(launch->state);
}

static const struct launch_parent restore_parent = {
    .verify = verify, .compare = compare, .serve = serve, .refused = refused, .release = restore_release};

void restore_launch_release(struct prewarm *prewarm)
{
    struct store store = {.path = prewarm->store, .dir = -1};
    struct error ignored = {0};
    if (prewarm->entry.answer == STORE_BUILD)
        store_open(prewarm->store, false, &store, &ignored);
    store_release(&store, &prewarm->entry);
    store_close(&store);
    if (prewarm->queue != NULL)
        munmap(prewarm->queue, sizeof(*prewarm->queue));
    prewarm->queue = NULL;
    fd_close(&prewarm->agent);
    fd_close(&prewarm->base);
}

/* Return the agent of the restored process, in memory that no process can change. */
static int seal_agent(struct error *err)
{
    cleanup_fd int fd = memfd_create(AGENT_FILE, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
    if (fd < 0 && errno == EINVAL)
        fd = memfd_create(AGENT_FILE, MFD_CLOEXEC | MFD_ALLOW_SEALING); /* MFD_EXEC exists since Linux 6.3 */
    int ret = fd < 0 ? -errno : io_write_full(fd, agent_start, agent_size());
    if (ret == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
        ret = -errno;
    return ret < 0 ? error_set(err, ret, "copy the agent to a file in memory") : fd_steal(&fd);
}

/* Decide which process compares the files, and when the child may map the snapshot. Hooks that run in the
 * container, or that may mount in it, can change files that were compared. Hooks of the container would also
 * be forked from a process that has the snapshot mapped. */
static void divide(struct prewarm *prewarm)
{
    const struct spec_hooks *hooks = &prewarm->start->spec->hooks;
    if (prewarm->session || prewarm->start->exec ||
        hooks->create_container.count + hooks->create_runtime.count + hooks->prestart.count > 0)
        return;
    prewarm->overlapped = hooks->start_container.count == 0;
    if (prewarm->other_owners) /* the runtime sees none of the container's owners */
        return;
    prewarm->compared_later = prewarm->start->waits;
    if (prewarm->compared_later)
        return;
    void *shared =
        mmap(NULL, sizeof(*prewarm->queue), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    prewarm->queue = shared != MAP_FAILED ? shared : NULL;
    prewarm->overlapped = prewarm->overlapped && prewarm->queue != NULL;
}

/* Return whether the kernel may write a core dump of the program: core(5), "RLIMIT_CORE" in getrlimit(2). */
static bool allows_core_dumps(const struct rlimits_plan *limits)
{
    for (size_t i = 0; i < limits->count; i++)
        if (limits->items[i].resource == RLIMIT_CORE)
            return limits->items[i].limit.rlim_max > 0;
    return true;
}

int restore_launch(struct arena *a, struct prewarm *prewarm, struct error *err)
{
    prewarm->agent = seal_agent(err);
    if (prewarm->agent < 0)
        return prewarm->agent;
    if (!prewarm->session) {
        const struct owners *owners = credentials_owners(a, prewarm->start);
        prewarm->other_owners = owners == NULL || !manifest_has_owners(prewarm->entry.manifest, owners);
    }
    divide(prewarm);
    prewarm->core_dumps = allows_core_dumps(&prewarm->start->process->rlimits);
    root_view_plan(a, prewarm->start->spec, -1, prewarm->start->bundle, &prewarm->view);
    prewarm->launch = (struct launch){.child = &restore_child,
                                      .parent = &restore_parent,
                                      .state = prewarm,
                                      .in_place = true,
                                      .fallback = prewarm->decision.mode != WARM_REQUIRE,
                                      .kept = {prewarm->entry.file, prewarm->agent, prewarm->base}};
    prewarm->start->process->launch = &prewarm->launch;
    return 0;
}

void restore_launch_refuse(struct prewarm *prewarm)
{
    prewarm->launch.child = &refuse_child;
    prewarm->start->process->launch = &prewarm->launch;
}
