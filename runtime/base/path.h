/* Paths below a root that is not trusted: every step through openat2(2) with RESOLVE_IN_ROOT and without
 * magic links, so that no symbolic link of an image leads outside (CVE-2019-18837, CVE-2021-30465,
 * CVE-2024-45310). */
#ifndef PYSBX_BASE_PATH_H
#define PYSBX_BASE_PATH_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

struct arena;

/* openat2 of `path` (absolute or relative, resolved with `rootfd` as "/") with RESOLVE_IN_ROOT |
 * RESOLVE_NO_MAGICLINKS; O_CLOEXEC is added. EAGAIN (a rename raced with the walk) is retried. Returns a
 * descriptor or negative errno. */
int path_open_in_root(int rootfd, const char *path, int flags, mode_t mode);

/* The same, and no symbolic link at all on the way (RESOLVE_NO_SYMLINKS): -ELOOP when there is one. */
int path_open_in_root_nosymlink(int rootfd, const char *path, int flags, mode_t mode);

/* openat2 with RESOLVE_BENEATH | RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS: for trusted pseudo file systems,
 * where something mounted over a part of them must be refused (-EXDEV; CVE-2019-16884, CVE-2025-52881). */
int path_open_beneath(int dirfd, const char *path, int flags);

/* openat2 in the root that the process has entered, without magic links (RESOLVE_NO_MAGICLINKS): they would
 * lead through a descriptor that the process still has of the host. */
int path_open_no_magic(const char *path, int flags, mode_t mode);

/* Make the directory and what is missing above it (mode for each new one), following symbolic
 * links that stay within the root; returns an O_PATH descriptor of the directory or negative
 * errno. Nothing is made outside. */
int path_mkdir_in_root(int rootfd, const char *path, mode_t mode);

/* Make an empty regular file, and the directories above it with 0755, unless something exists there already;
 * returns an O_PATH descriptor of what is there or negative errno. */
int path_mkfile_in_root(int rootfd, const char *path, mode_t mode);

/* Open (O_PATH) the directory that holds the last component of `path`, making it with 0755 when missing;
 * *name points into `path`'s copy in the arena: the last component, never empty, "." or "..". Negative errno,
 * -EINVAL when there is no such component. */
int path_parent_in_root(struct arena *a, int rootfd, const char *path, const char **name);

/* Lexical clean-up of a path: no empty, "." or ".." component, one leading slash ("a/../b" is "/b"); in the
 * arena. */
char *path_clean(struct arena *a, const char *path);

/* Copy a path to where it may be changed. 0 or -ENAMETOOLONG. */
int path_copy(char out[static PATH_MAX], const char *path);

/* Join as "a/b" in the arena; an absolute b is taken as it is. */
char *path_join(struct arena *a, const char *dir, const char *name);

#endif
