/* What a snapshot depends on, beyond its key: files, directories, absent files and variables that the imports
 * looked at. Made from the template's report, of which only paths and names are believed: identities are
 * taken here. It is the image's meta blob; a damaged one is an error, never a wrong answer. */
#ifndef PYSBX_WARM_MANIFEST_MANIFEST_H
#define PYSBX_WARM_MANIFEST_MANIFEST_H

#include <stddef.h>
#include <stdint.h>

#include "warm/key.h"

struct arena;
struct command_line;
struct error;
struct root_view;

/* The report of a template, and what the runtime adds. A report is a sequence of NUL-terminated records, of
 * which the first byte is the kind: v sys.version, f a file, c a file of which only the content was
 * read, d a directory, p a file of which it counts only
 * that it is there and of what kind, D the same of a directory, a a path that must be absent, l a symbolic
 * link on the way to one of these, w a directory in which the imports have made a file that is gone, m a
 * top-level module, e a variable, E the whole environment, t that the imports ask whether a standard stream
 * is a terminal, o a file that is mapped, g the digest of a random generator's state, V "HEX:PATH" what a
 * file of the kernel says (content.h), M that a library reads /proc/self/mounts (these three for the template
 * alone), x failure, with its reason, r ready, the last record. */
struct manifest_source {
    const char *report;
    size_t report_size;
    const struct warm_key *key;
    char *const *envp;            /* of the template */
    const struct root_view *view; /* of the template's files */
    const char *builder;          /* version of the runtime */
    int64_t built;                /* seconds since 1970 */
    int64_t began; /* nanoseconds since 1970, before the template was there: what changed later may have been
                      read before that */
};

/* Encode. 0 or negative errno: -EPROTO for a report that breaks the protocol, -ENOEXEC with the template's
 * own words when it says that it failed. */
int manifest_build(struct arena *a, const struct manifest_source *source, void **data, size_t *size,
                   struct error *err);

struct manifest; /* points into the data it was opened from, which must outlive it */

/* Check the form of everything; data is aligned to 8 bytes. 0 or -EUCLEAN. */
int manifest_open(struct arena *a, const void *data, size_t size, struct manifest **out, struct error *err);

/* Memory that two processes share, zeroed: each verifies the directories that the other has not begun with.
 */
struct manifest_queue {
    _Atomic uint32_t next;
};

/* Are all files what they were, those whose turn it is here? NULL: all of them. -ESTALE names the first path
 * that differs, -EXDEV one that the look cannot see. Makes system calls only, so that a forked child may call
 * it.
 */
int manifest_verify(const struct manifest *manifest, const struct root_view *view,
                    struct manifest_queue *queue, struct error *err);

/* Would one of the preloaded modules have come from the place that the program puts first in sys.path: the
 * working directory, the script's, a directory or an archive that is run? -EEXIST names the file. A program
 * that does not exist shadows nothing. System calls only. `argv` as command_line_parse saw it, `cwd`
 * absolute. */
int manifest_check_program(const struct manifest *manifest, const struct root_view *view,
                           const struct command_line *command_line, char *const *argv, const char *cwd,
                           struct error *err);

/* The same for one directory. */
int manifest_check_shadow(const struct manifest *manifest, const struct root_view *view,
                          const char *directory, struct error *err);

/* Do the variables that the imports read have the values they had? -ESTALE names one. */
int manifest_check_environment(const struct manifest *manifest, char *const *envp, struct error *err);

/* Do the files of /proc and /sys that the imports read say what they said? -ESTALE names one. By a process of
 * the container; system calls only. */
int manifest_check_values(const struct manifest *manifest, struct error *err);

/* May this process make files where the imports made some? Who looks for a place for temporary ones does
 * (tempfile.gettempdir). -ESTALE names a directory. System calls only. */
int manifest_check_places(const struct manifest *manifest, struct error *err);

/* Is a standard stream of this process a terminal, which the template had not, and did the imports ask?
 * -EEXIST: the snapshot is as good as ever to others. System calls only. */
int manifest_check_streams(const struct manifest *manifest, struct error *err);

/* What it says of itself. Strings point into the data. */
struct manifest_facts {
    const char *python; /* sys.version */
    const char *builder;
    int64_t built;
    struct warm_key key;
    size_t file_count, module_count; /* module_count: top-level names */
};
void manifest_describe(const struct manifest *manifest, struct manifest_facts *out);
/* The i-th top-level module name. */
const char *manifest_module(const struct manifest *manifest, size_t i);

#endif
