/* Which processes of a container can trace (ptrace(2)) a process of the runtime that enters it, and how the
 * runtime prevents that. Sources: capabilities(7), pid_namespaces(7), PR_SET_DUMPABLE(2const), flock(2).
 *
 * A container is traceable if a process in its pid namespace can have CAP_SYS_PTRACE over the user namespace
 * of the runtime. Then exec clones late (container/exec.h). The capability may arrive after the container was
 * created: with a program of exec (`--cap`, `--process`), or with a container that joins the pid namespace.
 * Such an arrival marks every container in that pid namespace with a file (RECORD_TRACEABLE). Meanwhile it
 * holds the lock of each exclusively. An exec that does not clone late holds the lock shared until it
 * executes its program. So no such exec is in progress when the mark appears, and every later one sees it. */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

#include "sandbox/oom.h"

struct caps_plan;
struct error;
struct namespaces_plan;
struct record;
struct spec_process;

/* Return whether a program with these capabilities can obtain CAP_SYS_PTRACE, and so more than it has. It is
 * false if the program can have CAP_SYS_ADMIN. Without a user namespace that is equivalent to the host's
 * root, so nothing is left to gain. */
bool tracing_capable(const struct caps_plan *caps);

/* Return whether a container with these namespaces is traceable. `capable`: its program can trace. A joined
 * pid namespace counts as traceable, because the capabilities of its other processes are unknown. If the
 * container has its own user namespace, no process in it can trace a non-dumpable one. */
bool tracing_possible(const struct namespaces_plan *namespaces, bool capable);

/* Refuse an exec whose program can trace while the first process of the container is not its program yet.
 * That process still holds what it needs to confine itself. `dir`: the state directory. Return 0 or
 * -EBUSY. */
int tracing_check_exec(int dir, const struct record *record, bool capable, struct error *err);

/* Decide, before a process enters the container, whether exec has to clone late: *late. If not, *lock
 * holds the shared lock until every copy of the descriptor is closed; -1 if the container cannot become
 * traceable. If the program is `capable`, first mark all containers of the pid namespace. Return 0 or a
 * negative errno. */
int tracing_enter(int dir, const struct record *record, bool capable, bool *late, int *lock,
                  struct error *err);

/* Mark all containers in the pid namespace `ns` (fstat(2)) except `id`, before a capable program enters it.
 * `root`: the state root. Return 0 or a negative errno. */
int tracing_announce(int root, const char *id, const struct stat *ns, struct error *err);

struct nondumpable {
    bool dumpable; /* whether the runtime was dumpable */
    char oom[OOM_VALUE_SIZE];
};

/* Make the caller non-dumpable for a clone, which inherits that. A process of the container without
 * capabilities over the runtime's user namespace then cannot trace the clone, not even in its first instant.
 * Only root can write to the /proc files of such a clone, so the clone inherits process.oomScoreAdj from the
 * caller. */
void nondumpable_begin(struct nondumpable *before, const struct spec_process *process);
/* Restore the caller, but not the clone. */
void nondumpable_end(const struct nondumpable *before);
