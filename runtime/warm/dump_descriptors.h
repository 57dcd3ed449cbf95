/* The descriptors that a stopped process has open. */
#ifndef PYSBX_WARM_DUMP_DESCRIPTORS_H
#define PYSBX_WARM_DUMP_DESCRIPTORS_H

struct arena;
struct error;
struct image_parts;
struct tracee;

/* Put those that can be opened again into the header: of files that are mapped as well, which the parts name
 * already, open for reading; so has libffi its own file open, to map its code more than once. And of
 * /dev/urandom, which a Python that does not know getrandom(2) keeps open. Any other but 0, 1 and 2 is
 * -ENOTSUP, by number and name.
 */
int dump_descriptors(struct tracee *t, struct arena *a, struct image_parts *parts, struct error *err);

#endif
