/* The credentials, besides user and group, that decide which files a process may read: capabilities(7),
 * supplementary groups, user_namespaces(7), idmapped mounts. A container that may read less must not get data
 * that the imports of another container have read. */
#pragma once

struct arena;
struct owners;
struct start;

/* Return how the container sees the owners of files, in the arena. For a joined user namespace, the mapping
 * is read from the process that its path names. NULL: the path names no process, so the mapping is unknown.
 */
const struct owners *credentials_owners(struct arena *a, const struct start *start);

/* Return the credentials of the program as a text for the key, in the arena. It has no IDs of the host: with
 * these, snapshots are shared if the files have the same owners (manifest_verify_as_seen). The exception is a
 * program that keeps groups of the host. */
const char *credentials_key(struct arena *a, const struct start *start, const struct owners *owners);
