/* See listen_fds.h. */
#include "cli/listen_fds.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/str.h"

/* More than any process may have open (default of fs.nr_open). */
#define LISTEN_FDS_MAX 1048576

unsigned listen_fds_count(void)
{
    const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
    uint64_t number;
    if (pid == NULL || count == NULL)
        return 0;
    if (str_to_u64(pid, INT_MAX, &number) < 0 || (pid_t)number != getpid())
        return 0; /* meant for the parent process */
    return str_to_u64(count, LISTEN_FDS_MAX, &number) < 0 ? 0 : (unsigned)number;
}
