/* The credentials, besides user and group, that decide which files a process may read: capabilities(7),
 * supplementary groups, user_namespaces(7), idmapped mounts. A container that may read less must not get data
 * that the imports of another container have read. */
#ifndef PYSBX_PREWARM_CREDENTIALS_H
#define PYSBX_PREWARM_CREDENTIALS_H

struct arena;
struct start;

/* Return these credentials of the program as a text for the key, in the arena. For a joined user namespace,
 * the mapping is read from the process that its path names. NULL: the path names no process, so the mapping
 * is unknown. */
const char *credentials_key(struct arena *a, const struct start *start);

#endif
