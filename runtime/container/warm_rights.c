/* Who may read files: user and group apart, capabilities, further groups, and how ids are mapped. */
#include "container/warm_rights.h"

#include <stdio.h>

#include "base/arena.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/proc.h"
#include "container/plan.h"

/* The kernel shows 340 ranges at most, of three numbers each; who has so many is cold. */
#define MAP_MAX 1024

static const char *idmap_text(struct arena *a, const char *text, const char *name,
                              const struct spec_idmaps *maps)
{
    for (size_t i = 0; maps != NULL && i < maps->count; i++)
        text = arena_printf(a, "%s %s%u:%u:%u", text, name, maps->items[i].container_id,
                            maps->items[i].host_id, maps->items[i].size);
    return text;
}

/* A namespace that is joined, by the ids that are mapped in it, which a process in it tells. Its path alone
 * would stand for another, with other ids, when that is made there later. */
static const char *joined_text(struct arena *a, const char *path)
{
    int pid, end = 0;
    char uids[MAP_MAX], gids[MAP_MAX];
    if (sscanf(path, "/proc/%d/ns/user%n", &pid, &end) != 1 || end == 0 || path[end] != '\0')
        return NULL;
    cleanup_fd int dir = proc_open_process(pid, NULL);
    if (dir < 0 || io_read_small_at(dir, "uid_map", uids, sizeof(uids)) < 0 ||
        io_read_small_at(dir, "gid_map", gids, sizeof(gids)) < 0)
        return NULL;
    return arena_printf(a, "%s%s", uids, gids);
}

const char *warm_rights(struct arena *a, const struct plan *plan)
{
    const struct identity_plan *identity = &plan->process.identity;
    const struct caps_plan *caps = &plan->process.caps;
    const struct spec_namespace *user = spec_namespace(plan->spec, "user");
    const char *text = arena_printf(a, "%llx %llx %llx%s", (unsigned long long)caps->permitted,
                                    (unsigned long long)caps->effective, (unsigned long long)caps->ambient,
                                    identity->keep_groups ? " own" : "");
    for (size_t i = 0; i < identity->group_count; i++)
        text = arena_printf(a, "%s %u", text, identity->groups[i]);
    const char *joined = user != NULL && user->path != NULL ? joined_text(a, user->path) : "";
    if (joined == NULL)
        return NULL;
    if (user != NULL)
        text = arena_printf(a, "%s user:%s", text, joined);
    text = idmap_text(a, text, "u", &plan->spec->linux_->uid_mappings);
    text = idmap_text(a, text, "g", &plan->spec->linux_->gid_mappings);
    for (size_t i = 0; i < plan->spec->mounts.count; i++) {
        text = idmap_text(a, text, "mu", &plan->spec->mounts.items[i].uid_mappings);
        text = idmap_text(a, text, "mg", &plan->spec->mounts.items[i].gid_mappings);
    }
    return text;
}
