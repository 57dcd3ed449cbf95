/* A session keyring of its own for the container, so that the caller's keys stay with the caller:
 * session-keyring(7), keyctl(2). */
#ifndef PYSBX_SANDBOX_KEYRING_H
#define PYSBX_SANDBOX_KEYRING_H

struct error;

/* Child, while privileged and after selinux_apply_keycreate: join the session keyring named after the
 * container, made when there is none. `exec` calls it too and finds the same keyring. Not called with
 * --no-new-keyring. A kernel without keys, or a filter around the runtime that forbids them (which the
 * container inherits), is no error; an exhausted quota is: going on would leave the caller's keys within
 * reach. */
int keyring_join(const char *name, struct error *err);

#endif
