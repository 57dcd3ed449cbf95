/* HOME of a user as the container's /etc/passwd (passwd(5)) says. */
#ifndef PYSBX_CONTAINER_HOME_H
#define PYSBX_CONTAINER_HOME_H

#include <stddef.h>
#include <sys/types.h>

/* Write "HOME=…" into out: the home directory of uid, "/" when it has no entry or the file cannot be read. In
 * the container's root; no library that could load code of the container (nss) takes part. */
void home_variable(uid_t uid, char *out, size_t size);

/* Return the home directory of uid in the text of a passwd file, which ends with NUL and is changed; of
 * entries whose directory is longer than `max` none counts. NULL if there is none. */
const char *home_in_passwd(char *text, uid_t uid, size_t max);

#endif
