/* Stands for snapshots where there is nothing to make or restore them with: every start is cold, for one
 * reason. What decides (warm/decide.h) asks for it, so of the rest only warm_dump is ever called, by `warm
 * save`. */
#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "warm/agent/agent.h"
#include "warm/dump.h"
#include "warm/restore.h"

static const char reason[] = "this runtime is built for a machine whose registers no snapshot can hold yet";

const unsigned char agent_start[1], agent_end[1];
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

struct restore *restore_begin(const struct image *image, int file, bool copy)
{
    (void)image;
    (void)file;
    (void)copy;
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
