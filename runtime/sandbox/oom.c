/* Score adjustment for the out-of-memory killer. */
#include "sandbox/oom.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/proc.h"
#include "spec/spec.h"

/* A process that may not be traced any more is for root to write to; it has done this itself before. */
static bool has_value(const char *path, const char *value)
{
    char present[24];
    cleanup_fd int fd = proc_open(path, O_RDONLY, NULL);
    ssize_t n = fd < 0 ? fd : io_read_full(fd, present, sizeof(present) - 1);
    if (n <= 0)
        return false;
    present[n] = '\0';
    present[strcspn(present, "\n")] = '\0';
    return strcmp(present, value) == 0;
}

int oom_apply(const struct spec_process *process, pid_t pid, struct error *err)
{
    if (process == NULL || !process->oom_score_adj.set)
        return 0;
    char path[48] = "self/oom_score_adj", value[24];
    if (pid != 0)
        snprintf(path, sizeof(path), "%d/oom_score_adj", (int)pid);
    snprintf(value, sizeof(value), "%lld", (long long)process->oom_score_adj.value);
    int ret = proc_write(path, value, err);
    if (ret == -EACCES && has_value(path, value))
        return 0;
    if (ret == -EACCES || ret == -EPERM)
        return error_text(err, ret,
                          "process.oomScoreAdj: going down to %s needs CAP_SYS_RESOURCE outside of any user "
                          "namespace",
                          value);
    return ret < 0 ? error_wrap(err, "process.oomScoreAdj") : 0;
}
