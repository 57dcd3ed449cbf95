/* The observer: it handles one notification after the other, seccomp_unotify(2). */
#include "warm/observe/observe.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/proc.h"
#include "base/str.h"
#include "warm/observe/mounts.h"
#include "warm/params.h"
#include "warm/question.h"

#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS      SECCOMP_IOW(4, __u64)
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#endif

#ifndef SECCOMP_ADDFD_FLAG_SEND
#define SECCOMP_ADDFD_FLAG_SEND (1UL << 1) /* Linux 5.14 */
#endif

/* The maximum number of records that one builder can make the runtime keep: a report has no more. */
#define RECORDS_MAX 200000
#define RECORD_MAX  (PATH_MAX + 2)
#define SLOTS       (1U << 19) /* of the set: a power of two, and never full */

struct observer {
    struct arena *arena;
    int listener;
    enum observe_mode mode;
    bool stopped;
    bool executed;                 /* the interpreter: earlier calls are the runtime's own */
    bool begun;                    /* the imports */
    pid_t quiet;                   /* the thread that asks whether a path exists, or 0 */
    struct seccomp_notif *request; /* of the size that the kernel uses */
    struct seccomp_notif_resp *response;
    size_t request_size, response_size;
    uint64_t *slots; /* hashes of the records, 0: free */
    char *data;
    size_t size, room, count;
};

int observer_new(struct arena *a, int listener, enum observe_mode mode, struct observer **out,
                 struct error *err)
{
    struct seccomp_notif_sizes sizes;
    if (syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) < 0)
        return error_set(err, -errno, "ask for the sizes of seccomp notifications");
    struct observer *o = ARENA_NEW(a, struct observer);
    *o = (struct observer){.arena = a, .listener = listener, .mode = mode};
    o->request_size = sizes.seccomp_notif > sizeof(*o->request) ? sizes.seccomp_notif : sizeof(*o->request);
    o->response_size =
        sizes.seccomp_notif_resp > sizeof(*o->response) ? sizes.seccomp_notif_resp : sizeof(*o->response);
    o->request = arena_alloc(a, o->request_size);
    o->response = arena_alloc(a, o->response_size);
    o->slots = ARENA_ARRAY(a, SLOTS, uint64_t);
    o->room = (size_t)256 * 1024;
    o->data = arena_alloc(a, o->room);
    /* Linux 6.6: the process is woken on this CPU, which halves the time of a call. */
    (void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
    *out = o;
    return 0;
}

/* Return whether the record is the first of its kind. */
static bool is_new(struct observer *o, const char *record, size_t size)
{
    uint64_t hash = hash_bytes(record, size).a | 1;
    for (size_t i = hash & (SLOTS - 1);; i = (i + 1) & (SLOTS - 1)) {
        if (o->slots[i] == hash)
            return false;
        if (o->slots[i] != 0)
            continue;
        o->slots[i] = hash;
        return true;
    }
}

/* A record is lost only if there are far too many, and the last one says so. */
static void note(struct observer *o, char kind, const char *text)
{
    char record[RECORD_MAX];
    if (o->count == RECORDS_MAX)
        return;
    if (++o->count == RECORDS_MAX) {
        kind = 'H';
        text = "ask for too many files";
    }
    int length = snprintf(record, sizeof(record), "%c%s", kind, text);
    size_t size = (size_t)length + 1;
    if (size > sizeof(record) || (kind != 'u' && !is_new(o, record, size)))
        return;
    if (o->size + size > o->room) {
        char *larger = arena_alloc(o->arena, 2 * o->room);
        memcpy(larger, o->data, o->size);
        o->data = larger;
        o->room *= 2;
    }
    memcpy(o->data + o->size, record, size);
    o->size += size;
}

static void begin_imports(struct observer *o)
{
    memset(o->slots, 0, SLOTS * sizeof(*o->slots));
    note(o, 'B', "");
    o->begun = true;
}

/* Read memory of the waiting process. Return 0 or negative errno. */
static int read_memory(pid_t pid, uint64_t address, void *out, size_t size)
{
    struct iovec local = {out, size}, remote = {(void *)(uintptr_t)address, size};
    ssize_t n = process_vm_readv(pid, &local, 1, &remote, 1, 0);
    return n < 0 ? -errno : n == (ssize_t)size ? 0 : -EFAULT;
}

/* Read a string page by page, because the next page may not exist. */
static int read_string(pid_t pid, uint64_t address, char out[static PATH_MAX])
{
    const size_t page = 4096;
    for (size_t at = 0; at < PATH_MAX;) {
        size_t size = page - (address + at) % page;
        if (size > PATH_MAX - at)
            size = PATH_MAX - at;
        int ret = read_memory(pid, address + at, out + at, size);
        if (ret < 0)
            return ret;
        if (memchr(out + at, '\0', size) != NULL)
            return 0;
        at += size;
    }
    return -ENAMETOOLONG;
}

/* Read the target of a link of the process, as the process sees it: "cwd" or "fd/N". */
static int read_link(pid_t pid, const char *name, char out[static PATH_MAX])
{
    struct error ignored = {0};
    cleanup_fd int dir = proc_open_process(pid, &ignored);
    ssize_t n = dir < 0 ? -1 : readlinkat(dir, name, out, PATH_MAX - 1);
    if (n < 0)
        return dir < 0 ? dir : -errno;
    out[n] = '\0';
    return out[0] == '/' ? 0 : -ENOTDIR; /* a pipe, a socket, a file in memory */
}

/* Remove "//" and "/./"; ".." stays, because the name before it may be a link. */
static void tidy(char *path)
{
    char *to = path;
    for (const char *from = path; *from != '\0';) {
        bool nothing =
            *from == '/' && (from[1] == '/' || (from[1] == '.' && (from[2] == '/' || from[2] == '\0')));
        if (!nothing)
            *to++ = *from++;
        else
            from += from[1] == '/' ? 1 : 2;
    }
    if (to == path && path[0] == '/')
        to++;
    *to = '\0';
}

static int join(char out[static PATH_MAX], const char *base, const char *rest)
{
    int n = snprintf(out, PATH_MAX, "%s%s%s", base, rest[0] == '/' || rest[0] == '\0' ? "" : "/", rest);
    return n >= PATH_MAX ? -ENAMETOOLONG : 0;
}

/* Return the part after the directory of a process in /proc, or NULL: "/proc/self/fd/3" gives "fd/3". */
static const char *in_process(const char *path)
{
    const char *rest = str_after(path, "/proc/self/");
    if (rest == NULL)
        rest = str_after(path, "/proc/thread-self/");
    if (rest == NULL && (rest = str_after(path, "/proc/")) != NULL) {
        size_t digits = strspn(rest, "0123456789");
        rest = digits > 0 && rest[digits] == '/' ? rest + digits + 1 : NULL;
    }
    return rest;
}

/* Follow links of /proc whose targets no path can name: root, working directory and open files of the
 * process. */
static int follow_magic(pid_t pid, char path[static PATH_MAX])
{
    char rest[PATH_MAX], link[PATH_MAX], name[32];
    const char *in = in_process(path);
    if (in == NULL && (in = str_after(path, "/dev/fd/")) != NULL)
        in -= strlen("fd/");
    if (in == NULL)
        return 0;
    size_t length = strncmp(in, "fd/", 3) == 0 ? 3 + strspn(in + 3, "0123456789") : strcspn(in, "/");
    if (length >= sizeof(name) || (in[length] != '/' && in[length] != '\0'))
        return 0;
    memcpy(name, in, length);
    name[length] = '\0';
    memcpy(rest, in + length, strlen(in + length) + 1);
    if (str_eq(name, "root"))
        return join(path, "", rest[0] != '\0' ? rest : "/");
    if (!str_eq(name, "cwd") && !(strncmp(name, "fd/", 3) == 0 && name[3] != '\0'))
        return 0;
    int ret = read_link(pid, name, link);
    return ret < 0 ? ret : join(path, link, rest);
}

/* Read the path of a call as the process sees it, absolute. -ENOENT: it names nothing. */
static int read_path(const struct observer *o, const struct observed_call *call, char out[static PATH_MAX])
{
    char path[PATH_MAX], base[PATH_MAX], name[32];
    pid_t pid = (pid_t)o->request->pid;
    const __u64 *args = o->request->data.args;
    int ret = read_string(pid, args[call->subject], path);
    if (ret < 0)
        return ret;
    if (path[0] == '/') {
        memcpy(out, path, strlen(path) + 1);
    } else {
        int directory = call->directory < 0 ? AT_FDCWD : (int)args[call->directory];
        snprintf(name, sizeof(name), "fd/%d", directory);
        ret = read_link(pid, directory == AT_FDCWD ? "cwd" : name, base);
        if (ret < 0)
            return ret == -ENOTDIR ? -ENOENT : ret;
        ret = path[0] == '\0' && directory == AT_FDCWD ? -ENOENT : join(out, base, path);
    }
    /* A link of /proc may lead into /proc again. */
    for (int i = 0; ret == 0 && i < 8; i++) {
        size_t before = strlen(out);
        tidy(out);
        ret = follow_magic(pid, out);
        if (ret == -ENOTDIR)
            return -ENOENT;
        if (i > 0 && strlen(out) == before)
            break;
    }
    return ret;
}

static void note_address(struct observer *o, uint64_t address, uint64_t size)
{
    union {
        struct sockaddr any;
        struct sockaddr_un local;
        char bytes[sizeof(struct sockaddr_un) + 1];
    } name = {0};
    if (size > sizeof(name.local))
        size = sizeof(name.local);
    if (size < sizeof(name.any.sa_family) ||
        read_memory((pid_t)o->request->pid, address, &name, (size_t)size) < 0)
        return;
    if (name.any.sa_family != AF_UNIX)
        note(o, 'N', "");
    else if (name.local.sun_path[0] == '/')
        note(o, 'c', name.local.sun_path);
    else if (size > sizeof(name.any.sa_family))
        note(o, 'H', "connect to a socket that has no absolute path");
}

/* A port with any number is free for everyone; a chosen one may be in use elsewhere. */
static void note_own_address(struct observer *o, uint64_t address, uint64_t size)
{
    struct sockaddr_in name = {0}; /* IPv6 begins in the same way */
    if (size < sizeof(name) || read_memory((pid_t)o->request->pid, address, &name, sizeof(name)) < 0)
        return;
    if ((name.sin_family == AF_INET || name.sin_family == AF_INET6) && name.sin_port != 0)
        note(o, 'N', "");
}

static void note_message(struct observer *o, uint64_t address)
{
    struct msghdr message = {0}; /* also the first member of struct mmsghdr */
    if (read_memory((pid_t)o->request->pid, address, &message, sizeof(message)) == 0 &&
        message.msg_name != NULL)
        note_address(o, (uint64_t)(uintptr_t)message.msg_name, message.msg_namelen);
}

static void note_made(struct observer *o, const char *path)
{
    note(o, 'p', path);
    note(o, 'm', path);
}

static void note_open(struct observer *o, uint64_t flags, const char *path)
{
    if ((flags & O_CREAT) != 0)
        note(o, 'm', path);
    bool reads = (flags & O_ACCMODE) != O_WRONLY;
    note(o, (flags & O_PATH) != 0 ? 's' : reads ? 'o' : 'p', path);
}

static void note_program(struct observer *o, const char *path)
{
    note(o, 'o', path);
    note(o, 'x', path);
}

/* libselinux asks whether a file system of the kernel exists, the C library asks for /dev/shm. */
static void note_file_system(struct observer *o, const char *path)
{
    if (str_after(path, "/sys/") == NULL && str_after(path, "/proc/") == NULL &&
        str_after(path, "/dev/") == NULL)
        note(o, 'f', path);
}

static void note_path(struct observer *o, const struct observed_call *call)
{
    char path[PATH_MAX];
    const __u64 *args = o->request->data.args;
    pid_t pid = (pid_t)o->request->pid;
    struct open_how how = {0};
    o->executed |= call->kind == OBSERVED_EXECUTE;
    int ret = read_path(o, call, path);
    if (ret == 0 && call->kind == OBSERVED_OPEN2)
        ret = read_memory(pid, args[call->detail], &how, sizeof(how));
    /* Either the call fails too, or its process has ended. Before its first program, the runtime's child may
     * be non-dumpable, and executes the program that the runtime has found. */
    if (ret == -EFAULT || ret == -ENOENT || ret == -ENAMETOOLONG || ret == -ESRCH ||
        (ret < 0 && call->kind == OBSERVED_EXECUTE))
        return;
    if (ret < 0) {
        note(o, 'H', "do something that cannot be observed");
        return;
    }
    const char *variable = str_after(path, WARM_VARIABLES), *quiet = str_after(path, WARM_QUIET);
    if (quiet != NULL && *quiet == 'B')
        begin_imports(o);
    else if (quiet != NULL)
        o->quiet = *quiet == '1' ? pid : 0;
    else if (variable != NULL)
        note(o, 'e', variable);
    else if (o->quiet == pid)
        note(o, 'p', path);
    else if (call->kind == OBSERVED_SPACE)
        note_file_system(o, path);
    else if (call->kind == OBSERVED_EXECUTE)
        note_program(o, path);
    else if (call->kind == OBSERVED_MADE)
        note_made(o, path);
    else if (call->kind == OBSERVED_OPEN || call->kind == OBSERVED_OPEN2)
        note_open(o, call->kind == OBSERVED_OPEN ? args[call->detail] : how.flags, path);
    else
        note(o, call->kind == OBSERVED_STATUS ? 's' : 'p', path);
}

/* A process whose parent waits until it has executed a program only prepares that: vfork(2),
 * posix_spawn(3). */
static void note_clone(struct observer *o, uint64_t flags)
{
    if ((flags & (CLONE_THREAD | CLONE_VFORK)) == 0)
        note(o, 'F', "");
}

static void note_clone3(struct observer *o, uint64_t address)
{
    uint64_t flags = 0; /* the first member */
    (void)read_memory((pid_t)o->request->pid, address, &flags, sizeof(flags));
    note_clone(o, flags);
}

static void note_limit(struct observer *o, uint64_t number)
{
    char question[32];
    snprintf(question, sizeof(question), "%s%u", QUESTION_LIMIT, (unsigned)number);
    note(o, 'q', question);
}

static void note_call(struct observer *o)
{
    const struct seccomp_data *data = &o->request->data;
    const struct observed_call *call = data->arch == AUDIT_ARCH_X86_64 ? observed_call(data->nr) : NULL;
    if (call == NULL) {
        note(o, 'H', "make system calls of another architecture");
        return;
    }
    bool own = call->kind == OBSERVED_LIMIT || call->kind == OBSERVED_QUESTION || call->number == SYS_prctl;
    if (own && !o->executed)
        return;
    switch (call->kind) {
    case OBSERVED_ADDRESS:
        note_address(o, data->args[call->subject], data->args[call->detail]);
        break;
    case OBSERVED_OWN:
        note_own_address(o, data->args[call->subject], data->args[call->detail]);
        break;
    case OBSERVED_MESSAGE:
        note_message(o, data->args[call->subject]);
        break;
    case OBSERVED_FAMILY:
        note(o, 'N', "");
        break;
    case OBSERVED_HOST:
        note(o, 'u', "");
        break;
    case OBSERVED_FORK:
        note_clone(o, data->nr == SYS_clone ? data->args[0] : data->nr == SYS_vfork ? CLONE_VFORK : 0);
        break;
    case OBSERVED_CLONE3:
        note_clone3(o, data->args[call->subject]);
        break;
    case OBSERVED_LIMIT:
        note_limit(o, data->args[call->subject]);
        break;
    case OBSERVED_QUESTION:
        note(o, 'q', call->phrase);
        break;
    case OBSERVED_HIDDEN:
        note(o, 'H', call->phrase);
        break;
    case OBSERVED_OUTPUT: /* that of the imports is in a file in memory, and a process that they start has its
                             own */
        if (!o->begun)
            note(o, 'P', "");
        break;
    default:
        note_path(o, call);
        break;
    }
}

/* Return the name of the list of mounts that a builder opens, or NULL. */
static const char *mounts_of(const struct observer *o)
{
    char path[PATH_MAX];
    const struct observed_call *call = observed_call(o->request->data.nr);
    if (o->request->data.arch != AUDIT_ARCH_X86_64 || call == NULL || read_path(o, call, path) < 0)
        return NULL;
    const char *in = in_process(path);
    if (str_eq(path, "/proc/mounts") || (in != NULL && str_eq(in, "mounts")))
        return "mounts";
    return in != NULL && str_eq(in, "mountinfo") ? "mountinfo" : NULL;
}

/* Answer the call that opens its mounts with another file. */
static int give_mounts(const struct observer *o, const char *name, struct error *err)
{
    cleanup_fd int fd = observe_mounts(o->arena, (pid_t)o->request->pid, name);
    struct seccomp_notif_addfd answer = {
        .id = o->request->id, .flags = SECCOMP_ADDFD_FLAG_SEND, .srcfd = (__u32)fd, .newfd_flags = O_CLOEXEC};
    if (fd < 0)
        return error_set(err, fd, "write the list of the builder's mounts");
    if (ioctl(o->listener, SECCOMP_IOCTL_NOTIF_ADDFD, &answer) < 0 && errno != ENOENT)
        return error_set(err, -errno, "answer a seccomp notification with a file");
    return 0;
}

static bool is_input(const struct observer *o)
{
    return o->request->data.arch == AUDIT_ARCH_X86_64 && o->request->data.nr == SYS_read;
}

int observer_serve(struct observer *o, struct error *err)
{
    memset(o->request, 0, o->request_size);
    if (ioctl(o->listener, SECCOMP_IOCTL_NOTIF_RECV, o->request) < 0)
        return errno == EINTR || errno == ENOENT ? 0
                                                 : error_set(err, -errno, "receive a seccomp notification");
    const char *mounts = o->mode == OBSERVE_BUILDER ? mounts_of(o) : NULL;
    if (mounts != NULL)
        return give_mounts(o, mounts, err);
    bool notes = o->mode == OBSERVE_PROBE && !o->stopped;
    if (notes && is_input(o))
        return error_text(err, -ENOTSUP, "the imports read standard input");
    if (notes)
        note_call(o);
    memset(o->response, 0, o->response_size);
    o->response->id = o->request->id;
    o->response->flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    if (ioctl(o->listener, SECCOMP_IOCTL_NOTIF_SEND, o->response) < 0 && errno != ENOENT &&
        errno != EINPROGRESS)
        return error_set(err, -errno, "answer a seccomp notification");
    return 0;
}

void observer_stop(struct observer *o, const char **data, size_t *size)
{
    o->stopped = true;
    *data = o->data;
    *size = o->size;
}
