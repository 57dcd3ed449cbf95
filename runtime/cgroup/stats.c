/* Statistics of a cgroup in the format of runc's `events --stats`, which containerd and others read, and the
 * watch for OOM-killed processes. Files: admin-guide/cgroup-v2.rst. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/json_out.h"
#include "base/str.h"
#include "cgroup/cgroup.h"
#include "cgroup/tree.h"

#define STAT_MAX 16384

/* Read a file with one number; "max" is the greatest. Return false if the file is missing. */
static bool stats_read_number(int dirfd, const char *file, uint64_t *value)
{
    char text[32];
    if (io_read_small_at(dirfd, file, text, sizeof(text)) < 0)
        return false;
    if (strcmp(text, "max") == 0)
        *value = UINT64_MAX;
    else if (str_to_u64(text, UINT64_MAX, value) < 0)
        return false;
    return true;
}

static uint64_t number_or_0(int dirfd, const char *file)
{
    uint64_t value;
    return stats_read_number(dirfd, file, &value) ? value : 0;
}

/* Return the number of `key` in a flat-keyed text, or 0 if the key is missing. */
static uint64_t keyed(const char *text, const char *key)
{
    for (const char *line = text; *line != '\0';) {
        const char *rest = str_after(line, key);
        if (rest != NULL && *rest == ' ')
            return strtoull(rest + 1, NULL, 10);
        line = strchrnul(line, '\n');
        line += *line == '\n';
    }
    return 0;
}

/* Pressure: "some avg10=0.00 avg60=0.00 avg300=0.00 total=0" and the same for "full". */
static void write_pressure(int dirfd, const char *file, struct json_out *out)
{
    char text[512], *save = NULL;
    if (io_read_small_at(dirfd, file, text, sizeof(text)) < 0)
        return;
    json_out_key(out, "psi");
    json_out_map_open(out);
    for (char *line = strtok_r(text, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
        char name[8];
        double avg10, avg60, avg300;
        uint64_t total;
        if (sscanf(line, "%7s avg10=%lf avg60=%lf avg300=%lf total=%" SCNu64, name, &avg10, &avg60, &avg300,
                   &total) != 5)
            continue;
        json_out_key(out, name);
        json_out_map_open(out);
        json_out_key(out, "avg10");
        json_out_double(out, avg10);
        json_out_key(out, "avg60");
        json_out_double(out, avg60);
        json_out_key(out, "avg300");
        json_out_double(out, avg300);
        json_out_pair_u64(out, "total", total);
        json_out_map_close(out);
    }
    json_out_map_close(out);
}

static void write_cpu(int dirfd, struct json_out *out)
{
    char text[STAT_MAX];
    /* The kernel reports microseconds, the format has nanoseconds. */
    if (io_read_small_at(dirfd, "cpu.stat", text, sizeof(text)) < 0)
        return;
    json_out_key(out, "cpu");
    json_out_map_open(out);
    json_out_key(out, "usage");
    json_out_map_open(out);
    json_out_pair_u64(out, "total", 1000 * keyed(text, "usage_usec"));
    json_out_pair_u64(out, "kernel", 1000 * keyed(text, "system_usec"));
    json_out_pair_u64(out, "user", 1000 * keyed(text, "user_usec"));
    json_out_map_close(out);
    json_out_key(out, "throttling");
    json_out_map_open(out);
    json_out_pair_u64(out, "periods", keyed(text, "nr_periods"));
    json_out_pair_u64(out, "throttledPeriods", keyed(text, "nr_throttled"));
    json_out_pair_u64(out, "throttledTime", 1000 * keyed(text, "throttled_usec"));
    json_out_map_close(out);
    write_pressure(dirfd, "cpu.pressure", out);
    json_out_map_close(out);
}

struct usage {
    const char *name;
    uint64_t limit, usage, max, failures;
};

static void write_usage(const struct usage *u, struct json_out *out)
{
    json_out_key(out, u->name);
    json_out_map_open(out);
    json_out_pair_u64(out, "limit", u->limit);
    json_out_pair_u64(out, "usage", u->usage);
    json_out_pair_u64(out, "max", u->max);
    json_out_pair_u64(out, "failcnt", u->failures);
    json_out_map_close(out);
}

static void write_raw(char *text, struct json_out *out)
{
    char *save = NULL;
    json_out_key(out, "raw");
    json_out_map_open(out);
    for (char *line = strtok_r(text, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
        char *space = strchr(line, ' ');
        if (space == NULL)
            continue;
        *space = '\0';
        json_out_pair_u64(out, line, strtoull(space + 1, NULL, 10));
    }
    json_out_map_close(out);
}

static uint64_t add_limits(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static void write_memory(int dirfd, struct json_out *out)
{
    char text[STAT_MAX];
    struct usage memory = {.name = "usage"}, swap = {.name = "swap"};
    if (!stats_read_number(dirfd, "memory.current", &memory.usage) ||
        io_read_small_at(dirfd, "memory.stat", text, sizeof(text)) < 0)
        return;
    (void)stats_read_number(dirfd, "memory.max", &memory.limit);
    memory.max = number_or_0(dirfd, "memory.peak");
    (void)cgroup_tree_value(dirfd, "memory.events", "max", &memory.failures);
    json_out_key(out, "memory");
    json_out_map_open(out);
    json_out_pair_u64(out, "cache", keyed(text, "file"));
    write_usage(&memory, out);
    if (stats_read_number(dirfd, "memory.swap.current", &swap.usage)) {
        /* Memory and swap together, because the format is that of cgroup v1. */
        swap.usage += memory.usage;
        swap.limit = add_limits(memory.limit, number_or_0(dirfd, "memory.swap.max"));
        (void)cgroup_tree_value(dirfd, "memory.swap.events", "max", &swap.failures);
        write_usage(&swap, out);
    }
    write_usage(&(struct usage){.name = "kernel", .limit = UINT64_MAX, .usage = keyed(text, "kernel")}, out);
    write_usage(&(struct usage){.name = "kernelTCP", .limit = UINT64_MAX, .usage = keyed(text, "sock")}, out);
    write_pressure(dirfd, "memory.pressure", out);
    write_raw(text, out);
    json_out_map_close(out);
}

static void write_pids(int dirfd, struct json_out *out)
{
    uint64_t current, limit;
    if (!stats_read_number(dirfd, "pids.current", &current))
        return;
    json_out_key(out, "pids");
    json_out_map_open(out);
    json_out_pair_u64(out, "current", current);
    /* 0 means "no limit" in this format. */
    if (stats_read_number(dirfd, "pids.max", &limit))
        json_out_pair_u64(out, "limit", limit == UINT64_MAX ? 0 : limit);
    json_out_map_close(out);
}

/* Write entries of io.stat ("8:0 rbytes=1 wbytes=2 …") for some of its keys. */
static void write_io_entries(const char *text, const char *name, const char *const keys[][2], size_t count,
                             struct json_out *out)
{
    json_out_key(out, name);
    json_out_array_open(out);
    for (const char *line = text; *line != '\0';) {
        const char *end = strchrnul(line, '\n');
        unsigned major, minor;
        for (size_t i = 0; i < count && sscanf(line, "%u:%u ", &major, &minor) == 2; i++) {
            const char *p = memmem(line, (size_t)(end - line), keys[i][0], strlen(keys[i][0]));
            if (p == NULL)
                continue;
            json_out_map_open(out);
            json_out_pair_u64(out, "major", major);
            json_out_pair_u64(out, "minor", minor);
            json_out_pair_string(out, "op", keys[i][1]);
            json_out_pair_u64(out, "value", strtoull(p + strlen(keys[i][0]), NULL, 10));
            json_out_map_close(out);
        }
        line = end + (*end == '\n');
    }
    json_out_array_close(out);
}

static void write_io(int dirfd, struct json_out *out)
{
    static const char *const bytes[][2] = {{" rbytes=", "Read"}, {" wbytes=", "Write"}};
    static const char *const requests[][2] = {{" rios=", "Read"}, {" wios=", "Write"}};
    char text[STAT_MAX];
    if (io_read_small_at(dirfd, "io.stat", text, sizeof(text)) < 0)
        return;
    json_out_key(out, "blkio");
    json_out_map_open(out);
    write_io_entries(text, "ioServiceBytesRecursive", bytes, 2, out);
    write_io_entries(text, "ioServicedRecursive", requests, 2, out);
    write_pressure(dirfd, "io.pressure", out);
    json_out_map_close(out);
}

/* Write an entry for each size of huge page that the kernel has: "hugetlb.2MB.current". */
static void write_hugetlb(int dirfd, struct json_out *out)
{
    int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (d == NULL) {
        fd_close(&fd);
        return;
    }
    json_out_key(out, "hugetlb");
    json_out_map_open(out);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        char size[32], file[64];
        if (sscanf(e->d_name, "hugetlb.%31[^.]", size) != 1 || strstr(e->d_name, ".rsvd.") != NULL ||
            strcmp(strrchr(e->d_name, '.'), ".current") != 0)
            continue;
        struct usage u = {.name = size, .usage = number_or_0(dirfd, e->d_name)};
        snprintf(file, sizeof(file), "hugetlb.%s.max", size);
        u.limit = number_or_0(dirfd, file);
        snprintf(file, sizeof(file), "hugetlb.%s.events", size);
        (void)cgroup_tree_value(dirfd, file, "max", &u.failures);
        write_usage(&u, out);
    }
    json_out_map_close(out);
    closedir(d);
}

int cgroup_stats(const struct cgroup_ref *ref, struct json_out *out, struct error *err)
{
    cleanup_fd int dirfd = cgroup_open(ref, NULL, err);
    if (dirfd < 0)
        return dirfd;
    json_out_map_open(out);
    write_cpu(dirfd, out);
    write_memory(dirfd, out);
    write_pids(dirfd, out);
    write_io(dirfd, out);
    write_hugetlb(dirfd, out);
    json_out_map_close(out);
    return 0;
}

int cgroup_oom_watch(const struct cgroup_ref *ref, struct error *err)
{
    char path[PATH_MAX];
    if (ref->manager == CGROUP_MANAGER_DISABLED)
        return error_text(err, -ENOTSUP, "the container has no cgroup of its own");
    if (snprintf(path, sizeof(path), "%s%s/memory.events", ref->mount, ref->path) >= (int)sizeof(path))
        return error_set(err, -ENAMETOOLONG, "watch cgroup '%s'", ref->path);
    cleanup_fd int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (fd < 0)
        return error_set(err, -errno, "make an inotify instance");
    if (inotify_add_watch(fd, path, IN_MODIFY | IN_DELETE_SELF) < 0)
        return error_set(err, -errno, "watch '%s'", path);
    return fd_steal(&fd);
}

int cgroup_oom_kills(const struct cgroup_ref *ref, uint64_t *count)
{
    cleanup_fd int dirfd = cgroup_open(ref, NULL, NULL);
    return dirfd < 0 ? dirfd : cgroup_tree_value(dirfd, "memory.events", "oom_kill", count);
}
