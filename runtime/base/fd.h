/* Descriptors with one owner: cleanup attributes, and transfer to another owner. */
#pragma once

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* Close *fd unless it is negative, and set it to -1. Keeps errno. */
static inline void fd_close(int *fd)
{
    if (*fd >= 0) {
        int saved = errno;
        close(*fd);
        errno = saved;
    }
    *fd = -1;
}

/* Return the descriptor for a new owner, and set *fd to -1. */
static inline int fd_steal(int *fd)
{
    int taken = *fd;
    *fd = -1;
    return taken;
}

/* Free the memory at the pointer `*p`. For cleanup_free. */
static inline void ptr_free(void *p)
{
    free(*(void **)p);
}

#define cleanup_fd   __attribute__((cleanup(fd_close)))
#define cleanup_free __attribute__((cleanup(ptr_free)))

/* Repeat a system call that a signal interrupted. */
#define RETRY(expr)                                                                                          \
    ({                                                                                                       \
        __typeof__(expr) retry_result;                                                                       \
        do                                                                                                   \
            retry_result = (expr);                                                                           \
        while (retry_result == -1 && errno == EINTR);                                                        \
        retry_result;                                                                                        \
    })
