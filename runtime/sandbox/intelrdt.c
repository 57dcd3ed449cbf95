/* Groups in the resctrl file system. */
#include "sandbox/intelrdt.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/json_out.h"
#include "base/str.h"
#include "base/text.h"
#include "spec/spec.h"

#ifndef RDTGROUP_SUPER_MAGIC
#define RDTGROUP_SUPER_MAGIC 0x7655821
#endif

#define GROUP_ROOT   "."
#define SCHEMATA_MAX 8192
#define PATH_SIZE    1024

/* A group cannot have the name of one of resctrl's own files. */
static bool intelrdt_name_is_valid(const char *name)
{
    static const char *const reserved[] = {"", ".", "..", "info", "mon_groups", "mon_data"};
    for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++)
        if (str_eq(name, reserved[i]))
            return false;
    return strchr(name, '/') == NULL && strlen(name) < NAME_MAX;
}

/* Join all lines to write. A separate memory bandwidth line replaces those in l3CacheSchema, and `schemata`
 * comes last (runtime-spec, intelRdt). */
static const char *join_schemata(struct arena *a, const struct spec_intel_rdt *rdt)
{
    struct text lines = {.arena = a};
    const char *l3 = rdt->l3_cache_schema != NULL ? rdt->l3_cache_schema : "";
    while (*l3 != '\0') {
        size_t n = strcspn(l3, "\n");
        if (n > 0 && (rdt->mem_bw_schema == NULL || strncmp(l3, "MB:", 3) != 0))
            text_add(&lines, "%.*s\n", (int)n, l3);
        l3 += n + (l3[n] == '\n');
    }
    if (rdt->mem_bw_schema != NULL)
        text_add(&lines, "%s\n", rdt->mem_bw_schema);
    for (size_t i = 0; i < rdt->schemata.count; i++)
        text_add(&lines, "%s\n", rdt->schemata.items[i]);
    return lines.length > 0 ? text_string(&lines) : NULL;
}

int intelrdt_plan(struct arena *a, const struct spec_intel_rdt *rdt, const char *id,
                  struct intelrdt_plan *out, struct error *err)
{
    *out = (struct intelrdt_plan){0};
    if (rdt == NULL)
        return 0;
    out->named = rdt->clos_id != NULL;
    out->group = out->named ? rdt->clos_id : id;
    /* "/" is the class in which every process starts. */
    if (str_eq(out->group, "/"))
        out->group = GROUP_ROOT;
    else if (!intelrdt_name_is_valid(out->group))
        return error_set(err, -EINVAL, "linux.intelRdt.closID: '%s' cannot be the name of a group",
                         out->group);
    out->monitor = rdt->enable_monitoring ? id : NULL;
    out->schemata = join_schemata(a, rdt);
    if (out->schemata != NULL && strlen(out->schemata) >= SCHEMATA_MAX)
        return error_set(err, -EINVAL, "linux.intelRdt.schemata: longer than %d bytes", SCHEMATA_MAX);
    return 0;
}

int intelrdt_open(struct error *err)
{
    cleanup_fd int fd = open(INTELRDT_MOUNT, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct statfs fs;
    if (fd < 0 || fstatfs(fd, &fs) < 0 || fs.f_type != RDTGROUP_SUPER_MAGIC)
        return error_text(err, -ENOTSUP,
                          "linux.intelRdt: no resctrl file system is mounted at '" INTELRDT_MOUNT "'");
    return fd_steal(&fd);
}

static int write_file(int root, const char *path, const char *text, struct error *err)
{
    int ret = io_write_value_at(root, path, text);
    if (ret == 0)
        return 0;
    /* The kernel keeps the reason of the last refusal as text. */
    char reason[256];
    if (io_read_small_at(root, "info/last_cmd_status", reason, sizeof(reason)) <= 0 || str_eq(reason, "ok"))
        return error_set(err, ret, "linux.intelRdt: write '%s' to '%s'", text, path);
    return error_text(err, ret, "linux.intelRdt: write '%s' to '%s': %s", text, path, reason);
}

/* Read the next "domain=value" of a schema, without the spaces and leading zeros that the kernel adds. Return
 * NULL at the end of the line. */
static const char *next_domain(const char *p, char *out, size_t size)
{
    while (*p == ' ' || *p == ';')
        p++;
    if (*p == '\0' || *p == '\n')
        return NULL;
    size_t n = 0;
    bool start = false;
    for (; *p != '\0' && *p != ';' && *p != '\n'; p++) {
        bool zero = start && *p == '0' && p[1] != '\0' && p[1] != ';' && p[1] != '\n';
        if (*p == ' ' || zero || n + 1 >= size)
            continue;
        start = *p == '=';
        out[n++] = *p;
    }
    out[n] = '\0';
    return p;
}

/* True if the line present has everything that the wanted line asks for. Both name the same resource. */
static bool line_matches(const char *wanted, const char *present)
{
    size_t name = strcspn(wanted, ":\n");
    present += strspn(present, " ");
    if (wanted[name] != ':' || strncmp(wanted, present, name + 1) != 0)
        return false;
    char domain[64], found[64];
    for (const char *w = wanted + name + 1; (w = next_domain(w, domain, sizeof(domain))) != NULL;) {
        bool same = false;
        for (const char *p = present + name + 1; !same && (p = next_domain(p, found, sizeof(found))) != NULL;)
            same = strcmp(domain, found) == 0;
        if (!same)
            return false;
    }
    return true;
}

static const char *next_line(const char *p)
{
    p += strcspn(p, "\n");
    return *p == '\n' ? p + 1 : p;
}

/* A closID that exists may have other users, so its schemata must already be the wanted ones. */
static int compare_schemata(const struct intelrdt_plan *plan, int root, const char *path, struct error *err)
{
    char present[SCHEMATA_MAX];
    ssize_t n = io_read_small_at(root, path, present, sizeof(present));
    if (n < 0)
        return error_set(err, (int)n, "linux.intelRdt: read '%s'", path);
    for (const char *wanted = plan->schemata; *wanted != '\0'; wanted = next_line(wanted)) {
        bool found = false;
        for (const char *p = present; !found && *p != '\0'; p = next_line(p))
            found = line_matches(wanted, p);
        if (!found)
            return error_text(err, -EEXIST,
                              "linux.intelRdt.closID: '%s' exists with another schema than '%.*s'",
                              plan->group, (int)strcspn(wanted, "\n"), wanted);
    }
    return 0;
}

static int make_group(const struct intelrdt_plan *plan, int root, struct intelrdt_made *made,
                      struct error *err)
{
    char path[PATH_SIZE];
    snprintf(path, sizeof(path), "%s/schemata", plan->group);
    /* A group without schemata is used as it is, so it must exist. */
    if (plan->named && plan->schemata == NULL) {
        if (faccessat(root, path, F_OK, 0) < 0)
            return error_text(
                err, -ENOENT,
                "linux.intelRdt.closID: group '%s' does not exist, and there is no schema to make it",
                plan->group);
        return 0;
    }
    if (mkdirat(root, plan->group, 0755) == 0)
        made->group = true;
    else if (errno == ENOSPC)
        return error_text(err, -ENOSPC, "linux.intelRdt: no class of service is left for '%s'", plan->group);
    else if (errno != EEXIST)
        return error_set(err, -errno, "linux.intelRdt: make group '%s'", plan->group);
    else if (plan->named)
        return compare_schemata(plan, root, path, err);
    return plan->schemata != NULL ? write_file(root, path, plan->schemata, err) : 0;
}

static int make_monitor(const struct intelrdt_plan *plan, int root, struct intelrdt_made *made,
                        struct error *err)
{
    if (plan->monitor == NULL)
        return 0;
    char path[PATH_SIZE];
    snprintf(path, sizeof(path), "%s/mon_groups/%s", plan->group, plan->monitor);
    if (mkdirat(root, path, 0755) == 0)
        made->monitor = true;
    else if (errno != EEXIST)
        return error_set(err, -errno, "linux.intelRdt.enableMonitoring: make '%s'", path);
    return 0;
}

int intelrdt_update(const char *group, const struct intelrdt_plan *plan, int root, struct error *err)
{
    char path[PATH_SIZE];
    snprintf(path, sizeof(path), "%s/schemata", group);
    return plan->schemata != NULL ? write_file(root, path, plan->schemata, err) : 0;
}

int intelrdt_join(const struct intelrdt_plan *plan, int root, pid_t pid, struct error *err)
{
    if (plan->group == NULL)
        return 0;
    char path[PATH_SIZE], text[16];
    snprintf(text, sizeof(text), "%d", (int)pid);
    snprintf(path, sizeof(path), "%s/tasks", plan->group);
    int ret = write_file(root, path, text, err);
    if (ret < 0 || plan->monitor == NULL)
        return ret;
    snprintf(path, sizeof(path), "%s/mon_groups/%s/tasks", plan->group, plan->monitor);
    return write_file(root, path, text, err);
}

static int make_and_join(const struct intelrdt_plan *plan, int root, pid_t pid, struct intelrdt_made *made,
                         struct error *err)
{
    int ret = make_group(plan, root, made, err);
    if (ret < 0)
        return ret;
    ret = make_monitor(plan, root, made, err);
    return ret < 0 ? ret : intelrdt_join(plan, root, pid, err);
}

int intelrdt_create(const struct intelrdt_plan *plan, int root, pid_t pid, struct intelrdt_made *made,
                    struct error *err)
{
    *made = (struct intelrdt_made){0};
    if (plan->group == NULL)
        return 0;
    int ret = make_and_join(plan, root, pid, made, err);
    if (ret < 0)
        (void)intelrdt_destroy(plan->group, plan->monitor, made, root, NULL);
    return ret;
}

int intelrdt_destroy(const char *group, const char *monitor, const struct intelrdt_made *made, int root,
                     struct error *err)
{
    char path[PATH_SIZE];
    if (made->monitor) {
        snprintf(path, sizeof(path), "%s/mon_groups/%s", group, monitor);
        if (unlinkat(root, path, AT_REMOVEDIR) < 0 && errno != ENOENT)
            return error_set(err, -errno, "linux.intelRdt: remove '%s'", path);
    }
    if (made->group && unlinkat(root, group, AT_REMOVEDIR) < 0 && errno != ENOENT)
        return error_set(err, -errno, "linux.intelRdt: remove group '%s'", group);
    return 0;
}

void intelrdt_describe(const struct intelrdt_plan *plan, struct json_out *out)
{
    json_out_map_open(out);
    json_out_pair_string(out, "group", plan->group);
    json_out_pair_string(out, "monitor", plan->monitor);
    json_out_pair_string(out, "schemata", plan->schemata);
    json_out_pair_bool(out, "keepGroup", plan->named);
    json_out_map_close(out);
}
