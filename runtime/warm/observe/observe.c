/* The observer: it handles one notification after the other, seccomp_unotify(2). */
#include "warm/observe/observe.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/path.h"
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
#define POLLED_MAX  1024       /* descriptors of one poll(2) that are looked at */
#define SLOTS       (1U << 19) /* of the set: a power of two, and never full */

struct observer {
    struct arena *arena;
    int listener;
    enum observe_mode mode;
    bool stopped;
    bool executed;                 /* the interpreter: earlier calls are the runtime's own */
    pid_t interpreter;             /* or one of its threads */
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
    o->interpreter = (pid_t)o->request->pid;
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

/* Return the descriptor of a standard stream that a path names, or -1. */
static int stream_of_path(const char *path)
{
    static const char *const directories[] = {"fd/", "fdinfo/"};
    static const char *const devices[] = {"/dev/stdin", "/dev/stdout", "/dev/stderr"};
    const char *in = in_process(path), *name;
    for (int i = 0; i <= STDERR_FILENO; i++)
        if (str_eq(path, devices[i]))
            return i;
    if (in == NULL && (in = str_after(path, "/dev/fd/")) != NULL)
        in -= strlen("fd/");
    for (size_t i = 0; in != NULL && i < sizeof(directories) / sizeof(directories[0]); i++)
        if ((name = str_after(in, directories[i])) != NULL && name[0] >= '0' && name[0] <= '2' &&
            name[1] == '\0')
            return name[0] - '0';
    return -1;
}

/* Put the number of a standard stream in the place of its path. */
static int name_stream(int descriptor, char out[static PATH_MAX])
{
    snprintf(out, PATH_MAX, "%d", descriptor);
    return -ENOTTY;
}

/* Read the path of a call as the process sees it, absolute. -ENOENT: it names nothing. -ENOTTY: a standard
 * stream, whose number is in `out`. */
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
        if (path[0] == '\0' && directory >= 0 && directory <= STDERR_FILENO)
            return name_stream(directory, out);
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
        int stream = stream_of_path(out);
        if (stream >= 0)
            return name_stream(stream, out);
        ret = follow_magic(pid, out);
        if (ret == -ENOTDIR)
            return -ENOENT;
        if (i > 0 && strlen(out) == before)
            break;
    }
    return ret;
}

/* The programs of fontconfig ask for the type of a file system, and print nothing of the answer. */
static bool is_fontconfig(const struct observer *o)
{
    char program[PATH_MAX];
    if (read_link((pid_t)o->request->pid, "exe", program) < 0)
        return false;
    const char *name = strrchr(program, '/');
    return name != NULL && (str_eq(name, "/fc-list") || str_eq(name, "/fc-match"));
}

/* libselinux asks whether a file system of the kernel exists, the C library asks for /dev/shm. */
static void note_file_system(struct observer *o, const char *path)
{
    if (is_fontconfig(o))
        note(o, 'p', path);
    else if (str_after(path, "/sys/") == NULL && str_after(path, "/proc/") == NULL &&
             str_after(path, "/dev/") == NULL)
        note(o, 'f', path);
}

/* Return whether a descriptor of the calling process is a standard stream of the interpreter. A process that
 * the imports start may have others. */
static bool is_stream(const struct observer *o, uint64_t descriptor)
{
    char name[32], own[PATH_MAX], theirs[PATH_MAX];
    if ((uint32_t)descriptor > STDERR_FILENO)
        return false;
    snprintf(name, sizeof(name), "fd/%d", (int)descriptor);
    int ret = read_link((pid_t)o->request->pid, name, theirs);
    if (ret == 0 || ret == -ENOTDIR)
        ret = read_link(o->interpreter, name, own);
    return (ret != 0 && ret != -ENOTDIR) || str_eq(own, theirs);
}

/* Before the imports, the interpreter itself looks at its streams. */
static void note_stream(struct observer *o, uint64_t descriptor)
{
    if (o->begun && is_stream(o, descriptor))
        note(o, 'H', "ask what kind of file a standard stream is");
}

/* Note the address of the code that has made a call, 0 if it is unknown. */
static void note_caller(struct observer *o, char kind, uint64_t marked, uint64_t number)
{
    char record[48];
    bool known = (marked ^ (uint64_t)WARM_MARK) >> 32 == 0;
    snprintf(record, sizeof(record), "%" PRIx64 ":%" PRIx64,
             known ? (uint64_t)o->request->data.args[3] : (uint64_t)0, number);
    if (o->begun && o->quiet != (pid_t)o->request->pid)
        note(o, kind, record);
}

static void note_fcntl(struct observer *o, uint64_t descriptor, uint64_t command)
{
    if ((int)command == F_GETLK || (int)command == F_OFD_GETLK)
        note(o, 'H', "ask for locks of other processes");
    else if ((int)command != F_GETFD && (int)command != F_SETFD)
        note_stream(o, descriptor);
}

static void note_ioctl(struct observer *o, uint64_t descriptor, uint64_t request)
{
    if ((uint32_t)descriptor > STDERR_FILENO)
        note(o, 'H', "ask a device, a file system or a network interface by ioctl");
    else if ((uint32_t)request == TCGETS || (uint32_t)request == TIOCGWINSZ) {
        if (o->begun) /* the interpreter asks at its start, and a restored process again */
            note(o, 't', "");
    } else if ((uint32_t)request != FIOCLEX && (uint32_t)request != FIONCLEX)
        note_stream(o, descriptor);
}

static void note_poll(struct observer *o, uint64_t address, uint64_t count)
{
    struct pollfd polled;
    for (uint64_t i = 0; i < count && i < POLLED_MAX; i++)
        if (read_memory((pid_t)o->request->pid, address + i * sizeof(polled), &polled, sizeof(polled)) == 0 &&
            polled.fd >= 0)
            note_stream(o, (uint64_t)polled.fd);
}

static void note_select(struct observer *o, uint64_t count, const __u64 *sets)
{
    for (int i = 0; i < 3; i++) {
        unsigned char first = 0;
        if (count > 0 && sets[i] != 0)
            (void)read_memory((pid_t)o->request->pid, sets[i], &first, sizeof(first));
        for (unsigned fd = 0; fd <= STDERR_FILENO; fd++)
            if ((first >> fd & 1) != 0)
                note_stream(o, fd);
    }
}

/* Return the number of the calling process in its own pid namespace, or -1. */
static long own_number(pid_t pid)
{
    static const char name[] = "\nNSpid:";
    char status[4096];
    struct error ignored = {0};
    cleanup_fd int dir = proc_open_process(pid, &ignored);
    if (dir < 0 || io_read_small_at(dir, "status", status, sizeof(status)) < 0)
        return -1;
    char *numbers = strstr(status, name);
    if (numbers == NULL)
        return -1;
    numbers += sizeof(name) - 1;
    numbers[strcspn(numbers, "\n")] = '\0';
    const char *last = strrchr(numbers, '\t');
    return last != NULL ? strtol(last, NULL, 10) : -1;
}

/* A thread asks for its process by the number of the process. */
static void note_other(struct observer *o, uint64_t process)
{
    if ((int)process != 0 && (int)process != own_number((pid_t)o->request->pid))
        note(o, 'H', "ask for another process, or send it a signal");
}

/* Note the file of a descriptor: -ENOTDIR is none, such as a pipe. */
static void note_opened(struct observer *o, char kind, uint64_t descriptor)
{
    char name[32], path[PATH_MAX];
    snprintf(name, sizeof(name), "fd/%d", (int)descriptor);
    if ((uint32_t)descriptor <= STDERR_FILENO)
        note_stream(o, descriptor);
    else if (read_link((pid_t)o->request->pid, name, path) < 0)
        return;
    else if (kind == 'f')
        note_file_system(o, path);
    else
        note(o, kind, path);
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

/* Return whether a path, in the root of the process, leads to /dev/random or /dev/urandom. */
static bool is_random(pid_t pid, const char *path)
{
    struct stat st;
    struct error ignored = {0};
    cleanup_fd int dir = proc_open_process(pid, &ignored);
    cleanup_fd int root = dir < 0 ? -1 : openat(dir, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
    cleanup_fd int file = root < 0 ? -1 : path_open_in_root(root, path, O_PATH, 0);
    return file >= 0 && fstat(file, &st) == 0 && S_ISCHR(st.st_mode) &&
           (st.st_rdev == makedev(1, 8) || st.st_rdev == makedev(1, 9));
}

/* The mounts of the builder are read-only, so whether a file may be written to is a question to the
 * container. */
static void note_access(struct observer *o, uint64_t mode, const char *path)
{
    char question[sizeof(QUESTION_WRITE) + PATH_MAX];
    note(o, 'p', path);
    if ((mode & W_OK) == 0)
        return;
    snprintf(question, sizeof(question), QUESTION_WRITE "%s", path);
    note(o, 'q', question);
}

/* The interpreter may open the device before the imports begin, for the seed of hash(3). */
static void note_open(struct observer *o, uint64_t flags, const char *path)
{
    if ((flags & O_CREAT) != 0)
        note(o, 'm', path);
    bool reads = (flags & O_ACCMODE) != O_WRONLY;
    if (reads && (flags & O_PATH) == 0 && o->begun && o->quiet != (pid_t)o->request->pid &&
        is_random((pid_t)o->request->pid, path))
        note(o, 'H', "read random bytes from a device, and may keep them");
    note(o, (flags & O_PATH) != 0 ? 's' : reads ? 'o' : 'p', path);
}

static void note_program(struct observer *o, const char *path)
{
    note(o, 'o', path);
    note(o, 'x', path);
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
    if (ret == -ENOTTY) {
        note_stream(o, (uint64_t)(path[0] - '0'));
        return;
    }
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
    else if (call->kind == OBSERVED_ACCESS)
        note_access(o, args[call->detail], path);
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

/* Note a call with a descriptor, or with the number of a process. Return false for one that names a path. */
static bool note_descriptor(struct observer *o, const struct observed_call *call, uint64_t subject,
                            uint64_t detail)
{
    switch (call->kind) {
    case OBSERVED_OUTPUT: /* that of the imports is in a file in memory, and a process that they start has its
                             own */
        if (!o->begun)
            note(o, 'P', "");
        return true;
    case OBSERVED_STREAM:
        if (call->number != SYS_fstat)
            note_stream(o, subject);
        else if (is_stream(o, subject))
            note_caller(o, 'd', subject, 0);
        return true;
    case OBSERVED_FCNTL:
        note_fcntl(o, subject, detail);
        return true;
    case OBSERVED_IOCTL:
        note_ioctl(o, subject, detail);
        return true;
    case OBSERVED_POLL:
        note_poll(o, subject, detail);
        return true;
    case OBSERVED_SELECT:
        note_select(o, subject, &o->request->data.args[call->detail]);
        return true;
    case OBSERVED_OTHER:
        note_other(o, subject);
        return true;
    case OBSERVED_OPENED:
        note_opened(o, 's', subject);
        return true;
    case OBSERVED_ROOM:
        note_opened(o, 'f', subject);
        return true;
    case OBSERVED_RANDOM:
        note_caller(o, 'r', detail, subject);
        return true;
    default:
        return false;
    }
}

/* Note a call that names no path. Return false for one that does. */
static bool note_plain(struct observer *o, const struct observed_call *call)
{
    const struct seccomp_data *data = &o->request->data;
    uint64_t subject = call->subject >= 0 ? data->args[call->subject] : 0;
    uint64_t detail = call->detail >= 0 ? data->args[call->detail] : 0;
    switch (call->kind) {
    case OBSERVED_ADDRESS:
        note_address(o, subject, detail);
        return true;
    case OBSERVED_OWN:
        note_own_address(o, subject, detail);
        return true;
    case OBSERVED_MESSAGE:
        note_message(o, subject);
        return true;
    case OBSERVED_FAMILY:
        note(o, 'N', "");
        return true;
    case OBSERVED_HOST:
        note(o, 'u', "");
        return true;
    case OBSERVED_FORK:
        note_clone(o, data->nr == SYS_clone ? data->args[0] : data->nr == SYS_vfork ? CLONE_VFORK : 0);
        return true;
    case OBSERVED_CLONE3:
        note_clone3(o, subject);
        return true;
    case OBSERVED_LIMIT:
        note_limit(o, subject);
        return true;
    case OBSERVED_QUESTION:
        note(o, 'q', call->phrase);
        return true;
    case OBSERVED_HIDDEN:
        note(o, 'H', call->phrase);
        return true;
    default:
        return note_descriptor(o, call, subject, detail);
    }
}

/* Return whether the runtime's child makes such a call, too, before it executes the program. */
static bool is_of_child(const struct observed_call *call)
{
    return call == NULL || call->number == SYS_prctl || call->number == SYS_capset ||
           (call->kind >= OBSERVED_STREAM && call->kind <= OBSERVED_QUESTION);
}

static void note_call(struct observer *o)
{
    const struct seccomp_data *data = &o->request->data;
    const struct observed_call *call = data->arch == AUDIT_ARCH_X86_64 ? observed_call(data->nr) : NULL;
    char phrase[80];
    if (!o->executed && is_of_child(call))
        return;
    if (data->arch != AUDIT_ARCH_X86_64) {
        note(o, 'H', "make system calls of another architecture");
        return;
    }
    if (call == NULL) {
        snprintf(phrase, sizeof(phrase), "make system call %d, whose result may differ between containers",
                 data->nr);
        note(o, 'H', phrase);
        return;
    }
    if (!note_plain(o, call))
        note_path(o, call);
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
