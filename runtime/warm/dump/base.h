/* Leave out of a snapshot what its base has. */
#pragma once

struct arena;
struct dump_base;
struct dump_contents;
struct dump_vmas;
struct error;
struct snapshot_parts;
struct tracee;

/* Let the extents of pages that are the same in the base refer to it, and turn small extents between them
 * into patches. VMAs and extents are complete. `contents`: from
 * dump_vmas_scan. Return 0 or negative errno. */
int dump_base_leave_out(const struct tracee *t, const struct dump_base *base, const struct dump_vmas *vmas,
                        struct dump_contents *contents, struct arena *a, struct snapshot_parts *parts,
                        struct error *err);
