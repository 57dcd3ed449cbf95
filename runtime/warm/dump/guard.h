/* Checks for traps that a saved process may have set for the processes that become it. It ran untrusted code.
 * A restore maps its memory and sets up its thread before the container's filter is in force. During that
 * time no code of it may run, and nothing of the runtime may get into it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct arena;
struct dump_vmas;
struct error;
struct snapshot_parts;
struct tracee;

/* The vdso and vvar areas must have the same distances as in this process. A restore moves its own to their
 * addresses, and would move other memory along. -ENOTSUP if not. */
int dump_guard_layout(const struct dump_vmas *vmas, struct arena *a, struct error *err);

/* The code of the agent must equal `agent`, because the restored process continues in it. -ENOTSUP if not. */
int dump_guard_agent(const struct tracee *t, const struct dump_vmas *vmas, const void *agent, size_t size,
                     struct error *err);

/* All pages together must not exceed `limit` bytes; 0: no limit. -EFBIG if they do. */
int dump_guard_size(const struct snapshot_parts *parts, uint64_t page, uint64_t limit, struct error *err);

/* No restartable sequence may be in progress (rseq(2)): the kernel would leave the restorer for the address
 * that it names. Reads the pages that were written to `file`, because the process may share its memory with a
 * running one, or are in `base`. -ENOTSUP if there is one. */
int dump_guard_rseq(int file, int base, const struct snapshot_parts *parts, uint64_t page, struct error *err);
