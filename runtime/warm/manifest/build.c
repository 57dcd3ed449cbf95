/* Turn a builder's report into a manifest. The report is untrusted: the form of every record is checked, and
 * only paths and names are taken from it. Each path is examined here, beneath the builder's root. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "warm/content.h"
#include "warm/manifest/format.h"
#include "warm/manifest/manifest.h"
#include "warm/owners.h"
#include "warm/question.h"
#include "warm/root_view.h"

#define RECORDS_MAX 200000

/* The item of a record: a name in a directory, or the path itself (name NULL), or the statement that the path
 * is a directory (name empty). Its existence is checked here, independent of the report. */
struct item {
    const char *directory, *name;
    bool link;      /* the link itself counts, not its target */
    bool kind_only; /* only its existence and type count */
    bool status;    /* its identity was asked for, not only its content */
};

struct names {
    const char **items;
    size_t count;
};

struct builder {
    struct arena *arena;
    const struct manifest_source *source;
    struct item *items;
    size_t item_count;
    struct names modules, variables, places, values;
    struct manifest_content *contents;
    size_t content_count;
    uint64_t content_size; /* bytes of the contents that are read at each start */
    struct siphash_key salt;
    const char *python;
    bool whole_environment, asks_terminal, has_acl;
    char *strings;
    size_t strings_size;
};

static size_t count_records(const char *report, size_t size)
{
    size_t count = 0;
    for (size_t i = 0; i < size; i++)
        count += report[i] == '\0';
    return count;
}

static void add_path(struct builder *b, const char *path, bool link, bool kind_only, bool status)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash + 1;
    const char *directory = slash == path ? "/" : arena_strndup(b->arena, path, (size_t)(slash - path));
    bool whole = *name == '\0' || str_eq(name, ".") || str_eq(name, "..");
    struct item item = {directory, name, link, kind_only, status};
    if (whole)
        item = (struct item){.directory = path};
    b->items[b->item_count++] = item;
}

static int take_record(struct builder *b, const char *record, struct error *err)
{
    const char *text = record + 1;
    bool is_path = strchr("cfpdDalow", record[0]) != NULL;
    if (is_path && (text[0] != '/' || strlen(text) >= PATH_MAX))
        return error_text(err, -EPROTO, "the builder reports the path '%.128s', which is not absolute",
                          str_printable(b->arena, text));
    switch (record[0]) {
    case 'c':
    case 'f':
    case 'p':
    case 'a':
    case 'l':
        add_path(b, text, record[0] == 'l', record[0] == 'p', record[0] != 'c');
        return 0;
    case 'd':
    case 'D':
        b->items[b->item_count++] = (struct item){.directory = text, .name = record[0] == 'd' ? NULL : ""};
        return 0;
    case 'w':
        b->places.items[b->places.count++] = text;
        return 0;
    case 'm':
        b->modules.items[b->modules.count++] = text;
        return 0;
    case 'e':
        /* A variable with such a name cannot be set. */
        if (text[0] == '\0' || strchr(text, '=') != NULL)
            return 0;
        b->variables.items[b->variables.count++] = text;
        return 0;
    case 'E':
        b->whole_environment = true;
        return 0;
    case 'V':
        b->values.items[b->values.count++] = text;
        return 0;
    case 'M': /* for the builder only, as the two that follow: the snapshot file names the mapped files */
    case 'o':
    case 'g':
        return 0;
    case 't':
        b->asks_terminal = true;
        return 0;
    case 'v':
        b->python = text;
        return 0;
    case 'x':
        return error_text(err, -ENOEXEC, "%s",
                          text[0] != '\0' ? str_printable(b->arena, text) : "the builder gives no reason");
    default:
        return error_text(err, -EPROTO, "the builder reports '%.32s', which has no meaning",
                          str_printable(b->arena, record));
    }
}

static int take_report(struct builder *b, struct error *err)
{
    const char *report = b->source->report, *end = report + b->source->report_size;
    size_t count = count_records(report, b->source->report_size);
    if (b->source->report_size == 0 || end[-1] != '\0' || count > RECORDS_MAX)
        return error_text(err, -EPROTO, "the builder's report is cut off or too long");
    b->items = ARENA_ARRAY(b->arena, count + 1, struct item); /* and /etc/passwd */
    b->modules.items = ARENA_ARRAY(b->arena, count, const char *);
    b->variables.items = ARENA_ARRAY(b->arena, count, const char *);
    b->places.items = ARENA_ARRAY(b->arena, count, const char *);
    b->values.items = ARENA_ARRAY(b->arena, count, const char *);
    for (const char *record = report; record < end; record += strlen(record) + 1) {
        if (record[0] == 'r' && b->python[0] == '\0')
            return error_text(err, -EPROTO, "the builder does not say which Python it is");
        if (record[0] == 'r')
            return 0;
        int ret = take_record(b, record, err);
        if (ret < 0)
            return ret;
    }
    return error_text(err, -EPROTO, "the builder ended before it was ready");
}

static int by_place(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    int order = strcmp(x->directory, y->directory);
    if (order != 0 || x->name == y->name)
        return order;
    if (x->name == NULL || y->name == NULL)
        return x->name == NULL ? -1 : 1;
    order = strcmp(x->name, y->name);
    if (order == 0)
        order = x->kind_only - y->kind_only; /* the first of a name counts, which has the strictest demand */
    return order != 0 ? order : y->status - x->status;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void sort_names(struct names *names)
{
    if (names->count > 0)
        qsort(names->items, names->count, sizeof(*names->items), by_text);
    size_t kept = 0;
    for (size_t i = 0; i < names->count; i++)
        if (kept == 0 || !str_eq(names->items[i], names->items[kept - 1]))
            names->items[kept++] = names->items[i];
    names->count = kept;
}

/* Return the variable, or only the name of one that is not set: it must not be set later either. */
static const char *variable_of(char *const *envp, const char *name)
{
    size_t length = strlen(name);
    for (size_t i = 0; envp[i] != NULL; i++)
        if (strncmp(envp[i], name, length) == 0 && envp[i][length] == '=')
            return envp[i];
    return name;
}

static bool is_reported(const struct names *names, const char *name)
{
    for (size_t i = 0; i < names->count; i++)
        if (str_eq(names->items[i], name))
            return true;
    return false;
}

/* HOME is handled elsewhere: it is part of the key. If it is not set, the child takes it from the container's
 * /etc/passwd, which then is a file like others. */
static bool is_home(const char *variable)
{
    return strncmp(variable, "HOME", 4) == 0 && (variable[4] == '=' || variable[4] == '\0');
}

/* Return every variable, for imports that read all of them. An engine gives each container another HOSTNAME.
 * It counts only if it was read by name, because code that reads all variables looks for its own prefixes. */
static struct names whole_environment(struct builder *b)
{
    char *const *envp = b->source->envp;
    bool hostname = is_reported(&b->variables, "HOSTNAME");
    size_t all = 0;
    while (envp[all] != NULL)
        all++;
    struct names names = {ARENA_ARRAY(b->arena, all + 1, const char *), 0};
    for (size_t i = 0; i < all; i++)
        if (!is_home(envp[i]) && (hostname || str_after(envp[i], "HOSTNAME=") == NULL))
            names.items[names.count++] = envp[i];
    return names;
}

/* The C library and the interpreter read dozens of these, and the key contains them all. */
static bool is_in_key(struct builder *b, const char *name)
{
    return key_has_variable(arena_printf(b->arena, "%s=", name));
}

static struct names named_variables(struct builder *b)
{
    struct names names = {b->variables.items, 0};
    for (size_t i = 0; i < b->variables.count; i++)
        if (!is_home(b->variables.items[i]) && !is_in_key(b, b->variables.items[i]))
            names.items[names.count++] = variable_of(b->source->envp, b->variables.items[i]);
    return names;
}

static void resolve_variables(struct builder *b)
{
    if (str_eq(variable_of(b->source->envp, "HOME"), "HOME"))
        add_path(b, "/etc/passwd", false, false, false);
    b->variables = b->whole_environment ? whole_environment(b) : named_variables(b);
    sort_names(&b->variables);
}

static uint32_t put_string(struct builder *b, const void *text, size_t size)
{
    uint32_t offset = (uint32_t)b->strings_size;
    memcpy(b->strings + offset, text, size);
    b->strings_size += size;
    return offset;
}

static uint32_t put_text(struct builder *b, const char *text)
{
    return put_string(b, text, strlen(text) + 1);
}

struct output {
    struct manifest_group *groups;
    struct manifest_entry *entries;
    const char **links;
    size_t group_count, entry_count, link_count;
};

/* Note whether a file or directory has an access list. `fd` may be one of O_PATH, which fgetxattr(2) refuses.
 */
static void note_acl(struct builder *b, int fd)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    b->has_acl = b->has_acl || getxattr(path, "system.posix_acl_access", NULL, 0) > 0;
}

static void put_group(struct builder *b, struct output *out, const char *path, const struct file_identity *id)
{
    struct manifest_group *group = &out->groups[out->group_count++];
    *group = (struct manifest_group){.path = put_text(b, path),
                                     .flags = id != NULL ? GROUP_IDENTITY : GROUP_ABSENT,
                                     .first = (uint32_t)out->entry_count};
    if (id == NULL)
        return;
    group->identity = *id;
    owners_translate(b->source->owners, &group->identity);
}

static int changed(const char *directory, const char *name, struct error *err)
{
    bool slash = name[0] != '\0' && !str_eq(directory, "/");
    return error_text(err, -ESTALE, "'%s%s%s' has changed while the snapshot was made", directory,
                      slash ? "/" : "", name);
}

/* The maximum bytes that a start may have to read because the times of files cannot be trusted. */
#define UNTRUSTED_MAX ((uint64_t)256 * 1024 * 1024)

/* Note how a regular file is compared: `fd` is open for reading, or a negative errno. *number is that of its
 * content in the table. */
static int put_content(struct builder *b, int fd, const char *path, uint64_t size, bool status,
                       uint32_t *number, struct error *err)
{
    if (fd < 0) /* the imports could not read it either, or they may no longer read it */
        return fd == -EACCES ? 0 : error_set(err, fd, "open '%s'", path);
    bool trusted = content_settle(fd);
    bool alone = !status && content_is_mounted(b->source->view->root, fd);
    if (trusted && !alone)
        return 0;
    struct manifest_content *content = &b->contents[b->content_count];
    content->rule = !alone ? CONTENT_AS_WELL : trusted ? CONTENT_TRUSTED : CONTENT_ALONE;
    if (!trusted && (b->content_size += size) > UNTRUSTED_MAX)
        return error_text(
            err, -ENOTSUP,
            "the imports read more than %u MiB of a file system that does not note every change "
            "(tmpfs, FUSE, NFS and others), '%s' among them",
            (unsigned)(UNTRUSTED_MAX >> 20), path);
    int ret = content_hash(fd, &b->salt, &content->hash);
    if (ret < 0)
        return error_set(err, ret, "read '%s'", path);
    *number = (uint32_t)++b->content_count;
    return 0;
}

/* Put a path that is not a directory: the file itself. For a name within an archive, put the archive; for a
 * path that does not exist, its first missing part. */
static int put_path(struct builder *b, struct output *out, const char *path, bool status, struct error *err)
{
    size_t missing = 0; /* length of the first missing part */
    char *part = arena_strdup(b->arena, path);
    for (;;) {
        struct file_identity id;
        cleanup_fd int fd = root_view_open(b->source->view, part, O_PATH);
        int ret = fd < 0 ? fd : identity_of(fd, &id);
        if (ret < 0 && ret != -ENOENT && ret != -ENOTDIR)
            return error_set(err, ret, "examine '%s'", part);
        if (ret == 0 && (missing == 0 || !S_ISDIR(id.mode)) && id.changed >= b->source->began)
            return changed(part, "", err);
        if (ret == 0) {
            note_acl(b, fd);
            bool found = missing == 0 || !S_ISDIR(id.mode);
            put_group(b, out, found ? part : arena_strndup(b->arena, path, missing), found ? &id : NULL);
            if (!found || !S_ISREG(id.mode))
                return 0;
            cleanup_fd int file = root_view_open(b->source->view, part, CONTENT_OPEN);
            return put_content(b, file, part, id.size, status, &out->groups[out->group_count - 1].content,
                               err);
        }
        missing = strlen(part);
        char *slash = strrchr(part, '/');
        slash[slash == part] = '\0';
    }
}

static int put_entry(struct builder *b, struct output *out, int dir, const struct item *item,
                     struct error *err)
{
    struct file_identity id = {0};
    int ret = identity_at(dir, item->name, false, &id);
    if (ret < 0 && ret != -ENOENT)
        return error_set(err, ret, "examine '%s/%s'", item->directory, item->name);
    if (ret == 0 && !item->kind_only && id.changed >= b->source->began)
        return changed(item->directory, item->name, err);
    if (S_ISLNK(id.mode) && !item->link) {
        out->links[out->link_count++] = arena_printf(b->arena, "%s/%s", item->directory, item->name);
        return 0;
    }
    struct manifest_entry *entry = &out->entries[out->entry_count++];
    *entry = (struct manifest_entry){
        .identity = id, .name = put_text(b, item->name), .kind_only = item->kind_only};
    owners_translate(b->source->owners, &entry->identity);
    if (!S_ISREG(id.mode) || item->kind_only)
        return 0;
    cleanup_fd int file = openat(dir, item->name, CONTENT_OPEN | O_NOFOLLOW);
    if (file < 0)
        b->has_acl = true; /* it may have one */
    else
        note_acl(b, file);
    return put_content(b, file < 0 ? -errno : file, item->name, id.size, item->status, &entry->content, err);
}

/* Put all items of one directory, from *next on. */
static int put_directory(struct builder *b, struct output *out, size_t *next, struct error *err)
{
    const char *path = b->items[*next].directory;
    size_t end = *next;
    while (end < b->item_count && str_eq(b->items[end].directory, path))
        end++;
    const struct item *first = &b->items[*next], *behind = &b->items[end];
    *next = end;
    struct file_identity id;
    cleanup_fd int dir = root_view_open(b->source->view, path, O_PATH);
    if (dir < 0 || identity_of(dir, &id) < 0 || !S_ISDIR(id.mode))
        return put_path(b, out, path, true, err);
    if (first->name == NULL && id.changed >= b->source->began)
        return changed(path, "", err);
    note_acl(b, dir);
    put_group(b, out, path, &id);
    struct manifest_group *group = &out->groups[out->group_count - 1];
    if (first->name != NULL)
        group->flags = 0; /* nothing asks for the directory itself */
    for (const struct item *item = first; item < behind; item++) {
        bool again = item > first && str_eq(item->name, item[-1].name);
        int ret =
            item->name == NULL || item->name[0] == '\0' || again ? 0 : put_entry(b, out, dir, item, err);
        if (ret < 0)
            return ret;
    }
    group->count = (uint32_t)out->entry_count - group->first;
    return 0;
}

static int put_items(struct builder *b, struct output *out, struct error *err)
{
    if (b->item_count > 0)
        qsort(b->items, b->item_count, sizeof(*b->items), by_place);
    for (size_t next = 0; next < b->item_count;) {
        int ret = put_directory(b, out, &next, err);
        if (ret < 0)
            return ret;
    }
    /* A link counts by its target, which only its whole path determines. */
    for (size_t i = 0; i < out->link_count; i++) {
        int ret = put_path(b, out, out->links[i], true, err);
        if (ret < 0)
            return ret;
    }
    return 0;
}

static uint32_t *put_names(struct builder *b, const struct names *names)
{
    uint32_t *offsets = ARENA_ARRAY(b->arena, names->count + 1, uint32_t);
    for (size_t i = 0; i < names->count; i++)
        offsets[i] = put_text(b, names->items[i]);
    return offsets;
}

/* Return the room for every string. Some are written twice (a directory and its files) or cut into parts. */
static size_t strings_room(const struct builder *b)
{
    size_t room = b->source->key->size + strlen(b->source->builder) + strlen(b->python) +
                  strlen(b->source->owners->text) + 4;
    for (size_t i = 0; i < b->item_count; i++)
        room += 2 * (strlen(b->items[i].directory) + 1) +
                (b->items[i].name != NULL ? 2 * (strlen(b->items[i].name) + 1) : 0);
    for (size_t i = 0; i < b->modules.count; i++)
        room += strlen(b->modules.items[i]) + 1;
    for (size_t i = 0; i < b->variables.count; i++)
        room += strlen(b->variables.items[i]) + 1;
    for (size_t i = 0; i < b->places.count; i++)
        room += strlen(b->places.items[i]) + 1;
    for (size_t i = 0; i < b->values.count; i++)
        room += strlen(b->values.items[i]) + 1;
    return room;
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Parse "HEX:PATH" or "HEX:QUESTION" of each record. */
static int put_values(struct builder *b, struct manifest_value **out, struct error *err)
{
    struct manifest_value *values = ARENA_ARRAY(b->arena, b->values.count + 1, struct manifest_value);
    for (size_t i = 0; i < b->values.count; i++) {
        const char *text = b->values.items[i];
        struct siphash_state state;
        siphash_begin(&state, &b->salt);
        for (; digit(text[0]) >= 0 && digit(text[1]) >= 0; text += 2) {
            unsigned char byte = (unsigned char)(digit(text[0]) << 4 | digit(text[1]));
            siphash_add(&state, &byte, 1);
        }
        if (text[0] != ':' || (text[1] != '/' && !question_is_valid(text + 1)) ||
            strlen(text + 1) >= PATH_MAX)
            return error_text(err, -EPROTO, "the builder reports the value '%.32s', which has no meaning",
                              b->values.items[i]);
        values[i] = (struct manifest_value){.hash = siphash_end(&state), .path = put_text(b, text + 1)};
    }
    *out = values;
    return 0;
}

static char *append(char *p, const void *data, size_t size)
{
    if (size > 0)
        memcpy(p, data, size);
    return p + size;
}

static void assemble(struct builder *b, const struct output *out, const struct manifest_value *values,
                     void **data, size_t *size)
{
    const struct manifest_source *source = b->source;
    struct manifest_header header = {
        .magic = MANIFEST_MAGIC,
        .built = source->built,
        .python = put_text(b, b->python),
        .builder = put_text(b, source->builder),
        .owners = put_text(b, source->owners->text),
        .has_acl = b->has_acl,
        .key = put_string(b, source->key->text, source->key->size),
        .key_size = (uint32_t)source->key->size,
        .group_count = (uint32_t)out->group_count,
        .entry_count = (uint32_t)out->entry_count,
        .module_count = (uint32_t)b->modules.count,
        .variable_count = (uint32_t)b->variables.count,
        .whole_environment = b->whole_environment,
        .place_count = (uint32_t)b->places.count,
        .asks_terminal = b->asks_terminal,
        .salt = b->salt,
        .content_count = (uint32_t)b->content_count,
        .value_count = (uint32_t)b->values.count,
    };
    const uint32_t *modules = put_names(b, &b->modules), *variables = put_names(b, &b->variables),
                   *places = put_names(b, &b->places);
    header.strings_size = (uint32_t)b->strings_size;
    header.size =
        sizeof(header) + out->group_count * sizeof(*out->groups) + out->entry_count * sizeof(*out->entries) +
        b->content_count * sizeof(*b->contents) + b->values.count * sizeof(*values) +
        (b->modules.count + b->variables.count + b->places.count) * sizeof(uint32_t) + b->strings_size;
    char *p = arena_alloc(b->arena, header.size);
    *data = p;
    *size = header.size;
    p = append(p, &header, sizeof(header));
    p = append(p, out->groups, out->group_count * sizeof(*out->groups));
    p = append(p, out->entries, out->entry_count * sizeof(*out->entries));
    p = append(p, b->contents, b->content_count * sizeof(*b->contents));
    p = append(p, values, b->values.count * sizeof(*values));
    p = append(p, modules, b->modules.count * sizeof(*modules));
    p = append(p, variables, b->variables.count * sizeof(*variables));
    p = append(p, places, b->places.count * sizeof(*places));
    append(p, b->strings, b->strings_size);
}

int manifest_build(struct arena *a, const struct manifest_source *source, void **data, size_t *size,
                   struct error *err)
{
    struct builder b = {.arena = a, .source = source, .python = ""};
    int ret = take_report(&b, err);
    if (ret < 0)
        return ret;
    if (getrandom(&b.salt, sizeof(b.salt), 0) != sizeof(b.salt))
        return error_set(err, -errno, "draw a salt for the contents of files");
    b.contents = ARENA_ARRAY(a, 2 * b.item_count + 1, struct manifest_content);
    sort_names(&b.modules);
    sort_names(&b.places);
    resolve_variables(&b);
    b.strings = arena_alloc(a, strings_room(&b));
    struct output out = {
        .groups = ARENA_ARRAY(a, 2 * b.item_count + 1, struct manifest_group),
        .entries = ARENA_ARRAY(a, b.item_count + 1, struct manifest_entry),
        .links = ARENA_ARRAY(a, b.item_count + 1, const char *),
    };
    ret = put_items(&b, &out, err);
    if (ret < 0)
        return ret;
    struct manifest_value *values = NULL;
    ret = put_values(&b, &values, err);
    if (ret < 0)
        return ret;
    assemble(&b, &out, values, data, size);
    return 0;
}
