/* Translate owners as from_kuid_munged() of the kernel does. */
#include "warm/owners.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/io.h"
#include "warm/file_identity.h"

/* DEFAULT_OVERFLOWUID of the kernel. */
#define UNMAPPED 65534

static uint32_t read_number(const char *path)
{
    char text[32];
    return io_read_small_at(AT_FDCWD, path, text, sizeof(text)) > 0 ? (uint32_t)strtoul(text, NULL, 10)
                                                                    : UNMAPPED;
}

void owners_read_unmapped(struct owners *out)
{
    out->unmapped_uid = read_number("/proc/sys/kernel/overflowuid");
    out->unmapped_gid = read_number("/proc/sys/kernel/overflowgid");
}

static uint32_t translate(const struct spec_idmaps *maps, uint32_t id, uint32_t unmapped)
{
    for (size_t i = 0; i < maps->count; i++)
        if (id >= maps->items[i].host_id && id - maps->items[i].host_id < maps->items[i].size)
            return maps->items[i].container_id + (id - maps->items[i].host_id);
    return unmapped;
}

void owners_translate(const struct owners *owners, struct file_identity *id)
{
    if (!owners->mapped || S_ISLNK(id->mode))
        return;
    id->uid = translate(&owners->uids, id->uid, owners->unmapped_uid);
    id->gid = translate(&owners->gids, id->gid, owners->unmapped_gid);
}
