/* Find, check and decode the runtime's own configuration files. */
#include "spec/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/path.h"
#include "spec/json.h"
#include "spec/schema.h"

#define SIZE_LIMIT ((size_t)1024 * 1024)

const char *settings_path(struct arena *a, const struct settings *kind, bool root_of_host)
{
    if (root_of_host)
        return path_join(a, SETTINGS_DIRECTORY, kind->name);
    const char *base = secure_getenv("XDG_CONFIG_HOME");
    const char *home = secure_getenv("HOME");
    if (base != NULL && base[0] == '/')
        return arena_printf(a, "%s/pysbx-runtime/%s", base, kind->name);
    return home != NULL && home[0] == '/' ? arena_printf(a, "%s/.config/pysbx-runtime/%s", home, kind->name)
                                          : NULL;
}

int settings_parse(struct arena *a, const struct settings *kind, const char *text, size_t size, void *out,
                   struct error *err)
{
    struct json_value *root;
    int ret = json_parse(a, text, size, NULL, NULL, &root, err);
    if (ret < 0)
        return ret;
    ret = schema_refuse_unknown(a, root, kind->schema, err);
    if (ret < 0)
        return ret;
    ret = schema_decode(a, root, kind->schema, out, err);
    if (ret < 0)
        return ret;
    return kind->check != NULL ? kind->check(a, out, err) : 0;
}

/* For a file with an access control list, the group bits of its mode are the list's mask. So this also
 * detects a list that lets others write. */
static int check_owner(int fd, const char *path, bool root_of_host, struct error *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return error_set(err, -errno, "stat '%s'", path);
    if (st.st_uid != 0 && (root_of_host || st.st_uid != geteuid()))
        return error_text(
            err, -EPERM,
            "'%s' belongs to user %u: it decides what annotations may do, and has to belong to %s", path,
            (unsigned)st.st_uid, root_of_host ? "root" : "the caller or root");
    if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return error_text(
            err, -EPERM,
            "'%s' may be written by others than its owner (mode 0%o): it decides what annotations may do: "
            "remove that right with chmod go-w",
            path, st.st_mode & 07777);
    return 0;
}

/* Open the file below its directory, after the directory has been checked, so that the file is one of that
 * directory. Return -ENOENT without filling err if there is no file, which costs one open(2). */
static int open_guarded(struct arena *a, const char *path, bool root_of_host, struct error *err)
{
    const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW;
    cleanup_fd int fd = open(path, flags);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return -ENOENT;
    if (fd < 0 && errno == ELOOP)
        return error_text(err, -ELOOP,
                          "'%s' is a symbolic link, or its path has too many: a regular file is expected",
                          path);
    if (fd < 0)
        return error_set(err, -errno, "open '%s'", path);
    const char *name = strrchr(path, '/');
    const char *above = name != NULL ? arena_strndup(a, path, (size_t)(name - path) + 1) : ".";
    cleanup_fd int dir = open(above, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return error_set(err, -errno, "open the directory '%s'", above);
    int ret = check_owner(dir, above, root_of_host, err);
    if (ret < 0)
        return ret;
    fd_close(&fd);
    fd = openat(dir, name != NULL ? name + 1 : path, flags);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_set(err, errno == ENOENT ? -ESTALE : -errno, "open '%s'", path);
    if (!S_ISREG(st.st_mode))
        return error_text(err, -ENODEV, "'%s' is not a regular file", path);
    ret = check_owner(fd, path, root_of_host, err);
    return ret < 0 ? ret : fd_steal(&fd);
}

static int read_text(struct arena *a, const struct settings *kind, const char *path, bool root_of_host,
                     char **text, size_t *size, struct error *err)
{
    int ret;
    if (kind->guarded) {
        cleanup_fd int fd = open_guarded(a, path, root_of_host, err);
        if (fd < 0)
            return fd;
        ret = io_read_fd(a, fd, SIZE_LIMIT, text, size);
    } else {
        ret = io_read_file_at(a, AT_FDCWD, path, SIZE_LIMIT, text, size);
        if (ret == -ENOENT || ret == -ENOTDIR)
            return -ENOENT;
    }
    if (ret == -EINVAL)
        return error_text(err, -ENODEV, "'%s' is not a regular file", path);
    return ret < 0 ? error_set(err, ret, "read '%s'", path) : 0;
}

int settings_read(struct arena *a, const struct settings *kind, const char *path, bool root_of_host,
                  void *out, struct error *err)
{
    const char *candidates[2] = {path, NULL};
    if (path == NULL) {
        candidates[0] = settings_path(a, kind, root_of_host);
        if (!root_of_host && !kind->guarded)
            candidates[1] = settings_path(a, kind, true);
    }
    for (size_t i = 0; i < sizeof(candidates) / sizeof(candidates[0]); i++) {
        char *text;
        size_t size;
        if (candidates[i] == NULL)
            continue;
        int ret = read_text(a, kind, candidates[i], root_of_host, &text, &size, err);
        if (ret == -ENOENT)
            continue;
        if (ret < 0)
            return ret;
        ret = settings_parse(a, kind, text, size, out, err);
        return ret < 0 ? error_wrap(err, "%s", candidates[i]) : 0;
    }
    return 0;
}
