/* Set the AppArmor profile through the kernel's files. */
#include "sandbox/lsm/apparmor.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/io.h"
#include "base/json_out.h"
#include "base/proc.h"
#include "base/str.h"

/* Profile names contain namespaces and paths, but no kernel takes a name as long as this. */
#define COMMAND_MAX 4096

bool apparmor_enabled(void)
{
    char value[8];
    ssize_t n = io_read_small_at(AT_FDCWD, "/sys/module/apparmor/parameters/enabled", value, sizeof(value));
    return n > 0 && str_eq(value, "Y");
}

int apparmor_plan(struct arena *a, const char *profile, struct apparmor_plan *out, struct error *err)
{
    *out = (struct apparmor_plan){.exec = ATTRIBUTE_NONE, .current = ATTRIBUTE_NONE};
    if (profile == NULL || profile[0] == '\0')
        return 0;
    if (!apparmor_enabled()) {
        if (str_eq(profile, "unconfined"))
            return 0;
        return error_text(err, -ENOTSUP,
                          "process.apparmorProfile: '%s' is asked for, but AppArmor is not enabled here",
                          profile);
    }
    if (strlen(profile) + sizeof("changeprofile ") > COMMAND_MAX)
        return error_set(err, -EINVAL, "process.apparmorProfile: the name is too long");
    out->profile = profile;
    out->on_exec = arena_printf(a, "exec %s", profile);
    out->at_once = arena_printf(a, "changeprofile %s", profile);
    out->test = arena_printf(a, "permprofile %s", profile);
    return 0;
}

/* This directory exists since Linux 5.8. attr/exec and attr/current belong to the first security module. */
#define EXEC             "self/attr/apparmor/exec"
#define EXEC_FALLBACK    "self/attr/exec"
#define CURRENT          "self/attr/apparmor/current"
#define CURRENT_FALLBACK "self/attr/current"

#define NOT_LOADED "the profile is not loaded"

const char *apparmor_obstacle(const struct apparmor_plan *plan)
{
    char value[COMMAND_MAX];
    int root = proc_root(NULL);
    if (plan->profile == NULL)
        return NULL;
    ssize_t n = root < 0 ? root : io_read_small_at(root, CURRENT, value, sizeof(value));
    if (n == -ENOENT)
        n = io_read_small_at(root, CURRENT_FALLBACK, value, sizeof(value));
    if (n < 0 || !str_eq(value, "unconfined"))
        return "the runtime itself has an AppArmor profile, which decides the profile of executed programs";
    /* With this setting, the kernel stacks the profile on "unconfined" for a process without
     * CAP_MAC_OVERRIDE. The process has dropped that capability when it takes the profile. */
    n = io_read_small_at(AT_FDCWD, "/proc/sys/kernel/apparmor_restrict_unprivileged_unconfined", value,
                         sizeof(value));
    if (n > 0 && !str_eq(value, "0"))
        return "kernel.apparmor_restrict_unprivileged_unconfined forbids a plain change of AppArmor's "
               "profile";
    return NULL;
}

int apparmor_apply(const struct apparmor_plan *plan, struct error *err)
{
    if (plan->profile == NULL)
        return 0;
    cleanup_attribute struct attribute attribute = {.fd = -1};
    int ret = attribute_open(EXEC, EXEC_FALLBACK, plan->on_exec, &attribute, err);
    return ret < 0 ? ret : attribute_write(&attribute, plan->on_exec, NOT_LOADED, err);
}

int apparmor_open(struct apparmor_plan *plan, struct error *err)
{
    if (plan->profile == NULL)
        return 0;
    int ret = attribute_open(EXEC, EXEC_FALLBACK, plan->on_exec, &plan->exec, err);
    if (ret < 0)
        return ret;
    ret = attribute_open(CURRENT, CURRENT_FALLBACK, plan->at_once, &plan->current, err);
    return ret < 0 ? ret : attribute_write(&plan->current, plan->test, NOT_LOADED, err);
}

int apparmor_apply_opened(struct apparmor_plan *plan, struct error *err)
{
    int ret = plan->exec.fd >= 0 ? attribute_write(&plan->exec, plan->on_exec, NOT_LOADED, err) : 0;
    attribute_close(&plan->exec);
    attribute_close(&plan->current);
    return ret;
}

void apparmor_describe(const struct apparmor_plan *plan, struct json_out *out)
{
    if (plan->profile != NULL)
        json_out_string(out, plan->profile);
    else
        json_out_null(out);
}
