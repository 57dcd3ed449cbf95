/* Write kernel parameters of the container's namespaces. */
#include "sandbox/sysctl.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/proc.h"
#include "spec/spec.h"

/* True if no component is empty, "." or "..". The kernel's parameters have no such names. */
static bool path_is_plain(const char *path)
{
    for (const char *p = path;; p++) {
        size_t n = strcspn(p, "/");
        if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
            return false;
        p += n;
        if (*p == '\0')
            return true;
    }
}

static char *key_to_path(struct arena *a, const char *key)
{
    char *path = arena_printf(a, "sys/%s", key);
    size_t first = strcspn(key, "./");
    if (key[first] == '.')
        for (char *p = path + strlen("sys/"); *p != '\0'; p++)
            *p = *p == '.' ? '/' : *p == '/' ? '.' : *p;
    return path;
}

int sysctl_plan(struct arena *a, const struct str_map *sysctl, struct sysctl_plan *out, struct error *err)
{
    *out = (struct sysctl_plan){0};
    if (sysctl->count == 0)
        return 0;
    out->items = ARENA_ARRAY(a, sysctl->count, struct sysctl_item);
    for (size_t i = 0; i < sysctl->count; i++) {
        const struct str_pair *pair = &sysctl->items[i];
        const char *path = key_to_path(a, pair->key);
        if (!path_is_plain(path))
            return error_set(err, -EINVAL, "linux.sysctl['%s']: not the name of a kernel parameter",
                             pair->key);
        if (strchr(pair->value, '\n') != NULL)
            return error_set(err, -EINVAL, "linux.sysctl['%s']: the value has more than one line", pair->key);
        out->items[i] = (struct sysctl_item){.key = pair->key, .path = path, .value = pair->value};
    }
    out->count = sysctl->count;
    return 0;
}

static int sysctl_write_item(const struct sysctl_item *item, struct error *err)
{
    cleanup_fd int fd = proc_open(item->path, O_WRONLY, err);
    if (fd < 0)
        return error_wrap(err, "sysctl '%s'", item->key);
    size_t size = strlen(item->value);
    /* An empty value must change the parameter, too, so write a newline instead. */
    ssize_t n = size > 0 ? RETRY(write(fd, item->value, size)) : RETRY(write(fd, "\n", 1));
    if (n < 0)
        return error_text(err, -errno, "sysctl '%s': value '%s': %s", item->key, item->value,
                          error_reason(errno));
    return 0;
}

int sysctl_apply(struct sysctl_plan *plan, struct error *err)
{
    size_t refused = plan->count, before;
    int ret;
    do {
        before = refused;
        refused = 0;
        ret = 0;
        for (size_t i = 0; i < plan->count; i++) {
            struct sysctl_item *item = &plan->items[i];
            struct error why = {0};
            int code = item->written ? 0 : sysctl_write_item(item, &why);
            item->written = code == 0;
            refused += code < 0;
            if (code < 0 && ret == 0) {
                ret = code;
                *err = why;
            }
        }
    } while (refused > 0 && refused < before);
    return ret;
}
