/* Read a manifest, and compare it with the current files. */
#include "warm/manifest/manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "warm/content.h"
#include "warm/manifest/format.h"
#include "warm/owners.h"
#include "warm/question.h"
#include "warm/root_view.h"

static int damaged(struct error *err)
{
    return error_text(err, -EUCLEAN, "the snapshot's manifest is damaged");
}

static bool is_string(const struct manifest *m, uint32_t offset)
{
    return offset < m->header->strings_size;
}

/* Every offset leads to a string, because the very last byte is a NUL; every range lies in its table. */
static bool is_sound(const struct manifest *m)
{
    const struct manifest_header *h = m->header;
    if (h->strings_size == 0 || m->strings[h->strings_size - 1] != '\0' || !is_string(m, h->python) ||
        !is_string(m, h->builder) || !is_string(m, h->owners) || !is_string(m, h->key) ||
        h->key_size > h->strings_size - h->key || h->key_size == 0 ||
        m->strings[h->key + h->key_size - 1] != '\0')
        return false;
    for (uint32_t i = 0; i < h->group_count; i++) {
        const struct manifest_group *g = &m->groups[i];
        if (!is_string(m, g->path) || m->strings[g->path] != '/' || g->first > h->entry_count ||
            g->count > h->entry_count - g->first)
            return false;
    }
    for (uint32_t i = 0; i < h->group_count; i++)
        if (m->groups[i].content > h->content_count)
            return false;
    for (uint32_t i = 0; i < h->entry_count; i++)
        if (!is_string(m, m->entries[i].name) || m->entries[i].content > h->content_count)
            return false;
    for (uint32_t i = 0; i < h->value_count; i++)
        if (!is_string(m, m->values[i].path) ||
            (m->strings[m->values[i].path] != '/' && !question_is_valid(m->strings + m->values[i].path)))
            return false;
    for (uint32_t i = 0; i < h->content_count; i++)
        if (m->contents[i].rule > CONTENT_TRUSTED)
            return false;
    for (uint32_t i = 0; i < h->module_count; i++)
        if (!is_string(m, m->modules[i]))
            return false;
    for (uint32_t i = 0; i < h->variable_count; i++)
        if (!is_string(m, m->variables[i]))
            return false;
    for (uint32_t i = 0; i < h->place_count; i++)
        if (!is_string(m, m->places[i]))
            return false;
    return true;
}

int manifest_open(struct arena *a, const void *data, size_t size, struct manifest **out, struct error *err)
{
    const struct manifest_header *h = data;
    if (size < sizeof(*h) || (uintptr_t)data % _Alignof(struct manifest_header) != 0 ||
        h->magic != MANIFEST_MAGIC || h->size != size)
        return damaged(err);
    uint64_t groups = (uint64_t)h->group_count * sizeof(struct manifest_group);
    uint64_t entries = (uint64_t)h->entry_count * sizeof(struct manifest_entry);
    uint64_t contents = (uint64_t)h->content_count * sizeof(struct manifest_content);
    uint64_t values = (uint64_t)h->value_count * sizeof(struct manifest_value);
    uint64_t modules = (uint64_t)h->module_count * sizeof(uint32_t);
    uint64_t variables = (uint64_t)h->variable_count * sizeof(uint32_t);
    uint64_t places = (uint64_t)h->place_count * sizeof(uint32_t);
    if (sizeof(*h) + groups + entries + contents + values + modules + variables + places + h->strings_size !=
        size)
        return damaged(err);
    const char *p = (const char *)data + sizeof(*h);
    struct manifest *m = ARENA_NEW(a, struct manifest);
    m->header = h;
    m->groups = (const struct manifest_group *)(const void *)p;
    m->entries = (const struct manifest_entry *)(const void *)(p += groups);
    m->contents = (const struct manifest_content *)(const void *)(p += entries);
    m->values = (const struct manifest_value *)(const void *)(p += contents);
    m->modules = (const uint32_t *)(const void *)(p += values);
    m->variables = (const uint32_t *)(const void *)(p += modules);
    m->places = (const uint32_t *)(const void *)(p += variables);
    m->strings = p + places;
    if (!is_sound(m))
        return damaged(err);
    *out = m;
    return 0;
}

static int differs(const char *what, const char *directory, const char *name, struct error *err)
{
    bool slash = name[0] != '\0' && !str_eq(directory, "/");
    return error_text(err, -ESTALE, "'%s%s%s' %s", directory, slash ? "/" : "", name, what);
}

/* Compare two identities of a file: 1 the same, 0 different, -EAGAIN the content must be read. If owners
 * count, a content is always read: whether it can be read counts as well. */
static int judge(const struct file_identity *expected, const struct file_identity *now,
                 const struct manifest_content *content, bool owners)
{
    bool equal = identity_equal(now, expected);
    if (content == NULL || (equal && content->rule == CONTENT_TRUSTED && !owners))
        return equal;
    if (content->rule == CONTENT_AS_WELL)
        return equal ? -EAGAIN : 0;
    return now->mode == expected->mode && now->size == expected->size ? -EAGAIN : 0;
}

static const struct manifest_content *content_of(const struct manifest *m, uint32_t number)
{
    return number > 0 ? &m->contents[number - 1] : NULL;
}

/* Return whether an open file has the content: 1, 0, or negative errno; `fd` may be a negative errno
 * itself. */
static int has_content(const struct manifest *m, const struct manifest_content *content, int fd)
{
    struct siphash now;
    int ret = fd < 0 ? fd : content_hash(fd, &m->header->salt, &now);
    return ret < 0 ? ret : memcmp(&now, &content->hash, sizeof(now)) == 0;
}

/* Return whether a file in a directory is unchanged: 1, 0, or negative errno. */
static int is_same_file(const struct manifest *m, const struct manifest_entry *entry,
                        const struct file_identity *now, int dir, const char *name, bool owners)
{
    const struct manifest_content *content = content_of(m, entry->content);
    int ret = judge(&entry->identity, now, content, owners);
    if (ret != -EAGAIN)
        return ret;
    cleanup_fd int fd = openat(dir, name, CONTENT_OPEN | O_NOFOLLOW);
    return has_content(m, content, fd < 0 ? -errno : fd);
}

#define OTHER_OWNER "belongs to another user or group in this container"

static int verify_entry(const struct manifest *m, int dir, const char *directory, const char *name,
                        const struct manifest_entry *entry, bool owners, struct error *err)
{
    const struct file_identity *expected = &entry->identity;
    struct file_identity now;
    int ret = identity_at(dir, name, false, &now);
    bool was = expected->mode != 0;
    if (ret == -ENOENT)
        return was ? differs("no longer exists", directory, name, err) : 0;
    if (ret < 0)
        return error_set(err, ret, "examine '%s/%s'", directory, name);
    if (!was)
        return differs("did not exist", directory, name, err);
    int same = entry->kind_only != 0 ? (now.mode & S_IFMT) == (expected->mode & S_IFMT)
                                     : is_same_file(m, entry, &now, dir, name, owners);
    if (same < 0)
        return error_set(err, same, "read '%s/%s'", directory, name);
    if (same == 0)
        return differs("has changed", directory, name, err);
    if (owners && entry->kind_only == 0 && !S_ISLNK(now.mode) && !identity_same_owner(&now, expected))
        return differs(OTHER_OWNER, directory, name, err);
    return 0;
}

/* Verify the file at the path of a group. */
static int verify_place(const struct manifest *m, const struct manifest_group *g,
                        const struct root_view *view, int fd, bool owners, struct error *err)
{
    struct file_identity now;
    const char *path = m->strings + g->path;
    const struct manifest_content *content = content_of(m, g->content);
    int same = identity_of(fd, &now);
    if (same == 0)
        same = judge(&g->identity, &now, content, owners);
    if (same == -EAGAIN) {
        cleanup_fd int file = root_view_open(view, path, CONTENT_OPEN);
        same = has_content(m, content, file);
    }
    if (same < 0)
        return error_set(err, same, "read '%s'", path);
    if (same == 0)
        return differs("has changed", path, "", err);
    return owners && !identity_same_owner(&now, &g->identity) ? differs(OTHER_OWNER, path, "", err) : 0;
}

static int verify_group(const struct manifest *m, const struct manifest_group *g,
                        const struct root_view *view, bool owners, struct error *err)
{
    const char *path = m->strings + g->path;
    cleanup_fd int fd = root_view_open(view, path, O_PATH);
    bool missing = fd == -ENOENT || fd == -ENOTDIR;
    if (missing && root_view_is_mounted(view, "/", path + 1))
        return error_text(err, -EXDEV, "'%s' is created for a mount", path);
    if ((g->flags & GROUP_ABSENT) != 0 && (missing || fd >= 0))
        return missing ? 0 : differs("did not exist", path, "", err);
    if (missing)
        return differs("no longer exists", path, "", err);
    if (fd == -EXDEV)
        return error_text(err, fd, "'%s' is in a mount that is not visible from outside", path);
    if (fd < 0)
        return error_set(err, fd, "examine '%s'", path);
    int ret = (g->flags & GROUP_IDENTITY) != 0 ? verify_place(m, g, view, fd, owners, err) : 0;
    if (ret < 0)
        return ret;
    bool mounts = root_view_mount_beneath(view, path) != NULL;
    for (uint32_t i = g->first; i < g->first + g->count; i++) {
        const char *name = m->strings + m->entries[i].name;
        if (mounts && root_view_is_mounted(view, path, name))
            return error_text(err, -EXDEV, "something is mounted on '%s' in '%s'", name, path);
        ret = verify_entry(m, fd, path, name, &m->entries[i], owners, err);
        if (ret < 0)
            return ret;
    }
    return 0;
}

static int verify_queue(const struct manifest *m, const struct root_view *view, struct manifest_queue *queue,
                        bool leave, struct error *err)
{
    struct manifest_queue own = {0};
    struct manifest_queue *t = queue != NULL ? queue : &own;
    for (uint32_t i; (i = atomic_fetch_add(&t->next, 1)) < m->header->group_count;) {
        int ret = verify_group(m, &m->groups[i], view, false, err);
        if (ret == -EXDEV && leave && t->left_count < MANIFEST_LEFT_MAX) {
            t->left[t->left_count++] = i;
            *err = (struct error){0};
            ret = 0;
        }
        if (ret < 0)
            return ret;
        /* The other process may have been woken on this CPU while others are idle. The same is true of the
         * kernel thread that it waits for when it unmounts the old root (synchronize_rcu_expedited). Without
         * yielding, this loop would delay them for two milliseconds. */
        if (queue != NULL)
            sched_yield();
    }
    return 0;
}

int manifest_verify(const struct manifest *m, const struct root_view *view, struct manifest_queue *queue,
                    struct error *err)
{
    return verify_queue(m, view, queue, false, err);
}

int manifest_verify_outside(const struct manifest *m, const struct root_view *view,
                            struct manifest_queue *queue, struct error *err)
{
    return verify_queue(m, view, queue, true, err);
}

int manifest_verify_left(const struct manifest *m, const struct root_view *view,
                         const struct manifest_queue *queue, struct error *err)
{
    int ret = 0;
    for (uint32_t i = 0; ret == 0 && i < queue->left_count; i++)
        ret = verify_group(m, &m->groups[queue->left[i]], view, false, err);
    return ret;
}

bool manifest_has_owners(const struct manifest *m, const struct owners *owners)
{
    return str_eq(m->strings + m->header->owners, owners->text);
}

int manifest_verify_as_seen(const struct manifest *m, const struct root_view *view, struct error *err)
{
    if (m->header->has_acl != 0)
        return error_text(err, -ESTALE,
                          "the imports read a file with an access list, and the snapshot was made for other "
                          "host IDs");
    for (uint32_t i = 0; i < m->header->group_count; i++) {
        int ret = verify_group(m, &m->groups[i], view, true, err);
        if (ret == -EACCES || ret == -EPERM) /* the snapshot does not fit these IDs */
            err->code = ret = -ESTALE;
        if (ret < 0)
            return ret;
    }
    return 0;
}

/* The first of the name counts, as for getenv(3) and os.environ. */
static const char *find_variable(char *const *envp, const char *name, size_t length)
{
    for (size_t i = 0; envp[i] != NULL; i++)
        if (strncmp(envp[i], name, length) == 0 && envp[i][length] == '=')
            return envp[i];
    return NULL;
}

/* Refuse variables that the builder did not have; report.c treats HOME and HOSTNAME separately. */
static int check_additions(const struct manifest *m, char *const *envp, struct error *err)
{
    for (size_t i = 0; envp[i] != NULL; i++) {
        size_t length = strcspn(envp[i], "=");
        bool known = str_after(envp[i], "HOSTNAME=") != NULL || str_after(envp[i], "HOME=") != NULL;
        for (uint32_t v = 0; !known && v < m->header->variable_count; v++)
            known = strncmp(m->strings + m->variables[v], envp[i], length + 1) == 0;
        if (!known)
            return error_text(err, -ESTALE, "variable '%.*s' was not set", (int)length, envp[i]);
    }
    return 0;
}

int manifest_check_environment(const struct manifest *m, char *const *envp, struct error *err)
{
    for (uint32_t i = 0; i < m->header->variable_count; i++) {
        const char *expected = m->strings + m->variables[i];
        size_t length = strcspn(expected, "=");
        const char *now = find_variable(envp, expected, length);
        bool was = expected[length] == '=';
        if (was ? !str_eq(now, expected) : now != NULL)
            return error_text(err, -ESTALE, "variable '%.*s' has another value", (int)length, expected);
    }
    return m->header->whole_environment != 0 ? check_additions(m, envp, err) : 0;
}

static int other_value(const char *value, struct error *err)
{
    const char *kind = str_after(value, QUESTION_KIND), *mount = str_after(value, QUESTION_MOUNT);
    const char *hidden = str_after(value, QUESTION_HIDDEN);
    const char *write = str_after(value, QUESTION_WRITE);
    if (write != NULL)
        return error_text(err, -ESTALE,
                          "the imports asked whether they may write to '%s', and saw another answer", write);
    if (hidden != NULL)
        return error_text(err, -ESTALE, "a mount hides '%s', or hides it no longer", hidden);
    if (mount != NULL)
        return error_text(err, -ESTALE, "the imports saw that '%s' is a mount point, or is none", mount);
    if (kind != NULL)
        return error_text(err, -ESTALE, "the imports saw another kind of file, or none, at '%s'", kind);
    return value[0] == '/' ? error_text(err, -ESTALE, "'%s' has other content", value)
                           : error_text(err, -ESTALE, "the imports saw another %s", value);
}

static char value[CONTENT_VALUE_MAX];

/* Compare the i-th value with the one in the buffer. */
static int check_value(const struct manifest *m, uint32_t i, ssize_t size, struct error *err)
{
    struct siphash_state state;
    siphash_begin(&state, &m->header->salt);
    siphash_add(&state, value, size > 0 ? (size_t)size : 0);
    struct siphash now = siphash_end(&state);
    bool same = size >= 0 && memcmp(&now, &m->values[i].hash, sizeof(now)) == 0;
    return same ? 0 : other_value(m->strings + m->values[i].path, err);
}

int manifest_check_values(const struct manifest *m, struct error *err)
{
    int ret = 0;
    for (uint32_t i = 0; ret == 0 && i < m->header->value_count; i++) {
        const char *path = m->strings + m->values[i].path;
        ssize_t size = path[0] == '/' ? content_kernel_value(path, value) : question_answer(path, value);
        ret = check_value(m, i, size, err);
    }
    return ret;
}

int manifest_check_kernel(const struct manifest *m, int root, struct error *err)
{
    int ret = 0;
    for (uint32_t i = 0; ret == 0 && i < m->header->value_count; i++) {
        const char *path = m->strings + m->values[i].path;
        char beneath[PATH_MAX];
        if (path[0] != '/' || str_after(path, "/proc/self/") != NULL)
            continue;
        int n = snprintf(beneath, sizeof(beneath), "/proc/self/fd/%d%s", root, path);
        ret = check_value(m, i, n < (int)sizeof(beneath) ? content_kernel_value(beneath, value) : -1, err);
    }
    return ret;
}

int manifest_check_places(const struct manifest *m, struct error *err)
{
    for (uint32_t i = 0; i < m->header->place_count; i++) {
        const char *path = m->strings + m->places[i];
        if (faccessat(AT_FDCWD, path, W_OK | X_OK, AT_EACCESS) < 0)
            return error_text(err, -ESTALE, "no file can be created in '%s'", path);
    }
    return 0;
}

int manifest_check_streams(const struct manifest *m, struct error *err)
{
    for (int fd = 0; m->header->asks_terminal != 0 && fd <= STDERR_FILENO; fd++)
        if (isatty(fd))
            return error_text(err, -EEXIST,
                              "the imports ask whether a standard stream is a terminal, and one is");
    return 0;
}

void manifest_describe(const struct manifest *m, struct manifest_facts *out)
{
    const struct manifest_header *h = m->header;
    *out = (struct manifest_facts){
        .python = m->strings + h->python,
        .builder = m->strings + h->builder,
        .built = h->built,
        .key = {.text = m->strings + h->key, .size = h->key_size},
        .file_count = h->group_count + h->entry_count,
        .module_count = h->module_count,
    };
    key_name(out->key.text, out->key.size, out->key.name);
}

const char *manifest_module(const struct manifest *m, size_t i)
{
    return m->strings + m->modules[i];
}
