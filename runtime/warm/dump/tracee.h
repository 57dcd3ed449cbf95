/* Stop and examine a process: ptrace(2), /proc/PID. x86-64. */
#pragma once

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
    int signal; /* it has stopped to get this one, and gets it when it runs again; 0: none */
    struct user_regs_struct parked; /* the registers at the system call in which it waits */
};

/* Attach; the process continues to run. If the caller ends, the process is killed, or with `spare` released.
 * Always pass `out` to tracee_release. Return 0 or negative errno. */
int tracee_attach(struct tracee *out, pid_t pid, const struct stat *pid_namespace, bool spare,
                  struct error *err);

/* Stop it. Return 0 if it waits in a system call, with the registers in `parked`; -EAGAIN if it was doing
 * anything else (it runs again then); another negative errno. -ENOTSUP with `signal` set: it gets one. */
int tracee_stop(struct tracee *t, struct error *err);

/* Let it run again, and restart the system call. */
int tracee_resume(struct tracee *t, struct error *err);

/* Let it run again, with this result of the system call. */
int tracee_answer(struct tracee *t, uint64_t result, struct error *err);

/* Detach, like tracee_resume. */
void tracee_release(struct tracee *t);

/* Let the stopped process make a system call, with the instruction that it waits at. *result is the result of
 * the call, a negative errno if it failed. Return 0 or negative errno. */
int tracee_call(struct tracee *t, long number, const uint64_t arguments[6], long *result, struct error *err);

/* Return the address of unused memory below its stack, for results of calls (64 KiB would be too much, a page
 * is not). */
uint64_t tracee_scratch(const struct tracee *t);

/* Read its memory, regardless of the protection. Return 0 or negative errno. */
int tracee_read(const struct tracee *t, uint64_t address, void *data, size_t size, struct error *err);

/* Read a file of its directory in /proc into the arena; *size may be NULL. Return 0 or negative errno. */
int tracee_file(const struct tracee *t, struct arena *a, const char *name, char **text, size_t *size,
                struct error *err);
