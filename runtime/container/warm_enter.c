/* Warm start of a container's program, the child's part: the check in the container's root, and what
 * execve(2) would have done to the process besides exchanging its memory. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "container/process.h"
#include "container/sync.h"
#include "container/warm_start.h"
#include "sandbox/caps.h"
#include "warm/manifest/manifest.h"
#include "warm/restore/restore.h"
#include "warm/root_view.h"

/* How long a look at the files holds. */
#define VALID_MS 500

/* What the restorer takes from the plan. The capabilities are what execve(2) would leave. */
static int prepare(const struct process_plan *plan, const char *program, int root, bool beside,
                   struct error *err)
{
    struct warm_start *warm = plan->warm;
    const struct seccomp_plan *seccomp = &plan->seccomp;
    const struct sock_fprog filter = {(unsigned short)seccomp->count,
                                      (struct sock_filter *)(uintptr_t)seccomp->filter};
    struct __user_cap_data_struct caps[2];
    if (caps_after_exec(&plan->caps, plan->identity.uid == 0, plan->identity.no_new_privs, caps) < 0)
        return error_text(err, -EPERM, "execve would give the process more capabilities than it has");
    const struct restore_request request = {
        .image = &warm->slot.mapped,
        .file = warm->slot.image,
        .root = root,
        .agent = warm->agent,
        .prefetch = warm->decision.config.prefetch,
        .beside = beside,
        .error_message = SYNC_ERROR,
        .comm = strrchr(program, '/') != NULL ? strrchr(program, '/') + 1 : program,
        .argv = plan->argv,
        .envp = plan->envp,
        .program = warm->decision.command_line.program,
        .program_index = warm->decision.command_line.program_index,
        .finish = {.filter = seccomp->filter != NULL ? &filter : NULL,
                   .filter_flags = seccomp->flags,
                   .caps = caps,
                   .filter_by_privilege = !plan->identity.no_new_privs,
                   .labels = {{plan->selinux.current.fd, plan->selinux.current.text},
                              {plan->apparmor.current.fd, plan->apparmor.current.text}},
                   .close_from = 3 + plan->preserve_fds},
    };
    return restore_prepare(&request, &warm->restore, err);
}

void warm_start_begin(struct warm_start *warm, bool copy)
{
    if (warm != NULL && warm->beside)
        warm->restore =
            restore_begin(&warm->slot.mapped, warm->slot.image, copy && warm->decision.config.prefetch);
}

static void give_up(struct warm_start *warm)
{
    restore_free(warm->restore);
    warm->restore = NULL;
}

/* Map the snapshot while the runtime looks at the files. What cannot be mapped yet is prepared again later,
 * when descriptors that must not stay open till then are needed. */
static int map_meanwhile(const struct process_plan *plan, const char *program, int root, struct error *err)
{
    struct warm_start *warm = plan->warm;
    int ret = warm->beside ? prepare(plan, program, root, true, err) : 0;
    if (ret == 0 && warm->restore != NULL && !restore_is_mapped(warm->restore))
        give_up(warm);
    return ret;
}

/* What the runtime has not come to; all, if it could not see them or found a difference. Its verdict is
 * received in any case. */
static int verify_files(const struct warm_start *warm, const struct look *look, int channel,
                        struct error *err)
{
    const struct manifest *manifest = warm->slot.manifest;
    if (warm->session)
        return 0; /* what it has mapped is compared when it is opened */
    if (warm->turns == NULL)
        return manifest_verify(manifest, look, NULL, err);
    struct error theirs = {0};
    int ret = manifest_verify(manifest, look, warm->turns, err);
    int message = sync_receive(channel, &theirs);
    if (message != SYNC_GO && message != SYNC_COLD)
        return error_text(err, -ECONNRESET, "the runtime has not verified the snapshot");
    return ret < 0 || message == SYNC_GO ? ret : manifest_verify(manifest, look, NULL, err);
}

static int check(const struct process_plan *plan, const char *program, int channel, struct error *err)
{
    const struct warm_start *warm = plan->warm;
    cleanup_fd int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct look look = {.root = root};
    struct error unmappable = {0};
    int mapped = map_meanwhile(plan, program, root, &unmappable);
    int ret = verify_files(warm, &look, channel, err);
    if (ret < 0)
        return ret;
    if (!str_eq(program, warm->decision.program))
        return error_text(err, -ESTALE, "the program is '%s' now, not '%s'", program, warm->decision.program);
    if (mapped < 0) {
        *err = unmappable;
        return mapped;
    }
    if (warm->session)
        return 0;
    ret = manifest_check_environment(warm->slot.manifest, plan->envp, err);
    if (ret == 0)
        ret = manifest_check_values(warm->slot.manifest, err);
    if (ret == 0)
        ret = manifest_check_places(warm->slot.manifest, err);
    if (ret == 0)
        ret = manifest_check_streams(warm->slot.manifest, err);
    if (ret == 0)
        ret = manifest_check_program(warm->slot.manifest, &look, &warm->decision.command_line, plan->argv,
                                     plan->cwd, err);
    return ret;
}

int warm_start_check(struct process_plan *plan, const char *program, int channel, struct error *err)
{
    struct error reason = {0};
    if (check(plan, program, channel, &reason) == 0) {
        clock_gettime(CLOCK_MONOTONIC, &plan->warm->checked);
        return 0;
    }
    give_up(plan->warm);
    sync_send_reason(channel, SYNC_COLD, &reason);
    if (plan->warm->decision.mode != WARM_REQUIRE) {
        plan->warm = NULL;
        return 0;
    }
    *err = reason;
    if (plan->warm->session)
        return err->code;
    if (reason.code != -ESTALE || plan->warm->decision.config.retry_after == 0)
        return error_wrap(err, WARM_ANNOTATION_MODE "=require");
    return error_text(err, reason.code,
                      "%s=require: the snapshot does not fit: %s (it is made anew once it is %" PRIu32
                      " s old: retryAfter in warm.json)",
                      WARM_ANNOTATION_MODE, reason.text, plan->warm->decision.config.retry_after);
}

/* Files may change between create and start, by hooks or anybody: what was mapped as well. */
static int check_again(const struct process_plan *plan, int root, struct error *err)
{
    struct warm_start *warm = plan->warm;
    struct look look = {.root = root};
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t age =
        (now.tv_sec - warm->checked.tv_sec) * 1000 + (now.tv_nsec - warm->checked.tv_nsec) / 1000000;
    if (warm->session || age < VALID_MS)
        return 0;
    give_up(warm);
    int ret = manifest_verify(warm->slot.manifest, &look, NULL, err);
    return ret < 0 ? ret
                   : manifest_check_program(warm->slot.manifest, &look, &warm->decision.command_line,
                                            plan->argv, plan->cwd, err);
}

int warm_start_enter(struct process_plan *plan, const char *program, int channel, struct error *err)
{
    struct warm_start *warm = plan->warm;
    int ret = identity_apply_no_new_privs(&plan->identity, err);
    if (ret < 0)
        return ret;
    cleanup_fd int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return error_set(err, -errno, "open the container's root");
    ret = check_again(plan, root, err);
    if (ret == 0 && warm->restore == NULL)
        ret = prepare(plan, program, root, false, err);
    /* Every file is open by now, and the restorer opens no other. */
    if (ret == 0)
        ret = landlock_apply(&plan->landlock, err);
    if (ret < 0) {
        give_up(warm);
        return ret;
    }
    /* As execve does. */
    prctl(PR_SET_KEEPCAPS, 0);
    restore_go(warm->restore, channel);
}
