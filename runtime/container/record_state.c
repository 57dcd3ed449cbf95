/* The state of a container as JSON (runtime-spec, "State"). */
#include "base/json_out.h"
#include "container/record.h"
#include "spec/annotations.h"

/* Write the names of annotations without effect: not allowed by the administrator, or unknown. */
static void write_ignored(const struct record *record, struct json_out *out)
{
    const struct str_map *all = &record->annotations, *ignored = &record->ignored;
    bool open = ignored->count > 0;
    for (size_t i = 0; i < all->count && !open; i++)
        open = annotation_is_unknown(all->items[i].key);
    if (!open)
        return;
    json_out_key(out, "ignoredAnnotations");
    json_out_array_open(out);
    for (size_t i = 0; i < ignored->count; i++)
        json_out_string(out, ignored->items[i].key);
    for (size_t i = 0; i < all->count; i++)
        if (annotation_is_unknown(all->items[i].key))
            json_out_string(out, all->items[i].key);
    json_out_array_close(out);
}

static void write_pairs(const struct str_map *map, struct json_out *out)
{
    for (size_t i = 0; i < map->count; i++)
        json_out_pair_string(out, map->items[i].key, map->items[i].value);
}

void record_write_state(const struct record *record, const char *status, pid_t pid, bool extended,
                        struct json_out *out)
{
    json_out_map_open(out);
    json_out_pair_string(out, "ociVersion", record->oci_version);
    json_out_pair_string(out, "id", record->id);
    json_out_pair_string(out, "status", status);
    /* The specification requires the pid only while there is a process. Engines read 0 as "none". */
    json_out_pair_i64(out, "pid", pid);
    json_out_pair_string(out, "bundle", record->bundle);
    if (extended) {
        json_out_pair_string(out, "rootfs", record->rootfs);
        json_out_pair_string(out, "created", record->created);
        json_out_pair_u64(out, "owner", record->owner);
        json_out_pair_string(out, "systemd-scope", record->cgroup.scope);
    }
    json_out_key(out, "annotations");
    json_out_map_open(out);
    write_pairs(&record->annotations, out);
    write_pairs(&record->ignored, out);
    json_out_map_close(out);
    write_ignored(record, out);
    json_out_map_close(out);
}
