/* Choose the filter and load it. */
#include "sandbox/seccomp/seccomp.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json_out.h"
#include "base/str.h"
#include "sandbox/seccomp/cache.h"
#include "sandbox/seccomp/compile.h"
#include "sandbox/seccomp/notify.h"
#include "spec/annotations.h"
#include "spec/spec.h"

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

static int base64_digit(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *p = c != '\0' ? strchr(digits, c) : NULL;
    return p != NULL ? (int)(p - digits) : -1;
}

/* Decode canonical base64 (RFC 4648, section 4) of a whole number of instructions, in this machine's byte
 * order. */
static int decode_program(struct arena *a, const char *text, struct seccomp_plan *out, struct error *err)
{
    size_t length = strlen(text), padding = 0;
    while (padding < 2 && padding < length && text[length - padding - 1] == '=')
        padding++;
    size_t size = length / 4 * 3 - padding;
    if (length == 0 || length % 4 != 0 || size % sizeof(struct sock_filter) != 0 ||
        size / sizeof(struct sock_filter) > BPF_MAXINSNS)
        return error_set(err, -EINVAL,
                         "annotation '%s': not a BPF program of at most %d instructions in base64",
                         ANNOTATION_SECCOMP_PROGRAM, BPF_MAXINSNS);
    unsigned char *bytes = arena_alloc(a, size + 2);
    for (size_t i = 0, n = 0; i < length; i += 4, n += 3) {
        uint32_t group = 0;
        for (size_t j = 0; j < 4; j++) {
            int digit = i + j >= length - padding ? 0 : base64_digit(text[i + j]);
            if (digit < 0)
                return error_set(err, -EINVAL, "annotation '%s': not base64", ANNOTATION_SECCOMP_PROGRAM);
            group = group << 6 | (uint32_t)digit;
        }
        for (size_t j = 0; j < 3 && n + j < size; j++)
            bytes[n + j] = (unsigned char)(group >> (16 - 8 * j));
    }
    out->filter = (const struct sock_filter *)(const void *)bytes;
    out->count = size / sizeof(struct sock_filter);
    out->origin = "annotation";
    return 0;
}

static bool program_notifies(const struct sock_filter *filter, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (filter[i].code == (BPF_RET | BPF_K) &&
            (filter[i].k & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_USER_NOTIF)
            return true;
    return false;
}

/* Set the listener by the program, not by the profile: the program has no rules for system calls that this
 * machine lacks. */
static int settle_listener(const struct spec *spec, struct seccomp_plan *plan, struct error *err)
{
    plan->notify = program_notifies(plan->filter, plan->count);
    if (!plan->notify) {
        plan->listener_path = plan->listener_metadata = NULL;
        plan->flags &= ~(
            unsigned)SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV; /* the kernel accepts it only with a listener */
        return 0;
    }
    /* The kernel can return only one of two things: a thread that did not synchronise, or the listener. The
     * process has a single thread. */
    plan->flags &= ~(unsigned)SECCOMP_FILTER_FLAG_TSYNC;
    const char *receiver = spec_annotation(spec, ANNOTATION_SECCOMP_RECEIVER);
    if (plan->listener_path == NULL)
        plan->listener_path = receiver;
    if (plan->listener_path == NULL)
        return error_set(err, -EINVAL, "linux.seccomp.listenerPath: needed for the action 'SCMP_ACT_NOTIFY'");
    if (plan->listener_path[0] != '/')
        return error_set(err, -EINVAL, "linux.seccomp.listenerPath: '%s' is not an absolute path",
                         plan->listener_path);
    return 0;
}

static int compile(struct arena *a, const struct spec *spec, const struct seccomp_context *context,
                   const struct seccomp_cache_key *key, struct seccomp_plan *out, struct error *err)
{
    struct spec_seccomp *profile;
    struct seccomp_program program;
    int ret = spec_parse_seccomp(a, key->profile, &profile, err);
    if (ret != 0)
        return ret;
    ret = seccomp_compile(a, profile, key->fail_unknown, &program, err);
    if (ret != 0)
        return ret;
    *out = (struct seccomp_plan){
        .filter = program.filter,
        .count = program.count,
        .flags = program.flags,
        .listener_path = profile->listener_path,
        .listener_metadata = profile->listener_metadata,
        .origin = "compiled",
    };
    ret = settle_listener(spec, out, err);
    if (ret < 0)
        return ret;
    if (context->state_dir >= 0 && program.library[0] != '\0')
        seccomp_cache_store(a, context->state_dir, key, out, program.library);
    return 0;
}

int seccomp_plan(struct arena *a, const struct spec *spec, const struct seccomp_context *context,
                 struct seccomp_plan *out, struct error *err)
{
    *out = (struct seccomp_plan){.origin = "none"};
    const char *raw = spec_annotation(spec, ANNOTATION_SECCOMP_PROGRAM);
    if (raw != NULL) {
        int ret = decode_program(a, raw, out, err);
        return ret < 0 ? ret : settle_listener(spec, out, err);
    }
    if (spec->linux_->seccomp_text.data == NULL)
        return 0;
    const char *fail_unknown = spec_annotation(spec, ANNOTATION_SECCOMP_FAIL_UNKNOWN);
    const struct seccomp_cache_key key = {
        .version = context->version,
        .fail_unknown = fail_unknown != NULL && !str_eq(fail_unknown, "0"),
        .profile = spec->linux_->seccomp_text,
    };
    if (context->state_dir >= 0 && seccomp_cache_lookup(a, context->state_dir, &key, out)) {
        out->origin = "cache";
        return 0;
    }
    return compile(a, spec, context, &key, out, err);
}

int seccomp_install(const struct seccomp_plan *plan, struct seccomp_handover *handover, struct error *err)
{
    if (plan->filter == NULL)
        return 0;
    const struct sock_fprog program = {(unsigned short)plan->count,
                                       (struct sock_filter *)(uintptr_t)plan->filter};
    unsigned flags = plan->flags;
    if (plan->notify)
        flags |= SECCOMP_FILTER_FLAG_NEW_LISTENER;
    long ret = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
    if (ret < 0) {
        switch (errno) {
        case EACCES:
            return error_text(err, -EACCES,
                              "load the seccomp filter: it needs noNewPrivileges or CAP_SYS_ADMIN");
        case EINVAL:
            return error_text(
                err, -EINVAL,
                "load the seccomp filter: the kernel rejects its %zu instructions or its flags 0x%x",
                plan->count, flags);
        case EBUSY:
            return error_text(err, -EBUSY,
                              "load the seccomp filter: the process is under a filter with a "
                              "listener already");
        default:
            return error_set(err, -errno, "load the seccomp filter");
        }
    }
    if (plan->notify)
        seccomp_handover_give(handover, (int)ret);
    return 0;
}

void seccomp_describe(const struct seccomp_plan *plan, struct json_out *out)
{
    json_out_map_open(out);
    json_out_pair_string(out, "origin", plan->origin);
    if (plan->filter != NULL) {
        json_out_pair_u64(out, "instructions", plan->count);
        json_out_key(out, "flags");
        json_out_array_open(out);
        for (const struct name_value *flag = seccomp_flags; flag->name != NULL; flag++)
            if (plan->flags & flag->value)
                json_out_string(out, flag->name);
        json_out_array_close(out);
        json_out_pair_bool(out, "notify", plan->notify);
        json_out_pair_string(out, "listenerPath", plan->listener_path);
        json_out_pair_string(out, "listenerMetadata", plan->listener_metadata);
    }
    json_out_map_close(out);
}
