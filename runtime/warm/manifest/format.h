/* The layout of a manifest in memory and in the snapshot file: header, groups, entries, contents, values,
 * modules, variables, places, strings. Offsets of strings count from the first string. Numbers have the
 * format of the machine that wrote it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/siphash.h"
#include "warm/file_identity.h"

#define MANIFEST_MAGIC UINT64_C(0x37304e414d585953) /* raise with every change of the layout */

enum group_flags {
    GROUP_IDENTITY = 1, /* the target of the path has this identity */
    GROUP_ABSENT = 2,   /* the path does not exist */
};

/* The comparison of a file, in addition to its identity. A directory's content are the names in it. */
enum content_rule {
    CONTENT_NONE,    /* only the identity counts */
    CONTENT_AS_WELL, /* its identity alone cannot be trusted: identity and content must be the same */
    CONTENT_ALONE,   /* only the content was read: another file may have it, with another identity */
    CONTENT_TRUSTED, /* the same, and with the same identity the content is the same */
};

struct manifest_content {
    struct siphash hash;
    uint64_t rule; /* enum content_rule */
};

/* A path, resolved once, and files in the directory at its end. */
struct manifest_group {
    struct file_identity identity;
    uint32_t path, flags;
    uint32_t first, count; /* of the entries */
    uint32_t content;      /* number in the table, counted from 1; 0: none */
    uint32_t reserved;
};

/* A file in a directory; a link counts itself, not its target. */
struct manifest_entry {
    struct file_identity identity; /* mode 0: no file has this name */
    uint32_t name;
    uint32_t kind_only; /* only the type of file in the mode counts */
    uint32_t content;   /* as in a group */
    uint32_t reserved;
};

/* The value of a file of the kernel, of which each container has its own, or the answer to a question. */
struct manifest_value {
    struct siphash hash; /* of kernel_value() or question_answer() */
    uint32_t path, reserved;
};

struct manifest_header {
    uint64_t magic, size;
    int64_t built;
    struct siphash_key salt;  /* of the contents' hashes */
    uint32_t python, builder; /* strings */
    uint32_t key, key_size;   /* the key's text is among the strings */
    uint32_t group_count, entry_count, module_count, variable_count;
    uint32_t strings_size;
    uint32_t whole_environment; /* the variables are all that existed */
    uint32_t place_count;
    uint32_t asks_terminal; /* the imports asked whether a standard stream is one */
    uint32_t content_count;
    uint32_t value_count;
    uint32_t owners;  /* string: owners.text of the builder's container */
    uint32_t has_acl; /* a file has an access list, acl(5), which may name an ID of the host */
    uint32_t reserved;
};

/* Pointers into the data. */
struct manifest {
    const struct manifest_header *header;
    const struct manifest_group *groups;
    const struct manifest_entry *entries;
    const struct manifest_content *contents;
    const struct manifest_value *values;
    const uint32_t *modules;   /* names, sorted */
    const uint32_t *variables; /* "NAME=value", or "NAME" for one that was not set; sorted */
    const uint32_t *places;    /* directories, sorted */
    const char *strings;
};
