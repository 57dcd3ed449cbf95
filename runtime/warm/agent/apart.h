/* A copy of the agent that the dynamic linker does not know. */
#pragma once

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>

#include "warm/agent/python_abi.h"

/* Return the agent in which this code runs, in the form of dl_iterate_phdr(3), without a name. */
struct loaded own_object(void);

/* Return an entry of the dynamic section of a library, or 0. `address`: it is one, of which the linker may
 * have left an offset. */
uintptr_t dynamic_entry(const struct loaded *of, const Elf64_Dyn *entries, int64_t tag, bool address);

/* Return whether LD_PRELOAD has loaded the agent: then it stays for the life of the process. */
bool is_preloaded(void);

/* Map the file of the agent once more, with the current data. Return the distance from this agent to the
 * copy, or 0: then there is no copy. */
uintptr_t make_copy(void);

/* In the copy, before other code of the copy is called: unload the agent that it was copied from. */
void unload_original(void);
