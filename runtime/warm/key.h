/* The key of a snapshot: everything that shapes the start of an interpreter and its imports and is known
 * before it runs. The text identifies the snapshot; the name is only its hash. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "spec/spec.h"

struct arena;
struct command_line;
struct error;
struct file_identity;
struct root_view;

#define KEY_NAME_SIZE 33 /* 32 hexadecimal digits and NUL */

struct warm_key {
    const char *text; /* "name=value" NUL "name=value" NUL … */
    size_t size;
    char name[KEY_NAME_SIZE];
};

struct key_facts {
    const char *version; /* of the runtime, commit included */
    const char *called;  /* argv[0] */
    const char *program; /* its path in the container */
    const struct file_identity *interpreter;
    dev_t device;   /* of that file */
    unsigned minor; /* Python 3.minor */
    const struct command_line *command_line;
    const struct str_list *preload; /* directories, then modules: sorted */
    char *const *envp;
    const char *cwd;
    uid_t uid;
    gid_t gid;
    const char *limits;       /* of the process, as text */
    const char *cpus;         /* cpuset of the container and its CPU quota, as text, or NULL */
    struct json_text seccomp; /* the profile as written */
    const char
        *credentials; /* groups, capabilities, user namespace: they decide which files the imports can read */
    const char *confinement; /* labels, profiles, rulesets; NULL or "" for none */
    const struct root_view *view;
};

/* Make the key. Return 0 or negative errno: /proc cannot be read. */
int key_make(struct arena *a, const struct key_facts *facts, struct warm_key *out, struct error *err);

/* Return whether a variable ("NAME=value") is part of the key. It is if the loader, the C library, the
 * interpreter or common libraries read it in a way that is not observed. */
bool key_has_variable(const char *variable);

/* Compute the name of a key from its text. */
void key_name(const char *text, size_t size, char name[static KEY_NAME_SIZE]);
