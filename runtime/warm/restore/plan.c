/* The list of system calls of a restore, and the texts of its errors. */
#include "warm/restore/plan.h"

#include <limits.h>
#include <linux/filter.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "warm/restore/request.h"

static const char *const texts[REPORT_COUNT] = {
    [REPORT_SIGNALS] = "set the signals",
    [REPORT_RSEQ] = "register restartable sequences",
    [REPORT_VDSO] = "move the vdso",
    [REPORT_UNMAP] = "unmap the runtime",
    [REPORT_MAP_FILE] = "map a file",
    [REPORT_MAP_MEMORY] = "map memory",
    [REPORT_MAP_SNAPSHOT] = "map pages of the snapshot",
    [REPORT_COPY] = "copy the stack or code",
    [REPORT_PROTECT] = "protect code",
    [REPORT_ADVICE] = "set properties of memory",
    [REPORT_THREAD] = "set the thread's identity",
    [REPORT_LAYOUT] = "set the layout of memory (PR_SET_MM_MAP)",
    [REPORT_NAME] = "set the process name",
    [REPORT_DESCRIPTOR] = "reopen descriptors",
    [REPORT_CLOSE] = "close descriptors",
    [REPORT_FILTER] = "load the seccomp filter",
    [REPORT_LABEL] = "set the label (/proc/self/attr/current)",
    [REPORT_CAPABILITIES] = "set the capabilities",
};

/* Steps that do not belong to a VMA, extent or page. There are two for each vdso or vvar area, one for each
 * signal, three for each descriptor, and some twenty single ones. */
#define STEPS_FIXED (2 * SNAPSHOT_MAX_VDSO + SNAPSHOT_SIGNALS + 3 * SNAPSHOT_MAX_DESCRIPTORS + 64)
/* For a VMA: the mapping, its advices, its protection. */
#define STEPS_VMA 9

#define OTHER_SIZE (16UL << 10) /* parameters, frame, layout */

size_t restore_plan_map_steps(const struct snapshot *snapshot)
{
    return snapshot->vma_count * STEPS_VMA + snapshot->extent_count + snapshot->patch_count +
           snapshot->write_count / IOV_MAX + 2;
}

/* The list may contain them all, or instead of them a step for each gap between VMAs. */
static size_t most_steps(const struct snapshot *snapshot, const struct restore_request *request)
{
    return STEPS_FIXED + restore_plan_map_steps(snapshot) + request->finish.close_from;
}

static size_t count(char *const *list)
{
    size_t n = 0;
    while (list[n] != NULL)
        n++;
    return n;
}

static size_t labels_size(const struct restore_finish *finish)
{
    size_t size = 0;
    for (size_t i = 0; i < sizeof(finish->labels) / sizeof(finish->labels[0]); i++)
        size += finish->labels[i].text != NULL ? strlen(finish->labels[i].text) : 0;
    return size;
}

size_t restore_plan_size(const struct snapshot *snapshot, const struct restore_request *request)
{
    const struct sock_fprog *filter = request->finish.filter;
    return (most_steps(snapshot, request) + restore_plan_map_steps(snapshot)) * sizeof(struct restorer_step) +
           REPORT_COUNT * sizeof(struct restorer_report) +
           (snapshot->write_count + snapshot->patch_count) * sizeof(struct iovec) +
           (filter != NULL ? filter->len : 0) * sizeof(struct sock_filter) + labels_size(&request->finish) +
           (count(request->argv) + count(request->envp) + 2) * sizeof(uint64_t) + OTHER_SIZE;
}

void *restore_plan_alloc(struct restore_plan *plan, size_t size)
{
    uint64_t address = (plan->next + 63) & ~63ULL;
    if (address + size > plan->end)
        abort(); /* restore_plan_size is wrong */
    plan->next = address + size;
    return (void *)address;
}

void *restore_plan_copy(struct restore_plan *plan, const void *data, size_t size)
{
    return memcpy(restore_plan_alloc(plan, size), data, size);
}

void restore_plan_begin(struct restore_plan *plan, int message)
{
    plan->next = plan->place->data;
    plan->end = plan->place->data + plan->place->data_size;
    struct restorer_work *work = restore_plan_alloc(plan, sizeof(*work));
    work->reports = restore_plan_alloc(plan, REPORT_COUNT * sizeof(*work->reports));
    for (size_t i = 0; i < REPORT_COUNT; i++) {
        struct restorer_report *report = &work->reports[i];
        report->message = message;
        int n = snprintf(report->text, sizeof(report->text), "warm start: %s: error 000", texts[i]);
        report->text_size = (uint32_t)n + 1;
    }
    size_t rest = most_steps(plan->snapshot, plan->request), map = restore_plan_map_steps(plan->snapshot);
    plan->rest.steps = restore_plan_alloc(plan, rest * sizeof(*plan->rest.steps));
    plan->map.steps = restore_plan_alloc(plan, map * sizeof(*plan->map.steps));
    plan->work = work;
}

void restore_list_add(struct restore_list *list, enum restore_report report, uint32_t flags, long number,
                      const uint64_t arguments[6])
{
    struct restorer_step *step = &list->steps[list->count++];
    step->number = number;
    memcpy(step->arguments, arguments, sizeof(step->arguments));
    step->report = report;
    step->flags = flags;
}
