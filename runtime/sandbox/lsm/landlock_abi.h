/* The kernel interface of Landlock: the rights and the ABI that brought each, structures, system calls
 * (linux/landlock.h, Documentation/userspace-api/landlock.rst). They are defined here, because the headers of
 * the supported distributions are older than most of them. This file does not decide what is allowed. */
#pragma once

#include <stdint.h>

#include "sandbox/lsm/landlock_rights.h"

#define FS_EXECUTE     (1ULL << 0)
#define FS_WRITE_FILE  (1ULL << 1)
#define FS_READ_FILE   (1ULL << 2)
#define FS_READ_DIR    (1ULL << 3)
#define FS_REMOVE_DIR  (1ULL << 4)
#define FS_REMOVE_FILE (1ULL << 5)
#define FS_MAKE_CHAR   (1ULL << 6)
#define FS_MAKE_DIR    (1ULL << 7)
#define FS_MAKE_REG    (1ULL << 8)
#define FS_MAKE_SOCK   (1ULL << 9)
#define FS_MAKE_FIFO   (1ULL << 10)
#define FS_MAKE_BLOCK  (1ULL << 11)
#define FS_MAKE_SYM    (1ULL << 12)
#define FS_REFER       (1ULL << 13)
#define FS_TRUNCATE    (1ULL << 14)
#define FS_IOCTL_DEV   (1ULL << 15)

#define NET_BIND_TCP    (1ULL << 0)
#define NET_CONNECT_TCP (1ULL << 1)

#define SCOPE_ABSTRACT_UNIX_SOCKET (1ULL << 0)
#define SCOPE_SIGNAL               (1ULL << 1)

/* Both flags are of the same ABI. The second one has no row in the table, because it gives no right: it keeps
 * rulesets that the program makes for itself out of the host's audit log. */
#define FLAG_LOG_NEW_EXEC_ON    (1ULL << 1)
#define FLAG_LOG_SUBDOMAINS_OFF (1ULL << 2)

/* All rights that a rule on a file other than a directory may have. The kernel refuses the others there. */
#define FS_FILE_RIGHTS (FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV)

struct landlock_right {
    const char *name; /* as `plan` and messages name it; NULL ends the table */
    enum landlock_kind kind;
    uint64_t bit;
    int abi; /* the first ABI that has it */
};

/* All rights that this runtime knows, oldest first. */
extern const struct landlock_right landlock_rights[];

/* Return those of the known rights that this ABI has. */
struct landlock_rights landlock_rights_of_abi(int abi);

/* Return the release of Linux ("6.12") that brought an ABI, which is 1 at least. The string is static. */
const char *landlock_release(int abi);

/* struct landlock_ruleset_attr. Older kernels accept it as long as the members they do not know are 0. */
struct landlock_ruleset {
    uint64_t handled_access_fs, handled_access_net, scoped;
};
struct landlock_path_rule {
    uint64_t allowed_access;
    int32_t parent_fd;
} __attribute__((packed));
struct landlock_port_rule {
    uint64_t allowed_access, port;
};
#define RULE_PATH_BENEATH 1
#define RULE_NET_PORT     2

/* The system calls. Each returns -1 and sets errno, as libc does. landlock_create_ruleset returns a
 * descriptor with O_CLOEXEC that the caller owns. */
int landlock_create_ruleset(const struct landlock_ruleset *attr);
int landlock_add_rule(int ruleset, int type, const void *rule);
int landlock_restrict_self(int ruleset, unsigned flags);
