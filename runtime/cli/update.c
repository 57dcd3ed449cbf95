/* update: change the limits of a running container, from a resources object or from options. Options are
 * converted to such an object, so that the same checks apply. */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json_out.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "container/lifecycle.h"
#include "spec/spec.h"

struct update_values {
    const char *resources;
    struct opt_i64 memory, memory_reservation, memory_swap;
    struct opt_i64 cpu_period, cpu_quota, cpu_share, cpu_idle, cpu_burst;
    const char *cpuset_cpus, *cpuset_mems;
    struct opt_i64 pids_limit, blkio_weight;
};

#define AT(field) offsetof(struct update_values, field)
static const struct option options[] = {
    {"resources", 'r', OPTION_STRING, AT(resources), "FILE",
     "file with a resources object; '-' is standard input", NULL},
    {"memory", 0, OPTION_SIZE, AT(memory), "BYTES", "memory limit, -1 for none", NULL},
    {"memory-reservation", 0, OPTION_SIZE, AT(memory_reservation), "BYTES", "protected memory", NULL},
    {"memory-swap", 0, OPTION_SIZE, AT(memory_swap), "BYTES", "limit of memory and swap together", NULL},
    {"cpu-period", 0, OPTION_INTEGER, AT(cpu_period), "USEC", "period of the CPU quota", NULL},
    {"cpu-quota", 0, OPTION_INTEGER, AT(cpu_quota), "USEC", "CPU quota per period, -1 for no limit", NULL},
    {"cpu-burst", 0, OPTION_INTEGER, AT(cpu_burst), "USEC", "unused quota that may be saved up", NULL},
    {"cpu-share", 0, OPTION_INTEGER, AT(cpu_share), "SHARES", "CPU shares relative to other cgroups", NULL},
    {"cpu-idle", 0, OPTION_INTEGER, AT(cpu_idle), "0|1", "run only when no other process wants the CPU",
     NULL},
    {"cpuset-cpus", 0, OPTION_STRING, AT(cpuset_cpus), "LIST", "CPUs to use, such as 0-3,7", NULL},
    {"cpuset-mems", 0, OPTION_STRING, AT(cpuset_mems), "LIST", "memory nodes to use", NULL},
    {"pids-limit", 0, OPTION_INTEGER, AT(pids_limit), "N", "number of processes, -1 for no limit", NULL},
    {"blkio-weight", 0, OPTION_INTEGER, AT(blkio_weight), "WEIGHT", "share of disk access, 10 to 1000", NULL},
    {0},
};

/* Path of a value in the resources object. */
static const struct {
    const char *object, *key;
    enum option_kind kind;
    size_t offset;
} properties[] = {
    {"memory", "limit", OPTION_INTEGER, AT(memory)},
    {"memory", "reservation", OPTION_INTEGER, AT(memory_reservation)},
    {"memory", "swap", OPTION_INTEGER, AT(memory_swap)},
    {"cpu", "period", OPTION_INTEGER, AT(cpu_period)},
    {"cpu", "quota", OPTION_INTEGER, AT(cpu_quota)},
    {"cpu", "burst", OPTION_INTEGER, AT(cpu_burst)},
    {"cpu", "shares", OPTION_INTEGER, AT(cpu_share)},
    {"cpu", "idle", OPTION_INTEGER, AT(cpu_idle)},
    {"cpu", "cpus", OPTION_STRING, AT(cpuset_cpus)},
    {"cpu", "mems", OPTION_STRING, AT(cpuset_mems)},
    {"pids", "limit", OPTION_INTEGER, AT(pids_limit)},
    {"blockIO", "weight", OPTION_INTEGER, AT(blkio_weight)},
};

#define PROPERTY_COUNT (sizeof(properties) / sizeof(properties[0]))

static const struct opt_i64 *integer_at(const struct update_values *values, size_t i)
{
    return (const struct opt_i64 *)((const char *)values + properties[i].offset);
}

static const char *string_at(const struct update_values *values, size_t i)
{
    return *(const char *const *)((const char *)values + properties[i].offset);
}

static bool is_given(const struct update_values *values, size_t i)
{
    return properties[i].kind == OPTION_STRING ? string_at(values, i) != NULL : integer_at(values, i)->set;
}

static bool update_any_given(const struct update_values *values)
{
    for (size_t i = 0; i < PROPERTY_COUNT; i++)
        if (is_given(values, i))
            return true;
    return false;
}

static void write_resources(const struct update_values *values, struct json_out *out)
{
    const char *open = NULL; /* the open object; properties of the same object are adjacent */
    json_out_map_open(out);
    for (size_t i = 0; i < PROPERTY_COUNT; i++) {
        if (!is_given(values, i))
            continue;
        if (open == NULL || strcmp(open, properties[i].object) != 0) {
            if (open != NULL)
                json_out_map_close(out);
            open = properties[i].object;
            json_out_key(out, open);
            json_out_map_open(out);
        }
        if (properties[i].kind == OPTION_STRING)
            json_out_pair_string(out, properties[i].key, string_at(values, i));
        else
            json_out_pair_i64(out, properties[i].key, integer_at(values, i)->value);
    }
    if (open != NULL)
        json_out_map_close(out);
    json_out_map_close(out);
}

static int text_of_options(struct arena *a, const struct update_values *values, char **text, size_t *size,
                           struct error *err)
{
    cleanup_json_out struct json_out *out = json_out_new(false);
    write_resources(values, out);
    const char *written = json_out_text(out, size);
    if (written == NULL)
        return error_set(err, -ENOMEM, "write the resources");
    *text = arena_strndup(a, written, *size);
    return 0;
}

static int update_run(struct invocation *invocation, void *values, struct error *err)
{
    const struct update_values *update = values;
    bool any = update_any_given(update);
    if (any == (update->resources != NULL))
        return error_text(err, -EINVAL,
                          any ? "--resources excludes options with limits: remove them, or --resources"
                              : "nothing to update: set a limit, or use --resources FILE");
    char *text = NULL;
    size_t size = 0;
    int ret = any ? text_of_options(invocation->arena, update, &text, &size, err)
                  : input_read(invocation->arena, "resources", update->resources, &text, &size, err);
    if (ret < 0)
        return ret;
    struct spec_resources *resources = NULL;
    ret = spec_parse_resources(invocation->arena, text, size, &resources, err);
    if (ret < 0)
        return error_wrap(err, "resources");
    return container_update(invocation->runtime, invocation->args[0], resources, err);
}

const struct command command_update = {
    .name = "update",
    .arguments = "ID",
    .summary = "change the limits of a container",
    .options = options,
    .values_size = sizeof(struct update_values),
    .min_args = 1,
    .max_args = 1,
    .run = update_run,
};
