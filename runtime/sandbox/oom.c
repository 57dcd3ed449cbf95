/* Set the score adjustment for the out-of-memory killer. */
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

#define OWN "self/oom_score_adj"

/* Read a value from a file of /proc, without its newline. */
static bool read_value(const char *path, char value[static OOM_VALUE_SIZE])
{
    cleanup_fd int fd = proc_open(path, O_RDONLY, NULL);
    ssize_t n = fd < 0 ? fd : io_read_full(fd, value, OOM_VALUE_SIZE - 1);
    value[n > 0 ? n : 0] = '\0';
    value[strcspn(value, "\n")] = '\0';
    return n > 0;
}

/* Only root may write to a process that is no longer dumpable. The process wrote the value itself before
 * that. */
static bool has_value(const char *path, const char *value)
{
    char present[OOM_VALUE_SIZE];
    return read_value(path, present) && strcmp(present, value) == 0;
}

int oom_apply(const struct spec_process *process, pid_t pid, struct error *err)
{
    if (process == NULL || !process->oom_score_adj.set)
        return 0;
    char path[48] = OWN, value[OOM_VALUE_SIZE];
    if (pid != 0)
        snprintf(path, sizeof(path), "%d/oom_score_adj", (int)pid);
    snprintf(value, sizeof(value), "%lld", (long long)process->oom_score_adj.value);
    int ret = proc_write(path, value, err);
    if (ret == -EACCES && has_value(path, value))
        return 0;
    if (ret == -EACCES || ret == -EPERM)
        return error_text(err, ret,
                          "process.oomScoreAdj: lowering to %s needs CAP_SYS_RESOURCE in the initial user "
                          "namespace",
                          value);
    return ret < 0 ? error_wrap(err, "process.oomScoreAdj") : 0;
}

void oom_lend(const struct spec_process *process, char before[static OOM_VALUE_SIZE])
{
    before[0] = '\0';
    if (process != NULL && process->oom_score_adj.set && read_value(OWN, before) &&
        oom_apply(process, 0, NULL) < 0)
        before[0] = '\0';
}

void oom_restore(const char *before)
{
    if (before[0] != '\0')
        (void)proc_write(OWN, before, NULL);
}
