/* The open descriptors of a stopped process. */
#pragma once

struct arena;
struct dump_request;
struct error;
struct snapshot_parts;
struct tracee;

/* Put the descriptors that can be opened again into the header, all open for reading:
 * - /dev/urandom, which a Python without getrandom(2) keeps open.
 * - Files that are also mapped, which the parts name already. libffi has its own file open, to map its code
 *   more than once.
 * - For a builder (dump_request.began), regular files of the container, which the parts name then. PROJ keeps
 *   its database open. They count only if the snapshot describes them completely: no other flags, no lock,
 *   no position that two descriptors share.
 * Any other descriptor except 0, 1 and 2 is -ENOTSUP, by number and name. */
int dump_descriptors(struct tracee *t, const struct dump_request *request, struct arena *a,
                     struct snapshot_parts *parts, struct error *err);
