/* Removing all that create makes: after the container has ended, after a failed creation, and after the
 * runtime was killed. */
#pragma once

struct error;
struct record;
struct runtime_options;
struct spec_hook_list;

struct deletion {
    int root, dir; /* the state root, and the container's directory */
    const struct record *record;
    /* The rest is for a creation that failed. */
    int init;                              /* pidfd of init, a child that is not waited for yet; -1: none */
    const struct spec_hook_list *poststop; /* the hooks of its configuration, which may not be saved yet */
    const char *pid_file;                  /* NULL: none */
};

/* Kill the processes that are left, and remove everything that the container's record names. The order is:
 * first process, cgroup, mount of the root, record. The poststop hooks run before the record
 * is removed. Stop at the first step that fails; the call can be repeated. Return 0 or a negative errno. */
int delete_recorded(int root, int dir, const struct record *record, struct error *err);

/* Kill init with SIGKILL and wait for its end, at most ten seconds. Return 0, also if it has ended before, or
 * a negative errno. */
int delete_kill_init(const struct record *record, struct error *err);

/* Take the same steps for a creation that failed. A step that fails is a warning, and the next one
 * follows. */
void delete_failed(const struct deletion *deletion);

/* Remove a container by its id, as `delete --force` does. Report no error. */
void delete_quietly(const struct runtime_options *rt, const char *id);
