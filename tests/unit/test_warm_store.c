/* The store of snapshots: one process builds, others wait, old ones are removed; killed builders, a full
 * disk, damage. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/sys.h"
#include "unit.h"
#include "warm/config.h"
#include "warm/manifest/manifest.h"
#include "warm/owners.h"
#include "warm/root_view.h"
#include "warm/store/files.h"
#include "warm/store/store.h"

#define PAGE     4096
#define BUILDERS 8

static char base[] = "/tmp/pysbx-unit.XXXXXX";
static struct arena arena;
static struct store store;
static struct warm_config config;

static struct warm_key key_of(const char *name)
{
    struct warm_key key = {.text = arena_printf(&arena, "name=%s", name)};
    key.size = strlen(key.text) + 1;
    key_name(key.text, key.size, key.name);
    return key;
}

static void open_store(void)
{
    struct error err;
    config = (struct warm_config){.mode = "auto",
                                  .second_run = true,
                                  .wait_for_build = true,
                                  .rebuild_expired = true,
                                  .max_age = 3600,
                                  .max_uses = 5,
                                  .max_size = UINT64_C(1) << 30,
                                  .retry_after = 60};
    if (store_open(arena_printf(&arena, "%s/warm", base), true, &store, &err) < 0)
        bail_out("%s", err.text);
}

static void empty_store(void)
{
    io_remove_files(store.dir);
    store_close(&store);
    open_store();
}

static int ask_as(const struct store_question *question, struct store_entry *entry)
{
    struct error err = {0};
    int ret = store_ask(&arena, &store, question, entry, &err);
    if (ret < 0)
        diag("%s", err.text);
    return ret;
}

/* Return the answer about a key with modules. The entry belongs to the caller. */
static int ask(const struct warm_key *key, struct store_entry *entry)
{
    struct store_question question = {.key = key, .config = &config};
    return ask_as(&question, entry) < 0 ? -1 : (int)entry->answer;
}

/* Return the answer only. */
static int answer(const struct warm_key *key)
{
    struct store_entry entry;
    int got = ask(key, &entry);
    store_release(&store, &entry);
    return got;
}

/* Write the smallest valid snapshot, with this many pages of content. */
static int write_snapshot(int fd, const struct warm_key *key, size_t pages, struct error *err)
{
    static const char report[] = "v3.11.2\0r";
    static char *const envp[] = {NULL};
    struct root_view view = {.root = AT_FDCWD};
    const struct owners owners = {.text = ""};
    struct manifest_source source = {.report = report,
                                     .report_size = sizeof(report),
                                     .key = key,
                                     .envp = envp,
                                     .view = &view,
                                     .plan = &view,
                                     .owners = &owners,
                                     .builder = "test",
                                     .began = INT64_MAX};
    struct snapshot_vma vmas[] = {
        {.start = 0x10000, .end = 0x11000, .prot = PROT_READ | PROT_EXEC},
        {.start = 0x20000, .end = 0x20000 + pages * PAGE, .prot = PROT_READ | PROT_WRITE},
    };
    struct snapshot_extent extent = {.address = 0x20000, .pages = pages};
    struct snapshot_parts parts = {.vmas = vmas,
                                   .vma_count = 2,
                                   .extents = &extent,
                                   .extent_count = 1,
                                   .strings = "",
                                   .strings_size = 1};
    struct snapshot_header *h = &parts.header;
    h->thread.rip = 0x10000;
    h->thread.rsp = h->thread.fs_base = h->thread.tid_address = 0x20000;
    h->memory =
        (struct snapshot_memory){0x10000, 0x11000, 0x20000, 0x21000, 0x30000, 0x30000, 0x20000, 0, {0}};
    h->vdso_count = 1;
    h->vdso[0] = (struct snapshot_vdso){0x7fff0000, 0x7fff1000, "[vdso]"};
    void *meta;
    size_t size;
    int ret = manifest_build(&arena, &source, &meta, &size, err);
    if (ret < 0)
        return ret;
    parts.meta = meta;
    parts.meta_size = size;
    ret = snapshot_write(fd, &parts, err);
    char content[PAGE];
    memset(content, 'x', sizeof(content));
    for (size_t i = 0; ret == 0 && i < pages; i++)
        if (pwrite(fd, content, PAGE, (off_t)(extent.offset + i * PAGE)) != PAGE)
            ret = error_set(err, -ENOSPC, "write a page");
    return ret;
}

static int commit(const struct warm_key *key, struct store_entry *entry, size_t pages)
{
    struct error err = {0};
    int ret = write_snapshot(entry->out, key, pages, &err);
    if (ret == 0)
        ret = store_commit(&store, &config, entry, &err);
    if (ret < 0)
        diag("%s", err.text);
    return ret;
}

static void build(const struct warm_key *key, size_t pages)
{
    struct store_entry entry;
    if (ask(key, &entry) != STORE_BUILD || commit(key, &entry, pages) < 0)
        bail_out("cannot make '%s'", key->text);
}

static void age_file(const char *name, int64_t seconds)
{
    struct timespec times[2];
    clock_gettime(CLOCK_REALTIME, &times[0]);
    times[0].tv_sec -= seconds;
    times[1] = times[0];
    if (utimensat(store.dir, name, times, 0) < 0)
        bail_out("utimensat '%s'", name);
}

static const char *file_of(const struct warm_key *key, const char *suffix)
{
    return arena_printf(&arena, "%s%s", key->name, suffix);
}

static bool there(const struct warm_key *key, const char *suffix)
{
    return faccessat(store.dir, file_of(key, suffix), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static size_t count_files(void)
{
    size_t count = 0;
    int copy = openat(store.dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fdopendir(copy);
    while (readdir(dir) != NULL)
        count++;
    closedir(dir);
    return count - 2 - (faccessat(store.dir, STORE_FORMAT_FILE, F_OK, 0) == 0);
}

static void test_earlier_versions(void)
{
    static const char *const earlier[] = {"0123456789abcdef0123456789abcdef",
                                          "0123456789abcdef0123456789abcdef.sum",
                                          "0123456789abcdef0123456789abcdef.seen"};
    struct error err;
    struct store again;
    for (size_t i = 0; i < sizeof(earlier) / sizeof(earlier[0]); i++)
        if (io_create_file_at(store.dir, earlier[i], "SECRET", 6, 0600) < 0)
            bail_out("cannot make '%s'", earlier[i]);
    unlinkat(store.dir, STORE_FORMAT_FILE, 0);
    ok(store_open(store.path, false, &again, &err) == 0 && count_files() == 3, "looking removes nothing");
    store_close(&again);
    ok(store_open(store.path, true, &again, &err) == 0, "a store of an earlier version is opened");
    is_int(count_files(), 0, "its snapshots are removed");
    ok(faccessat(store.dir, STORE_FORMAT_FILE, F_OK, 0) == 0, "and the answer says so");
    store_close(&again);
}

static void test_life(void)
{
    struct warm_key key = key_of("life");
    struct store_entry entry;
    is_int(ask(&key, &entry), STORE_BUILD, "no snapshot: build it");
    is_int(commit(&key, &entry, 4), 0, "made");
    struct stat st;
    ok(fstatat(store.dir, key.name, &st, 0) == 0 && (st.st_mode & 07777) == 0400,
       "the snapshot is read-only");
    if (is_int(ask(&key, &entry), STORE_READY, "found")) {
        struct manifest_facts facts;
        manifest_describe(entry.manifest, &facts);
        is_str(facts.key.text, key.text, "with its manifest");
    }
    store_release(&store, &entry);
    for (int i = 0; i < 4; i++)
        store_count_use(&store, key.name);
    is_int(answer(&key), STORE_READY, "after 4 of 5 uses");
    store_count_use(&store, key.name);
    is_int(ask(&key, &entry), STORE_BUILD, "after 5 of 5 uses: rebuilt");
    is_str(entry.reason, "the snapshot was used too often", "the reason");
    is_int(commit(&key, &entry, 4), 0, "rebuilt");
    ok(!there(&key, ".uses"), "and its uses are counted from the beginning");

    age_file(key.name, 3601);
    config.rebuild_expired = false;
    is_int(ask(&key, &entry), STORE_COLD, "too old, and must not be rebuilt: cold");
    is_str(entry.reason, "the snapshot is too old", "the reason");
    config.rebuild_expired = true;
    is_int(answer(&key), STORE_BUILD, "too old: rebuilt");
    age_file(key.name, -7200);
    is_int(answer(&key), STORE_BUILD, "from the future: rebuilt");
    empty_store();
}

static void fail(struct store_entry *entry, const char *reason)
{
    struct error err;
    store_fail(&store, entry,
               (error_classify(&err, ERROR_IMPORTS_REFUSED, error_text(&err, -ENOEXEC, "%s", reason)), &err));
}

static void test_failure(void)
{
    struct warm_key key = key_of("failure");
    struct store_entry entry;
    is_int(ask(&key, &entry), STORE_BUILD, "build it");
    fail(&entry, "numpy: no module");
    is_int(ask(&key, &entry), STORE_COLD, "after a failure: cold");
    is_str(entry.reason,
           "the snapshot could not be made, and is not tried again for 60 s (retryAfter in warm.json): "
           "numpy: no module",
           "with the reason");
    is_int(entry.kind, ERROR_IMPORTS_REFUSED, "and its kind");
    is_str(store_failure(&arena, &store, key.name, NULL), "numpy: no module",
           "the list has the reason alone");
    struct store_question question = {.key = &key, .config = &config, .force = true};
    ask_as(&question, &entry);
    is_int(entry.answer, STORE_BUILD, "`warm build` tries immediately");
    store_release(&store, &entry);
    age_file(file_of(&key, ".failed"), 61);
    is_int(ask(&key, &entry), STORE_BUILD, "after retryAfter: tried again");
    is_int(commit(&key, &entry, 1), 0, "made");
    ok(!there(&key, ".failed"), "the failure is forgotten");
    empty_store();
}

static int ask_within(const struct warm_key *key, uint64_t memory, uint64_t processes,
                      struct store_entry *entry)
{
    struct store_bounds bounds = {{memory, processes, UINT64_MAX, 5, 5, 5, 5, 5}};
    struct store_question question = {.key = key, .config = &config, .bounds = &bounds};
    return ask_as(&question, entry) < 0 ? -1 : (int)entry->answer;
}

static void test_failure_within_limits(void)
{
    struct warm_key key = key_of("limits");
    struct store_entry entry;
    is_int(ask_within(&key, 100, 1, &entry), STORE_BUILD, "build it, with one process");
    fail(&entry, "can't start new thread");
    is_int(ask_within(&key, 100, 1, &entry), STORE_COLD, "it failed: the same limits are cold");
    is_int(ask_within(&key, 99, 1, &entry), STORE_COLD, "smaller limits are cold too");
    is_int(ask(&key, &entry), STORE_COLD, "and a caller without limits");
    is_int(ask_within(&key, 99, 64, &entry), STORE_BUILD, "more processes: tried at once");
    fail(&entry, "out of memory");
    is_int(ask_within(&key, 99, 64, &entry), STORE_COLD, "it failed again");
    is_int(ask_within(&key, 100, 1, &entry), STORE_COLD, "the limits of both failures are remembered");
    is_int(ask_within(&key, 100, 64, &entry), STORE_COLD, "as the largest of each");
    age_file(file_of(&key, ".failed"), 61);
    is_int(ask_within(&key, 1, 1, &entry), STORE_BUILD, "after retryAfter: tried again");
    fail(&entry, "out of memory");
    is_int(ask_within(&key, 2, 1, &entry), STORE_BUILD, "with the new limits alone");
    is_int(commit(&key, &entry, 1), 0, "made");
    ok(!there(&key, ".failed") && !there(&key, ".limits"), "the failure is forgotten");
    is_int(ask_within(&key, 1, 1, &entry), STORE_READY, "small limits have the snapshot");
    store_release(&store, &entry);
    empty_store();
}

static void test_failure_with_damaged_limits(void)
{
    static const char *const texts[] = {"", "1\n", "1\n2\n3\n4\nx\n6\n7\n8\n"};
    struct warm_key key = key_of("damaged");
    struct store_entry entry;
    is_int(ask_within(&key, 1, 1, &entry), STORE_BUILD, "build it");
    fail(&entry, "out of memory");
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        store_file_note(&store, key.name, STORE_FAILED_LIMITS, texts[i]);
        is_int(ask_within(&key, 9, 9, &entry), STORE_COLD, "limits that cannot be read: cold for all");
    }
    store_file_remove(&store, key.name, STORE_FAILED_LIMITS);
    is_int(ask_within(&key, 9, 9, &entry), STORE_COLD, "as without them");
    empty_store();
}

/* A file's time may be ahead of time(2) by a tick. That shows at the end of a second, so the test runs until
 * one ends. */
static void test_failure_at_the_end_of_a_second(void)
{
    struct warm_key key = key_of("second");
    struct store_entry entry;
    struct store_question question = {.key = &key, .config = &config, .force = true};
    bool cold = true;
    for (time_t end = time(NULL) + 1; cold && time(NULL) < end;) {
        ask_as(&question, &entry);
        fail(&entry, "numpy: no module");
        cold = ask(&key, &entry) == STORE_COLD;
    }
    ok(cold, "a failure of this moment is not in the future");
    empty_store();
}

static void test_stale(void)
{
    struct warm_key key = key_of("stale");
    struct store_entry entry;
    build(&key, 1);
    store_mark_stale(&store, key.name, "'/lib/a.py' has changed");
    is_int(answer(&key), STORE_READY, "stale, but built a moment ago: it may fit the next container");
    age_file(key.name, 61);
    is_int(ask(&key, &entry), STORE_BUILD, "stale: rebuilt");
    is_str(entry.reason, "the snapshot no longer fits: '/lib/a.py' has changed", "the reason");
    is_int(commit(&key, &entry, 1), 0, "made");
    is_int(answer(&key), STORE_READY, "fresh again");
    empty_store();
}

static void test_collision(void)
{
    struct warm_key key = key_of("a"), other = key_of("b");
    struct store_entry entry;
    build(&key, 1);
    memcpy(other.name, key.name, sizeof(other.name));
    is_int(ask(&other, &entry), STORE_BUILD, "another key of the same name does not get the snapshot");
    store_release(&store, &entry);
    empty_store();
}

static void test_full_disk(void)
{
    char *path = arena_printf(&arena, "%s/full", base);
    if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
        skip("a separate file system needs root");
        return;
    }
    if (mkdir(path, 0700) < 0 || mount("tmpfs", path, "tmpfs", 0, "size=256k,mode=0700") < 0)
        bail_out("tmpfs");
    store_close(&store);
    struct error err = {0};
    if (store_open(path, false, &store, &err) < 0)
        bail_out("%s", err.text);
    struct warm_key small = key_of("small"), large = key_of("large"), exact = key_of("exact");
    struct store_entry entry;
    build(&small, 1);
    is_int(ask(&large, &entry), STORE_BUILD, "build it");
    is_int(write_snapshot(entry.out, &large, 100, &err), -ENOSPC, "no space for it");
    store_fail(&store, &entry, &err);
    ok(!there(&large, "") && !there(&large, ".new"), "no part of it remains");
    is_int(ask(&large, &entry), STORE_COLD, "the next one starts cold");
    is_str(entry.reason,
           "the snapshot could not be made, and is not tried again for 60 s (retryAfter in warm.json): write "
           "a page: No "
           "space left on device",
           "and says why");
    is_int(answer(&small), STORE_READY, "the others remain");

    /* Without space for the checksum, the snapshot does not get its name. */
    is_int(ask(&exact, &entry), STORE_BUILD, "build it");
    is_int(write_snapshot(entry.out, &exact, 1, &err), 0, "written");
    cleanup_fd int filler = openat(store.dir, "filler", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    char block[PAGE] = {1};
    while (write(filler, block, sizeof(block)) > 0)
        ;
    is_int(store_commit(&store, &config, &entry, &err), -ENOSPC, "the disk is full at the last moment");
    ok(strstr(err.text, "No space left on device") != NULL, "the error says so: %s", err.text);
    ok(!there(&exact, "") && !there(&exact, ".new") && !there(&exact, ".lock"), "no part of it remains");
    store_close(&store);
    (void)umount2(path, MNT_DETACH);
    (void)rmdir(path);
    open_store();
}

static void test_eviction(void)
{
    struct warm_key keys[4] = {key_of("k0"), key_of("k1"), key_of("k2"), key_of("k3")};
    for (int i = 0; i < 3; i++) {
        build(&keys[i], 100);
        age_file(keys[i].name, 100 * (3 - i));
    }
    store_count_use(&store, keys[0].name); /* the oldest one was used last */
    struct stat st;
    if (fstatat(store.dir, keys[0].name, &st, 0) < 0)
        bail_out("stat");
    config.max_size = 3 * (uint64_t)st.st_size;
    build(&keys[3], 100);
    ok(there(&keys[0], "") && there(&keys[2], "") && there(&keys[3], ""), "those used or built last remain");
    ok(!there(&keys[1], "") && !there(&keys[1], ".sum"),
       "the least recently used one is removed, with all its files");
    /* If both have the same time, the older one comes first in the order. */
    age_file(file_of(&keys[0], ".uses"), -1000);
    config.max_size = (uint64_t)st.st_size * 3 / 2;
    struct warm_key last = key_of("last");
    build(&last, 100);
    ok(there(&last, "") && !there(&keys[0], ""), "the size of the newest snapshot counts before all others");
    config.max_size = 1;
    struct warm_key big = key_of("big");
    build(&big, 100);
    ok(there(&big, ""), "the newest snapshot remains, even with the smallest bound");
    ok(!there(&last, "") && !there(&keys[3], ""), "all others are removed for it");
    empty_store();
}

static void turn_byte(const char *name, off_t at)
{
    cleanup_fd int fd = -1;
    char byte;
    if (fchmodat(store.dir, name, 0600, 0) < 0 || (fd = openat(store.dir, name, O_RDWR | O_CLOEXEC)) < 0)
        bail_out("open the snapshot");
    off_t place = at >= 0 ? at : lseek(fd, at, SEEK_END);
    if (pread(fd, &byte, 1, place) != 1)
        bail_out("read the snapshot");
    byte = (char)(byte ^ 1);
    if (pwrite(fd, &byte, 1, place) != 1)
        bail_out("write the snapshot");
}

static void test_damage(void)
{
    struct warm_key pages = key_of("pages"), tables = key_of("tables"), cut = key_of("cut");
    struct error err = {0};
    struct store_entry entry;
    build(&pages, 4);
    build(&tables, 4);
    build(&cut, 4);
    is_int(store_open_item(&arena, &store, pages.name, true, &entry, &err), 0, "whole: verified");
    store_release(&store, &entry);
    turn_byte(pages.name, -1);
    turn_byte(tables.name, 100);
    is_int(store_open_item(&arena, &store, pages.name, true, &entry, &err), -EUCLEAN,
           "a flipped bit in a page");
    ok(strstr(err.text, "checksum") != NULL, "is named: %s", err.text);
    ok(store_open_item(&arena, &store, tables.name, true, &entry, &err) < 0,
       "a flipped bit in the tables: %s", err.text);
    if (fchmodat(store.dir, cut.name, 0600, 0) < 0)
        bail_out("chmod");
    cleanup_fd int fd = openat(store.dir, cut.name, O_RDWR | O_CLOEXEC);
    if (ftruncate(fd, 100) < 0)
        bail_out("ftruncate");
    is_int(answer(&cut), STORE_BUILD, "a truncated one is rebuilt");
    is_int(answer(&tables), STORE_BUILD, "a damaged one is rebuilt");
    size_t removed;
    struct store_limits limits = {.max_age = 3600, .max_uses = 5, .max_size = UINT64_MAX, .damaged = true};
    is_int(store_prune(&arena, &store, &limits, NULL, &removed, &err), 0, "prune");
    is_int(removed, 3, "removes snapshots with damaged tables or pages");
    is_int(store_open_item(&arena, &store, "../../etc/passwd", false, &entry, &err), -ENOENT,
           "a path is not a key");
    empty_store();
}

static void test_prune(void)
{
    struct warm_key fresh = key_of("fresh"), old = key_of("old"), used = key_of("used"),
                    noted = key_of("noted");
    struct error err = {0};
    size_t removed;
    build(&fresh, 1);
    build(&old, 1);
    build(&used, 1);
    age_file(old.name, 3601);
    for (int i = 0; i < 5; i++)
        store_count_use(&store, used.name);
    struct store_question question = {.key = &noted, .config = &config, .bare = true};
    struct store_entry entry;
    ask_as(&question, &entry);
    age_file(file_of(&noted, ".seen"), 3601);
    struct store_limits limits = {.max_age = 3600, .max_uses = 5, .max_size = UINT64_MAX};
    is_int(store_prune(&arena, &store, &limits, NULL, &removed, &err), 0, "prune");
    is_int(removed, 2, "removes the old one and the one used up");
    ok(there(&fresh, ""), "a fresh one remains");
    ok(!there(&noted, ".seen"), "an old note is removed");
    limits.all = true;
    is_int(store_prune(&arena, &store, &limits, NULL, &removed, &err), 0, "prune all");
    is_int(removed, 1, "removes the rest");
    is_int(count_files(), 0, "nothing remains");
    is_int(store_remove(&store, fresh.name, &err), 0, "removing a missing one is no error");
}

int main(void)
{
    if (mkdtemp(base) == NULL)
        bail_out("cannot make a directory");
    umask(022);
    open_store();
    test_earlier_versions();
    test_life();
    test_failure();
    test_failure_within_limits();
    test_failure_with_damaged_limits();
    test_failure_at_the_end_of_a_second();
    test_stale();
    test_collision();
    test_full_disk();
    test_eviction();
    test_damage();
    test_prune();
    store_close(&store);
    (void)rmdir(arena_printf(&arena, "%s/warm", base));
    (void)rmdir(base);
    arena_free(&arena);
    return done_testing();
}
