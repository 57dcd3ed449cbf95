/* The vocabulary of mount options (runtime-spec config.md "Linux mount options", mount(8), mount_setattr(2)):
 * it translates words to flags. Any other word is data for the file system. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct error;
struct json_out;
struct str_list;

/* Flags of a mount that are not attributes. */
enum mount_flag {
    MOUNT_FLAG_BIND = 1 << 0,
    MOUNT_FLAG_RECURSIVE = 1 << 1, /* rbind */
    MOUNT_FLAG_REMOUNT = 1 << 2,
    MOUNT_FLAG_COPY_UP = 1 << 3,         /* tmpcopyup: start with a copy of the covered directory */
    MOUNT_FLAG_IDMAP = 1 << 4,           /* idmap, ridmap */
    MOUNT_FLAG_IDMAP_RECURSIVE = 1 << 5, /* ridmap */
    MOUNT_FLAG_COPY_SYMLINK = 1 << 6, /* make a source that is a symbolic link anew instead of mounting it */
    MOUNT_FLAG_SOURCE_NOFOLLOW = 1 << 7, /* bind a symbolic link itself */
    MOUNT_FLAG_TARGET_NOFOLLOW = 1 << 8, /* mount on a symbolic link itself */
};

/* MOUNT_ATTR_* to set and to clear, as mount_setattr(2) takes them. */
struct mount_attrs {
    uint64_t set, clear;
};

/* "key=value" or "key" (value NULL) for the file system. */
struct mount_data {
    const char *key, *value;
    const char *text; /* as config.json has it */
};

struct mount_options {
    struct mount_attrs attrs;     /* of the mount itself */
    struct mount_attrs recursive; /* of the mount and all mounts below it: rro, rnosuid, … */
    unsigned long super;          /* MS_* of the superblock: MS_SYNCHRONOUS, MS_DIRSYNC, MS_MANDLOCK, … */
    unsigned long propagation;    /* MS_SHARED, MS_SLAVE, MS_PRIVATE, MS_UNBINDABLE or 0 */
    bool propagation_recursive;
    unsigned flags;    /* enum mount_flag */
    const char *idmap; /* the text after "idmap=" or "ridmap=", or NULL */
    struct mount_data *data;
    size_t data_count;
};

/* Sort the words of a mount into *out. If two words contradict each other, the later one counts. Strings live
 * as long as the spec and the arena. Return 0, or -EINVAL for an empty word. */
int mount_options_parse(struct arena *a, const struct str_list *words, struct mount_options *out,
                        struct error *err);

/* Translate a propagation word ("rslave", "private", …) to MS_*; *recursive: it is an r-form. Return false
 * for any other word. */
bool mount_options_propagation(const char *word, unsigned long *flag, bool *recursive);

/* Return the value of a data option ("mode"), or NULL. */
const char *mount_options_data(const struct mount_options *options, const char *key);

/* Return every word of the vocabulary, sorted by strcmp, in static storage. For `features`. */
const char *const *mount_options_words(size_t *count);

/* Write the parsed options as a JSON array of words ("ro", "rslave", "mode=755", …) in a fixed order. */
void mount_options_describe(const struct mount_options *options, struct json_out *out);
