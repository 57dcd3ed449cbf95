/* The files that a stopped process has mapped, and that it has open. */
#ifndef PYSBX_WARM_DUMP_FILES_H
#define PYSBX_WARM_DUMP_FILES_H

#include <stdbool.h>
#include <stdint.h>

struct arena;
struct dump_vmas;
struct error;
struct file_identity;
struct snapshot_parts;

/* Open each mapped file beneath `root`, a descriptor, and put its path and identity into the parts; the
 * areas' indices become those of that table. Areas of a file that is not there are saved by their content
 * (DUMP_BY_CONTENT); -ENOTSUP if that cannot be, or for what is no regular file. */
int dump_files(int root, struct dump_vmas *vmas, struct arena *a, struct snapshot_parts *parts,
               struct error *err);

/* Put one more regular file into the parts, whether it is there already or not: the path and what it is
 * expected to be. Its index in *file, or false when there is another file beneath `root`, or none. */
bool dump_files_add(int root, const char *path, const struct file_identity *identity, struct arena *a,
                    struct snapshot_parts *parts, uint32_t *file);

#endif
