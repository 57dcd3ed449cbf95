/* Which files a process may read, besides by its user and group: capabilities(7), further groups,
 * user_namespaces(7), mounts with mapped ids. A container that may read less must not get what the imports of
 * another one have read. */
#ifndef PYSBX_PREWARM_CREDENTIALS_H
#define PYSBX_PREWARM_CREDENTIALS_H

struct arena;
struct start;

/* Return these credentials of the program as a text for the key, in the arena. Of a user namespace that is
 * joined, the mapping is read from the process that its path names. NULL: the path names none, so the mapping
 * is unknown.
 */
const char *credentials_key(struct arena *a, const struct start *start);

#endif
