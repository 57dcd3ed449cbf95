/*
 * The kernel's cost of a container, the minimum for any runtime: all namespaces except user and time, the
 * usual file systems, pivot_root, and execve of the program. See namespaces(7), clone(2), pivot_root(2).
 */
#include <err.h>
#include <errno.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct filesystem {
    const char *type;
    const char *target;
    unsigned long flags;
    const char *data;
};

static const struct filesystem filesystems[] = {
    {"proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL},
    {"sysfs", "sys", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY, NULL},
    {"tmpfs", "dev", MS_NOSUID | MS_STRICTATIME, "mode=755,size=65536k"},
    {"tmpfs", "dev/shm", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=1777,size=65536k"},
    {"mqueue", "dev/mqueue", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL},
};

static void enter_rootfs(const char *rootfs)
{
    if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
        err(1, "make / a slave");
    if (mount(rootfs, rootfs, NULL, MS_BIND | MS_REC, NULL) < 0)
        err(1, "bind '%s'", rootfs);
    if (chdir(rootfs) < 0)
        err(1, "chdir '%s'", rootfs);
    for (size_t i = 0; i < sizeof filesystems / sizeof filesystems[0]; i++) {
        const struct filesystem *fs = &filesystems[i];

        if (mkdir(fs->target, 0755) < 0 && errno != EEXIST)
            err(1, "mkdir '%s'", fs->target);
        if (mount(fs->type, fs->target, fs->type, fs->flags, fs->data) < 0)
            err(1, "mount '%s'", fs->target);
    }
    if (syscall(SYS_pivot_root, ".", ".") < 0)
        err(1, "pivot_root");
    if (umount2(".", MNT_DETACH) < 0)
        err(1, "umount the old root");
}

int main(int argc, char **argv)
{
    struct clone_args args = {
        .flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP,
        .exit_signal = SIGCHLD,
    };
    int status;

    if (argc < 3)
        errx(2, "usage: floor ROOTFS PROGRAM [ARG...]");
    long pid = syscall(SYS_clone3, &args, sizeof args);

    if (pid < 0)
        err(1, "clone3");
    if (pid == 0) {
        enter_rootfs(argv[1]);
        execv(argv[2], argv + 2);
        err(1, "exec '%s'", argv[2]);
    }
    if (waitpid((pid_t)pid, &status, 0) < 0)
        err(1, "waitpid");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
