/* Save a process of a container that has parked itself, for another container to continue from (`warm save`).
 * The caller names the process, and the runtime checks that it belongs to the container: pidfd_open(2),
 * pid_namespaces(7). */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/proc.h"
#include "base/sys.h"
#include "container/lookup.h"
#include "prewarm/commands.h"
#include "prewarm/decide.h"
#include "warm/config.h"
#include "warm/dump/place.h"
#include "warm/dump/request.h"
#include "warm/dump/text.h"
#include "warm/session.h"
#include "warm/store/files.h"
#include "warm/store/store.h"

struct subject {
    struct arena arena;
    struct record record;
    int dir;
    int pidfd; /* the parked process */
    int proc;  /* its directory in /proc */
};

static void save_subject_close(struct subject *s)
{
    fd_close(&s->proc);
    fd_close(&s->pidfd);
    fd_close(&s->dir);
    arena_free(&s->arena);
}

static bool has_ended(int pidfd)
{
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    return RETRY(poll(&p, 1, 0)) != 0;
}

/* Check that the process belongs to the container: it is in the container's own pid namespace, which no other
 * container has. */
static int check_membership(const struct subject *s, pid_t pid, struct error *err)
{
    struct stat ns;
    if ((s->record.namespaces & CLONE_NEWPID) == 0)
        return error_text(err, -ENOTSUP, "container '%s' has no pid namespace of its own", s->record.id);
    cleanup_fd int init = record_pidfd(&s->record);
    cleanup_fd int proc = init < 0 ? -1 : proc_open_process(s->record.pid, err);
    if (init >= 0 && proc < 0)
        return proc;
    if (init < 0 || has_ended(init))
        return error_text(err, -ESRCH, "container not running: '%s'", s->record.id);
    if (fstatat(proc, "ns/pid", &ns, 0) < 0)
        return error_set(err, -errno, "look at the pid namespace of container '%s'", s->record.id);
    int inside = proc_in_pid_namespace(s->proc, &ns);
    if (inside < 0)
        return error_set(err, inside, "look at the pid namespace of process %d", (int)pid);
    if (inside)
        return 0;
    return error_text(err, -ESRCH, "process %d is not one of container '%s'", (int)pid, s->record.id);
}

static int save_find(struct subject *s, const struct runtime_options *rt, const struct save_options *options,
                     struct error *err)
{
    int ret = container_open_record(&s->arena, rt, options->id, &s->dir, &s->record, err);
    if (ret < 0)
        return ret;
    s->pidfd = sys_pidfd_open(options->pid, 0);
    if (s->pidfd < 0)
        return error_set(err, -errno, "process %d", (int)options->pid);
    s->proc = proc_open_process(options->pid, err);
    return s->proc < 0 ? s->proc : check_membership(s, options->pid, err);
}

/* Open the snapshot that a line of /proc/PID/maps names, if it is one of the store. */
static bool take_base(struct arena *a, const char *text, const struct store *store, struct store_entry *entry,
                      struct dump_base *out)
{
    struct error ignored = {0};
    struct dump_vma_line line;
    char key[KEY_NAME_SIZE];
    enum store_file kind;
    if (!dump_text_vma(text, &line) || line.name[0] != '/' ||
        !store_file_parse(strrchr(line.name, '/') + 1, key, &kind) || kind != STORE_SNAPSHOT ||
        store_open_item(a, store, key, false, entry, &ignored) < 0)
        return false;
    *out = (struct dump_base){.fd = entry->file, .snapshot = &entry->mapped};
    out->file = (struct dump_file){arena_strdup(a, line.name), line.major, line.minor, line.inode};
    if (dump_place_is(a, entry->file, &out->file) &&
        snapshot_as_base(entry->file, key, &out->identity, &ignored) == 0)
        return true;
    store_release(store, entry);
    *out = (struct dump_base){.fd = -1};
    return false;
}

/* Find the snapshot of the store that the process was restored from, by what it has mapped. Without it, all
 * pages are written. The kernel makes the text while it is read, and one of the first lines names it. */
static void find_base(struct arena *a, int proc, const struct store *store, struct store_entry *entry,
                      struct dump_base *out)
{
    char *text = NULL;
    size_t room = 0;
    int fd = openat(proc, "maps", O_RDONLY | O_CLOEXEC);
    FILE *maps = fd < 0 ? NULL : fdopen(fd, "r");
    bool found = false;
    for (ssize_t size; maps != NULL && !found && (size = getline(&text, &room, maps)) > 0;) {
        text[size - 1] = '\0';
        found = take_base(a, text, store, entry, out);
    }
    free(text);
    if (maps != NULL)
        fclose(maps);
    else if (fd >= 0)
        close(fd);
}

static int save_process(struct arena *a, const struct subject *s, const struct save_options *options,
                        uint64_t limit, int out, const char **path, struct error *err)
{
    struct store store = {.dir = -1};
    struct store_entry entry = {.file = -1, .lock = -1, .out = -1};
    struct dump_base base = {.fd = -1};
    struct error ignored = {0};
    cleanup_fd int root = openat(s->proc, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return error_set(err, -errno, "open the root of process %d", (int)options->pid);
    if (options->differences && prewarm_open_store(a, &store, &ignored) == 0)
        find_base(a, s->proc, &store, &entry, &base);
    int ret = session_save(options->pid, root, limit, base.fd >= 0 ? &base : NULL, out, err);
    *path = ret == 0 && base.fd >= 0 ? path_join(a, store.path, entry.name) : NULL;
    store_release(&store, &entry);
    store_close(&store);
    return ret;
}

static int save_found(struct arena *a, struct subject *s, const struct save_options *options,
                      const char **base, struct error *err)
{
    struct warm_config config;
    int root_of_host = prewarm_root_of_host(err);
    int ret = root_of_host < 0 ? root_of_host : warm_config_read(&s->arena, NULL, root_of_host, &config, err);
    if (ret < 0)
        return ret;
    cleanup_fd int out = session_create(options->file, err);
    if (out < 0)
        return out;
    ret = save_process(a, s, options, config.max_size, out, base, err);
    /* If the process still lives, its number was not used by another one meanwhile. */
    if (ret == 0 && has_ended(s->pidfd)) {
        (void)!ftruncate(out, 0);
        ret = error_text(err, -ESRCH, "process %d ended", (int)options->pid);
    }
    return ret;
}

int prewarm_save(struct arena *a, const struct runtime_options *rt, const struct save_options *options,
                 const char **base, struct error *err)
{
    __attribute__((cleanup(save_subject_close))) struct subject s = {.dir = -1, .pidfd = -1, .proc = -1};
    int ret = save_find(&s, rt, options, err);
    if (ret < 0)
        return ret;
    ret = save_found(a, &s, options, base, err);
    if (options->kill)
        (void)sys_pidfd_send_signal(s.pidfd, SIGKILL, NULL, 0);
    return ret;
}
