/* The loopback device of a new network namespace: netdevice(7). */
#pragma once

struct error;

/* Child, in its new network namespace and with CAP_NET_ADMIN there: set "lo" up. Return 0 or a negative
 * errno. */
int loopback_up(struct error *err);
