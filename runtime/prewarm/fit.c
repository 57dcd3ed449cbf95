/* The checks of the child, made from outside the container. */
#include "prewarm/fit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "container/child/passwd.h"
#include "container/process.h"
#include "prewarm/start.h"
#include "warm/decide.h"
#include "warm/manifest/manifest.h"
#include "warm/root_view.h"

char *const *fit_environment(struct arena *a, const struct process_plan *process,
                             const struct root_view *view)
{
    if (!process->home_missing)
        return process->envp;
    char home[PATH_MAX + sizeof("HOME=")];
    cleanup_fd int fd = root_view_open(view, "/etc/passwd", O_RDONLY | O_NONBLOCK | O_NOCTTY);
    (void)home_variable_of(fd, process->credentials.uid, home, sizeof(home)); /* the child reports it */
    char **envp = ARENA_ARRAY(a, process->home_slot + 2, char *);
    memcpy(envp, process->envp, process->home_slot * sizeof(*envp));
    envp[process->home_slot] = arena_strdup(a, home);
    return envp;
}

static int fit_compare(struct arena *a, const struct start *start, const struct warm_plan *decision,
                       const struct manifest *manifest, struct error *err)
{
    struct root_view view;
    const struct process_plan *process = start->process;
    cleanup_fd int root = open(start->rootfs, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return error_set(err, -errno, "open the root '%s'", start->rootfs);
    root_view_plan(a, start->spec, root, start->bundle, &view);
    int ret = manifest_check_environment(manifest, fit_environment(a, process, &view), err);
    if (ret < 0)
        return ret;
    ret = manifest_verify(manifest, &view, NULL, err);
    if (ret < 0)
        return ret;
    return manifest_check_program(manifest, &view, &decision->command_line, process->argv, process->cwd, err);
}

const char *fit_reason(struct arena *a, const struct start *start, const struct warm_plan *decision,
                       const struct manifest *manifest)
{
    struct error reason = {0};
    return fit_compare(a, start, decision, manifest, &reason) < 0 ? arena_strdup(a, reason.text) : NULL;
}
