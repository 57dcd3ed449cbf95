/* warm/numbering.h, and manifests of directories whose numbers change with each mount: overlays over several
 * file systems. */
#include "warm/numbering.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "unit.h"
#include "warm/manifest/manifest.h"
#include "warm/owners.h"
#include "warm/root_view.h"

#define MOST_TRIES 1000

static char base[] = "/tmp/pysbx-unit.XXXXXX";

static void make(const char *path)
{
    if (mkdir(path, 0755) < 0)
        bail_out("mkdir '%s'", path);
}

static void put(const char *path)
{
    cleanup_fd int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
        bail_out("create '%s'", path);
}

static struct stat status(const char *path)
{
    struct stat st;
    if (lstat(path, &st) < 0)
        bail_out("stat '%s'", path);
    return st;
}

static bool is_same_time(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

/* Make first/lib with a.py and first/empty, and second/lib with b.py instead. Both directories lib have the
 * same times, size and mode. */
static void make_layers(void)
{
    make("one");
    make("two");
    if (mount("tmpfs", "one", "tmpfs", 0, "mode=0755") < 0 ||
        mount("tmpfs", "two", "tmpfs", 0, "mode=0755") < 0)
        bail_out("tmpfs");
    make("two/layer");
    put("two/layer/other");
    for (int tries = 0; tries < MOST_TRIES; tries++) {
        make("one/first");
        make("one/second");
        make("one/first/lib");
        make("one/second/lib");
        put("one/first/lib/a.py");
        put("one/second/lib/b.py");
        struct stat a = status("one/first/lib"), b = status("one/second/lib");
        if (a.st_size == b.st_size && is_same_time(a.st_mtim, b.st_mtim) &&
            is_same_time(a.st_ctim, b.st_ctim)) {
            make("one/first/empty");
            return;
        }
        unlink("one/first/lib/a.py");
        unlink("one/second/lib/b.py");
        if (rmdir("one/first/lib") < 0 || rmdir("one/second/lib") < 0 || rmdir("one/first") < 0 ||
            rmdir("one/second") < 0)
            bail_out("rmdir");
    }
    bail_out("no two directories have the same time");
}

static bool overlay(const char *options)
{
    return mount("overlay", "root/packages", "overlay", MS_RDONLY, options) == 0;
}

static void leave(void)
{
    if (umount2("root/packages", 0) < 0)
        bail_out("umount");
}

static bool lasts(const char *path)
{
    cleanup_fd int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return numbering_lasts(fd);
}

#define SEVERAL ":two/layer,xino=off"

/* The answer is kept for a device. So each overlay is asked in a process of its own. */
static void test_numbering(void)
{
    static const struct {
        const char *options, *path;
        bool lasts;
    } cases[] = {
        {"lowerdir=one/first" SEVERAL, "root/packages/lib", false},
        {"lowerdir=one/first" SEVERAL, "root/packages", false},
        {"lowerdir=one/first" SEVERAL, "root/packages/empty", false},
        {"lowerdir=one/first:two/layer,xino=on", "root/packages/lib", true},
        {"lowerdir=one/first:one/second", "root/packages/lib", true},
        {"lowerdir=one/first:one/second", "root/packages/empty", true},
        {"lowerdir=one/first" SEVERAL, "one/first/lib", true},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (!overlay(cases[i].options))
            bail_out("overlay '%s'", cases[i].options);
        fflush(stdout);
        pid_t pid = fork();
        int state = 0;
        if (pid == 0)
            _exit(lasts(cases[i].path));
        waitpid(pid, &state, 0);
        is_int(WEXITSTATUS(state), cases[i].lasts, "%s: the number of '%s' %s", cases[i].options,
               cases[i].path, cases[i].lasts ? "lasts" : "changes");
        leave();
    }
}

static int verify(const struct manifest *m, const struct root_view *view, struct error *err)
{
    *err = (struct error){0};
    return manifest_verify(m, view, NULL, err);
}

/* Reports of a path that is a directory itself, and of one that is a name in a directory. */
static void test_manifest(const char *report, size_t size)
{
    static const struct owners owners = {.text = "same"};
    static const char key_text[] = "kernel=6";
    struct arena a = {0};
    struct error err = {0};
    struct warm_key key = {.text = key_text, .size = sizeof(key_text)};
    cleanup_fd int root = open("root", O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct root_view view = {.root = root};
    struct manifest_source source = {.report = report,
                                     .report_size = size,
                                     .key = &key,
                                     .envp = (char *[]){NULL},
                                     .view = &view,
                                     .owners = &owners,
                                     .builder = "1.0-test",
                                     .began = INT64_MAX};
    void *data;
    size_t length;
    struct manifest *m;
    const char *what = report + sizeof("v3.11.2");
    key_name(key.text, key.size, key.name);
    if (!overlay("lowerdir=one/first" SEVERAL))
        bail_out("overlay");
    uint64_t number = status("root/packages/lib").st_ino;
    if (manifest_build(&a, &source, &data, &length, &err) < 0 ||
        manifest_open(&a, data, length, &m, &err) < 0)
        bail_out("%s", err.text);
    is_int(verify(m, &view, &err), 0, "%s: the manifest fits its own mount", what);
    leave();
    if (!overlay("lowerdir=one/first" SEVERAL))
        bail_out("overlay");
    status("root/packages/empty"); /* the order of the lookups decides about the numbers */
    ok(status("root/packages/lib").st_ino != number, "%s: another mount gives another number", what);
    if (!is_int(verify(m, &view, &err), 0, "%s: the manifest fits the other mount", what))
        diag("%s", err.text);
    leave();
    if (!overlay("lowerdir=one/second" SEVERAL))
        bail_out("overlay");
    is_int(verify(m, &view, &err), -ESTALE,
           "%s: a directory of the same time with other names is another one", what);
    is_str(err.text, "'/packages/lib' has changed", "%s: the reason is given", what);
    leave();
    arena_free(&a);
}

#define MANIFEST(records) test_manifest("v3.11.2\0" records "\0r", sizeof("v3.11.2\0" records "\0r"))

int main(void)
{
    if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
        skip("mounts need root");
        return done_testing();
    }
    if (mkdtemp(base) == NULL || mount("tmpfs", base, "tmpfs", 0, "mode=0755") < 0 || chdir(base) < 0)
        bail_out("tmpfs");
    make("root");
    make("root/packages");
    make_layers();
    test_numbering();
    MANIFEST("d/packages/lib");
    MANIFEST("f/packages/lib");
    if (chdir("/") < 0 || umount2(base, MNT_DETACH) < 0 || rmdir(base) < 0)
        bail_out("remove '%s'", base);
    return done_testing();
}
