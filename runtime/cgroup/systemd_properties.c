/* The properties of a container's scope: limits in the terms of systemd (systemd.resource-control(5),
 * org.freedesktop.systemd1(5)), and those of annotations. Nothing here connects to systemd. */
#include "cgroup/systemd_properties.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "cgroup/types.h"
#include "spec/annotations.h"
#include "spec/spec.h"

/* More CPUs than any kernel supports. */
#define CPU_MAX 65536

static struct systemd_property *properties_add(struct arena *a, struct systemd_properties *p,
                                               const char *name, enum systemd_type type)
{
    if ((p->count & (p->count - 1)) == 0) {
        struct systemd_property *grown =
            ARENA_ARRAY(a, p->count > 0 ? 2 * p->count : 1, struct systemd_property);
        if (p->count > 0)
            memcpy(grown, p->items, p->count * sizeof(*grown));
        p->items = grown;
    }
    struct systemd_property *entry = &p->items[p->count++];
    *entry = (struct systemd_property){.name = name, .type = type};
    return entry;
}

void systemd_properties_of_scope(struct arena *a, const char *description, const char *slice,
                                 struct systemd_properties *properties)
{
    const struct systemd_property of_scope[] = {
        {.name = "Description", .type = SYSTEMD_STRING, .text = description},
        {.name = "Slice", .type = SYSTEMD_STRING, .text = slice, .required = true},
        {.name = "Delegate", .type = SYSTEMD_BOOLEAN, .number = true, .required = true},
        {.name = "DefaultDependencies", .type = SYSTEMD_BOOLEAN, .number = false},
        /* systemd unloads the unit when it ends or fails (systemd 236), so the runtime does not have to ask
         * for it. */
        {.name = "CollectMode", .type = SYSTEMD_STRING, .text = "inactive-or-failed"},
        {.name = "CPUAccounting", .type = SYSTEMD_BOOLEAN, .number = true},
        {.name = "MemoryAccounting", .type = SYSTEMD_BOOLEAN, .number = true},
        {.name = "IOAccounting", .type = SYSTEMD_BOOLEAN, .number = true},
        {.name = "TasksAccounting", .type = SYSTEMD_BOOLEAN, .number = true},
    };
    for (size_t i = 0; i < sizeof(of_scope) / sizeof(of_scope[0]); i++)
        *properties_add(a, properties, of_scope[i].name, of_scope[i].type) = of_scope[i];
}

static bool to_number(const char *value, uint64_t *number)
{
    if (strcmp(value, "max") == 0) {
        *number = UINT64_MAX;
        return true;
    }
    return str_to_u64(value, UINT64_MAX, number) == 0;
}

static void add_number(struct arena *a, struct systemd_properties *p, const char *name, const char *value)
{
    uint64_t number;
    if (to_number(value, &number))
        properties_add(a, p, name, SYSTEMD_UINT64)->number = number;
}

/* systemd expresses idle as a weight of 0. To leave idle, the weight follows, or the default of 100 is set.
 * */
static void add_idle(struct arena *a, struct systemd_properties *p, const char *name, const char *value)
{
    properties_add(a, p, name, SYSTEMD_UINT64)->number = strcmp(value, "1") == 0 ? 0 : 100;
}

/* Convert "QUOTA [PERIOD]" to microseconds of CPU time per second. */
static void add_quota(struct arena *a, struct systemd_properties *p, const char *name, const char *value)
{
    const char *space = strchr(value, ' ');
    uint64_t quota, period = 100000;
    const char *first = space != NULL ? arena_strndup(a, value, (size_t)(space - value)) : value;
    if (!to_number(first, &quota) || (space != NULL && str_to_u64(space + 1, UINT32_MAX, &period) < 0) ||
        period == 0)
        return;
    uint64_t per_second = UINT64_MAX;
    if (quota != UINT64_MAX) {
        if (__builtin_mul_overflow(quota, 1000000, &per_second))
            return;
        /* systemd stores whole percents. Round up, because the container's own file has the exact value. */
        per_second = (per_second / period + 9999) / 10000 * 10000;
    }
    properties_add(a, p, name, SYSTEMD_UINT64)->number = per_second;
    if (space != NULL)
        properties_add(a, p, "CPUQuotaPeriodUSec", SYSTEMD_UINT64)->number = period;
}

const uint8_t *systemd_bitmask(struct arena *a, const char *list, size_t *size)
{
    uint8_t *mask = arena_alloc(a, CPU_MAX / 8);
    *size = 0;
    for (const char *p = list; *p != '\0';) {
        char *end;
        if (*p < '0' || *p > '9')
            return NULL;
        unsigned long first = strtoul(p, &end, 10), last = first;
        if (*end == '-') {
            if (end[1] < '0' || end[1] > '9')
                return NULL;
            last = strtoul(end + 1, &end, 10);
        }
        if (last < first || last >= CPU_MAX || (*end != ',' && *end != '\0') ||
            (*end == ',' && end[1] == '\0'))
            return NULL;
        for (unsigned long i = first; i <= last; i++)
            mask[i / 8] |= (uint8_t)(1U << i % 8);
        if (last / 8 + 1 > *size)
            *size = last / 8 + 1;
        p = *end == ',' ? end + 1 : end;
    }
    return mask;
}

static void add_bitmask(struct arena *a, struct systemd_properties *p, const char *name, const char *value)
{
    size_t size;
    const uint8_t *bytes = systemd_bitmask(a, strcmp(value, "\n") == 0 ? "" : value, &size);
    if (bytes == NULL)
        return;
    struct systemd_property *entry = properties_add(a, p, name, SYSTEMD_BYTES);
    entry->bytes = bytes;
    entry->size = size;
}

/* systemd maps IOWeight 1 to 10000 to BFQ's 1 to 1000 so that 100 is 100 (its BFQ_WEIGHT). This is the
 * inverse, so that BFQ gets the value of the specification. */
static uint64_t io_weight_of_bfq(uint64_t weight)
{
    return weight <= 100 ? weight : 100 + (weight - 100) * (10000 - 100) / (1000 - 100);
}

/* Add "WEIGHT" or "MAJOR:MINOR WEIGHT". */
static void add_bfq_weight(struct arena *a, struct systemd_properties *p, const char *name, const char *value)
{
    const char *space = strchr(value, ' ');
    uint64_t weight;
    if (str_to_u64(space != NULL ? space + 1 : value, 1000, &weight) < 0 || weight == 0)
        return;
    struct systemd_property *entry = properties_add(a, p, space != NULL ? "IODeviceWeight" : name,
                                                    space != NULL ? SYSTEMD_DEVICE_NUMBER : SYSTEMD_UINT64);
    entry->number = io_weight_of_bfq(weight);
    if (space != NULL)
        entry->text = arena_printf(a, "/dev/block/%.*s", (int)(space - value), value);
}

/* Kill all processes or none on out of memory. systemd accepts this only at the start of a unit. */
static void add_oom_policy(struct arena *a, struct systemd_properties *p, const char *name, const char *value)
{
    properties_add(a, p, name, SYSTEMD_STRING)->text = strcmp(value, "1") == 0 ? "kill" : "continue";
}

static const struct {
    const char *file, *property;
    void (*add)(struct arena *a, struct systemd_properties *p, const char *name, const char *value);
} translations[] = {
    {"cpu.weight", "CPUWeight", add_number},
    {"cpu.idle", "CPUWeight", add_idle},
    {"cpu.max", "CPUQuotaPerSecUSec", add_quota},
    {"cpuset.cpus", "AllowedCPUs", add_bitmask},
    {"cpuset.mems", "AllowedMemoryNodes", add_bitmask},
    {"memory.min", "MemoryMin", add_number},
    {"memory.low", "MemoryLow", add_number},
    {"memory.high", "MemoryHigh", add_number},
    {"memory.max", "MemoryMax", add_number},
    {"memory.swap.max", "MemorySwapMax", add_number},
    {"memory.zswap.max", "MemoryZSwapMax", add_number},
    {"memory.oom.group", "OOMPolicy", add_oom_policy},
    {"pids.max", "TasksMax", add_number},
    {"io.bfq.weight", "IOWeight", add_bfq_weight},
    {"io.weight", "IOWeight", add_number},
};

void systemd_properties_of_writes(struct arena *a, const struct cgroup_writes *writes,
                                  struct systemd_properties *properties)
{
    for (size_t i = 0; i < writes->count; i++) {
        const struct cgroup_write *w = &writes->items[i];
        for (size_t j = 0; j < sizeof(translations) / sizeof(translations[0]); j++)
            if (strcmp(translations[j].file, w->file) == 0)
                translations[j].add(a, properties, translations[j].property, w->value);
        /* The next entry has the same meaning. */
        if (w->or_next)
            i++;
    }
}

static const struct {
    const char *word;
    enum systemd_type type;
    int64_t min;
    uint64_t max;
} number_types[] = {
    {"int32", SYSTEMD_INT32, INT32_MIN, INT32_MAX}, {"uint32", SYSTEMD_UINT32, 0, UINT32_MAX},
    {"int64", SYSTEMD_INT64, INT64_MIN, INT64_MAX}, {"uint64", SYSTEMD_UINT64, 0, UINT64_MAX},
    {"@i", SYSTEMD_INT32, INT32_MIN, INT32_MAX},    {"@u", SYSTEMD_UINT32, 0, UINT32_MAX},
    {"@x", SYSTEMD_INT64, INT64_MIN, INT64_MAX},    {"@t", SYSTEMD_UINT64, 0, UINT64_MAX},
};

static bool properties_parse_number(const char *text, struct systemd_property *out)
{
    const char *digits = text;
    size_t type = 0; /* a number without a type is an int32 in GVariant text */
    for (size_t i = 0; i < sizeof(number_types) / sizeof(number_types[0]); i++) {
        const char *rest = str_after(text, number_types[i].word);
        if (rest != NULL && *rest == ' ') {
            digits = rest + strspn(rest, " ");
            type = i;
        }
    }
    if (number_types[type].min < 0) {
        int64_t value;
        if (str_to_i64(digits, &value) < 0 || value < number_types[type].min ||
            value > (int64_t)number_types[type].max)
            return false;
        out->number = (uint64_t)value;
    } else if (str_to_u64(digits, number_types[type].max, &out->number) < 0) {
        return false;
    }
    out->type = number_types[type].type;
    return true;
}

/* Parse a quoted string at *text, and move *text behind it. NULL if there is none. */
static const char *parse_string(struct arena *a, const char **text)
{
    const char *p = *text;
    char quote = *p;
    if (quote != '\'' && quote != '"')
        return NULL;
    char *out = arena_alloc(a, strlen(p)), *to = out;
    for (p++; *p != quote; p++) {
        if (*p == '\\')
            p++;
        if (*p == '\0')
            return NULL;
        *to++ = *p;
    }
    *text = p + 1;
    return out;
}

static bool parse_strings(struct arena *a, const char *text, struct systemd_property *out)
{
    const char *rest = str_after(text, "@as ");
    const char *p = rest != NULL ? rest : text;
    if (*p++ != '[')
        return false;
    const char **texts = ARENA_ARRAY(a, strlen(p) + 1, const char *);
    size_t count = 0;
    p += strspn(p, " ");
    while (*p != ']') {
        texts[count] = parse_string(a, &p);
        if (texts[count++] == NULL)
            return false;
        p += strspn(p, " ");
        if (*p == ',')
            p += 1 + strspn(p + 1, " ");
        else if (*p != ']')
            return false;
    }
    out->type = SYSTEMD_STRINGS;
    out->texts = texts;
    return p[1] == '\0' && (count > 0 || rest != NULL);
}

static bool parse_value(struct arena *a, const char *text, struct systemd_property *out)
{
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) {
        out->type = SYSTEMD_BOOLEAN;
        out->number = text[0] == 't';
        return true;
    }
    if (text[0] == '\'' || text[0] == '"') {
        out->type = SYSTEMD_STRING;
        out->text = parse_string(a, &text);
        return out->text != NULL && *text == '\0';
    }
    if (text[0] == '[' || str_after(text, "@as ") != NULL)
        return parse_strings(a, text, out);
    return properties_parse_number(text, out);
}

/* Parse a number of seconds, with or without a fraction, to microseconds. */
static bool parse_seconds(const char *text, struct systemd_property *out)
{
    struct systemd_property whole = {0};
    if (properties_parse_number(text, &whole)) {
        if ((whole.type != SYSTEMD_UINT64 && whole.type != SYSTEMD_UINT32 && (int64_t)whole.number < 0) ||
            __builtin_mul_overflow(whole.number, 1000000, &out->number))
            return false;
    } else {
        char *end;
        double seconds = strtod(text, &end);
        if (text[0] < '0' || text[0] > '9' || *end != '\0' || seconds > 1e12)
            return false;
        out->number = (uint64_t)(seconds * 1e6 + 0.5);
    }
    out->type = SYSTEMD_UINT64;
    return true;
}

static bool is_property_name(const char *name)
{
    return name[0] != '\0' &&
           strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789") == strlen(name);
}

int systemd_properties_of_annotations(struct arena *a, const struct spec *spec,
                                      struct systemd_properties *properties, struct error *err)
{
    for (size_t i = 0; i < spec->annotations.count; i++) {
        const struct str_pair *pair = &spec->annotations.items[i];
        const char *name = str_after(pair->key, ANNOTATION_SYSTEMD_PROPERTY);
        if (name == NULL)
            continue;
        if (!is_property_name(name))
            return error_set(err, -EINVAL, "annotations: '%s' does not name a systemd property", pair->key);
        struct systemd_property *entry = properties_add(a, properties, name, SYSTEMD_STRING);
        entry->required = true;
        size_t length = strlen(name);
        /* "TimeoutStopSec", but not "TimeoutStopUSec". */
        bool seconds = length > 3 && strcmp(name + length - 3, "Sec") == 0 && name[length - 4] >= 'a' &&
                       name[length - 4] <= 'z';
        if (seconds)
            entry->name = arena_printf(a, "%.*sUSec", (int)(length - 3), name);
        if (!(seconds ? parse_seconds(pair->value, entry) : parse_value(a, pair->value, entry)))
            return error_set(err, -EINVAL, "annotation '%s': '%s' is not a value in GVariant text format",
                             pair->key, pair->value);
    }
    return 0;
}
