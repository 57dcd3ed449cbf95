/* Capabilities, supplementary groups and ID mappings as a text for the key. */
#include "prewarm/credentials.h"

#include <stdio.h>

#include "base/arena.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/proc.h"
#include "container/process.h"
#include "prewarm/start.h"

/* Maximum size of a mapping as text. The kernel shows at most 340 ranges of three numbers. A namespace with
 * more than fit here starts cold. */
#define MAP_MAX 1024

static const char *idmap_text(struct arena *a, const char *text, const char *name,
                              const struct spec_idmaps *maps)
{
    for (size_t i = 0; maps != NULL && i < maps->count; i++)
        text = arena_printf(a, "%s %s%u:%u:%u", text, name, maps->items[i].container_id,
                            maps->items[i].host_id, maps->items[i].size);
    return text;
}

/* Return the ID mapping of a user namespace that is joined. Its path alone is not enough: later, another
 * namespace with other IDs can exist at that path. */
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

const char *credentials_key(struct arena *a, const struct start *start)
{
    const struct credentials_plan *identity = &start->process->credentials;
    const struct caps_plan *caps = &start->process->caps;
    const struct spec_namespace *user = spec_namespace(start->spec, "user");
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
    text = idmap_text(a, text, "u", &start->spec->linux_->uid_mappings);
    text = idmap_text(a, text, "g", &start->spec->linux_->gid_mappings);
    for (size_t i = 0; i < start->spec->mounts.count; i++) {
        text = idmap_text(a, text, "mu", &start->spec->mounts.items[i].uid_mappings);
        text = idmap_text(a, text, "mg", &start->spec->mounts.items[i].gid_mappings);
    }
    return text;
}
