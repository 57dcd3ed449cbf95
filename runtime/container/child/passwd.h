/* The home directory of a user, from the container's /etc/passwd (passwd(5)). */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/* Write "HOME=…" into out, which has `size` bytes: the home directory of uid, or "/" if the file has no entry
 * or cannot be read. Call this in the container's root. It uses no library that could load code of the
 * container (nss). */
void home_variable(uid_t uid, char *out, size_t size);
/* Do the same with a file that is already open. A negative descriptor means that the file cannot be read. */
void home_variable_of(int fd, uid_t uid, char *out, size_t size);

/* Return the home directory of uid in the text of a passwd file, which ends with NUL. The text is changed,
 * and the result points into it. Skip entries whose directory is longer than `max`. NULL if there is none. */
const char *home_in_passwd(char *text, uid_t uid, size_t max);
