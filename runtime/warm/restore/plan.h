/* The list of system calls that exchanges the memory of this process for that of a snapshot. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "warm/restore/place.h"
#include "warm/restore/restorer/work.h"
#include "warm/snapshot/snapshot.h"

struct restore_request;

/* The failed operation, for the reader of an error. */
enum restore_report {
    REPORT_SIGNALS,
    REPORT_RSEQ,
    REPORT_VDSO,
    REPORT_UNMAP,
    REPORT_MAP_FILE,
    REPORT_MAP_MEMORY,
    REPORT_MAP_SNAPSHOT,
    REPORT_COPY,
    REPORT_PROTECT,
    REPORT_ADVICE,
    REPORT_THREAD,
    REPORT_LAYOUT,
    REPORT_NAME,
    REPORT_DESCRIPTOR,
    REPORT_CLOSE,
    REPORT_LABEL,
    REPORT_FILTER,
    REPORT_CAPABILITIES,
    REPORT_COUNT,
};

/* The part of the snapshot that this process has mapped already. The restorer maps the snapshot unless that
 * is all. */
enum restore_mapped {
    RESTORE_MAPPED_NOTHING,
    RESTORE_MAPPED_EARLY,  /* what needs only the snapshot file */
    RESTORE_MAPPED_COPIED, /* and the part of the write set that belongs to it is private */
    RESTORE_MAPPED_ALL,
};

struct restore_list {
    struct restorer_step *steps;
    size_t count;
};

struct restore_plan {
    const struct snapshot *snapshot;
    const struct restore_request *request;
    const struct restore_place *place;
    const int *files;                           /* descriptors, in the order of the snapshot's table */
    int urandom;                                /* -1: not needed */
    uint64_t own_rseq;                          /* registered by the running C library; 0: nothing */
    uint32_t own_rseq_size, own_rseq_signature; /* bytes */
    uint64_t own_vdso;                          /* current address of the kernel's code */
    uint64_t stack;                             /* start of the snapshot's stack, with room to grow */
    uint64_t params;                            /* address of struct warm_params */
    uint64_t argument_start, argument_end, environment_start, environment_end; /* of the strings */

    struct restorer_work *work;
    struct restore_list rest, map; /* the restorer's steps, and those of them that map the snapshot */
    size_t early; /* number of steps of `map`, the first ones, that need only the snapshot file */
    enum restore_mapped mapped;
    uint64_t next, end; /* free part of the place's data */
};

/* Return the maximum bytes of the place's data that the plan needs, without the restorer's stack. */
size_t restore_plan_size(const struct snapshot *snapshot, const struct restore_request *request);

/* Begin the lists, in the place's data; snapshot, request and place are set. The first word of a report is
 * `message`. */
void restore_plan_begin(struct restore_plan *plan, int message);

/* Allocate memory of the place's data, zeroed and aligned to 64 bytes, or fill it with a copy of `data`. */
void *restore_plan_alloc(struct restore_plan *plan, size_t size);
void *restore_plan_copy(struct restore_plan *plan, const void *data, size_t size);

/* Add a step: restore_step(list, report, flags, number, arguments…). */
void restore_list_add(struct restore_list *list, enum restore_report report, uint32_t flags, long number,
                      const uint64_t arguments[6]);
#define restore_step(list, report, flags, number, ...)                                                       \
    restore_list_add(list, report, flags, number, (const uint64_t[6]){__VA_ARGS__})

/* Return the maximum number of steps that map the snapshot. */
size_t restore_plan_map_steps(const struct snapshot *snapshot);

/* Map the snapshot (restore/memory.c). restore_plan_map adds the steps for the restorer.
 *
 * restore_plan_map_early carries out the steps that need only the snapshot file. There is no list yet, and
 * only the file of the request is needed; with `copy` their part of the write set is made private.
 * restore_plan_map_overlapped carries out the rest of the list. Both return true if the snapshot has nothing
 * at the addresses of this process. Otherwise they return false: nothing of the snapshot is mapped, not even
 * what was begun, and the restorer does everything. restore_plan_unmap undoes the mappings of either. */
void restore_plan_map(struct restore_plan *plan);
bool restore_plan_map_early(struct restore_plan *plan, bool copy);
bool restore_plan_map_overlapped(struct restore_plan *plan);
void restore_plan_unmap(struct restore_plan *plan);

/* Add the restorer's other steps, in this order:
 * - End the runtime's own registrations (restore/process.c).
 * - Unmap its memory, and map the snapshot if that is not done yet (restore/memory.c).
 * - Set signals, thread, layout and name (restore/process.c).
 * - Open and close descriptors, set capabilities, labels and filter (restore/process.c). `report_fd`, if it
 * is
 *   not negative, is closed last. */
void restore_plan_leave(struct restore_plan *plan);
void restore_plan_memory(struct restore_plan *plan);
void restore_plan_process(struct restore_plan *plan);
void restore_plan_finish(struct restore_plan *plan, int report_fd);

/* Make the frame from which rt_sigreturn(2) sets the registers (restore/frame.c). */
void restore_plan_frame(struct restore_plan *plan);
