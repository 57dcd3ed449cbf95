/* Both sides of a late clone. */
#include "container/child/late_clone.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/sys.h"
#include "container/process.h"
#include "container/sync.h"

/* Bytes of stack that the deepest chain of calls in the runtime uses. Most of them hold paths. */
#define STACK_USED ((size_t)64 * 1024)

/* In the child. */

/* Copy arguments or variables to memory that is never freed. NULL: out of memory. */
static char **keep_strings(char *const *list)
{
    size_t count = 0, size = sizeof(*list);
    for (; list[count] != NULL; count++)
        size += sizeof(*list) + strlen(list[count]) + 1;
    char **copy = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED)
        return NULL;
    char *text = (char *)(copy + count + 1);
    for (size_t i = 0; i < count; i++) {
        copy[i] = text;
        text = stpcpy(text, list[i]) + 1;
    }
    return copy;
}

/* Overwrite the frames of functions that have returned. */
static __attribute__((noinline)) void wipe_stack(void)
{
    char below[STACK_USED];
    explicit_bzero(below, sizeof(below));
}

/* Overwrite configuration and record. They contain paths of the host and variables of hooks. */
static int forget_plan(const struct late_clone *c, struct error *err)
{
    c->plan->argv = keep_strings(c->plan->argv);
    c->plan->envp = keep_strings(c->plan->envp);
    if (c->plan->argv == NULL || c->plan->envp == NULL)
        return error_set(err, -ENOMEM, "copy the arguments of the process");
    for (size_t i = 0; i < c->arena_count; i++)
        if (c->arenas[i] != NULL)
            arena_wipe(c->arenas[i]);
    wipe_stack();
    return 0;
}

/* Clone the process that executes the program. The container's filter is already in force, and must allow the
 * clone. */
static int clone_late(const struct late_clone *c, struct error *err)
{
    const int message = SYNC_CLONED;
    pid_t pid = (pid_t)syscall(SYS_clone, CLONE_PARENT, NULL, NULL, NULL, 0L);
    if (pid > 0)
        _exit(0);
    if (pid < 0)
        return error_set(err, -errno, "clone the process%s",
                         errno == EAGAIN || errno == ENOMEM
                             ? ""
                             : " (its filter must allow that in a container with CAP_SYS_PTRACE)");
    if (RETRY(write(c->sync, &message, sizeof(message))) < 0)
        return error_set(err, -errno, "send to the runtime");
    int word = 0;
    if (RETRY(read(c->sync, &word, sizeof(word))) != sizeof(word) || word != SYNC_PROCEED)
        _exit(1);
    if (setsid() < 0)
        return error_set(err, -errno, "setsid");
    return c->plan->terminal.wanted ? terminal_control(err) : 0;
}

/* A process that traces the clone from its first instant finds nothing that the program will not have. */
int late_clone_start(const struct late_clone *c, const char *program, struct error *err)
{
    int ret = process_confine(c->plan, NULL, err);
    if (ret == 0)
        ret = forget_plan(c, err);
    if (ret == 0)
        ret = clone_late(c, err);
    return ret < 0 ? ret : process_execute(c->plan, program, err);
}

/* In the runtime. */

/* Take over the process that sent a message from within the container. It may already be traced, so trust
 * only the kernel: the sender must be a child of the runtime. From now on the runtime can kill it. */
static int adopt(pid_t sender, pid_t *pid, int *pidfd, struct error *err)
{
    siginfo_t info;
    if (waitid(P_PID, (id_t)sender, &info, WEXITED | WNOHANG | WNOWAIT) < 0)
        return error_set(err, -errno, "find process %d, which says that it is the new one", (int)sender);
    cleanup_fd int fd = sys_pidfd_open(sender, 0);
    if (fd < 0)
        return error_set(err, -errno, "open a descriptor of process %d", (int)sender);
    RETRY(waitid(P_PIDFD, (id_t)*pidfd, &info, WEXITED));
    fd_close(pidfd);
    *pidfd = fd_steal(&fd);
    *pid = sender;
    return 0;
}

int late_clone_follow(int sync, pid_t *pid, int *pidfd, struct error *err)
{
    struct error refused = {0};
    pid_t sender = 0;
    int ret = sync_ask_for_senders(sync, err);
    if (ret < 0)
        return ret;
    if (sync_send(sync, SYNC_PROCEED) < 0)
        return sync_unexpected(SYNC_END, err);
    int message = sync_receive_from(sync, &sender, err);
    bool cloned = sender > 0 && sender != *pid;
    if (cloned)
        ret = adopt(sender, pid, pidfd, &refused);
    if (message != SYNC_CLONED)
        return sync_unexpected(message, err);
    if (ret < 0)
        *err = refused;
    return ret < 0 || cloned ? ret : error_text(err, -EPROTO, "no process says that it is the new one");
}
