/* sandbox/mount/idmapped.h: the mapping in the mount option idmap=. */
#include "base/arena.h"
#include "base/error.h"
#include "sandbox/mount/idmapped.h"
#include "unit.h"

static struct arena arena;
static struct error error;

/* A container with two ranges. */
static struct spec_idmap ranges[] = {
    {.container_id = 0, .host_id = 0, .size = 1},
    {.container_id = 1, .host_id = 2, .size = 1000},
};
static const struct idmap_mount container = {.uids = {ranges, 2}, .gids = {ranges, 2}};

static bool parse(const char *text, struct idmap_mount *out)
{
    return idmap_mount_parse(&arena, text, &container, out, &error) == 0;
}

static void is_range(const struct spec_idmap *r, uint32_t below, uint32_t above, uint32_t size,
                     const char *name)
{
    if (!ok(r->container_id == below && r->host_id == above && r->size == size, "%s", name))
        diag("got %u-%u-%u", r->container_id, r->host_id, r->size);
}

static void refused(const char *text, const char *why)
{
    struct idmap_mount m;
    ok(!parse(text, &m), "'%s' is refused", text);
    ok(strstr(error.text, why) != NULL, "… because it %s", why);
}

int main(void)
{
    struct idmap_mount m = {0}, n = {0};
    if (!ok(parse("uids=0-1000-10#10-2000-5;gids=0-100-1", &m), "two ranges and one"))
        bail_out("%s", error.text);
    is_int(m.uids.count, 2, "ranges are separated by #");
    is_range(&m.uids.items[1], 10, 2000, 5, "below-above-length");
    is_range(&m.gids.items[0], 0, 100, 1, "gids after a semicolon");
    ok(parse("uids=0-1000-10#10-2000-5;gids=0-100-1", &n) && idmap_mount_equal(&m, &n), "equal mappings");
    ok(parse("uids=0-1000-10#10-2000-6;gids=0-100-1", &n) && !idmap_mount_equal(&m, &n), "another mapping");
    if (ok(parse("gids=@0-0-1;uids=@1-3-10", &m), "relative to the container's mapping"))
        is_range(&m.uids.items[0], 1, 4, 10, "container id 3 is host id 4 here");
    refused("uids=@0-5000-1;gids=0-0-1", "is outside of the container's id mapping");
    refused("uids=0-1;gids=0-0-1", "is not of the form");
    refused("uids=0-1-2-3;gids=0-0-1", "is not of the form");
    refused("uids=0-1-0;gids=0-0-1", "is not of the form");
    refused("uids=-1-1-1;gids=0-0-1", "is not of the form");
    refused("uids=;gids=0-0-1", "is not of the form");
    refused("uids=0-0-4294967296;gids=0-0-1", "is not of the form");
    refused("uids=0-0-1", "must give both");
    refused("users=0-0-1", "is neither uids= nor gids=");
    arena_free(&arena);
    return done_testing();
}
