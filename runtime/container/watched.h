/* Who has come into a pid namespace and may trace what is born there, though the container was not made with
 * that right: capabilities(7), pid_namespaces(7), flock(2).
 *
 * A program of exec may have CAP_SYS_PTRACE (`--cap`, `--process`), and so may a container that joins the
 * namespace later. From then on the container is watched as if it had been made so (record->watched): it has
 * a file that says so. Whoever enters without being born late does so under a lock, shared by those who may
 * not trace, so that nobody who may is there before they are their programs. */
#ifndef PYSBX_CONTAINER_WATCHED_H
#define PYSBX_CONTAINER_WATCHED_H

#include <stdbool.h>
#include <sys/stat.h>

struct error;
struct record;

/* Before a process enters the container of this state directory: *watched says whether it has to be born
 * late. If not, the lock is held by *lock, until no process has that descriptor any more, or -1: nobody in
 * there could trace it. `traces`: its program may trace others, so those after it are watched. */
int watched_enter(int dir, const struct record *record, bool traces, bool *watched, int *lock,
                  struct error *err);

/* Before a program that may trace others comes into this pid namespace (fstat(2)): every container in it that
 * does not know yet, but `id`, learns it, and nobody is on the way into one. */
int watched_tell(int root, const char *id, const struct stat *ns, struct error *err);

#endif
