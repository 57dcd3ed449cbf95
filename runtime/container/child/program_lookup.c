/* The look-up of a program and of its working directory in the container's root. It serves the message at
 * create. At execve the kernel decides which file is executed. */
#include "container/child/program_lookup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/path.h"

enum lookup { LOOKUP_FOUND, LOOKUP_MISSING, LOOKUP_REFUSED };

/* Look for a program at this path, for the message at create. At execve the kernel decides. */
static enum lookup try_program(const char *path, int *reason)
{
    struct stat st;
    if (stat(path, &st) < 0) {
        *reason = errno;
        return errno == ENOENT || errno == ENOTDIR ? LOOKUP_MISSING : LOOKUP_REFUSED;
    }
    *reason = S_ISDIR(st.st_mode) ? EISDIR : EACCES;
    if (!S_ISREG(st.st_mode))
        return LOOKUP_REFUSED;
    if (faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) < 0) {
        *reason = errno;
        return LOOKUP_REFUSED;
    }
    return LOOKUP_FOUND;
}

/* Search each directory of PATH in turn, as execvp(3) does. A program that may not be executed counts only if
 * no other is found. */
static enum lookup search_program(const char *name, const char *search_path, char program[static PATH_MAX],
                                  int *reason)
{
    enum lookup result = LOOKUP_MISSING;
    *reason = ENOENT;
    for (const char *p = search_path; p != NULL; p = strchr(p, ':'), p += p != NULL) {
        int len = (int)strcspn(p, ":");
        char candidate[PATH_MAX];
        int n = snprintf(candidate, sizeof(candidate), "%.*s%s%s", len > 0 ? len : 1, len > 0 ? p : ".", "/",
                         name);
        if (n < 0 || (size_t)n >= sizeof(candidate))
            continue;
        int why;
        enum lookup found = try_program(candidate, &why);
        if (found == LOOKUP_MISSING || (found == LOOKUP_REFUSED && result == LOOKUP_REFUSED))
            continue;
        memcpy(program, candidate, (size_t)n + 1);
        *reason = why;
        result = found;
        if (found == LOOKUP_FOUND)
            break;
    }
    return result;
}

/* Engines read these texts to choose an exit code: 127 for a program that is missing, 126 for one that cannot
 * be executed. (Podman: libpod/oci_util.go. The command line of Docker: container/run.go.) */
static int program_lookup_find(const char *name, const char *search_path, char program[static PATH_MAX],
                               struct error *err)
{
    int reason = ENOENT;
    enum lookup found;
    if (strchr(name, '/') != NULL) {
        int ret = path_copy(program, name);
        if (ret < 0)
            return error_text(err, ret, "open executable '%.64s…': %s", name, error_engine_reason(ret));
        found = try_program(name, &reason);
    } else {
        found = name[0] == '\0' ? LOOKUP_MISSING : search_program(name, search_path, program, &reason);
    }
    if (found == LOOKUP_FOUND)
        return 0;
    if (found == LOOKUP_MISSING)
        return error_text(err, -ENOENT, "executable file `%s` not found%s: %s", name,
                          strchr(name, '/') != NULL ? "" : " in $PATH", error_engine_reason(ENOENT));
    return error_text(err, -EACCES, "open executable `%s`: %s%s", program,
                      reason == EISDIR ? "is a directory: " : "",
                      error_engine_reason(reason == EISDIR ? EACCES : reason));
}

static int no_workdir(struct error *err, int code)
{
    return error_classify(err, ERROR_NO_WORKDIR, code);
}

/* Enter the working directory, which must lie in the container. A directory entered through a descriptor of
 * the host shows as "(unreachable)" (CVE-2024-21626). */
static int enter_cwd(const char *cwd, struct error *err)
{
    char now[PATH_MAX];
    if (chdir(cwd) < 0)
        return no_workdir(err, error_text(err, -errno, "chdir to `%s`: %s", cwd, error_engine_reason(errno)));
    long n = syscall(SYS_getcwd, now, sizeof(now));
    if (n < 0 && errno == ENOENT)
        return no_workdir(err,
                          error_text(err, -ENOENT, "chdir to `%s`: %s", cwd, error_engine_reason(ENOENT)));
    if (n < 0 || now[0] != '/')
        return no_workdir(
            err, error_text(err, -EPERM, "chdir to `%s`: the directory is outside the container", cwd));
    return 0;
}

int program_find(const char *cwd, const char *name, const char *search_path, char program[static PATH_MAX],
                 struct error *err)
{
    int ret = enter_cwd(cwd, err);
    return ret < 0 ? ret : program_lookup_find(name, search_path, program, err);
}
