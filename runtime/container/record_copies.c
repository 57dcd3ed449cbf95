/* The copies that create saved for later: configuration and filter. */
#include "container/record_copies.h"

#include <errno.h>
#include <linux/filter.h>

#include "base/error.h"
#include "base/io.h"
#include "container/record.h"
#include "sandbox/seccomp/seccomp.h"

#define CONFIG_MAX ((size_t)16 * 1024 * 1024)
#define FILTER_MAX (BPF_MAXINSNS * sizeof(struct sock_filter))

int saved_spec(struct arena *a, int dir, const struct record *record, struct spec **out, struct error *err)
{
    char *text;
    size_t size;
    int ret = io_read_file_at(a, dir, RECORD_CONFIG, CONFIG_MAX, &text, &size);
    if (ret < 0)
        return error_set(err, ret, "read the container's saved '%s'", RECORD_CONFIG);
    ret = spec_parse(a, text, size, out, err);
    if (ret == 0)
        (*out)->annotations = record->annotations;
    return ret;
}

int saved_seccomp(struct arena *a, int dir, const struct record *record, struct seccomp_plan *out,
                  struct error *err)
{
    *out = (struct seccomp_plan){.origin = "none"};
    if (!record->has_seccomp)
        return 0;
    char *data;
    size_t size;
    int ret = io_read_file_at(a, dir, RECORD_SECCOMP, FILTER_MAX, &data, &size);
    if (ret < 0)
        return error_set(err, ret, "read the container's saved filter");
    if (size == 0 || size % sizeof(struct sock_filter) != 0)
        return error_set(err, -EINVAL, "the container's saved filter is damaged");
    *out = (struct seccomp_plan){
        .filter = (const struct sock_filter *)(const void *)data,
        .count = size / sizeof(struct sock_filter),
        .flags = record->seccomp_flags,
        .notify = record->seccomp_listener != NULL,
        .listener_path = record->seccomp_listener,
        .listener_metadata = record->seccomp_metadata,
        .origin = "container",
    };
    return 0;
}
