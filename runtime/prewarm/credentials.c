/* Capabilities, supplementary groups and ID mappings as a text for the key. */
#include "prewarm/credentials.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/proc.h"
#include "base/str.h"
#include "container/process.h"
#include "prewarm/start.h"
#include "warm/owners.h"

/* Maximum size of a mapping as text. The kernel shows at most 340 ranges of three numbers. A namespace with
 * more than fit here starts cold. */
#define MAP_MAX 1024

static const char *idmap_text(struct arena *a, const char *text, const char *name,
                              const struct spec_idmaps *maps)
{
    for (size_t i = 0; i < maps->count; i++)
        text = arena_printf(a, "%s %s%u:%u:%u", text, name, maps->items[i].container_id,
                            maps->items[i].host_id, maps->items[i].size);
    return text;
}

/* Write the IDs that exist in the container. */
static const char *inner_text(struct arena *a, const char *text, const char *name,
                              const struct spec_idmaps *maps)
{
    for (size_t i = 0; i < maps->count; i++)
        text = arena_printf(a, "%s %s%u:%u", text, name, maps->items[i].container_id, maps->items[i].size);
    return text;
}

/* Read the mapping of a user namespace: lines of three numbers, user_namespaces(7). */
static bool credentials_read_map(struct arena *a, int dir, const char *file, struct spec_idmaps *out)
{
    char text[MAP_MAX];
    if (io_read_small_at(dir, file, text, sizeof(text)) < 0)
        return false;
    *out = (struct spec_idmaps){ARENA_ARRAY(a, MAP_MAX / 6, struct spec_idmap), 0};
    int length = 0;
    for (const char *p = text;; p += length) {
        struct spec_idmap *m = &out->items[out->count];
        if (sscanf(p, "%" SCNu32 "%" SCNu32 "%" SCNu32 "%n", &m->container_id, &m->host_id, &m->size,
                   &length) != 3)
            return true;
        out->count++;
    }
}

/* Read the ID mapping of a user namespace that is joined. Its path alone is not enough: later, another
 * namespace with other IDs can exist at that path. */
static bool read_joined(struct arena *a, const char *path, struct owners *out)
{
    int pid, end = 0;
    if (sscanf(path, "/proc/%d/ns/user%n", &pid, &end) != 1 || end == 0 || path[end] != '\0')
        return false;
    cleanup_fd int dir = proc_open_process(pid, NULL);
    return dir >= 0 && credentials_read_map(a, dir, "uid_map", &out->uids) &&
           credentials_read_map(a, dir, "gid_map", &out->gids);
}

/* Write the mappings of the mounts, which decide about owners as well. */
static const char *mounts_text(struct arena *a, const char *text, const struct spec_mounts *mounts)
{
    for (size_t i = 0; i < mounts->count; i++) {
        const struct spec_mount *mount = &mounts->items[i];
        if (mount->uid_mappings.count + mount->gid_mappings.count > 0)
            text = arena_printf(a, "%s at %s", text, mount->destination);
        text = idmap_text(a, text, "u", &mount->uid_mappings);
        text = idmap_text(a, text, "g", &mount->gid_mappings);
        for (size_t k = 0; k < mount->options.count; k++)
            if (str_after(mount->options.items[k], "idmap") != NULL ||
                str_after(mount->options.items[k], "ridmap") != NULL)
                text = arena_printf(a, "%s %s at %s", text, mount->options.items[k], mount->destination);
    }
    return text;
}

const struct owners *credentials_owners(struct arena *a, const struct start *start)
{
    const struct spec_namespace *user = spec_namespace(start->spec, "user");
    struct owners *out = ARENA_NEW(a, struct owners);
    *out = (struct owners){.mapped = user != NULL,
                           .uids = start->spec->linux_->uid_mappings,
                           .gids = start->spec->linux_->gid_mappings};
    if (user != NULL && user->path != NULL && !read_joined(a, user->path, out))
        return NULL;
    owners_read_unmapped(out);
    const char *text =
        arena_printf(a, "%s %u %u", user != NULL ? "mapped" : "", out->unmapped_uid, out->unmapped_gid);
    text = idmap_text(a, text, "u", &out->uids);
    text = idmap_text(a, text, "g", &out->gids);
    out->text = mounts_text(a, text, &start->spec->mounts);
    return out;
}

const char *credentials_key(struct arena *a, const struct start *start, const struct owners *owners)
{
    const struct credentials_plan *identity = &start->process->credentials;
    const struct caps_plan *caps = &start->process->caps;
    const char *text =
        arena_printf(a, "%llx %llx %llx%s%s", (unsigned long long)caps->permitted,
                     (unsigned long long)caps->effective, (unsigned long long)caps->ambient,
                     identity->keep_groups ? " own " : "", identity->keep_groups ? owners->text : "");
    for (size_t i = 0; i < identity->group_count; i++)
        text = arena_printf(a, "%s %u", text, identity->groups[i]);
    if (owners->mapped)
        text = arena_printf(a, "%s user:", text);
    text = inner_text(a, text, "u", &owners->uids);
    return inner_text(a, text, "g", &owners->gids);
}
