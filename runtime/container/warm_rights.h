/* What decides on access to files besides user and group, which the key of a snapshot has anyway: who may
 * read less must not be given what the imports of another have read. From the plan: capabilities(7), further
 * groups, user_namespaces(7), mounts with mapped ids; of a user namespace that is joined, from the uid_map
 * and gid_map of the process that it is named by. */
#ifndef PYSBX_CONTAINER_WARM_RIGHTS_H
#define PYSBX_CONTAINER_WARM_RIGHTS_H

struct arena;
struct plan;

/* The rights of the container's program as a text for the key (warm_context.rights); in the arena.
 * NULL: a user namespace is joined that does not tell which ids are mapped in it. */
const char *warm_rights(struct arena *a, const struct plan *plan);

#endif
