/* What a saved process may have prepared for those who become it. It ran code that nobody trusts, and a
 * restore maps its memory and sets its thread up before the container's filter is in force: in that time
 * nothing of it may run, and nothing of the runtime may get into it. */
#ifndef PYSBX_WARM_DUMP_GUARD_H
#define PYSBX_WARM_DUMP_GUARD_H

#include <stddef.h>
#include <stdint.h>

struct arena;
struct dump_vmas;
struct error;
struct snapshot_parts;
struct tracee;

/* The kernel's areas have to lie to each other as they do in this process: a restore moves its own to where
 * those were, and would move other memory along. -ENOTSUP if not. */
int dump_guard_layout(const struct dump_vmas *vmas, struct arena *a, struct error *err);

/* The code of the agent has to be `agent`: the restored process goes on in this one. -ENOTSUP if not. */
int dump_guard_agent(const struct tracee *t, const struct dump_vmas *vmas, const void *agent, size_t size,
                     struct error *err);

/* All pages together are `limit` bytes at most; 0: no limit. -EFBIG if not. */
int dump_guard_size(const struct snapshot_parts *parts, uint64_t page, uint64_t limit, struct error *err);

/* No restartable sequence is under way (rseq(2)): the kernel would leave the restorer for the address that it
 * names. Looks at the pages that were written to `file`, for the process may share its memory with one that
 * runs. -ENOTSUP if there is one. */
int dump_guard_rseq(int file, const struct snapshot_parts *parts, uint64_t page, struct error *err);

#endif
