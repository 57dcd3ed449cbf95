/* Plan the rules of the annotation run.pysbx.landlock: its tables, its defaults, and the part that this
 * kernel supports. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "sandbox/lsm/landlock.h"
#include "sandbox/lsm/landlock_abi.h"
#include "spec/json.h"
#include "spec/schema.h"
#include "spec/spec.h"

struct words {
    struct str_list list;
    bool given; /* the key is present, perhaps with an empty list */
};

struct ports {
    uint32_t *items;
    size_t count;
};

struct ruleset {
    struct words read, write, execute, device, scope;
    struct json_text network;
    const char *enforcement;
    bool log;
};

/* A list, and the flag for its presence. */
#define WORDS(name, member, ...)                                                                             \
    {.key = name,                                                                                            \
     .kind = FIELD_STRINGS,                                                                                  \
     .flags = FIELD_NOT_EMPTY,                                                                               \
     .offset = offsetof(struct ruleset, member.list.items),                                                  \
     .count_offset = offsetof(struct ruleset, member.list.count),                                            \
     __VA_ARGS__},                                                                                           \
    {                                                                                                        \
        .key = name, .kind = FIELD_PRESENT, .offset = offsetof(struct ruleset, member.given)                 \
    }
#define PORTS(name)                                                                                          \
    {                                                                                                        \
        .key = name, .kind = FIELD_U32_LIST, .offset = offsetof(struct ports, items),                        \
        .count_offset = offsetof(struct ports, count), .max = UINT16_MAX                                     \
    }
#define SCHEMA(table, object)                                                                                \
    {                                                                                                        \
        .fields = table, .count = sizeof(table) / sizeof((table)[0]), .size = sizeof(object)                 \
    }

static const struct field filesystem_fields[] = {
    WORDS("read", read, .words = NULL),
    WORDS("write", write, .words = NULL),
    WORDS("execute", execute, .words = NULL),
    WORDS("device", device, .words = NULL),
};
static const struct schema filesystem_schema = SCHEMA(filesystem_fields, struct ruleset);

/* Ports are decoded one by one, because each list may be the word "any" instead. */
static const struct field network_fields[] = {PORTS("bind"), PORTS("connect")};
static const struct schema network_schema = SCHEMA(network_fields, struct ports);
static const uint64_t network_rights[] = {NET_BIND_TCP, NET_CONNECT_TCP};

static const char *const scopes[] = {"abstract-unix-socket", "signal", NULL};
static const char *const enforcements[] = {"best-effort", "required", NULL};

static const struct field ruleset_fields[] = {
    {.key = "filesystem", .kind = FIELD_INLINE, .child = &filesystem_schema},
    {.key = "network",
     .kind = FIELD_TEXT,
     .offset = offsetof(struct ruleset, network),
     .child = &network_schema},
    WORDS("scope", scope, .words = scopes),
    {.key = "log", .kind = FIELD_BOOL, .offset = offsetof(struct ruleset, log)},
    {.key = "enforcement",
     .kind = FIELD_STRING,
     .offset = offsetof(struct ruleset, enforcement),
     .words = enforcements},
};
static const struct schema ruleset_schema = SCHEMA(ruleset_fields, struct ruleset);

#define RIGHTS_READ (FS_READ_FILE | FS_READ_DIR)
/* Device nodes are no files: the right to write does not include making them. */
#define RIGHTS_WRITE                                                                                         \
    (RIGHTS_READ | FS_WRITE_FILE | FS_TRUNCATE | FS_REMOVE_DIR | FS_REMOVE_FILE | FS_MAKE_DIR |              \
     FS_MAKE_REG | FS_MAKE_SOCK | FS_MAKE_FIFO | FS_MAKE_SYM | FS_REFER | FS_IOCTL_DEV)
#define RIGHTS_EXECUTE (FS_EXECUTE | FS_READ_FILE)
#define RIGHTS_DEVICE  (RIGHTS_READ | FS_WRITE_FILE | FS_IOCTL_DEV)

static const char *const read_default[] = {"/", NULL};
static const char *const write_default[] = {"-/tmp", NULL};
/* Without these, 2>/dev/null fails and the program cannot open a pseudo-terminal. */
static const char *const device_default[] = {"-/dev/null",    "-/dev/zero", "-/dev/full", "-/dev/random",
                                             "-/dev/urandom", "-/dev/tty",  "-/dev/pts",  NULL};
static const char *const none_default[] = {NULL};

static const struct {
    const char *key;
    size_t offset;
    const char *const *otherwise;
    uint64_t access;
    bool executes; /* unless `execute` is given */
    bool follow;
} path_lists[] = {
    {"read", offsetof(struct ruleset, read), read_default, RIGHTS_READ, true, true},
    {"write", offsetof(struct ruleset, write), write_default, RIGHTS_WRITE, true, false},
    {"execute", offsetof(struct ruleset, execute), none_default, RIGHTS_EXECUTE, false, true},
    {"device", offsetof(struct ruleset, device), device_default, RIGHTS_DEVICE, false, false},
};
#define PATH_LISTS (sizeof(path_lists) / sizeof(path_lists[0]))

/* Refuse unknown keys. config.json may have them, but in a ruleset a misspelt key would leave something open.
 */
static int refuse_unknown(struct arena *a, const struct json_value *object, const struct schema *schema,
                          struct error *err)
{
    for (const struct json_value *member = object->first; member != NULL; member = member->next) {
        const struct field *row = NULL;
        for (size_t i = 0; i < schema->count && row == NULL; i++)
            if (str_eq(schema->fields[i].key, member->key))
                row = &schema->fields[i];
        if (row == NULL)
            return json_error(a, member, err, "unknown property");
        bool nested = row->kind == FIELD_INLINE || row->kind == FIELD_TEXT;
        int ret = nested && member->kind == JSON_OBJECT ? refuse_unknown(a, member, row->child, err) : 0;
        if (ret < 0)
            return ret;
    }
    return 0;
}

static size_t count_words(const char *const *words)
{
    size_t count = 0;
    while (words[count] != NULL)
        count++;
    return count;
}

static int plan_path(const char *key, size_t index, const char *text, struct landlock_path *rule,
                     struct error *err)
{
    rule->optional = text[0] == '-';
    rule->path = text + rule->optional;
    if (rule->path[0] != '/')
        return error_text(err, -EINVAL, "filesystem.%s[%zu]: '%s' is not an absolute path", key, index,
                          rule->path);
    return 0;
}

static int landlock_plan_paths(struct arena *a, const struct ruleset *ruleset, struct landlock_plan *out,
                               struct error *err)
{
    const char *const *lists[PATH_LISTS];
    size_t counts[PATH_LISTS], total = 0;
    for (size_t i = 0; i < PATH_LISTS; i++) {
        const struct words *words = (const void *)((const char *)ruleset + path_lists[i].offset);
        lists[i] = words->given ? words->list.items : path_lists[i].otherwise;
        counts[i] = words->given ? words->list.count : count_words(path_lists[i].otherwise);
        total += counts[i];
    }
    struct landlock_path *rules = ARENA_ARRAY(a, total, struct landlock_path);
    out->paths = rules;
    for (size_t i = 0; i < PATH_LISTS; i++) {
        bool executes = path_lists[i].executes && !ruleset->execute.given;
        for (size_t j = 0; j < counts[i]; j++) {
            struct landlock_path *rule = &rules[out->path_count++];
            rule->access = path_lists[i].access | (executes ? FS_EXECUTE : 0);
            rule->follow = path_lists[i].follow;
            int ret = plan_path(path_lists[i].key, j, lists[i][j], rule, err);
            if (ret < 0)
                return ret;
        }
    }
    return 0;
}

/* Plan both lists of ports. Without the object or a list, no port of it is allowed. *handled gets the rights
 * for which the list is not "any". */
static int plan_network(struct arena *a, const struct json_value *network, uint64_t *handled,
                        struct landlock_plan *out, struct error *err)
{
    size_t room = 0;
    for (const struct json_value *list = network != NULL ? network->first : NULL; list != NULL;
         list = list->next)
        room += list->kind == JSON_ARRAY ? list->count : 0;
    struct landlock_port *rules = ARENA_ARRAY(a, room, struct landlock_port);
    out->ports = rules;
    for (size_t i = 0; i < network_schema.count; i++) {
        const struct schema row = {.fields = &network_fields[i], .count = 1, .size = sizeof(struct ports)};
        const struct json_value *list = network != NULL ? json_member(network, network_fields[i].key) : NULL;
        if (list != NULL && list->kind == JSON_STRING && str_eq(list->text, "any"))
            continue;
        *handled |= network_rights[i];
        if (list == NULL)
            continue;
        struct ports ports = {0};
        if (list->kind != JSON_ARRAY)
            return json_error(a, list, err, "expected an array of ports, or \"any\"");
        int ret = schema_decode(a, network, &row, &ports, err);
        if (ret < 0)
            return ret;
        for (size_t j = 0; j < ports.count; j++)
            rules[out->port_count++] = (struct landlock_port){ports.items[j], network_rights[i]};
    }
    return 0;
}

static uint64_t scoped(const struct words *scope)
{
    uint64_t bits = 0;
    for (const struct landlock_right *right = landlock_rights; right->name != NULL; right++) {
        bool wanted = !scope->given;
        for (size_t i = 0; i < scope->list.count; i++)
            wanted = wanted || str_eq(scope->list.items[i], right->name);
        if (right->kind == LANDLOCK_SCOPE && wanted)
            bits |= right->bit;
    }
    return bits;
}

/* Drop the wanted rights that the kernel lacks, or report them as an error if they are required. */
static int landlock_settle(const struct landlock_rights *wanted, struct landlock_plan *out, struct error *err)
{
    struct landlock_rights known = landlock_rights_of_abi(out->abi);
    char missing[512] = "";
    size_t length = 0;
    int needed = 0;
    for (int kind = 0; kind < LANDLOCK_KINDS; kind++) {
        out->enforced.of[kind] = wanted->of[kind] & known.of[kind];
        out->dropped.of[kind] = wanted->of[kind] & ~known.of[kind];
    }
    if ((known.of[LANDLOCK_FLAG] & FLAG_LOG_NEW_EXEC_ON) && !wanted->of[LANDLOCK_FLAG])
        out->enforced.of[LANDLOCK_FLAG] |= FLAG_LOG_SUBDOMAINS_OFF;
    for (const struct landlock_right *right = landlock_rights; right->name != NULL; right++) {
        if (!(out->dropped.of[right->kind] & right->bit) || length >= sizeof(missing))
            continue;
        int n =
            snprintf(missing + length, sizeof(missing) - length, "%s%s", length > 0 ? ", " : "", right->name);
        length += n > 0 ? (size_t)n : 0;
        needed = right->abi > needed ? right->abi : needed;
    }
    if (needed == 0)
        return 0;
    if (out->required && out->abi == 0)
        return error_text(
            err, -ENOTSUP,
            "enforcement is 'required' and there is no Landlock: Linux %s or later is needed, with "
            "'landlock' in its list of security modules (lsm= of the boot command line)",
            landlock_release(needed));
    if (out->required)
        return error_text(
            err, -ENOTSUP,
            "enforcement is 'required' and the kernel's Landlock (ABI %d) lacks %s: Linux %s or "
            "later is needed",
            out->abi, missing, landlock_release(needed));
    log_warning("annotation '%s': the kernel's Landlock (ABI %d) lacks %s, which is not restricted",
                LANDLOCK_ANNOTATION, out->abi, missing);
    return 0;
}

static int read_ruleset(struct arena *a, const char *text, struct json_value **root, struct ruleset *out,
                        struct error *err)
{
    int ret = json_parse(a, text, strlen(text), NULL, NULL, root, err);
    if (ret < 0)
        return ret;
    ret = schema_decode(a, *root, &ruleset_schema, out, err);
    return ret < 0 ? ret : refuse_unknown(a, *root, &ruleset_schema, err);
}

static int plan_json(struct arena *a, const char *text, struct landlock_plan *out, struct error *err)
{
    struct json_value *root;
    struct ruleset ruleset = {0};
    struct landlock_rights wanted = {0};
    int ret = read_ruleset(a, text, &root, &ruleset, err);
    if (ret < 0)
        return ret;
    ret = landlock_plan_paths(a, &ruleset, out, err);
    if (ret < 0)
        return ret;
    ret = plan_network(a, json_member(root, "network"), &wanted.of[LANDLOCK_NET], out, err);
    if (ret < 0)
        return ret;
    out->wanted = true;
    out->required = str_eq(ruleset.enforcement, "required");
    wanted.of[LANDLOCK_SCOPE] = scoped(&ruleset.scope);
    wanted.of[LANDLOCK_FLAG] = ruleset.log ? FLAG_LOG_NEW_EXEC_ON : 0;
    for (const struct landlock_right *right = landlock_rights; right->name != NULL; right++)
        wanted.of[right->kind] |= right->kind == LANDLOCK_FS ? right->bit : 0;
    return landlock_settle(&wanted, out, err);
}

int landlock_plan(struct arena *a, const char *annotation, int abi, struct landlock_plan *out,
                  struct error *err)
{
    *out = LANDLOCK_PLAN_NONE;
    if (annotation == NULL)
        return 0;
    out->abi = abi;
    if (annotation[0] == '\0')
        return error_text(err, -EINVAL,
                          "annotation '%s': empty: \"default\" or a ruleset in JSON is expected",
                          LANDLOCK_ANNOTATION);
    if (strchr("{[", annotation[strspn(annotation, " \t\r\n")]) == NULL && !str_eq(annotation, "default"))
        return error_text(err, -EINVAL,
                          "annotation '%s': '%.64s': \"default\" or a ruleset in JSON is expected",
                          LANDLOCK_ANNOTATION, annotation);
    int ret = plan_json(a, str_eq(annotation, "default") ? "{}" : annotation, out, err);
    return ret < 0 ? error_wrap(err, "annotation '%s'", LANDLOCK_ANNOTATION) : 0;
}

void landlock_plan_silence(struct landlock_plan *plan)
{
    uint64_t *enforced = &plan->enforced.of[LANDLOCK_FLAG];
    if (!plan->wanted || (*enforced & FLAG_LOG_NEW_EXEC_ON) == 0)
        return;
    *enforced = (*enforced & ~FLAG_LOG_NEW_EXEC_ON) | FLAG_LOG_SUBDOMAINS_OFF;
    plan->dropped.of[LANDLOCK_FLAG] |= FLAG_LOG_NEW_EXEC_ON;
    plan->silenced = true;
}

void landlock_plan_allow(struct arena *a, const char *path, struct landlock_plan *plan)
{
    if (!plan->wanted)
        return;
    struct landlock_path *paths = ARENA_ARRAY(a, plan->path_count + 1, struct landlock_path);
    memcpy(paths, plan->paths, plan->path_count * sizeof(*paths));
    for (size_t i = 0; i < plan->path_count; i++)
        paths[i].optional = true;
    paths[plan->path_count++] = (struct landlock_path){.path = path, .access = FS_READ_FILE};
    plan->paths = paths;
}
