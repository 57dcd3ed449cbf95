/* Who may read files: user and group apart, capabilities, further groups, and how ids are mapped. */
#include "container/warm_rights.h"

#include <fcntl.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/io.h"
#include "container/plan.h"

static const char *idmap_text(struct arena *a, const char *text, const char *name,
                              const struct spec_idmaps *maps)
{
    for (size_t i = 0; maps != NULL && i < maps->count; i++)
        text = arena_printf(a, "%s %s%u:%u:%u", text, name, maps->items[i].container_id,
                            maps->items[i].host_id, maps->items[i].size);
    return text;
}

/* A namespace that is joined, by the ids that are mapped in it, which a process in it tells; or by its path.
 */
static const char *joined_text(struct arena *a, const char *path)
{
    int pid, end = 0;
    char name[48], uids[1024], gids[1024];
    if (sscanf(path, "/proc/%d/ns/user%n", &pid, &end) != 1 || end == 0 || path[end] != '\0')
        return path;
    snprintf(name, sizeof(name), "/proc/%d/uid_map", pid);
    ssize_t ret = io_read_small_at(AT_FDCWD, name, uids, sizeof(uids));
    snprintf(name, sizeof(name), "/proc/%d/gid_map", pid);
    if (ret < 0 || io_read_small_at(AT_FDCWD, name, gids, sizeof(gids)) < 0)
        return path;
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
    if (user != NULL)
        text = arena_printf(a, "%s user:%s", text, user->path != NULL ? joined_text(a, user->path) : "");
    text = idmap_text(a, text, "u", &plan->spec->linux_->uid_mappings);
    text = idmap_text(a, text, "g", &plan->spec->linux_->gid_mappings);
    for (size_t i = 0; i < plan->spec->mounts.count; i++) {
        text = idmap_text(a, text, "mu", &plan->spec->mounts.items[i].uid_mappings);
        text = idmap_text(a, text, "mg", &plan->spec->mounts.items[i].gid_mappings);
    }
    return text;
}
