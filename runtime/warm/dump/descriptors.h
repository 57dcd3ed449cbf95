/* The descriptors that a stopped process has open. */
#ifndef PYSBX_WARM_DUMP_DESCRIPTORS_H
#define PYSBX_WARM_DUMP_DESCRIPTORS_H

struct arena;
struct dump_request;
struct error;
struct snapshot_parts;
struct tracee;

/* Put those that can be opened again into the header, open for reading: of /dev/urandom, which a Python that
 * does not know getrandom(2) keeps open; of files that are mapped as well, which the parts name already, as
 * libffi has its own file open, to map its code more than once; and, of a template (dump_request.began), of
 * regular files that the container has, which the parts name then, as PROJ keeps its database open. These
 * only where the image says all that there is to it: no other flags, no lock, no position that two
 * descriptors share. Any other but 0, 1 and 2 is -ENOTSUP, by number and name. */
int dump_descriptors(struct tracee *t, const struct dump_request *request, struct arena *a,
                     struct snapshot_parts *parts, struct error *err);

#endif
