/* The state record: its path, its format, and what it tells of a container at this moment. */
#include "container/record.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/proc.h"
#include "base/str.h"
#include "base/sys.h"

/* More than all annotations that fit in config.json. */
#define RECORD_NAME   "state"
#define RECORD_MAX    ((size_t)64 * 1024 * 1024)
#define ID_MAX_LENGTH NAME_MAX /* it names a directory */

/* How long creations and deletions of one container wait for each other, and how often they try, in
 * milliseconds. */
#define LOCK_TIMEOUT_MS  10000
#define LOCK_INTERVAL_MS 5

const char *record_root(struct arena *a, const char *option)
{
    if (option != NULL)
        return option;
    const char *dir = getenv("XDG_RUNTIME_DIR");
    if (dir == NULL || dir[0] == '\0')
        return "/run/pysbx-runtime";
    return arena_printf(a, "%s/pysbx-runtime", dir);
}

/* Make the state root and its parents, like mkdir -p. Engines use a state root for each of their namespaces,
 * and rely on the runtime to make it. Other users may read the parents, but not the root itself. */
static int make_root(const char *root)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof(path), "%s", root) >= (int)sizeof(path))
        return -ENAMETOOLONG;
    for (size_t end = strlen(path); end > 1 && path[end - 1] == '/'; end--)
        path[end - 1] = '\0';
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(path, 0755) < 0 && errno != EEXIST)
            return -errno;
        *slash = '/';
    }
    return mkdir(path, 0700) < 0 && errno != EEXIST ? -errno : 0;
}

int record_open_root(const char *root, bool make, struct error *err)
{
    cleanup_fd int fd = open(root, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT && make) {
        int ret = make_root(root);
        if (ret < 0)
            return error_set(err, ret, "make state directory '%s'", root);
        fd = open(root, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    }
    if (fd < 0)
        return errno == ENOENT && !make ? -ENOENT : error_set(err, -errno, "open state directory '%s'", root);
    struct stat st;
    if (fstat(fd, &st) < 0)
        return error_set(err, -errno, "stat state directory '%s'", root);
    /* A user that can write here can make any process the init of any container. */
    if (st.st_uid != geteuid() || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return error_text(
            err, -EPERM,
            "state directory '%s' belongs to user %u with mode %04o: it must belong to user %u, and "
            "no other user may write to it",
            root, st.st_uid, st.st_mode & 07777, geteuid());
    return fd_steal(&fd);
}

static bool id_char(char c, bool first)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '+' || c == '-' || (c == '.' && !first);
}

int record_check_id(const char *id, struct error *err)
{
    size_t len = strlen(id);
    bool good = len > 0 && len <= ID_MAX_LENGTH;
    for (size_t i = 0; good && i < len; i++)
        good = id_char(id[i], i == 0);
    if (good)
        return 0;
    return error_set(err, -EINVAL,
                     "invalid container id '%.64s': letters, digits and '_', '+', '-', '.' are allowed, not "
                     "beginning with '.', at most %d characters",
                     id, ID_MAX_LENGTH);
}

/* An id names a directory, and it may name a scope of systemd: "pysbx-ID.scope". */
#define COMPANION_ID_MAX (NAME_MAX - 12)
#define COMPANION_SUFFIX ":builder"

/* A long id is truncated, and a hash of the whole id makes it unique. It then has two colons, so it differs
 * from every short id with the suffix. */
const char *record_companion_id(struct arena *a, const char *id)
{
    char hash[HASH_NAME_SIZE];
    size_t size = strlen(id), end = strlen(COMPANION_SUFFIX);
    if (size + end <= COMPANION_ID_MAX)
        return arena_printf(a, "%s" COMPANION_SUFFIX, id);
    hash_name(hash_bytes(id, size), hash);
    return arena_printf(a, "%.*s:%s" COMPANION_SUFFIX, (int)(COMPANION_ID_MAX - end - HASH_NAME_SIZE), id,
                        hash);
}

int record_check_new(int rootfd, const char *id, struct error *err)
{
    if (faccessat(rootfd, id, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return error_text(err, -EEXIST, "container '%s' already exists", id);
    return 0;
}

int record_make_dir(int rootfd, const char *id, struct error *err)
{
    if (mkdirat(rootfd, id, 0700) < 0) {
        if (errno == EEXIST)
            return error_text(err, -EEXIST, "container '%s' already exists", id);
        return error_set(err, -errno, "make state directory of container '%s'", id);
    }
    int fd = record_open_dir(rootfd, id, err);
    if (fd < 0)
        unlinkat(rootfd, id, AT_REMOVEDIR);
    return fd;
}

int record_open_dir(int rootfd, const char *id, struct error *err)
{
    int fd = openat(rootfd, id, O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0)
        return fd;
    if (errno == ENOENT)
        return error_text(err, -ENOENT, "container '%s' does not exist", id);
    return error_set(err, -errno, "open state directory of container '%s'", id);
}

int record_wait_for_lock(int fd, int operation)
{
    for (int waited = 0; flock(fd, operation | LOCK_NB) < 0; waited += LOCK_INTERVAL_MS) {
        if ((errno != EWOULDBLOCK && errno != EINTR) || waited >= LOCK_TIMEOUT_MS)
            return -errno;
        nanosleep(&(struct timespec){.tv_nsec = LOCK_INTERVAL_MS * 1000000L}, NULL);
    }
    return 0;
}

int record_lock(int dirfd, const char *id, struct error *err)
{
    int ret = record_wait_for_lock(dirfd, LOCK_EX);
    if (ret == -EWOULDBLOCK)
        return error_text(err, -EBUSY, "container '%s' is being created or deleted by another process", id);
    if (ret < 0)
        return error_set(err, ret, "lock the state directory of container '%s'", id);
    struct stat st;
    if (fstat(dirfd, &st) < 0)
        return error_set(err, -errno, "stat the state directory of container '%s'", id);
    return st.st_nlink == 0 ? error_text(err, -ENOENT, "container '%s' does not exist", id) : 0;
}

void record_unlock(int dirfd)
{
    flock(dirfd, LOCK_UN);
}

/* Find the path of an open directory, for an error. Return whether /proc tells it. */
static bool path_of(int dirfd, char directory[PATH_MAX])
{
    char own[sizeof("/proc/self/fd/") + 10];
    snprintf(own, sizeof(own), "/proc/self/fd/%d", dirfd);
    ssize_t n = readlink(own, directory, PATH_MAX - 1);
    directory[n < 0 ? 0 : n] = '\0';
    return n >= 0;
}

int record_write_error(int dirfd, int code, const char *name, const char *id, struct error *err)
{
    char directory[PATH_MAX];
    if (!path_of(dirfd, directory))
        return error_set(err, code, "write '%s' of container '%s'", name, id);
    return error_set(err, code, "write '%s' of container '%s' in '%s'", name, id, directory);
}

int record_own_cgroup(int dirfd, const char *id, struct error *err)
{
    if (mknodat(dirfd, RECORD_CGROUP, S_IFREG | 0600, 0) < 0)
        return record_write_error(dirfd, -errno, RECORD_CGROUP, id, err);
    return 0;
}

bool record_owns_cgroup(int dirfd)
{
    return faccessat(dirfd, RECORD_CGROUP, F_OK, 0) == 0;
}

int record_remove_dir(int rootfd, int dirfd, const char *id, struct error *err)
{
    static const char *const files[] = {RECORD_START_SOCKET, RECORD_STARTING, RECORD_TRACEABLE, RECORD_CGROUP,
                                        RECORD_SECCOMP,      RECORD_CONFIG,   RECORD_NAME};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        if (unlinkat(dirfd, files[i], 0) < 0 && errno != ENOENT)
            return error_set(err, -errno, "remove '%s' of container '%s'", files[i], id);
    if (unlinkat(rootfd, id, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return 0;
    /* A create that was killed between writing and renaming leaves a temporary file. */
    int ret = io_remove_files(dirfd);
    if (ret == 0 && unlinkat(rootfd, id, AT_REMOVEDIR) < 0 && errno != ENOENT)
        ret = -errno;
    return ret < 0 ? error_set(err, ret, "remove state directory of container '%s'", id) : 0;
}

/* The fields of the record. Writing and reading both use this table. */
enum field_kind { FIELD_STRING, FIELD_BOOL, FIELD_U64, FIELD_INT, FIELD_UINT };

static const struct {
    const char *key;
    enum field_kind kind;
    size_t offset;
} fields[] = {
    {"id", FIELD_STRING, offsetof(struct record, id)},
    {"oci-version", FIELD_STRING, offsetof(struct record, oci_version)},
    {"bundle", FIELD_STRING, offsetof(struct record, bundle)},
    {"rootfs", FIELD_STRING, offsetof(struct record, rootfs)},
    {"created", FIELD_STRING, offsetof(struct record, created)},
    {"owner", FIELD_UINT, offsetof(struct record, owner)},
    {"pid", FIELD_INT, offsetof(struct record, pid)},
    {"start-time", FIELD_U64, offsetof(struct record, start_time)},
    {"complete", FIELD_BOOL, offsetof(struct record, complete)},
    {"executes", FIELD_BOOL, offsetof(struct record, executes)},
    {"namespaces", FIELD_UINT, offsetof(struct record, namespaces)},
    {"traceable", FIELD_BOOL, offsetof(struct record, traceable)},
    {"chrooted", FIELD_BOOL, offsetof(struct record, chrooted)},
    {"mount-namespace", FIELD_STRING, offsetof(struct record, mount_namespace)},
    {"no-new-keyring", FIELD_BOOL, offsetof(struct record, no_new_keyring)},
    {"landlock-log", FIELD_BOOL, offsetof(struct record, landlock_log)},
    {"init", FIELD_BOOL, offsetof(struct record, has_init)},
    {"shares-pids", FIELD_BOOL, offsetof(struct record, shares_pids)},
    {"cgroup-manager", FIELD_UINT, offsetof(struct record, cgroup.manager)},
    {"cgroup-mount", FIELD_STRING, offsetof(struct record, cgroup.mount)},
    {"cgroup-path", FIELD_STRING, offsetof(struct record, cgroup.path)},
    {"cgroup-scope", FIELD_STRING, offsetof(struct record, cgroup.scope)},
    {"cgroup-user-bus", FIELD_BOOL, offsetof(struct record, cgroup.user_bus)},
    {"cgroup-rootless", FIELD_BOOL, offsetof(struct record, cgroup.rootless)},
    {"seccomp", FIELD_BOOL, offsetof(struct record, has_seccomp)},
    {"seccomp-flags", FIELD_UINT, offsetof(struct record, seccomp_flags)},
    {"seccomp-listener", FIELD_STRING, offsetof(struct record, seccomp_listener)},
    {"seccomp-metadata", FIELD_STRING, offsetof(struct record, seccomp_metadata)},
    {"poststart", FIELD_BOOL, offsetof(struct record, has_poststart)},
    {"process-settings", FIELD_BOOL, offsetof(struct record, has_process_settings)},
    {"poststop", FIELD_BOOL, offsetof(struct record, has_poststop)},
};

#define FIELD_COUNT (sizeof(fields) / sizeof(fields[0]))

/* A growing text. `failed` is set if memory runs out. */
struct text {
    char *data;
    size_t used, size;
    bool failed;
};

static void text_add(struct text *t, const char *data, size_t size)
{
    if (t->failed || size == 0)
        return;
    if (t->size - t->used < size) {
        size_t room = 2 * t->size + size + 1024;
        char *grown = realloc(t->data, room);
        if (grown == NULL) {
            t->failed = true;
            return;
        }
        t->data = grown;
        t->size = room;
    }
    memcpy(t->data + t->used, data, size);
    t->used += size;
}

/* Add a string of the user, such as a path or an annotation. A newline ends a line, so escape newlines and
 * the escape character. */
static void text_add_escaped(struct text *t, const char *s)
{
    for (; *s != '\0'; s++) {
        size_t plain = strcspn(s, "\n\\");
        text_add(t, s, plain);
        s += plain;
        if (*s == '\0')
            return;
        text_add(t, *s == '\n' ? "\\n" : "\\\\", 2);
    }
}

static void text_add_line(struct text *t, const char *key, const char *value)
{
    text_add(t, key, strlen(key));
    text_add(t, " ", 1);
    text_add_escaped(t, value);
    text_add(t, "\n", 1);
}

static void write_field(struct text *t, const struct record *record, size_t i)
{
    const void *at = (const char *)record + fields[i].offset;
    char number[24];
    switch (fields[i].kind) {
    case FIELD_STRING:
        if (*(const char *const *)at != NULL)
            text_add_line(t, fields[i].key, *(const char *const *)at);
        return;
    case FIELD_BOOL:
        if (*(const bool *)at)
            text_add_line(t, fields[i].key, "1");
        return;
    case FIELD_U64:
        snprintf(number, sizeof(number), "%llu", (unsigned long long)*(const uint64_t *)at);
        break;
    case FIELD_INT:
        snprintf(number, sizeof(number), "%d", *(const int *)at);
        break;
    case FIELD_UINT:
        snprintf(number, sizeof(number), "%u", *(const unsigned *)at);
        break;
    }
    text_add_line(t, fields[i].key, number);
}

const char *record_time(struct arena *a)
{
    struct timespec now;
    struct tm utc;
    char text[32];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
    return arena_printf(a, "%s.%09ldZ", text, now.tv_nsec);
}

/* The annotations, of which there may be many. Each takes two lines, one with the name and one with the
 * value. An earlier release does not know the keys of the second row, and skips them. */
static const struct list {
    const char *key, *value_key;
    size_t offset; /* of a struct str_map in the record */
} lists[] = {
    {"annotation", "value", offsetof(struct record, annotations)},
    {"ignored", "ignored-value", offsetof(struct record, ignored)},
};
#define LIST_COUNT (sizeof(lists) / sizeof(lists[0]))

static struct str_map *map_of(struct record *record, const struct list *list)
{
    return (struct str_map *)(void *)((char *)record + list->offset);
}

static void record_write_list(struct text *t, const struct list *list, const struct record *record)
{
    const struct str_map *map = (const struct str_map *)(const void *)((const char *)record + list->offset);
    for (size_t i = 0; i < map->count; i++) {
        text_add_line(t, list->key, map->items[i].key);
        text_add_line(t, list->value_key, map->items[i].value);
    }
}

int record_write(int dirfd, const struct record *record, struct error *err)
{
    struct text t = {0};
    for (size_t i = 0; i < FIELD_COUNT; i++)
        write_field(&t, record, i);
    for (size_t i = 0; i < LIST_COUNT; i++)
        record_write_list(&t, &lists[i], record);
    int ret = t.failed ? -ENOMEM : io_replace_file_at(dirfd, RECORD_NAME, t.data, t.used, 0600);
    free(t.data);
    return ret < 0 ? record_write_error(dirfd, ret, RECORD_NAME, record->id, err) : 0;
}

static void unescape(char *s)
{
    char *to = s;
    for (; *s != '\0'; s++) {
        if (*s == '\\' && s[1] != '\0') {
            s++;
            *to++ = *s == 'n' ? '\n' : *s;
        } else {
            *to++ = *s;
        }
    }
    *to = '\0';
}

static int read_field(struct record *out, size_t i, const char *value)
{
    void *at = (char *)out + fields[i].offset;
    int64_t number = 0;
    uint64_t big = 0;
    int ret = 0;
    switch (fields[i].kind) {
    case FIELD_STRING:
        *(const char **)at = value;
        return 0;
    case FIELD_BOOL:
        *(bool *)at = strcmp(value, "1") == 0;
        return 0;
    case FIELD_INT:
        ret = str_to_i64(value, &number);
        if (ret == 0 && (number < INT_MIN || number > INT_MAX))
            ret = -ERANGE;
        *(int *)at = ret == 0 ? (int)number : 0;
        return ret;
    case FIELD_U64:
        ret = str_to_u64(value, UINT64_MAX, &big);
        *(uint64_t *)at = big;
        return ret;
    case FIELD_UINT:
        ret = str_to_u64(value, UINT32_MAX, &big);
        *(unsigned *)at = (unsigned)big;
        return ret;
    }
    return -EINVAL;
}

static bool is_key(const char *line, const char *key)
{
    const char *rest = str_after(line, key);
    return rest != NULL && rest[0] == ' ';
}

static void make_room(struct arena *a, const char *text, struct record *out)
{
    size_t counts[LIST_COUNT] = {0};
    for (const char *line = text, *end; line != NULL; line = end != NULL ? end + 1 : NULL) {
        for (size_t i = 0; i < LIST_COUNT; i++)
            counts[i] += is_key(line, lists[i].key);
        end = strchr(line, '\n');
    }
    for (size_t i = 0; i < LIST_COUNT; i++)
        map_of(out, &lists[i])->items = ARENA_ARRAY(a, counts[i], struct str_pair);
}

/* Return whether the line belongs to a list of annotations. */
static bool read_list(struct record *out, const char *key, const char *value)
{
    for (size_t i = 0; i < LIST_COUNT; i++) {
        struct str_map *map = map_of(out, &lists[i]);
        if (strcmp(key, lists[i].key) == 0)
            map->items[map->count++] = (struct str_pair){value, ""};
        else if (strcmp(key, lists[i].value_key) != 0)
            continue;
        else if (map->count > 0)
            map->items[map->count - 1].value = value;
        return true;
    }
    return false;
}

int record_parse(struct arena *a, char *text, struct record *out, struct error *err)
{
    *out = (struct record){0};
    make_room(a, text, out);
    for (char *line = text, *next; *line != '\0'; line = next) {
        char *end = strchrnul(line, '\n');
        bool whole = *end != '\0'; /* half a path could be that of something else, such as a cgroup */
        next = end + whole;
        *end = '\0';
        char *value = strchr(line, ' ');
        if (value == NULL || !whole)
            return error_set(err, -EINVAL, "the container's state record is damaged at '%.32s'", line);
        *value++ = '\0';
        unescape(value);
        if (read_list(out, line, value))
            continue;
        for (size_t i = 0; i < FIELD_COUNT; i++)
            if (strcmp(fields[i].key, line) == 0 && read_field(out, i, value) < 0)
                return error_set(err, -EINVAL, "the container's state record has a bad '%s'", line);
    }
    if (out->id == NULL || out->bundle == NULL || out->created == NULL || out->oci_version == NULL ||
        out->rootfs == NULL || (out->pid > 0 && out->start_time == 0) || !cgroup_is_located(&out->cgroup))
        return error_set(err, -EINVAL, "the container's state record is not complete");
    return 0;
}

int record_read(struct arena *a, int dirfd, const char *id, struct record *out, struct error *err)
{
    char *text, directory[PATH_MAX];
    size_t size;
    int ret = io_read_file_at(a, dirfd, RECORD_NAME, RECORD_MAX, &text, &size);
    if (ret < 0)
        return error_set(err, ret, "read the container's state record");
    /* A disk that was not synchronized when the machine stopped leaves zeros. */
    if (strlen(text) != size)
        ret = error_set(err, -EINVAL, "the container's state record is damaged: it has a NUL");
    else
        ret = record_parse(a, text, out, err);
    if (ret == 0 && strcmp(out->id, id) != 0)
        ret = error_set(err, -EINVAL, "the container's state record is that of '%.64s'", out->id);
    /* Nothing that such a record names can be deleted safely. */
    if (ret < 0 && path_of(dirfd, directory))
        return error_wrap(err, "end the processes of container '%s' and remove '%s'", id, directory);
    return ret;
}

static bool is_alive(const struct record *record, const struct proc_stat *stat)
{
    return stat->start_time == record->start_time && stat->state != 'Z' && stat->state != 'X';
}

int record_pidfd(const struct record *record)
{
    if (record->pid <= 0)
        return -ESRCH;
    cleanup_fd int pidfd = sys_pidfd_open(record->pid, 0);
    if (pidfd < 0)
        return errno == EINVAL ? -ESRCH : -errno;
    struct proc_stat stat;
    int ret = proc_read_stat(record->pid, &stat);
    if (ret < 0)
        return ret;
    return is_alive(record, &stat) ? fd_steal(&pidfd) : -ESRCH;
}

/* Return the first child of a process, or 0. New children, and orphans, are at the end of the list. */
static pid_t first_child(int dir, pid_t pid)
{
    char path[64], text[32];
    int64_t child = 0;
    snprintf(path, sizeof(path), "task/%d/children", (int)pid);
    cleanup_fd int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : io_read_full(fd, text, sizeof(text) - 1);
    if (n <= 0)
        return 0;
    text[n] = '\0';
    text[strcspn(text, " ")] = '\0';
    return str_to_i64(text, &child) == 0 && child > 0 && child <= INT_MAX ? (pid_t)child : 0;
}

int record_program(const struct record *record)
{
    cleanup_fd int init = record_pidfd(record);
    if (init < 0 || !record->has_init)
        return init < 0 ? init : fd_steal(&init);
    cleanup_fd int dir = proc_open_process(record->pid, NULL);
    pid_t child = dir < 0 ? 0 : first_child(dir, record->pid);
    cleanup_fd int program = child > 0 ? sys_pidfd_open(child, 0) : -1;
    /* The number still is the child's, and the directory the init's. */
    bool same = program >= 0 && first_child(dir, record->pid) == child &&
                sys_pidfd_send_signal(init, 0, NULL, 0) == 0;
    return same ? fd_steal(&program) : fd_steal(&init);
}

enum status record_status(int dirfd, const struct record *record)
{
    struct proc_stat stat;
    if (record->pid <= 0 || proc_read_stat(record->pid, &stat) < 0 || !is_alive(record, &stat))
        return !record->complete && record->pid == 0 ? STATUS_CREATING : STATUS_STOPPED;
    if (!record->complete && !(record->executes && stat.executed))
        return STATUS_CREATING;
    if (cgroup_frozen(&record->cgroup) > 0)
        return STATUS_PAUSED;
    return faccessat(dirfd, RECORD_START_SOCKET, F_OK, 0) == 0 ? STATUS_CREATED : STATUS_RUNNING;
}

enum record_beginning record_beginning(int dirfd, const struct record *record)
{
    struct proc_stat stat;
    if (faccessat(dirfd, RECORD_START_SOCKET, F_OK, 0) == 0)
        return RECORD_WAITS;
    if (!record->executes && faccessat(dirfd, RECORD_STARTING, F_OK, 0) < 0)
        return RECORD_IS_PROGRAM;
    /* A start that was killed leaves this file behind. */
    bool executed = proc_read_stat(record->pid, &stat) == 0 && stat.executed;
    return executed ? RECORD_IS_PROGRAM : RECORD_IS_STARTED;
}

const char *status_name(enum status status)
{
    static const char *const names[] = {
        [STATUS_CREATING] = "creating", [STATUS_CREATED] = "created", [STATUS_RUNNING] = "running",
        [STATUS_PAUSED] = "paused",     [STATUS_STOPPED] = "stopped", [STATUS_DAMAGED] = "damaged",
    };
    return names[status];
}
