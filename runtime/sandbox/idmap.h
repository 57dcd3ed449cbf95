/* Mappings of a new user namespace (user_namespaces(7)). A privileged runtime writes them directly. Otherwise
 * newuidmap(1) and newgidmap(1) do. */
#pragma once

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
};

/* Plan the mappings of linux.uidMappings and linux.gidMappings. Return 0 or a negative errno with text. */
int idmap_plan(struct arena *a, const struct spec *spec, struct idmap_plan *out, struct error *err);

/* Parent: write the mappings of the child. The child waits for them directly after its clone. Return 0 or a
 * negative errno. */
int idmap_write(const struct idmap_plan *plan, pid_t pid, struct error *err);

/* How the child enters its user namespace. */
struct idmap_entry {
    bool joined;       /* the namespace was joined by its path */
    bool keep_groups;  /* keep the supplementary groups */
    uint32_t uid, gid; /* of the container's process */
};

/* Child, after idmap_write: become root (uid and gid 0) of the namespace, because the next steps need ids
 * that it maps. Without an id 0 in the namespace, become the process' user, as with crun: the child keeps its
 * capabilities. Return 0 or a negative errno. */
int idmap_become_root(const struct idmap_plan *plan, const struct idmap_entry *entry, struct error *err);

/* Return the runtime's id for a uid in the user namespace of a process, by the kernel's map of it, or -1. */
int64_t idmap_of_process(pid_t pid, uint32_t uid);

/* Write a key and the list of mappings as in config.json. */
void idmap_describe_maps(const char *key, const struct spec_idmaps *maps, struct json_out *out);
/* Write a map of the writer, the state of setgroups(2) and both lists of mappings. */
void idmap_describe(const struct idmap_plan *plan, struct json_out *out);
