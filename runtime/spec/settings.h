/* The runtime's own configuration files, warm.json and runtime.json: where they are, which of them counts for
 * the caller, and their decoding by a table. A key without a row is an error, for these files are read by
 * nothing else. */
#ifndef PYSBX_SPEC_SETTINGS_H
#define PYSBX_SPEC_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

struct arena;
struct error;
struct schema;

#define SETTINGS_DIRECTORY "/etc/pysbx-runtime"

/* A kind of file. */
struct settings {
    const char *name;            /* "warm.json" */
    const struct schema *schema; /* of the structure that is filled */
    /* The file decides about isolation: it and its directory belong to root or to the caller, and only the
     * owner may write to them. The machine's file then does not count for a user, because a user namespace of
     * that user hides that the file belongs to root. */
    bool guarded;
    /* What the table cannot say, or NULL; 0 or negative errno with the JSON path in err. */
    int (*check)(struct arena *a, const void *decoded, struct error *err);
};

/* Return the path of the caller's file: SETTINGS_DIRECTORY for the host's root, else
 * $XDG_CONFIG_HOME/pysbx-runtime or ~/.config/pysbx-runtime (root in a user namespace is such a user:
 * rootless Podman calls the runtime as that). NULL when neither variable is set. In the arena. */
const char *settings_path(struct arena *a, const struct settings *kind, bool root_of_host);

/* Decode the text into `out`, which holds the defaults. 0 or -EINVAL. */
int settings_parse(struct arena *a, const struct settings *kind, const char *text, size_t size, void *out,
                   struct error *err);

/* Read the file into `out`, which holds the defaults and keeps them when there is no file. path NULL:
 * settings_path, then, unless the kind is guarded, the file in SETTINGS_DIRECTORY. 0 or negative errno; err
 * names the file and the place in it. */
int settings_read(struct arena *a, const struct settings *kind, const char *path, bool root_of_host,
                  void *out, struct error *err);

#endif
