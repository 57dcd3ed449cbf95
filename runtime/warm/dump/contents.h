/* The pages of a process that were read when they were found, so that none is read twice. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct dump_base;
struct dump_vmas;
struct error;

/* Finds addresses of the process in the base, each time one that is not below the last. The counters begin as
 * zeros. */
struct dump_contents_cursor {
    const struct dump_base *base;
    const struct dump_vmas *vmas;
    size_t range, extent;
};

/* Return the position of the page in the file of the base, or 0. *mapped: the process has it mapped from
 * there. */
uint64_t dump_contents_position(struct dump_contents_cursor *cursor, uint64_t address, bool *mapped);

struct dump_content {
    uint64_t address;
    uint64_t same;    /* the position in the file of the base, if the page is the same there; else 0 */
    const char *data; /* if it is not the same */
};

/* The pages that are kept, in the order of their addresses. */
struct dump_contents {
    struct arena *arena;
    struct dump_contents_cursor cursor; /* its base: NULL without one */
    struct dump_content *items;
    size_t count, room;
    size_t next;       /* the item that dump_contents_find looks at first */
    char *kept, *base; /* memory for the data; a block of the base */
    size_t used;       /* bytes of the first */
    bool incomplete;   /* pages that differ were not kept */
    uint64_t page;
};

/* The number of pages that are added at once, at most. */
#define DUMP_CONTENTS_BLOCK 512

/* Always pass `out` to dump_contents_close. Return 0 or negative errno. */
int dump_contents_open(struct dump_contents *out, const struct dump_base *base, const struct dump_vmas *vmas,
                       struct arena *a, struct error *err);
void dump_contents_close(struct dump_contents *contents);

/* Return where a block of pages is best read to, for dump_contents_add; NULL: the limit of memory is reached.
 */
char *dump_contents_room(const struct dump_contents *contents);

/* Compare pages of the process with the base, and keep them. Pages that differ are kept only up to a limit of
 * memory. Return 0 or negative errno. */
int dump_contents_add(struct dump_contents *contents, uint64_t address, const char *data, size_t pages,
                      struct error *err);

/* Return the page of an address, or NULL if it was not kept. Addresses that follow each other are found
 * fast. */
const struct dump_content *dump_contents_find(struct dump_contents *contents, uint64_t address);
