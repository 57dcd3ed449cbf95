/* The list of system calls that exchanges the memory of this process for that of a snapshot. */
#ifndef PYSBX_WARM_RESTORE_PLAN_H
#define PYSBX_WARM_RESTORE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "warm/restore/place.h"
#include "warm/restore/restorer/work.h"
#include "warm/snapshot/snapshot.h"

struct restore_request;

/* What failed, for the reader of an error. */
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

struct restore_list {
    struct restorer_step *steps;
    size_t count;
};

struct restore_plan {
    const struct snapshot *snapshot;
    const struct restore_request *request;
    const struct restore_place *place;
    const int *files;                           /* descriptors, in the order of the image's table */
    int urandom;                                /* -1: not needed */
    uint64_t own_rseq;                          /* what the running C library has registered; 0: nothing */
    uint32_t own_rseq_size, own_rseq_signature; /* bytes */
    uint64_t own_vdso;                          /* where the kernel's code is now */
    uint64_t stack;                             /* where the snapshot's begins, with room to grow */
    uint64_t params;                            /* address of struct warm_params */
    uint64_t argument_start, argument_end, environment_start, environment_end; /* of the strings */

    struct restorer_work *work;
    struct restore_list rest, map; /* what the restorer carries out, and of that what maps the snapshot */
    size_t early;                  /* so many of the second, the first, take the image alone */
    bool begun, overlapped;        /* these were carried out; all were */
    bool copied;                   /* the write set is among these, as far as it lies there */
    uint64_t next, end;            /* free part of the place's data */
};

/* Bytes of the place's data that the plan needs at most, without the stack of the restorer. */
size_t restore_plan_size(const struct snapshot *snapshot, const struct restore_request *request);

/* Begin the lists, in the place's data; image, request and place are set. The first word of a report is
 * `message`. */
void restore_plan_begin(struct restore_plan *plan, int message);

/* Memory of the place's data, zeroed, aligned to 64 bytes; the same with a copy of `data`. */
void *restore_plan_alloc(struct restore_plan *plan, size_t size);
void *restore_plan_copy(struct restore_plan *plan, const void *data, size_t size);

/* Add a step: restore_step(list, report, flags, number, arguments…). */
void restore_list_add(struct restore_list *list, enum restore_report report, uint32_t flags, long number,
                      const uint64_t arguments[6]);
#define restore_step(list, report, flags, number, ...)                                                       \
    restore_list_add(list, report, flags, number, (const uint64_t[6]){__VA_ARGS__})

/* How many steps map the snapshot, at most. */
size_t restore_plan_map_steps(const struct snapshot *snapshot);

/* What maps the snapshot (restore_memory.c): a list of steps for the restorer.
 *
 * restore_plan_map_early carries out those that take the image alone, before there is a list, of the request
 * only the file is needed; with `copy` their part of the write set is made private.
 * restore_plan_map_overlapped carries out the rest of the list. true if the snapshot has nothing where this
 * process has something; else false: nothing of it is mapped, what was begun neither, and the restorer does
 * it all. restore_plan_unmap takes back what either has mapped. */
void restore_plan_map(struct restore_plan *plan);
bool restore_plan_map_early(struct restore_plan *plan, bool copy);
bool restore_plan_map_overlapped(struct restore_plan *plan);
void restore_plan_unmap(struct restore_plan *plan);

/* What the restorer carries out, in this order: the runtime's own registrations end (restore_process.c); its
 * memory goes, and the snapshot's comes if it is not there (restore_memory.c); signals, thread, layout, name
 * (restore_process.c); descriptors opened and closed, capabilities, labels, filter (the same), where
 * `report_fd`, if it is not negative, is the last to be closed. */
void restore_plan_leave(struct restore_plan *plan);
void restore_plan_memory(struct restore_plan *plan);
void restore_plan_process(struct restore_plan *plan);
void restore_plan_finish(struct restore_plan *plan, int report_fd);

/* The frame from which rt_sigreturn(2) sets the registers (restore_frame.c). */
void restore_plan_frame(struct restore_plan *plan);

#endif
