/* Id-mapped bind mounts: parse the option, make the user namespace, apply it. */
#include "sandbox/mount/idmapped.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/proc.h"
#include "base/str.h"
#include "base/sys.h"

/* The kernel's own limits: 340 extents, written in one page. */
#define MAP_RANGES_MAX 340
#define MAP_TEXT_MAX   4096

/* Move a range that starts at container id range->host_id to the id that the container's mapping gives it. */
static int make_absolute(const struct spec_idmaps *container, struct spec_idmap *range)
{
    for (size_t i = 0; i < container->count; i++) {
        const struct spec_idmap *c = &container->items[i];
        if (range->host_id >= c->container_id && range->host_id - c->container_id < c->size) {
            uint64_t host = (uint64_t)c->host_id + (range->host_id - c->container_id);
            if (host >= UINT32_MAX)
                return -ERANGE;
            range->host_id = (uint32_t)host;
            return 0;
        }
    }
    /* Without a user namespace container ids are host ids. */
    return container->count == 0 ? 0 : -ERANGE;
}

static int idmap_mount_parse_range(struct arena *a, const char *text, size_t len,
                                   const struct spec_idmaps *container, struct spec_idmap *out)
{
    bool relative = len > 0 && text[0] == '@';
    char *rest = arena_strndup(a, text + relative, len - relative);
    uint32_t number[3];
    for (int i = 0; i < 3; i++) {
        const char *field = strsep(&rest, "-");
        if (field == NULL || str_to_id(field, &number[i]) < 0)
            return -EINVAL;
    }
    if (rest != NULL || number[2] == 0)
        return -EINVAL;
    *out = (struct spec_idmap){.container_id = number[0], .host_id = number[1], .size = number[2]};
    return relative ? make_absolute(container, out) : 0;
}

static int parse_ranges(struct arena *a, const char *text, size_t len, const struct spec_idmaps *container,
                        struct spec_idmaps *out, struct error *err)
{
    size_t count = 1;
    for (size_t i = 0; i < len; i++)
        count += text[i] == '#';
    out->items = ARENA_ARRAY(a, count, struct spec_idmap);
    out->count = 0;
    for (const char *p = text, *end = text + len; p <= end && out->count < count;) {
        const char *next = memchr(p, '#', (size_t)(end - p));
        size_t n = (size_t)((next != NULL ? next : end) - p);
        int ret = idmap_mount_parse_range(a, p, n, container, &out->items[out->count++]);
        if (ret == -ERANGE)
            return error_text(err, -EINVAL, "idmap: '%.*s' is outside of the container's id mapping", (int)n,
                              p);
        if (ret < 0)
            return error_text(err, -EINVAL, "idmap: '%.*s' is not of the form below-above-length", (int)n, p);
        p += n + 1;
    }
    return 0;
}

int idmap_mount_parse(struct arena *a, const char *text, const struct idmap_mount *container,
                      struct idmap_mount *out, struct error *err)
{
    *out = (struct idmap_mount){0};
    for (const char *p = text; *p != '\0';) {
        size_t len = strcspn(p, ";");
        const char *value;
        int ret;
        if ((value = str_after(p, "uids=")) != NULL && value <= p + len)
            ret = parse_ranges(a, value, (size_t)(p + len - value), &container->uids, &out->uids, err);
        else if ((value = str_after(p, "gids=")) != NULL && value <= p + len)
            ret = parse_ranges(a, value, (size_t)(p + len - value), &container->gids, &out->gids, err);
        else
            ret = error_text(err, -EINVAL, "idmap: '%.*s' is neither uids= nor gids=", (int)len, p);
        if (ret < 0)
            return ret;
        p += len;
        p += *p == ';';
    }
    if (out->uids.count == 0 || out->gids.count == 0)
        return error_text(err, -EINVAL, "idmap: '%s' must give both uids= and gids=", text);
    return 0;
}

static bool maps_equal(const struct spec_idmaps *a, const struct spec_idmaps *b)
{
    return a->count == b->count &&
           (a->count == 0 || memcmp(a->items, b->items, a->count * sizeof(a->items[0])) == 0);
}

bool idmap_mount_equal(const struct idmap_mount *a, const struct idmap_mount *b)
{
    return maps_equal(&a->uids, &b->uids) && maps_equal(&a->gids, &b->gids);
}

static int idmap_mount_write_map(pid_t pid, const char *name, const struct spec_idmaps *map,
                                 struct error *err)
{
    char path[64], text[MAP_TEXT_MAX];
    size_t used = 0;
    if (map->count > MAP_RANGES_MAX)
        return error_text(err, -EINVAL, "idmap: %zu ranges, but the kernel takes at most %d", map->count,
                          MAP_RANGES_MAX);
    for (size_t i = 0; i < map->count; i++) {
        const struct spec_idmap *m = &map->items[i];
        int n =
            snprintf(text + used, sizeof(text) - used, "%u %u %u\n", m->container_id, m->host_id, m->size);
        if (n < 0 || (size_t)n >= sizeof(text) - used)
            return error_text(err, -EINVAL, "idmap: the mapping is longer than the kernel's limit of a page");
        used += (size_t)n;
    }
    snprintf(path, sizeof(path), "%d/%s", (int)pid, name);
    cleanup_fd int fd = proc_open(path, O_WRONLY, err);
    if (fd < 0)
        return fd;
    if (RETRY(write(fd, text, used)) < 0)
        return error_set(err, -errno, "idmap: write %s", name);
    return 0;
}

/* Keep the namespace alive until the parent has a descriptor of it and kills this process. */
static _Noreturn void hold_namespace(pid_t parent)
{
    if (sys_end_with(parent) < 0)
        _exit(1);
    for (;;)
        pause();
}

static int write_and_open(const struct idmap_mount *map, pid_t pid, struct error *err)
{
    int ret = idmap_mount_write_map(pid, "uid_map", &map->uids, err);
    if (ret < 0)
        return ret;
    ret = idmap_mount_write_map(pid, "gid_map", &map->gids, err);
    if (ret < 0)
        return ret;
    int root = proc_root(err);
    if (root < 0)
        return root;
    /* The path contains a magic link, so proc_open cannot open it. It is still below the verified /proc. */
    char path[64];
    snprintf(path, sizeof(path), "%d/ns/user", (int)pid);
    int fd = openat(root, path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? error_set(err, -errno, "idmap: open user namespace") : fd;
}

int idmap_mount_userns(const struct idmap_mount *map, struct error *err)
{
    struct clone_args args = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
    pid_t parent = getpid(), pid = sys_clone3(&args, sizeof(args));
    if (pid < 0)
        return error_set(err, -errno, "idmap: make a user namespace");
    if (pid == 0)
        hold_namespace(parent);
    int ret = write_and_open(map, pid, err);
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return ret;
}

/* Enter the namespace, tell the parent the errno, and stay until it has read the mapping. */
static _Noreturn void enter_namespace(int userns_fd, pid_t parent, int channel)
{
    int code = setns(userns_fd, CLONE_NEWUSER) < 0 ? errno : 0;
    (void)!write(channel, &code, sizeof(code));
    hold_namespace(parent);
}

/* Read one file of a process with a mapping. */
static int idmap_mount_read_map(struct arena *a, pid_t pid, const char *name, struct spec_idmaps *out,
                                struct error *err)
{
    char path[64], text[MAP_TEXT_MAX];
    snprintf(path, sizeof(path), "%d/%s", (int)pid, name);
    cleanup_fd int fd = proc_open(path, O_RDONLY, err);
    if (fd < 0)
        return fd;
    ssize_t size = RETRY(read(fd, text, sizeof(text) - 1));
    if (size < 0)
        return error_set(err, -errno, "idmap: read %s", name);
    text[size] = '\0';
    *out = (struct spec_idmaps){ARENA_ARRAY(a, MAP_RANGES_MAX, struct spec_idmap), 0};
    char *end = text;
    for (char *p = text; out->count < MAP_RANGES_MAX; p = end) {
        struct spec_idmap *m = &out->items[out->count];
        uint32_t *const numbers[] = {&m->container_id, &m->host_id, &m->size};
        for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++, p = end)
            *numbers[i] = (uint32_t)strtoul(p, &end, 10);
        if (m->size == 0)
            break;
        out->count++;
    }
    return 0;
}

int idmap_mount_read(struct arena *a, int userns_fd, struct idmap_mount *out, struct error *err)
{
    int channel[2], code = EIO;
    if (pipe2(channel, O_CLOEXEC) < 0)
        return error_set(err, -errno, "idmap: make a pipe");
    struct clone_args args = {.exit_signal = SIGCHLD};
    pid_t parent = getpid(), pid = sys_clone3(&args, sizeof(args));
    if (pid == 0)
        enter_namespace(userns_fd, parent, channel[1]);
    int ret = pid < 0 ? error_set(err, -errno, "idmap: clone") : 0;
    fd_close(&channel[1]);
    if (ret == 0 && (RETRY(read(channel[0], &code, sizeof(code))) != sizeof(code) || code != 0))
        ret = error_set(err, -code, "idmap: enter the user namespace, whose mapping is wanted");
    fd_close(&channel[0]);
    if (ret == 0)
        ret = idmap_mount_read_map(a, pid, "uid_map", &out->uids, err);
    if (ret == 0)
        ret = idmap_mount_read_map(a, pid, "gid_map", &out->gids, err);
    if (pid > 0) {
        kill(pid, SIGKILL);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    return ret;
}

int idmap_mount_apply(int mount_fd, int userns_fd, bool recursive, struct error *err)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)userns_fd};
    unsigned flags = AT_EMPTY_PATH | (recursive ? AT_RECURSIVE : 0);
    if (sys_mount_setattr(mount_fd, "", flags, &attr, sizeof(attr)) == 0)
        return 0;
    if (errno == EINVAL)
        return error_text(err, -EINVAL, "idmap: the file system does not support id-mapped mounts");
    if (errno == EPERM)
        return error_text(
            err, -EPERM,
            "idmap: map the mount: not permitted: the kernel demands CAP_SYS_ADMIN in the user "
            "namespace that the file system belongs to, and a source that is not id-mapped yet");
    return error_set(err, -errno, "idmap: map the mount");
}
