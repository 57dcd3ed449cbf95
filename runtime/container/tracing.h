/* Which processes of a container could trace (ptrace(2)) a process of the runtime that enters it, and what is
 * done about it: capabilities(7), pid_namespaces(7), PR_SET_DUMPABLE(2const), flock(2).
 *
 * A container is traceable if a process in its pid namespace can have CAP_SYS_PTRACE over the user namespace
 * of the runtime. Then exec clones late (container/exec.h). The capability may arrive after the container was
 * created: with a program of exec (`--cap`, `--process`), or with a container that joins the pid namespace.
 * Such an arrival marks every container in that pid namespace with a file (RECORD_TRACEABLE), and holds the
 * lock of each exclusively meanwhile. An exec that does not clone late holds the lock shared until it
 * executes its program. So no such exec is in progress when the mark appears, and every later one sees it. */
#ifndef PYSBX_CONTAINER_TRACING_H
#define PYSBX_CONTAINER_TRACING_H

#include <stdbool.h>
#include <sys/stat.h>

#include "sandbox/oom.h"

struct caps_plan;
struct error;
struct namespaces_plan;
struct record;
struct spec_process;

/* Can a program with these capabilities obtain CAP_SYS_PTRACE, and with it more than it has? Not if it can
 * have CAP_SYS_ADMIN: that is equivalent to the host's root without a user namespace, so nothing is left to
 * gain. */
bool tracing_capable(const struct caps_plan *caps);

/* Is a container with these namespaces traceable? `capable`: its program is. A pid namespace that is joined
 * counts as traceable, because the capabilities of its other processes are unknown. With a user namespace of
 * the container's own, no process in it can trace one that is not dumpable. */
bool tracing_possible(const struct namespaces_plan *namespaces, bool capable);

/* Refuse an exec whose program can trace while the first process of the container is not its program yet:
 * that process still has what it needs to confine itself. `dir`: the state directory. 0 or -EBUSY. */
int tracing_check_exec(int dir, const struct record *record, bool capable, struct error *err);

/* Before a process enters the container: *late says whether exec has to clone late. If not, *lock holds the
 * shared lock until every copy of the descriptor is closed; -1 if the container cannot become traceable.
 * `capable`: mark all containers of the pid namespace first. 0 or a negative errno. */
int tracing_enter(int dir, const struct record *record, bool capable, bool *late, int *lock,
                  struct error *err);

/* Before a capable program enters the pid namespace `ns` (fstat(2)): mark all containers in it but `id`.
 * `root`: the state root. 0 or a negative errno. */
int tracing_announce(int root, const char *id, const struct stat *ns, struct error *err);

struct nondumpable {
    bool dumpable; /* the runtime was */
    char oom[OOM_VALUE_SIZE];
};

/* Make the caller non-dumpable for a clone, which inherits that. A process of the container that has no
 * capabilities over the user namespace of the runtime then cannot trace the clone, not even in its first
 * instant. Only root can write to the /proc files of such a clone, so the clone inherits process.oomScoreAdj.
 */
void nondumpable_begin(struct nondumpable *before, const struct spec_process *process);
/* Restore the caller, not the clone. */
void nondumpable_end(const struct nondumpable *before);

#endif
