/* The rights, releases and system calls of landlock_abi.h. */
#include "sandbox/lsm/landlock_abi.h"

#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule       445
#define SYS_landlock_restrict_self  446
#endif
#define CREATE_RULESET_VERSION 1U

const struct landlock_right landlock_rights[] = {
    {"execute", LANDLOCK_FS, FS_EXECUTE, 1},
    {"write-file", LANDLOCK_FS, FS_WRITE_FILE, 1},
    {"read-file", LANDLOCK_FS, FS_READ_FILE, 1},
    {"read-dir", LANDLOCK_FS, FS_READ_DIR, 1},
    {"remove-dir", LANDLOCK_FS, FS_REMOVE_DIR, 1},
    {"remove-file", LANDLOCK_FS, FS_REMOVE_FILE, 1},
    {"make-char", LANDLOCK_FS, FS_MAKE_CHAR, 1},
    {"make-dir", LANDLOCK_FS, FS_MAKE_DIR, 1},
    {"make-reg", LANDLOCK_FS, FS_MAKE_REG, 1},
    {"make-sock", LANDLOCK_FS, FS_MAKE_SOCK, 1},
    {"make-fifo", LANDLOCK_FS, FS_MAKE_FIFO, 1},
    {"make-block", LANDLOCK_FS, FS_MAKE_BLOCK, 1},
    {"make-sym", LANDLOCK_FS, FS_MAKE_SYM, 1},
    {"refer", LANDLOCK_FS, FS_REFER, 2},
    {"truncate", LANDLOCK_FS, FS_TRUNCATE, 3},
    {"bind-tcp", LANDLOCK_NET, NET_BIND_TCP, 4},
    {"connect-tcp", LANDLOCK_NET, NET_CONNECT_TCP, 4},
    {"ioctl-dev", LANDLOCK_FS, FS_IOCTL_DEV, 5},
    {"abstract-unix-socket", LANDLOCK_SCOPE, SCOPE_ABSTRACT_UNIX_SOCKET, 6},
    {"signal", LANDLOCK_SCOPE, SCOPE_SIGNAL, 6},
    {"log", LANDLOCK_FLAG, FLAG_LOG_NEW_EXEC_ON, 7},
    {0},
};

struct landlock_rights landlock_rights_of_abi(int abi)
{
    struct landlock_rights known = {0};
    for (const struct landlock_right *right = landlock_rights; right->name != NULL; right++)
        if (right->abi <= abi)
            known.of[right->kind] |= right->bit;
    return known;
}

const char *landlock_release(int abi)
{
    static const char *const releases[] = {"5.13", "5.13", "5.19", "6.2", "6.7", "6.10", "6.12", "6.15"};
    int last = (int)(sizeof(releases) / sizeof(releases[0])) - 1;
    return releases[abi < 0 ? 0 : abi > last ? last : abi];
}

/* Return the ABI. Errors of the call (ENOSYS, EOPNOTSUPP, or EPERM of a filter) all mean that there is no
 * Landlock. */
int landlock_abi(void)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, CREATE_RULESET_VERSION);
    return abi > 0 ? (int)abi : 0;
}

int landlock_create_ruleset(const struct landlock_ruleset *attr)
{
    return (int)syscall(SYS_landlock_create_ruleset, attr, sizeof(*attr), 0);
}

int landlock_add_rule(int ruleset, int type, const void *rule)
{
    return (int)syscall(SYS_landlock_add_rule, ruleset, type, rule, 0);
}

int landlock_restrict_self(int ruleset, unsigned flags)
{
    return (int)syscall(SYS_landlock_restrict_self, ruleset, flags);
}
