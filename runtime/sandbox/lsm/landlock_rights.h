/* Sets of rights of Landlock, and the ABI of the kernel. */
#ifndef PYSBX_SANDBOX_LSM_LANDLOCK_RIGHTS_H
#define PYSBX_SANDBOX_LSM_LANDLOCK_RIGHTS_H

#include <stdint.h>

/* Where a right stands: in one of the three sets of a ruleset, or among the flags of
 * landlock_restrict_self(2). */
enum landlock_kind { LANDLOCK_FS, LANDLOCK_NET, LANDLOCK_SCOPE, LANDLOCK_FLAG, LANDLOCK_KINDS };

struct landlock_rights {
    uint64_t of[LANDLOCK_KINDS];
};

/* The kernel's ABI: 0 when Landlock is not built in, switched off at boot or refused by a filter. */
int landlock_abi(void);

#endif
