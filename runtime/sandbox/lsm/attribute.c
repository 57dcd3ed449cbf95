/* Write the process' own attributes in the kernel's files. */
#include "sandbox/lsm/attribute.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/proc.h"

int attribute_open(const char *path, const char *fallback, const char *text, struct attribute *out,
                   struct error *err)
{
    *out = (struct attribute){.fd = proc_open(path, O_WRONLY, err), .path = path, .text = text};
    if (out->fd == -ENOENT && fallback != NULL)
        *out = (struct attribute){.fd = proc_open(fallback, O_WRONLY, err), .path = fallback, .text = text};
    if (out->fd >= 0)
        return 0;
    int ret = out->fd;
    out->fd = -1;
    return ret;
}

int attribute_reopen(const struct attribute *attribute, struct error *err)
{
    if (attribute->fd < 0)
        return 0;
    cleanup_fd int fd = proc_open(attribute->path, O_WRONLY, err);
    if (fd < 0)
        return fd;
    return dup3(fd, attribute->fd, O_CLOEXEC) < 0
               ? error_set(err, -errno, "copy the descriptor of '/proc/%s'", attribute->path)
               : 0;
}

int attribute_write(const struct attribute *attribute, const char *text, const char *missing,
                    struct error *err)
{
    if (RETRY(write(attribute->fd, text, strlen(text))) >= 0)
        return 0;
    return error_text(err, -errno, "write '%s' to `/proc/%s`: %s", text, attribute->path,
                      errno == ENOENT && missing != NULL ? missing : error_reason(errno));
}

void attribute_close(struct attribute *attribute)
{
    fd_close(&attribute->fd);
}
