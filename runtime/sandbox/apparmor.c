/* AppArmor profile through the kernel's files. */
#include "sandbox/apparmor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/json_out.h"
#include "base/proc.h"
#include "base/str.h"

/* Profile names have namespaces and paths in them, but no kernel takes one as long as this. */
#define COMMAND_MAX 4096

bool apparmor_enabled(void)
{
    char value[8];
    ssize_t n = io_read_small_at(AT_FDCWD, "/sys/module/apparmor/parameters/enabled", value, sizeof(value));
    return n > 0 && str_eq(value, "Y");
}

int apparmor_plan(const char *profile, struct apparmor_plan *out, struct error *err)
{
    *out = (struct apparmor_plan){0};
    if (profile == NULL || profile[0] == '\0')
        return 0;
    if (!apparmor_enabled()) {
        if (str_eq(profile, "unconfined"))
            return 0;
        return error_text(err, -ENOTSUP,
                          "process.apparmorProfile: '%s' is asked for, but AppArmor is not enabled here",
                          profile);
    }
    if (strlen(profile) + sizeof("exec ") > COMMAND_MAX)
        return error_set(err, -EINVAL, "process.apparmorProfile: the name is too long");
    out->profile = profile;
    return 0;
}

int apparmor_apply(const struct apparmor_plan *plan, struct error *err)
{
    if (plan->profile == NULL)
        return 0;
    /* The directory of its own is there since Linux 5.8; attr/exec belongs to whichever
     * module comes first. */
    const char *attribute = "self/attr/apparmor/exec";
    cleanup_fd int fd = proc_open(attribute, O_WRONLY, err);
    if (fd == -ENOENT) {
        attribute = "self/attr/exec";
        fd = proc_open(attribute, O_WRONLY, err);
    }
    if (fd < 0)
        return fd;
    char command[COMMAND_MAX];
    int n = snprintf(command, sizeof(command), "exec %s", plan->profile);
    if (RETRY(write(fd, command, (size_t)n)) < 0)
        return error_text(err, -errno, "write '%s' to `/proc/%s`: %s", command, attribute,
                          errno == ENOENT ? "the profile is not loaded" : error_reason(errno));
    return 0;
}

void apparmor_describe(const struct apparmor_plan *plan, struct json_out *out)
{
    if (plan->profile != NULL)
        json_out_string(out, plan->profile);
    else
        json_out_null(out);
}
