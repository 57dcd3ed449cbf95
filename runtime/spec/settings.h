/* The runtime's own configuration files, warm.json and runtime.json: their location, which of them applies to
 * the caller, and their decoding by a table. A key without a row is an error, because no other program reads
 * these files. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct arena;
struct error;
struct schema;

#define SETTINGS_DIRECTORY "/etc/pysbx-runtime"

/* A kind of file. */
struct settings {
    const char *name;            /* "warm.json" */
    const struct schema *schema; /* of the structure to fill */
    /* The file decides about isolation. It and its directory must belong to root or to the caller, and only
     * the owner may write to them. The machine's file then does not apply to a user, because a user namespace
     * of that user hides that the file belongs to root. */
    bool guarded;
    /* Check what the table cannot express; NULL for no check. 0 or negative errno with the JSON path in err.
     * */
    int (*check)(struct arena *a, const void *decoded, struct error *err);
};

/* Return the path of the caller's file, in the arena. For the host's root it is in SETTINGS_DIRECTORY, for
 * other callers in $XDG_CONFIG_HOME/pysbx-runtime or ~/.config/pysbx-runtime. Root in a user namespace is
 * such a caller, because rootless Podman calls the runtime in one. NULL if neither variable is set. */
const char *settings_path(struct arena *a, const struct settings *kind, bool root_of_host);

/* Decode the text into `out`, which contains the defaults. 0 or -EINVAL with the JSON path in err. */
int settings_parse(struct arena *a, const struct settings *kind, const char *text, size_t size, void *out,
                   struct error *err);

/* Read the file into `out`, which contains the defaults and keeps them if there is no file. path NULL:
 * settings_path, and then, unless the kind is guarded, the file in SETTINGS_DIRECTORY. 0 or negative errno;
 * err names the file and the place in it. */
int settings_read(struct arena *a, const struct settings *kind, const char *path, bool root_of_host,
                  void *out, struct error *err);
