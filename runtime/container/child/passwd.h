/* The home directory of a user, from the container's /etc/passwd (passwd(5)). */
#pragma once

#include <stddef.h>
#include <sys/types.h>

struct error;

/* Write "HOME=…" into out, which has `size` bytes: the home directory of uid. It is "/" without an entry, and
 * without a file that this process may open. Call this in the container's root. It uses no library that could
 * load code of the container (nss). Return 0, or a negative errno if reading fails. */
int home_variable(uid_t uid, char *out, size_t size, struct error *err);
/* Do the same with a file that is already open. A negative descriptor means that there is none. Return 0, or
 * a negative errno, and "/" in out. */
int home_variable_of(int fd, uid_t uid, char *out, size_t size);

/* Return the home directory of uid in the text of a passwd file, which ends with NUL. The text is changed,
 * and the result points into it. Skip entries whose directory is longer than `max`. NULL if there is none. */
const char *home_in_passwd(char *text, uid_t uid, size_t max);
