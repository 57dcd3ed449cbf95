/* Pass the listener from the process to the agent. */
#include "sandbox/seccomp/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/json_out.h"
#include "base/sys.h"
#include "sandbox/seccomp/plan.h"

#define GIVE_UP_SECONDS 30

/* A page of memory that both processes map. */
struct seccomp_handover {
    atomic_int listener; /* its number in the process; -1 until the filter is loaded */
    atomic_int taken;
};

int seccomp_handover_new(const struct seccomp_plan *plan, struct seccomp_handover **out, struct error *err)
{
    *out = NULL;
    if (!plan->notify)
        return 0;
    void *page = mmap(NULL, sizeof(**out), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return error_set(err, -errno, "map memory for the seccomp listener");
    *out = page;
    atomic_store(&(*out)->listener, -1);
    return 0;
}

void seccomp_handover_free(struct seccomp_handover *handover)
{
    if (handover != NULL)
        munmap(handover, sizeof(*handover));
}

void seccomp_handover_give(struct seccomp_handover *handover, int listener)
{
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    atomic_store(&handover->listener, listener);
    while (atomic_load(&handover->taken) == 0) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_sec - start.tv_sec > GIVE_UP_SECONDS)
            __builtin_trap();
    }
}

/* Wait until the process has published the number. The process cannot wake the runtime, because that would be
 * a system call. So poll the page every 0.2 ms, and the process' pidfd in between. */
static int wait_for_listener(struct seccomp_handover *handover, int pidfd, struct error *err)
{
    const struct timespec pause = {.tv_nsec = 200000};
    const long rounds = GIVE_UP_SECONDS * (1000000000L / pause.tv_nsec);
    for (long i = 0; i < rounds; i++) {
        int listener = atomic_load(&handover->listener);
        if (listener >= 0)
            return listener;
        struct pollfd process = {.fd = pidfd, .events = POLLIN};
        if (ppoll(&process, 1, &pause, NULL) > 0)
            return error_text(err, -ESRCH, "the process ended before it loaded its seccomp filter");
    }
    return error_text(err, -ETIMEDOUT, "the process did not load its seccomp filter within %d seconds",
                      GIVE_UP_SECONDS);
}

/* Connect through a descriptor of the directory, because the path may be longer than sun_path. */
static int connect_agent(const char *path, struct error *err)
{
    char directory[PATH_MAX], name[PATH_MAX];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(path);
    if (length >= sizeof(directory))
        return error_set(err, -ENAMETOOLONG, "linux.seccomp.listenerPath");
    /* dirname(3) and basename(3) modify their argument. */
    memcpy(directory, path, length + 1);
    memcpy(name, path, length + 1);
    cleanup_fd int dirfd = open(dirname(directory), O_PATH | O_DIRECTORY | O_CLOEXEC);
    cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (dirfd < 0 || fd < 0)
        return error_set(err, -errno, "linux.seccomp.listenerPath '%s'", path);
    int n =
        snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s", dirfd, basename(name));
    if ((size_t)n >= sizeof(address.sun_path))
        return error_set(err, -ENAMETOOLONG, "linux.seccomp.listenerPath '%s'", path);
    if (RETRY(connect(fd, (const struct sockaddr *)&address, sizeof(address))) < 0)
        return error_set(err, -errno, "connect to the seccomp agent at '%s'", path);
    return fd_steal(&fd);
}

/* Write the "container process state" of the runtime-spec. */
static void write_process_state(const struct seccomp_plan *plan, const struct seccomp_receiver *receiver,
                                struct json_out *out)
{
    json_out_map_open(out);
    json_out_pair_string(out, "ociVersion", receiver->oci_version);
    json_out_key(out, "fds");
    json_out_array_open(out);
    json_out_string(out, "seccompFd");
    json_out_array_close(out);
    json_out_pair_i64(out, "pid", receiver->pid);
    json_out_pair_string(out, "metadata", plan->listener_metadata);
    json_out_key(out, "state");
    receiver->write_state(out, receiver->arg);
    json_out_map_close(out);
}

/* Send the descriptor with the first bytes. If the state is too large for one call, the rest follows. */
static int send_listener(int agent, int listener, const char *text, size_t size)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec data = {.iov_base = (void *)(uintptr_t)text, .iov_len = size};
    struct msghdr message = {
        .msg_iov = &data,
        .msg_iovlen = 1,
        .msg_control = &control,
        .msg_controllen = sizeof(control),
    };
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &listener, sizeof(int));
    while (size > 0) {
        ssize_t n = RETRY(sendmsg(agent, &message, MSG_NOSIGNAL));
        if (n < 0)
            return -errno;
        size -= (size_t)n;
        data.iov_base = (char *)data.iov_base + n;
        data.iov_len = size;
        message.msg_control = NULL;
        message.msg_controllen = 0;
    }
    return 0;
}

/* Copy the process' listener with pidfd_getfd(2). The process continues to wait. */
static int copy_listener(struct seccomp_handover *handover, int pidfd, struct error *err)
{
    int number = wait_for_listener(handover, pidfd, err);
    if (number < 0)
        return number;
    cleanup_fd int listener = sys_pidfd_getfd(pidfd, number, 0);
    if (listener < 0)
        return error_set(err, -errno, "take the seccomp listener from the process");
    /* The process can write to the page, although no code of the container has run in it yet. So check that
     * the descriptor is a listener, and send nothing else. */
    uint64_t id = 0;
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0 || errno != ENOENT)
        return error_text(err, -EPROTO, "descriptor %d of the process is not its seccomp listener", number);
    return fd_steal(&listener);
}

int seccomp_notify_take(struct seccomp_handover *handover, int pidfd, struct error *err)
{
    int listener = copy_listener(handover, pidfd, err);
    if (listener >= 0)
        atomic_store(&handover->taken, 1);
    return listener;
}

int seccomp_notify_send(const struct seccomp_plan *plan, struct seccomp_handover *handover, int pidfd,
                        const struct seccomp_receiver *receiver, struct error *err)
{
    if (!plan->notify)
        return 0;
    cleanup_fd int listener = copy_listener(handover, pidfd, err);
    if (listener < 0)
        return listener;
    cleanup_json_out struct json_out *state = json_out_new(false);
    if (state == NULL)
        return error_set(err, -ENOMEM, "container process state");
    write_process_state(plan, receiver, state);
    size_t size;
    const char *text = json_out_text(state, &size);
    if (text == NULL)
        return error_set(err, -ENOMEM, "container process state");
    cleanup_fd int agent = connect_agent(plan->listener_path, err);
    if (agent < 0)
        return agent;
    int ret = send_listener(agent, listener, text, size);
    if (ret < 0)
        return error_set(err, ret, "send the seccomp listener to '%s'", plan->listener_path);
    atomic_store(&handover->taken, 1);
    return 0;
}
