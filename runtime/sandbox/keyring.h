/* A separate session keyring for the container, so that the caller's keys stay out of its reach:
 * session-keyring(7), keyctl(2). */
#pragma once

struct error;

/* Child, while privileged and after selinux_apply_keycreate: join the session keyring named after the
 * container, and create it if it does not exist. `exec` finds the same keyring. Do not call it with
 * --no-new-keyring.
 * It is no error if the kernel has no keys, or if a filter around the runtime forbids them: the container
 * inherits that filter. An exhausted quota is an error, because the container could otherwise reach the
 * caller's keys. Return 0 or a negative errno. */
int keyring_join(const char *name, struct error *err);
