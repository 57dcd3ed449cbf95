/* Taking a container away. */
#ifndef PYSBX_CONTAINER_DELETE_H
#define PYSBX_CONTAINER_DELETE_H

struct error;
struct record;
struct runtime_options;

/* Kill what is left of the container and remove everything that its record names, the poststop hooks run,
 * then the record. root, dir: the state root and the container's directory. */
int delete_recorded(int root, int dir, const struct record *record, struct error *err);

/* Take away what a killed runtime left of a template; `id` as template_id gave it. */
void template_delete(const struct runtime_options *rt, const char *id);

#endif
