/* HOME of a user as the container's /etc/passwd (passwd(5)) says. */
#ifndef PYSBX_CONTAINER_CHILD_PASSWD_H
#define PYSBX_CONTAINER_CHILD_PASSWD_H

#include <stddef.h>
#include <sys/types.h>

/* Write "HOME=…" into out, in the container's root: the home directory of uid, or "/" if the file has no
 * entry or cannot be read. No library that could load code of the container (nss) takes part. */
void home_variable(uid_t uid, char *out, size_t size);
/* The same for a file that is open; negative: it cannot be read. */
void home_variable_of(int fd, uid_t uid, char *out, size_t size);

/* Return the home directory of uid in the text of a passwd file, which ends with NUL and is changed. Skip
 * entries whose directory is longer than `max`. NULL if there is none. */
const char *home_in_passwd(char *text, uid_t uid, size_t max);

#endif
