/* Turn a builder's report into a manifest. Each path of the report is examined beneath the builder's root. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
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
#include "warm/manifest/report.h"
#include "warm/numbering.h"
#include "warm/owners.h"
#include "warm/question.h"
#include "warm/root_view.h"

struct builder {
    struct arena *arena;
    const struct manifest_source *source;
    struct report report;
    struct manifest_content *contents;
    size_t content_count;
    uint64_t content_size; /* bytes of the contents that are read at each start */
    struct siphash_key salt;
    bool has_acl;
    char *strings;
    size_t strings_size;
};

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

/* A mount point that the image lacks is created for each container, so its directory seems to have changed.
 */
static int changed(const struct builder *b, const char *directory, const char *name, struct error *err)
{
    bool slash = name[0] != '\0' && !str_eq(directory, "/");
    const char *path = arena_printf(b->arena, "%s%s%s", directory, slash ? "/" : "", name);
    const char *mount = str_eq(path, "/") ? NULL : root_view_mount_beneath(b->source->plan, path);
    if (mount != NULL)
        return error_text(err, -ESTALE,
                          "'%s' has changed while the snapshot was made; if the image lacks the mount point "
                          "'%s', make it in the image, or mount '%s' itself",
                          path, mount, path);
    return error_text(err, -ESTALE, "'%s' has changed while the snapshot was made", path);
}

/* The maximum bytes that a start may have to read because the times of files cannot be trusted. */
#define UNTRUSTED_MAX ((uint64_t)256 * 1024 * 1024)

/* Return whether engines write such a file for each container, not only as a mount: Podman adds the user to
 * /etc/passwd in the container's own layer. */
static bool is_own(const struct report_item *item)
{
    return str_eq(item->directory, "/etc") && (str_eq(item->name, "passwd") || str_eq(item->name, "group"));
}

/* Note how a regular file is compared: `fd` is open for reading, or a negative errno. `own`: the container
 * has one of its own. *number is that of its content in the table. */
static int put_content(struct builder *b, int fd, const char *path, uint64_t size, bool status, bool own,
                       uint32_t *number, struct error *err)
{
    if (fd < 0) /* the imports could not read it either, or they may no longer read it */
        return fd == -EACCES ? 0 : error_set(err, fd, "open '%s'", path);
    bool trusted = content_settle(fd);
    bool alone = !status && (own || content_is_mounted(b->source->view->root, fd));
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

/* Note how a directory is compared: `fd` may be one of O_PATH. Without its number, a directory that was made
 * at the same time cannot be told apart by its identity. So the names in it count as well. They matter,
 * because a listed directory stands for all names that are absent from it. */
static int put_listing(struct builder *b, int fd, const char *path, struct file_identity *id,
                       uint32_t *number, struct error *err)
{
    if (numbering_lasts(fd))
        return 0;
    id->unnumbered = 1;
    cleanup_fd int list = openat(fd, ".", CONTENT_OPEN | O_DIRECTORY);
    struct manifest_content *content = &b->contents[b->content_count];
    content->rule = CONTENT_AS_WELL;
    int ret = list < 0 ? -errno : content_hash(list, &b->salt, &content->hash);
    if (ret < 0)
        return error_set(err, ret,
                         "list the directory '%s' of an overlay over several file systems, which only its "
                         "names tell apart",
                         path);
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
            return changed(b, part, "", err);
        if (ret == 0) {
            note_acl(b, fd);
            bool found = missing == 0 || !S_ISDIR(id.mode);
            put_group(b, out, found ? part : arena_strndup(b->arena, path, missing), found ? &id : NULL);
            struct manifest_group *group = &out->groups[out->group_count - 1];
            if (found && S_ISDIR(id.mode))
                return put_listing(b, fd, part, &group->identity, &group->content, err);
            if (!found || !S_ISREG(id.mode))
                return 0;
            cleanup_fd int file = root_view_open(b->source->view, part, CONTENT_OPEN);
            return put_content(b, file, part, id.size, status, false, &group->content, err);
        }
        missing = strlen(part);
        char *slash = strrchr(part, '/');
        slash[slash == part] = '\0';
    }
}

static int put_entry(struct builder *b, struct output *out, int dir, const struct report_item *item,
                     struct error *err)
{
    struct file_identity id = {0};
    int ret = identity_at(dir, item->name, false, &id);
    if (ret < 0 && ret != -ENOENT)
        return error_set(err, ret, "examine '%s/%s'", item->directory, item->name);
    if (ret == 0 && !item->kind_only && id.changed >= b->source->began)
        return changed(b, item->directory, item->name, err);
    if (S_ISLNK(id.mode) && !item->link) {
        out->links[out->link_count++] = arena_printf(b->arena, "%s/%s", item->directory, item->name);
        return 0;
    }
    struct manifest_entry *entry = &out->entries[out->entry_count++];
    *entry = (struct manifest_entry){
        .identity = id, .name = put_text(b, item->name), .kind_only = item->kind_only};
    owners_translate(b->source->owners, &entry->identity);
    if (S_ISDIR(id.mode) && !item->kind_only) {
        cleanup_fd int fd = openat(dir, item->name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return fd < 0 ? error_set(err, -errno, "open '%s/%s'", item->directory, item->name)
                      : put_listing(b, fd, item->name, &entry->identity, &entry->content, err);
    }
    if (!S_ISREG(id.mode) || item->kind_only)
        return 0;
    cleanup_fd int file = openat(dir, item->name, CONTENT_OPEN | O_NOFOLLOW);
    if (file < 0)
        b->has_acl = true; /* it may have one */
    else
        note_acl(b, file);
    if (item->unread)
        return 0;
    return put_content(b, file < 0 ? -errno : file, item->name, id.size, item->status, is_own(item),
                       &entry->content, err);
}

/* Put all items of one directory, from *next on. */
static int put_directory(struct builder *b, struct output *out, size_t *next, struct error *err)
{
    const char *path = b->report.items[*next].directory;
    size_t end = *next;
    while (end < b->report.item_count && str_eq(b->report.items[end].directory, path))
        end++;
    const struct report_item *first = &b->report.items[*next], *behind = &b->report.items[end];
    *next = end;
    int ret = 0;
    struct file_identity id;
    cleanup_fd int dir = root_view_open(b->source->view, path, O_PATH);
    if (dir < 0 || identity_of(dir, &id) < 0 || !S_ISDIR(id.mode))
        return put_path(b, out, path, true, err);
    if (first->name == NULL && id.changed >= b->source->began)
        return changed(b, path, "", err);
    note_acl(b, dir);
    put_group(b, out, path, &id);
    struct manifest_group *group = &out->groups[out->group_count - 1];
    if (first->name != NULL)
        group->flags = 0; /* nothing asks for the directory itself */
    else if ((ret = put_listing(b, dir, path, &group->identity, &group->content, err)) < 0)
        return ret;
    for (const struct report_item *item = first; item < behind; item++) {
        bool again = item > first && str_eq(item->name, item[-1].name);
        ret = item->name == NULL || item->name[0] == '\0' || again ? 0 : put_entry(b, out, dir, item, err);
        if (ret < 0)
            return ret;
    }
    group->count = (uint32_t)out->entry_count - group->first;
    return 0;
}

static int put_items(struct builder *b, struct output *out, struct error *err)
{
    for (size_t next = 0; next < b->report.item_count;) {
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

static uint32_t *put_names(struct builder *b, const struct report_names *names)
{
    uint32_t *offsets = ARENA_ARRAY(b->arena, names->count + 1, uint32_t);
    for (size_t i = 0; i < names->count; i++)
        offsets[i] = put_text(b, names->items[i]);
    return offsets;
}

/* Return the room for every string. Some are written twice (a directory and its files) or cut into parts. */
static size_t strings_room(const struct builder *b)
{
    size_t room = b->source->key->size + strlen(b->source->builder) + strlen(b->report.python) +
                  strlen(b->source->owners->text) + 4;
    for (size_t i = 0; i < b->report.item_count; i++)
        room += 2 * (strlen(b->report.items[i].directory) + 1) +
                (b->report.items[i].name != NULL ? 2 * (strlen(b->report.items[i].name) + 1) : 0);
    for (size_t i = 0; i < b->report.modules.count; i++)
        room += strlen(b->report.modules.items[i]) + 1;
    for (size_t i = 0; i < b->report.variables.count; i++)
        room += strlen(b->report.variables.items[i]) + 1;
    for (size_t i = 0; i < b->report.places.count; i++)
        room += strlen(b->report.places.items[i]) + 1;
    for (size_t i = 0; i < b->report.values.count; i++)
        room += strlen(b->report.values.items[i]) + 1;
    return room;
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Parse "HEX:PATH" or "HEX:QUESTION" of each record. */
static int put_values(struct builder *b, struct manifest_value **out, struct error *err)
{
    struct manifest_value *values = ARENA_ARRAY(b->arena, b->report.values.count + 1, struct manifest_value);
    for (size_t i = 0; i < b->report.values.count; i++) {
        const char *text = b->report.values.items[i];
        struct siphash_state state;
        siphash_begin(&state, &b->salt);
        for (; digit(text[0]) >= 0 && digit(text[1]) >= 0; text += 2) {
            unsigned char byte = (unsigned char)(digit(text[0]) << 4 | digit(text[1]));
            siphash_add(&state, &byte, 1);
        }
        if (text[0] != ':' || (text[1] != '/' && !question_is_valid(text + 1)) ||
            strlen(text + 1) >= PATH_MAX)
            return error_text(err, -EPROTO, "the builder reports the value '%.32s', which has no meaning",
                              b->report.values.items[i]);
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
        .python = put_text(b, b->report.python),
        .builder = put_text(b, source->builder),
        .owners = put_text(b, source->owners->text),
        .has_acl = b->has_acl,
        .key = put_string(b, source->key->text, source->key->size),
        .key_size = (uint32_t)source->key->size,
        .group_count = (uint32_t)out->group_count,
        .entry_count = (uint32_t)out->entry_count,
        .module_count = (uint32_t)b->report.modules.count,
        .variable_count = (uint32_t)b->report.variables.count,
        .whole_environment = b->report.whole_environment,
        .place_count = (uint32_t)b->report.places.count,
        .asks_terminal = b->report.asks_terminal,
        .salt = b->salt,
        .content_count = (uint32_t)b->content_count,
        .value_count = (uint32_t)b->report.values.count,
    };
    const uint32_t *modules = put_names(b, &b->report.modules),
                   *variables = put_names(b, &b->report.variables), *places = put_names(b, &b->report.places);
    header.strings_size = (uint32_t)b->strings_size;
    header.size =
        sizeof(header) + out->group_count * sizeof(*out->groups) + out->entry_count * sizeof(*out->entries) +
        b->content_count * sizeof(*b->contents) + b->report.values.count * sizeof(*values) +
        (b->report.modules.count + b->report.variables.count + b->report.places.count) * sizeof(uint32_t) +
        b->strings_size;
    char *p = arena_alloc(b->arena, header.size);
    *data = p;
    *size = header.size;
    p = append(p, &header, sizeof(header));
    p = append(p, out->groups, out->group_count * sizeof(*out->groups));
    p = append(p, out->entries, out->entry_count * sizeof(*out->entries));
    p = append(p, b->contents, b->content_count * sizeof(*b->contents));
    p = append(p, values, b->report.values.count * sizeof(*values));
    p = append(p, modules, b->report.modules.count * sizeof(*modules));
    p = append(p, variables, b->report.variables.count * sizeof(*variables));
    p = append(p, places, b->report.places.count * sizeof(*places));
    append(p, b->strings, b->strings_size);
}

int manifest_build(struct arena *a, const struct manifest_source *source, void **data, size_t *size,
                   struct error *err)
{
    struct builder b = {.arena = a, .source = source};
    int ret = report_read(a, source, &b.report, err);
    if (ret < 0)
        return ret;
    if (getrandom(&b.salt, sizeof(b.salt), 0) != sizeof(b.salt))
        return error_set(err, -errno, "draw a salt for the contents of files");
    b.contents = ARENA_ARRAY(a, 2 * b.report.item_count + 1, struct manifest_content);
    b.strings = arena_alloc(a, strings_room(&b));
    struct output out = {
        .groups = ARENA_ARRAY(a, 2 * b.report.item_count + 1, struct manifest_group),
        .entries = ARENA_ARRAY(a, b.report.item_count + 1, struct manifest_entry),
        .links = ARENA_ARRAY(a, b.report.item_count + 1, const char *),
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
