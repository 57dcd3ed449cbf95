/* The mapped and open files of a stopped process. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct arena;
struct dump_request;
struct dump_vmas;
struct error;
struct file_identity;
struct snapshot_parts;
struct tracee;

/* Open each mapped file beneath the request's root, and put its path and identity into the parts. The VMAs'
 * indices become those of that table. VMAs of a missing file are saved by their content (DUMP_BY_CONTENT),
 * and those of a session's files in memory. -ENOTSUP if that is impossible, or if the file is not regular. */
int dump_files(const struct tracee *t, const struct dump_request *request, struct dump_vmas *vmas,
               struct arena *a, struct snapshot_parts *parts, struct error *err);

/* Put one more regular file into the parts, unless it is there already: its path and its expected identity.
 * Store its index in *file; return false if there is another file beneath `root`, or none. */
bool dump_files_add(int root, const char *path, const struct file_identity *identity, struct arena *a,
                    struct snapshot_parts *parts, uint32_t *file);
