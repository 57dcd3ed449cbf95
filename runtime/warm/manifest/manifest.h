/* The dependencies of a snapshot beyond its key: files, directories, absent files and variables that the
 * imports read or asked for. The manifest is made from the builder's report, of which only paths and names
 * are trusted: identities are read here. It is the meta blob of the snapshot file. A damaged one is an error,
 * never a wrong answer. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "warm/key.h"

struct arena;
struct command_line;
struct error;
struct owners;
struct root_view;

/* The report of a builder, and the runtime's additions. A report is a sequence of NUL-terminated records,
 * whose first byte is the kind:
 *   v  sys.version.
 *   f  a file.
 *   c  a file of which only the content was read.
 *   s  a file of which only the status was read.
 *   d  a directory.
 *   p  a file of which only existence and type count.
 *   D  the same of a directory.
 *   a  a path that must be absent.
 *   l  a symbolic link on the way to one of these.
 *   w  a directory in which the imports have made a file that is gone.
 *   m  a top-level module.
 *   e  a variable.
 *   E  the whole environment.
 *   t  the imports ask whether a standard stream is a terminal.
 *   o  a file that is mapped (for the builder only).
 *   g  the digest of a random generator's state (for the builder only).
 *   k  the digest of a value, or which module has read a clock (for a second probe only).
 *   V  "HEX:PATH", the value of a file of the kernel (content.h), or "HEX:QUESTION", an answer (question.h).
 *   M  a library reads /proc/self/mounts (for the builder only).
 *   x  failure, with its reason.
 *   r  ready, the last record. */
struct manifest_source {
    const char *report;
    size_t report_size;
    const struct warm_key *key;
    char *const *envp;            /* of the builder */
    const char *home;             /* "HOME=DIR" if the builder took it from /etc/passwd, otherwise NULL */
    const struct root_view *view; /* of the builder's files */
    const struct root_view *plan; /* the mounts of the container */
    const struct owners *owners;  /* of the builder's files */
    const char *builder;          /* version of the runtime */
    int64_t built;                /* seconds since 1970 */
    int64_t began; /* nanoseconds since 1970, before the builder existed: a later change may come after the
                      read */
};

/* Encode the manifest. Return 0 or negative errno: -EPROTO for a report that breaks the protocol, -ENOEXEC
 * with the builder's own message if it reports failure. */
int manifest_build(struct arena *a, const struct manifest_source *source, void **data, size_t *size,
                   struct error *err);

struct manifest; /* points into the data it was opened from, which must outlive it */

/* Check the form of the whole manifest; data is aligned to 8 bytes. Return 0 or -EUCLEAN. */
int manifest_open(struct arena *a, const void *data, size_t size, struct manifest **out, struct error *err);

/* Memory that two processes share, zeroed: each verifies the directories that the other has not begun. */
#define MANIFEST_LEFT_MAX 30
struct manifest_queue {
    _Atomic uint32_t next;
    /* Directories that the runtime has taken and cannot see. Its message makes the list visible. */
    uint32_t left_count, left[MANIFEST_LEFT_MAX];
};

/* Verify that all files are unchanged; with `queue`, only those that this process takes from it. NULL: all of
 * them. -ESTALE names the first path that differs, -EXDEV one that the view cannot show. Makes system calls
 * only, so that a forked child may call it. */
int manifest_verify(const struct manifest *manifest, const struct root_view *view,
                    struct manifest_queue *queue, struct error *err);

/* As manifest_verify with a queue, from outside: leave a directory that the view cannot show to the child. */
int manifest_verify_outside(const struct manifest *manifest, const struct root_view *view,
                            struct manifest_queue *queue, struct error *err);

/* Verify what the other process has left. */
int manifest_verify_left(const struct manifest *manifest, const struct root_view *view,
                         const struct manifest_queue *queue, struct error *err);

/* Return whether a container with these mappings of IDs sees the same owners as the builder did, because the
 * mappings are the same. */
bool manifest_has_owners(const struct manifest *manifest, const struct owners *owners);

/* Verify all files for a container with other mappings of IDs. The owners that this process sees must be
 * those that the builder saw, and this process must reach every file. The caller is a process of the
 * container, with the rights of its program. -ESTALE, too, if a file has an access list, because its IDs are
 * those of the host. Makes system calls only. */
int manifest_verify_as_seen(const struct manifest *manifest, const struct root_view *view, struct error *err);

/* Check whether the directory that the program puts first in sys.path shadows one of the preloaded
 * modules. It is the working directory, the script's directory, or a directory or archive that is run.
 * -EEXIST names the file. A program that does not exist shadows nothing. Makes system calls only. `argv`
 * as command_line_parse saw it, `cwd` absolute. */
int manifest_check_program(const struct manifest *manifest, const struct root_view *view,
                           const struct command_line *command_line, char *const *argv, const char *cwd,
                           struct error *err);

/* Check one directory in the same way. */
int manifest_check_shadow(const struct manifest *manifest, const struct root_view *view,
                          const char *directory, struct error *err);

/* Check that the variables that the imports read are unchanged. -ESTALE names one. */
int manifest_check_environment(const struct manifest *manifest, char *const *envp, struct error *err);

/* Check that the files of /proc and /sys that the imports read, and the answers to their questions, are
 * unchanged. -ESTALE names one. For a process of the container; makes system calls only. */
int manifest_check_values(const struct manifest *manifest, struct error *err);

/* Check the files of /proc and /sys, except those of the reader itself, for a container whose root is open.
 */
int manifest_check_kernel(const struct manifest *manifest, int root, struct error *err);

/* Check that this process may make files where the imports made some, for example in search of a directory
 * for temporary files (tempfile.gettempdir). -ESTALE names a directory. Makes system calls only. */
int manifest_check_places(const struct manifest *manifest, struct error *err);

/* Check whether a standard stream of this process is a terminal although the builder had none, and the
 * imports asked. -EEXIST: the snapshot still fits others. Makes system calls only. */
int manifest_check_streams(const struct manifest *manifest, struct error *err);

/* Facts about the snapshot. Strings point into the data. */
struct manifest_facts {
    const char *python; /* sys.version */
    const char *builder;
    int64_t built;
    struct warm_key key;
    size_t file_count, module_count; /* module_count: top-level names */
};
void manifest_describe(const struct manifest *manifest, struct manifest_facts *out);
/* Return the i-th top-level module name. */
const char *manifest_module(const struct manifest *manifest, size_t i);
