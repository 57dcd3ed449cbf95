/* Paths below an untrusted root. Every lookup uses openat2(2) with RESOLVE_IN_ROOT and without magic links,
 * so that no symbolic link of an image leads outside (CVE-2019-18837, CVE-2021-30465, CVE-2024-45310). */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

struct arena;

/* Open `path`, absolute or relative, with `rootfd` as "/": openat2(2) with RESOLVE_IN_ROOT |
 * RESOLVE_NO_MAGICLINKS. O_CLOEXEC is added. EAGAIN, from a rename during the lookup, is retried. Return a
 * descriptor or negative errno. */
int path_open_in_root(int rootfd, const char *path, int flags, mode_t mode);

/* The same without any symbolic link in the path (RESOLVE_NO_SYMLINKS): -ELOOP if there is one. */
int path_open_in_root_nosymlink(int rootfd, const char *path, int flags, mode_t mode);

/* Open a path of a trusted pseudo file system, with RESOLVE_BENEATH | RESOLVE_NO_XDEV |
 * RESOLVE_NO_MAGICLINKS. A file or directory that another mount covers is refused with -EXDEV
 * (CVE-2019-16884, CVE-2025-52881). */
int path_open_beneath(int dirfd, const char *path, int flags);

/* Open a path in the process's own root without magic links (RESOLVE_NO_MAGICLINKS). After the process has
 * entered the container's root, they would lead through its descriptors to the host. */
int path_open_no_magic(const char *path, int flags, mode_t mode);

/* Create the directory and its missing parents with this mode, following symbolic links that stay within the
 * root. Return an O_PATH descriptor of the directory, or negative errno. Nothing is created outside of the
 * root. */
int path_mkdir_in_root(int rootfd, const char *path, mode_t mode);

/* Create an empty regular file, and its missing parents with mode 0755, unless something exists there. Return
 * an O_PATH descriptor of the file, or negative errno. */
int path_mkfile_in_root(int rootfd, const char *path, mode_t mode);

/* Return the path, in the arena, without empty, "." and ".." components and with one leading slash. Only the
 * text is examined: "a/../b" becomes "/b". */
char *path_clean(struct arena *a, const char *path);

/* Copy a path to a buffer in which it may be changed. 0 or -ENAMETOOLONG. */
int path_copy(char out[static PATH_MAX], const char *path);

/* Return "dir/name" in the arena, or `name` if it is absolute. */
char *path_join(struct arena *a, const char *dir, const char *name);
