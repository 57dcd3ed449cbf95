/* One sorted table of mount options, and its parser. */
#include "sandbox/mount/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json_out.h"
#include "base/str.h"
#include "base/sys.h"
#include "spec/spec.h"

enum word_kind {
    ATTR_SET,
    ATTR_CLEAR,
    ATIME, /* one of several values in MOUNT_ATTR__ATIME */
    ATTR_SET_RECURSIVE,
    ATTR_CLEAR_RECURSIVE,
    ATIME_RECURSIVE,
    SUPER_SET,
    SUPER_CLEAR,
    PROPAGATION,
    PROPAGATION_RECURSIVE,
    FLAG,
};

struct word {
    const char *name;
    enum word_kind kind;
    unsigned long value;
};

/* Sorted by strcmp for bisection; `features` lists it in this order. "norelatime" and "nostrictatime" mean
 * the kernel's default, which is relatime. rsync, rmand and the like name properties of the superblock, so
 * their r changes nothing. */
static const struct word vocabulary[] = {
    {"async", SUPER_CLEAR, MS_SYNCHRONOUS},
    {"atime", ATIME, MOUNT_ATTR_RELATIME},
    {"bind", FLAG, MOUNT_FLAG_BIND},
    {"copy-symlink", FLAG, MOUNT_FLAG_COPY_SYMLINK},
    {"defaults", FLAG, 0},
    {"dest-nofollow", FLAG, MOUNT_FLAG_TARGET_NOFOLLOW},
    {"dev", ATTR_CLEAR, MOUNT_ATTR_NODEV},
    {"diratime", ATTR_CLEAR, MOUNT_ATTR_NODIRATIME},
    {"dirsync", SUPER_SET, MS_DIRSYNC},
    {"exec", ATTR_CLEAR, MOUNT_ATTR_NOEXEC},
    {"idmap", FLAG, MOUNT_FLAG_IDMAP},
    {"iversion", SUPER_SET, MS_I_VERSION},
    {"lazytime", SUPER_SET, MS_LAZYTIME},
    {"loud", SUPER_CLEAR, MS_SILENT},
    {"mand", SUPER_SET, MS_MANDLOCK},
    {"noatime", ATIME, MOUNT_ATTR_NOATIME},
    {"nodev", ATTR_SET, MOUNT_ATTR_NODEV},
    {"nodiratime", ATTR_SET, MOUNT_ATTR_NODIRATIME},
    {"noexec", ATTR_SET, MOUNT_ATTR_NOEXEC},
    {"noiversion", SUPER_CLEAR, MS_I_VERSION},
    {"nolazytime", SUPER_CLEAR, MS_LAZYTIME},
    {"nomand", SUPER_CLEAR, MS_MANDLOCK},
    {"norelatime", ATIME, MOUNT_ATTR_RELATIME},
    {"nostrictatime", ATIME, MOUNT_ATTR_RELATIME},
    {"nosuid", ATTR_SET, MOUNT_ATTR_NOSUID},
    {"nosymfollow", ATTR_SET, MOUNT_ATTR_NOSYMFOLLOW},
    {"private", PROPAGATION, MS_PRIVATE},
    {"rasync", SUPER_CLEAR, MS_SYNCHRONOUS},
    {"ratime", ATIME_RECURSIVE, MOUNT_ATTR_RELATIME},
    {"rbind", FLAG, MOUNT_FLAG_BIND | MOUNT_FLAG_RECURSIVE},
    {"rdev", ATTR_CLEAR_RECURSIVE, MOUNT_ATTR_NODEV},
    {"rdiratime", ATTR_CLEAR_RECURSIVE, MOUNT_ATTR_NODIRATIME},
    {"rdirsync", SUPER_SET, MS_DIRSYNC},
    {"relatime", ATIME, MOUNT_ATTR_RELATIME},
    {"remount", FLAG, MOUNT_FLAG_REMOUNT},
    {"rexec", ATTR_CLEAR_RECURSIVE, MOUNT_ATTR_NOEXEC},
    {"ridmap", FLAG, MOUNT_FLAG_IDMAP | MOUNT_FLAG_IDMAP_RECURSIVE},
    {"rmand", SUPER_SET, MS_MANDLOCK},
    {"rnoatime", ATIME_RECURSIVE, MOUNT_ATTR_NOATIME},
    {"rnodev", ATTR_SET_RECURSIVE, MOUNT_ATTR_NODEV},
    {"rnodiratime", ATTR_SET_RECURSIVE, MOUNT_ATTR_NODIRATIME},
    {"rnoexec", ATTR_SET_RECURSIVE, MOUNT_ATTR_NOEXEC},
    {"rnomand", SUPER_CLEAR, MS_MANDLOCK},
    {"rnorelatime", ATIME_RECURSIVE, MOUNT_ATTR_RELATIME},
    {"rnostrictatime", ATIME_RECURSIVE, MOUNT_ATTR_RELATIME},
    {"rnosuid", ATTR_SET_RECURSIVE, MOUNT_ATTR_NOSUID},
    {"rnosymfollow", ATTR_SET_RECURSIVE, MOUNT_ATTR_NOSYMFOLLOW},
    {"ro", ATTR_SET, MOUNT_ATTR_RDONLY},
    {"rprivate", PROPAGATION_RECURSIVE, MS_PRIVATE},
    {"rrelatime", ATIME_RECURSIVE, MOUNT_ATTR_RELATIME},
    {"rro", ATTR_SET_RECURSIVE, MOUNT_ATTR_RDONLY},
    {"rrw", ATTR_CLEAR_RECURSIVE, MOUNT_ATTR_RDONLY},
    {"rshared", PROPAGATION_RECURSIVE, MS_SHARED},
    {"rslave", PROPAGATION_RECURSIVE, MS_SLAVE},
    {"rstrictatime", ATIME_RECURSIVE, MOUNT_ATTR_STRICTATIME},
    {"rsuid", ATTR_CLEAR_RECURSIVE, MOUNT_ATTR_NOSUID},
    {"rsymfollow", ATTR_CLEAR_RECURSIVE, MOUNT_ATTR_NOSYMFOLLOW},
    {"rsync", SUPER_SET, MS_SYNCHRONOUS},
    {"runbindable", PROPAGATION_RECURSIVE, MS_UNBINDABLE},
    {"rw", ATTR_CLEAR, MOUNT_ATTR_RDONLY},
    {"shared", PROPAGATION, MS_SHARED},
    {"silent", SUPER_SET, MS_SILENT},
    {"slave", PROPAGATION, MS_SLAVE},
    {"src-nofollow", FLAG, MOUNT_FLAG_SOURCE_NOFOLLOW},
    {"strictatime", ATIME, MOUNT_ATTR_STRICTATIME},
    {"suid", ATTR_CLEAR, MOUNT_ATTR_NOSUID},
    {"symfollow", ATTR_CLEAR, MOUNT_ATTR_NOSYMFOLLOW},
    {"sync", SUPER_SET, MS_SYNCHRONOUS},
    {"tmpcopyup", FLAG, MOUNT_FLAG_COPY_UP},
    {"unbindable", PROPAGATION, MS_UNBINDABLE},
};

#define VOCABULARY_SIZE (sizeof(vocabulary) / sizeof(vocabulary[0]))

static int compare_word(const void *key, const void *entry)
{
    return strcmp(key, ((const struct word *)entry)->name);
}

static const struct word *find_word(const char *name)
{
    return bsearch(name, vocabulary, VOCABULARY_SIZE, sizeof(vocabulary[0]), compare_word);
}

static void set_attr(struct mount_attrs *attrs, uint64_t bits)
{
    attrs->set |= bits;
    attrs->clear &= ~bits;
}

static void clear_attr(struct mount_attrs *attrs, uint64_t bits)
{
    attrs->clear |= bits;
    attrs->set &= ~bits;
}

/* To set a value of this group, mount_setattr(2) demands that the whole group is cleared. */
static void set_atime(struct mount_attrs *attrs, uint64_t value)
{
    clear_attr(attrs, MOUNT_ATTR__ATIME);
    attrs->set |= value;
}

static void apply_word(const struct word *word, struct mount_options *out)
{
    switch (word->kind) {
    case ATTR_SET:
        set_attr(&out->attrs, word->value);
        break;
    case ATTR_CLEAR:
        clear_attr(&out->attrs, word->value);
        break;
    case ATIME:
        set_atime(&out->attrs, word->value);
        break;
    case ATTR_SET_RECURSIVE:
        set_attr(&out->recursive, word->value);
        break;
    case ATTR_CLEAR_RECURSIVE:
        clear_attr(&out->recursive, word->value);
        break;
    case ATIME_RECURSIVE:
        set_atime(&out->recursive, word->value);
        break;
    case SUPER_SET:
        out->super |= word->value;
        break;
    case SUPER_CLEAR:
        out->super &= ~word->value;
        break;
    case PROPAGATION:
    case PROPAGATION_RECURSIVE:
        out->propagation = word->value;
        out->propagation_recursive = word->kind == PROPAGATION_RECURSIVE;
        break;
    case FLAG:
        out->flags |= (unsigned)word->value;
        break;
    }
}

/* Take "idmap=uids=…;gids=…", which contains a mapping. */
static bool take_idmap(const char *option, struct mount_options *out)
{
    const char *text = str_after(option, "idmap=");
    if (text == NULL && (text = str_after(option, "ridmap=")) != NULL)
        out->flags |= MOUNT_FLAG_IDMAP_RECURSIVE;
    if (text == NULL)
        return false;
    out->flags |= MOUNT_FLAG_IDMAP;
    out->idmap = text;
    return true;
}

int mount_options_parse(struct arena *a, const struct str_list *words, struct mount_options *out,
                        struct error *err)
{
    *out = (struct mount_options){.data = ARENA_ARRAY(a, words->count, struct mount_data)};
    for (size_t i = 0; i < words->count; i++) {
        const char *option = words->items[i];
        const struct word *word = find_word(option);
        if (word != NULL) {
            apply_word(word, out);
            continue;
        }
        /* Podman leaves this empty string in place of the label if its mounts for systemd have none. */
        if (option[0] == '\0')
            continue;
        if (option[0] == '=')
            return error_set(err, -EINVAL, "options[%zu]: '%s' is not a mount option", i, option);
        if (take_idmap(option, out))
            continue;
        const char *equals = strchr(option, '=');
        struct mount_data *data = &out->data[out->data_count++];
        data->text = option;
        data->key = equals != NULL ? arena_strndup(a, option, (size_t)(equals - option)) : option;
        data->value = equals != NULL ? equals + 1 : NULL;
    }
    return 0;
}

bool mount_options_propagation(const char *word, unsigned long *flag, bool *recursive)
{
    const struct word *found = find_word(word);
    if (found == NULL || (found->kind != PROPAGATION && found->kind != PROPAGATION_RECURSIVE))
        return false;
    *flag = found->value;
    *recursive = found->kind == PROPAGATION_RECURSIVE;
    return true;
}

const char *mount_options_data(const struct mount_options *options, const char *key)
{
    for (size_t i = 0; i < options->data_count; i++)
        if (str_eq(options->data[i].key, key))
            return options->data[i].value;
    return NULL;
}

const char *const *mount_options_words(size_t *count)
{
    static const char *words[VOCABULARY_SIZE];
    for (size_t i = 0; i < VOCABULARY_SIZE; i++)
        words[i] = vocabulary[i].name;
    *count = VOCABULARY_SIZE;
    return words;
}

/* True if the options have the flags of this word. */
static bool mount_options_hold(const struct word *word, const struct mount_options *o)
{
    const struct mount_attrs *attrs = &o->attrs;
    switch (word->kind) {
    case ATTR_SET_RECURSIVE:
        attrs = &o->recursive;
        __attribute__((fallthrough));
    case ATTR_SET:
        return (attrs->set & word->value) != 0;
    case ATTR_CLEAR_RECURSIVE:
        attrs = &o->recursive;
        __attribute__((fallthrough));
    case ATTR_CLEAR:
        return (attrs->clear & word->value) != 0;
    case ATIME_RECURSIVE:
        attrs = &o->recursive;
        __attribute__((fallthrough));
    case ATIME:
        return (attrs->clear & MOUNT_ATTR__ATIME) != 0 &&
               (attrs->set & MOUNT_ATTR__ATIME) == (word->value & MOUNT_ATTR__ATIME) &&
               strstr(word->name, "norel") == NULL && strstr(word->name, "nostrict") == NULL &&
               !str_eq(word->name, "atime") && !str_eq(word->name, "ratime");
    case SUPER_SET:
        return (o->super & word->value) != 0 && word->name[0] != 'r';
    case PROPAGATION:
    case PROPAGATION_RECURSIVE:
        return o->propagation == word->value &&
               o->propagation_recursive == (word->kind == PROPAGATION_RECURSIVE);
    case FLAG:
        /* Of "rbind" and "bind", choose the word that says everything. */
        return word->value != 0 && (o->flags & word->value) == word->value &&
               !(word->value == MOUNT_FLAG_BIND && (o->flags & MOUNT_FLAG_RECURSIVE)) &&
               !(word->value == MOUNT_FLAG_IDMAP && (o->flags & MOUNT_FLAG_IDMAP_RECURSIVE));
    case SUPER_CLEAR:
        break;
    }
    return false;
}

void mount_options_describe(const struct mount_options *options, struct json_out *out)
{
    json_out_array_open(out);
    for (size_t i = 0; i < VOCABULARY_SIZE; i++)
        if (mount_options_hold(&vocabulary[i], options))
            json_out_string(out, vocabulary[i].name);
    for (size_t i = 0; i < options->data_count; i++)
        json_out_string(out, options->data[i].text);
    json_out_array_close(out);
}
