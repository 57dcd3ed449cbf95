/* Join the container's session keyring. */
#include "sandbox/keyring.h"

#include <errno.h>
#include <linux/keyctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"

/* The permissions of a new keyring (possessor: everything; owner: view, read, link), plus "search" for the
 * owner. Without "search", `exec` cannot find the keyring by its name (keyctl(2),
 * KEYCTL_JOIN_SESSION_KEYRING). */
#define KEYRING_PERMISSIONS 0x3f1b0000U

int keyring_join(const char *name, struct error *err)
{
    long key = syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, name);
    if (key < 0) {
        switch (errno) {
        case ENOSYS:
        case EPERM:
            log_warning("no session keyring for the container: %s", error_reason(errno));
            return 0;
        case EDQUOT:
            return error_text(err, -EDQUOT,
                              "session keyring '%s': the user's quota of keys is exhausted: raise "
                              "kernel.keys.maxkeys or use --no-new-keyring",
                              name);
        default:
            return error_set(err, -errno, "join session keyring '%s'", name);
        }
    }
    /* A failure is no error. An existing keyring is the runtime's own from an earlier start, or another
     * user's that allows no change. */
    if (syscall(SYS_keyctl, KEYCTL_SETPERM, (int)key, KEYRING_PERMISSIONS) < 0)
        log_debug("permissions of session keyring '%s': %s", name, error_reason(errno));
    return 0;
}
