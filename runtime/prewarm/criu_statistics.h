/* The statistics of a checkpoint or restore as a file of CRIU, which Podman puts into its archive and shows.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum criu_statistics { CRIU_DUMP = 1, CRIU_RESTORE };

/* The fields of both, in the order of their numbers. Times in microseconds. */
enum {
    DUMP_FREEZING,
    DUMP_FROZEN,
    DUMP_MEMDUMP,
    DUMP_MEMWRITE,
    DUMP_SCANNED,
    DUMP_SKIPPED,
    DUMP_WRITTEN,
    DUMP_IRMAP,
    DUMP_LAZY,
    DUMP_FIELDS
};
enum { RESTORE_COMPARED, RESTORE_SKIPPED, RESTORE_FORKING, RESTORE_TIME, RESTORE_FIELDS };

/* The present time, for differences. */
uint64_t criu_statistics_time(void);

/* Write the file to the directory; NULL: to none. A failure is only logged, because the container does not
 * depend on it. */
void criu_statistics_write(const char *directory, enum criu_statistics kind, const uint64_t *fields,
                           size_t count);
