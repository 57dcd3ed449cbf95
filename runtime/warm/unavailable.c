/* Replace snapshots in builds that cannot make or restore them: every start is cold, for one reason. The
 * decision (warm/decide.h) asks for that reason, so of the other functions only those of warm/dump are ever
 * called, by `warm save` and `checkpoint`. */
#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "warm/agent/agent.h"
#include "warm/dump/dump.h"
#include "warm/observe/observe.h"
#include "warm/restore/restore.h"

static const char reason[] = "snapshots do not support the architecture that this runtime is built for";

const unsigned char agent_start[1], agent_end[1], agent_file_end[1];
const char agent_identity[AGENT_IDENTITY_SIZE], agent_bootstrap[1];

const char *restore_unavailable(void)
{
    return reason;
}

int warm_dump(const struct dump_request *request, struct error *err)
{
    (void)request;
    return error_text(err, -ENOTSUP, "%s", reason);
}

int warm_dump_fork(const struct dump_request *request, pid_t *child, struct error *err)
{
    *child = 0;
    return warm_dump(request, err);
}

struct restore *restore_begin(const struct snapshot *snapshot, int file, bool copy, bool core_dumps)
{
    (void)snapshot;
    (void)file;
    (void)copy;
    (void)core_dumps;
    return NULL;
}

int restore_prepare(const struct restore_request *request, struct restore **out, struct error *err)
{
    (void)request;
    *out = NULL;
    return error_text(err, -ENOTSUP, "%s", reason);
}

bool restore_is_mapped(const struct restore *restore)
{
    return restore != NULL;
}

void restore_free(struct restore *restore)
{
    (void)restore;
}

_Noreturn void restore_go(struct restore *restore, int error_fd)
{
    (void)restore;
    (void)error_fd;
    abort();
}

void observe_filter(struct arena *a, enum observe_mode mode, const struct sock_filter **filter, size_t *count)
{
    (void)a;
    (void)mode;
    *filter = NULL;
    *count = 0;
}

int observer_new(struct arena *a, int listener, enum observe_mode mode, struct observer **out,
                 struct error *err)
{
    (void)a;
    (void)mode;
    (void)listener;
    *out = NULL;
    return error_text(err, -ENOTSUP, "%s", reason);
}

int observer_serve(struct observer *observer, struct error *err)
{
    (void)observer;
    return error_text(err, -ENOTSUP, "%s", reason);
}

void observer_stop(struct observer *observer, const char **data, size_t *size)
{
    (void)observer;
    *data = NULL;
    *size = 0;
}
