/* A process that is stopped and looked at: ptrace(2), /proc/PID. x86-64. */
#ifndef PYSBX_WARM_DUMP_TRACEE_H
#define PYSBX_WARM_DUMP_TRACEE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

struct arena;
struct error;
struct stat;

struct tracee {
    pid_t pid;
    int proc;   /* its directory in /proc */
    int memory; /* its /proc/PID/mem */
    bool attached;
    struct user_regs_struct parked; /* the registers at the system call in which it waits */
};

/* Attach; the process runs on. Should the caller end, it is killed, or with `spare` let go. `out` is to be
 * given to tracee_release in any case. 0 or negative errno. */
int tracee_attach(struct tracee *out, pid_t pid, const struct stat *pid_namespace, bool spare,
                  struct error *err);

/* Stop it. 0 when it waits in a system call, with the registers in `parked`; -EAGAIN when it was doing
 * something else (it runs again then); another negative errno. */
int tracee_stop(struct tracee *t, struct error *err);

/* Let it run again, the system call begun anew. */
int tracee_resume(struct tracee *t, struct error *err);

/* Detach, as tracee_resume. */
void tracee_release(struct tracee *t);

/* Let the stopped process make a system call, with the instruction that it waits at. *result is the call's, a
 * negative errno if it failed. 0 or negative errno. */
int tracee_call(struct tracee *t, long number, const uint64_t arguments[6], long *result, struct error *err);

/* Memory below its stack that nothing uses (64 KiB would be too much, a page is not): for results of calls.
 */
uint64_t tracee_scratch(const struct tracee *t);

/* Read its memory, whatever the protection. 0 or negative errno. */
int tracee_read(const struct tracee *t, uint64_t address, void *data, size_t size, struct error *err);

/* A file of its directory in /proc, in the arena; *size may be NULL. 0 or negative errno. */
int tracee_file(const struct tracee *t, struct arena *a, const char *name, char **text, size_t *size,
                struct error *err);

#endif
