/* SELinux labels: libselinux for what the policy says, in the parent; the kernel's files for what the process
 * gets, in the child. libselinux is opened here and nowhere else, by dlopen(3), and only where the kernel has
 * SELinux and a label is asked for. See is_selinux_enabled(3), security_check_context(3). */
#include "sandbox/selinux.h"

#include <dlfcn.h>
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
#define LIBRARY   "libselinux.so.1"

static struct {
    int (*is_enabled)(void);
    int (*check_context)(const char *context);
} lib;

bool selinux_enabled(void)
{
    struct statfs fs;
    return statfs(SELINUXFS, &fs) == 0 && (unsigned long)fs.f_type == SELINUX_MAGIC;
}

/* Never closed: it stays for the life of the process. */
static int load_library(struct error *err)
{
    void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL)
        return error_text(err, -ENOTSUP, "process.selinuxLabel: '%s' cannot be loaded: %s", LIBRARY,
                          dlerror());
    const struct {
        const char *name;
        void *slot;
    } symbols[] = {
        {"is_selinux_enabled", &lib.is_enabled},
        {"security_check_context_raw", &lib.check_context},
    };
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *address = dlsym(handle, symbols[i].name);
        if (address == NULL)
            return error_text(err, -ENOTSUP, "process.selinuxLabel: '%s' has no '%s'", LIBRARY,
                              symbols[i].name);
        memcpy(symbols[i].slot, &address, sizeof(address));
    }
    return 0;
}

int selinux_plan(const char *label, struct selinux_plan *out, struct error *err)
{
    *out = (struct selinux_plan){0};
    if (label == NULL || label[0] == '\0')
        return 0;
    bool enabled = selinux_enabled();
    int ret = enabled ? load_library(err) : 0;
    if (ret < 0)
        return ret;
    if (!enabled || lib.is_enabled() != 1)
        return error_text(err, -ENOTSUP,
                          "process.selinuxLabel: '%s' is asked for, but SELinux is not enabled here", label);
    if (lib.check_context(label) < 0)
        return error_text(err, -EINVAL,
                          "process.selinuxLabel: '%s' is not known to the policy: it cannot be written to "
                          "`/proc/self/attr/exec`",
                          label);
    out->label = label;
    return 0;
}

/* As setexeccon_raw(3) and setkeycreatecon_raw(3), but beneath the /proc that was checked to be procfs: those
 * would take whatever the container has mounted there. Engines look for the path of the attribute between
 * backticks. */
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
