/* Removing all that create makes: after the container's end, after a failed creation, and after a runtime
 * that was killed. */
#ifndef PYSBX_CONTAINER_DELETE_H
#define PYSBX_CONTAINER_DELETE_H

struct error;
struct record;
struct runtime_options;
struct spec_hook_list;

struct deletion {
    int root, dir; /* the state root, the container's directory */
    const struct record *record;
    /* Of a creation that failed. */
    int init;                              /* pidfd of the child that is init, not waited for yet; -1: none */
    const struct spec_hook_list *poststop; /* the hooks of its configuration, which need not be saved yet */
    const char *pid_file;                  /* or NULL */
};

/* Kill what is left of the container and remove what its record names, in this order: first process, cgroup,
 * resctrl groups, mount of the root, record. Poststop hooks run before the record goes. Stops at the first
 * step that fails, and can be repeated. 0 or a negative errno. */
int delete_recorded(int root, int dir, const struct record *record, struct error *err);

/* The same steps for a creation that failed. A step that fails is a warning, and the next follows. */
void delete_failed(const struct deletion *deletion);

/* Remove a container by its id, as `delete --force` does, and whatever happens say nothing. */
void delete_quietly(const struct runtime_options *rt, const char *id);

#endif
