/* SELinux labels through the kernel's files. */
#include "sandbox/selinux.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stddef.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/json_out.h"
#include "base/proc.h"

#define SELINUXFS "/sys/fs/selinux"

bool selinux_enabled(void)
{
    struct statfs fs;
    return statfs(SELINUXFS, &fs) == 0 && (unsigned long)fs.f_type == SELINUX_MAGIC;
}

int selinux_plan(const char *label, struct selinux_plan *out, struct error *err)
{
    *out = (struct selinux_plan){0};
    if (label == NULL || label[0] == '\0')
        return 0;
    if (!selinux_enabled())
        return error_text(err, -ENOTSUP,
                          "process.selinuxLabel: '%s' is asked for, but SELinux is not enabled here", label);
    /* The kernel accepts a write of a context that the loaded policy knows. */
    cleanup_fd int fd = open(SELINUXFS "/context", O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return error_set(err, -errno, "open '%s'", SELINUXFS "/context");
    if (RETRY(write(fd, label, strlen(label) + 1)) < 0)
        return error_text(err, -EINVAL,
                          "process.selinuxLabel: '%s' is not known to the policy: it cannot be written to "
                          "`/proc/self/attr/exec`",
                          label);
    out->label = label;
    return 0;
}

/* Engines look for the path of the attribute between backticks. */
static int write_attribute(const char *attribute, const char *label, struct error *err)
{
    cleanup_fd int fd = proc_open(attribute, O_WRONLY, err);
    if (fd < 0)
        return fd;
    if (RETRY(write(fd, label, strlen(label))) < 0)
        return error_text(err, -errno, "write '%s' to `/proc/%s`: %s", label, attribute, error_reason(errno));
    return 0;
}

int selinux_apply_keycreate(const struct selinux_plan *plan, struct error *err)
{
    return plan->label != NULL ? write_attribute("self/attr/keycreate", plan->label, err) : 0;
}

int selinux_apply_exec(const struct selinux_plan *plan, struct error *err)
{
    return plan->label != NULL ? write_attribute("self/attr/exec", plan->label, err) : 0;
}

void selinux_describe(const struct selinux_plan *plan, struct json_out *out)
{
    if (plan->label != NULL)
        json_out_string(out, plan->label);
    else
        json_out_null(out);
}
