/* Sets of Landlock rights, and the ABI of the kernel. */
#pragma once

#include <stdint.h>

/* The place of a right: one of the three sets of a ruleset, or the flags of landlock_restrict_self(2). */
enum landlock_kind { LANDLOCK_FS, LANDLOCK_NET, LANDLOCK_SCOPE, LANDLOCK_FLAG, LANDLOCK_KINDS };

struct landlock_rights {
    uint64_t of[LANDLOCK_KINDS];
};

/* Return the kernel's ABI: 0 if Landlock is not built in, is switched off at boot, or is refused by a filter.
 */
int landlock_abi(void);
