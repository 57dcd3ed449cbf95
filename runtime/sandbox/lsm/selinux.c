/* SELinux labels. The parent asks libselinux for the policy's answers. The child writes the label to the
 * kernel's files. Only this file opens libselinux, by dlopen(3), and only if the kernel has SELinux and a
 * label is asked for. See is_selinux_enabled(3), security_check_context(3). */
#include "sandbox/lsm/selinux.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/magic.h>
#include <stddef.h>
#include <string.h>
#include <sys/vfs.h>

#include "base/error.h"
#include "base/json_out.h"
#include "base/libraries.h"

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

/* The library is never closed: it stays for the life of the process. */
static int selinux_load_library(struct error *err)
{
    int ret = libraries_require(err);
    if (ret < 0)
        return ret;
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
    *out = (struct selinux_plan){.exec = ATTRIBUTE_NONE, .current = ATTRIBUTE_NONE};
    if (label == NULL || label[0] == '\0')
        return 0;
    bool enabled = selinux_enabled();
    int ret = enabled ? selinux_load_library(err) : 0;
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

/* Do the same as setexeccon_raw(3) and setkeycreatecon_raw(3), but below the /proc that was verified to be
 * procfs. Those functions would use any file system that the container has mounted there. */
static int write_attribute(const struct selinux_plan *plan, const char *path, const char *text,
                           struct error *err)
{
    if (plan->label == NULL)
        return 0;
    cleanup_attribute struct attribute attribute = {.fd = -1};
    int ret = attribute_open(path, NULL, text, &attribute, err);
    return ret < 0 ? ret : attribute_write(&attribute, text, NULL, err);
}

int selinux_apply_keycreate(const struct selinux_plan *plan, struct error *err)
{
    return write_attribute(plan, "self/attr/keycreate", plan->label, err);
}

int selinux_clear_keycreate(const struct selinux_plan *plan, struct error *err)
{
    return write_attribute(plan, "self/attr/keycreate", "", err);
}

int selinux_apply_exec(const struct selinux_plan *plan, struct error *err)
{
    return write_attribute(plan, "self/attr/exec", plan->label, err);
}

int selinux_open(struct selinux_plan *plan, struct error *err)
{
    if (plan->label == NULL)
        return 0;
    int ret = attribute_open("self/attr/exec", NULL, plan->label, &plan->exec, err);
    return ret < 0 ? ret : attribute_open("self/attr/current", NULL, plan->label, &plan->current, err);
}

int selinux_apply_opened(struct selinux_plan *plan, struct error *err)
{
    int ret = plan->exec.fd >= 0 ? attribute_write(&plan->exec, plan->label, NULL, err) : 0;
    attribute_close(&plan->exec);
    attribute_close(&plan->current);
    return ret;
}

void selinux_describe(const struct selinux_plan *plan, struct json_out *out)
{
    if (plan->label != NULL)
        json_out_string(out, plan->label);
    else
        json_out_null(out);
}
