/* The operations on one key of the store. Nothing is synced to the disk. A key contains the boot ID, so no
 * snapshot is used again after a crash. Until then, reads return the data that was written. */
#include "warm/store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/log.h"
#include "base/path.h"
#include "base/str.h"
#include "warm/config.h"
#include "warm/manifest/manifest.h"
#include "warm/store/files.h"

#define ROOT_PATH "/var/lib/pysbx-runtime/warm"

const char *store_path(struct arena *a, bool root_of_host)
{
    if (root_of_host)
        return ROOT_PATH;
    const char *data = secure_getenv("XDG_DATA_HOME");
    const char *home = secure_getenv("HOME");
    if (data != NULL && data[0] == '/')
        return path_join(a, data, "pysbx-runtime/warm");
    return home != NULL && home[0] == '/' ? path_join(a, home, ".local/share/pysbx-runtime/warm") : NULL;
}

static int make_directory(const char *path, struct error *err)
{
    cleanup_fd int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    cleanup_fd int dir = root < 0 ? -errno : path_mkdir_in_root(root, path, 0700);
    return dir < 0 ? error_set(err, dir, "make the directory of snapshots '%s'", path) : 0;
}

/* Snapshots of earlier versions contain the environment of the container that made them. Without that file
 * some of them may exist. */
static int remove_earlier(const struct store *store, struct error *err)
{
    cleanup_arena struct arena a = {0};
    const struct store_limits everything = {.all = true};
    if (faccessat(store->dir, STORE_FORMAT_FILE, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return 0;
    if (RETRY(flock(store->dir, LOCK_EX)) < 0)
        return error_set(err, -errno, "lock the directory of snapshots '%s'", store->path);
    int ret = 0;
    if (faccessat(store->dir, STORE_FORMAT_FILE, F_OK, AT_SYMLINK_NOFOLLOW) < 0) {
        ret = store_prune(&a, store, &everything, NULL, NULL, err);
        if (ret == 0 && (ret = io_create_file_at(store->dir, STORE_FORMAT_FILE, "", 0, 0600)) < 0)
            error_set(err, ret, "make '%s/" STORE_FORMAT_FILE "'", store->path);
    }
    flock(store->dir, LOCK_UN);
    return ret;
}

int store_open(const char *path, bool create, struct store *out, struct error *err)
{
    struct stat st;
    cleanup_fd int dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0 && errno == ENOENT && create) {
        int ret = make_directory(path, err);
        if (ret < 0)
            return ret;
        dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    }
    if (dir < 0 || fstat(dir, &st) < 0)
        return error_set(err, -errno, "open the directory of snapshots '%s'", path);
    if (st.st_uid != geteuid())
        return error_text(err, -EPERM, "the directory of snapshots '%s' belongs to user %u, not to %u", path,
                          st.st_uid, geteuid());
    if ((st.st_mode & (S_IRWXG | S_IRWXO)) != 0)
        return error_text(err, -EPERM,
                          "the directory of snapshots '%s' is open to others: its mode is %04o (chmod 0700)",
                          path, st.st_mode & 07777);
    struct store store = {path, dir};
    int ret = create ? remove_earlier(&store, err) : 0;
    if (ret < 0)
        return ret;
    *out = (struct store){path, fd_steal(&dir)};
    return 0;
}

void store_close(struct store *store)
{
    fd_close(&store->dir);
}

#define MAKE_ROOM "'pysbx-runtime warm prune --all' makes room, maxSize in warm.json limits what is kept"
static const struct {
    int code;
    const char *advice;
} advices[] = {
    {ENOSPC, MAKE_ROOM},
    {EDQUOT, MAKE_ROOM},
    {EFBIG, "if maxSize in warm.json is the limit, raise it, or preload less"},
};

int store_advise(const char *path, struct error *err)
{
    char text[ERROR_TEXT_MAX];
    for (size_t i = 0; i < sizeof(advices) / sizeof(advices[0]); i++)
        if (err->code == -advices[i].code) {
            memcpy(text, err->text, sizeof(text));
            return error_text(err, err->code, "%s (in '%s'; %s)", text, path, advices[i].advice);
        }
    return err->code;
}

/* Open snapshot and manifest of `name`. -ENOENT: the caller owns none. */
static int open_snapshot(struct arena *a, const struct store *store, const char *name,
                         struct store_entry *entry, struct stat *st, struct error *err)
{
    cleanup_fd int fd = openat(store->dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return error_set(err, -errno, "snapshot '%s'", name);
    if (fstat(fd, st) < 0 || !S_ISREG(st->st_mode) || st->st_uid != geteuid())
        return error_text(err, -EUCLEAN, "snapshot '%s' is not a file owned by the caller", name);
    int ret = snapshot_open(fd, &entry->mapped, err);
    if (ret < 0)
        return error_wrap(err, "snapshot '%s'", name);
    ret = manifest_open(a, entry->mapped.meta, entry->mapped.meta_size, &entry->manifest, err);
    if (ret < 0) {
        snapshot_close(&entry->mapped);
        return error_wrap(err, "snapshot '%s'", name);
    }
    entry->file = fd_steal(&fd);
    return 0;
}

static void close_snapshot(struct store_entry *entry)
{
    snapshot_close(&entry->mapped);
    fd_close(&entry->file);
    entry->manifest = NULL;
}

static bool same_key(const struct store_entry *entry, const struct warm_key *key)
{
    struct manifest_facts facts;
    manifest_describe(entry->manifest, &facts);
    return facts.key.size == key->size && memcmp(facts.key.text, key->text, key->size) == 0;
}

/* Return the seconds since the file was written; a clock that was set back makes everything old. Use the
 * exact clock: time(2) is a tick behind, and since Linux 6.13 a file may be newer than that. */
static int64_t age(const struct stat *st)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t seconds = (int64_t)now.tv_sec - st->st_mtim.tv_sec;
    return seconds >= 0 ? seconds : INT64_MAX;
}

enum state { STATE_FRESH, STATE_NONE, STATE_EXPIRED };

/* Return why a snapshot may no longer be used, or NULL. */
static const char *expiry(struct arena *a, const struct store *store, const struct store_question *q,
                          const struct stat *snapshot)
{
    struct stat st;
    if (age(snapshot) > q->config->max_age)
        return "the snapshot is too old";
    if (store_file_stat(store, q->key->name, STORE_USES, &st) && (uint64_t)st.st_size >= q->config->max_uses)
        return "the snapshot was used too often";
    if (age(snapshot) < q->config->retry_after && !q->force)
        return NULL;
    const char *stale = store_file_text(a, store, q->key->name, STORE_STALE);
    return stale != NULL ? arena_printf(a, "the snapshot no longer fits: %s", stale) : NULL;
}

static enum state find(struct arena *a, const struct store *store, const struct store_question *q,
                       struct store_entry *entry)
{
    struct error reason = {0};
    struct stat st;
    int ret = open_snapshot(a, store, q->key->name, entry, &st, &reason);
    if (ret < 0 && ret != -ENOENT)
        log_debug("%s", reason.text);
    if (ret < 0) {
        entry->reason = ret == -ENOENT ? "there is no snapshot yet" : "the snapshot is damaged";
        return STATE_NONE;
    }
    entry->reason =
        same_key(entry, q->key) ? expiry(a, store, q, &st) : "another key has the name of this one";
    if (entry->reason == NULL)
        return STATE_FRESH;
    close_snapshot(entry);
    return STATE_EXPIRED;
}

static bool has_failed(const struct store *store, const struct store_question *q)
{
    struct stat st;
    return store_file_stat(store, q->key->name, STORE_FAILED, &st) && age(&st) < q->config->retry_after;
}

static bool read_bounds(struct arena *a, const struct store *store, const char *name,
                        struct store_bounds *out)
{
    const char *text = store_file_text(a, store, name, STORE_FAILED_LIMITS);
    for (size_t i = 0; i < STORE_BOUNDS; i++) {
        char *end;
        if (text == NULL)
            return false;
        out->items[i] = strtoull(text, &end, 10);
        if (end == text)
            return false;
        text = end;
    }
    return true;
}

/* Return whether the container has a larger limit than all those for which the snapshot could not be made.
 * The imports may need it. Otherwise one container with small limits would make all others start cold. */
static bool allows_more(struct arena *a, const struct store *store, const struct store_question *q)
{
    struct store_bounds failed;
    if (q->bounds == NULL || !read_bounds(a, store, q->key->name, &failed))
        return false;
    for (size_t i = 0; i < STORE_BOUNDS; i++)
        if (q->bounds->items[i] > failed.items[i])
            return true;
    return false;
}

/* Remember the limits for the case of a failure. They are joined with those of earlier failures, so that two
 * containers, each with another limit that is larger, do not try in turns. */
static void take_bounds(struct arena *a, const struct store *store, const struct store_question *q,
                        struct store_entry *entry)
{
    struct store_bounds earlier;
    if (q->bounds == NULL)
        return;
    entry->bounds = *q->bounds;
    entry->bounded = true;
    if (!has_failed(store, q) || !read_bounds(a, store, q->key->name, &earlier))
        return;
    for (size_t i = 0; i < STORE_BOUNDS; i++)
        if (earlier.items[i] > entry->bounds.items[i])
            entry->bounds.items[i] = earlier.items[i];
}

const char *store_failure(struct arena *a, const struct store *store, const char *name, enum error_kind *kind)
{
    const char *text = store_file_text(a, store, name, STORE_FAILED);
    const char *line = text != NULL ? strchr(text, '\n') : NULL;
    if (kind != NULL)
        *kind = line != NULL ? error_kind_of(line + 1) : ERROR_OTHER;
    return line != NULL ? arena_strndup(a, text, (size_t)(line - text)) : text;
}

/* Return a reason not to make the snapshot now, with its kind, or NULL. */
static const char *forbidden(struct arena *a, const struct store *store, const struct store_question *q,
                             enum state state, const char *why, enum error_kind *kind)
{
    struct stat st;
    if (q->force)
        return NULL;
    *kind = ERROR_EXPIRED;
    if (state == STATE_EXPIRED && !q->config->rebuild_expired)
        return why;
    if (has_failed(store, q) && !allows_more(a, store, q)) {
        const char *reason = store_failure(a, store, q->key->name, kind);
        return arena_printf(a,
                            "the snapshot could not be made, and is not tried again for %" PRIu32
                            " s (retryAfter in warm.json): %s",
                            q->config->retry_after,
                            reason != NULL && reason[0] != '\0' ? reason : "no reason is recorded");
    }
    bool first = q->bare && q->config->second_run && state == STATE_NONE &&
                 !store_file_stat(store, q->key->name, STORE_SEEN, &st);
    if (first && !q->look)
        store_file_note(store, q->key->name, STORE_SEEN, "");
    *kind = ERROR_FIRST_RUN;
    return first ? STORE_FIRST_RUN : NULL;
}

/* With the lock held, open an empty file that replaces the output of a killed builder. */
static int begin(const struct store *store, struct store_entry *entry, struct error *err)
{
    char name[STORE_FILE_NAME_SIZE];
    store_file_remove(store, entry->name, STORE_NEW);
    entry->out = openat(store->dir, store_file_name(entry->name, STORE_NEW, name),
                        O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (entry->out >= 0)
        return 0;
    int ret = error_set(err, -errno, "make '%s/%s'", store->path, name);
    store_unlock(store, entry->name, &entry->lock);
    return ret;
}

static int cold(struct store_entry *entry, enum error_kind kind, const char *reason)
{
    entry->answer = STORE_COLD;
    entry->kind = kind;
    entry->reason = reason;
    return 0;
}

int store_ask(struct arena *a, const struct store *store, const struct store_question *q,
              struct store_entry *entry, struct error *err)
{
    *entry = (struct store_entry){.answer = STORE_READY, .file = -1, .lock = -1, .out = -1};
    memcpy(entry->name, q->key->name, sizeof(entry->name));
    enum state state = find(a, store, q, entry);
    if (state == STATE_FRESH)
        return 0;
    enum error_kind kind = ERROR_OTHER;
    const char *no = forbidden(a, store, q, state, entry->reason, &kind);
    if (no != NULL)
        return cold(entry, kind, no);
    entry->answer = STORE_BUILD;
    if (q->look)
        return 0;
    const char *why = entry->reason;
    entry->lock = store_lock(store, entry->name, q->config->wait_for_build || q->force);
    if (entry->lock == -EAGAIN)
        return cold(entry, ERROR_BEING_MADE, "another process is making the snapshot");
    if (entry->lock < 0)
        return error_set(err, entry->lock, "lock snapshot '%s' in '%s'", entry->name, store->path);
    /* The previous holder of the lock may have made it, or failed. */
    no = NULL;
    if (find(a, store, q, entry) == STATE_FRESH)
        entry->answer = STORE_READY;
    else
        no = forbidden(a, store, q, state, why, &kind);
    if (entry->answer == STORE_BUILD && no == NULL) {
        entry->reason = why;
        take_bounds(a, store, q, entry);
        return begin(store, entry, err);
    }
    store_unlock(store, entry->name, &entry->lock);
    return no != NULL ? cold(entry, kind, no) : 0;
}

/* The checksum comes first: a snapshot never exists without it. */
static int write_sum(const struct store *store, const struct store_entry *entry)
{
    char name[STORE_FILE_NAME_SIZE], text[32];
    uint64_t sum;
    int ret = store_file_sum(entry->out, &sum);
    if (ret < 0)
        return ret;
    int length = snprintf(text, sizeof(text), "%016" PRIx64 "\n", sum);
    return io_replace_file_at(store->dir, store_file_name(entry->name, STORE_SUM, name), text, (size_t)length,
                              0600);
}

int store_commit(const struct store *store, const struct warm_config *config, struct store_entry *entry,
                 struct error *err)
{
    static const enum store_file outdated[] = {STORE_USES, STORE_STALE, STORE_FAILED, STORE_SEEN,
                                               STORE_FAILED_LIMITS};
    char name[STORE_FILE_NAME_SIZE];
    int ret = fchmod(entry->out, 0400) < 0 ? -errno : write_sum(store, entry);
    if (ret == 0 &&
        renameat(store->dir, store_file_name(entry->name, STORE_NEW, name), store->dir, entry->name) < 0)
        ret = -errno;
    if (ret < 0) {
        error_set(err, ret, "store snapshot '%s' in '%s'", entry->name, store->path);
        store_release(store, entry);
        return ret;
    }
    for (size_t i = 0; i < sizeof(outdated) / sizeof(outdated[0]); i++)
        store_file_remove(store, entry->name, outdated[i]);
    fd_close(&entry->out);
    store_unlock(store, entry->name, &entry->lock);
    cleanup_arena struct arena a = {0};
    struct error ignored = {0};
    struct store_limits limits = {
        .max_age = config->max_age, .max_uses = config->max_uses, .max_size = config->max_size};
    if (store_prune(&a, store, &limits, entry->name, NULL, &ignored) < 0)
        log_debug("%s", ignored.text);
    return 0;
}

static void drop_output(const struct store *store, struct store_entry *entry)
{
    if (entry->out >= 0)
        store_file_remove(store, entry->name, STORE_NEW);
    fd_close(&entry->out);
}

/* Write the limits before the note that they belong to. Without them the note holds for all containers. */
static void note_bounds(const struct store *store, const struct store_entry *entry)
{
    struct arena a = {0};
    const char *text = "";
    if (!entry->bounded) {
        store_file_remove(store, entry->name, STORE_FAILED_LIMITS);
        return;
    }
    for (size_t i = 0; i < STORE_BOUNDS; i++)
        text = arena_printf(&a, "%s%" PRIu64 "\n", text, entry->bounds.items[i]);
    store_file_note(store, entry->name, STORE_FAILED_LIMITS, text);
    arena_free(&a);
}

void store_fail(const struct store *store, struct store_entry *entry, const struct error *reason)
{
    struct arena a = {0};
    drop_output(store, entry); /* first: the disk may be full */
    note_bounds(store, entry);
    /* Reasons quote names that a container has chosen, and they are printed. */
    store_file_note(
        store, entry->name, STORE_FAILED,
        arena_printf(&a, "%s\n%s", str_printable(&a, reason->text), error_kind_name(reason->kind, 0)));
    arena_free(&a);
    store_release(store, entry);
}

void store_mark_stale(const struct store *store, const char *name, const char *reason)
{
    struct arena a = {0};
    store_file_note(store, name, STORE_STALE, str_printable(&a, reason));
    arena_free(&a);
}

void store_count_use(const struct store *store, const char *name)
{
    char file[STORE_FILE_NAME_SIZE];
    cleanup_fd int fd = openat(store->dir, store_file_name(name, STORE_USES, file),
                               O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (fd >= 0)
        (void)io_write_full(fd, "", 1);
}

void store_release(const struct store *store, struct store_entry *entry)
{
    close_snapshot(entry);
    drop_output(store, entry);
    store_unlock(store, entry->name, &entry->lock);
}

static int compare_sum(struct arena *a, const struct store *store, const char *name, int snapshot,
                       struct error *err)
{
    uint64_t sum;
    const char *text = store_file_text(a, store, name, STORE_SUM);
    int ret = store_file_sum(snapshot, &sum);
    if (ret < 0)
        return error_set(err, ret, "read snapshot '%s'", name);
    if (text == NULL || !str_eq(text, arena_printf(a, "%016" PRIx64 "\n", sum)))
        return error_text(err, -EUCLEAN, "snapshot '%s' does not match its checksum", name);
    return 0;
}

int store_open_item(struct arena *a, const struct store *store, const char *name, bool pages,
                    struct store_entry *entry, struct error *err)
{
    char key[KEY_NAME_SIZE];
    enum store_file file;
    struct stat st;
    *entry = (struct store_entry){.answer = STORE_READY, .file = -1, .lock = -1, .out = -1};
    if (!store_file_parse(name, key, &file) || file != STORE_SNAPSHOT)
        return error_text(err, -ENOENT, "'%.64s' is not the key of a snapshot", name);
    memcpy(entry->name, key, sizeof(entry->name));
    int ret = open_snapshot(a, store, key, entry, &st, err);
    const char *failure = ret == -ENOENT ? store_failure(a, store, key, NULL) : NULL;
    if (failure != NULL)
        ret = error_text(err, ret, "snapshot '%s' could not be made: %s", key, failure);
    if (ret == 0 && pages)
        ret = compare_sum(a, store, key, entry->file, err);
    if (ret < 0)
        close_snapshot(entry);
    return ret;
}
