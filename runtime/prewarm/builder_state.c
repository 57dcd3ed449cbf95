/* The state of a process other than its memory: /proc/PID/status, limits and cwd (proc(5)),
 * getpriority(2). */
#include "prewarm/builder_state.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/proc.h"
#include "base/str.h"

/* Maximum size in bytes of a file of /proc. status and limits have about two thousand. */
#define STATE_MAX ((size_t)64 * 1024)

/* No label of SELinux or AppArmor is as long as this. */
#define LABEL_MAX 4096

int builder_state_read(struct arena *a, int dir, pid_t pid, const char **out, struct error *err)
{
    static const char *const names[] = {
        "Name:", "Umask:", "Uid:", "Gid:", "Groups:", "CapBnd:", "NoNewPrivs:", "Seccomp", "Cpus_allowed:"};
    char cwd[PATH_MAX], *status = NULL, *limits = NULL;
    ssize_t n = readlinkat(dir, "cwd", cwd, sizeof(cwd) - 1);
    if (n < 0)
        return error_set(err, -errno, "look at the process of the builder");
    cwd[n] = '\0';
    int ret = io_read_file_at(a, dir, "status", STATE_MAX, &status, NULL);
    if (ret == 0)
        ret = io_read_file_at(a, dir, "limits", STATE_MAX, &limits, NULL);
    if (ret < 0)
        return error_set(err, ret, "look at the process of the builder");
    *out = arena_printf(a, "Cwd: %s\nNice: %d\n%s", cwd, getpriority(PRIO_PROCESS, (id_t)pid), limits);
    for (char *save = NULL, *line = strtok_r(status, "\n", &save); line != NULL;
         line = strtok_r(NULL, "\n", &save))
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
            if (str_after(line, names[i]) != NULL)
                *out = arena_printf(a, "%s\n%s", *out, line);
    return 0;
}

/* Read a label of a process. There may be no security module, or another one. */
static const char *builder_state_label_of(int dir, const char *file, char *buffer, size_t size)
{
    return io_read_small_at(dir, file, buffer, size) >= 0 ? buffer : "";
}

int builder_state_label(int dir, struct error *err)
{
    static const char *const files[] = {"attr/current", "attr/apparmor/current"};
    char label[LABEL_MAX], own[LABEL_MAX];
    cleanup_fd int self = proc_open("self", O_PATH | O_DIRECTORY, err);
    if (self < 0)
        return self;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        if (!str_eq(builder_state_label_of(dir, files[i], label, sizeof(label)),
                    builder_state_label_of(self, files[i], own, sizeof(own))))
            return error_text(err, -ENOTSUP,
                              "the security policy gives an executed interpreter the label '%s'", label);
    return 0;
}

int builder_state_compare(struct arena *a, const char *before, int dir, pid_t pid, struct error *err)
{
    const char *now;
    int ret = builder_state_read(a, dir, pid, &now, err);
    if (ret < 0)
        return ret;
    for (size_t at = 0;;) {
        size_t length = strcspn(now + at, "\n");
        if (length != strcspn(before + at, "\n") || strncmp(now + at, before + at, length) != 0)
            return error_text(err, -ENOTSUP, "the imports change the process: %s",
                              str_printable(a, arena_strndup(a, now + at, length)));
        at += length;
        if (now[at] == '\0' || before[at] == '\0')
            return 0;
        at++;
    }
}
