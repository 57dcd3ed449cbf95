/* A path is resolved in the mount whose destination is its longest prefix. A link that leads from one mount
 * into another is followed within the first only; where that makes a difference the identities of files
 * differ, or nothing is found, and the container starts cold. */
#include "warm/look.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/arena.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "spec/spec.h"

static bool is_bind(const struct spec_mount *mount)
{
    if (str_eq(mount->type, "bind"))
        return true;
    for (size_t i = 0; i < mount->options.count; i++)
        if (str_eq(mount->options.items[i], "bind") || str_eq(mount->options.items[i], "rbind"))
            return true;
    return false;
}

void look_plan(struct arena *a, const struct spec *spec, int rootfs, const char *bundle, struct look *out)
{
    struct look_mount *mounts = ARENA_ARRAY(a, spec->mounts.count, struct look_mount);
    for (size_t i = 0; i < spec->mounts.count; i++) {
        const struct spec_mount *mount = &spec->mounts.items[i];
        mounts[i].destination = path_clean(a, mount->destination);
        if (is_bind(mount) && mount->source != NULL)
            mounts[i].source = path_join(a, bundle, mount->source);
    }
    *out = (struct look){rootfs, mounts, spec->mounts.count};
}

/* What is left of the path behind the destination, "" or beginning with a slash; NULL when it is elsewhere.
 */
static const char *beneath(const char *path, const char *destination)
{
    const char *rest = str_after(path, destination);
    if (rest == NULL || str_eq(destination, "/"))
        return rest != NULL ? path : NULL;
    return *rest == '\0' || *rest == '/' ? rest : NULL;
}

int look_open(const struct look *look, const char *path, int flags)
{
    const struct look_mount *mount = NULL;
    const char *inside = path;
    /* Of mounts on the same place the last one is on top. */
    for (size_t i = 0; i < look->count; i++) {
        const struct look_mount *candidate = &look->mounts[i];
        const char *rest = beneath(path, candidate->destination);
        if (rest == NULL || (mount != NULL && strlen(candidate->destination) < strlen(mount->destination)))
            continue;
        mount = candidate;
        inside = rest;
    }
    if (mount == NULL)
        return path_open_in_root(look->root, path, flags, 0);
    if (mount->source == NULL)
        return -EXDEV;
    bool itself = *inside == '\0'; /* it may be a file */
    cleanup_fd int source = open(mount->source, (itself ? flags : O_PATH) | O_CLOEXEC);
    if (source < 0)
        return -errno;
    return itself ? fd_steal(&source) : path_open_in_root(source, inside, flags, 0);
}
