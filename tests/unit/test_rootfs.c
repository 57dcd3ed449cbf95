/* sandbox/mount/rootfs.h in new namespaces: obstacles that an image can put at the path of a mount or a
 * device. None of them affects the host. Needs root. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/sys.h"
#include "sandbox/mount/rootfs.h"
#include "spec/spec.h"
#include "unit.h"

#define PROC "{\"destination\":\"/proc\",\"type\":\"proc\",\"source\":\"proc\"}"
#define DEV                                                                                                  \
    "{\"destination\":\"/dev\",\"type\":\"tmpfs\",\"source\":\"tmpfs\","                                     \
    "\"options\":[\"mode=755\"]}"
#define NOTHING "{\"destination\":\"/unused\",\"type\":\"tmpfs\",\"source\":\"tmpfs\"}"

static struct arena arena;
static char bundle[64];

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

static void remove_bundle(void)
{
    if (bundle[0] != '\0')
        nftw(bundle, remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    bundle[0] = '\0';
}

/* Return a path below the bundle. */
static const char *in(const char *path)
{
    return arena_printf(&arena, "%s/%s", bundle, path);
}

/* Create an empty root file system and, next to it, a directory "host" with a file in it. */
static void new_bundle(void)
{
    remove_bundle();
    strcpy(bundle, "/tmp/test-rootfs.XXXXXX");
    if (mkdtemp(bundle) == NULL || mkdir(in("rootfs"), 0755) < 0 || mkdir(in("host"), 0755) < 0)
        bail_out("make a bundle: %s", strerror(errno));
    int fd = open(in("host/file"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, "text", 4) != 4)
        bail_out("make a file: %s", strerror(errno));
    close(fd);
}

static void link_in_rootfs(const char *name, const char *target)
{
    if (symlink(target, in(arena_printf(&arena, "rootfs/%s", name))) < 0)
        bail_out("symlink '%s': %s", name, strerror(errno));
}

static struct spec *make_spec(const char *mounts, const char *linux_)
{
    struct spec *spec;
    struct error err = {0};
    const char *text =
        arena_printf(&arena,
                     "{\"ociVersion\":\"1.3.0\",\"root\":{\"path\":\"rootfs\"},\"mounts\":[%s],"
                     "\"linux\":{%s}}",
                     mounts, linux_);
    if (spec_parse(&arena, text, strlen(text), &spec, &err) < 0)
        bail_out("%s: %s", text, err.text);
    return spec;
}

/* In the child: enter the root, then ask the question. */
static _Noreturn void enter(struct rootfs_plan *plan, bool (*question)(void), struct error *err)
{
    int ret = rootfs_mount(plan, err);
    if (ret == 0)
        ret = rootfs_mount_late(plan, err);
    if (ret == 0)
        ret = rootfs_finish(plan, err);
    if (ret == 0)
        ret = rootfs_pivot(plan, err);
    _exit(ret < 0 ? 1 : question() ? 0 : 2);
}

/* Build the root from config.json's mounts and linux parts in new namespaces, and ask a question inside.
 * Return "yes", "no", or the error's message. */
static const char *ask(const char *mounts, const char *linux_, bool (*question)(void))
{
    struct spec *spec = make_spec(mounts, linux_);
    const struct rootfs_context context = {.joined_userns = -1,
                                           .bundle = bundle,
                                           .parent_privileged = true,
                                           .new_pid = true,
                                           .new_ipc = true,
                                           .cgroup_path = ""};
    struct rootfs_plan *plan;
    /* Shared with the child, which sets it. */
    struct error *err = mmap(NULL, sizeof(*err), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (err == MAP_FAILED)
        bail_out("mmap: %s", strerror(errno));
    if (rootfs_plan(&arena, spec, &context, &plan, err) < 0 || rootfs_prepare(plan, err) < 0)
        return arena_strdup(&arena, err->text);
    struct clone_args args = {.flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC, .exit_signal = SIGCHLD};
    pid_t pid = sys_clone3(&args, sizeof(args));
    if (pid < 0)
        bail_out("clone3: %s", strerror(errno));
    if (pid == 0)
        enter(plan, question, err);
    rootfs_release(plan);
    int status;
    if (waitpid(pid, &status, 0) < 0 || !WIFEXITED(status))
        bail_out("the child did not exit");
    const char *answers[] = {"yes", arena_strdup(&arena, err->text), "no"};
    munmap(err, sizeof(*err));
    return answers[WEXITSTATUS(status) % 3];
}

static bool yes(void)
{
    return true;
}

static void refuses(const char *mounts, const char *linux_, const char *text, const char *name)
{
    const char *answer = ask(mounts, linux_, yes);
    if (!ok(strstr(answer, text) != NULL, "%s", name))
        diag("got '%s'", answer);
}

static const char *bind(const char *target, const char *source, const char *options)
{
    return arena_printf(
        &arena, "{\"destination\":\"%s\",\"type\":\"bind\",\"source\":\"%s\",\"options\":[\"bind\"%s]}",
        target, in(source), options);
}

static bool reads_text(const char *path)
{
    char buf[8];
    return io_read_small_at(AT_FDCWD, path, buf, sizeof(buf)) == 4 && strcmp(buf, "text") == 0;
}

static bool file_in_place(void)
{
    return reads_text("/a/b/file");
}

static bool file_behind_links(void)
{
    return reads_text("/etc/resolv.conf") && reads_text("/run/stub/resolv.conf");
}

static void test_targets(void)
{
    new_bundle();
    is_str(ask(bind("/a/b/file", "host/file", ""), "", file_in_place), "yes",
           "a missing target and its parents are created");
    new_bundle();
    mkdir(in("rootfs/etc"), 0755);
    link_in_rootfs("etc/resolv.conf", "../run/stub/resolv.conf");
    is_str(ask(bind("/etc/resolv.conf", "host/file", ""), "", file_behind_links), "yes",
           "a target that is a dangling link: the link's target is created");
    new_bundle();
    link_in_rootfs("out", in("host"));
    ask(bind("/out/made", "host/file", ""), "", yes);
    ok(access(in("host/made"), F_OK) < 0, "a link to the host leads nowhere outside (CVE-2019-18837)");
    new_bundle();
    refuses(bind("/data", "host/none", ""), "", "mount source", "a missing source is named");
    refuses("{\"destination\":\"/x\",\"type\":\"tmpfs\",\"options\":[\"nonsense=1\"]}", "",
            "option 'nonsense=1'", "an option the file system does not know is named");
}

static bool late_readonly(void)
{
    return access("/data/inner", F_OK) == 0 && mkdir("/data/new", 0755) < 0 && errno == EROFS;
}

static void test_readonly(void)
{
    new_bundle();
    is_str(ask(arena_printf(&arena, "%s,{\"destination\":\"/data/inner\",\"type\":\"tmpfs\"}",
                            bind("/data", "host", ",\"ro\"")),
               "", late_readonly),
           "yes", "a mount inside a read-only one gets its target, which is read-only afterwards");
}

static bool copied_up(void)
{
    struct stat dir, file, link;
    return stat("/up", &dir) == 0 && (dir.st_mode & 07777) == 01750 && dir.st_uid == 7 &&
           stat("/up/sub/program", &file) == 0 && (file.st_mode & 07777) == 04711 && file.st_gid == 9 &&
           lstat("/up/link", &link) == 0 && S_ISLNK(link.st_mode) && unlink("/up/link") == 0;
}

static void test_copy_up(void)
{
    new_bundle();
    mkdir(in("rootfs/up"), 0755);
    mkdir(in("rootfs/up/sub"), 0755);
    close(open(in("rootfs/up/sub/program"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    if (chown(in("rootfs/up/sub/program"), 8, 9) < 0 || chmod(in("rootfs/up/sub/program"), 04711) < 0 ||
        chown(in("rootfs/up"), 7, 7) < 0 || chmod(in("rootfs/up"), 01750) < 0)
        bail_out("chown: %s", strerror(errno));
    link_in_rootfs("up/link", "/etc/passwd");
    is_str(ask("{\"destination\":\"/up\",\"type\":\"tmpfs\",\"options\":[\"tmpcopyup\"]}", "", copied_up),
           "yes", "tmpcopyup keeps owners, modes and links");
    struct stat st;
    ok(lstat(in("rootfs/up/link"), &st) == 0, "files removed from the tmpfs remain in the image");
}

static void test_proc(void)
{
    new_bundle();
    link_in_rootfs("proc", "tmp");
    refuses(PROC, "", "symbolic link", "a /proc that is a link is refused (CVE-2019-19921)");
    new_bundle();
    link_in_rootfs("sys", "/");
    refuses("{\"destination\":\"/sys\",\"type\":\"sysfs\"}", "", "symbolic link",
            "a /sys that is a link is refused (CVE-2023-28642)");
}

static bool masked(void)
{
    struct stat st;
    return stat("/secret", &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3) &&
           access("/hidden/inner", F_OK) < 0 && mkdir("/hidden/x", 0755) < 0 && errno == EROFS &&
           mkdir("/kept/x", 0755) < 0 && errno == EROFS && access("/kept/inner", F_OK) == 0;
}

static void test_masks(void)
{
    new_bundle();
    close(open(in("rootfs/secret"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    const char *const dirs[] = {"rootfs/hidden", "rootfs/hidden/inner", "rootfs/kept", "rootfs/kept/inner"};
    for (size_t i = 0; i < 4; i++)
        mkdir(in(dirs[i]), 0755);
    is_str(
        ask(DEV,
            "\"maskedPaths\":[\"/secret\",\"/hidden\",\"/missing\"],\"readonlyPaths\":[\"/kept\",\"/none\"]",
            masked),
        "yes", "masked files and directories, read-only paths; missing ones are passed over");
}

static bool default_devices(void)
{
    struct stat st;
    char link[16];
    return stat("/dev/full", &st) == 0 && st.st_rdev == makedev(1, 7) && (st.st_mode & 07777) == 0666 &&
           readlink("/dev/ptmx", link, sizeof(link)) == 8 && lstat("/dev/fd", &st) == 0;
}

static bool bound_device(void)
{
    struct stat st;
    return stat("/dev/null", &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3);
}

static void test_devices(void)
{
    struct stat st;
    new_bundle();
    is_str(ask(DEV, "", default_devices), "yes", "default devices and links");
    new_bundle();
    link_in_rootfs("dev", in("host"));
    ask(NOTHING, "", yes);
    ok(access(in("host/null"), F_OK) < 0, "a /dev that is a link gets no devices outside (CVE-2026-47766)");
    new_bundle();
    mkdir(in("rootfs/dev"), 0755);
    link_in_rootfs("dev/null", in("host/file"));
    refuses(NOTHING, "", "'/dev/null' exists", "a /dev/null that is a link is refused (CVE-2026-88265)");
    ok(stat(in("host/file"), &st) == 0 && (st.st_mode & 07777) == 0644 && S_ISREG(st.st_mode),
       "its target does not change");
    new_bundle();
    mkdir(in("rootfs/dev"), 0755);
    close(open(in("rootfs/dev/null"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    is_str(ask(NOTHING, "", bound_device), "yes", "a device covers a file at its path");
}

int main(void)
{
    if (geteuid() != 0) {
        skip("needs root");
        return done_testing();
    }
    umask(022);
    test_targets();
    test_readonly();
    test_copy_up();
    test_proc();
    test_masks();
    test_devices();
    remove_bundle();
    arena_free(&arena);
    return done_testing();
}
