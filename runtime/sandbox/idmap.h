/* Mappings of a new user namespace (user_namespaces(7)). A privileged runtime writes them directly. Otherwise
 * newuidmap(1) and newgidmap(1) do. */
#ifndef PYSBX_SANDBOX_IDMAP_H
#define PYSBX_SANDBOX_IDMAP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "spec/spec.h"

struct error;
struct json_out;

struct idmap_plan {
    bool active; /* the container gets a new user namespace */
    const struct spec_idmaps *uids, *gids;
    const char *uid_text, *gid_text; /* content of uid_map and gid_map */
    bool by_helper;                  /* newuidmap and newgidmap write them */
    bool deny_setgroups; /* one gid, unprivileged: the kernel asks for "deny" first (CVE-2014-8989) */
    bool maps_root;      /* uid 0 and gid 0 of the container are mapped */
};

/* Plan the mappings of linux.uidMappings and linux.gidMappings. Return 0 or a negative errno with text. */
int idmap_plan(struct arena *a, const struct spec *spec, struct idmap_plan *out, struct error *err);

/* Parent: write the mappings of the child. The child waits for them directly after its clone. Return 0 or a
 * negative errno. */
int idmap_write(const struct idmap_plan *plan, pid_t pid, struct error *err);

/* Child, after idmap_write: become root (uid and gid 0) of the new namespace, because the next steps need it.
 * `joined`: become root of a namespace that was joined, which may have no id 0. `keep_groups`: keep the
 * supplementary groups. Return 0 or a negative errno. */
int idmap_become_root(const struct idmap_plan *plan, bool joined, bool keep_groups, struct error *err);

/* Translate an id of the container to the runtime's id. Return -1 if it is not mapped. Without active
 * mappings, return the id itself. */
int64_t idmap_to_host(const struct idmap_plan *plan, bool gid, uint32_t id);

/* Return the runtime's id for a uid in the user namespace of a process, by the kernel's map of it, or -1. */
int64_t idmap_of_process(pid_t pid, uint32_t uid);

/* Write a key and the list of mappings as in config.json. */
void idmap_describe_maps(const char *key, const struct spec_idmaps *maps, struct json_out *out);
/* Write a map of the writer, the state of setgroups(2) and both lists of mappings. */
void idmap_describe(const struct idmap_plan *plan, struct json_out *out);

#endif
