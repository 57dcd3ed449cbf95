/* Mappings of a new user namespace (user_namespaces(7)): written directly by a privileged runtime, by
 * newuidmap(1)/newgidmap(1) otherwise. */
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
    bool active; /* a new user namespace is made */
    const struct spec_idmaps *uids, *gids;
    const char *uid_text, *gid_text; /* content of uid_map and gid_map */
    bool by_helper;                  /* newuidmap and newgidmap write them */
    bool deny_setgroups; /* one gid, unprivileged: the kernel asks for "deny" first (CVE-2014-8989) */
    bool maps_root;      /* container ids 0 exist */
};

int idmap_plan(struct arena *a, const struct spec *spec, struct idmap_plan *out, struct error *err);

/* Parent: write the mappings of the child, which is still in the first steps after its clone. */
int idmap_write(const struct idmap_plan *plan, pid_t pid, struct error *err);

/* Child, after idmap_write: become root of the new namespace (all ids 0), which the set-up needs; or of one
 * that it has joined and that may have no id 0. */
int idmap_become_root(const struct idmap_plan *plan, bool joined, struct error *err);

/* Container id to the runtime's id; -1 when it is not mapped. Without active mappings the id itself. */
int64_t idmap_to_host(const struct idmap_plan *plan, bool gid, uint32_t id);

/* A key and the list of mappings, as config.json has it. */
void idmap_describe_maps(const char *key, const struct spec_idmaps *maps, struct json_out *out);
void idmap_describe(const struct idmap_plan *plan, struct json_out *out);

#endif
