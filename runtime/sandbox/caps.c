/* Capability sets. The parent translates names by libcap before anything is done. The child sets the sets by
 * plain system calls. */
#include "sandbox/caps.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json_out.h"
#include "base/log.h"
#include "base/str.h"
#include "spec/spec.h"

#define BIT(n) (UINT64_C(1) << (n))

#define NAME_SIZE 64

/* Number of capabilities that the running kernel has. */
static int cap_count(void)
{
    return cap_max_bits();
}

/* Write a name as config.json has it: "CAP_CHOWN". libcap writes "cap_chown". */
static const char *name_of(int cap, char out[static NAME_SIZE])
{
    char *name = cap_to_name(cap);
    size_t len = 0;
    for (; name != NULL && name[len] != '\0' && len < NAME_SIZE - 1; len++)
        out[len] = (char)toupper((unsigned char)name[len]);
    out[len] = '\0';
    cap_free(name);
    return out;
}

const char *const *caps_names(struct arena *a, size_t *count)
{
    char name[NAME_SIZE];
    *count = (size_t)cap_count();
    const char **names = ARENA_ARRAY(a, *count, const char *);
    for (size_t i = 0; i < *count; i++)
        names[i] = arena_strdup(a, name_of((int)i, name));
    return names;
}

int caps_from_name(const char *name)
{
    char full[NAME_SIZE];
    cap_value_t cap;
    const char *prefix = strncasecmp(name, "CAP_", 4) == 0 ? "" : "CAP_";
    /* libcap stops reading at the first character it does not understand, so check all of them first. */
    for (const char *c = name; *c != '\0'; c++)
        if (!isalpha((unsigned char)*c) && *c != '_')
            return -1;
    if ((size_t)snprintf(full, sizeof(full), "%s%s", prefix, name) >= sizeof(full) ||
        cap_from_name(full, &cap) < 0)
        return -1;
    return cap;
}

/* Names that are left out, for one warning about all sets. */
struct omitted {
    char names[512];
    size_t length;
};

static void omit(struct omitted *o, const char *name)
{
    char quoted[NAME_SIZE + 4];
    snprintf(quoted, sizeof(quoted), "'%.*s'", NAME_SIZE, name);
    if (strstr(o->names, quoted) != NULL)
        return;
    int n = snprintf(o->names + o->length, sizeof(o->names) - o->length, "%s%s", o->length > 0 ? ", " : "",
                     quoted);
    o->length = n > 0 && o->length + (size_t)n < sizeof(o->names) ? o->length + (size_t)n : o->length;
    o->names[o->length] = '\0';
}

static void decode(const struct str_list *list, uint64_t *out, struct omitted *unknown)
{
    for (size_t i = 0; i < list->count; i++) {
        int cap = caps_from_name(list->items[i]);
        if (cap < 0)
            omit(unknown, list->items[i]);
        else
            *out |= BIT(cap);
    }
}

/* Compute the capabilities that the process can have. A user namespace gives its first process all that the
 * kernel knows. Anywhere else, the process can have only what the runtime holds. */
static int grantable(bool user_namespace, uint64_t *out, struct error *err)
{
    if (user_namespace) {
        *out = BIT(cap_count()) - 1;
        return 0;
    }
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &header, data) < 0)
        return error_set(err, -errno, "capget");
    *out = data[0].permitted | (uint64_t)data[1].permitted << 32;
    return 0;
}

static void restrict_to(uint64_t *set, uint64_t allowed, struct omitted *refused)
{
    char name[NAME_SIZE];
    for (int i = 0; i < cap_count(); i++)
        if (*set & ~allowed & BIT(i))
            omit(refused, name_of(i, name));
    *set &= allowed;
}

/* The specification demands the warnings. A capability that is left out of the ambient set alone is granted,
 * and Buildah asks for each of its capabilities in that set without the inheritable one. */
static void report(const struct omitted *unknown, const struct omitted *refused,
                   const struct omitted *not_raised)
{
    if (unknown->length > 0)
        log_notice("process.capabilities: %s: unknown, and left out", unknown->names);
    if (refused->length > 0)
        log_notice("process.capabilities: %s: cannot be granted, and left out", refused->names);
    if (not_raised->length > 0)
        log_debug("process.capabilities.ambient: %s: not in both the permitted and the inheritable set, and "
                  "left out of the ambient set",
                  not_raised->names);
}

int caps_plan(const struct spec_process *process, bool user_namespace, struct caps_plan *out,
              struct error *err)
{
    *out = (struct caps_plan){0};
    const struct spec_capabilities *asked = process != NULL ? process->capabilities : NULL;
    if (asked == NULL)
        return 0;
    const struct {
        const struct str_list *list;
        uint64_t *set;
    } sets[] = {
        {&asked->bounding, &out->bounding},   {&asked->effective, &out->effective},
        {&asked->permitted, &out->permitted}, {&asked->inheritable, &out->inheritable},
        {&asked->ambient, &out->ambient},
    };
    struct omitted unknown = {.length = 0}, refused = {.length = 0}, not_raised = {.length = 0};
    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++)
        decode(sets[i].list, sets[i].set, &unknown);
    uint64_t possible = 0;
    int ret = grantable(user_namespace, &possible, err);
    if (ret < 0)
        return ret;
    restrict_to(&out->bounding, possible, &refused);
    restrict_to(&out->permitted, possible, &refused);
    restrict_to(&out->effective, out->permitted, &refused);
    restrict_to(&out->inheritable, possible & out->bounding, &refused);
    restrict_to(&out->ambient, possible, &refused);
    restrict_to(&out->ambient, out->permitted & out->inheritable, &not_raised);
    report(&unknown, &refused, &not_raised);
    return 0;
}

int caps_apply_before_uid(const struct caps_plan *plan, struct error *err)
{
    /* Continue until the kernel knows no more, not until the table of this program ends: a capability newer
     * than this program must not remain. If everything is kept, the first call is the one beyond the last. */
    for (int cap = 0; cap < 64; cap++) {
        if (plan->bounding & BIT(cap))
            continue;
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0)
            continue;
        int reason = errno;
        /* Without CAP_SETPCAP the kernel refuses to drop even a capability that is absent or does not exist.
         */
        if (reason == EPERM && prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 0)
            continue;
        if (errno == EINVAL)
            return 0;
        char name[NAME_SIZE];
        return error_set(err, -reason, "drop capability '%s' from the bounding set", name_of((int)cap, name));
    }
    return 0;
}

static void encode(const struct caps_plan *plan, struct __user_cap_data_struct out[static 2])
{
    for (int i = 0; i < 2; i++)
        out[i] = (struct __user_cap_data_struct){(uint32_t)(plan->effective >> 32 * i),
                                                 (uint32_t)(plan->permitted >> 32 * i),
                                                 (uint32_t)(plan->inheritable >> 32 * i)};
}

int caps_after_exec(const struct caps_plan *plan, bool root, bool no_new_privs,
                    struct __user_cap_data_struct out[static 2])
{
    uint64_t permitted = plan->ambient;
    if (root)
        permitted |= plan->inheritable | plan->bounding;
    if (no_new_privs)
        permitted &= plan->permitted;
    if ((permitted & ~plan->permitted) != 0)
        return -EPERM;
    struct caps_plan after = {
        .effective = permitted, .permitted = permitted, .inheritable = plan->inheritable};
    encode(&after, out);
    return 0;
}

int caps_apply_after_uid(const struct caps_plan *plan, struct error *err)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    encode(plan, data);
    if (syscall(SYS_capset, &header, data) < 0)
        return error_set(err, -errno, "set the capabilities of the process");
    /* The kernel keeps the ambient set within the inheritable set. If that one is empty, capset has emptied
     * the ambient set. */
    if (plan->inheritable != 0 && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
        return error_set(err, -errno, "clear the ambient capabilities");
    char name[NAME_SIZE];
    for (int cap = 0; cap < 64 && plan->ambient >> cap != 0; cap++)
        if (plan->ambient & BIT(cap) && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) < 0)
            return error_set(err, -errno, "raise ambient capability '%s'", name_of(cap, name));
    return 0;
}

static void describe_set(const char *name, uint64_t set, struct json_out *out)
{
    json_out_key(out, name);
    json_out_array_open(out);
    char text[NAME_SIZE];
    for (int i = 0; i < cap_count(); i++)
        if (set & BIT(i))
            json_out_string(out, name_of(i, text));
    json_out_array_close(out);
}

void caps_describe(const struct caps_plan *plan, struct json_out *out)
{
    json_out_map_open(out);
    describe_set("bounding", plan->bounding, out);
    describe_set("effective", plan->effective, out);
    describe_set("inheritable", plan->inheritable, out);
    describe_set("permitted", plan->permitted, out);
    describe_set("ambient", plan->ambient, out);
    json_out_map_close(out);
}
